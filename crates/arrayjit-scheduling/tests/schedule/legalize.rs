//! Legalization keeps every bit: the interpreter gives the same results before and after. The legal routine
//! has only legal operations (see `scheduling::legalize`).
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use codegen_core::{Caps, DTypeSet, Transcendental};
use lowered_ir::interp::{Buffer, Memory, PreparedRoutine, run};
use lowered_ir::ir::{
    Affine, BinaryOp, Expr, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Numerics, Range, Stmt,
    TernaryOp, UnaryOp, walk,
};
use lowered_ir::passes::log::log_values;
use lowered_ir::verify::verify;
use scheduling::{LegalizeError, legalize};
use tnode::{DType, ModeState, Scalar};

const NARROW_FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::Fp8E5m2, DType::Fp8E4m3fn];

fn caps(target: &str, arithmetic: impl Fn(DType) -> bool) -> Caps {
    Caps {
        arithmetic: DType::ALL.into_iter().filter(|&d| arithmetic(d)).collect(),
        vector_bytes: 16,
        vector_registers: 16,
        ..Caps::host(target)
    }
}

fn is_narrow_float(d: DType) -> bool {
    NARROW_FLOATS.contains(&d)
}

/// A CPU: every integer, the two wide floats.
fn cpu() -> Caps {
    caps("cpu", |d| !is_narrow_float(d) && d != DType::U32x4)
}

/// A CPU that converts two narrow floats from and to `f32`.
fn converting() -> Caps {
    Caps { conversions: [DType::F16, DType::Bf16].into_iter().collect(), ..cpu() }
}

/// A target without arithmetic below 32 bits.
fn wide_only() -> Caps {
    caps("wide", |d| d.size_bytes() >= 4 && d != DType::U32x4)
}

/// A target with arithmetic in narrow floats.
fn everything() -> Caps {
    caps("everything", |d| d != DType::U32x4)
}

/// A browser: arithmetic in 32 bits only.
fn single_only() -> Caps {
    caps("gpu", |d| matches!(d, DType::F32 | DType::I32 | DType::U32 | DType::U32x4 | DType::Bool))
}

fn node(name: &str, dtype: DType, len: usize) -> NodeDecl {
    NodeDecl { name: name.into(), dtype, dims: [len].into_iter().collect(), mode: ModeState::default() }
}

/// `out[i] := value` for every `i`; nodes are the operands, then `out`.
fn map(operands: &[(DType, usize)], out: DType, value: Expr) -> LoweredRoutine {
    let len = operands[0].1;
    let names = ["a", "b", "c"];
    let mut nodes: Vec<NodeDecl> =
        operands.iter().zip(names).map(|(&(dtype, len), name)| node(name, dtype, len)).collect();
    nodes.push(node("out", out, len));
    let target = NodeRef(operands.len() as u32);
    let set = Stmt::Set { node: target, index: [Affine::var(LoopId(0))].into_iter().collect(), value };
    let body = vec![Stmt::looped(LoopId(0), len as i64, LoopKind::Parallel, vec![set])];
    LoweredRoutine { name: "map".into(), numerics: Numerics::Strict, symbols: vec![], nodes, body }
}

fn operand(at: u32) -> Expr {
    Expr::get(NodeRef(at), [Affine::var(LoopId(0))])
}

fn bytes(values: &[Scalar]) -> Vec<u8> {
    values.iter().flat_map(|v| v.bits().to_le_bytes()[..v.dtype().size_bytes()].to_vec()).collect()
}

fn outcome(routine: &LoweredRoutine, operands: &[Vec<Scalar>]) -> Vec<u8> {
    let mut memory = Memory::zeroed(routine);
    for (node, values) in memory.nodes.iter_mut().zip(operands) {
        *node = bytes(values);
    }
    run(routine, &mut memory, &[]).unwrap();
    memory.nodes.pop().unwrap()
}

/// Legalizes a routine and checks that the verifier accepts the result, and that it has only legal operations
/// (see `scheduling::legalize`). Runs both routines and compares their results bit for bit.
#[track_caller]
fn assert_same(routine: &LoweredRoutine, caps: &Caps, operands: &[Vec<Scalar>], what: &str) {
    verify(routine).unwrap_or_else(|e| panic!("{what}: {e}"));
    let legal = legalize(routine, caps).unwrap_or_else(|e| panic!("{what}: {e}"));
    verify(&legal).unwrap_or_else(|e| panic!("{what} legalized: {e}"));
    assert_in_l0(&legal, caps, what);
    let (before, after) = (outcome(routine, operands), outcome(&legal, operands));
    if before != after {
        let out = routine.nodes.last().unwrap().dtype;
        let size = out.size_bytes();
        for (i, (b, a)) in before.chunks(size).zip(after.chunks(size)).enumerate() {
            let read = |bytes| Scalar::read(out, bytes).unwrap();
            let inputs: Vec<_> = operands.iter().map(|o| o[i]).collect();
            assert_eq!(
                read(b).bits(),
                read(a).bits(),
                "{what} on {} of {inputs:?}: {:?}",
                caps.target,
                read(b)
            );
        }
    }
}

