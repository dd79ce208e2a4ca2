//! Register tiles for the contractions that a codegen does not compile whole.
//!
//! The scheduler leaves contractions in canonical form whole for codegens with kernels of their own for them.
//! Whether such a kernel takes a contraction depends on the code around it, so the codegen is asked about
//! finished kernels.

use std::collections::BTreeSet;

use crate::analysis::names::Names;
use crate::common::normalize_loops::normalize_block;
use crate::error::ScheduleError;
use crate::legalize::{self, LegalizeError};
use codegen_core::canonical::{adds_product, adds_products};
use codegen_core::{Caps, Codegen, DTypeSet, Kernel};
use lowered_ir::ir::{Block, LoopId, LoweredRoutine, Stmt, walk};

use crate::cpu::vectorize::vectorize_block;

/// Splits every contraction that the codegen does not compile whole into register tiles. No bit changes.
pub(crate) fn tile_rejected(
    kernels: Vec<Kernel>,
    codegen: &dyn Codegen,
) -> Result<Vec<Kernel>, ScheduleError> {
    let caps = codegen.caps();
    let nothing_to_reject = caps.contractions.is_empty()
        || caps.workgroups.is_some()
        || !kernels.iter().any(|kernel| adds_products(&kernel.ir().body));
    if nothing_to_reject {
        return Ok(kernels);
    }
    let mut whole = codegen.whole_contractions(&kernels)?.into_iter();
    let one = |kernel: Kernel| {
        let whole = whole.next().unwrap_or_default();
        if !rejects(&kernel.ir().body, &whole) {
            return Ok(kernel);
        }
        let tiled = tile(kernel.ir(), &whole, caps)?;
        // A kernel that stays as it is keeps the plan of its codegen.
        if tiled.body == kernel.ir().body {
            return Ok(kernel);
        }
        Ok(Kernel::verified(tiled, kernel.into_parts().1)?)
    };
    kernels.into_iter().map(one).collect()
}

/// Whether the block adds products in a loop that is in none of the `whole` loops.
fn rejects(block: &[Stmt], whole: &BTreeSet<LoopId>) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::For { var, body, .. } if !whole.contains(var) => adds_product(body) || rejects(body, whole),
        _ => false,
    })
}

/// The kernel with register tiles for all contractions but `whole`. The tiles compute in types that the
/// target has.
fn tile(
    kernel: &LoweredRoutine,
    whole: &BTreeSet<LoopId>,
    caps: &Caps,
) -> Result<LoweredRoutine, LegalizeError> {
    let caps = Caps { contractions: DTypeSet::EMPTY, ..caps.clone() };
    let mut tiled = kernel.clone();
    let mut names = Names::of_kernel(kernel);
    tiled.body = tile_block(tiled.body, whole, &caps, &mut names);
    normalize_block(&mut tiled.body);
    if legalize::has_everything(&caps) {
        return Ok(tiled);
    }
    let arrays = kernel.locals().into_keys().collect();
    legalize::widen_operands(&tiled, whole, &arrays, &caps)
}

fn tile_block(block: Block, whole: &BTreeSet<LoopId>, caps: &Caps, names: &mut Names) -> Block {
    let mut tiled = Block::with_capacity(block.len());
    for stmt in block {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } if contains(&body, whole) => {
                let body = tile_block(body, whole, caps, names);
                tiled.push(Stmt::For { var, lo, hi, kind, body });
            }
            Stmt::For { var, .. } if whole.contains(&var) => tiled.push(stmt),
            stmt if adds_products(std::slice::from_ref(&stmt)) => {
                tiled.extend(vectorize_block(vec![stmt], caps, names));
            }
            stmt => tiled.push(stmt),
        }
    }
    tiled
}

fn contains(block: &[Stmt], loops: &BTreeSet<LoopId>) -> bool {
    !loops.is_empty() && walk::loops_in(block).iter().any(|var| loops.contains(var))
}
