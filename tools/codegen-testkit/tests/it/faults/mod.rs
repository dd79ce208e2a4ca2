//! The kit catches code generators with one fault each, at the level where the fault matters.
//!
//! A faulty code generator is the interpreter behind a change: of the kernels that it compiles (`rewrites`,
//! `statements`), of its capabilities (`claims`), or of the call itself (`native`). The last ones may end the
//! process, and run in children (`lethal`).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing step fails the test")]

/// A change of the expressions of one form.
macro_rules! expr {
    (|$scope:tt| $form:pat $(if $guard:expr)? => $by:expr) => {
        Fault::Expr(|$scope, expr| match expr {
            $form $(if $guard)? => $by,
            other => other,
        })
    };
}

/// A change of the statements of one form.
macro_rules! stmt {
    ($form:pat $(if $guard:expr)? => $by:expr) => {
        Fault::Stmt(|stmt| match stmt {
            $form $(if $guard)? => $by,
            other => vec![other],
        })
    };
}

mod claims;
mod contexts;
mod lethal;
mod native;
mod partial;
mod rewrites;
mod shrinking;
mod statements;

use codegen_core::{
    Artifact, Caps, Codegen, CodegenError, Interpreted, Kernel, Listing, RoutineParts, ScheduledRoutine,
    Transcendental,
};
use codegen_testkit::{Case, Level, Outcome, cases, false_claims, stages::Stages};
use filetests::RunCase;
use lowered_ir::ir::{Expr, Locals, LoweredRoutine, Stmt, walk};
use tnode::{DType, Scalar};

/// A routine whose expressions are rewritten.
pub(crate) struct Scope {
    routine: LoweredRoutine,
    locals: Locals,
}

impl Scope {
    pub(crate) fn dtype(&self, expr: &Expr) -> DType {
        self.routine.dtype_of(expr, &self.locals)
    }
}

/// One change of the interpreter.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// No change.
    None,
    /// Of each expression, inner before outer.
    Expr(fn(&Scope, Expr) -> Expr),
    /// Of each expression of a form.
    Rewrite(&'static rewrites::Rewrite),
    /// Of each constant.
    Constant(fn(Scalar) -> Scalar),
    /// Of each statement, outer before inner.
    Stmt(fn(Stmt) -> Vec<Stmt>),
    /// Of the whole body.
    Routine(fn(&mut LoweredRoutine)),
    /// Rejects kernels for which the function holds.
    Rejects(fn(&LoweredRoutine) -> bool),
    /// Of calls.
    Native(native::Call),
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The level whose cases must catch the fault.
    pub(crate) level: Level,
    pub(crate) caps: fn() -> Caps,
    pub(crate) fault: Fault,
}

/// A code generator with a fault.
pub(crate) struct Faulty {
    pub(crate) caps: Caps,
    pub(crate) fault: Fault,
}

impl Codegen for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn fingerprint(&self) -> u64 {
        0
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        if let Fault::Native(call) = self.fault {
            return Ok(native::compile(routine, call));
        }
        let kernels = routine.kernels().iter().map(|kernel| self.kernel(kernel)).collect::<Result<_, _>>()?;
        let parts = RoutineParts { kernels, ..routine.clone().into_parts() };
        Interpreted::of_target(self.caps.clone()).compile(&ScheduledRoutine::new(parts).unwrap())
    }

    fn listing(&self, kernel: &Kernel) -> Result<Listing, CodegenError> {
        let source = lowered_ir::text::print(self.kernel(kernel)?.ir());
        Ok(Listing { source, machine_code: String::new() })
    }
}

