//! Routine to text.

use std::fmt::Write;

use super::{
    lex::{is_identifier, quote},
    literal,
};
use crate::ir::{
    Affine, BinaryOp, Block, Bound, Expr, Guard, LogPart, LoopKind, LoweredRoutine, NodeDecl, NodeRef,
    Numerics, Stmt, SymbolId, Var,
};

/// The text of a routine: one declaration or statement per line, loops indented by two spaces.
pub fn print(routine: &LoweredRoutine) -> String {
    let mut printer = Printer { routine, out: String::new(), depth: 1 };
    printer.routine();
    printer.out
}

/// The text of one statement of a routine, with its loops, ending in a newline.
pub fn print_stmt(routine: &LoweredRoutine, stmt: &Stmt) -> String {
    let mut printer = Printer { routine, out: String::new(), depth: 0 };
    printer.stmt(stmt);
    printer.out
}

/// The text of an index of a routine.
pub(crate) fn print_index(routine: &LoweredRoutine, index: &Affine) -> String {
    let mut printer = Printer { routine, out: String::new(), depth: 0 };
    printer.affine(index);
    printer.out
}

/// How tightly an infix operation binds; `None` for one that is called like a function.
pub(crate) fn precedence(op: BinaryOp) -> Option<u8> {
    use BinaryOp::{Add, Div, Eq, Le, Lt, Mul, Ne, Rem, Sub};
    match op {
        Lt | Le | Eq | Ne => Some(COMPARISON),
        Add | Sub => Some(SUM),
        Mul | Div | Rem => Some(PRODUCT),
        _ => None,
    }
}

/// The precedence below that of every operation.
pub(crate) const LOOSEST: u8 = 0;
/// Comparisons do not chain, so both their operands bind tighter.
pub(super) const COMPARISON: u8 = 1;
const SUM: u8 = 2;
const PRODUCT: u8 = 3;

struct Printer<'r> {
    routine: &'r LoweredRoutine,
    out: String,
    depth: usize,
}

