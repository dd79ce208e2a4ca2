//! What the tests share: contractions computed by their definition, and memory that faults beyond its end.

#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod guarded; // memory between pages that fault
mod reference; // the definition
pub(crate) mod writer; // epilogues

use microkernels::{COLUMN, Contraction, Factor, Machine, Offsets, Plan, ROW, SUM, Split, batch_index};
use vector_asm::{Element, Memory, Op, Place, Program, Stmt, Type, Value};

pub(crate) use guarded::Guarded;

/// A contraction with the bytes of its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) what: Contraction,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) bindings: Vec<i64>,
}

/// Bytes of an element.
pub(crate) fn size(element: Element) -> i64 {
    if element == Element::F64 { 8 } else { 4 }
}

/// `out[m, n] = left[m, k] · right[k, n]`, row-major, in arguments 2, 0 and 1; batched if there are loops around it.
pub(crate) fn matmul(element: Element, batch: &[u64], [m, n, k]: [u64; 3]) -> Case {
    let size = size(element);
    let terms = |elements: u64| {
        let mut step = elements as i64 * size;
        let mut terms = Vec::new();
        for (i, extent) in batch.iter().enumerate().rev() {
            terms.push((batch_index(i as u32), step));
            step *= *extent as i64;
        }
        terms
    };
    let factor = |base, elements, outer, depth| Factor {
        base,
        memory: Memory::Same,
        offset: 0,
        terms: terms(elements),
        outer: Offsets::Strided(outer),
        depth: Offsets::Strided(depth),
        bounds: Vec::new(),
    };
    let mut place = Place { base: Some(2), offset: 0, terms: terms(m * n), step: size, memory: Memory::Same };
    place.terms.extend([(ROW, n as i64 * size), (COLUMN, size)]);
    let what = Contraction {
        element,
        batch: batch.to_vec(),
        rows: m,
        columns: n,
        depth: k,
        left: factor(0, m * k, k as i64 * size, size),
        right: factor(1, k * n, size, n as i64 * size),
        start: None,
        epilogue: store(element, place),
        split: Split::None,
    };
    let times: u64 = batch.iter().product();
    let numbers = |seed, elements| numbers(element, seed, (times * elements) as usize);
    let args = vec![numbers(1, m * k), numbers(2, k * n), numbers(3, m * n)];
    Case { what, args, bindings: Vec::new() }
}

/// The epilogue that stores sums.
pub(crate) fn store(element: Element, place: Place) -> Program {
    Program {
        values: vec![Type { element, lanes: microkernels::LANES }],
        variables: vec![Type { element, lanes: microkernels::LANES }],
        counters: 0,
        body: vec![
            Stmt::Let { value: Value(0), op: Op::Get { variable: SUM, start: 0 } },
            Stmt::Store { place, value: Value(0), streaming: false },
        ],
    }
}

/// Bytes of random elements between -1 and 1.
pub(crate) fn numbers(element: Element, seed: u64, count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut draw = || random.f64() * 2.0 - 1.0;
    match element {
        Element::F64 => (0..count).flat_map(|_| draw().to_ne_bytes()).collect(),
        _ => (0..count).flat_map(|_| (draw() as f32).to_ne_bytes()).collect(),
    }
}

/// Machines with caches of several sizes, so that small products are cut in every way.
pub(crate) fn machines() -> Vec<Machine> {
    let here = Machine::detect();
    let caches = |first, second, shared| Machine { first, second, shared, ..here };
    vec![here, caches(4 << 10, 12 << 10, 64 << 10), caches(4 << 10, 1 << 10, 16 << 10)]
}

/// Checks a case on all machines, whole and in parts, against the definition, bit for bit.
pub(crate) fn check(case: &Case) {
    if !Machine::detect().vectors {
        return;
    }
    let expected = reference::run(case);
    for machine in machines() {
        let plan = Plan::new(&case.what, &machine).unwrap_or_else(|| panic!("no plan for {case:?}"));
        for parts in [1, 3] {
            for at_end in [true, false] {
                let found = run(&plan, case, parts, at_end);
                for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    assert!(
                        found == expected,
                        "argument {i} differs, {parts} parts: {:?} {plan:?}",
                        case.what
                    );
                }
            }
        }
    }
}

fn run(plan: &Plan, case: &Case, parts: u64, at_end: bool) -> Vec<Vec<u8>> {
    let mut args: Vec<Guarded> = case.args.iter().map(|bytes| Guarded::new(bytes, at_end)).collect();
    let addresses: Vec<*mut u8> = args.iter_mut().map(Guarded::address).collect();
    let scratch = vec![0x7f; plan.scratch_bytes().next_multiple_of(64)];
    let extent = plan.extent();
    for part in (0..parts).rev() {
        // A part has scratch memory of its own, and nothing behind it.
        let mut scratch = Guarded::new(&scratch, true);
        let (begin, end) = (extent * part / parts, extent * (part + 1) / parts);
        // SAFETY: the arguments have the elements that the contraction names, which faults if not.
        unsafe {
            plan.run(addresses.as_ptr(), case.bindings.as_ptr(), scratch.address(), begin, end);
        }
    }
    args.iter().map(Guarded::bytes).collect()
}
