//! The text form: round trips of random routines, readable output, and the position of errors. The corpus has
//! the message of each error.

use lowered_ir::{
    ir::{
        Affine, BinaryOp, Block, Bound, Expr, Guard, Indices, LocalId, LoopId, LoopKind, LoweredRoutine,
        NodeDecl, NodeRef, Numerics, Range, Space, Stmt, Symbol, SymbolId, TernaryOp, UnaryOp, Var,
    },
    text::{MAX_NESTING, parse, parse_file, print},
};
use proptest::{collection::vec, prelude::*, sample::select};
use tnode::{DType, MemoryMode, ModeState, Reason, Scalar};

const NODES: u32 = 3;
const SYMBOLS: u32 = 2;
const LOOPS: u32 = 4;
const LOCALS: u32 = 3;

fn dtype() -> impl Strategy<Value = DType> {
    select(&DType::ALL)
}

fn scalar() -> impl Strategy<Value = Scalar> {
    let any_bits = (dtype(), any::<u128>()).prop_map(|(dtype, bits)| Scalar::new(dtype, bits));
    let special = select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-320, 0.1, f64::MAX]);
    prop_oneof![any_bits, (dtype(), special).prop_map(|(dtype, x)| Scalar::from_f64(dtype, x))]
}

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -9i64..10, 1 => any::<i64>(), 1 => select(vec![i64::MIN, i64::MAX])]
}

fn affine() -> impl Strategy<Value = Affine> {
    affine_of(LOOPS)
}

/// Expressions in the symbols and the outermost `loops` loops of [`body`].
fn affine_of(loops: u32) -> impl Strategy<Value = Affine> {
    let var = (0..loops + SYMBOLS).prop_map(move |i| match i.checked_sub(loops) {
        None => Var::Loop(LoopId(i)),
        Some(symbol) => Var::Symbol(SymbolId(symbol)),
    });
    (integer(), vec((var, integer()), 0..4)).prop_map(|(offset, terms)| {
        let mut index = Affine::constant(offset);
        for (var, coefficient) in terms {
            index.add_term(var, coefficient);
        }
        index
    })
}

fn indices() -> impl Strategy<Value = Indices> {
    vec(affine(), 0..4).prop_map(Indices::from)
}

fn guard() -> impl Strategy<Value = Guard> {
    let range = (affine(), integer(), integer()).prop_map(|(index, lo, hi)| Range { index, lo, hi });
    vec(range, 0..3).prop_map(Guard::from_vec)
}

fn node() -> impl Strategy<Value = NodeRef> {
    (0..NODES).prop_map(NodeRef)
}

fn local() -> impl Strategy<Value = LocalId> {
    (0..LOCALS).prop_map(LocalId)
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        scalar().prop_map(Expr::Const),
        (affine(), dtype()).prop_map(|(index, dtype)| Expr::Index { index, dtype }),
        (node(), indices()).prop_map(|(node, index)| Expr::Get { node, index }),
        (node(), indices()).prop_map(|(node, index)| Expr::GetMerge { node, index }),
        (local(), indices()).prop_map(|(local, index)| Expr::GetLocal { local, index }),
    ];
    leaf.prop_recursive(6, 40, 3, |inner| {
        let e = move || inner.clone();
        prop_oneof![
            2 => (select(UnaryOp::ALL), e()).prop_map(|(op, a)| Expr::unary(op, a)),
            6 => (select(BinaryOp::ALL), e(), e()).prop_map(|(op, a, b)| Expr::binary(op, a, b)),
            2 => (select(TernaryOp::ALL), e(), e(), e()).prop_map(|(op, a, b, c)| Expr::ternary(op, a, b, c)),
            1 => (dtype(), e()).prop_map(|(to, a)| Expr::convert(to, a)),
            1 => (dtype(), e()).prop_map(|(to, a)| Expr::bitcast(to, a)),
            1 => (guard(), node(), indices(), e()).prop_map(|(guard, node, index, e)| {
                Expr::GetGuarded { guard, node, index, otherwise: Box::new(e) }
            }),
        ]
    })
}

/// Random statements, which may use all loop variables and locals of [`body`].
fn stmt() -> impl Strategy<Value = Stmt> {
    prop_oneof![
        (node(), indices(), expr()).prop_map(|(node, index, value)| Stmt::Set { node, index, value }),
        (local(), indices(), expr()).prop_map(|(local, index, value)| Stmt::SetLocal { local, index, value }),
        node().prop_map(|node| Stmt::Zero { node }),
        ".*".prop_map(Stmt::Comment),
    ]
}

