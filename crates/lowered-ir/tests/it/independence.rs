//! Compares rules V11 and V20 with brute force: all iterations of a routine that the verifier accepts are
//! enumerated. No access may be out of bounds, and no iteration of the parallel loop may access an element
//! that another one writes.

use std::collections::BTreeMap;

use lowered_ir::{
    ir::{
        Affine, Expr, Guard, Indices, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Numerics, Range,
        Stmt, Var,
    },
    verify::{Violation, verify},
};
use proptest::{collection::vec, prelude::*};
use tnode::{DType, ModeState, Scalar};

/// The number of loops: one around the parallel loop, the parallel loop, and two inside it.
const VARS: usize = 4;
const PARALLEL: usize = 1;

/// One statement `%0[write] := %0[read]`, the read perhaps guarded.
#[derive(Clone, Debug)]
struct Access {
    write: Indices,
    read: Option<(Guard, Indices)>,
}

#[derive(Clone, Debug)]
struct Case {
    /// The first and the last value of each loop.
    loops: Vec<(i64, i64)>,
    dims: [i64; 2],
    accesses: Vec<Access>,
}

fn affine() -> impl Strategy<Value = Affine> {
    let coefficient = prop_oneof![3 => Just(0i64), 2 => Just(1), 3 => -3i64..12];
    (vec(coefficient, VARS), -2i64..6).prop_map(|(coefficients, offset)| {
        let mut index = Affine::constant(offset);
        for (i, c) in coefficients.into_iter().enumerate() {
            index.add_term(Var::Loop(LoopId(i as u32)), c);
        }
        index
    })
}

fn indices() -> impl Strategy<Value = Indices> {
    vec(affine(), 2).prop_map(Indices::from)
}

/// A statement that reads nothing, or the element that it writes, or a nearby element, or any element.
fn access() -> impl Strategy<Value = Access> {
    let range = (affine(), -2i64..3, 1i64..8).prop_map(|(index, lo, len)| Range { index, lo, hi: lo + len });
    let guard = vec(range, 0..3).prop_map(Guard::from_vec);
    (indices(), 0..4, guard, indices(), -1i64..2).prop_map(|(write, kind, guard, other, shift)| {
        let near: Indices = write.iter().map(|index| index.plus_constant(shift)).collect();
        let read = match kind {
            0 => None,
            1 => Some((Guard::new(), write.clone())),
            2 => Some((guard, near)),
            _ => Some((guard, other)),
        };
        Access { write, read }
    })
}

fn case() -> impl Strategy<Value = Case> {
    let loops = vec((-1i64..2, 0i64..5).prop_map(|(lo, len)| (lo, lo + len - 1)), VARS);
    (loops, vec(access(), 1..3), 1i64..9).prop_map(|(loops, accesses, small)| Case {
        loops,
        dims: [64, small],
        accesses,
    })
}

fn routine(case: &Case) -> LoweredRoutine {
    let x = NodeDecl {
        name: "x".into(),
        dtype: DType::F32,
        dims: case.dims.iter().map(|&dim| dim as usize).collect(),
        mode: ModeState::undecided(),
    };
    let mut body: Vec<Stmt> = case.accesses.iter().map(stmt).collect();
    for (i, &(lo, hi)) in case.loops.iter().enumerate().rev() {
        let kind = if i == PARALLEL { LoopKind::Parallel } else { LoopKind::Serial };
        body = vec![Stmt::For { var: LoopId(i as u32), lo, hi: (hi + 1).into(), kind, body }];
    }
    LoweredRoutine { name: "r".into(), numerics: Numerics::Strict, symbols: Vec::new(), nodes: vec![x], body }
}

fn stmt(access: &Access) -> Stmt {
    let otherwise = Expr::Const(Scalar::zero(DType::F32));
    let node = NodeRef(0);
    let value = match access.read.clone() {
        None => otherwise,
        Some((guard, index)) if guard.is_empty() => Expr::Get { node, index },
        Some((guard, index)) => Expr::GetGuarded { guard, node, index, otherwise: Box::new(otherwise) },
    };
    Stmt::Set { node, index: access.write.clone(), value }
}