#[track_caller]
fn assert_in_l0(legal: &LoweredRoutine, caps: &Caps, what: &str) {
    let locals = legal.locals();
    for expr in walk::parts_in(&legal.body) {
        let fault = fault(expr, &|e| legal.dtype_of(e, &locals), caps);
        assert!(fault.is_none(), "{what} on {}: {} in {expr:?}", caps.target, fault.unwrap());
    }
}

/// The reason why an expression is illegal, if it is.
fn fault(expr: &Expr, dtype: &dyn Fn(&Expr) -> DType, caps: &Caps) -> Option<String> {
    use BinaryOp::*;
    use UnaryOp::*;
    let computes = |e: &Expr| caps.arithmetic.contains(dtype(e)) || dtype(e) == DType::Bool;
    let rejected = match expr {
        Expr::Unary { op: Sin | Cos, arg } => !computes(arg) || dtype(arg) != DType::F64,
        Expr::Unary { op, arg } => {
            !computes(arg) || !matches!(op, Neg | Abs | Sqrt | Trunc | Floor | RoundEven)
        }
        Expr::Binary { op, a, b } => {
            let allowed = match op {
                Add | Sub | Mul | Max | Min | Lt | Le | Ne => dtype(a) != DType::Bool,
                Eq | BitAnd | BitOr | BitXor => true,
                Shl | Shr => is_shift_amount(b, dtype(a)),
                Div | Rem => dtype(a).is_float() || is_divisor(b),
                Pow | ReluGate | Satur01Gate | And | Or | Arg1 | Arg2 => false,
                Threefry | ThreefryCrypto | ThreefryLight => false,
            };
            !computes(a) || !allowed
        }
        Expr::Ternary { op: TernaryOp::Fma, a, .. } => !computes(a) || !dtype(a).is_float(),
        Expr::Convert { to, arg } => {
            let known = |d: DType| caps.arithmetic.contains(d) || d == DType::Bool || d.is_integer();
            let is_native = match (dtype(arg), *to) {
                (narrow, DType::F32) | (DType::F32, narrow) => caps.conversions.contains(narrow),
                _ => false,
            };
            !is_native && (!known(*to) || !known(dtype(arg)) || *to == DType::Bool)
        }
        Expr::Bitcast { to, arg } => to.size_bytes() != dtype(arg).size_bytes(),
        _ => false,
    };
    rejected.then(|| "illegal operation".to_owned())
}

fn is_shift_amount(by: &Expr, dtype: DType) -> bool {
    let width = 8 * dtype.size_bytes() as i64;
    match by {
        Expr::Const(k) => (0..width).contains(&k.as_i64()),
        Expr::Binary { op: BinaryOp::BitAnd, b, .. } => is_shift_amount(b, dtype),
        _ => false,
    }
}

fn is_divisor(by: &Expr) -> bool {
    match by {
        Expr::Const(k) => k.as_i64() != 0,
        Expr::Ternary { op: TernaryOp::Where, b, .. } => is_divisor(b),
        _ => false,
    }
}

/// Zeros, ones, limits, subnormals, infinities, NaNs and a few ordinary numbers, if the type has them.
fn edges(dtype: DType) -> Vec<Scalar> {
    let width = 8 * dtype.size_bytes() as u32;
    let mut patterns: Vec<u128> = vec![0, 1, 2, 3, 5, 7];
    if dtype == DType::Bool {
        return vec![Scalar::new(dtype, 0), Scalar::new(dtype, 1)];
    }
    let top = 1u128 << (width - 1);
    patterns.extend([top, top - 1, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 3, 100, 0x55]);
    let mut values: Vec<Scalar> = patterns.into_iter().map(|bits| Scalar::new(dtype, bits)).collect();
    let numbers =
        [-2.5, -2.0, -1.5, -1.0, -0.75, -0.5, -1e-3, 1e-3, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0];
    const INF: f64 = f64::INFINITY;
    let more = [1e-30, 1e30, -1e30, 1e13, -1e300, 90.0, -100.0, 33.0, 1e9, INF, -INF, f64::NAN];
    values.extend(numbers.into_iter().chain(more).map(|x| Scalar::from_f64(dtype, x)));
    values.sort();
    values.dedup();
    values
}

