//! Cases for single operations on special values: every operation that a target claims to compute.
//!
//! The corpus shows operations in typical programs; a probe computes one of them on all pairs of the values
//! that operations treat specially. Each probe of a claimed type names the claim, so that a failure says
//! which claim of [`Caps`] is false.

use codegen_core::{Caps, Transcendental};
use filetests::RunCase;
use lowered_ir::{
    interp::Memory,
    ir::{
        Affine, BinaryOp, Expr, Indices, LoopId, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt,
        TernaryOp, UnaryOp,
    },
    verify::verify,
};
use tnode::{DType, Dims, ModeState, Scalar};

mod compositions;
mod indices;
mod reductions;

/// A case for some operations, with the claim that it tests.
pub(crate) struct Probe {
    pub(crate) name: String,
    pub(crate) claim: Option<String>,
    pub(crate) run: RunCase,
}

impl Probe {
    fn new(name: String, claim: Option<String>, routine: LoweredRoutine, inputs: Vec<Vec<u8>>) -> Probe {
        let memory = Memory { nodes: inputs, merge: None };
        let run =
            RunCase { path: format!("probe {name}").into(), ..RunCase::of(routine, memory, Vec::new()) };
        Probe { name, claim, run }
    }
}

/// The claim of `caps` that makes a target compute with a type.
fn claim_of_type(caps: &Caps, dtype: DType) -> Option<String> {
    if caps.arithmetic.contains(dtype) {
        return Some(format!("native arithmetic on {dtype}"));
    }
    caps.storage.contains(dtype).then(|| format!("storage of {dtype}"))
}

/// The probes of a target: each operation on `f32`, `i32` and `bool`, and groups of operations on each other
/// type that the target stores.
pub(crate) fn probes(caps: &Caps) -> Vec<Probe> {
    let first = [DType::F32, DType::I32, DType::Bool];
    let other = DType::ALL
        .into_iter()
        .filter(|d| !first.contains(d) && *d != DType::U32x4 && caps.storage.contains(*d));
    let mut all = Vec::new();
    let stored: Vec<DType> = DType::ALL.into_iter().filter(|d| caps.storage.contains(*d)).collect();
    for dtype in first {
        let each = families(dtype, &first).into_iter().flat_map(|(_, ops)| ops);
        all.extend(each.filter_map(|op| probe(caps, dtype, &op.name.clone(), vec![op])));
        let others: Vec<DType> = stored.iter().copied().filter(|to| !first.contains(to)).collect();
        let conversions = families(dtype, &others).pop();
        all.extend(conversions.and_then(|(_, ops)| probe(caps, dtype, "conversions to other types", ops)));
    }
    for dtype in other {
        all.extend(
            families(dtype, &stored).into_iter().filter_map(|(name, ops)| probe(caps, dtype, name, ops)),
        );
    }
    for &dtype in stored.iter().filter(|dtype| **dtype != DType::U32x4) {
        let targets = if first.contains(&dtype) { &first[..] } else { &stored };
        let composed = compositions::families(dtype, targets).into_iter();
        all.extend(
            composed.filter_map(|(name, ops)| probe_on(caps, dtype, &name, ops, compositions::rows(dtype))),
        );
    }
    for dtype in first {
        let others: Vec<DType> = stored.iter().copied().filter(|to| !first.contains(to)).collect();
        let operations = compositions::all_conversions(dtype, &others);
        let name = "conversions of results to other types";
        all.extend(probe_on(caps, dtype, name, operations, compositions::rows(dtype)));
    }
    all.push(indices::wide_conditions());
    let integers = stored.iter().filter(|dtype| dtype.is_integer() && **dtype != DType::U32x4);
    all.extend(integers.map(|&dtype| indices::computed(caps, dtype)));
    let ordered = stored.into_iter().filter(|dtype| !matches!(dtype, DType::Bool | DType::U32x4));
    all.extend(ordered.map(|dtype| reductions::probe(caps, dtype)));
    all
}

/// An operation on the operands of a probe.
struct Operation {
    name: String,
    value: Expr,
    result: DType,
    is_transcendental: bool,
}

impl Operation {
    /// The operand at this position.
    fn at(operand: u32) -> Expr {
        Expr::get(NodeRef(operand), [Affine::var(LoopId(0))])
    }

    fn plain(name: &str, value: Expr, result: DType) -> Operation {
        Operation { name: name.to_owned(), value, result, is_transcendental: false }
    }
}

