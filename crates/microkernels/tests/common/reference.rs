//! The definition of a contraction, output by output.

use microkernels::{COLUMN, Contraction, Factor, LANES, Offsets, ROW, batch_index};
use vector_asm::{Binary, Comparison, Element, Index, Memory, Op, Place, Program, Stmt, Unary};

use super::{Case, size};

/// What the arguments hold afterwards.
pub(crate) fn run(case: &Case) -> Vec<Vec<u8>> {
    let mut args = case.args.clone();
    let what = &case.what;
    each(&what.batch, &mut Vec::new(), &mut |batch| {
        for row in 0..what.rows {
            for column in 0..what.columns {
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
    let what = &case.what;
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
    let mut sum = what.start.as_ref().map_or(0.0, |p| load(what, args, p, at(p.offset, &p.terms)));
    for k in 0..what.depth {
        let a = element(what, args, &what.left, at(what.left.offset, &what.left.terms), row, k);
        let b = element(what, args, &what.right, at(what.right.offset, &what.right.terms), column, k);
        sum = fma(what.element, a, b, sum);
    }
    epilogue(what, &what.epilogue, args, sum, &at);
}

fn fma(element: Element, a: f64, b: f64, c: f64) -> f64 {
    if element == Element::F64 { a.mul_add(b, c) } else { f64::from((a as f32).mul_add(b as f32, c as f32)) }
}

fn element(
    what: &Contraction,
    args: &[Vec<u8>],
    factor: &Factor,
    offset: i64,
    outer: u64,
    depth: u64,
) -> f64 {
    let (o, d) = (outer as usize, depth as usize);
    if factor.bounds.iter().any(|b| !(0..b.limit).contains(&(b.outer[o] + b.depth[d]))) {
        return 0.0;
    }
    let offsets = |offsets: &Offsets, position: usize| match offsets {
        Offsets::Strided(step) => step * position as i64,
        Offsets::Table(table) => table[position],
    };
    let offset = offset + offsets(&factor.outer, o) + offsets(&factor.depth, d);
    read(what.element, factor.memory, &args[factor.base as usize][offset as usize..])
}

fn load(what: &Contraction, args: &[Vec<u8>], place: &Place, offset: i64) -> f64 {
    read(what.element, place.memory, &args[place.base.unwrap() as usize][offset as usize..])
}

fn read(element: Element, memory: Memory, bytes: &[u8]) -> f64 {
    let half = || u16::from_ne_bytes(bytes[..2].try_into().unwrap());
    match (memory, element) {
        (Memory::F16, _) => half::f16::from_bits(half()).to_f64(),
        (Memory::BF16, _) => half::bf16::from_bits(half()).to_f64(),
        (_, Element::F64) => f64::from_ne_bytes(bytes[..8].try_into().unwrap()),
        _ => f64::from(f32::from_ne_bytes(bytes[..4].try_into().unwrap())),
    }
}

fn write(element: Element, memory: Memory, bytes: &mut [u8], value: f64) {
    match (memory, element) {
        (Memory::F16, _) => bytes[..2].copy_from_slice(&half::f16::from_f32(value as f32).to_ne_bytes()),
        (Memory::BF16, _) => bytes[..2].copy_from_slice(&half::bf16::from_f32(value as f32).to_ne_bytes()),
        (_, Element::F64) => bytes[..8].copy_from_slice(&value.to_ne_bytes()),
        _ => bytes[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
    }
}

/// One lane of the epilogue. A comparison's value is 1 or 0 here.
fn epilogue(
    what: &Contraction,
    program: &Program,
    args: &mut [Vec<u8>],
    sum: f64,
    at: &impl Fn(i64, &[(Index, i64)]) -> i64,
) {
    let round = |value: f64| if what.element == Element::F64 { value } else { f64::from(value as f32) };
    let mut values = vec![0.0; program.values.len()];
    for stmt in &program.body {
        match stmt {
            Stmt::Let { value, op } => {
                let of = |value: &vector_asm::Value| values[value.0 as usize];
                let result = match op {
                    Op::Get { .. } => sum,
                    Op::Constant(bits) if what.element == Element::F64 => f64::from_bits(*bits),
                    Op::Constant(bits) => f64::from(f32::from_bits(*bits as u32)),
                    Op::Load(place) => load(what, args, place, at(place.offset, &place.terms)),
                    Op::Unary(Unary::Negate, a) => -of(a),
                    Op::Binary(Binary::Add, a, b) => round(of(a) + of(b)),
                    Op::Binary(Binary::Multiply, a, b) => round(of(a) * of(b)),
                    Op::Binary(Binary::Maximum, a, b) => {
                        if of(a) > of(b) {
                            of(a)
                        } else {
                            of(b)
                        }
                    }
                    Op::Compare(Comparison::Less, a, b) => f64::from(u8::from(of(a) < of(b))),
                    Op::Select(c, a, b) => {
                        if of(c) != 0.0 {
                            of(a)
                        } else {
                            of(b)
                        }
                    }
                    Op::Fma(a, b, c) => fma(what.element, of(a), of(b), of(c)),
                    other => panic!("no test uses {other:?}"),
                };
                values[value.0 as usize] = result;
            }
            Stmt::Store { place, value, .. } => {
                let offset = at(place.offset, &place.terms) as usize;
                let bytes = &mut args[place.base.unwrap() as usize][offset..];
                write(what.element, place.memory, bytes, values[value.0 as usize]);
            }
            other => panic!("no test uses {other:?}"),
        }
    }
    assert!(LANES > 0 && size(what.element) > 0);
}
