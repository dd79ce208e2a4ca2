//! Failing runs are reduced to small test files that fail in the same way.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use filetests::{
    RunCase,
    generate::{TypeChoice, bytes_of_seed, routine_of_types},
    reduce::{TRIES, reduce},
};
use lowered_ir::ir::{BinaryOp, Expr, walk};
use lowered_ir::verify::verify;
use tnode::DType;

const SOURCE: &str = "test run

routine @large fast {
  symbol @s in 0..3
  node %0 \"x\" f32[6, 4] on_device
  node %1 \"unused\" f32[4] on_device
  node %2 \"y\" f32[6] on_device
  node %3 \"z\" f32[6, 4] on_device
  zero %2
  for i0 in 0..6 parallel {
for i1 in 0..4 { %3[i0, i1] := exp(%0[i0, i1]) + %0[@s, i1] }
  }
  for i2 in 0..6 {
for i3 in 0..4 { %2[i2] := max(%3[i2, i3] * 2.0f32 + 1.0f32, %2[i2]) }
  }
}
; run: %0 = iota, @s = 2 => %1 = fill(0)
";

/// A stand-in for a faulty code generator: it fails whenever the routine has a maximum.
fn has_max(case: &RunCase) -> bool {
    walk::parts_in(&case.routine.body).any(|e| matches!(e, Expr::Binary { op: BinaryOp::Max, .. }))
}

#[test]
fn only_the_cause_remains() {
    let case = RunCase::parse_all("large.lir", SOURCE).unwrap().remove(0);
    let small = reduce(case, TRIES, &mut has_max);
    let text = small.to_lir();
    assert!(text.lines().count() <= 10, "{text}");
    assert!(has_max(&small), "{text}");
    // The text is a test file that means the same.
    let again = RunCase::parse_all("small.lir", &text).unwrap().remove(0);
    assert_eq!(again.to_lir(), text);
    assert_eq!(again.interpret().unwrap(), small.interpret().unwrap());
}

/// Random routines of a first-level target have its types only, and are as varied as others.
#[test]
fn random_routines_keep_to_their_types() {
    let types = TypeChoice::only(|_| false);
    for seed in 0..300 {
        let routine = routine_of_types(&bytes_of_seed(seed, 200), &types);
        verify(&routine).unwrap();
        let locals = routine.locals();
        let mut found: Vec<DType> = routine.nodes.iter().map(|decl| decl.dtype).collect();
        walk::parts_in(&routine.body).for_each(|expr| found.push(routine.dtype_of(expr, &locals)));
        let known = |dtype: &DType| matches!(dtype, DType::F32 | DType::I32 | DType::Bool);
        let other = found.iter().find(|dtype| !known(dtype));
        assert!(other.is_none(), "{other:?}\n{}", lowered_ir::text::print(&routine));
    }
}