impl Printer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn put_display(&mut self, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{value}");
    }

    fn line(&mut self, f: impl FnOnce(&mut Self)) {
        for _ in 0..self.depth {
            self.put("  ");
        }
        f(self);
        self.put("\n");
    }

    /// Writes `items` with `, ` between them.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut f: impl FnMut(&mut Self, T)) {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            f(self, item);
        }
    }

    fn routine(&mut self) {
        let routine = self.routine;
        self.put_display(format_args!("routine {} {} {{\n", name(&routine.name), numerics(routine.numerics)));
        for symbol in &routine.symbols {
            self.line(|p| {
                p.put_display(format_args!(
                    "symbol {} in {}..{}",
                    name(&symbol.name),
                    symbol.least,
                    symbol.range
                ));
                for (word, quotient) in [(" = (", &symbol.quotient), (" is (", &symbol.promise)] {
                    if let Some(quotient) = quotient {
                        p.put(word);
                        p.affine(&quotient.dividend);
                        p.put_display(format_args!(") / {}", quotient.divisor));
                    }
                }
            });
        }
        for (node, decl) in routine.node_refs() {
            self.line(|p| p.node(node, decl));
        }
        self.block(&routine.body);
        self.put("}\n");
    }

    fn node(&mut self, node: NodeRef, decl: &NodeDecl) {
        self.put_display(format_args!("node {node} {} {}", quote(&decl.name), decl.dtype));
        self.dims(&decl.dims);
        if let Some(mode) = decl.mode.mode() {
            self.put_display(format_args!(" {mode}"));
        }
    }

    fn dims(&mut self, dims: &[usize]) {
        self.put("[");
        self.list(dims, |p, dim| p.put_display(dim));
        self.put("]");
    }

    fn block(&mut self, block: &Block) {
        for stmt in block {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                self.line(|p| {
                    p.put_display(format_args!("for {var} in {lo}.."));
                    p.bound(hi);
                    if *kind != LoopKind::Serial {
                        p.put_display(format_args!(" {kind}"));
                    }
                    p.put(" {");
                });
                self.depth += 1;
                self.block(body);
                self.depth -= 1;
                self.line(|p| p.put("}"));
            }
            Stmt::Set { node, index, value } => self.line(|p| {
                p.put_display(node);
                p.index(index);
                p.stored(value);
            }),
            Stmt::SetDynamic { node, index, axis, at, op, value } => self.line(|p| {
                p.put("scatter ");
                if let Some(op) = op {
                    p.put_display(format_args!("{op} "));
                }
                p.put_display(node);
                p.dynamic_index(index, *axis, at);
                p.stored(value);
            }),
            Stmt::Log { parts } => self.line(|p| {
                p.put("log ");
                p.list(parts, |p, part| match part {
                    LogPart::Text(text) => p.put(&quote(text)),
                    LogPart::Value(value) => p.expr(value, LOOSEST),
                });
            }),
            Stmt::Zero { node } => self.line(|p| p.put_display(format_args!("zero {node}"))),
            Stmt::Declare { local, dtype, dims, space } => self.line(|p| {
                p.put_display(format_args!("declare {local} {dtype}"));
                p.dims(dims);
                p.put_display(format_args!(" {space}"));
            }),
            Stmt::SetLocal { local, index, value } => self.line(|p| {
                p.put_display(local);
                p.local_index(index);
                p.stored(value);
            }),
            Stmt::Comment(text) => self.line(|p| p.put_display(format_args!("comment {}", quote(text)))),
        }
    }

    fn stored(&mut self, value: &Expr) {
        self.put(" := ");
        self.expr(value, LOOSEST);
    }

    fn bound(&mut self, bound: &Bound) {
        if bound.clips().is_empty() {
            self.put_display(bound.limit);
        } else {
            self.put_display(format_args!("min({}, ", bound.limit));
            self.list(bound.clips(), |p, clip| p.affine(clip));
            self.put(")");
        }
        if let Some(node) = bound.condition() {
            self.put_display(format_args!(" while {node}"));
        }
    }

    fn symbol(&mut self, symbol: SymbolId) {
        match self.routine.symbols.get(symbol.index()) {
            Some(symbol) => self.put(&name(&symbol.name)),
            // The verifier rejects a routine with an unknown symbol, but printing it helps to find out why.
            None => self.put_display(symbol),
        }
    }

    fn index(&mut self, index: &[Affine]) {
        self.put("[");
        self.list(index, |p, i| p.affine(i));
        self.put("]");
    }

    /// Indices with the computed one in braces.
    fn dynamic_index(&mut self, index: &[Affine], axis: usize, at: &Expr) {
        self.put("[");
        for (dim, index) in index.iter().enumerate() {
            self.put(if dim == 0 { "" } else { ", " });
            if dim == axis {
                self.put("{");
                self.expr(at, LOOSEST);
                self.put("}");
            } else {
                self.affine(index);
            }
        }
        self.put("]");
    }

    /// A scalar local is written without brackets.
    fn local_index(&mut self, index: &[Affine]) {
        if !index.is_empty() {
            self.index(index);
        }
    }

    fn affine(&mut self, index: &Affine) {
        for (i, &(var, coefficient)) in index.terms().iter().enumerate() {
            self.sign(i == 0, coefficient < 0);
            if coefficient.unsigned_abs() != 1 {
                self.put_display(format_args!("{}*", coefficient.unsigned_abs()));
            }
            match var {
                Var::Loop(var) => self.put_display(var),
                Var::Symbol(symbol) => self.symbol(symbol),
            }
        }
        let first = index.terms().is_empty();
        if first || index.offset() != 0 {
            self.sign(first, index.offset() < 0);
            self.put_display(index.offset().unsigned_abs());
        }
    }

    fn sign(&mut self, first: bool, negative: bool) {
        self.put(match (first, negative) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        });
    }

    /// Writes an expression, in parentheses if it binds looser than `least`.
    fn expr(&mut self, expr: &Expr, least: u8) {
        match expr {
            Expr::Const(scalar) => self.put(&literal::print(*scalar)),
            Expr::Index { index, dtype } => {
                self.put_display(format_args!("index {dtype}("));
                self.affine(index);
                self.put(")");
            }
            Expr::Get { node, index } => {
                self.put_display(node);
                self.index(index);
            }
            Expr::GetGuarded { guard, node, index, otherwise } => {
                self.guarded(guard, *node, index);
                self.expr(otherwise, LOOSEST);
                self.put(")");
            }
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                self.put_display(format_args!("gather({node}"));
                self.dynamic_index(index, *axis, at);
                self.put(", ");
                self.expr(otherwise, LOOSEST);
                self.put(")");
            }
            Expr::Lane { lane, arg } => {
                self.put_display(format_args!("lane {lane}"));
                self.call("", &[arg]);
            }
            Expr::Lanes(lanes) => {
                let [a, b, c, d] = lanes.as_ref();
                self.call("lanes", &[a, b, c, d]);
            }
            Expr::GetMerge { node, index } => {
                self.put_display(format_args!("merge {node}"));
                self.index(index);
            }
            Expr::GetLocal { local, index } => {
                self.put_display(local);
                self.local_index(index);
            }
            Expr::Unary { op, arg } => self.call(op.token(), &[arg]),
            Expr::Binary { op, a, b } => match precedence(*op) {
                Some(binds) => self.infix(*op, binds, least, a, b),
                None => self.call(op.token(), &[a, b]),
            },
            Expr::Ternary { op, a, b, c } => self.call(op.token(), &[a, b, c]),
            Expr::Convert { to, arg } => {
                self.put("convert ");
                self.call(to.token(), &[arg]);
            }
            Expr::Bitcast { to, arg } => {
                self.put("bitcast ");
                self.call(to.token(), &[arg]);
            }
        }
    }

    /// Writes a guarded read up to its alternative.
    fn guarded(&mut self, guard: &Guard, node: NodeRef, index: &[Affine]) {
        self.put("guarded(");
        for range in guard {
            self.put_display(format_args!("{} <= ", range.lo));
            self.affine(&range.index);
            self.put_display(format_args!(" < {}, ", range.hi));
        }
        self.put_display(node);
        self.index(index);
        self.put(", ");
    }

    fn infix(&mut self, op: BinaryOp, binds: u8, least: u8, a: &Expr, b: &Expr) {
        let parentheses = binds < least;
        if parentheses {
            self.put("(");
        }
        self.expr(a, if op.is_comparison() { binds + 1 } else { binds });
        self.put_display(format_args!(" {op} "));
        self.expr(b, binds + 1);
        if parentheses {
            self.put(")");
        }
    }

    fn call(&mut self, name: &str, args: &[&Expr]) {
        self.put(name);
        self.put("(");
        self.list(args, |p, arg| p.expr(arg, LOOSEST));
        self.put(")");
    }
}

/// A name with its `@`, in quotes where it is no identifier.
fn name(name: &str) -> String {
    if is_identifier(name) { format!("@{name}") } else { format!("@{}", quote(name)) }
}

/// The word for a numeric class.
pub(super) fn numerics(numerics: Numerics) -> &'static str {
    match numerics {
        Numerics::Strict => "strict",
        Numerics::Fast => "fast",
    }
}
