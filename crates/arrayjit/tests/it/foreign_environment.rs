//! Inherited arguments and variables need not be text.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use arrayjit::Backend;
use codegen_testkit::{is_in_own_process, run_in_own_process};

#[test]
fn variables_that_are_not_text_are_left_alone() {
    const NAME: &str = "foreign_environment::variables_that_are_not_text_are_left_alone";
    if is_in_own_process(NAME) {
        assert_eq!(Backend::open("interpreter").unwrap().name(), "interpreter");
        return;
    }
    let bytes = OsStr::from_bytes(b"\xff\xfe");
    run_in_own_process(NAME, |child| {
        child.env("UNRELATED", bytes).env(bytes, "x");
    });
}
