//! The verifier accepts every routine that lowering makes: every operation in every type, and random
//! projections.

use crate::program;

use assignments::indexing::{AxisIndex, Projection, Projections, StaticSymbol, axis_iterator};
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use assignments::{AccumOp, Assignments, Operand, Rhs, builder};
use lowered_ir::ir::{Affine, BinaryOp, LoweredRoutine, SymbolId, TernaryOp, UnaryOp};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use lowered_ir::text::print;
use lowered_ir::verify::verify;
use program::node;
use proptest::prelude::*;
use tnode::{DType, Dims, Padding, Scalar, TensorNode};

/// Lowers a program and verifies the routine. Returns whether lowering accepted the program.
fn check(assignments: &Assignments) -> Result<bool, String> {
    match lower(assignments, &LowerOptions::default()) {
        Err(_) => Ok(false),
        Ok(program) => match verify(&program.lowered.routine) {
            Ok(()) => optimized(program.lowered.routine).map(|()| true),
            Err(error) => Err(format!("{error}\n{}", print(&program.lowered.routine))),
        },
    }
}

/// Optimizes the routine and verifies the result.
fn optimized(routine: LoweredRoutine) -> Result<(), String> {
    let before = print(&routine);
    let routine = optimize(routine, &OptimizeSettings::default())
        .map_err(|error| format!("{error}\n{before}"))?
        .routine;
    verify(&routine).map_err(|error| format!("{error}\n{}", print(&routine)))
}

#[test]
fn every_operation_in_every_type() {
    let nodes: Vec<TensorNode> = DType::ALL.iter().map(|&dtype| node(dtype.token(), dtype, &[2])).collect();
    for (at, a) in nodes.iter().enumerate() {
        // Every type meets two others, among them wider and narrower ones.
        let (b, lhs) = (&nodes[(at + 1) % nodes.len()], &nodes[(at * 7 + 3) % nodes.len()]);
        let unary = UnaryOp::ALL.iter().map(|&op| Rhs::Unary(op, a.into()));
        let binary = BinaryOp::ALL.iter().map(|&op| Rhs::Binary(op, [a.into(), b.into()]));
        let ternary = TernaryOp::ALL.iter().map(|&op| Rhs::Ternary(op, [a.into(), b.into(), a.into()]));
        for rhs in unary.chain(binary).chain(ternary).chain([Rhs::Copy(a.into())]) {
            for (op, init, lhs) in AccumOp::ALL.iter().flat_map(|&op| [(op, true, lhs), (op, false, a)]) {
                let projections = Projections::pointwise(&[2], rhs.operands().len());
                let accepted = check(&builder::accumulate(init, op, lhs, rhs.clone(), projections));
                let accepted = accepted.unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(accepted, is_defined(op, lhs.dtype(), &rhs), "{op} {rhs:?}");
            }
        }
    }
}

/// Whether the operation is defined for its types. Random bits can be copied, converted from any type and
/// generated; bit operations are for integers.
fn is_defined(op: AccumOp, lhs: DType, rhs: &Rhs) -> bool {
    let moves_bits = rhs.operands().iter().any(|operand| operand.dtype() == DType::U32x4);
    match rhs {
        Rhs::Copy(_) if moves_bits => op == AccumOp::Assign && lhs == DType::U32x4,
        Rhs::Binary(generator, _) if generator.is_random() => op == AccumOp::Assign && lhs == DType::U32x4,
        Rhs::Binary(op, _) if op.is_bitwise() && rhs.operation_dtype().is_float() => false,
        _ => !moves_bits && (lhs != DType::U32x4 || op == AccumOp::Assign),
    }
}

#[derive(Clone, Debug)]
struct Array {
    dims: Vec<usize>,
    padding: Vec<(usize, usize)>,
    /// For each axis, the coefficients of two letters and a symbol, and an offset.
    index: Vec<([i64; 3], i64)>,
}

fn array() -> impl Strategy<Value = Array> {
    let axis = (0usize..7, (0usize..3, 0usize..3), (prop::array::uniform3(-2i64..3), -2i64..4));
    prop::collection::vec(axis, 0..3).prop_map(|axes| Array {
        dims: axes.iter().map(|axis| axis.0).collect(),
        padding: axes.iter().map(|axis| axis.1).collect(),
        index: axes.iter().map(|axis| axis.2).collect(),
    })
}

impl Array {
    fn node(&self, label: &str) -> TensorNode {
        let builder = TensorNode::builder(label).dims(self.dims.iter().copied());
        let padded = self.padding.iter().any(|&margins| margins != (0, 0));
        let builder =
            if padded { builder.padding(Padding::new(self.padding.clone(), Some(0.0))) } else { builder };
        builder.build().expect("small")
    }

    fn indexed(&self) -> (Dims, Projection) {
        let index = |(coefficients, offset): &([i64; 3], i64)| {
            let [a, b, s] = *coefficients;
            let letters = Affine::term(axis_iterator(0), a).plus(&Affine::term(axis_iterator(1), b));
            AxisIndex::new(letters.plus(&Affine::term(SymbolId(0), s)).plus_constant(*offset))
        };
        (Dims::from_slice(&self.dims), self.index.iter().map(index).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn what_lowering_accepts_is_verified(
        axes in prop::collection::vec(0usize..4, 2),
        arrays in (array(), array()),
        symbol in prop::option::of(1i64..4),
        how in 0usize..4,
        (op, init) in (prop::sample::select(&AccumOp::ALL[..]), any::<bool>()),
    ) {
        let (lhs, rhs) = arrays;
        let (target, source) = (lhs.node("target"), rhs.node("source"));
        let (operand, indexed) = match how {
            0 => (Operand::Node(source), rhs.indexed()),
            1 => (Operand::MergeBuffer(source), rhs.indexed()),
            2 => (Operand::Padded { node: source, outside: Scalar::one(DType::I32) }, rhs.indexed()),
            _ => {
                let (_, index) = rhs.indexed();
                let first: Projection = index.into_iter().take(1).collect();
                (Operand::Index(DType::I64), (Dims::from_elem(1, first.len()), first))
            }
        };
        let projections = Projections::new(&axes, lhs.indexed(), vec![indexed], "random").expect("two letters each");
        let mut program = builder::accumulate(init, op, &target, Rhs::Copy(operand), projections);
        program.symbol(&StaticSymbol { name: "s".into(), range: symbol, size: None });
        prop_assert!(check(&program).is_ok(), "{}", check(&program).unwrap_err());
    }
}

#[test]
fn rejections_are_errors_of_the_user() {
    let y = node("y", DType::F32, &[3]);
    let far = Projection::from_iter([AxisIndex::Fixed(3)]);
    let projections =
        Projections::new(&[], (Dims::from_slice(&[3]), far), vec![(Dims::new(), Projection::new())], "far");
    let one = Rhs::Copy(Scalar::one(DType::F32).into());
    let program = builder::accumulate(false, AccumOp::Add, &y, one, projections.expect("one index"));
    let rejected = lower(&program, &LowerOptions::default()).map(|_| ()).expect_err("3 is outside");
    assert!(
        matches!(rejected.kind(), LowerErrorKind::OutOfBounds { axis: 0, lo: 3, hi: 3, .. }),
        "{rejected}"
    );
    assert!(rejected.spans().is_empty(), "there is no text");
}
