//! The choice of a device by position or by name.

use std::{fmt, str::FromStr};

use crate::open::{CudaOpenError, devices};

/// Which device of this machine to open. As text: a position, part of a name, or nothing for the first
/// device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceChoice {
    /// The device at a position of [`devices`].
    Ordinal(u32),
    /// The first device whose name, or other text of its [`DeviceInfo`](crate::DeviceInfo), contains this
    /// text; case is ignored.
    Name(String),
}

impl Default for DeviceChoice {
    fn default() -> DeviceChoice {
        DeviceChoice::Ordinal(0)
    }
}

impl FromStr for DeviceChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        Ok(match text.parse() {
            Ok(ordinal) => DeviceChoice::Ordinal(ordinal),
            Err(_) if text.is_empty() => DeviceChoice::default(),
            Err(_) => DeviceChoice::Name(text.to_owned()),
        })
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Ordinal(ordinal) => write!(f, "{ordinal}"),
            DeviceChoice::Name(name) => write!(f, "with `{name}` in its name"),
        }
    }
}

impl DeviceChoice {
    /// The position of the chosen device. Opening the device says whether there is one at a given position.
    ///
    /// # Errors
    ///
    /// [`CudaOpenError::NoSuchDevice`] lists the devices if none has the name. Otherwise fails like
    /// [`devices`].
    pub fn ordinal(&self) -> Result<u32, CudaOpenError> {
        let name = match self {
            DeviceChoice::Ordinal(ordinal) => return Ok(*ordinal),
            DeviceChoice::Name(name) => name.to_lowercase(),
        };
        let found = devices()?;
        let chosen = found.iter().find(|info| info.to_string().to_lowercase().contains(&name));
        let chosen = chosen.map(|info| info.ordinal);
        chosen.ok_or_else(|| CudaOpenError::NoSuchDevice { wanted: self.clone(), found })
    }
}
