//! Options: consuming methods with the names of torch's arguments.

/// Defines methods that set an option and return the value.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $($field:ident).+;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$($field).+ = $name.into();
            self
        }
    )*};
}

pub(crate) use options;
