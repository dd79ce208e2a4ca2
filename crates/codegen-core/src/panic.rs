//! Payloads of caught panics: their messages, and how to drop them.
//!
//! A payload is any value, so its destructor may panic as well. A thread that caught one panic must not end
//! by another one, because other threads may wait for it.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The message of a caught panic, whose payload is dropped. Never panics.
///
/// ```
/// let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new("no luck"))).unwrap_err();
/// assert_eq!(codegen_core::panic_message(caught), "no luck");
/// ```
pub fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    drop_payload(payload);
    text.unwrap_or_else(|| "it panicked".to_owned())
}

/// Drops the payload of a caught panic. Never panics.
pub(crate) fn drop_payload(payload: Box<dyn Any + Send>) {
    // AssertUnwindSafe: the payload does not exist afterwards.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // Leaked, because its destructor may panic again.
        std::mem::forget(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload whose destructor panics with another one of its kind.
    struct Nested;

    impl Drop for Nested {
        fn drop(&mut self) {
            std::panic::panic_any(Nested);
        }
    }

    #[test]
    fn payloads_that_panic_when_dropped_stay_inside() {
        let caught = catch_unwind(|| std::panic::panic_any(Nested)).expect_err("it panics");
        assert_eq!(panic_message(caught), "it panicked");
    }

    #[test]
    fn messages_are_text_or_nothing() {
        let message = |panic: fn()| panic_message(catch_unwind(panic).expect_err("it panics"));
        assert_eq!(message(|| panic!("a text")), "a text");
        assert_eq!(message(|| panic!("text {}", 1)), "text 1");
        assert_eq!(message(|| std::panic::panic_any(7)), "it panicked");
    }
}
