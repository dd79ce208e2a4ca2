//! The rules for names of registered backends, checked at compile time and at run time.

use super::{auto, built_in::BUILT_IN};

/// Names that cannot be registered, beside the names of this crate's backends: values of settings that name a
/// backend.
const RESERVED: [&str; 2] = [auto::NAME, "none"];

/// Why a name cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameFault {
    /// The name has not the form [`NAME_FORM`](crate::error::NAME_FORM).
    Malformed,
    /// The name is that of a backend of this crate, or means something in the settings.
    Reserved,
}

/// Why the name cannot be registered, if it cannot. A constant function, so that the macro
/// [`register_backend!`](crate::register_backend) rejects a name at compile time.
pub(super) const fn name_fault(name: &str) -> Option<NameFault> {
    if !is_well_formed(name) {
        return Some(NameFault::Malformed);
    }
    let mut nth = 0;
    while nth < BUILT_IN.len() {
        if is_same(name, BUILT_IN[nth].name) {
            return Some(NameFault::Reserved);
        }
        nth += 1;
    }
    let mut nth = 0;
    while nth < RESERVED.len() {
        if is_same(name, RESERVED[nth]) {
            return Some(NameFault::Reserved);
        }
        nth += 1;
    }
    None
}

/// The reserved names, in words.
pub(super) fn reserved_names() -> String {
    let names: Vec<&str> = BUILT_IN.iter().map(|backend| backend.name).chain(RESERVED).collect();
    names.join(", ")
}

const fn is_well_formed(name: &str) -> bool {
    let name = name.as_bytes();
    let mut nth = 0;
    while nth < name.len() {
        if !matches!(name[nth], b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_') {
            return false;
        }
        nth += 1;
    }
    !name.is_empty() && name.len() <= 64 && name[0].is_ascii_lowercase()
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut nth = 0;
    while nth < a.len() && nth < b.len() && a[nth] == b[nth] {
        nth += 1;
    }
    nth == a.len() && nth == b.len()
}
