//! What makes a module one that assemblers take and that means something.
//!
//! 1. Kernels have different names; a name is a letter, then letters, digits and `_`.
//! 2. A kernel has 1 to 1024 threads, at most 4 KiB of parameters, and where the target knows them tensor maps and clusters of up to 8 blocks; its arrays have a byte at least and an alignment that is a power of two, and those
//!    of a block fit into a multiprocessor of the target.
//! 3. Every instruction exists for its types and the target, and its operands are registers of the right class, or constants where the
//!    language takes them. ([`types`])
//! 4. Positions of parameters and arrays exist; a place in an array, if nothing is added to it, lies in it and is aligned.
//! 5. A register is written on every path before it is read. What threads with a guard write alone does not count. ([`defined`])
//! 6. All threads of a block reach a barrier, those of a cluster theirs, all warps of a warpgroup and all lanes of a warp what they do together. ([`uniform`])
//! 7. Statements nest at most 256 deep.

mod defined;
mod types;
mod uniform;

use std::collections::BTreeSet;

use crate::inst::Inst;
use crate::print::reg;
use crate::program::{Array, Kernel, Module, Reg, Stmt, Target};

/// What is wrong with a module.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A name that entry points cannot have, or that two have.
    #[error("kernel `{kernel}`: expected a name that no other has: a letter, then letters, digits and `_`")]
    Name {
        /// The kernel.
        kernel: String,
    },
    /// More than there may be of something.
    #[error("kernel `{kernel}`: {what} is {found}, expected {expected}")]
    Limit {
        /// The kernel.
        kernel: String,
        /// Of what.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much there may be.
        expected: String,
    },
    /// An instruction that does not exist, or whose operands do not fit.
    #[error("kernel `{kernel}`: {inst:?}: {what}")]
    Instruction {
        /// The kernel.
        kernel: String,
        /// The instruction.
        inst: Box<Inst>,
        /// What was expected and what was found.
        what: String,
    },
    /// A register that is read and may not have been written.
    #[error("kernel `{kernel}`: {register} is read before every path has written it")]
    Undefined {
        /// The kernel.
        kernel: String,
        /// The register, as it is printed.
        register: String,
    },
    /// A guard that is no predicate.
    #[error("kernel `{kernel}`: {register} guards a statement, expected a predicate")]
    Guard {
        /// The kernel.
        kernel: String,
        /// The register, as it is printed.
        register: String,
    },
    /// What threads have to do together stands where some may be elsewhere.
    #[error("kernel `{kernel}`: {inst:?} stands behind {register}, which {threads} need not have alike")]
    Divergent {
        /// The kernel.
        kernel: String,
        /// The instruction.
        inst: Box<Inst>,
        /// The predicate that parts them, as it is printed.
        register: String,
        /// Whom: "the threads of a cluster", "the threads of a block", "the warps of a warpgroup" or "the lanes of a warp".
        threads: &'static str,
    },
}

/// The deepest nest of statements.
const MAX_DEPTH: usize = 256;

/// Whether a module is a program.
///
/// # Errors
///
/// The first rule that it breaks.
pub fn check(module: &Module) -> Result<(), ProgramError> {
    let mut names = BTreeSet::new();
    for kernel in &module.kernels {
        if !is_name(&kernel.name) || !names.insert(&kernel.name) {
            return Err(ProgramError::Name { kernel: kernel.name.clone() });
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

fn limits(kernel: &Kernel, target: Target) -> Result<(), ProgramError> {
    let within = |what, found: u64, least: u64, most: u64| {
        if (least..=most).contains(&found) {
            return Ok(());
        }
        let expected = format!("{least} to {most}");
        Err(ProgramError::Limit { kernel: kernel.name.clone(), what, found, expected })
    };
    within("the number of threads", kernel.threads.into(), 1, 1024)?;
    within("the size of the parameters in bytes", kernel.param_bytes(), 0, 4096)?;
    let most = |most: u64| if target >= Target::Sm90a { most } else { 0 };
    within("the number of tensor maps", kernel.maps.into(), 0, most(31))?;
    within("the blocks of a cluster", kernel.cluster.into(), 0, most(8).max(1))?;
    within("the depth of statements", depth(&kernel.body) as u64, 0, MAX_DEPTH as u64)?;
    within("the blocks of a multiprocessor", kernel.blocks_per_processor.unwrap_or(1).into(), 1, 32)?;
    for Array { bytes, align } in kernel.shared.iter().chain(&kernel.local) {
        within("the size of an array in bytes", (*bytes).into(), 1, 1 << 24)?;
        if !align.is_power_of_two() || *align > 1024 {
            let expected = "a power of two up to 1024".into();
            let (kernel, what) = (kernel.name.clone(), "the alignment of an array");
            return Err(ProgramError::Limit { kernel, what, found: (*align).into(), expected });
        }
    }
    within(
        "the shared memory of a block in bytes",
        kernel.shared_bytes().into(),
        0,
        target.shared_bytes().into(),
    )
}

/// How deep statements nest, without recursion, since it guards those who recurse.
fn depth(body: &[Stmt]) -> usize {
    let mut deepest = 0;
    let mut left = vec![(body, 1)];
    while let Some((block, level)) = left.pop() {
        for stmt in block {
            deepest = deepest.max(level);
            match stmt {
                Stmt::If { then, otherwise, .. } => {
                    left.extend([(&then[..], level + 1), (otherwise, level + 1)])
                }
                Stmt::Loop { body, .. } => left.push((body, level + 1)),
                Stmt::Inst(_) | Stmt::When(..) | Stmt::Comment(_) => {}
            }
        }
    }
    deepest
}

fn wrong(kernel: &Kernel, inst: &Inst, what: String) -> ProgramError {
    ProgramError::Instruction { kernel: kernel.name.clone(), inst: Box::new(inst.clone()), what }
}

fn undefined(kernel: &Kernel, register: Reg) -> ProgramError {
    ProgramError::Undefined { kernel: kernel.name.clone(), register: reg(register) }
}

#[cfg(test)]
mod tests;
