//! Routines run by the interpreter, with results computed by hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lowered_ir::interp::{Buffer, InterpError, Memory, PreparedRoutine, run};
use lowered_ir::ir::{
    Affine, BinaryOp, Bound, Expr, Fresh, LocalId, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef,
    Numerics, Range, Space, Stmt, Symbol, SymbolId, UnaryOp,
};
use tnode::{DType, ModeState, Scalar};

const X: NodeRef = NodeRef(0);
const Y: NodeRef = NodeRef(1);
const I: LoopId = LoopId(0);
const J: LoopId = LoopId(1);
const L: LocalId = LocalId(0);
const STEP: SymbolId = SymbolId(0);

fn node(name: &str, dtype: DType, dims: &[usize]) -> NodeDecl {
    NodeDecl { name: name.into(), dtype, dims: dims.iter().copied().collect(), mode: ModeState::default() }
}

fn routine(nodes: Vec<NodeDecl>, body: Vec<Stmt>) -> LoweredRoutine {
    LoweredRoutine { name: "test".into(), numerics: Numerics::Strict, symbols: vec![], nodes, body }
}

fn with_step(range: i64, mut routine: LoweredRoutine) -> LoweredRoutine {
    routine.symbols.push(Symbol::parameter("step", range));
    routine
}

fn i32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn as_i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect()
}

fn set(node: NodeRef, index: impl IntoIterator<Item = Affine>, value: Expr) -> Stmt {
    Stmt::Set { node, index: index.into_iter().collect(), value }
}

fn int(x: i64) -> Expr {
    Expr::Const(Scalar::from_i64(DType::I32, x))
}

fn add(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Add, a, b)
}

/// Runs on the values of `%0` and gives those of `%1`.
fn outcome(routine: &LoweredRoutine, x: &[i32], bindings: &[i64]) -> Result<Vec<i32>, InterpError> {
    let mut memory = Memory::zeroed(routine);
    memory.nodes[0] = i32s(x);
    run(routine, &mut memory, bindings)?;
    Ok(as_i32s(&memory.nodes[1]))
}

#[test]
fn sums_rows_into_a_local_that_is_zero_when_declared() {
    let body = vec![Stmt::serial(
        I,
        2,
        vec![
            Stmt::scalar(L, DType::I32),
            Stmt::serial(
                J,
                3,
                vec![Stmt::set_scalar(L, add(Expr::local(L), Expr::get(X, [I.into(), J.into()])))],
            ),
            set(Y, [I.into()], Expr::local(L)),
        ],
    )];
    let routine = routine(vec![node("x", DType::I32, &[2, 3]), node("y", DType::I32, &[2])], body);
    assert_eq!(outcome(&routine, &[1, 2, 3, 10, 20, 30], &[]), Ok(vec![6, 60]));
}

#[test]
fn iterations_see_what_earlier_ones_stored() {
    let body = vec![Stmt::For {
        var: I,
        lo: 1,
        hi: 4.into(),
        kind: LoopKind::Serial,
        body: vec![set(
            Y,
            [I.into()],
            add(Expr::get(Y, [Affine::var(I).plus_constant(-1)]), Expr::get(X, [I.into()])),
        )],
    }];
    let routine = routine(vec![node("x", DType::I32, &[4]), node("y", DType::I32, &[4])], body);
    assert_eq!(outcome(&routine, &[9, 1, 2, 3], &[]), Ok(vec![0, 1, 3, 6]));
}

#[test]
fn every_kind_of_loop_runs_each_iteration_once() {
    for kind in [LoopKind::Serial, LoopKind::Unrolled, LoopKind::Vector, LoopKind::Parallel] {
        let flipped = Affine::term(I, -1).plus_constant(2);
        let body = vec![Stmt::looped(I, 3, kind, vec![set(Y, [flipped], Expr::get(X, [I.into()]))])];
        let routine = routine(vec![node("x", DType::I32, &[3]), node("y", DType::I32, &[3])], body);
        assert_eq!(outcome(&routine, &[1, 2, 3], &[]), Ok(vec![3, 2, 1]), "{kind}");
    }
}

