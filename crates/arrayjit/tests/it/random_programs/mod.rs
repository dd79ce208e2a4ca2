//! Random programs mean the same at every stage: lowered, optimized, scheduled and compiled
//! ([`codegen_testkit::stages`]).
//!
//! The variable `EFFORT` says how many programs (`random_programs::effort`). A failure prints the seed, the
//! program, and a test file: save it in the corpus.

mod half_contractions;
mod in_place;

use codegen_core::{Caps, Codegen};
use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift_with, host_caps};
use codegen_testkit::stages::{StageTally, StageVariants, Stages};
use filetests::RunCase;
use filetests::generate::{GeneratedProgram, Numbers, observed};
use lowered_ir::ir::Numerics;
use lowered_ir::text::print;
use random_programs::{ProgramWeights, RandomProgram, bytes_of_seed, program_from_seed};
use tnode::{DType, MemoryMode, Padding, TensorNode};

/// The stages on this machine, with wide vectors, narrow ones, and none.
fn stages() -> Stages {
    let codegen = |vector, optimize| -> Box<dyn Codegen> {
        let caps = Caps { threads: 4, ..host_caps(vector) };
        Box::new(cranelift_with(caps, CraneliftOptions { vector, optimize, ..CraneliftOptions::default() }))
    };
    Stages {
        codegens: vec![
            ("widest", codegen(VectorWidth::default(), false)),
            ("vectors", codegen(VectorWidth::Bits128, false)),
            ("scalars", codegen(VectorWidth::None, true)),
        ],
    }
}

fn programs(weights: &ProgramWeights, numerics: Numerics, count: u64) -> StageTally {
    stages().check_seeds(count, |seed| {
        let program = observed(program_from_seed(seed, 50 + seed as usize % 200, weights));
        let case = GeneratedProgram::of(&program).run_case(&program, numerics, Numbers::Fractions);
        (case.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{program}")), program.to_string())
    })
}

fn nests(numerics: Numerics, count: u64) -> StageTally {
    stages().check_seeds(count, |seed| {
        let nests = 0..1 + seed % 4;
        let choices: Vec<Vec<u8>> = nests.map(|nest| bytes_of_seed(4 * seed + nest, 60)).collect();
        let routine = in_place::routine(numerics, &choices);
        let listing = print(&routine);
        let mut case = RunCase::filled(routine, vec![seed as i64 % 6], |_, _| 0.0);
        for (at, (bytes, decl)) in case.inputs.iter_mut().zip(&case.routine.nodes).enumerate() {
            if decl.mode.mode().is_some() {
                Numbers::Whole.fill(decl.dtype, bytes, at as u64);
            }
        }
        (case, listing)
    })
}

#[test]
fn nests_in_place_keep_their_order_when_strict() {
    let tally = nests(Numerics::Strict, 100);
    assert!(tally.parallel > 0, "{tally:?}");
}

#[test]
fn nests_in_place_keep_their_order_when_fast() {
    let tally = nests(Numerics::Fast, 100);
    assert!(tally.parallel > 0, "{tally:?}");
}

#[test]
fn strict_programs_have_the_same_bits_everywhere() {
    let tally = programs(&ProgramWeights::large_nodes(), Numerics::Strict, 60);
    assert!(tally.inlined > 0 && tally.parallel > 0, "{tally:?}");
}

#[test]
fn fast_programs_have_the_bits_of_their_schedule() {
    let tally = programs(&ProgramWeights::large_nodes(), Numerics::Fast, 60);
    assert!(tally.inlined > 0 && tally.parallel > 0, "{tally:?}");
}

#[test]
fn fast_programs_stay_within_bounds() {
    let tally = programs(&ProgramWeights::bounded_errors(), Numerics::Fast, 60);
    assert!(tally.rounded > 0 && tally.kernels > 0 && tally.cases > 0, "{tally:?}");
}

#[test]
fn contractions_of_16_bit_floats_beside_copies() {
    for numerics in [Numerics::Fast, Numerics::Strict] {
        let tally = stages().check_seeds(24, |seed| {
            let program = half_contractions::program(&bytes_of_seed(seed, 40));
            let case = program.run_case(&RandomProgram::default(), numerics, Numbers::Whole);
            (case.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", program.text)), program.text)
        });
        assert!(tally.cases > 0 && tally.kernels > 0, "{tally:?}");
    }
}

/// Programs that once failed, with their nodes; `n` nodes are left to the optimizer.
#[test]
fn regressions_stay_fixed() {
    let padded = |name: &str, dtype, dims: &[usize], margin: usize| {
        let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
        let node = if name.starts_with('n') { node } else { node.mode(MemoryMode::Materialized) };
        let margins = dims.iter().map(|_| (margin, margin));
        let node = if margin == 0 { node } else { node.padding(Padding::new(margins, None)) };
        node.build().expect("a small node")
    };
    let node = |name, dims: &[usize]| padded(name, DType::F32, dims, 0);
    let rows = [
        (
            "A padded read that no iteration has inside.",
            vec![node("x", &[2, 2]), node("y", &[])],
            "y[] :+= neg(pad(x, 0)[-2, -2])",
        ),
        (
            "The value of a subexpression, which must be inlined, reads a node whose inlining declares a local.",
            vec![node("n", &[2]), node("x", &[2, 4]), node("y", &[5, 5])],
            "n[i] :+= (x[i, r] * x[i, r]) where i < 2, r < 4
             y[i, j] := (n[0] * (n[0] * x[0, 0])) where i < 5, j < 5",
        ),
        (
            "A fraction is a float and converts to an integer as one.",
            vec![padded("x", DType::I32, &[2], 0), padded("y", DType::U8, &[2], 0)],
            "x[i] := neg(i32(0.5)) where i < 2
             y[i] := 2.0 where i < 2",
        ),
        (
            "Margins shift every index, also of what is filled first.",
            vec![
                padded("x", DType::F32, &[4, 5], 2),
                padded("y", DType::F32, &[4], 1),
                padded("z", DType::F32, &[4], 1),
            ],
            "y[i] :+= x[i, j] where i < 4, j < 5
             z[i] := y[3 - i] + pad(x, 7)[i, i + 3] where i < 4
             z[i] max= pad(y, 0)[i + r - 1] where i < 4, r < 3",
        ),
        (
            "A sum whose chunks and partials have remainders.",
            vec![node("x", &[70]), node("y", &[])],
            "y[] :+= x[i] where i < 70",
        ),
        (
            "Inlining `n` by choice must not make the subexpressions, which have to be inlined, depend on what \
             is overwritten.",
            vec![node("x", &[2, 4]), node("y", &[1, 2]), node("n", &[]), node("z", &[5])],
            "n[] := (y[0, 0] * x[0, 0])
             x[0, 0] :+= ((n[] * n[]) * (n[] * n[])) + z[i] where i < 5",
        ),
    ];
    for (what, nodes, text) in rows {
        let program = GeneratedProgram { text: text.to_owned(), nodes };
        for numerics in [Numerics::Strict, Numerics::Fast] {
            let case = program.run_case(&RandomProgram::default(), numerics, Numbers::Fractions);
            let checked =
                case.and_then(|case| stages().check(&case, StageVariants::All, &mut StageTally::default()));
            checked.unwrap_or_else(|failure| panic!("{what} {numerics:?}: {failure}"));
        }
    }
}
