//! Inherited arguments and variables need not be text.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{env, ffi::OsStr, os::unix::ffi::OsStrExt, process::Command};

use arrayjit::Backend;

const CHILD: &str = "FOREIGN_ENVIRONMENT_CHILD";

#[test]
fn variables_that_are_not_text_are_left_alone() {
    if env::var_os(CHILD).is_some() {
        assert_eq!(Backend::open("interpreter").unwrap().name(), "interpreter");
        return;
    }
    let bytes = OsStr::from_bytes(b"\xff\xfe");
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "variables_that_are_not_text_are_left_alone"]);
    child.env(CHILD, "1").env("UNRELATED", bytes).env(bytes, "x");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
