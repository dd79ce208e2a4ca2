//! Typed PTX programs, built and checked in Rust and printed as text, without an SDK or a driver.
//!
//! # Should I be using this crate?
//!
//! Use it if you generate kernels for NVIDIA GPUs and want mistakes reported before an assembler, a driver or
//! a wrong result shows them. You build a [`PtxProgram`]: instructions on typed registers, in a tree of
//! branches and loops. [`check()`] reports the first rule that the program breaks, with the kernel and the
//! instruction; [`print()`] writes the text that a driver or `ptxas` takes. The crate knows nothing of arrays
//! beyond their bytes, and needs neither an SDK nor a driver.
//!
//! To run programs without a GPU, use the crate `ptx-sim`, a simulated GPU for tests.
//!
//! # Example
//!
//! ```
//! use ptx_asm::{
//!     AddressOperand, CmpOp, GuardPredicate, PtxBuilder, PtxError, PtxKernel, PtxProgram, SpecialReg,
//!     StateSpace, Target, Ty, check, print,
//! };
//!
//! // y[i] = x[i] + x[i] for i < n; the parameters are x, y and n.
//! let mut b = PtxBuilder::new("double", 3, 256);
//! let (block, thread) = (b.special(SpecialReg::Block), b.special(SpecialReg::Thread));
//! let i = b.mul_add(Ty::U32, block, 256_u32, thread);
//! let n = b.param(2);
//! let wide = b.mul_add_wide(Ty::U32, i, 1_u32, 0_u64);
//! let inside = b.compare(CmpOp::Lt, Ty::U64, wide, n);
//! b.when(GuardPredicate::on(inside), |b| {
//!     let (x, y) = (b.param(0), b.param(1));
//!     let from = b.mul_add_wide(Ty::U32, i, 4_u32, x);
//!     let value = b.load(StateSpace::Global, Ty::F32, true, AddressOperand::at(from));
//!     let sum = b.add(Ty::F32, value, value);
//!     let to = b.mul_add_wide(Ty::U32, i, 4_u32, y);
//!     b.store(StateSpace::Global, Ty::F32, AddressOperand::at(to), sum);
//! });
//! let kernel = b.finish();
//! let program = PtxProgram { target: Target::Sm70, kernels: vec![kernel.clone()] };
//! check(&program)?;
//! assert!(print(&program).contains("ld.global.nc.f32"));
//!
//! // A mistake is an error that names the kernel: a block has at most 1024 threads.
//! let kernels = vec![PtxKernel { threads: 2048, ..kernel }];
//! let too_large = PtxProgram { target: Target::Sm70, kernels };
//! let error = check(&too_large).expect_err("2048 threads");
//! assert_eq!(error.to_string(), "kernel `double`: the number of threads is 2048, expected 1 to 1024");
//! # Ok::<(), PtxError>(())
//! ```
//!
//! # Promises
//!
//! * **No panic.** [`check()`] returns `Ok` or a [`PtxError`] for every [`PtxProgram`], and [`print()`]
//!   returns text for every program that [`check()`] accepts.
//! * **Accepted programs assemble.** NVIDIA's assembler accepts the text of every program that [`check()`]
//!   accepts, on the program's target.
//! * **Accepted programs read no register before it is written, and their threads reach every barrier and
//!   every instruction of a whole warp or warpgroup together.** Data races and accesses outside of arrays
//!   depend on values; `ptx-sim` reports those.
//! * **Rounding is explicit.** Every float operation is printed with its rounding, so that no assembler
//!   contracts a multiplication and an addition.
//! * **Equal programs print the same text**, byte for byte.
#![forbid(unsafe_code)]

mod builder; // writes the body of a kernel
mod check; // the rules that a program must keep
mod inst; // instructions
mod print; // programs as PTX text
mod program; // programs, kernels, statements, operands

pub use crate::builder::PtxBuilder;
pub use crate::check::{PtxError, check};
pub use crate::inst::{
    AtomicOp, CmpOp, FenceScope, Inst, MmaShape, PtxBinaryOp, PtxTernaryOp, PtxUnaryOp, RoundingMode,
    ShuffleMode, Ty, VoteMode,
};
pub use crate::print::print;
pub use crate::program::{
    AddressBase, AddressOperand, ArrayDecl, GuardPredicate, PtxKernel, PtxOperand, PtxProgram, PtxStmt, Reg,
    RegClass, Regs, SpecialReg, StateSpace, StmtList, Target,
};

/// Implements `Debug` of error types as their `Display`, so that `main` and `expect` print the message.
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
debug_as_display!(PtxError);
