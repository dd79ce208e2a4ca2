//! Tables of identifiers that are only looked up.

/// A table that is looked up by identifier and never iterated, so its order cannot be observed.
///
/// Routines have tens of thousands of loops, and analyses look up the loops of every index: a search tree
/// would spend most of their time on cache misses.
pub type IdMap<K, V> = rustc_hash::FxHashMap<K, V>;