impl Faulty {
    fn kernel(&self, kernel: &Kernel) -> Result<Kernel, CodegenError> {
        let (ir, abi) = kernel.clone().into_parts();
        let mut routine = ir.into_inner();
        match self.fault {
            Fault::Expr(rewrite) => rewritten(&mut routine, rewrite),
            Fault::Rewrite(rewrite) => rewritten(&mut routine, |scope, expr| rewrite.apply(scope, expr)),
            Fault::Constant(change) => walk::map_values(&mut routine.body, &mut |value| {
                walk::map_expr(value, &mut |expr| match expr {
                    Expr::Const(value) => Expr::Const(change(value)),
                    other => other,
                })
            }),
            Fault::Stmt(change) => routine.body = statements::changed(routine.body, change),
            Fault::Routine(change) => change(&mut routine),
            Fault::Rejects(holds) if holds(&routine) => {
                return Err(CodegenError::Unsupported {
                    codegen: "faulty".into(),
                    kernel: routine.name,
                    op: "this".into(),
                    why: "it rejects much".into(),
                });
            }
            Fault::None | Fault::Rejects(_) | Fault::Native(_) => {}
        }
        // Where the change would break the contract of kernels, the code generator is correct.
        Ok(Kernel::verified(routine, abi).unwrap_or_else(|_| kernel.clone()))
    }
}

/// Changes every expression, inner before outer.
fn rewritten(routine: &mut LoweredRoutine, rewrite: impl Fn(&Scope, Expr) -> Expr) {
    let scope = Scope { locals: routine.locals(), routine: routine.clone() };
    walk::map_values(&mut routine.body, &mut |value| {
        walk::map_expr(value, &mut |expr| rewrite(&scope, expr))
    });
}

/// A target of the first level: `f32`, `i32` and `bool`.
pub(crate) fn first_level() -> Caps {
    let types = [DType::F32, DType::I32, DType::Bool];
    Caps {
        storage: types.into_iter().collect(),
        arithmetic: types.into_iter().collect(),
        index: DType::I32,
        ..Caps::host("first level")
    }
}

/// A target of all types, with native arithmetic and functions.
pub(crate) fn everything() -> Caps {
    Caps {
        arithmetic: DType::ALL.into_iter().collect(),
        transcendental: Transcendental::Native,
        ..Caps::host("everything")
    }
}

/// A target whose kernels are divided over threads and have vectors.
pub(crate) fn threaded() -> Caps {
    Caps { threads: 4, vector_bytes: 16, vector_registers: 16, ..everything() }
}

/// The signs of a fault, each with the message of the kit.
pub(crate) enum Caught {
    /// The capabilities contradict themselves.
    Claim(String),
    /// The code generator rejects a case that its level needs.
    Rejection(Case, String),
    /// A case fails.
    Failure(Case, String),
}

/// The first sign of a fault in the claims, or in the cases of the levels up to this one.
pub(crate) fn caught(codegen: &Faulty, level: Level, cases: &[Case]) -> Option<Caught> {
    let caps = codegen.caps();
    let claim = false_claims(caps).into_iter().find(|(lost, _)| *lost <= level);
    if let Some((_, claim)) = claim {
        return Some(Caught::Claim(claim));
    }
    // The cases of the level first, then those below.
    let own = cases.iter().filter(|case| case.level == level);
    own.chain(cases.iter().filter(|case| case.level < level)).find_map(|case| {
        let score = codegen_testkit::score(codegen, std::slice::from_ref(case));
        let judged = &score.results[0];
        match &judged.outcome {
            Outcome::Failed(how) => Some(Caught::Failure(case.clone(), how.clone())),
            Outcome::Skipped(why) if !judged.optional => Some(Caught::Rejection(case.clone(), why.clone())),
            _ => None,
        }
    })
}

/// The cases for a target: probes first, which most faults fail.
fn sorted(caps: &Caps) -> Vec<Case> {
    let mut cases = cases(caps);
    let rank = |case: &Case| match &case.name {
        name if name.starts_with("probe") => 0,
        name if name.contains("first_level") => 1,
        _ => 2,
    };
    cases.sort_by_key(rank);
    cases
}

/// Every row of the table.
fn rows() -> Vec<Row> {
    let tables =
        [rewrites::table(), contexts::table(), statements::table(), claims::table(), native::table()];
    tables.into_iter().flatten().collect()
}

