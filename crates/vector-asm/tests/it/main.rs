//! The integration tests that may share a process. They are one program, since each program has to be linked.

mod by_example;
mod common;
mod random;
mod rejections;
mod tiles;
