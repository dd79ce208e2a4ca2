//! Computed indices of every integer type, beyond the dimension and beyond 32 bits; and indices, guards and
//! bounds of loops whose terms exceed 32 bits.

use codegen_core::Caps;
use lowered_ir::ir::{
    Affine, BinaryOp, Block, Bound, Expr, Guard, Indices, LoopId, LoopKind, LoweredRoutine, NodeDecl,
    NodeRef, Numerics, Range, Stmt,
};
use tnode::{DType, Dims, ModeState, Scalar};

use super::{Probe, bytes, claim_of_type, special};

/// Elements of the axes at which indices are computed.
const LENGTH: usize = 3;

const ROW: LoopId = LoopId(0);

fn decl(name: &str, dtype: DType, dims: &[usize]) -> NodeDecl {
    NodeDecl { name: name.to_owned(), dtype, dims: Dims::from_slice(dims), mode: ModeState::undecided() }
}

fn index<const N: usize>(sides: [Affine; N]) -> Indices {
    sides.into_iter().collect()
}

fn routine(nodes: Vec<NodeDecl>, body: Block) -> LoweredRoutine {
    LoweredRoutine { name: "probe".into(), numerics: Numerics::Strict, symbols: Vec::new(), nodes, body }
}

/// Inputs of zeros, but of the first nodes.
fn inputs(first: Vec<Vec<u8>>, routine: &LoweredRoutine) -> Vec<Vec<u8>> {
    let rest = routine.nodes.iter().skip(first.len());
    let rest: Vec<Vec<u8>> = rest.map(|decl| vec![0; decl.size_bytes().unwrap_or(0)]).collect();
    first.into_iter().chain(rest).collect()
}

/// Indices of a type: those within the dimension, and those that other numbers of bits would make such.
fn values(dtype: DType) -> Vec<Scalar> {
    let inside = (0..LENGTH as i64).map(|at| Scalar::from_i64(dtype, at));
    let mask = (1u128 << (8 * dtype.size_bytes() as u32)) - 1;
    let near = [16u32, 31, 32, 33, 40, 63].into_iter().flat_map(|bits| {
        let power = 1i128 << bits;
        [power, power + 1, power + 2, -power, 1 - power].map(|value| value as u128)
    });
    let near = near.map(|bits| bits & mask).filter(|bits| *bits >= LENGTH as u128);
    let halves = [mask / 2 + 1, mask / 2 + 2].into_iter();
    let beyond = near.chain(halves).map(|bits| Scalar::new(dtype, bits));
    inside.chain(special(dtype)).chain(beyond).collect()
}

