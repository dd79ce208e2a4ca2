//! A code generator that writes C: the example of a codegen outside of this project's workspace.
//!
//! [`CRenderer`] turns each scheduled kernel into a C function of the native ABI, and [`CCompiler`] runs the
//! system's C compiler on the functions of a routine and loads the shared library.
//! `docs/writing-a-codegen.md` walks through the sources.
//!
//! # Example
//!
//! ```
//! use codegen_core::Codegen;
//! use scheduling::{ScheduleOptions, schedule};
//!
//! let routine = codegen_core::text::parse(
//!     "routine @double strict {
//!        node %0 \"x\" f32[4] on_device
//!        node %1 \"y\" f32[4] on_device
//!        for i0 in 0..4 { %1[i0] := %0[i0] + %0[i0] }
//!      }",
//! )?;
//! let codegen = codegen_c::codegen();
//! let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default())?;
//! assert!(codegen.listing(&scheduled.kernels()[0])?.source.contains("const float v0 = p1[i0] + p1[i0];"));
//! assert_eq!(codegen.compile(&scheduled)?.kernels().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * The compiler's flags keep every bit: no contraction, no reordering, integers wrap.
//! * The library and its temporary folder are freed with the last clone of the artifact.
//! * A failure of the C compiler is a [`CodegenError::Failed`](codegen_core::CodegenError) with the line of
//!   C.

mod compile;
mod expr;
mod render;
mod wide;

use codegen_core::{Caps, Pipeline};

pub use compile::{CCompiler, COptions, CSource};
pub use render::CRenderer;

/// The code generator with the default options: `cc`, and no further flags.
pub fn codegen() -> Pipeline<CRenderer, CCompiler> {
    with_options(COptions::default())
}

/// The code generator with these options.
pub fn with_options(options: COptions) -> Pipeline<CRenderer, CCompiler> {
    let (name, version) = (compile::CODEGEN.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    Pipeline { name, version, caps: caps(), renderer: CRenderer, compiler: CCompiler, options }
}

/// A host with every type, threads, and vectors that GCC finds in the scheduler's loops.
fn caps() -> Caps {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let host = Caps::host(format!("c-{}", std::env::consts::ARCH));
    Caps { threads, vector_bytes: 32, vector_registers: 16, ..host }
}
