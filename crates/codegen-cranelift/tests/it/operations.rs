//! Every operation on every type, at edge values, against the interpreter, bit for bit: in scalar code, in
//! vector loops, and in vector loops with strided accesses.

use crate::common;

use codegen_core::CodegenError;
use common::{check, compile, kernel};
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{
    Affine, BinaryOp, Expr, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt, TernaryOp,
    UnaryOp,
};
use tnode::{DType, Scalar};

const COMPUTED: [DType; 10] = {
    use DType::{Bool, F32, F64, I8, I32, I64, U8, U16, U32, U64};
    [Bool, U8, I8, U16, I32, U32, I64, U64, F32, F64]
};

/// Numbers at which an operation changes its behavior.
fn edges(dtype: DType) -> Vec<Scalar> {
    if dtype == DType::Bool {
        return [0, 1].map(|b| Scalar::new(dtype, b)).to_vec();
    }
    if !dtype.is_float() {
        let bits = 8 * dtype.size_bytes() as u32;
        let top = 1u128 << (bits - 1);
        return [0, 1, 2, 3, 5, 31, 77, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 7]
            .map(|x| Scalar::new(dtype, x))
            .to_vec();
    }
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let plain = [0.0, 0.5, 1.0, 1.5, 2.5, 0.75, 3.0, 127.5, 255.5, 65535.5, 16777217.0, inf, nan, 1e-3, 7.3];
    let powers = [31, 32, 63, 64, -149, -1074, 127, 1023].map(|n| 2f64.powi(n));
    let magnitudes = plain.into_iter().chain(powers).chain([2f64.powi(31) - 1.0]);
    magnitudes.flat_map(|x| [x, -x]).map(|x| Scalar::from_f64(dtype, x)).collect()
}

fn node(name: &str, dtype: DType, len: usize) -> NodeDecl {
    let text = format!("routine @n {{\n  node %0 \"{name}\" {dtype}[{len}]\n}}\n");
    common::parse(&text).nodes.remove(0)
}

/// The forms of a loop over `len` elements, a multiple of 32; indices are `step * element`.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Serial,
    Vector,
    Strided,
}

/// `out[i] := value(a[i], b[i], c[i])` for all `i`.
fn elementwise(
    shape: Shape,
    inputs: &[DType],
    output: DType,
    len: usize,
    value: impl Fn(Vec<Expr>) -> Expr,
) -> LoweredRoutine {
    let step = if matches!(shape, Shape::Strided) { 3 } else { 1 };
    let (outer, inner) = (LoopId(0), LoopId(1));
    let index = Affine::term(outer, 32 * step).plus(&Affine::term(inner, step));
    let gets = (0..inputs.len() as u32).map(|n| Expr::get(NodeRef(n), [index.clone()])).collect();
    let out = NodeRef(inputs.len() as u32);
    let set = Stmt::Set { node: out, index: [index.clone()].into_iter().collect(), value: value(gets) };
    let kind = if matches!(shape, Shape::Serial) { LoopKind::Serial } else { LoopKind::Vector };
    let body = vec![Stmt::serial(outer, (len / 32) as i64, vec![Stmt::looped(inner, 32, kind, vec![set])])];
    let nodes = inputs.iter().chain([&output]).map(|&d| node("n", d, len * step as usize)).collect();
    LoweredRoutine { name: "op".into(), numerics: Numerics::Fast, symbols: vec![], nodes, body }
}

/// Compares the results for every combination of the inputs' edge values.
fn check_all(inputs: &[DType], output: DType, value: impl Fn(Vec<Expr>) -> Expr) {
    let mut rows: Vec<Vec<Scalar>> = vec![vec![]];
    for &dtype in inputs {
        let edges = edges(dtype);
        rows = rows.iter().flat_map(|row| edges.iter().map(|&e| [row.as_slice(), &[e]].concat())).collect();
    }
    let len = rows.len().next_multiple_of(32);
    for shape in [Shape::Serial, Shape::Vector, Shape::Strided] {
        let routine = elementwise(shape, inputs, output, len, &value);
        let mut memory = Memory::zeroed(&routine);
        let step = if matches!(shape, Shape::Strided) { 3 } else { 1 };
        for (n, dtype) in inputs.iter().enumerate() {
            let size = dtype.size_bytes();
            for (i, row) in rows.iter().enumerate() {
                row[n].write(&mut memory.nodes[n][i * step * size..]).expect("room for every row");
            }
        }
        check(routine, &memory, &[]);
    }
}

#[test]
fn unary_operations() {
    for &op in UnaryOp::ALL.iter().filter(|op| !op.is_transcendental()) {
        for dtype in COMPUTED {
            check_all(&[dtype], dtype, |mut args| Expr::unary(op, args.remove(0)));
        }
    }
}