fn pairs(dtype: DType) -> [Vec<Scalar>; 2] {
    let edges = edges(dtype);
    let pairs = edges.iter().flat_map(|&a| edges.iter().map(move |&b| (a, b)));
    let (a, b) = pairs.unzip();
    [a, b]
}

fn computing_types() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|&d| d != DType::U32x4)
}

#[test]
fn unary_operations_keep_their_bits() {
    for caps in [cpu(), converting(), wide_only(), everything()] {
        for dtype in computing_types() {
            let values = edges(dtype);
            for &op in UnaryOp::ALL {
                let routine = map(&[(dtype, values.len())], dtype, Expr::unary(op, operand(0)));
                assert_same(&routine, &caps, std::slice::from_ref(&values), &format!("{op} {dtype}"));
            }
        }
    }
}

#[test]
fn binary_operations_keep_their_bits() {
    for caps in [cpu(), converting(), wide_only(), everything()] {
        for dtype in computing_types() {
            let [a, b] = pairs(dtype);
            for &op in BinaryOp::ALL {
                if op.is_random() || (op.is_bitwise() && dtype.is_float()) {
                    continue;
                }
                let value = Expr::binary(op, operand(0), operand(1));
                let routine = map(&[(dtype, a.len()), (dtype, b.len())], op.result(dtype), value);
                assert_same(&routine, &caps, &[a.clone(), b.clone()], &format!("{op} {dtype}"));
            }
        }
    }
}

#[test]
fn binary_operations_with_a_constant_keep_their_bits() {
    for caps in [cpu(), converting(), wide_only()] {
        for dtype in computing_types().filter(|d| d.is_integer() || is_narrow_float(*d)) {
            let values = edges(dtype);
            for k in [0, 1, -1, 2, 5, 77].map(|k| Scalar::from_i64(dtype, k)) {
                for &op in BinaryOp::ALL {
                    if op.is_random() || (op.is_bitwise() && dtype.is_float()) {
                        continue;
                    }
                    let value = Expr::binary(op, operand(0), Expr::Const(k));
                    let routine = map(&[(dtype, values.len())], op.result(dtype), value);
                    assert_same(&routine, &caps, std::slice::from_ref(&values), &format!("{op} {dtype} {k}"));
                }
            }
        }
    }
}

#[test]
fn ternary_operations_keep_their_bits() {
    for caps in [cpu(), converting(), wide_only(), everything()] {
        for dtype in computing_types() {
            let [a, b] = pairs(dtype);
            let c: Vec<Scalar> = a.iter().rev().copied().collect();
            let types = [(dtype, a.len()); 3];
            let fma = map(&types, dtype, Expr::fma(operand(0), operand(1), operand(2)));
            assert_same(&fma, &caps, &[a.clone(), b.clone(), c.clone()], &format!("fma {dtype}"));

            let condition = Expr::binary(BinaryOp::Lt, operand(0), operand(1));
            let choice = map(&types, dtype, Expr::select(condition, operand(2), operand(0)));
            assert_same(&choice, &caps, &[a, b, c], &format!("where {dtype}"));
        }
    }
}

#[test]
fn conversions_keep_their_bits() {
    for caps in [cpu(), converting(), wide_only(), everything()] {
        for from in computing_types() {
            for to in computing_types() {
                let values = edges(from);
                let routine = map(&[(from, values.len())], to, Expr::convert(to, operand(0)));
                assert_same(&routine, &caps, &[values], &format!("convert {to} from {from}"));
            }
        }
    }
}

/// A read of an integer is not mistaken for the narrow float to which it is cast.
#[test]
fn bitcasts_keep_their_bits() {
    for from in computing_types() {
        let has_size = |to: &DType| to.size_bytes() == from.size_bytes() && *to != DType::Bool;
        for to in computing_types().filter(has_size) {
            let values = edges(from);
            let routine = map(&[(from, values.len())], to, Expr::bitcast(to, operand(0)));
            for caps in [cpu(), converting(), wide_only()] {
                assert_same(&routine, &caps, std::slice::from_ref(&values), &format!("bitcast {to}({from})"));
            }
        }
    }
}

