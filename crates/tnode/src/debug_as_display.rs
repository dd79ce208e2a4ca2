//! The `Debug` form of errors: the message that `Display` writes.

/// Implements `Debug` of error types as their `Display`.
///
/// Rust prints `Debug` where `main` returns an error, and where `unwrap` or `expect` finds an error. A
/// derived `Debug` would show fields there; a message shows what to change, and for an error in a text, the
/// line with a caret under it.
///
/// ```
/// #[derive(thiserror::Error)]
/// #[error("no axis {axis}")]
/// struct NoSuchAxis {
///     axis: usize,
/// }
/// tnode::debug_as_display!(NoSuchAxis);
///
/// assert_eq!(format!("{:?}", NoSuchAxis { axis: 3 }), "no axis 3");
/// ```
#[macro_export]
macro_rules! debug_as_display {
    ($($error:ty),+ $(,)?) => {
        $(impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