/// The three operands of each row of a probe.
type Operands = (Vec<Scalar>, Vec<Scalar>, Vec<Scalar>);

/// The operations on a type, in groups.
fn families(dtype: DType, targets: &[DType]) -> Vec<(&'static str, Vec<Operation>)> {
    let (at, plain) = (Operation::at, Operation::plain);
    let unary = |op: &UnaryOp| Operation {
        is_transcendental: op.is_transcendental(),
        ..plain(op.token(), Expr::unary(*op, at(0)), dtype)
    };
    let binary = |op: &BinaryOp| Operation {
        is_transcendental: *op == BinaryOp::Pow,
        ..plain(op.token(), Expr::binary(*op, at(0), at(1)), op.result(dtype))
    };
    let less = || Expr::binary(BinaryOp::Lt, at(0), at(1));
    let ternary = vec![
        plain("where", Expr::select(less(), at(1), at(0)), dtype),
        plain("fma", Expr::fma(at(0), at(1), at(2)), dtype),
        plain("mul3", Expr::ternary(TernaryOp::Mul3, at(0), at(1), at(2)), dtype),
        // Two roundings: a code generator must not contract them.
        plain(
            "a * b + c",
            Expr::binary(BinaryOp::Add, Expr::binary(BinaryOp::Mul, at(0), at(1)), at(2)),
            dtype,
        ),
        plain(
            "c - a * b",
            Expr::binary(BinaryOp::Sub, at(2), Expr::binary(BinaryOp::Mul, at(0), at(1))),
            dtype,
        ),
    ];
    let convert = |to: &DType| plain(&format!("convert {to}"), Expr::convert(*to, at(0)), *to);
    let is_special = |op: &BinaryOp| op.is_random() || matches!(op, BinaryOp::Arg1 | BinaryOp::Arg2);
    let (bits, rest): (Vec<BinaryOp>, Vec<BinaryOp>) =
        BinaryOp::ALL.iter().copied().filter(|op| !is_special(op)).partition(|op| op.is_bitwise());
    let (tests, arithmetic): (Vec<BinaryOp>, Vec<BinaryOp>) =
        rest.into_iter().partition(|op| op.is_comparison());
    let (functions, simple): (Vec<UnaryOp>, Vec<UnaryOp>) =
        UnaryOp::ALL.iter().partition(|op| op.is_transcendental());
    vec![
        ("unary operations", simple.iter().map(unary).collect()),
        ("transcendental operations", functions.iter().map(unary).collect()),
        ("arithmetic", arithmetic.iter().map(binary).collect()),
        ("comparisons", tests.iter().map(binary).collect()),
        ("bit operations", bits.iter().map(binary).collect()),
        ("ternary operations", ternary),
        (
            "conversions",
            targets.iter().filter(|to| **to != dtype && **to != DType::U32x4).map(convert).collect(),
        ),
    ]
}

/// The probe of some operations on a type; `None` if the verifier rejects all of them, as it does bit
/// operations on floats.
fn probe(caps: &Caps, dtype: DType, name: &str, operations: Vec<Operation>) -> Option<Probe> {
    probe_on(caps, dtype, name, operations, pairs(dtype))
}

/// The [`probe`] on these operands.
fn probe_on(
    caps: &Caps,
    dtype: DType,
    name: &str,
    operations: Vec<Operation>,
    values: Operands,
) -> Option<Probe> {
    let claims_native = operations.iter().any(|op| op.is_transcendental && dtype.is_float())
        && caps.transcendental == Transcendental::Native;
    let operations: Vec<Operation> = operations
        .into_iter()
        .filter(|op| verify(&routine(values.0.len(), dtype, std::slice::from_ref(op))).is_ok())
        .collect();
    if operations.is_empty() {
        return None;
    }
    let routine = routine(values.0.len(), dtype, &operations);
    let mut inputs = vec![bytes(&values.0), bytes(&values.1), bytes(&values.2)];
    inputs.extend(routine.nodes[3..].iter().map(|decl| vec![0; decl.size_bytes().unwrap_or(0)]));
    let claim = if claims_native {
        Some("`Native` transcendental operations".to_owned())
    } else {
        claim_of_type(caps, dtype)
    };
    Some(Probe::new(format!("{dtype}: {name}"), claim, routine, inputs))
}