/// Every bit pattern of a narrow float, converted to every type.
#[test]
fn narrow_floats_are_decoded_exactly() {
    for from in NARROW_FLOATS {
        let values: Vec<Scalar> =
            (0..1u128 << (8 * from.size_bytes())).map(|bits| Scalar::new(from, bits)).collect();
        for to in [DType::F32, DType::F64, DType::I32, DType::Bool] {
            let routine = map(&[(from, values.len())], to, Expr::convert(to, operand(0)));
            assert_same(
                &routine,
                &cpu(),
                std::slice::from_ref(&values),
                &format!("convert {to} from {from}"),
            );
        }
    }
}

/// `f32` values at and next to the values and ties of narrow floats.
#[test]
fn floats_are_encoded_exactly() {
    for to in NARROW_FLOATS {
        let representable = (0..1u128 << (8 * to.size_bytes()))
            .step_by(if to.size_bytes() == 2 { 7 } else { 1 })
            .map(|bits| Scalar::new(to, bits).as_f32());
        let mut values = Vec::new();
        for x in representable {
            // A tie is half a step of the narrow type away. In the bits of an `f32` that is one bit, whose
            // position depends on the type.
            for half_step in [0u32, 1 << 12, 1 << 15, 1 << 19, 1 << 20] {
                let tie = x.to_bits() | half_step;
                values.extend([tie.wrapping_sub(1), tie, tie.wrapping_add(1)].map(u128::from));
            }
        }
        values.extend((0..=u32::MAX).step_by(104_729).map(u128::from));
        let values: Vec<Scalar> = values.into_iter().map(|bits| Scalar::new(DType::F32, bits)).collect();
        let routine = map(&[(DType::F32, values.len())], to, Expr::convert(to, operand(0)));
        assert_same(&routine, &cpu(), &[values], &format!("convert {to} from f32"));
    }
}

/// `f64` values and integers next to a tie of the narrow type, for which rounding twice gives another result.
#[test]
fn wide_values_round_once() {
    for to in NARROW_FLOATS {
        let count = 1u128 << (8 * to.size_bytes());
        let step = if to.size_bytes() == 2 { 61 } else { 1 };
        let mut values = Vec::new();
        for bits in (0..count / 2 - 1).step_by(step) {
            let [low, high] = [bits, bits + 1].map(|b| Scalar::new(to, b).as_f64());
            let tie = (low + high) / 2.0;
            let near = [tie, tie.next_up(), tie.next_down(), tie * (1.0 + 1e-9), tie * (1.0 - 1e-9)];
            values.extend(near.into_iter().flat_map(|x| [x, -x]).filter(|x| x.is_finite()));
        }
        for from in [DType::F64, DType::I32, DType::U32, DType::I64, DType::U64] {
            let values: Vec<Scalar> = values.iter().map(|&x| Scalar::from_f64(from, x)).collect();
            let routine = map(&[(from, values.len())], to, Expr::convert(to, operand(0)));
            assert_same(&routine, &cpu(), &[values], &format!("convert {to} from {from}"));
        }
        for from in [DType::I32, DType::U32, DType::I64, DType::U64] {
            let beside_powers = (0..63).flat_map(|p| [-1i64, 0, 1].map(|d| (1i64 << p).wrapping_add(d)));
            let beside_ties =
                (24..55).flat_map(|p| [-1i64, 0, 1].map(|d| (1i64 << p) + (1i64 << (p - 8)) + d));
            let values: Vec<Scalar> = beside_powers
                .chain(beside_ties)
                .flat_map(|x| [x, x.wrapping_neg()])
                .map(|x| Scalar::from_i64(from, x))
                .collect();
            let routine = map(&[(from, values.len())], to, Expr::convert(to, operand(0)));
            assert_same(&routine, &cpu(), &[values], &format!("convert {to} from {from}"));
        }
    }
}