/// The functions that kernels call: sine and cosine of `f64`. They are computed unconditionally, and under
/// conditions that fail in some or in all lanes of a vector.
#[test]
fn called_operations() {
    for op in [UnaryOp::Sin, UnaryOp::Cos] {
        check_all(&[DType::F64], DType::F64, |mut args| Expr::unary(op, args.remove(0)));
        check_all(&[DType::F64], DType::F64, |mut args| {
            let x = args.remove(0);
            let small = Expr::binary(BinaryOp::Lt, x.clone(), Expr::Const(Scalar::from_f64(DType::F64, 1.0)));
            Expr::select(small, Expr::unary(UnaryOp::Neg, x.clone()), Expr::unary(op, x))
        });
        check_all(&[DType::Bool, DType::F64], DType::F64, |mut args| {
            let x = args.remove(1);
            Expr::select(args.remove(0), x.clone(), Expr::unary(op, x))
        });
    }
}

fn binary_on(dtype: DType) {
    for &op in BinaryOp::ALL {
        let replaced = matches!(op, BinaryOp::Arg1 | BinaryOp::Arg2) || op.is_random();
        if replaced || (dtype.is_float() && (op.is_bitwise() || op == BinaryOp::Pow)) {
            continue;
        }
        check_all(&[dtype, dtype], op.result(dtype), |mut args| {
            let b = args.remove(1);
            Expr::binary(op, args.remove(0), b)
        });
    }
}

#[test]
fn binary_operations_on_bool() {
    binary_on(DType::Bool);
}

#[test]
fn binary_operations_on_narrow_integers() {
    [DType::U8, DType::I8, DType::U16].into_iter().for_each(binary_on);
}

#[test]
fn binary_operations_on_words() {
    [DType::I32, DType::U32].into_iter().for_each(binary_on);
}

#[test]
fn binary_operations_on_long_words() {
    [DType::I64, DType::U64].into_iter().for_each(binary_on);
}

#[test]
fn binary_operations_on_f32() {
    binary_on(DType::F32);
}

#[test]
fn binary_operations_on_f64() {
    binary_on(DType::F64);
}

#[test]
fn shifts_by_constants() {
    for dtype in COMPUTED.into_iter().filter(|d| d.is_integer()) {
        for op in [BinaryOp::Shl, BinaryOp::Shr] {
            for amount in [0, 1, 7, 8, 23, 63, 64] {
                check_all(&[dtype], dtype, |mut args| {
                    Expr::binary(op, args.remove(0), Expr::Const(Scalar::new(dtype, amount)))
                });
            }
        }
    }
}

#[test]
fn choices() {
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::U32x4) {
        check_all(&[DType::Bool, dtype], dtype, |mut args| {
            let x = args.remove(1);
            Expr::select(args.remove(0), x, Expr::Const(Scalar::from_f64(dtype, 1.0)))
        });
    }
}

#[test]
fn fused_multiplication_and_addition() {
    for dtype in COMPUTED {
        check_all(&[dtype, dtype], dtype, |mut args| {
            let b = args.remove(1);
            Expr::fma(args[0].clone(), b, Expr::Const(Scalar::from_f64(dtype, 3.0)))
        });
    }
}

#[test]
fn conversions() {
    for from in COMPUTED {
        for to in COMPUTED {
            check_all(&[from], to, |mut args| Expr::convert(to, args.remove(0)));
        }
    }
}

#[test]
fn reinterpretations() {
    for from in DType::ALL.into_iter().filter(|&d| d != DType::U32x4) {
        for to in
            DType::ALL.into_iter().filter(|&to| to.size_bytes() == from.size_bytes() && to != DType::Bool)
        {
            check_all(&[from], to, |mut args| Expr::bitcast(to, args.remove(0)));
        }
    }
}

#[test]
fn comparisons_of_every_width_choose_values_of_every_width() {
    for compared in [DType::I8, DType::F32, DType::I64, DType::F64] {
        for chosen in [DType::U8, DType::F32, DType::F64] {
            check_all(&[compared, chosen], chosen, |mut args| {
                let x = args.remove(1);
                let a = args.remove(0);
                let zero = Expr::Const(Scalar::zero(compared));
                let condition = Expr::binary(BinaryOp::Lt, a, zero);
                Expr::select(condition, x, Expr::Const(Scalar::one(chosen)))
            });
        }
    }
}

