//! Programs whose output nobody reads any more.
#![cfg(unix)]

use std::{
    io,
    process::{Command, Stdio},
};

/// A text of many lines ends the program by its signal, rather than by a panic, after the reader has gone.
#[test]
fn a_program_ends_quietly_with_the_reader_of_its_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("many.assign");
    std::fs::write(&file, "repeat h in 0..2000 { y[h] := h }\n").expect("written");
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let program = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["assign", "expand"])
        .arg(&file)
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("the program runs");
    let messages = String::from_utf8_lossy(&program.stderr);
    assert!(!program.status.success() && messages.is_empty(), "{}: {messages}", program.status);
}