fn declare(id: u32) -> impl Strategy<Value = Stmt> {
    let dims = vec(0usize..99, 0..3);
    (dtype(), dims, select(vec![Space::Register, Space::Stack, Space::Scratch])).prop_map(
        move |(dtype, dims, space)| Stmt::Declare { local: LocalId(id), dtype, dims: dims.into(), space },
    )
}

fn looped(var: u32, body: impl Strategy<Value = Block>) -> impl Strategy<Value = Stmt> {
    let kinds = vec![LoopKind::Serial, LoopKind::Unrolled, LoopKind::Vector, LoopKind::Parallel];
    let clips = vec(affine_of(var), 0..3);
    (integer(), integer(), clips, select(kinds), body).prop_map(move |(lo, limit, clips, kind, body)| {
        let hi = clips.into_iter().fold(Bound::from(limit), Bound::clipped);
        Stmt::For { var: LoopId(var), lo, hi, kind, body }
    })
}

fn body() -> impl Strategy<Value = Block> {
    let innermost = vec(stmt(), 0..4);
    let nest = looped(
        0,
        looped(1, looped(2, looped(3, innermost).prop_map(|s| vec![s])).prop_map(|s| vec![s]))
            .prop_map(|s| vec![s]),
    );
    let declares = (declare(0), declare(1), declare(2)).prop_map(|(a, b, c)| vec![a, b, c]);
    (declares, nest, vec(stmt(), 0..4)).prop_map(|(mut block, nest, rest)| {
        block.push(nest);
        block.extend(rest);
        block
    })
}

fn decl() -> impl Strategy<Value = NodeDecl> {
    let mode = prop_oneof![Just(None), select(&MemoryMode::ALL).prop_map(Some)];
    (".*", dtype(), vec(any::<usize>(), 0..4), mode).prop_map(|(name, dtype, dims, mode)| NodeDecl {
        name,
        dtype,
        dims: dims.into(),
        mode: mode.map_or_else(ModeState::undecided, |m| ModeState::decided(m, Reason::new("tested"))),
    })
}

fn routine() -> impl Strategy<Value = LoweredRoutine> {
    let symbols = (".*", ".*", integer(), integer()).prop_map(|(a, b, m, n)| {
        vec![Symbol::parameter(format!("{a}1"), m), Symbol::parameter(format!("{b}2"), n)]
    });
    let numerics = select(vec![Numerics::Strict, Numerics::Fast]);
    (".*", numerics, symbols, vec(decl(), NODES as usize), body()).prop_map(
        |(name, numerics, symbols, nodes, body)| LoweredRoutine { name, numerics, symbols, nodes, body },
    )
}

/// The properties of nodes that the text keeps.
fn kept(nodes: &[NodeDecl]) -> Vec<(&str, DType, &[usize], Option<MemoryMode>)> {
    nodes.iter().map(|n| (n.name.as_str(), n.dtype, n.dims.as_slice(), n.mode.mode())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn parsing_what_was_printed_gives_it_back(routine in routine()) {
        let text = print(&routine);
        let again = parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&again.name, &routine.name);
        prop_assert_eq!(again.numerics, routine.numerics);
        prop_assert_eq!(&again.symbols, &routine.symbols);
        prop_assert_eq!(kept(&again.nodes), kept(&routine.nodes));
        prop_assert_eq!(&again.body, &routine.body);
        prop_assert_eq!(print(&again), text);
    }

    #[test]
    fn no_text_panics_the_parser(text in ".*") {
        let _ = parse_file(&text);
    }

    /// Damaged routines reach more parts of the parser than random characters do.
    #[test]
    fn no_damaged_text_panics_the_parser(routine in routine(), at in any::<prop::sample::Index>(), by in ".{0,3}") {
        let mut text: Vec<char> = print(&routine).chars().collect();
        let at = at.index(text.len());
        text.splice(at..(at + 2).min(text.len()), by.chars());
        if let Err(error) = parse_file(&text.into_iter().collect::<String>()) {
            prop_assert!(error.line >= 1 && error.column >= 1);
        }
    }
}

/// A routine with these statements inside a loop, in which a symbol, a node, a local and a loop variable are
/// declared.
fn around(body: &str) -> String {
    format!(
        "routine @r {{\n symbol @s in 0..4\n node %0 \"x\" f32[4]\n declare l0 f32[] register\n for i0 in 0..4 {{\n{body}\n }}\n}}\n"
    )
}

#[test]
fn an_error_shows_the_line_and_the_place() {
    let error = parse("routine @r {\n  zero %0\n}").unwrap_err();
    let message = "line 2, column 8: expected a declared node, found `%0`\n  |   zero %0\n  |        ^";
    assert_eq!(error.to_string(), message);
}

