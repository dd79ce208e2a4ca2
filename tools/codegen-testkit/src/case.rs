//! The cases of the kit: runs of the corpus, probes of single operations, and random routines.

use codegen_core::{Caps, Codegen};
use filetests::{
    RunCase,
    generate::{TypeChoice, bytes_of_seed, routine_of_types},
};
use lowered_ir::{ir::LoweredRoutine, passes::log::log_values};

use crate::{
    corpus, generated,
    level::{Level, types},
    logged, probe,
    report::Outcome,
};

/// Random routines of each kind: of the first level's types, and of all types that a target stores.
const RANDOM: usize = 40;

/// One case: a run in one of its variants.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name, unique among the cases of a target.
    pub name: String,
    /// The level that needs it.
    pub level: Level,
    /// The claim of the target's [`Caps`] that it tests, if it tests one.
    pub claim: Option<String>,
    /// The routine, with inputs and expectations.
    pub run: RunCase,
    /// How it is compiled.
    pub variant: Variant,
}

/// How the routine of a case is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As it is.
    AsIs,
    /// With every value logged.
    Logged,
    /// As it is, and optimized.
    Both,
}

/// Every case for a target, in a fixed order.
pub fn cases(caps: &Caps) -> Vec<Case> {
    let corpus = filetests::run_cases().flat_map(|run| of_corpus(&run));
    let probes = probe::probes(caps).into_iter().map(|probe| Case {
        name: format!("probe {}", probe.name),
        level: Level::of(&probe.run.routine),
        claim: probe.claim,
        run: probe.run,
        variant: Variant::AsIs,
    });
    corpus.chain(probes).chain(random(caps)).collect()
}

/// A run of the corpus optimized, with logs, and as written. The optimizer adds and removes operations, so
/// that each has a level of its own.
fn of_corpus(run: &RunCase) -> Vec<Case> {
    let case = |variant, name: &str, routine: &LoweredRoutine| Case {
        name: corpus::name(run, name),
        level: Level::of(routine).max(if variant == Variant::Logged { Level::L2 } else { Level::L0 }),
        claim: None,
        run: RunCase { routine: routine.clone(), ..run.clone() },
        variant,
    };
    let mut cases = Vec::new();
    // The corpus's own tests report a routine that the optimizer rejects.
    for (name, routine) in corpus::variants(&run.routine).into_iter().filter_map(|(n, r)| Some((n, r.ok()?)))
    {
        cases.push(case(Variant::AsIs, name, &routine));
        if name == "optimized" {
            cases.push(case(Variant::Logged, "optimized, logging", &routine));
        }
    }
    cases
}

/// Random routines: of `f32`, `i32` and `bool` up to the first level, and of the types that the target
/// claims to store.
fn random(caps: &Caps) -> Vec<Case> {
    let first = |bytes: &[u8]| routine_of_types(bytes, &TypeChoice::only(|_| false));
    let claimed = |bytes: &[u8]| generated::generated_routine(caps, bytes);
    let simple = (0u64..).map(|seed| drawn(seed, &first, "first-level types"));
    let simple = simple.filter(|case| case.level <= Level::L1).take(RANDOM);
    simple.chain((1000u64..).map(|seed| drawn(seed, &claimed, "claimed types")).take(RANDOM)).collect()
}

fn drawn(seed: u64, routine: &dyn Fn(&[u8]) -> LoweredRoutine, of: &str) -> Case {
    let routine = routine(&bytes_of_seed(seed, 200));
    let run = RunCase::drawn(routine.clone(), &bytes_of_seed(seed ^ 0x5eed, 4096));
    // The optimizer may replace a sum over a one-hot array by a gather.
    let variants = corpus::variants(&routine).into_iter().filter_map(|(_, routine)| routine.ok());
    let level = variants.map(|routine| Level::of(&routine)).fold(Level::of(&routine), Level::max);
    Case { name: format!("random routine {seed} of {of}"), level, claim: None, run, variant: Variant::Both }
}

impl Case {
    /// A case for any run, such as a reduced one: as written and optimized.
    pub fn of_run(run: RunCase) -> Case {
        let (name, level) = (run.path.display().to_string(), Level::of(&run.routine));
        Case { name, level, claim: None, run, variant: Variant::Both }
    }

    /// Whether a target may reject the case at its level: it uses a type that the target does not store. The
    /// first level's types are needed in any case.
    pub fn is_optional(&self, caps: &Caps) -> bool {
        let logged = (self.variant == Variant::Logged).then(|| log_values(&self.run.routine));
        let compiled = logged.as_ref().unwrap_or(&self.run.routine);
        self.level >= Level::L2 && types(compiled).iter().any(|dtype| !caps.storage.contains(*dtype))
    }

    /// Compiles and runs the case in this process.
    pub fn run(&self, codegen: &dyn Codegen) -> Outcome {
        let outcome = match self.variant {
            Variant::Both => self.run_both(codegen),
            Variant::Logged => logged::run_case(codegen, &self.run),
            Variant::AsIs => corpus::run_case(codegen, &self.run),
        };
        outcome.unwrap_or_else(|outcome| outcome)
    }

    fn run_both(&self, codegen: &dyn Codegen) -> Result<Outcome, Outcome> {
        let mut outcome = Outcome::Passed;
        for (_, routine) in corpus::variants(&self.run.routine) {
            // The optimizer rejects a node that is declared virtual and cannot be.
            let Ok(routine) = routine else { continue };
            outcome = corpus::run_case(codegen, &RunCase { routine, ..self.run.clone() })?;
        }
        Ok(outcome)
    }
}