#[test]
fn unsupported_operations_are_named() {
    let rejected = |dtype: DType, value: &dyn Fn(Expr) -> Expr| {
        let routine = elementwise(Shape::Vector, &[dtype], dtype, 32, |mut args| value(args.remove(0)));
        compile(&kernel(routine), &Default::default()).expect_err("legalization must come before")
    };
    let errors = [
        (rejected(DType::F32, &|x| Expr::unary(UnaryOp::Exp, x)), "`exp` on f32"),
        (rejected(DType::F16, &|x| Expr::unary(UnaryOp::Neg, x)), "`neg` on f16"),
        (rejected(DType::Bf16, &|x| Expr::binary(BinaryOp::Add, x.clone(), x)), "`+` on bf16"),
        (rejected(DType::F64, &|x| Expr::binary(BinaryOp::Pow, x.clone(), x)), "`pow` on f64"),
        (rejected(DType::F16, &|x| Expr::ternary(TernaryOp::Fma, x.clone(), x.clone(), x)), "`fma` on f16"),
    ];
    for (error, expected) in errors {
        let CodegenError::Unsupported { op, kernel, .. } = error else { panic!("{error}") };
        assert_eq!((op.as_str(), kernel.as_str()), (expected, "op.k0"));
    }
}

/// Memory with these inputs, in every third element if accesses are strided.
fn memory_of(routine: &LoweredRoutine, shape: Shape, values: &[Scalar]) -> Memory {
    let mut memory = Memory::zeroed(routine);
    let step = if matches!(shape, Shape::Strided) { 3 } else { 1 };
    for (i, value) in values.iter().enumerate() {
        value
            .write(&mut memory.nodes[0][i * step * value.dtype().size_bytes()..])
            .expect("room for every value");
    }
    memory
}

/// Checks a conversion bit for bit, NaN included: of what memory holds to memory, and between registers.
fn check_bits(from: DType, to: DType, values: &[Scalar]) {
    let bits = |dtype: DType| if dtype == DType::F32 { DType::U32 } else { DType::U16 };
    let converted = |x: Expr| Expr::convert(to, x);
    let in_registers = |x: Expr| {
        let word = Expr::binary(BinaryOp::BitXor, x, Expr::Const(Scalar::new(bits(from), 0)));
        Expr::bitcast(bits(to), converted(Expr::bitcast(from, word)))
    };
    let len = values.len().next_multiple_of(32);
    for shape in [Shape::Serial, Shape::Vector, Shape::Strided] {
        for is_register in [false, true] {
            let routine = match is_register {
                true => elementwise(shape, &[bits(from)], bits(to), len, |mut x| in_registers(x.remove(0))),
                false => elementwise(shape, &[from], to, len, |mut x| converted(x.remove(0))),
            };
            let memory = memory_of(&routine, shape, values);
            let mut expected = memory.clone();
            interp::run(&routine, &mut expected, &[]).expect("verified routines run");
            let kernel = kernel(routine);
            for options in common::all_options() {
                let artifact = compile(&kernel, &options).expect("the types are supported");
                let found = common::run_native(&artifact, &kernel, &memory, &[]);
                let size = to.size_bytes();
                let both = expected.nodes[1].chunks(size).zip(found.nodes[1].chunks(size));
                let first = both.enumerate().find(|(_, (expected, found))| expected != found);
                assert_eq!(first, None, "{to} from {from} with {options:?}, {shape:?}, {is_register}");
            }
        }
    }
}

/// Every bit pattern, by the instruction of each vector width and by the expansion of scalar code.
#[test]
fn halves_convert_to_the_bits_of_the_definition() {
    for from in [DType::F16, DType::Bf16] {
        let values: Vec<Scalar> = (0..1 << 16).map(|bits| Scalar::new(from, bits)).collect();
        check_bits(from, DType::F32, &values);
    }
}

/// `f32` at and beside the values and the ties of halves, and NaN with every leading bit pattern.
#[test]
fn singles_round_to_the_halves_of_the_definition() {
    for to in [DType::F16, DType::Bf16] {
        let mut values = Vec::new();
        for bits in (0..1u128 << 16).step_by(3) {
            let value = Scalar::new(to, bits).as_f32().to_bits();
            for half_step in [0, 1 << 12, 1 << 15] {
                let tie = value ^ half_step;
                values.extend([tie.wrapping_sub(1), tie, tie.wrapping_add(1)]);
            }
        }
        values.extend((0..1 << 16).map(|high: u32| high << 16 | 1));
        let values: Vec<Scalar> = values.into_iter().map(|x| Scalar::new(DType::F32, x.into())).collect();
        check_bits(DType::F32, to, &values);
    }
}

/// A narrow float that a kernel stores and reads again is the rounded one.
#[test]
fn stored_halves_are_read_rounded() {
    for narrow in ["f16", "bf16"] {
        let text = format!(
            "routine @round {{
              node %0 \"x\" f32[64]
              node %1 \"h\" {narrow}[64]
              node %2 \"y\" f32[64]
              for i0 in 0..64 vector {{
                %1[i0] := convert {narrow}(%0[i0])
                %2[i0] := convert f32(%1[i0])
              }}
            }}"
        );
        let routine = common::parse(&text);
        let memory = common::filled(&routine, 7);
        check(routine, &memory, &[]);
    }
}
