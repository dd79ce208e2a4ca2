//! Warnings about the values that statements store.

use tnode::TensorNode;

use crate::source::on_one_line;
use crate::tree::{ResolvedExpr, ResolvedExprKind};
use crate::types::type_of;
use assignments::ByteRange;
use assignments::{Warning, WarningKind};
use lowered_ir::ir::{BinaryOp, TernaryOp, Var};
use lowered_ir::random::MAX_CELL;
use lowered_ir::{SourceSpan, SourceText};

/// Finds warnings in the value of one statement.
pub(super) struct ValueWarnings<'a> {
    pub(super) text: &'a SourceText,
    /// The node written.
    pub(super) node: &'a TensorNode,
    /// The letters of the target.
    pub(super) letters: &'a [&'a str],
    /// Whether the statement computes more than one value.
    pub(super) repeats: bool,
    pub(super) warnings: &'a mut Vec<Warning>,
}

impl ValueWarnings<'_> {
    /// Adds the warnings about a value that is stored.
    pub(super) fn value(&mut self, tree: &ResolvedExpr) {
        if self.node.dtype().is_float() {
            self.divisions(tree);
        }
        if self.repeats {
            self.random_numbers(tree);
        }
    }

    /// Finds quotients of integers whose value becomes part of a float. Quotients inside a conversion, a
    /// comparison or integer arithmetic are left out.
    fn divisions(&mut self, tree: &ResolvedExpr) {
        match &tree.kind {
            ResolvedExprKind::Binary(BinaryOp::Div, args) => {
                let dtype = type_of(tree).or(self.node.dtype());
                if dtype.is_float() {
                    return args.iter().for_each(|arg| self.divisions(arg));
                }
                let [a, b] = args.each_ref().map(|arg| self.source(&arg.span));
                let (division, written) = (self.source(&tree.span), self.node.dtype());
                let quotient = format!("{written}({}) / {b}", without_parentheses(&a));
                let is_enclosed = tree.span.start < args[0].span.start;
                let instead = if is_enclosed { format!("({quotient})") } else { quotient };
                let node = self.node.name();
                self.add(
                    WarningKind::IntegerDivision { division, dtype, node, written, instead },
                    &tree.span,
                );
            }
            ResolvedExprKind::Binary(op, args) if is_arithmetic(*op) => {
                args.iter().for_each(|arg| self.divisions(arg))
            }
            ResolvedExprKind::Ternary(TernaryOp::Where, args) => {
                args[1..].iter().for_each(|arm| self.divisions(arm));
            }
            ResolvedExprKind::Unary(..) | ResolvedExprKind::Ternary(..) => {
                tree.children().iter().for_each(|child| self.divisions(child));
            }
            ResolvedExprKind::Binary(..)
            | ResolvedExprKind::Number(_)
            | ResolvedExprKind::Index(_)
            | ResolvedExprKind::Size(_)
            | ResolvedExprKind::NodeAccess(_)
            | ResolvedExprKind::Cast(..)
            | ResolvedExprKind::Random(..) => {}
        }
    }

    /// Finds random numbers that are the same for all elements of the statement.
    fn random_numbers(&mut self, tree: &ResolvedExpr) {
        match &tree.kind {
            ResolvedExprKind::Random(_, cell) => {
                let is_letter = |term: &(Var, i64)| matches!(term.0, Var::Loop(_));
                if cell.iter().any(|index| index.terms().iter().any(is_letter)) {
                    return;
                }
                let (call, node) = (self.source(&tree.span), self.node.name());
                let letters = &self.letters[..self.letters.len().min(MAX_CELL - cell.len())];
                let arguments = call.strip_suffix(')').unwrap_or(&call);
                let instead = [arguments].iter().chain(letters).copied().collect::<Vec<_>>().join(", ") + ")";
                self.add(WarningKind::OneRandomNumber { call, node, instead }, &tree.span);
            }
            _ => tree.children().iter().for_each(|child| self.random_numbers(child)),
        }
    }

    fn add(&mut self, kind: WarningKind, span: &ByteRange) {
        self.warnings.push(Warning::new(kind, Some(SourceSpan::new(self.text.clone(), span.clone()))));
    }

    fn source(&self, span: &ByteRange) -> String {
        on_one_line(self.text, span)
    }
}

/// Whether a fraction in an operand affects the result.
fn is_arithmetic(op: BinaryOp) -> bool {
    use BinaryOp::{Add, Max, Min, Mul, Pow, Sub};
    matches!(op, Add | Sub | Mul | Max | Min | Pow)
}

/// Removes one pair of parentheses around the text.
fn without_parentheses(text: &str) -> &str {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(text)
}