/// Calls `f` with every combination of values.
fn each_point(loops: &[(i64, i64)], point: &mut Vec<i64>, f: &mut impl FnMut(&[i64])) {
    let Some(&(lo, hi)) = loops.get(point.len()) else { return f(point) };
    for value in lo..=hi {
        point.push(value);
        each_point(loops, point, f);
        point.pop();
    }
}

fn value(index: &Affine, point: &[i64]) -> i64 {
    index.eval(|var| match var {
        Var::Loop(id) => point[id.index()],
        Var::Symbol(_) => 0,
    })
}

fn element(index: &Indices, point: &[i64]) -> [i64; 2] {
    [value(&index[0], point), value(&index[1], point)]
}

/// The elements an iteration reads, and those it writes.
#[derive(Default)]
struct Touched {
    reads: Vec<[i64; 2]>,
    writes: Vec<[i64; 2]>,
}

/// The elements that each iteration of the parallel loop touches, in each iteration of the loop around it.
fn touched(case: &Case) -> BTreeMap<(i64, i64), Touched> {
    let mut all: BTreeMap<(i64, i64), Touched> = BTreeMap::new();
    each_point(&case.loops, &mut Vec::new(), &mut |point| {
        let touched = all.entry((point[0], point[PARALLEL])).or_default();
        for access in &case.accesses {
            touched.writes.push(element(&access.write, point));
            let Some((guard, read)) = &access.read else { continue };
            if guard.iter().all(|range| (range.lo..range.hi).contains(&value(&range.index, point))) {
                touched.reads.push(element(read, point));
            }
        }
    });
    all
}

/// Whether an access is outside of the array.
fn escapes(case: &Case) -> bool {
    let inside = |e: &[i64; 2]| e.iter().zip(case.dims).all(|(i, dim)| (0..dim).contains(i));
    touched(case).values().any(|t| !t.reads.iter().chain(&t.writes).all(inside))
}

/// Whether an iteration of the parallel loop accesses an element that another one writes.
fn meets(case: &Case) -> bool {
    let all = touched(case);
    let pairs = all.iter().flat_map(|a| all.iter().map(move |b| (a, b)));
    let mut together = pairs.filter(|(((outer, i), _), ((other, j), _))| outer == other && i != j);
    together.any(|((_, a), (_, b))| a.writes.iter().any(|e| b.writes.contains(e) || b.reads.contains(e)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn accepted_routines_stay_inside_and_apart(case in case()) {
        if verify(&routine(&case)).is_ok() {
            prop_assert!(!escapes(&case), "out of bounds");
            prop_assert!(!meets(&case), "dependent");
        }
    }

    /// Without guards, the bounds of single indices are exact.
    #[test]
    fn rejected_bounds_are_really_exceeded(case in case()) {
        let plain = case.accesses.iter().all(|a| a.read.as_ref().is_none_or(|(guard, _)| guard.is_empty()));
        let violation = verify(&routine(&case)).err().map(|error| *error.violation);
        if plain && matches!(violation, Some(Violation::OutOfBounds { .. })) && case.loops.iter().all(|(lo, hi)| lo <= hi) {
            prop_assert!(escapes(&case));
        }
    }
}

/// The properties above test little unless many loops are accepted and many are rejected.
#[test]
fn accepted_and_rejected_loops_are_both_common() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut accepted, mut dependent) = (0, 0);
    for _ in 0..4096 {
        let case = case().new_tree(&mut runner).expect("a case").current();
        match verify(&routine(&case)) {
            Ok(()) => accepted += usize::from(case.loops[PARALLEL].0 < case.loops[PARALLEL].1),
            Err(error) => dependent += usize::from(matches!(*error.violation, Violation::Dependent { .. })),
        }
    }
    assert!(accepted >= 100 && dependent >= 100, "{accepted} accepted, {dependent} dependent");
}