/// Pairs of elements, and the last one: the number of pairs is a quotient, which no run binds.
#[test]
fn quotients_follow_from_parameters() {
    let text = "routine @pairs strict {
      symbol @n in 0..6
      symbol @pairs in 0..3 = (@n) / 2
      node %0 \"x\" i32[5] on_device
      node %1 \"y\" i32[5] on_device
      for i0 in 0..min(2, @pairs) { for i1 in 0..2 { %1[2*i0 + i1] := %0[2*i0 + i1] * 10i32 } }
      for i2 in 0..min(1, @n - 2*@pairs) { %1[i2 + 2*@pairs] := %0[i2 + 2*@pairs] + 100i32 }
    }";
    let pairs = lowered_ir::text::parse(text).unwrap();
    lowered_ir::verify::verify(&pairs).unwrap();
    assert_eq!(lowered_ir::text::parse(&lowered_ir::text::print(&pairs)).unwrap().symbols, pairs.symbols);
    let results = [
        [0; 5],
        [101, 0, 0, 0, 0],
        [10, 20, 0, 0, 0],
        [10, 20, 103, 0, 0],
        [10, 20, 30, 40, 0],
        [10, 20, 30, 40, 105],
    ];
    for (n, expected) in results.iter().enumerate() {
        assert_eq!(outcome(&pairs, &[1, 2, 3, 4, 5], &[n as i64]).unwrap(), expected, "@n = {n}");
    }
}

#[test]
fn a_loop_ends_at_the_lesser_of_limit_and_symbol() {
    let body = vec![Stmt::For {
        var: I,
        lo: 0,
        hi: Bound::from(3).clipped(Affine::var(STEP)),
        kind: LoopKind::Serial,
        body: vec![set(Y, [I.into()], Expr::Index { index: Affine::var(STEP), dtype: DType::I32 })],
    }];
    let nodes = vec![node("x", DType::I32, &[1]), node("y", DType::I32, &[4])];
    let routine = with_step(9, routine(nodes, body));
    assert_eq!(outcome(&routine, &[0], &[2]), Ok(vec![2, 2, 0, 0]));
    assert_eq!(outcome(&routine, &[0], &[8]), Ok(vec![8, 8, 8, 0]));
    assert_eq!(outcome(&routine, &[0], &[0]), Ok(vec![0, 0, 0, 0]));
}

#[test]
fn a_guarded_read_touches_memory_only_within_its_guard() {
    let shifted = Affine::var(I).plus_constant(-1);
    let body = vec![Stmt::serial(
        I,
        4,
        vec![set(
            Y,
            [I.into()],
            Expr::GetGuarded {
                guard: [Range { index: shifted.clone(), lo: 0, hi: 2 }].into_iter().collect(),
                node: X,
                index: [shifted].into_iter().collect(),
                otherwise: Box::new(int(-5)),
            },
        )],
    )];
    let routine = routine(vec![node("x", DType::I32, &[2]), node("y", DType::I32, &[4])], body);
    assert_eq!(outcome(&routine, &[7, 8], &[]), Ok(vec![-5, 7, 8, -5]));
}

#[test]
fn zero_clears_every_byte_of_a_node() {
    let routine = routine(
        vec![node("x", DType::I32, &[3])],
        vec![Stmt::Comment("clear".into()), Stmt::Zero { node: X }],
    );
    let mut memory = Memory { nodes: vec![vec![0xff; 12]], merge: None };
    run(&routine, &mut memory, &[]).unwrap();
    assert_eq!(memory.nodes[0], vec![0; 12]);
}

#[test]
fn a_local_is_zero_again_at_each_declaration() {
    let body = vec![Stmt::serial(
        I,
        3,
        vec![
            Stmt::Declare {
                local: L,
                dtype: DType::I32,
                dims: [2].into_iter().collect(),
                space: Space::Stack,
            },
            Stmt::SetLocal {
                local: L,
                index: [Affine::constant(1)].into_iter().collect(),
                value: add(
                    Expr::GetLocal { local: L, index: [Affine::constant(1)].into_iter().collect() },
                    Expr::get(X, [I.into()]),
                ),
            },
            set(
                Y,
                [I.into()],
                Expr::GetLocal { local: L, index: [Affine::constant(1)].into_iter().collect() },
            ),
        ],
    )];
    let routine = routine(vec![node("x", DType::I32, &[3]), node("y", DType::I32, &[3])], body);
    assert_eq!(outcome(&routine, &[4, 5, 6], &[]), Ok(vec![4, 5, 6]));
}

#[test]
fn the_merge_buffer_holds_a_copy_of_its_node() {
    let body = vec![Stmt::serial(
        I,
        2,
        vec![set(
            X,
            [I.into()],
            add(
                Expr::get(X, [I.into()]),
                Expr::GetMerge { node: X, index: [Affine::var(I)].into_iter().collect() },
            ),
        )],
    )];
    let routine = routine(vec![node("g", DType::I32, &[2])], body);
    let mut memory = Memory { nodes: vec![i32s(&[1, 2])], merge: Some(i32s(&[10, 20])) };
    run(&routine, &mut memory, &[]).unwrap();
    assert_eq!(as_i32s(&memory.nodes[0]), [11, 22]);

    memory.merge = None;
    let missing = run(&routine, &mut memory, &[]).unwrap_err();
    assert_eq!(missing.to_string(), "the merge buffer holds nothing, expected a copy of node %0 \"g\"");
    memory.merge = Some(vec![0; 4]);
    let short = run(&routine, &mut memory, &[]).unwrap_err();
    assert_eq!(short.to_string(), "the merge buffer for node %0 \"g\" takes 8 bytes, found a buffer of 4");
}

