//! Legalisation: rewrites a routine into the few operations that every renderer handles, without changing a
//! bit of what it computes; but for `sin`, `cos` and `pow` on `f32` where the target has no `f64`, and `sin`
//! and `cos` where it has workgroups, which then keep a bound of their own.
//!
//! A renderer's `match` runs over the closed set **L0**, all on types in [`Caps::arithmetic`]:
//!
//! * floats: `+ - * / %`, `fma`, `neg`, `abs`, `sqrt`, `floor`, `trunc`, `round_even`, `max`, `min`,
//!   comparisons. `%` is exact, hence may be a library call. Transcendental operations only those that
//!   [`Caps::transcendental`] says, but for `sin` and `cos` on `f64` as the last operand of a `where`: a
//!   library call ([`lowered_ir::math::unary_f64`]) for arguments from 2⁴⁰ on, best made only where the
//!   condition fails;
//! * integers: `+ - *`, `neg`, `abs`, `max`, `min`, comparisons, `bit_and`, `bit_or`, `bit_xor`; `shl` and
//!   `shr` by less than the width; `/` and `%` by what is neither 0 nor −1, or a constant that is not 0, or
//!   by a `where` that makes it so;
//! * `bool`: `where` on it, `bit_and`, `bit_or`, `bit_xor`, and `==` with a constant;
//! * `where` on every type; constants, embedded indices, reads of every kind;
//! * conversions among `bool` (only from it), integers, `f32` and `f64`: saturating from floats. Integers
//!   outside [`Caps::arithmetic`] are only converted to and from wider ones, and compared with nothing;
//! * `gather` and plain `scatter` at an index of the type [`Caps::index`]; `lane` and `lanes` on `u32x4`;
//!   logged values of every type;
//! * where the target has kernels for contractions ([`Caps::contractions`]), `f16` and `bf16` elements as
//!   `f32` where they are factors of a loop of products, as [`codegen_core::canonical`] says;
//! * bit casts between types of one size. Floats outside [`Caps::arithmetic`] occur only as what is read
//!   under a bit cast to `u8` or `u16`, and as what such a cast back stores.
//!
//! Everything else becomes steps in scalar locals, placed just before the statement, in the same block:
//!
//! * transcendental operations, through [`lowered_ir::math::build`]: of its two forms of `sin`, `cos` and
//!   `pow` on `f32`, that by way of `f64` where [`Caps::arithmetic`] has `f64` and `i64` (for `sin` and `cos`
//!   on hosts alone), else that in `f32` and `i32`;
//! * composite operations (`relu`, the gates, `recip`, logical ones, integer powers), by their definition;
//! * `f16`, `bf16` and the 8-bit floats, where the target does not compute with them: their bits are decoded
//!   to `f32`, the operation is done there, and the result is rounded back to bits. Locals of these types
//!   hold bits;
//! * operations on `bool`, by their truth tables;
//! * accumulating stores at computed indices, as a `gather`, the operation and a `scatter`;
//! * generators of random bits, on the lanes of their operands.

mod boolean;
mod convert;
mod dynamic;
mod error;
mod expr;
mod float;
mod integer;
mod legaliser;
mod narrow;
mod power;
mod random;

use std::collections::BTreeSet;

use codegen_core::{Caps, DTypeSet, Transcendental};
use lowered_ir::ir::{Block, Expr, LoopId, NodeDecl, NodeRef, Routine, Stmt, walk};
use lowered_ir::passes::effects::Effects;
use tnode::DType;

use self::legaliser::Legaliser;
pub use error::LegaliseError;

/// The routine in operations of L0, with the same answer bit for bit: on hosts with `f64` and `i64`.
/// Elsewhere `sin`, `cos` and `pow` on `f32` may have the answers and bounds that [`lowered_ir::math`]
/// documents for `f32` alone.
///
/// Expects a routine that the verifier accepts, and gives one that it accepts.
///
/// # Errors
///
/// [`LegaliseError`], where the target lacks the storage or the arithmetic that an operation needs.
pub fn legalise(routine: &Routine, caps: &Caps) -> Result<Routine, LegaliseError> {
    check_storage(routine, caps)?;
    let locals = routine.locals();
    let mut legaliser =
        Legaliser { caps, routine, locals: &locals, fresh: routine.fresh(), steps: Block::new() };
    let body = legaliser.block(&routine.body)?;
    Ok(Routine { body, ..routine.clone() })
}

/// A legal routine with the factors converted that [`legalise`] leaves to kernels for contractions, but for
/// those in the loops `whole`.
///
/// # Errors
///
/// [`LegaliseError`], in the same cases as [`legalise`].
pub(crate) fn widen_factors(
    routine: &Routine,
    whole: &BTreeSet<LoopId>,
    caps: &Caps,
) -> Result<Routine, LegaliseError> {
    let caps = Caps { contractions: DTypeSet::EMPTY, ..caps.clone() };
    let mut legaliser = Legaliser {
        caps: &caps,
        routine,
        locals: &routine.locals(),
        fresh: routine.fresh(),
        steps: Block::new(),
    };
    let body = legaliser.widened(&routine.body, whole)?;
    Ok(Routine { body, ..routine.clone() })
}

/// Nodes that no statement mentions, such as those inlined everywhere, need no storage.
fn check_storage(routine: &Routine, caps: &Caps) -> Result<(), LegaliseError> {
    let mentioned = mentioned(&routine.body);
    let missing =
        |(node, decl): &(NodeRef, &NodeDecl)| !caps.storage.contains(decl.dtype) && mentioned.contains(node);
    match routine.node_refs().find(missing) {
        None => Ok(()),
        Some((node, decl)) => Err(LegaliseError::Storage {
            target: caps.target.clone(),
            routine: routine.name.clone(),
            node,
            name: decl.name.clone(),
            dtype: decl.dtype,
        }),
    }
}

/// The nodes whose memory, or a copy of it, the block touches.
fn mentioned(block: &[Stmt]) -> BTreeSet<NodeRef> {
    let Effects { mut reads, mut writes, .. } = Effects::of(block);
    reads.append(&mut writes);
    walk::each_value(block, &mut |value| {
        walk::each_expr(value, &mut |part| {
            if let Expr::GetMerge { node, .. } = part {
                reads.insert(*node);
            }
        });
    });
    reads
}

/// Whether a target has nothing to legalise: an interpreter.
pub(crate) fn has_everything(caps: &Caps) -> bool {
    caps.transcendental == Transcendental::Native
        && DType::ALL.into_iter().all(|d| caps.storage.contains(d) && caps.arithmetic.contains(d))
}
