//! The reference: computes a problem one output at a time.

use microkernels::{AxisOffsets, COLUMN, EPILOGUE_LANES, GemmOperand, GemmProblem, ROW, batch_index};
use vector_asm::{
    Binary, Comparison, Index, LaneType, StoredType, Unary, VectorAddress, VectorOp, VectorProgram,
    VectorStmt,
};

use super::{Case, size};

/// Computes the problem and returns the arguments afterwards.
pub(crate) fn run(case: &Case) -> Vec<Vec<u8>> {
    let mut args = case.args.clone();
    let problem = &case.problem;
    each(&problem.batch, &mut Vec::new(), &mut |batch| {
        for row in 0..problem.m {
            for column in 0..problem.n {
                output(case, &mut args, batch, row, column);
            }
        }
    });
    args
}

fn each(extents: &[u64], at: &mut Vec<u64>, then: &mut impl FnMut(&[u64])) {
    let Some(&extent) = extents.get(at.len()) else { return then(at) };
    for i in 0..extent {
        at.push(i);
        each(extents, at, then);
        at.pop();
    }
}

fn output(case: &Case, args: &mut [Vec<u8>], batch: &[u64], row: u64, column: u64) {
    let problem = &case.problem;
    let index = |index: Index| match index {
        ROW => row as i64,
        COLUMN => column as i64,
        Index::Binding(binding) => case.bindings[binding as usize],
        counter => {
            (0..batch.len()).find(|&i| batch_index(i as u32) == counter).map(|i| batch[i] as i64).unwrap()
        }
    };
    let at = |offset: i64, terms: &[(Index, i64)]| {
        offset + terms.iter().map(|&(i, coefficient)| coefficient * index(i)).sum::<i64>()
    };
    let mut sum = problem.initial.as_ref().map_or(0.0, |p| load(problem, args, p, at(p.offset, &p.terms)));
    for k in 0..problem.k {
        let a = element(problem, args, &problem.a, at(problem.a.offset, &problem.a.terms), row, k);
        let b = element(problem, args, &problem.b, at(problem.b.offset, &problem.b.terms), column, k);
        sum = fma(problem.element, a, b, sum);
    }
    epilogue(problem, &problem.epilogue, args, sum, &at);
}

fn fma(element: LaneType, a: f64, b: f64, c: f64) -> f64 {
    match element {
        LaneType::F32 => f64::from((a as f32).mul_add(b as f32, c as f32)),
        // Sums of few products of bytes are exact in f64, and wrap when they are stored.
        _ => a.mul_add(b, c),
    }
}

fn element(
    problem: &GemmProblem,
    args: &[Vec<u8>],
    operand: &GemmOperand,
    offset: i64,
    outer: u64,
    k: u64,
) -> f64 {
    let (o, d) = (outer as usize, k as usize);
    if operand.bounds.iter().any(|b| !(0..b.limit).contains(&(b.outer[o] + b.k[d]))) {
        return match problem.element {
            LaneType::I32 => {
                read(problem.element, operand.memory, &[operand.outside]) - f64::from(operand.zero)
            }
            _ => 0.0,
        };
    }
    let offsets = |offsets: &AxisOffsets, position: usize| match offsets {
        AxisOffsets::Strided(step) => step * position as i64,
        AxisOffsets::Table(table) => table[position],
    };
    let offset = offset + offsets(&operand.outer, o) + offsets(&operand.k, d);
    let number = read(problem.element, operand.memory, &args[operand.base as usize][offset as usize..]);
    number - f64::from(operand.zero)
}

fn load(problem: &GemmProblem, args: &[Vec<u8>], place: &VectorAddress, offset: i64) -> f64 {
    read(problem.element, place.memory, &args[place.base.unwrap() as usize][offset as usize..])
}

fn read(element: LaneType, memory: StoredType, bytes: &[u8]) -> f64 {
    let half = || u16::from_ne_bytes(bytes[..2].try_into().unwrap());
    match (memory, element) {
        (StoredType::F16, _) => half::f16::from_bits(half()).to_f64(),
        (StoredType::BF16, _) => half::bf16::from_bits(half()).to_f64(),
        (StoredType::U8, _) => f64::from(bytes[0]),
        (StoredType::I8, _) => f64::from(bytes[0] as i8),
        (_, LaneType::F64) => f64::from_ne_bytes(bytes[..8].try_into().unwrap()),
        (_, LaneType::I32) => f64::from(i32::from_ne_bytes(bytes[..4].try_into().unwrap())),
        _ => f64::from(f32::from_ne_bytes(bytes[..4].try_into().unwrap())),
    }
}

fn write(element: LaneType, memory: StoredType, bytes: &mut [u8], value: f64) {
    match (memory, element) {
        (StoredType::F16, _) => bytes[..2].copy_from_slice(&half::f16::from_f32(value as f32).to_ne_bytes()),
        (StoredType::BF16, _) => {
            bytes[..2].copy_from_slice(&half::bf16::from_f32(value as f32).to_ne_bytes())
        }
        (_, LaneType::F64) => bytes[..8].copy_from_slice(&value.to_ne_bytes()),
        (_, LaneType::I32) => bytes[..4].copy_from_slice(&(value as i64 as i32).to_ne_bytes()),
        _ => bytes[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
    }
}

/// Computes one lane of the epilogue. The value of a comparison is 1 or 0.
fn epilogue(
    problem: &GemmProblem,
    program: &VectorProgram,
    args: &mut [Vec<u8>],
    sum: f64,
    at: &impl Fn(i64, &[(Index, i64)]) -> i64,
) {
    let round = |value: f64| if problem.element == LaneType::F32 { f64::from(value as f32) } else { value };
    let mut values = vec![0.0; program.values.len()];
    for stmt in &program.body {
        match stmt {
            VectorStmt::Let { value, op } => {
                let of = |value: &vector_asm::Value| values[value.0 as usize];
                let result = match op {
                    VectorOp::Get { .. } => sum,
                    VectorOp::Constant(bits) if problem.element == LaneType::F64 => f64::from_bits(*bits),
                    VectorOp::Constant(bits) => f64::from(f32::from_bits(*bits as u32)),
                    VectorOp::Load(place) => load(problem, args, place, at(place.offset, &place.terms)),
                    VectorOp::Unary(Unary::Negate, a) => -of(a),
                    VectorOp::Binary(Binary::Add, a, b) => round(of(a) + of(b)),
                    VectorOp::Binary(Binary::Multiply, a, b) => round(of(a) * of(b)),
                    VectorOp::Binary(Binary::Maximum, a, b) => {
                        if of(b) > of(a) || of(b).is_nan() {
                            of(b)
                        } else {
                            of(a)
                        }
                    }
                    VectorOp::Compare(Comparison::Less, a, b) => f64::from(u8::from(of(a) < of(b))),
                    VectorOp::Select(c, a, b) => {
                        if of(c) != 0.0 {
                            of(a)
                        } else {
                            of(b)
                        }
                    }
                    VectorOp::Fma(a, b, c) => fma(problem.element, of(a), of(b), of(c)),
                    other => panic!("no test uses {other:?}"),
                };
                values[value.0 as usize] = result;
            }
            VectorStmt::Store { place, value, .. } => {
                let offset = at(place.offset, &place.terms) as usize;
                let bytes = &mut args[place.base.unwrap() as usize][offset..];
                write(problem.element, place.memory, bytes, values[value.0 as usize]);
            }
            other => panic!("no test uses {other:?}"),
        }
    }
    assert!(EPILOGUE_LANES > 0 && size(problem.element) > 0);
}
