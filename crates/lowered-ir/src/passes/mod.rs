//! The passes of the optimiser, each one function on a routine; [`crate::pipeline`] puts them in order.
//!
//! Every pass takes a verified routine to a verified routine that computes the same bits. [`PASSES`] lists
//! them by the name under which tests and tools run them.

pub mod access;
mod bind;
pub mod cost;
pub mod cover;
pub mod cse;
pub mod dead;
pub mod effects;
pub mod gather;
pub mod half_overflow;
pub mod hoist;
pub mod log;
pub mod modes;
mod overwritten;
pub mod powers;
mod pure_regions;
pub mod ranges;
mod sampled_accesses;
pub mod settings;
pub mod simplify;
mod solve;
mod stores;
pub mod virtualize;

use crate::ir::Routine;

pub(crate) use modes::KEEP_IN_MEMORY;
pub use modes::ModeError;
pub use settings::Settings;
pub use virtualize::InlineRejection;

/// Runs a pass by itself, with default settings.
pub type PassFn = fn(&mut Routine) -> Result<(), ModeError>;

/// A pass that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name in tests, dumps and command lines.
    pub name: &'static str,
    /// What it does.
    pub run: PassFn,
    /// What holds afterwards.
    pub establishes: &'static str,
}

/// Every pass, in the order of the pipeline.
pub const PASSES: &[Pass] = &[
    Pass { name: "modes", run: run_modes, establishes: "inputs, outputs and costly nodes have memory" },
    Pass { name: "virtualize", run: run_virtualize, establishes: "no statement mentions a virtual node" },
    Pass { name: "simplify", run: run_simplify, establishes: "no equation of the table applies" },
    Pass {
        name: "gather",
        run: run_gather,
        establishes: "a sum with one term that counts reads that term alone",
    },
    Pass {
        name: "powers",
        run: run_powers,
        establishes: "powers with constant integral exponents are products",
    },
    Pass { name: "cse", run: run_cse, establishes: "no block computes a costly value twice" },
    Pass { name: "hoist", run: run_hoist, establishes: "no inner loop repeats a costly invariant" },
    Pass { name: "dead", run: run_dead, establishes: "every statement matters" },
];

/// The pass of that name.
pub fn by_name(name: &str) -> Option<PassFn> {
    PASSES.iter().find(|pass| pass.name == name).map(|pass| pass.run)
}

fn run_modes(routine: &mut Routine) -> Result<(), ModeError> {
    modes::decide(routine, &access::analyse(routine), &Settings::default()).map(drop)
}

fn run_virtualize(routine: &mut Routine) -> Result<(), ModeError> {
    virtualize_open(routine, &Settings::default())
}

/// Decides modes, inlines the candidates and settles the modes of the rest.
///
/// # Errors
/// When a mode decided earlier contradicts the routine, or a node that must be virtual cannot be.
pub fn virtualize_open(routine: &mut Routine, settings: &Settings) -> Result<(), ModeError> {
    let facts = access::analyse(routine);
    let candidates = modes::decide(routine, &facts, settings)?;
    let rejected = virtualize::virtualize(routine, &candidates);
    modes::settle(routine, &facts, &candidates, &rejected, settings)
}

fn run_simplify(routine: &mut Routine) -> Result<(), ModeError> {
    simplify::simplify(routine, &Settings::default());
    Ok(())
}

fn run_gather(routine: &mut Routine) -> Result<(), ModeError> {
    gather::rewrite_one_hot(routine);
    Ok(())
}

fn run_powers(routine: &mut Routine) -> Result<(), ModeError> {
    powers::expand_powers(routine, &Settings::default());
    Ok(())
}

fn run_cse(routine: &mut Routine) -> Result<(), ModeError> {
    cse::eliminate_common(routine);
    Ok(())
}

fn run_hoist(routine: &mut Routine) -> Result<(), ModeError> {
    hoist::hoist_invariants(routine);
    Ok(())
}

fn run_dead(routine: &mut Routine) -> Result<(), ModeError> {
    dead::remove_dead(routine);
    Ok(())
}