/// A longer computation with a local, a guarded read and a nested expression, in every float type.
#[test]
fn locals_and_guarded_reads_keep_their_bits() {
    for dtype in computing_types().filter(|d| d.is_float()) {
        let values = edges(dtype);
        let (i, l) = (LoopId(0), lowered_ir::ir::LocalId(0));
        let before = Affine::var(i).plus_constant(-1);
        let guarded = Expr::GetGuarded {
            guard: [Range { index: before.clone(), lo: 0, hi: values.len() as i64 }].into_iter().collect(),
            node: NodeRef(0),
            index: [before].into_iter().collect(),
            otherwise: Box::new(Expr::unary(UnaryOp::Exp, Expr::local(l))),
        };
        let sum = Expr::binary(BinaryOp::Add, guarded, Expr::unary(UnaryOp::Tanh, operand(0)));
        let set =
            |value| Stmt::Set { node: NodeRef(1), index: [Affine::var(i)].into_iter().collect(), value };
        let body = vec![Stmt::serial(
            i,
            values.len() as i64,
            vec![
                Stmt::scalar(l, dtype),
                Stmt::set_scalar(l, Expr::binary(BinaryOp::Mul, operand(0), operand(0))),
                Stmt::set_scalar(l, sum),
                set(Expr::binary(BinaryOp::Max, Expr::local(l), operand(0))),
            ],
        )];
        let nodes = vec![node("a", dtype, values.len()), node("out", dtype, values.len())];
        let routine = LoweredRoutine {
            name: "locals".into(),
            numerics: Numerics::Strict,
            symbols: vec![],
            nodes,
            body,
        };
        for caps in [cpu(), converting(), wide_only(), everything()] {
            assert_same(&routine, &caps, std::slice::from_ref(&values), &format!("locals of {dtype}"));
        }
    }
}

/// Conversions stay operations, on what memory holds and on what another operation computes.
#[test]
fn conversions_that_a_target_has_stay() {
    for narrow in [DType::F16, DType::Bf16] {
        for (from, to) in [(narrow, DType::F32), (DType::F32, narrow)] {
            let routine = map(&[(from, 4)], to, Expr::convert(to, operand(0)));
            assert_eq!(legalize(&routine, &converting()).unwrap().body, routine.body);
        }
        let negated = map(&[(narrow, 4)], narrow, Expr::unary(UnaryOp::Sqrt, operand(0)));
        let root = Expr::unary(UnaryOp::Sqrt, Expr::convert(DType::F32, operand(0)));
        let expected = map(&[(narrow, 4)], narrow, Expr::convert(narrow, root));
        assert_eq!(legalize(&negated, &converting()).unwrap().body, expected.body);
    }
}

#[test]
fn moves_of_narrow_floats_stay_moves() {
    let routine = map(&[(DType::F16, 4)], DType::F16, operand(0));
    assert_eq!(legalize(&routine, &cpu()).unwrap().body, routine.body);
}

#[test]
fn what_a_target_lacks_is_named() {
    let no_double = single_only();
    let rejected =
        |dtype, value| legalize(&map(&[(dtype, 4)], dtype, value), &no_double).unwrap_err().to_string();
    assert_eq!(
        rejected(DType::I32, Expr::unary(UnaryOp::Sin, operand(0))),
        "routine `map`: gpu does not support `sin` on i32: it takes arithmetic in f64"
    );
    assert_eq!(
        rejected(DType::I64, Expr::binary(BinaryOp::Add, operand(0), operand(0))),
        "routine `map`: gpu does not support `+` on i64: it takes arithmetic in i64"
    );
    let exp = map(&[(DType::F32, 4)], DType::F32, Expr::unary(UnaryOp::Exp, operand(0)));
    assert!(legalize(&exp, &no_double).is_ok());

    let mut no_half = cpu();
    no_half.storage = [DType::F32].into_iter().collect::<DTypeSet>();
    let error = legalize(&map(&[(DType::F16, 4)], DType::F16, operand(0)), &no_half).unwrap_err();
    assert!(matches!(error, LegalizeError::Storage { dtype: DType::F16, .. }));
    assert_eq!(error.to_string(), "routine `map`: cpu does not store f16, the type of node %0 \"a\"");

    // A node that was inlined at every use takes no storage.
    let mut inlined = map(&[(DType::F32, 4)], DType::F32, operand(0));
    let unmentioned = NodeDecl { dtype: DType::F16, ..inlined.nodes[0].clone() };
    inlined.nodes.push(unmentioned);
    assert!(legalize(&inlined, &no_half).is_ok());
}

