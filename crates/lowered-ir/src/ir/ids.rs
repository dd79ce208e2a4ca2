//! Typed identifiers; the `Display` of each is its token in the text form.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier as a position.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id! {
    /// A node by its position in [`LoweredRoutine::nodes`](super::LoweredRoutine::nodes); printed `%3`.
    NodeRef, "%"
}
id! {
    /// A loop variable, unique within a routine; printed `i3`.
    LoopId, "i"
}
id! {
    /// A declared local (scalar or array), unique within a routine; printed `l3`.
    LocalId, "l"
}
id! {
    /// A static symbol by its position in [`LoweredRoutine::symbols`](super::LoweredRoutine::symbols); the text form prints
    /// its name, `@step`.
    SymbolId, "@"
}