#[test]
fn conversions_and_bit_casts_follow_the_types() {
    let three_and_a_half = Expr::Const(Scalar::from_f64(DType::F32, 3.5));
    let body = vec![
        set(Y, [0.into()], Expr::convert(DType::I32, three_and_a_half.clone())),
        set(Y, [1.into()], Expr::bitcast(DType::I32, three_and_a_half.clone())),
        set(Y, [2.into()], Expr::convert(DType::I32, Expr::unary(UnaryOp::Neg, three_and_a_half))),
    ];
    let routine = routine(vec![node("x", DType::I32, &[1]), node("y", DType::I32, &[3])], body);
    assert_eq!(outcome(&routine, &[0], &[]), Ok(vec![3, 0x4060_0000, -3]));
}

#[test]
fn memory_and_bindings_that_do_not_fit_are_named() {
    let routine = with_step(4, routine(vec![node("x", DType::I32, &[2])], vec![]));
    let failed = |nodes: Vec<Vec<u8>>, bindings: &[i64]| {
        run(&routine, &mut Memory { nodes, merge: None }, bindings).unwrap_err().to_string()
    };
    assert_eq!(failed(vec![], &[0]), "routine `test` has 1 nodes, found 0 buffers");
    assert_eq!(failed(vec![vec![0; 7]], &[0]), "node %0 \"x\" takes 8 bytes, found a buffer of 7");
    assert_eq!(failed(vec![vec![0; 8]], &[]), "routine `test` has 1 symbols, found 0 bindings");
    assert_eq!(failed(vec![vec![0; 8]], &[4]), "symbol @step takes 0..4, found 4");
    assert_eq!(failed(vec![vec![0; 8]], &[-1]), "symbol @step takes 0..4, found -1");
}

#[test]
fn unverified_routines_give_typed_errors() {
    let fails = |body: Vec<Stmt>| {
        let nodes = vec![node("x", DType::I32, &[2]), node("y", DType::F32, &[2])];
        let routine = routine(nodes, body);
        run(&routine, &mut Memory::zeroed(&routine), &[]).unwrap_err().to_string()
    };
    let x = |i: i64| Expr::get(X, [Affine::constant(i)]);
    assert_eq!(
        fails(vec![set(X, [0.into()], x(2))]),
        "node %0 \"x\": index 2 in dimension 0 is outside 0..2"
    );
    assert_eq!(
        fails(vec![set(X, [(-1).into()], x(0))]),
        "node %0 \"x\": index -1 in dimension 0 is outside 0..2"
    );
    assert_eq!(fails(vec![set(X, [], x(0))]), "node %0 \"x\" has 1 dimensions, found 0 indices");
    assert_eq!(fails(vec![set(Y, [0.into()], x(0))]), "the value of %1 is f32, found i32");
    assert_eq!(
        fails(vec![set(NodeRef(9), [0.into()], x(0))]),
        "routine `test` mentions %9, which is not in scope"
    );
    assert_eq!(fails(vec![set(X, [I.into()], x(0))]), "routine `test` mentions i0, which is not in scope");
    assert_eq!(
        fails(vec![set(X, [0.into()], add(x(0), Expr::get(Y, [0.into()])))]),
        "the right operand of `+` is i32, found f32"
    );
}

#[test]
fn locals_end_with_their_block() {
    let body =
        vec![Stmt::serial(I, 1, vec![Stmt::scalar(L, DType::I32)]), set(X, [0.into()], Expr::local(L))];
    let routine = routine(vec![node("x", DType::I32, &[1])], body);
    let error = PreparedRoutine::new(&routine).unwrap_err().to_string();
    assert_eq!(error, "routine `test` mentions l0, which is not in scope");
}

#[test]
fn memory_lent_for_reading_is_not_written() {
    let routine = routine(vec![node("x", DType::I32, &[1])], vec![set(X, [0.into()], int(1))]);
    let bytes = [0; 4];
    let error =
        PreparedRoutine::new(&routine).unwrap().run(&mut [Buffer::Read(&bytes)], None, &[]).unwrap_err();
    assert_eq!(error.to_string(), "node %0 \"x\" is written, found a read-only buffer");
}

#[test]
fn fresh_identifiers_do_not_collide() {
    let routine = routine(
        vec![node("x", DType::I32, &[1])],
        vec![Stmt::serial(LoopId(4), 1, vec![Stmt::scalar(LocalId(7), DType::I32)])],
    );
    let mut fresh: Fresh = routine.fresh();
    assert_eq!((fresh.loop_id(), fresh.local_id()), (LoopId(5), LocalId(8)));
}
