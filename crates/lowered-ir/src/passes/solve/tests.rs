//! Compares solutions with the iterations that running the whole nest finds.

use super::*;
use crate::ir::{LoopKind, Stmt};

/// Loops `i0, i1` of the nest and `i8, i9` around the use.
const NEST: [LoopId; 2] = [LoopId(0), LoopId(1)];
const SITE: [LoopId; 2] = [LoopId(8), LoopId(9)];

fn ranges(extents: [i64; 4]) -> Ranges {
    let mut ranges = Ranges::default();
    for (&var, extent) in NEST.iter().chain(&SITE).zip(extents) {
        ranges.add(&[Stmt::looped(var, extent, LoopKind::Serial, Vec::new())]);
    }
    ranges
}

fn index(terms: &[(LoopId, i64)], offset: i64) -> Affine {
    let mut index = Affine::constant(offset);
    terms.iter().for_each(|&(var, c)| index.add_term(var.into(), c));
    index
}

fn solved(store: &Indices, wanted: &Indices, ranges: &Ranges) -> Result<Option<Solution>, Unsolvable> {
    solve(StoreTarget { index: store, loops: &NEST }, wanted, &Guard::new(), ranges)
}

/// The iterations that reach the element, by running all of them and by the solution.
fn agree(store: &Indices, wanted: &Indices, ranges: &Ranges, extents: [i64; 4], solution: Option<&Solution>) {
    for a in 0..extents[2] {
        for b in 0..extents[3] {
            let mut all = Vec::new();
            let mut found = Vec::new();
            for i in 0..extents[0] {
                for j in 0..extents[1] {
                    let value = |var: Var| match var {
                        Var::Loop(LoopId(0)) => i,
                        Var::Loop(LoopId(1)) => j,
                        Var::Loop(LoopId(8)) => a,
                        _ => b,
                    };
                    if store.iter().zip(wanted).all(|(s, w)| s.eval(value) == w.eval(value)) {
                        all.push((i, j));
                    }
                    let Some(solution) = solution else { continue };
                    let own = [(NEST[0], i), (NEST[1], j)];
                    let at_value = own
                        .iter()
                        .all(|(var, now)| solution.values.get(var).is_none_or(|v| v.eval(value) == *now));
                    let holds =
                        solution.conditions.iter().all(|r| (r.lo..r.hi).contains(&r.index.eval(value)));
                    if at_value && holds {
                        found.push((i, j));
                    }
                }
            }
            assert_eq!(all, found, "{store:?} = {wanted:?} at {a}, {b}: {solution:?} {ranges:?}");
        }
    }
}

#[test]
fn solutions_are_the_iterations_that_reach_the_element() {
    let [i, j] = NEST;
    let [a, b] = SITE;
    let stores = [
        index(&[(i, 1)], 0),
        index(&[(i, 1)], 1),
        index(&[(i, -1)], 5),
        index(&[(i, 2), (j, 1)], 0),
        index(&[(i, 2), (j, -1)], 3),
        index(&[(i, 1), (j, 3)], 1),
        index(&[(i, 1), (j, 1)], 0),
        index(&[(i, 2)], 1),
        index(&[(j, 1)], 0),
        index(&[], 2),
    ];
    let wanted = [
        index(&[(a, 1)], 0),
        index(&[(a, 2), (b, 1)], 0),
        index(&[(a, 2)], 1),
        index(&[(a, 2)], 0),
        index(&[(a, -1), (b, 3)], 2),
        index(&[], 3),
    ];
    let mut solutions = 0;
    for extents in [[3, 2, 4, 2], [2, 4, 3, 3], [1, 3, 2, 2]] {
        let ranges = ranges(extents);
        for pair in stores.iter().flat_map(|x| stores.iter().map(move |y| [x, y])) {
            let store: Indices = pair.into_iter().cloned().collect();
            for at in wanted.iter().flat_map(|x| wanted.iter().map(move |y| [x, y])) {
                let at: Indices = at.into_iter().cloned().collect();
                let Ok(solution) = solved(&store, &at, &ranges) else { continue };
                solutions += 1;
                agree(&store, &at, &ranges, extents, solution.as_ref());
            }
        }
    }
    assert!(solutions > 5000, "{solutions}");
}

#[test]
fn equal_structure_needs_no_loop_and_no_condition() {
    let [i, j] = NEST;
    let [a, b] = SITE;
    let ranges = ranges([4, 2, 4, 2]);
    let store = Indices::from_iter([index(&[(i, 2), (j, 1)], 0)]);
    let same = Indices::from_iter([index(&[(a, 2), (b, 1)], 0)]);
    let solution = solved(&store, &same, &ranges).unwrap().unwrap();
    assert_eq!(solution.values, BTreeMap::from([(i, a.into()), (j, b.into())]));
    assert!(solution.conditions.is_empty() && solution.kept.is_empty());
    // An index without the structure of the store leaves a loop, and the digit of the other loop becomes a
    // condition.
    let other = Indices::from_iter([index(&[(a, 1)], 0)]);
    let solution = solved(&store, &other, &ranges).unwrap().unwrap();
    assert_eq!(solution.kept, [i]);
    assert_eq!(solution.conditions.len(), 1);
}

#[test]
fn a_diagonal_is_tested_for_equality() {
    let ranges = ranges([4, 1, 4, 4]);
    let store = Indices::from_iter([index(&[(NEST[0], 1)], 0), index(&[(NEST[0], 1)], 0)]);
    let at = |x, y| Indices::from_iter([x, y]);
    let [a, b] = SITE;
    let solution = solved(&store, &at(a.into(), b.into()), &ranges).unwrap().unwrap();
    let difference = index(&[(a, -1), (b, 1)], 0);
    assert_eq!(solution.conditions.as_slice(), [Range { index: difference, lo: 0, hi: 1 }]);
    let on = solved(&store, &at(a.into(), a.into()), &ranges).unwrap().unwrap();
    assert!(on.conditions.is_empty());
    let off = at(a.into(), index(&[(a, 1)], 4));
    assert_eq!(solved(&store, &off, &ranges), Ok(None));
}

#[test]
fn what_would_divide_or_reorder_is_unsolvable() {
    let [i, j] = NEST;
    let ranges = ranges([3, 3, 9, 1]);
    let at = Indices::from_iter([SITE[0].into()]);
    let strided = Indices::from_iter([index(&[(i, 2)], 0)]);
    assert_eq!(solved(&strided, &at, &ranges), Err(Unsolvable::Division(0)));
    // The inner loop's step is 2: for one element, the iterations over `i` would run backwards.
    let window = Indices::from_iter([index(&[(i, 1), (j, 2)], 0)]);
    assert_eq!(solved(&window, &at, &ranges), Err(Unsolvable::Order(0)));
    let other_way = Indices::from_iter([index(&[(i, 2), (j, 1)], 0)]);
    assert!(solved(&other_way, &at, &ranges).is_ok());
}