#[test]
fn one_routine_is_one_routine() {
    assert_eq!(parse("; nothing").unwrap_err().expected, "`routine`");
    assert_eq!(parse("routine @a {} routine @b {}").unwrap_err().found, "`routine`");
    assert_eq!(parse_file("routine @a {} routine @b {}").unwrap().len(), 2);
    assert_eq!(parse("routine @a { symbol @s in 0..1 symbol @s in 0..1 }").unwrap_err().found, "`@s`");
    assert_eq!(
        parse("routine @a { node %1 \"x\" f32[] }").unwrap_err().expected,
        "%0, as nodes are numbered in order"
    );
}

/// `n` loops around each other.
fn loops(n: usize) -> String {
    let open: String = (0..n).map(|i| format!("for i{i} in 0..1 {{\n")).collect();
    format!("routine @r {{\n{open}{}}}\n", "}".repeat(n))
}

#[test]
fn nesting_has_a_limit_that_no_text_gets_around() {
    assert!(parse(&loops(MAX_NESTING)).is_ok());
    assert!(parse(&loops(MAX_NESTING + 1)).is_err());
    assert!(parse(&loops(100_000)).is_err());
    let stored = |value: String| parse(&around(&format!("l0 := {value}")));
    let calls = |n: usize| stored(format!("{}l0{}", "neg(".repeat(n), ")".repeat(n)));
    assert!(calls(MAX_NESTING - 1).is_ok());
    assert!(calls(MAX_NESTING).is_err());
    assert!(calls(100_000).is_err());
    assert!(stored(format!("{}l0{}", "(".repeat(MAX_NESTING + 1), ")".repeat(MAX_NESTING + 1))).is_err());
    let chain = |n: usize| stored(vec!["l0"; n].join(" + "));
    assert!(chain(MAX_NESTING).is_ok());
    assert!(chain(MAX_NESTING + 1).is_err());
    let right = |n: usize| stored(format!("{}l0{}", "l0 - (".repeat(n), ")".repeat(n)));
    assert!(right(MAX_NESTING - 1).is_ok());
    assert!(right(100_000).is_err());
}

/// Runs on the default stack of a test thread, also in builds without optimization.
#[test]
fn the_deepest_routine_prints_and_parses_back() {
    let n = MAX_NESTING - 3;
    let deep = format!("l0 := {}l0{}", "where(l0 < l0, l0 * (l0 + l0), ".repeat(n), ")".repeat(n));
    let open: String = (0..MAX_NESTING).map(|i| format!("for i{i} in 0..1 {{\n")).collect();
    let text = format!("routine @r {{ declare l0 f32[] register {open}{deep}{}}}", "}".repeat(MAX_NESTING));
    let routine = parse(&text).unwrap();
    assert_eq!(parse(&print(&routine)).unwrap().body, routine.body);
}

#[test]
fn lines_lead_from_statements_to_the_text() {
    let parsed = parse_file(&around("l0 := l0\n\nzero %0")).unwrap().remove(0);
    assert_eq!((parsed.lines.routine, parsed.lines.end), (1, 10));
    assert_eq!((parsed.lines.symbols.as_slice(), parsed.lines.nodes.as_slice()), (&[2][..], &[3][..]));
    let lines: Vec<(Vec<usize>, usize)> = parsed.lines.stmts.into_iter().collect();
    assert_eq!(lines, [(vec![0], 4), (vec![1], 5), (vec![1, 0], 6), (vec![1, 1], 8)]);
}

/// Every construct once, as it prints.
const SHOWCASE: &str = r#"routine @showcase strict {
  symbol @step in 0..44
  symbol @"odd name" in 0..2
  node %0 "x" f32[4, 8] on_device
  node %1 "s \"quoted\"" f32[4]
  node %2 "flags" bool[] hosted_constant
  comment "row norms"
  zero %1
  for i0 in 0..4 parallel {
    declare l0 f32[] register
    declare l1 f32[2, 2] stack
    for i1 in -2..min(6, @step) {
      l0 := l0 + %0[i0, i1 + 2] * guarded(0 <= i1 + 1 < 8, 2 <= @"odd name" < 3, %0[i0, i1 + 1], -0.0f32)
    }
    for i2 in 0..2 unrolled {
      l1[i2, 1] := (l0 + 1.0f32) * (l0 - (1.0f32 - l0)) / inff32 % 0x7f800001:f32
      l1[i2, 0] := where(l0 < l1[i2, 1], max(l0, nanf32), fma(l0, l0, merge %0[i0, -i2 + 3]))
    }
    %1[i0] := convert f32(index i32(2*i0 + 8*@step - 1)) + bitcast f32(-3i32)
  }
  %2[] := (l0 < 1.0f32) == true
}
"#;

#[test]
fn every_construct_prints_as_it_is_read() {
    assert_eq!(print(&parse(SHOWCASE).unwrap()), SHOWCASE);
}