/// Without `f64`, or without `i64`, `sin`, `cos` and `pow` on `f32` are computed in 32 bits, within the sum
/// of the error bounds of both forms.
#[test]
fn functions_through_double_have_a_form_without() {
    let whole = |x: Expr| Expr::unary(UnaryOp::Floor, x);
    let cases = [
        Expr::unary(UnaryOp::Sin, operand(0)),
        Expr::unary(UnaryOp::Cos, operand(0)),
        Expr::binary(BinaryOp::Pow, operand(0), operand(1)),
        Expr::binary(BinaryOp::Pow, operand(0), whole(operand(1))),
    ];
    let no_long = caps("no_long", |d| !is_narrow_float(d) && !matches!(d, DType::I64 | DType::U64));
    let [a, b] = pairs(DType::F32);
    for (at, value) in cases.into_iter().enumerate() {
        let routine = map(&[(DType::F32, a.len()), (DType::F32, b.len())], DType::F32, value);
        for caps in [single_only(), no_long.clone()] {
            let legal = legalize(&routine, &caps).unwrap();
            verify(&legal).unwrap();
            assert_in_l0(&legal, &caps, "in f32 alone");
            let text = lowered_ir::text::print(&legal);
            assert!(!text.contains("f64") && !text.contains("i64"), "{text}");
            let operands = [a.clone(), b.clone()];
            let (exact, found) = (outcome(&routine, &operands), outcome(&legal, &operands));
            for (i, (exact, found)) in exact.chunks(4).zip(found.chunks(4)).enumerate() {
                let [exact, found] = [exact, found].map(|bytes| Scalar::read(DType::F32, bytes).unwrap());
                assert!(is_within(exact, found, 2), "case {at}, operands {i}: {found:?}, {exact:?}");
            }
        }
    }
}

/// Whether two `f32` are both NaN, or have one sign and differ by at most this many units in the last place.
fn is_within(a: Scalar, b: Scalar, ulps: u128) -> bool {
    let both_nan = a.as_f64().is_nan() && b.as_f64().is_nan();
    both_nan || (a.bits() >> 31 == b.bits() >> 31 && a.bits().abs_diff(b.bits()) <= ulps)
}

/// Normal distributions need `log`, `sqrt`, `sin` and `cos`.
#[test]
fn normal_fills_need_no_double() {
    for dtype in [DType::F32, DType::F16] {
        let draw = Expr::Const(Scalar::new(DType::U32x4, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210));
        let value = lowered_ir::random::normal(dtype, &draw, 1);
        let routine = map(&[(dtype, 4)], dtype, value);
        verify(&routine).unwrap();
        let legal = legalize(&routine, &single_only()).unwrap();
        verify(&legal).unwrap();
        assert_in_l0(&legal, &single_only(), "normal");
    }
}

#[test]
fn native_transcendental_functions_stay() {
    let mut native = cpu();
    native.transcendental = Transcendental::Native;
    let routine = map(&[(DType::F32, 4)], DType::F32, Expr::unary(UnaryOp::Tanh, operand(0)));
    assert_eq!(legalize(&routine, &native).unwrap().body, routine.body);
}

/// The lines that a routine logs on memory of zeros.
fn logged(routine: &LoweredRoutine, bindings: &[i64]) -> Vec<String> {
    let prepared = PreparedRoutine::new(routine).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::zeroed(routine);
    let mut buffers: Vec<Buffer<'_>> = memory.nodes.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
    let mut lines = Vec::new();
    prepared
        .run_logged(&mut buffers, None, bindings, &mut |line| lines.push(line.to_owned()))
        .unwrap_or_else(|error| panic!("{error}"));
    lines
}

/// Indices in logs are `i64`, with which a target of 32-bit indices may be unable to compute.
#[test]
fn logs_need_no_wide_integers() {
    let routine = lowered_ir::text::parse(
        "routine @r strict {
          symbol @n in 0..3
          node %0 \"x\" f32[4] on_device
          node %1 \"at\" i32[4] on_device
          node %2 \"y\" f32[4] on_device
          node %3 \"bytes\" u8[4] on_device
          for i0 in 0..4 {
            %2[i0] := guarded(0 <= i0 + @n - 1 < 4, %0[i0 + @n - 1], 2.0f32) + gather(%0[{%3[i0]}], 0.5f32)
            scatter + %0[{%1[i0]}] := 1.5f32
            scatter %2[{%3[i0]}] := 3.0f32
          }
        }",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let logging = log_values(&routine);
    let caps = Caps { index: DType::I32, ..single_only() };
    assert_eq!(caps.check(), Ok(()));
    let legal = legalize(&logging, &caps).unwrap_or_else(|error| panic!("{error}"));
    verify(&legal).unwrap_or_else(|error| panic!("{error}"));
    let locals = legal.locals();
    walk::parts_in(&legal.body).for_each(|expr| assert_ne!(legal.dtype_of(expr, &locals), DType::I64));
    let lines = logged(&logging, &[2]);
    assert!(lines.len() > 20, "{lines:?}");
    assert_eq!(logged(&legal, &[2]), lines);
}
