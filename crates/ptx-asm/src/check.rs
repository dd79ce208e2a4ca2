//! Checks programs against the rules that make them assemble and run.
//!
//! 1. No two kernels have the same name. A name is a letter, followed by letters, digits and `_`.
//! 2. A kernel has 1 to 1024 threads and at most 4 KiB of parameters. Tensor maps and clusters, of up to 8
//!    blocks, need a target that has them. An array has at least one byte and an alignment that is a power of
//!    two; shared arrays fit into the shared memory of a block.
//! 3. Every instruction exists for its types and on the target. Its operands are registers of the right
//!    class, or immediates where PTX takes them. ([`types`])
//! 4. Indices of parameters and arrays exist. A constant address in an array lies in the array and is
//!    aligned.
//! 5. Every path to a read of a register writes it first. A write by a predicated instruction does not count.
//!    ([`defined`])
//! 6. All threads of a group reach a barrier or collective instruction of the group together. The group is
//!    the cluster for `barrier.cluster`, the block for `bar.sync` of all its threads, the warpgroup for
//!    `wgmma` and `setmaxnreg`, and the warp for all others. ([`uniform`])
//! 7. Statements nest at most 256 deep.

mod defined;
mod types;
mod uniform;

use std::collections::BTreeSet;

use crate::inst::Inst;
use crate::print::reg;
use crate::program::{ArrayDecl, PtxKernel, PtxProgram, PtxStmt, Reg, Target};

/// The first rule that a program breaks, with the kernel that breaks it.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PtxError {
    /// The name of a kernel is no valid name of a PTX entry point, or another kernel has the same name.
    #[error("kernel `{kernel}`: expected a name that no other has: a letter, then letters, digits and `_`")]
    Name { kernel: String },
    /// A size or number is out of range.
    #[error("kernel `{kernel}`: {what} is {found}, expected {expected}")]
    Limit { kernel: String, what: &'static str, found: u64, expected: String },
    /// An instruction does not exist for its types or target, or its operands are wrong.
    #[error("kernel `{kernel}`: {inst:?}: {what}")]
    Instruction { kernel: String, inst: Box<Inst>, what: String },
    /// A register, by its name in the PTX text, is read on a path that has not written it.
    #[error("kernel `{kernel}`: {register} is read before every path has written it")]
    Undefined { kernel: String, register: String },
    /// The register of a guard is not a predicate.
    #[error("kernel `{kernel}`: {register} guards a statement, expected a predicate")]
    Guard { kernel: String, register: String },
    /// A barrier or collective instruction stands under control flow in which its threads may diverge: "the
    /// threads of a cluster", "the threads of a block", "the warps of a warpgroup" or "the lanes of a warp".
    /// The register is the divergent predicate.
    #[error("kernel `{kernel}`: {inst:?} depends on {register}, which may differ between {threads}")]
    Divergent { kernel: String, inst: Box<Inst>, register: String, threads: &'static str },
}

/// Maximum depth of nested statements. It bounds the recursion of later checks and of the printer.
const MAX_DEPTH: usize = 256;

/// Checks a program against every rule of the language and of its target.
///
/// # Errors
///
/// A [`PtxError`] for the first broken rule.
pub fn check(module: &PtxProgram) -> Result<(), PtxError> {
    let mut names = BTreeSet::new();
    for kernel in &module.kernels {
        if !is_name(&kernel.name) || !names.insert(&kernel.name) {
            return Err(PtxError::Name { kernel: kernel.name.clone() });
        }
        limits(kernel, module.target)?;
        types::check(kernel, module.target)?;
        defined::check(kernel)?;
        uniform::check(kernel)?;
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn limits(kernel: &PtxKernel, target: Target) -> Result<(), PtxError> {
    let within = |what, found: u64, least: u64, most: u64| {
        if (least..=most).contains(&found) {
            return Ok(());
        }
        let expected = format!("{least} to {most}");
        Err(PtxError::Limit { kernel: kernel.name.clone(), what, found, expected })
    };
    within("the number of threads", kernel.threads.into(), 1, 1024)?;
    within("the size of the parameters in bytes", kernel.param_bytes(), 0, 4096)?;
    let most = |most: u64| if target >= Target::Sm90a { most } else { 0 };
    within("the number of tensor maps", kernel.maps.into(), 0, most(31))?;
    within("the blocks of a cluster", kernel.cluster.into(), 0, most(8).max(1))?;
    within("the depth of statements", depth(&kernel.body) as u64, 0, MAX_DEPTH as u64)?;
    within("the blocks of a multiprocessor", kernel.min_blocks_per_sm.unwrap_or(1).into(), 1, 32)?;
    for ArrayDecl { bytes, align } in kernel.shared.iter().chain(&kernel.local) {
        within("the size of an array in bytes", (*bytes).into(), 1, 1 << 24)?;
        if !align.is_power_of_two() || *align > 1024 {
            let expected = "a power of two up to 1024".into();
            let (kernel, what) = (kernel.name.clone(), "the alignment of an array");
            return Err(PtxError::Limit { kernel, what, found: (*align).into(), expected });
        }
    }
    within(
        "the shared memory of a block in bytes",
        kernel.shared_bytes().into(),
        0,
        target.shared_bytes().into(),
    )
}

/// Nesting depth of statements, computed without recursion because it bounds the recursion of other checks.
fn depth(body: &[PtxStmt]) -> usize {
    let mut deepest = 0;
    let mut left = vec![(body, 1)];
    while let Some((block, level)) = left.pop() {
        for stmt in block {
            deepest = deepest.max(level);
            match stmt {
                PtxStmt::If { then, otherwise, .. } => {
                    left.extend([(&then[..], level + 1), (otherwise, level + 1)])
                }
                PtxStmt::Loop { body, .. } => left.push((body, level + 1)),
                PtxStmt::Inst(_) | PtxStmt::Predicated(..) | PtxStmt::Comment(_) => {}
            }
        }
    }
    deepest
}

fn wrong(kernel: &PtxKernel, inst: &Inst, what: String) -> PtxError {
    PtxError::Instruction { kernel: kernel.name.clone(), inst: Box::new(inst.clone()), what }
}

fn undefined(kernel: &PtxKernel, register: Reg) -> PtxError {
    PtxError::Undefined { kernel: kernel.name.clone(), register: reg(register) }
}

#[cfg(test)]
mod tests;
