//! Exports kernels as one static page that runs them on a browser's WebGPU and says whether the results are
//! right.
//!
//! A page holds the kernels' WGSL, the contents of nodes before and after runs, and a harness that a person
//! can read: it is the device's side of the kernel ABI in JavaScript (`web/page`).
//!
//! # Should I be using this crate?
//!
//! To make a page, `cargo xtask export-web`. To have a browser's compiler judge kernels, [`page::Page`] with
//! kernels alone and [`browser::Browser`].
//!
//! # Promises
//!
//! * A page is one file and asks for nothing else, from nowhere.
//! * What it compares with was computed without the kernels under test: by the interpreter, or by another
//!   backend.
//! * A browser that [`browser::Browser`] starts is ended, whatever happens, and nothing waits forever.
#![forbid(unsafe_code)]

pub mod page; // what a page holds, and the file made of it

mod link; // nodes and calls -> slabs and tables

pub mod digits; // pages of the digits example
pub mod lir; // pages of `.lir` files

pub mod browser; // opening a page and bringing back its report
mod server; // the page on this machine's own address
