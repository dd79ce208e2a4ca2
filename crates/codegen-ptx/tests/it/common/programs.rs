//! Shared code of the tests on random programs: runs a routine on random numbers and compares it with the
//! unscheduled routine.

use codegen_ptx::{Ptx, PtxOptions, Target, ptx};
use codegen_testkit::Outcome;
use fastrand::Rng;
use filetests::{Expected, RunCase};
use lowered_ir::interp::Memory;
use lowered_ir::ir::Numerics;
use ptx_sim::ExecutionOrder;
use tnode::{DType, Scalar};

use crate::common::device;

/// A run of a routine on random numbers, with the expected results.
pub(crate) fn case(text: &str, seed: u64) -> RunCase {
    let routine = lowered_ir::text::parse(text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    lowered_ir::verify::verify(&routine).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    let mut random = Rng::with_seed(!seed);
    let mut inputs = Memory::zeroed(&routine).nodes;
    for ((_, decl), bytes) in routine.node_refs().zip(&mut inputs) {
        // Nodes that live for one run are zero before it.
        if !decl.mode.known_not_materialized() {
            fill(bytes, decl.dtype, routine.numerics, &mut random);
        }
    }
    let bindings = routine.symbols.iter().map(|symbol| random.i64(0..symbol.range)).collect();
    let (path, expected) = (format!("seed {seed}").into(), Vec::new());
    let mut case = RunCase { path, line: 0, routine, inputs, merge: None, bindings, expected };
    let nodes = case.interpret().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    let named =
        case.routine.node_refs().zip(nodes).filter(|((_, decl), _)| !decl.mode.known_not_materialized());
    let expect = |((node, _), bytes)| Expected { node, bytes, tolerance: 0.0 };
    case.expected = named.map(expect).collect();
    case
}

/// Random integers. Floats are small whole numbers, whose sums and products are exact in any order, if the
/// class leaves the order open.
fn fill(bytes: &mut [u8], dtype: DType, class: Numerics, random: &mut Rng) {
    for element in bytes.chunks_exact_mut(dtype.size_bytes()) {
        if !dtype.is_float() {
            element.fill_with(|| random.u8(..));
            continue;
        }
        let number = match class {
            Numerics::Fast => [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0][random.usize(..6)],
            Numerics::Strict => random.f64() * 6.0 - 3.0,
        };
        let bits = Scalar::from_f64(dtype, number).bits().to_le_bytes();
        element.copy_from_slice(&bits[..element.len()]);
    }
}

/// The codegen for a target that the seed selects.
pub(crate) fn codegen(seed: u64, options: PtxOptions) -> Ptx {
    ptx(Target::ALL[seed as usize % 3], options)
}

/// Runs a routine and compares its results with the unscheduled routine.
pub(crate) fn check(codegen: &Ptx, text: &str, seed: u64) {
    let outcome = device::run_case(codegen, &case(text, seed), ExecutionOrder::Random { seed });
    assert!(matches!(outcome, Outcome::Passed), "seed {seed} for {codegen:?}: {outcome:?}\n{text}");
}
