//! Executable memory of the process: machine code packed into few mappings and freed with its last owner.
//!
//! # Should I be using this crate?
//!
//! `vector-asm` and `codegen-cranelift` load the code that they generate through this crate. Use it for
//! generated code of your own, which must be position independent and final: relocations are resolved before
//! the code is loaded.
//!
//! # How memory is organised
//!
//! Code lies in chunks of 1 MiB, each a single mapping of private anonymous memory. Loaded code takes whole
//! pages of a chunk. While no code is being written, all pages of a chunk are readable and executable. The
//! system then keeps one mapping for the chunk, or for several adjacent chunks, however many pieces of code
//! they hold. Pages are taken by best fit. Freed pages are used again; a chunk without code is unmapped.
//!
//! Code is written through the address where it runs, while its pages are readable and writable; then they
//! become readable and executable. No page is ever writable and executable at once, and the protection of a
//! page changes only while no code on it is loaded. A process made by `fork` has a copy of the code, as of
//! all private memory. `docs/adr/0021-code-shares-mappings.md` compares this with the alternatives.
//!
//! # Example
//!
//! ```
//! # #[cfg(target_arch = "x86_64")] {
//! use code_memory::LoadedCode;
//!
//! // mov eax, 42; ret
//! let code = LoadedCode::load(&[&[0xb8, 42, 0, 0, 0, 0xc3]])?;
//! // SAFETY: the bytes are a whole function of this type, and `code` outlives the call.
//! let function = unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> u32>(code.address(0)) };
//! assert_eq!(function(), 42);
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
#![deny(unsafe_code)]

mod free_ranges; // allocation of pages by best fit

mod chunk; // one mapping and its protection: the unsafe code

mod barrier; // invalidation of fetched instructions on other processors

mod arena; // all chunks and the code in them

pub use crate::arena::{ALIGNMENT, CodeMemoryUsage, LoadedCode, usage};
