//! The verifier on routines that no text can express, and on its limits. In addition, every rule has files in
//! the corpus.

use lowered_ir::{
    ir::{
        Affine, Expr, LocalId, LoopId, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt, Symbol, SymbolId,
        UnaryOp, Var,
    },
    text::parse,
    verify::{RoutinePosition, Violation, limits, verify},
};
use tnode::{DType, ModeState, Scalar};

fn routine(body: Vec<Stmt>) -> LoweredRoutine {
    let x = NodeDecl {
        name: "x".into(),
        dtype: DType::F32,
        dims: [4].into_iter().collect(),
        mode: ModeState::undecided(),
    };
    LoweredRoutine { name: "r".into(), numerics: Numerics::Fast, symbols: Vec::new(), nodes: vec![x], body }
}

fn zero() -> Expr {
    Expr::Const(Scalar::zero(DType::F32))
}

fn set(index: Affine, value: Expr) -> Stmt {
    Stmt::Set { node: NodeRef(0), index: [index].into_iter().collect(), value }
}

#[track_caller]
fn out_of_scope(stmt: Stmt, expected: &str) {
    let error = verify(&routine(vec![stmt])).expect_err("a reference to nothing");
    assert!(matches!(&*error.violation, Violation::OutOfScope { what, .. } if what == expected), "{error}");
    assert_eq!(error.place, RoutinePosition::Stmt(vec![0]));
}

#[test]
fn references_to_nothing_are_found() {
    out_of_scope(Stmt::Zero { node: NodeRef(7) }, "node %7");
    out_of_scope(set(Affine::var(LoopId(3)), zero()), "variable i3");
    out_of_scope(set(Affine::var(Var::Symbol(SymbolId(2))), zero()), "variable @2");
    out_of_scope(set(0.into(), Expr::local(LocalId(5))), "local l5");
    out_of_scope(Stmt::set_scalar(LocalId(1), zero()), "local l1");
}

#[test]
fn odd_names_are_found() {
    let mut named = routine(Vec::new());
    named.name = "two words".into();
    assert_eq!(*verify(&named).unwrap_err().violation, Violation::Name { found: "two words".into() });
    let mut twice = routine(Vec::new());
    twice.symbols = vec![Symbol::parameter("s", 2); 2];
    assert_eq!(verify(&twice).unwrap_err().place, RoutinePosition::Symbol(SymbolId(1)));
}

/// The trees are too deep for recursion on this stack, so the verifier must stop before it reaches their
/// ends.
#[test]
fn depth_is_bounded_before_it_is_walked() {
    let mut deep = zero();
    for _ in 0..20_000 {
        deep = Expr::unary(UnaryOp::Neg, deep);
    }
    let mut nested = Vec::new();
    for i in 0..20_000 {
        nested = vec![Stmt::serial(LoopId(i), 1, nested)];
    }
    let (expr, loops) = (routine(vec![set(0.into(), deep)]), routine(nested));
    let violation = |r: &LoweredRoutine| *verify(r).unwrap_err().violation;
    assert_eq!(violation(&expr), Violation::TooDeep { what: "expressions", max: 256 });
    assert_eq!(violation(&loops), Violation::TooDeep { what: "loops", max: 256 });
    take_apart(expr.body);
    take_apart(loops.body);
}

/// Drops a deep tree without recursion.
fn take_apart(mut block: Vec<Stmt>) {
    while let Some(stmt) = block.pop() {
        match stmt {
            Stmt::For { body, .. } => block.extend(body),
            Stmt::Set { mut value, .. } => {
                while let Expr::Unary { arg, .. } = value {
                    value = *arg;
                }
            }
            _ => {}
        }
    }
}

#[test]
fn statements_and_bytes_are_limited() {
    let text = |iterations: u64, elements: u64| {
        format!(
            "routine @r {{ node %0 \"x\" f32[{elements}] for i0 in 0..{iterations} unrolled {{ %0[i0] := 0.0f32 %0[i0 + 524288] := 1.0f32 }} }}"
        )
    };
    let found = |iterations, elements| verify(&parse(&text(iterations, elements)).unwrap());
    let most = limits::NODE_BYTES / 4;
    assert_eq!(found(524_287, most), Ok(()));
    let statements = found(524_288, most).unwrap_err();
    assert_eq!(*statements.violation, Violation::TooMany { max: limits::STATEMENTS });
    assert_eq!(
        found(1, most + 1).unwrap_err().to_string(),
        "routine @r, node %0: V3: node %0 \"x\" takes 1099511627780 bytes, expected at most 1099511627776"
    );
}

#[test]
fn an_error_names_routine_statement_and_node() {
    let text = "routine @r { node %0 \"x\" f32[8] for i0 in 0..9 { %0[i0] := 0.0f32 } }";
    let error = verify(&parse(text).unwrap()).unwrap_err();
    let message = "routine @r, statement 0.0 `%0[i0] := 0.0f32`: V11: index 0 of node %0 \"x\" is within 0..=8, expected within 0..8";
    assert_eq!(error.to_string(), message);
}
