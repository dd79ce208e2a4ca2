//! Enums that list their variants, for code and tests that iterate over all of them.

/// Defines an enum that lists its variants.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All variants, in declaration order.
            pub const ALL: &[$name] = &[$($name::$variant,)*];
        }
    };
}
pub(crate) use choices;
