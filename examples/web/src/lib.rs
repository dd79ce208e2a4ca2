//! Exports kernels as one static page that runs them on a browser's WebGPU and reports whether the results
//! are correct.
//!
//! A page holds the kernels' WGSL, the contents of nodes before and after runs, and a readable harness: the
//! device's side of the kernel ABI in JavaScript (`examples/web/page`).
//!
//! # Should I be using this crate?
//!
//! To write a page, run `cargo xtask export-web`. To check kernels with a browser's compiler, make a
//! [`page::Page`] that has only kernels, and open it in a [`browser::Browser`].
//!
//! # Promises
//!
//! * A page is one file and loads nothing else.
//! * The expected results in a page are computed without the kernels under test: by the interpreter, or by
//!   another backend.
//! * [`browser::Browser`] ends every browser that it starts, also after an error, and every wait has a time
//!   limit.
#![forbid(unsafe_code)]

pub mod page;

mod link;

pub mod digits;
pub mod lir;

pub mod browser;
mod server; // serves a page at 127.0.0.1