/// Gathers and scatters at computed indices of an integer type.
pub(super) fn computed(caps: &Caps, dtype: DType) -> Probe {
    let values = values(dtype);
    let rows = values.len();
    let at = || Expr::get(NodeRef(0), [Affine::var(ROW)]);
    let doubled = || Expr::binary(BinaryOp::Add, at(), at());
    let zero = || Affine::constant(0);
    let nodes = vec![
        decl("at", dtype, &[rows]),
        decl("line", DType::F32, &[LENGTH]),
        decl("plane", DType::F32, &[2, LENGTH]),
        decl("columns", DType::F32, &[LENGTH, 2]),
        decl("one", DType::F32, &[1]),
        decl("from line", DType::F32, &[rows]),
        decl("from plane", DType::F32, &[rows]),
        decl("from columns", DType::F32, &[rows]),
        decl("from one", DType::F32, &[rows]),
        decl("from line, doubled", DType::F32, &[rows]),
        decl("last", DType::F32, &[LENGTH]),
        decl("last in plane", DType::F32, &[2, LENGTH]),
        decl("count", DType::I32, &[LENGTH]),
        decl("count, doubled", DType::I32, &[LENGTH]),
    ];
    let gather = |to: u32, from: u32, sides: Indices, axis: usize, at: Expr| Stmt::Set {
        node: NodeRef(to),
        index: index([Affine::var(ROW)]),
        value: Expr::GetDynamic {
            node: NodeRef(from),
            index: sides,
            axis,
            at: Box::new(at),
            otherwise: Box::new(Expr::Const(Scalar::from_f64(DType::F32, -1.0))),
        },
    };
    let scatter = |to: u32, sides: Indices, axis: usize, at: Expr, op: Option<BinaryOp>, value: Expr| {
        Stmt::SetDynamic { node: NodeRef(to), index: sides, axis, at: Box::new(at), op, value }
    };
    let number = || {
        let row = Expr::Index { index: Affine::var(ROW).plus_constant(1), dtype: DType::I32 };
        Expr::convert(DType::F32, row)
    };
    let one = || Expr::Const(Scalar::one(DType::I32));
    let second = || Affine::constant(1);
    let body = vec![
        gather(5, 1, index([zero()]), 0, at()),
        gather(6, 2, index([second(), zero()]), 1, at()),
        gather(7, 3, index([zero(), second()]), 0, at()),
        gather(8, 4, index([zero()]), 0, at()),
        gather(9, 1, index([zero()]), 0, doubled()),
        scatter(10, index([zero()]), 0, at(), None, number()),
        scatter(11, index([zero(), zero()]), 1, at(), None, number()),
        scatter(12, index([zero()]), 0, at(), Some(BinaryOp::Add), one()),
        scatter(13, index([zero()]), 0, doubled(), Some(BinaryOp::Add), one()),
    ];
    let routine = routine(nodes, vec![Stmt::serial(ROW, rows as i64, body)]);
    let numbers = |count: usize| (0..count).map(|at| Scalar::from_f64(DType::F32, at as f64 + 1.5)).collect();
    let elements: [Vec<Scalar>; 4] = [LENGTH, 2 * LENGTH, 2 * LENGTH, 1].map(numbers);
    let first = std::iter::once(bytes(&values)).chain(elements.iter().map(|values| bytes(values))).collect();
    let inputs = inputs(first, &routine);
    Probe::new(format!("{dtype}: computed indices"), claim_of_type(caps, dtype), routine, inputs)
}

/// Guards and bounds of loops with terms of more than 32 bits, which decide otherwise if they are cut.
pub(super) fn wide_conditions() -> Probe {
    const ROWS: usize = 4;
    let far = |factor: i64| Affine::term(ROW, factor << 32);
    let nodes = vec![
        decl("x", DType::F32, &[ROWS]),
        decl("guarded", DType::F32, &[ROWS]),
        decl("guarded above", DType::F32, &[ROWS]),
        decl("count", DType::F32, &[ROWS]),
        decl("descending", DType::F32, &[ROWS]),
    ];
    let guarded = |to: u32, range: Range| Stmt::Set {
        node: NodeRef(to),
        index: index([Affine::var(ROW)]),
        value: Expr::GetGuarded {
            guard: [range].into_iter().collect::<Guard>(),
            node: NodeRef(0),
            index: index([Affine::var(ROW)]),
            otherwise: Box::new(Expr::Const(Scalar::from_f64(DType::F32, -1.0))),
        },
    };
    let counted = |to: u32, inner: u32, clip: Affine| {
        let count = || Expr::get(NodeRef(to), [Affine::var(ROW)]);
        let one = Expr::Const(Scalar::one(DType::F32));
        let value = Expr::binary(BinaryOp::Add, count(), one);
        let hi = Bound::from(3).clipped(clip);
        let body = vec![Stmt::Set { node: NodeRef(to), index: index([Affine::var(ROW)]), value }];
        Stmt::For { var: LoopId(inner), lo: 0, hi, kind: LoopKind::Serial, body }
    };
    let body = vec![
        guarded(1, Range { index: far(1), lo: 0, hi: 1 }),
        guarded(2, Range { index: far(1).plus_constant(5), lo: 6, hi: 4 << 32 }),
        counted(3, 1, far(1).plus_constant(1)),
        counted(4, 2, far(-1).plus_constant(2)),
    ];
    let routine = routine(nodes, vec![Stmt::serial(ROW, ROWS as i64, body)]);
    let x: Vec<Scalar> = (0..ROWS).map(|at| Scalar::from_f64(DType::F32, at as f64 + 0.5)).collect();
    let inputs = inputs(vec![bytes(&x)], &routine);
    Probe::new("guards and bounds beyond 32 bits".into(), None, routine, inputs)
}
