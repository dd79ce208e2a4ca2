//! The random routines verify and print, and they contain every construct of the loop IR. The tables below
//! are exhaustive matches: a new construct does not compile until it is listed here, and its test fails until
//! the generator produces it.

use std::collections::BTreeSet;

use filetests::generate::{routine_from_bytes, routine_from_seed};
use lowered_ir::ir::{
    BinaryOp, Bound, Expr, LocalDecl, LogPart, LoopKind, LoweredRoutine, Numerics, RoutineTypes, Space, Stmt,
    TernaryOp, UnaryOp, Var, walk,
};
use lowered_ir::{text, verify::verify};
use proptest::prelude::*;
use tnode::DType;

fn ends_at_a_symbol(hi: &Bound) -> bool {
    hi.clips().iter().any(|clip| clip.terms().iter().any(|(var, _)| matches!(var, Var::Symbol(_))))
}

/// Names every variant of a type, and lists the names.
macro_rules! cases {
    ($names:ident, $name:ident($ty:ty) { $($pattern:pat $(if $guard:expr)? => $case:literal,)* }) => {
        const $names: &[&str] = &[$($case),*];
        fn $name(it: &$ty) -> &'static str {
            match it { $($pattern $(if $guard)? => $case),* }
        }
    };
}

cases!(EXPRS, expr_case(Expr) {
    Expr::Const(_) => "a constant",
    Expr::Index { dtype: DType::I32, .. } => "index i32",
    Expr::Index { .. } => "index i64",
    Expr::Get { .. } => "a read",
    Expr::GetGuarded { .. } => "a guarded read",
    Expr::GetDynamic { .. } => "gather",
    Expr::GetMerge { .. } => "merge",
    Expr::GetLocal { .. } => "a local",
    Expr::Unary { .. } => "a unary operation",
    Expr::Binary { .. } => "a binary operation",
    Expr::Ternary { .. } => "a ternary operation",
    Expr::Convert { .. } => "convert",
    Expr::Bitcast { .. } => "bitcast",
    Expr::Lane { lane: 0, .. } => "lane 0",
    Expr::Lane { lane: 1, .. } => "lane 1",
    Expr::Lane { lane: 2, .. } => "lane 2",
    Expr::Lane { .. } => "lane 3",
    Expr::Lanes(_) => "lanes",
});

cases!(STMTS, stmt_case(Stmt) {
    Stmt::For { hi, .. } if ends_at_a_symbol(hi) => "a loop to a symbol",
    Stmt::For { hi, .. } if !hi.is_constant() => "a loop to another loop's variable",
    Stmt::For { lo: 0, .. } => "a loop",
    Stmt::For { .. } => "a loop from 1",
    Stmt::Set { .. } => "a store",
    Stmt::SetDynamic { op: None, .. } => "scatter",
    Stmt::SetDynamic { op: Some(_), .. } => "an accumulating scatter",
    Stmt::Zero { .. } => "zero",
    Stmt::Declare { .. } => "declare",
    Stmt::SetLocal { .. } => "a store into a local",
    Stmt::Comment(_) => "a comment",
    Stmt::Log { .. } => "log",
});

cases!(LOOPS, loop_case(LoopKind) {
    LoopKind::Serial => "serial",
    LoopKind::Unrolled => "unrolled",
    LoopKind::Scan => "scan",
    LoopKind::Vector => "vector",
    LoopKind::Parallel => "parallel",
    LoopKind::Workgroup => "workgroup",
});

cases!(SPACES, space_case(Space) {
    Space::Register => "register",
    Space::Stack => "stack",
    Space::Scratch => "scratch",
    Space::Workgroup => "workgroup",
    Space::Thread => "thread",
});

cases!(PARTS, part_case(LogPart) {
    LogPart::Text(_) => "text of a log",
    LogPart::Value(_) => "value of a log",
});

cases!(CLASSES, class_case(Numerics) {
    Numerics::Strict => "strict",
    Numerics::Fast => "fast",
});

/// The constructs in the generated routines: variants by name, types and operations by their uses.
#[derive(Default)]
struct SeenConstructs {
    cases: BTreeSet<&'static str>,
    nodes: BTreeSet<DType>,
    locals: BTreeSet<DType>,
    /// Spaces and ranks of locals.
    ranks: BTreeSet<(&'static str, usize)>,
    conversions: BTreeSet<(DType, DType)>,
    casts: BTreeSet<(DType, DType)>,
    gathered: BTreeSet<DType>,
    computed: BTreeSet<DType>,
    accumulated: BTreeSet<BinaryOp>,
    unary: BTreeSet<(UnaryOp, DType)>,
    binary: BTreeSet<(BinaryOp, DType)>,
    ternary: BTreeSet<(TernaryOp, DType)>,
}

impl SeenConstructs {
    fn routine(&mut self, routine: &LoweredRoutine) {
        let locals = routine.locals();
        let types = RoutineTypes { routine, locals: &locals };
        self.cases.insert(class_case(&routine.numerics));
        self.nodes.extend(routine.nodes.iter().map(|decl| decl.dtype));
        for LocalDecl { dtype, dims, space } in locals.values() {
            self.locals.insert(*dtype);
            self.ranks.insert((space_case(space), dims.len()));
            self.cases.insert(space_case(space));
        }
        walk::stmts(&routine.body).for_each(|stmt| self.stmt(stmt, &types));
        walk::parts_in(&routine.body).for_each(|e| self.expr(e, &types));
    }

