//! The passes of the optimizer, each one function on a routine; [`crate::pipeline`] puts them in order.
//!
//! Every pass takes a verified routine to a verified routine that computes the same bits. [`PASSES`] lists
//! them by the name under which tests and tools run them.

pub mod access;
mod bind;
mod carried;
pub mod cost;
mod cover;
pub mod cse;
pub mod dce;
pub mod decide_modes;
pub mod effects;
pub mod expand_powers;
pub mod gather_one_hot;
pub mod half_overflow;
pub mod licm;
pub mod log;
mod overwritten;
mod pure_regions;
pub mod ranges;
pub mod regions;
pub mod runner;
pub mod settings;
pub mod simplify;
mod solve;
mod stores;
pub mod virtualize;

use crate::ir::LoweredRoutine;

pub(crate) use decide_modes::KEEP_IN_MEMORY;
pub use decide_modes::ModeError;
pub use settings::OptimizeSettings;
pub use virtualize::InlineRejection;

/// Runs a pass by itself, with default settings.
pub type PassFn = fn(&mut LoweredRoutine) -> Result<(), ModeError>;

/// A pass that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name in tests, dumps and command lines.
    pub name: &'static str,
    /// The pass as a function.
    pub run: PassFn,
    /// The invariant that holds after the pass, in one line.
    pub establishes: &'static str,
}

/// Every pass, in the order of the pipeline.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "decide_modes",
        run: run_decide_modes,
        establishes: "inputs, outputs and nodes that are costly to recompute have memory",
    },
    Pass { name: "virtualize", run: run_virtualize, establishes: "no statement mentions a virtual node" },
    Pass { name: "simplify", run: run_simplify, establishes: "no equation of the table applies" },
    Pass {
        name: "gather_one_hot",
        run: run_gather_one_hot,
        establishes: "sums over a one-hot index read the selected element alone",
    },
    Pass {
        name: "expand_powers",
        run: run_expand_powers,
        establishes: "powers with constant integral exponents are products",
    },
    Pass { name: "cse", run: run_cse, establishes: "no block computes a costly value twice" },
    Pass { name: "licm", run: run_licm, establishes: "no inner loop repeats a costly invariant" },
    Pass { name: "dce", run: run_dce, establishes: "every store reaches a node that outlives the routine" },
];

/// The pass of that name.
pub fn by_name(name: &str) -> Option<PassFn> {
    PASSES.iter().find(|pass| pass.name == name).map(|pass| pass.run)
}

fn run_decide_modes(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    decide_modes::decide_modes(routine, &access::analyze(routine), &OptimizeSettings::default()).map(drop)
}

fn run_virtualize(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    virtualize_open(routine, &OptimizeSettings::default())
}

/// Decides modes, inlines the candidates and settles the modes of the rest.
///
/// # Errors
/// When a mode decided earlier contradicts the routine, or a node that must be virtual cannot be.
pub(crate) fn virtualize_open(
    routine: &mut LoweredRoutine,
    settings: &OptimizeSettings,
) -> Result<(), ModeError> {
    let facts = access::analyze(routine);
    let candidates = decide_modes::decide_modes(routine, &facts, settings)?;
    let rejected = virtualize::virtualize(routine, &decide_modes::nodes_of(&candidates));
    decide_modes::settle_modes(routine, &facts, &candidates, &rejected, settings)
}

fn run_simplify(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    simplify::simplify(routine, &OptimizeSettings::default());
    Ok(())
}

fn run_gather_one_hot(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    gather_one_hot::gather_one_hot(routine);
    Ok(())
}

fn run_expand_powers(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    expand_powers::expand_powers(routine, &OptimizeSettings::default());
    Ok(())
}

fn run_cse(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    cse::cse(routine);
    Ok(())
}

fn run_licm(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    licm::licm(routine);
    Ok(())
}

fn run_dce(routine: &mut LoweredRoutine) -> Result<(), ModeError> {
    dce::dce(routine);
    Ok(())
}
