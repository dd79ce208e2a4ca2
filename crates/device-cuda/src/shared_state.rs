//! State that the streams of a device share, and the classification of errors.

use std::sync::{Arc, OnceLock};

use device_runtime::DriverError;

use crate::api::{CallError, Context, StagingPool};

use crate::Result;

/// The driver's name in errors.
pub(crate) const DRIVER_NAME: &str = "cuda";

/// Error codes after which a context is unusable, by the driver's numbers: memory errors of the device, a
/// lost device, and all errors of running kernels.
const DEVICE_LOST_CODES: [u32; 21] =
    [4, 46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 806, 807, 810, 999];

/// A device's context, the reason if it is lost, and staging memory for copies.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) context: Arc<Context>,
    pub(crate) staging: Arc<StagingPool>,
    lost: OnceLock<String>,
}

impl SharedState {
    pub(crate) fn new(context: Arc<Context>) -> Arc<SharedState> {
        let staging = StagingPool::new(&context);
        Arc::new(SharedState { context, staging, lost: OnceLock::new() })
    }

    /// The reason why the device is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Marks the device as lost; the first reason is kept.
    pub(crate) fn lose(&self, why: String) {
        if self.lost.set(why).is_ok() {
            tracing::error!(device = self.context.gpu.ordinal, why = self.lost(), "device lost");
        }
    }

    /// # Errors
    ///
    /// [`DriverError::Lost`] if the device is lost.
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.lost().map_or(Ok(()), |why| Err(lost_error(why)))
    }

    /// The error of a lost device, if the device is known to be lost or `error` implies it. `during`
    /// describes the pending tasks.
    pub(crate) fn lost_by(&self, error: &CallError, during: impl FnOnce() -> String) -> Option<DriverError> {
        if self.lost().is_none() && is_device_lost(error) {
            self.lose(format!("{error}{}", during()));
        }
        self.check_alive().err()
    }

    /// The error of a call that belongs to no stream's task.
    pub(crate) fn platform(&self, error: CallError) -> DriverError {
        self.lost_by(&error, String::new).unwrap_or_else(|| platform(&error))
    }
}

/// The error of a failed call, without a check for a lost device.
pub(crate) fn platform(error: &CallError) -> DriverError {
    DriverError::Platform { what: error.call, message: error.message() }
}

/// Whether the error means that the device is out of memory.
pub(crate) fn is_out_of_memory(error: &CallError) -> bool {
    error.code == 2
}

/// Whether the error means that the context is unusable.
pub(crate) fn is_device_lost(error: &CallError) -> bool {
    DEVICE_LOST_CODES.contains(&error.code)
}

pub(crate) fn lost_error(why: &str) -> DriverError {
    DriverError::Lost { driver: DRIVER_NAME.to_owned(), message: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_running_kernels_lose_the_device_and_rejected_calls_do_not() {
        let error = |code| CallError {
            call: "cuTest",
            code,
            name: "DRIVER_NAME".to_owned(),
            text: "text".to_owned(),
        };
        assert!([700, 719, 714, 214, 999].into_iter().all(|code| is_device_lost(&error(code))));
        assert!([1, 2, 218, 500, 600, 701, 704].into_iter().all(|code| !is_device_lost(&error(code))));
        assert!(DEVICE_LOST_CODES.is_sorted());
        assert_eq!(platform(&error(1)).to_string(), "cuTest: DRIVER_NAME (1): text");
    }
}
