//! Invalid programs and unsupported operations are rejected, with errors that name them.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use vector_asm::{
    Binary, Comparison, Counter, Index, Isa, LaneType, LoopRange, StoredType, Unary, Value, Variable,
    VectorAddress, VectorBuilder, VectorCode, VectorCompileError, VectorOp, VectorProgram,
    VectorProgramError, VectorStmt, VectorType, compile,
};
use vector_evaluator::{EvaluationState, evaluate};

const F32: LaneType = LaneType::F32;

const FOUR: VectorType = VectorType { element: F32, lanes: 4 };

/// A name, a program, and the error of the checker for it.
type Row = (&'static str, fn(&mut VectorBuilder), &'static str);

const INVALID: [Row; 11] = [
    (
        "an operand without a definition",
        |b| {
            b.define(FOUR, VectorOp::Unary(Unary::Negate, Value(7)));
        },
        "v7 is used where it is not defined",
    ),
    (
        "operands of different widths",
        |b| {
            let x = b.load(VectorAddress::at(0, F32), FOUR);
            let y = b.load(VectorAddress::at(0, F32), VectorType::new(F32, 3));
            b.add(x, y);
        },
        "v1 has 3 lanes, expected 4 or 1",
    ),
    (
        "operands of different types",
        |b| {
            let (x, y) = (b.f32(1.0), b.i32(1));
            b.add(x, y);
        },
        "v1 is of I32, expected F32",
    ),
    (
        "an operation that the type lacks",
        |b| {
            let x = b.i32(1);
            b.div(x, x);
        },
        "v1: Divide is no operation of I32",
    ),
    (
        "a load of another type than memory has",
        |b| {
            b.load(VectorAddress::at(0, F32).holding(StoredType::U8), FOUR);
        },
        "v0: U8 in memory is not F32",
    ),
    (
        "lanes stored at one address",
        |b| {
            let x = b.load(VectorAddress::at(0, F32), FOUR);
            b.store(VectorAddress::at(1, F32).step(0), x);
        },
        "a store of v0 whose lanes share one address",
    ),
    (
        "lanes beyond a variable's",
        |b| {
            let variable = b.variable(FOUR);
            b.extract_lanes(variable, 2, 3);
        },
        "x0 has 4 lanes, not the 3 from 2 on",
    ),
    (
        "a variable and a value without definitions",
        |b| b.set(Variable(3), Value(0)),
        "v0 is used where it is not defined",
    ),
    (
        "a counter outside of its loop",
        |b| {
            b.load(VectorAddress::at(0, F32).by(Counter(5), 4), FOUR);
        },
        "counter i5 is used outside of its loop or by two loops",
    ),
    (
        "the call's range inside of a loop",
        |b| b.repeat(LoopRange::Constant(2), |b, _| b.repeat(LoopRange::Call, |_, _| {})),
        "the loop i1 over the call's range is inside another loop or not the only one",
    ),
    (
        "no lanes",
        |b| {
            b.define(VectorType::new(F32, 0), VectorOp::Constant(0));
        },
        "v0 has no lanes",
    ),
];

#[test]
fn invalid_programs_are_named() {
    for (name, write, message) in INVALID {
        let mut b = VectorBuilder::new();
        write(&mut b);
        let found = b.finish().check().map_err(|error| error.to_string());
        assert_eq!(found, Err(message.to_owned()), "{name}");
    }
}

#[test]
fn values_are_visible_in_their_block() {
    let mut b = VectorBuilder::new();
    let mut inner = None;
    b.repeat(LoopRange::Constant(2), |b, _| inner = Some(b.f32(1.0)));
    b.store(VectorAddress::at(0, F32), inner.unwrap());
    let program = b.finish();
    assert_eq!(program.check(), Err(VectorProgramError::Undefined(Value(0))));
    assert_eq!(
        compile(&program, Isa::Avx2),
        Err(VectorCompileError::Program(VectorProgramError::Undefined(Value(0))))
    );
}

fn compiled(write: impl FnOnce(&mut VectorBuilder)) -> Result<VectorCode, VectorCompileError> {
    let mut b = VectorBuilder::new();
    write(&mut b);
    compile(&b.finish(), Isa::Avx2)
}

#[test]
fn operations_without_instructions_are_rejected() {
    let rejected = compiled(|b| {
        let x = b.load(VectorAddress::at(0, LaneType::I64), VectorType::new(LaneType::I64, 4));
        let y = b.convert(x, F32);
        b.store(VectorAddress::at(1, F32), y);
    });
    assert_eq!(rejected, Err(VectorCompileError::Conversion { from: LaneType::I64, to: F32 }));
    let rejected = compiled(|b| {
        let x = b.load(VectorAddress::at(0, F32), VectorType::new(F32, 4));
        let condition = b.compare(Comparison::Less, x, x);
        let y = b.load_if(condition, VectorAddress::at(0, F32).step(12), x, 4);
        b.store(VectorAddress::at(1, F32), y);
    });
    assert_eq!(rejected, Err(VectorCompileError::LoadIf));
}

#[test]
fn programs_print() {
    let mut b = VectorBuilder::new();
    let sum = b.variable(VectorType::new(F32, 8));
    b.repeat(LoopRange::Constant(3), |b, i| {
        let x = b.load(
            VectorAddress::at(0, F32).plus(4).by(i, 32).by(Index::Binding(1), 8),
            VectorType::new(F32, 8),
        );
        let s = b.get(sum);
        let s = b.binary(Binary::Add, s, x);
        b.set(sum, s);
    });
    let s = b.extract_lanes(sum, 2, 4);
    b.store_streaming(VectorAddress::scratch(F32), s);
    let text = "\
var x0 f32x8
for i0 in 0..3 {
  v0 f32x8 := arg0[4 + 32·i0 + 8·@1 step 4]
  v1 f32x8 := x0[0..]
  v2 f32x8 := Add v1, v0
  x0[0..] := v2
}
v3 f32x4 := x0[2..]
scratch[0 step 4] := v3 streaming
";
    assert_eq!(b.finish().to_string(), text);
}

#[test]
fn the_evaluator_keeps_within_memory() {
    let mut b = VectorBuilder::new();
    let x = b.load(VectorAddress::at(0, F32).plus(8), VectorType::new(F32, 2));
    b.store(VectorAddress::at(0, F32), x);
    let mut machine = EvaluationState { args: vec![vec![0; 12]], ..EvaluationState::default() };
    let wrong = evaluate(&b.finish(), &mut machine, 0..1).unwrap_err();
    assert_eq!(wrong, "4 bytes at 12 of base Some(0) are outside of its 12 bytes");
}

#[test]
fn a_program_without_statements_returns() {
    let program = VectorProgram { body: Vec::<VectorStmt>::new(), ..VectorProgram::default() };
    assert!(compile(&program, Isa::Avx2).is_ok());
}

#[test]
fn only_available_instruction_sets_are_chosen() {
    assert!(Isa::detect().is_none_or(Isa::is_available));
    assert_eq!(Isa::detect().is_some(), Isa::Avx2.is_available() || Isa::Neon.is_available());
    assert!(Isa::Avx2.is_available() || !Isa::Avx512.is_available());
}