/// Every fault of the rows is caught at its level, and every failed case is shrunk to a few lines.
fn check(rows: &[Row], targets: &[fn() -> Caps]) {
    let cases: Vec<(Caps, Vec<Case>)> = targets.iter().map(|caps| (caps(), sorted(&caps()))).collect();
    let (mut missed, mut shrunk) = (Vec::new(), 0);
    for row in rows {
        let codegen = Faulty { caps: (row.caps)(), fault: row.fault };
        // A target with a false claim has the cases of the honest one.
        let known = cases.iter().find(|(caps, _)| *caps == codegen.caps);
        let cases = known.map_or(&cases[0].1, |(_, cases)| cases);
        let (case, how) = match caught(&codegen, row.level, cases) {
            Some(Caught::Claim(how)) => ("claims".to_owned(), how),
            Some(Caught::Rejection(case, how)) => (case.name, how),
            Some(Caught::Failure(case, how)) => {
                shrinking::check_lines(row.name, &codegen, &case, &how);
                shrunk += 1;
                (case.name, how)
            }
            None => {
                missed.push(row.name);
                continue;
            }
        };
        println!("{}: {case}: {}", row.name, how.lines().next().unwrap_or_default());
    }
    println!("{shrunk} of {} faults fail a case, which is shrunk", rows.len());
    assert!(missed.is_empty(), "{} of {} faults are not caught: {missed:#?}", missed.len(), rows.len());
}

#[test]
fn faults_of_the_first_levels_are_caught() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.level <= Level::L1).collect();
    check(&rows, &[first_level]);
}

#[test]
fn faults_of_the_second_level_are_caught() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.level == Level::L2).collect();
    check(&rows, &[everything, threaded]);
}

#[test]
fn faults_of_higher_levels_are_caught() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.level > Level::L2).collect();
    check(&rows, &[everything, threaded]);
}

#[test]
fn each_fault_has_a_name_of_its_own() {
    let rows = rows();
    let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len());
    assert!(rows.len() >= 175, "{} faults", rows.len());
}

#[test]
fn the_wrapper_alone_conforms() {
    let first = (first_level(), Fault::None, Level::L1);
    let native = (threaded(), Fault::Native(native::Call::Correct), Level::L4);
    for (caps, fault, expected) in [first, native] {
        let score = codegen_testkit::score(&Faulty { caps: caps.clone(), fault }, &cases(&caps));
        println!("{score}");
        assert!(score.conforms(expected), "{score}");
    }
}

/// The check of random programs catches a faulty code generator, and shrinks the failure.
#[test]
fn the_check_of_stages_catches_a_fault() {
    let codegen = Faulty { caps: first_level(), fault: rewrites::fault("f32", "a + b", "a - b") };
    let stages = Stages { codegens: vec![("faulty", Box::new(codegen))] };
    let text =
        "routine @sum strict { node %0 \"x\" f32[7] on_device for i0 in 0..7 { %0[i0] := %0[i0] + 1.5f32 } }";
    let routine = lowered_ir::text::parse(text).unwrap();
    let draw = |_| (RunCase::filled(routine.clone(), Vec::new(), |_, at| at as f64), "a sum".to_owned());
    let check = std::panic::AssertUnwindSafe(|| stages.check_seeds(20, draw));
    let message = codegen_core::panic_message(std::panic::catch_unwind(check).unwrap_err());
    for expected in ["compiled (faulty, Whole): wrong value", "of seed ", "a sum\nshrunk", "; run: %0 = ["] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

/// A kernel that computes in static memory is right unless another launch overlaps it.
#[test]
fn static_scratch_memory_is_caught_every_time() {
    let codegen = Faulty { caps: first_level(), fault: Fault::Native(native::Call::StaticScratch) };
    let all = sorted(&codegen.caps);
    let names = ["probe f32: +", "probe i32: bit_xor", "first_level/guards.lir:17 as written"];
    let some = names.map(|name| all.iter().find(|case| case.name == name).unwrap());
    for round in 0..50 {
        let is_caught = some.iter().any(|case| matches!(case.run(&codegen), Outcome::Failed(_)));
        assert!(is_caught, "round {round}");
    }
}
