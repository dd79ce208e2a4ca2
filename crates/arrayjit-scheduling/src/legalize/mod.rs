//! Legalization: rewrites a routine into the few operations that every code generator implements.
//!
//! It keeps every bit of the result, with two exceptions, whose results have error bounds instead: `sin`,
//! `cos` and `pow` on `f32` on targets without `f64`, and `sin` and `cos` on `f32` on targets with
//! workgroups.
//!
//! A code generator's `match` covers the **legal operations**, a closed set. They all have types in
//! [`Caps::arithmetic`]:
//!
//! * floats: `+ - * / %`, `fma`, `neg`, `abs`, `sqrt`, `floor`, `trunc`, `round_even`, `max`, `min`,
//!   comparisons. `%` is exact, and may therefore be a library call. Transcendental operations are included
//!   as far as [`Caps::transcendental`] says. In addition, `sin` and `cos` on `f64` may be the last operand
//!   of a `where`: a library call ([`lowered_ir::math::unary_f64`]) for arguments from 2⁴⁰ on, which code
//!   should make only if the condition fails;
//! * integers: `+ - *`, `neg`, `abs`, `max`, `min`, comparisons, `bit_and`, `bit_or`, `bit_xor`; `shl` and
//!   `shr` by less than the width; `/` and `%` by a constant other than 0, or by a value that is
//!   neither 0 nor −1, which a `where` may ensure;
//! * `bool`: `where` on it, `bit_and`, `bit_or`, `bit_xor`, and `==` with a constant;
//! * `where` on every type; constants, embedded indices, reads of every kind;
//! * conversions among `bool` (only from it), integers, `f32` and `f64`, saturating from floats. Integers
//!   outside of [`Caps::arithmetic`] are converted from and to wider ones, and have no other operation;
//! * `gather` and plain `scatter` at an index of the type [`Caps::index`]; `lane` and `lanes` on `u32x4`;
//!   logged values of every type;
//! * if the target compiles contractions whole ([`Caps::contractions`]), conversions of `f16` and `bf16`
//!   operands to `f32` in the loops that [`codegen_core::canonical`] recognizes;
//! * conversions of the floats of [`Caps::conversions`] from and to `f32`;
//! * bit casts between types of one size. Floats outside of [`Caps::arithmetic`] otherwise occur only as the
//!   operand of a bit cast to `u8` or `u16`, and as the stored result of the inverse bit cast.
//!
//! Every other operation becomes statements on scalar locals, inserted before the statement in the same
//! block:
//!
//! * transcendental operations, by [`lowered_ir::math::build`]. It has two forms of `sin`, `cos` and `pow` on
//!   `f32`: one computes in `f64`, if [`Caps::arithmetic`] has `f64` and `i64` (for `sin` and `cos` on hosts
//!   only), the other in `f32` and `i32`;
//! * composite operations (`relu`, the gates, `recip`, logical ones, integer powers), by their definitions;
//! * operations on `f16`, `bf16` and 8-bit floats, if the target does not compute with them: their bits are
//!   decoded to `f32`, the operation is computed there, and the result is rounded back to bits
//!   ([`lowered_ir::math::narrow`]). Locals of these types hold bits;
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
mod legalizer;
mod narrow;
mod power;
mod random;

use std::collections::BTreeSet;

use codegen_core::{Caps, DTypeSet, Transcendental};
use lowered_ir::ir::{Block, Expr, IdSet, LocalId, LoopId, LoweredRoutine, NodeDecl, NodeRef, Stmt, walk};
use lowered_ir::passes::effects::Effects;
use tnode::DType;

use self::error::Result;
use self::legalizer::Legalizer;
pub use error::LegalizeError;

/// Rewrites a routine into legal operations, with the same result bit for bit on hosts with `f64` and `i64`.
/// On other targets, `sin`, `cos` and `pow` on `f32` may have the results and error bounds that
/// [`lowered_ir::math`] documents for `f32`.
///
/// The routine must be verified, and the result can be verified.
///
/// # Errors
///
/// [`LegalizeError`], if the target lacks the storage or the arithmetic that an operation needs.
pub fn legalize(routine: &LoweredRoutine, caps: &Caps) -> Result<LoweredRoutine, LegalizeError> {
    check_storage(routine, caps)?;
    let (locals, arrays) = (routine.locals(), IdSet::default());
    let mut legalizer = Legalizer {
        caps,
        routine,
        locals: &locals,
        arrays: &arrays,
        fresh: routine.fresh(),
        steps: Block::new(),
    };
    let body = legalizer.block(&routine.body)?;
    Ok(LoweredRoutine { body, ..routine.clone() })
}

/// Converts the narrow operands of contractions in a legal routine, which [`legalize`] leaves to codegens,
/// except in the loops `whole`. Locals of narrow types hold bits afterwards, as they do after [`legalize`],
/// except `arrays`: nodes that became locals of a kernel since, whose elements are read and stored as those
/// of nodes.
///
/// # Errors
///
/// [`LegalizeError`], in the same cases as [`legalize`].
pub(crate) fn widen_operands(
    routine: &LoweredRoutine,
    whole: &BTreeSet<LoopId>,
    arrays: &IdSet<LocalId>,
    caps: &Caps,
) -> Result<LoweredRoutine> {
    let caps = Caps { contractions: DTypeSet::EMPTY, ..caps.clone() };
    let mut legalizer = Legalizer {
        caps: &caps,
        routine,
        locals: &routine.locals(),
        arrays,
        fresh: routine.fresh(),
        steps: Block::new(),
    };
    let body = legalizer.widened(&routine.body, whole)?;
    Ok(LoweredRoutine { body, ..routine.clone() })
}

/// Rejects a node whose element type the target cannot store. A node that no statement mentions, such as a
/// node that was inlined everywhere, needs no storage.
fn check_storage(routine: &LoweredRoutine, caps: &Caps) -> Result<()> {
    let mentioned = mentioned(&routine.body);
    let missing =
        |(node, decl): &(NodeRef, &NodeDecl)| !caps.storage.contains(decl.dtype) && mentioned.contains(node);
    match routine.node_refs().find(missing) {
        None => Ok(()),
        Some((node, decl)) => Err(LegalizeError::Storage {
            target: caps.target.clone(),
            routine: routine.name.clone(),
            node,
            name: decl.name.clone(),
            dtype: decl.dtype,
        }),
    }
}

/// The nodes that the block accesses, in their own memory or in the merge buffer.
fn mentioned(block: &[Stmt]) -> IdSet<NodeRef> {
    let Effects { mut reads, writes, .. } = Effects::of(block);
    reads.extend(&writes);
    walk::parts_in(block).for_each(|part| {
        if let Expr::GetMerge { node, .. } = part {
            reads.insert(*node);
        }
    });
    reads
}

/// Whether the target has every type and operation, so that nothing needs legalization. An interpreter has
/// them all.
pub(crate) fn has_everything(caps: &Caps) -> bool {
    caps.transcendental == Transcendental::Native
        && DType::ALL.into_iter().all(|d| caps.storage.contains(d) && caps.arithmetic.contains(d))
}
