//! Problems with their memory, and the comparison of plans with the reference.

#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod guarded; // memory next to pages that fault
mod reference; // a GEMM computed one output at a time
pub(crate) mod writer; // epilogues

use microkernels::{
    ACCUMULATORS, AxisOffsets, COLUMN, CpuTarget, Dimension, DotInstructions, DynamicExtent, GemmOperand,
    GemmPlan, GemmProblem, ParallelAxis, ROW, batch_index,
};
use vector_asm::{
    Isa, LaneType, StoredType, Value, VectorAddress, VectorOp, VectorProgram, VectorStmt, VectorType,
};

pub(crate) use guarded::Guarded;

/// A problem with its bindings and the bytes of its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) problem: GemmProblem,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) bindings: Vec<i64>,
}

/// Bytes of an element.
pub(crate) fn size(element: LaneType) -> i64 {
    if element == LaneType::F64 { 8 } else { 4 }
}

/// `out[m, n] = A[m, k] · B[k, n]`, row-major; A, B and the output are arguments 0, 1 and 2. Batch loops
/// advance all three.
pub(crate) fn matmul(element: LaneType, batch: &[u64], [m, n, k]: [u64; 3]) -> Case {
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
    let operand = |base, elements, outer, k| GemmOperand {
        base,
        memory: StoredType::Same,
        offset: 0,
        terms: terms(elements),
        outer: AxisOffsets::Strided(outer),
        k: AxisOffsets::Strided(k),
        bounds: Vec::new(),
        outside: 0,
        zero: 0,
    };
    let mut place =
        VectorAddress { base: Some(2), offset: 0, terms: terms(m * n), step: size, memory: StoredType::Same };
    place.terms.extend([(ROW, n as i64 * size), (COLUMN, size)]);
    let problem = GemmProblem {
        element,
        batch: batch.to_vec(),
        m,
        n,
        k,
        dynamic: Vec::new(),
        a: operand(0, m * k, k as i64 * size, size),
        b: operand(1, k * n, size, n as i64 * size),
        initial: None,
        epilogue: store(element, place),
        parallel: ParallelAxis::None,
    };
    let times: u64 = batch.iter().product();
    let numbers = |seed, elements| numbers(element, seed, (times * elements) as usize);
    let args = vec![numbers(1, m * k), numbers(2, k * n), numbers(3, m * n)];
    Case { problem, args, bindings: Vec::new() }
}

/// The epilogue that stores the accumulators.
pub(crate) fn store(element: LaneType, place: VectorAddress) -> VectorProgram {
    VectorProgram {
        values: vec![VectorType { element, lanes: microkernels::EPILOGUE_LANES }],
        variables: vec![VectorType { element, lanes: microkernels::EPILOGUE_LANES }],
        counters: 0,
        body: vec![
            VectorStmt::Let { value: Value(0), op: VectorOp::Get { variable: ACCUMULATORS, start: 0 } },
            VectorStmt::Store { place, value: Value(0), streaming: false },
        ],
    }
}

/// Bytes of random elements: floats between -1 and 1, or integers.
pub(crate) fn numbers(element: LaneType, seed: u64, count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut draw = || random.f64() * 2.0 - 1.0;
    match element {
        LaneType::F64 => (0..count).flat_map(|_| draw().to_ne_bytes()).collect(),
        LaneType::I32 => (0..count).flat_map(|_| ((draw() * 2e9) as i32).to_ne_bytes()).collect(),
        _ => (0..count).flat_map(|_| (draw() as f32).to_ne_bytes()).collect(),
    }
}

/// CPUs with each instruction set that this machine has, and with caches of several sizes and distances, so
/// that small problems exercise every packing.
pub(crate) fn cpus() -> Vec<CpuTarget> {
    let here = CpuTarget::detect();
    let caches = |l1_bytes, l2_bytes, l3_bytes| CpuTarget { l1_bytes, l2_bytes, l3_bytes, ..here };
    let far = CpuTarget { l3_is_far: true, ..caches(4 << 10, 1 << 10, 16 << 10) };
    let cpus = [here, caches(4 << 10, 12 << 10, 64 << 10), far];
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available.flat_map(|isa| cpus.map(|cpu| CpuTarget { isa: Some(isa), ..cpu })).collect()
}

