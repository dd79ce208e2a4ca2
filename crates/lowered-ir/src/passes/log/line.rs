//! Lines of the log: expressions as text with the names of nodes, as they stand in the routine or with the
//! values of a run.

use std::collections::BTreeMap;

use tnode::DType;

use crate::ir::{Affine, BinaryOp, Expr, Guard, Indices, LogPart, LoweredRoutine, NodeRef};
use crate::text::{LOOSEST, precedence, print_index};

/// The unique names of nodes in the log.
pub(super) struct NodeNames(Vec<String>);

impl NodeNames {
    /// The nodes' own names, with the position where several nodes have one name.
    pub(super) fn of(routine: &LoweredRoutine) -> NodeNames {
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for decl in &routine.nodes {
            *uses.entry(&decl.name).or_default() += 1;
        }
        let name = |(node, name): (NodeRef, &str)| match uses.get(name) {
            Some(1) if !name.is_empty() => name.to_owned(),
            _ => format!("{name}{node}"),
        };
        NodeNames(routine.node_refs().map(|(node, decl)| name((node, &decl.name))).collect())
    }
}

/// The form in which a line shows indices and reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LineDetail {
    /// As written in the routine.
    Source,
    /// With their values in a run.
    Values,
}

/// A line being written.
pub(super) struct LineWriter<'a> {
    routine: &'a LoweredRoutine,
    names: &'a NodeNames,
    shown: LineDetail,
    parts: Vec<LogPart>,
    /// The text after the last part.
    pending: String,
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(routine: &'a LoweredRoutine, names: &'a NodeNames, shown: LineDetail) -> Self {
        LineWriter { routine, names, shown, parts: Vec::new(), pending: String::new() }
    }

    pub(super) fn finish(mut self) -> Vec<LogPart> {
        self.flush();
        self.parts
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.parts.push(LogPart::Text(std::mem::take(&mut self.pending)));
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.pending.push_str(text);
    }

    /// A name or remark, on one line whatever it holds.
    pub(super) fn name(&mut self, name: &str) {
        self.text(&name.replace('\r', "\\r").replace('\n', "\\n"));
    }

    pub(super) fn node(&mut self, node: NodeRef) {
        let names = self.names;
        self.name(&names.0[node.index()]);
    }

    /// A value of the run.
    pub(super) fn value(&mut self, value: Expr) {
        self.flush();
        self.parts.push(LogPart::Value(value));
    }

    /// `{=value}`.
    pub(super) fn equals(&mut self, value: Expr) {
        self.text("{=");
        self.value(value);
        self.text("}");
    }

    /// An index: how it is written, or its value.
    pub(super) fn index(&mut self, index: &Affine) {
        match self.shown {
            LineDetail::Values if index.as_constant().is_none() => {
                self.value(Expr::Index { index: index.clone(), dtype: DType::I64 });
            }
            LineDetail::Values | LineDetail::Source => self.text(&print_index(self.routine, index)),
        }
    }

    fn indices(&mut self, indices: &[Affine]) {
        self.text("[");
        for (dim, index) in indices.iter().enumerate() {
            self.text(if dim == 0 { "" } else { ", " });
            self.index(index);
        }
        self.text("]");
    }

    /// The element that a read accesses, without its value.
    pub(super) fn place(&mut self, read: &Expr) {
        match read {
            Expr::Get { node, index } => {
                self.node(*node);
                self.indices(index);
            }
            Expr::GetMerge { node, index } => {
                self.text("merge ");
                self.node(*node);
                self.indices(index);
            }
            Expr::GetLocal { local, index } => {
                self.text(&local.to_string());
                if !index.is_empty() {
                    self.indices(index);
                }
            }
            Expr::GetDynamic { node, index, axis, at, .. } => self.computed_place(*node, index, *axis, at),
            _ => self.expr(read),
        }
    }

    /// An element with the computed index of the dimension `axis` in braces.
    fn computed_place(&mut self, node: NodeRef, indices: &Indices, axis: usize, at: &Expr) {
        self.node(node);
        self.text("[");
        for (dim, index) in indices.iter().enumerate() {
            self.text(if dim == 0 { "" } else { ", " });
            if dim == axis {
                self.text("{");
                self.expr(at);
                self.text("}");
            } else {
                self.index(index);
            }
        }
        self.text("]");
    }

    /// Writes an expression, with the value of each read after it.
    pub(super) fn expr(&mut self, expr: &Expr) {
        self.within(expr, LOOSEST);
    }

    /// An expression, in parentheses if it binds looser than `least`.
    fn within(&mut self, expr: &Expr, least: u8) {
        match expr {
            Expr::Const(scalar) => self.text(&scalar.to_string()),
            Expr::Index { index, .. } => match self.shown {
                LineDetail::Source if index.terms().len() > 1 || index.offset() != 0 => {
                    self.text("(");
                    self.index(index);
                    self.text(")");
                }
                LineDetail::Source | LineDetail::Values => self.index(index),
            },
            Expr::Get { .. } | Expr::GetMerge { .. } | Expr::GetLocal { .. } => {
                self.place(expr);
                self.read(expr);
            }
            Expr::GetGuarded { guard, node, index, otherwise } => {
                self.text("guarded(");
                self.guard(guard);
                self.node(*node);
                self.indices(index);
                self.text(", ");
                self.expr(otherwise);
                self.text(")");
                self.read(expr);
            }
            Expr::GetDynamic { otherwise, .. } => {
                self.text("gather(");
                self.place(expr);
                self.text(", ");
                self.expr(otherwise);
                self.text(")");
                self.read(expr);
            }
            Expr::Unary { op, arg } => self.call(op.token(), &[arg]),
            Expr::Binary { op, a, b } => match precedence(*op) {
                Some(binds) => self.infix(*op, binds, least, a, b),
                None => self.call(op.token(), &[a, b]),
            },
            Expr::Ternary { op, a, b, c } => self.call(op.token(), &[a, b, c]),
            Expr::Convert { to, arg } => self.call(to.token(), &[arg]),
            Expr::Bitcast { to, arg } => self.call(&format!("bitcast {to}"), &[arg]),
            Expr::Lane { lane, arg } => self.call(&format!("lane {lane}"), &[arg]),
            Expr::Lanes(lanes) => {
                let [a, b, c, d] = lanes.as_ref();
                self.call("lanes", &[a, b, c, d]);
            }
        }
    }

    /// Writes the value of a read by repeating the read itself, so that it touches the same memory as the
    /// statement.
    fn read(&mut self, read: &Expr) {
        if self.shown == LineDetail::Values {
            self.equals(read.clone());
        }
    }

    fn guard(&mut self, guard: &Guard) {
        for range in guard {
            self.text(&format!("{} <= ", range.lo));
            self.index(&range.index);
            self.text(&format!(" < {}, ", range.hi));
        }
    }

    fn infix(&mut self, op: BinaryOp, binds: u8, least: u8, a: &Expr, b: &Expr) {
        if binds < least {
            self.text("(");
        }
        self.within(a, if op.is_comparison() { binds + 1 } else { binds });
        self.text(&format!(" {op} "));
        self.within(b, binds + 1);
        if binds < least {
            self.text(")");
        }
    }

    fn call(&mut self, name: &str, args: &[&Expr]) {
        self.text(name);
        self.text("(");
        for (at, arg) in args.iter().enumerate() {
            self.text(if at == 0 { "" } else { ", " });
            self.expr(arg);
        }
        self.text(")");
    }
}
