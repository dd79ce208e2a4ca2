//! Random programs of several routines against an independent evaluator.
//!
//! The fuzz target `differential` checks the same on bytes that a fuzzer finds. `DIFFERENTIAL_REJECTED=1`
//! prints the rejected programs.
#![allow(clippy::print_stdout, reason = "rejected programs are printed on request")]

mod check;

use check::{Report, check, check_on};
use filetests::generate::observed;
use random_programs::{
    Accumulation, BinaryFunction, ExpressionKind, ProgramNumber, ProgramWeights, UnaryFunction,
};
use random_programs::{bytes_of_seed, effort, program_from_seed};
use tnode::DType;

#[test]
fn random_programs_agree_with_the_evaluator() {
    let (mut report, mut failures) = (Report::default(), Vec::new());
    for seed in effort::seeds(30) {
        let bytes = bytes_of_seed(seed ^ 0xd1ff, 60 + seed as usize % 400);
        match check(&bytes) {
            Ok(one) => report.add(one),
            Err(error) => {
                println!("seed {seed}: {error}");
                failures.push(seed);
            }
        }
    }
    println!("{report:?}");
    assert!(failures.is_empty(), "seeds {failures:?}");
    // Most programs must run, and most elements must have a determined value; otherwise the comparison shows
    // little.
    assert!(report.runs > 2 * report.rejected, "{report:?}");
    assert!(report.exact > report.bounded + report.skipped, "{report:?}");
}

/// Programs on `i32`, where arithmetic wraps and every order gives the same bits. The front end and the
/// optimizer accept each of them, so every subexpression is inlined.
#[test]
fn programs_mean_what_they_say() {
    use BinaryFunction::{Add, Div, Eq, Ge, Gt, Le, Lt, Max, Min, Mul, Ne, Rem, Sub};
    use ProgramNumber::Integer;
    let mut weights = ProgramWeights::one_routine();
    (weights.types, weights.numbers) = (&[DType::I32], &[Integer(2), Integer(9), Integer(0), Integer(7)]);
    weights.functions = &[UnaryFunction::Neg, UnaryFunction::Abs, UnaryFunction::Not, UnaryFunction::Relu];
    weights.operators = &[Add, Sub, Mul, Div, Rem, Max, Min, Lt, Le, Gt, Ge, Eq, Ne];
    weights.accumulations = {
        use Accumulation::{Add, Max, Min, Mul, Store, Sub};
        &[Store, Store, Add, Add, Sub, Mul, Max, Min]
    };
    // Nothing to convert: all numbers are of one type, except indices, which may be unsigned. Written numbers
    // are therefore not negative.
    weights.expressions = {
        use ExpressionKind::{Bits, Comparison, Fma, Function, Leaf, Operator, Where};
        &[
            Leaf, Leaf, Operator, Operator, Operator, Operator, Function, Function, Where, Comparison, Bits,
            Fma,
        ]
    };
    let mut report = Report::default();
    for seed in effort::seeds(512) {
        let mut program = observed(program_from_seed(seed, 60 + seed as usize % 140, &weights));
        // A statement may add to a node that only a rejected statement wrote.
        for node in program.nodes.iter_mut().filter(|node| node.data.is_none()) {
            node.data = Some(vec![0; node.dims.iter().product()]);
        }
        let one = check_on(program, Some("interpreter"));
        report.add(one.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    println!("{report:?}");
    assert!(report.rejected == 0 && report.exact > 50 * (report.bounded + report.skipped), "{report:?}");
}