/// The CPUs for a problem: of products of integers, with all instructions that this machine has for them.
fn cpus_for(problem: &GemmProblem) -> Vec<CpuTarget> {
    if problem.element != LaneType::I32 {
        return cpus();
    }
    let dots: Vec<_> = DotInstructions::ALL.into_iter().filter(|dot| dot.is_available()).collect();
    let with = |cpu: CpuTarget| dots.iter().map(move |&dot| CpuTarget { dot: Some(dot), ..cpu });
    cpus().into_iter().flat_map(with).collect()
}

/// Plans for a CPU: by the heuristics, then with choices of packing and block sizes that a search reaches,
/// at most `most` of them.
fn plans(problem: &GemmProblem, cpu: &CpuTarget, most: usize) -> Option<Vec<GemmPlan>> {
    let mut plans = vec![GemmPlan::new(problem, cpu)?];
    let mut seen = vec![plans[0].blocking()];
    let mut next = 0;
    while next < plans.len() && plans.len() <= most {
        for choice in plans[next].alternatives(cpu) {
            if !seen.contains(&choice) && plans.len() <= most {
                seen.push(choice);
                let plan = GemmPlan::with_blocking(problem, cpu, &choice);
                plans.push(plan.expect("an alternative fits").expect("there is a plan"));
                assert_eq!(plans[plans.len() - 1].blocking(), choice);
            }
        }
        next += 1;
    }
    Some(plans)
}

/// The most choices per problem and CPU, beside that of the heuristics.
const CHOICES: usize = 6;

/// Compares a problem, planned for every CPU by heuristics and choices, and computed whole and in parts, with
/// the reference, bit for bit.
pub(crate) fn check(case: &Case) {
    if !cpus().is_empty() {
        compare(case, &reference::run(case));
    }
}

/// [`check`] with extents of M, N and K that each call gives as bindings: the results are those of a problem
/// of these extents on the same memory.
pub(crate) fn check_within(case: &Case, extents: [u64; 3]) {
    if cpus().is_empty() {
        return;
    }
    let [m, n, k] = extents;
    let exact = GemmProblem { m, n, k, ..case.problem.clone() };
    let expected = reference::run(&Case { problem: exact, ..case.clone() });
    let mut case = case.clone();
    for (dimension, extent) in [Dimension::M, Dimension::N, Dimension::K].into_iter().zip(extents) {
        let terms = vec![(case.bindings.len() as u32, 1)];
        case.problem.dynamic.push((dimension, DynamicExtent { offset: 0, terms }));
        case.bindings.push(extent as i64);
    }
    compare(&case, &expected);
}

fn compare(case: &Case, expected: &[Vec<u8>]) {
    for cpu in cpus_for(&case.problem) {
        let plans = plans(&case.problem, &cpu, CHOICES).unwrap_or_else(|| panic!("no plan for {case:?}"));
        for (plan, parts, at_end) in plans.iter().flat_map(|plan| {
            [(1, true), (1, false), (3, true), (3, false)].map(|(parts, at_end)| (plan, parts, at_end))
        }) {
            let found = run(plan, case, parts, at_end);
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert!(
                    found == expected,
                    "argument {i} differs, {parts} parts: {:?} {plan:?}",
                    case.problem
                );
            }
        }
    }
}

fn run(plan: &GemmPlan, case: &Case, parts: u64, at_end: bool) -> Vec<Vec<u8>> {
    let mut args: Vec<Guarded> = case.args.iter().map(|bytes| Guarded::new(bytes, at_end)).collect();
    let addresses: Vec<*mut u8> = args.iter_mut().map(Guarded::address).collect();
    let scratch = vec![0x7f; plan.scratch_bytes().next_multiple_of(64)];
    let extent = plan.extent();
    for part in (0..parts).rev() {
        // Each part has its own scratch memory, whose end faults.
        let mut scratch = Guarded::new(&scratch, true);
        let (begin, end) = (extent * part / parts, extent * (part + 1) / parts);
        // SAFETY: the arguments have the elements that the problem uses; any other access faults.
        unsafe {
            plan.run(addresses.as_ptr(), case.bindings.as_ptr(), scratch.address(), begin, end);
        }
    }
    args.iter().map(Guarded::bytes).collect()
}
