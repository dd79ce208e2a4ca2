//! The integration tests that may share a process, as one program, since each program costs a link.

mod by_example;
mod common;
mod random;
mod rejections;
mod tiles;