/// `%3[i0] := op(%0[i0], %1[i0], %2[i0])`, and so on for each operation.
fn routine(len: usize, dtype: DType, operations: &[Operation]) -> LoweredRoutine {
    let index: Indices = [Affine::var(LoopId(0))].into_iter().collect();
    let decl = |name: &str, dtype: DType| NodeDecl {
        name: name.to_owned(),
        dtype,
        dims: Dims::from_slice(&[len]),
        mode: ModeState::undecided(),
    };
    let mut nodes: Vec<NodeDecl> = ["a", "b", "c"].iter().map(|name| decl(name, dtype)).collect();
    let mut body = Vec::new();
    for operation in operations {
        let node = NodeRef(nodes.len() as u32);
        nodes.push(decl(&operation.name, operation.result));
        body.push(Stmt::Set { node, index: index.clone(), value: operation.value.clone() });
    }
    LoweredRoutine {
        name: "probe".into(),
        numerics: Numerics::Strict,
        symbols: Vec::new(),
        nodes,
        body: vec![Stmt::serial(LoopId(0), len as i64, body)],
    }
}

fn bytes(values: &[Scalar]) -> Vec<u8> {
    let each = |value: &Scalar| value.bits().to_le_bytes().into_iter().take(value.dtype().size_bytes());
    values.iter().flat_map(each).collect()
}

/// All pairs of special values of a type, and a third operand that varies faster than both. The last row is
/// a product halfway between two numbers of `f16`, and a sum that is not.
fn pairs(dtype: DType) -> Operands {
    let values = special(dtype);
    let len = values.len();
    let column = |pick: &dyn Fn(usize) -> usize, last: Scalar| {
        (0..len * len).map(|at| values[pick(at) % len]).chain([last]).collect()
    };
    let (a, b) = (Scalar::from_f64(dtype, 683.0 / 512.0), Scalar::from_f64(dtype, 0.75));
    let least = Scalar::new(dtype, 1);
    (column(&|at| at / len, a), column(&|at| at % len, b), column(&|at| at / len * 3 + at * 5 + 1, least))
}

/// The values that operations on a type treat specially, and some ordinary ones.
fn special(dtype: DType) -> Vec<Scalar> {
    let bits = dtype.size_bytes() as u32 * 8;
    if dtype == DType::Bool {
        return [false, true, true, false].map(|b| Scalar::new(dtype, b.into())).into();
    }
    if !dtype.is_float() {
        let greatest = if dtype.is_signed() { (1u128 << (bits - 1)) - 1 } else { (1u128 << bits) - 1 };
        let least = if dtype.is_signed() { 1u128 << (bits - 1) } else { 0 };
        let all_ones = (1u128 << bits) - 1;
        let values = [0, 1, 2, 3, 7, all_ones, all_ones - 1, least, least + 1, greatest, greatest - 1];
        let shifts = [u128::from(bits) - 1, u128::from(bits), u128::from(bits) + 1, 100];
        // Rounded twice, through `f64`, this is another `f32` than rounded once.
        let between = (1 << 60) + (1 << 36) + 1;
        let all = values.into_iter().chain(shifts).chain((bits == 64).then_some(between));
        return all.map(|bits| Scalar::new(dtype, bits)).collect();
    }
    let fraction = dtype.significand_bits().unwrap_or(24) - 1;
    let infinity = Scalar::from_f64(dtype, f64::INFINITY).bits();
    let least_normal = 1u128 << fraction;
    let sign = 1u128 << (bits - 1);
    let by_bits = [
        sign,                          // -0
        1,                             // the least subnormal
        sign | (least_normal - 1),     // the greatest subnormal, negative
        least_normal,                  // the least normal number
        infinity - 1,                  // the greatest number
        sign | (infinity - 1),         // the least number
        Scalar::one(dtype).bits() + 1, // 1 and an ulp
        Scalar::one(dtype).bits() - 1, // 1 less half an ulp
    ];
    let by_value = [0.0, 1.0, -1.0, 0.5, 2.5, -3.75, 1.1, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    // Rounded twice, through `f32`, these are other numbers of `f16` and `bf16` than rounded once.
    let between = [11, 8].map(|half| 1.0 + (-f64::from(half)).exp2() + (-40f64).exp2());
    let between = between.into_iter().filter(|_| dtype == DType::F64);
    let numbers = by_value.into_iter().chain(between).map(|value| Scalar::from_f64(dtype, value));
    numbers.chain(by_bits.map(|bits| Scalar::new(dtype, bits))).collect()
}
