//! What the streams of a device share, and what its errors mean.

use std::sync::{Arc, OnceLock};

use device_runtime::DriverError;

use crate::api::{CallError, Context, Staging};

/// The driver's name in errors.
pub(crate) const NAME: &str = "cuda";

/// Errors after which a context does nothing any more, by the driver's number: memory errors of the device, its loss, and everything
/// that a kernel does wrong while it runs.
const LOSSES: [u32; 21] =
    [4, 46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 806, 807, 810, 999];

/// A device's context, whether it is lost, and memory for copies.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) context: Arc<Context>,
    pub(crate) staging: Arc<Staging>,
    lost: OnceLock<String>,
}

impl Core {
    pub(crate) fn new(context: Arc<Context>) -> Arc<Core> {
        let staging = Staging::new(&context);
        Arc::new(Core { context, staging, lost: OnceLock::new() })
    }

    /// Why the device is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Marks the device lost; the first reason counts.
    pub(crate) fn lose(&self, why: String) {
        if self.lost.set(why).is_ok() {
            tracing::error!(device = self.context.gpu.ordinal, why = self.lost(), "device lost");
        }
    }

    /// # Errors
    ///
    /// [`DriverError::Lost`].
    pub(crate) fn alive(&self) -> Result<(), DriverError> {
        self.lost().map_or(Ok(()), |why| Err(lost_error(why)))
    }

    /// The loss, if it is known or this error means it. `during` says what went on.
    pub(crate) fn loss(&self, error: &CallError, during: impl FnOnce() -> String) -> Option<DriverError> {
        if self.lost().is_none() && is_loss(error) {
            self.lose(format!("{error}{}", during()));
        }
        self.alive().err()
    }

    /// An error of a call that is no stream's task.
    pub(crate) fn platform(&self, error: CallError) -> DriverError {
        self.loss(&error, String::new).unwrap_or_else(|| platform(&error))
    }
}

/// A call that was refused, as it is.
pub(crate) fn platform(error: &CallError) -> DriverError {
    DriverError::Platform { what: error.call, message: error.message() }
}

/// Whether the device has too little memory.
pub(crate) fn is_out_of_memory(error: &CallError) -> bool {
    error.code == 2
}

/// Whether the context is of no use any more.
pub(crate) fn is_loss(error: &CallError) -> bool {
    LOSSES.contains(&error.code)
}

pub(crate) fn lost_error(why: &str) -> DriverError {
    DriverError::Lost { driver: NAME.to_owned(), message: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_does_wrong_loses_the_device_and_a_refusal_does_not() {
        let error =
            |code| CallError { call: "cuTest", code, name: "NAME".to_owned(), text: "text".to_owned() };
        assert!([700, 719, 714, 214, 999].into_iter().all(|code| is_loss(&error(code))));
        assert!([1, 2, 218, 500, 600, 701, 704].into_iter().all(|code| !is_loss(&error(code))));
        assert!(LOSSES.is_sorted());
        assert_eq!(platform(&error(1)).to_string(), "cuTest: NAME (1): text");
    }
}