    fn stmt(&mut self, stmt: &Stmt, types: &RoutineTypes<'_>) {
        self.cases.insert(stmt_case(stmt));
        match stmt {
            Stmt::For { kind, .. } => drop(self.cases.insert(loop_case(kind))),
            Stmt::SetDynamic { at, op, .. } => {
                self.computed.insert(at.dtype(types));
                self.accumulated.extend(op);
            }
            Stmt::Log { parts } => self.cases.extend(parts.iter().map(part_case)),
            Stmt::Set { .. }
            | Stmt::SetLocal { .. }
            | Stmt::Zero { .. }
            | Stmt::Declare { .. }
            | Stmt::Comment(_) => {}
        }
    }

    fn expr(&mut self, expr: &Expr, types: &RoutineTypes<'_>) {
        self.cases.insert(expr_case(expr));
        let dtype = |e: &Expr| e.dtype(types);
        match expr {
            Expr::Unary { op, arg } => drop(self.unary.insert((*op, dtype(arg)))),
            Expr::Binary { op, a, .. } => drop(self.binary.insert((*op, dtype(a)))),
            Expr::Ternary { op, b, .. } => drop(self.ternary.insert((*op, dtype(b)))),
            Expr::Convert { to, arg } => drop(self.conversions.insert((dtype(arg), *to))),
            Expr::Bitcast { to, arg } => drop(self.casts.insert((dtype(arg), *to))),
            Expr::GetDynamic { at, .. } => drop(self.gathered.insert(dtype(at))),
            Expr::Const(_)
            | Expr::Index { .. }
            | Expr::Get { .. }
            | Expr::GetGuarded { .. }
            | Expr::GetMerge { .. }
            | Expr::GetLocal { .. }
            | Expr::Lane { .. }
            | Expr::Lanes(_) => {}
        }
    }
}

/// Asserts that every wanted item was seen, and lists the missing ones.
fn all<T: Ord + std::fmt::Debug>(what: &str, seen: &BTreeSet<T>, wanted: impl IntoIterator<Item = T>) {
    let missing: Vec<T> = wanted.into_iter().filter(|item| !seen.contains(item)).collect();
    assert!(missing.is_empty(), "{what} that no seed has: {missing:?}");
}

fn is_number(dtype: &DType) -> bool {
    *dtype != DType::U32x4
}

/// Whether an operation is defined on a type, by rules V14 and V16.
fn is_defined(op: BinaryOp, dtype: DType) -> bool {
    match op {
        BinaryOp::Arg1 | BinaryOp::Arg2 => true,
        _ if op.is_random() => !is_number(&dtype),
        _ if op.is_bitwise() => is_number(&dtype) && !dtype.is_float(),
        _ => is_number(&dtype),
    }
}

fn is_castable(from: DType, to: DType) -> bool {
    from.size_bytes() == to.size_bytes() && (to != DType::Bool || from == DType::Bool)
}

#[test]
fn every_construct_is_drawn() {
    let mut seen = SeenConstructs::default();
    (0..4000).for_each(|seed| seen.routine(&routine_from_seed(seed, 500)));

    let cases = [EXPRS, STMTS, LOOPS, SPACES, PARTS, CLASSES].concat();
    all("constructs", &seen.cases, cases);
    let numbers = || DType::ALL.into_iter().filter(is_number);
    let pairs = || numbers().flat_map(|a| DType::ALL.into_iter().filter(is_number).map(move |b| (a, b)));
    let integers = || DType::ALL.into_iter().filter(|dtype| dtype.is_integer());
    all("types of nodes", &seen.nodes, DType::ALL);
    all("types of locals", &seen.locals, DType::ALL);
    all("ranks of locals", &seen.ranks, [("register", 0), ("register", 1), ("stack", 1)]);
    all("conversions", &seen.conversions, pairs());
    all("casts", &seen.casts, pairs().filter(|&(from, to)| is_castable(from, to)));
    all("types of gathered indices", &seen.gathered, integers());
    all("types of scattered indices", &seen.computed, integers());
    let accumulating = BinaryOp::ALL.iter().copied().filter(|op| op.accumulates());
    all("accumulations at computed indices", &seen.accumulated, accumulating);

    let unary = UnaryOp::ALL.iter().flat_map(|&op| numbers().map(move |dtype| (op, dtype)));
    all("unary operations", &seen.unary, unary);
    let binary = BinaryOp::ALL.iter().flat_map(|&op| DType::ALL.into_iter().map(move |dtype| (op, dtype)));
    all("binary operations", &seen.binary, binary.filter(|&(op, dtype)| is_defined(op, dtype)));
    let ternary = TernaryOp::ALL.iter().flat_map(|&op| numbers().map(move |dtype| (op, dtype)));
    all("ternary operations", &seen.ternary, ternary);
}

fn check(routine: &LoweredRoutine) -> Result<(), String> {
    let printed = text::print(routine);
    verify(routine).map_err(|e| format!("{e}\n{printed}"))?;
    let again = text::parse(&printed).map_err(|e| format!("{e}\n{printed}"))?;
    match again.body == routine.body && text::print(&again) == printed {
        true => Ok(()),
        false => Err(format!("reads back as\n{}\nfrom\n{printed}", text::print(&again))),
    }
}

#[test]
fn what_seeds_draw_is_verified_and_reads_back() {
    for seed in filetests::effort::seeds(500) {
        check(&routine_from_seed(seed, 500)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_bytes_draw_is_verified_and_reads_back(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        check(&routine_from_bytes(&bytes)).map_err(TestCaseError::fail)?;
    }
}
