//! Arguments of calls: which parameter each belongs to, and how their letters match the parameter's axes.

use std::collections::BTreeMap;

use super::letters;
use super::scope::{ArrayBinding, AxisBinding};
use crate::ast::{Access, Argument, Call, Def, Expr, ExprKind, Index, Parameter, Pattern, PatternAxis};
use crate::error::{Result, TextErrorKind};
use crate::linear::{Atom, AxisSize, FactorOp, IndexExpr, IndexExprKind};
use assignments::ByteRange;
use assignments::spelling::similar_or_nearest;
use lowered_ir::ir::{BinaryOp, UnaryOp};

/// The arguments of a call in the order of the parameters; `None` where the default holds.
pub(super) fn in_order<'a>(call: &'a Call, def: &'a Def) -> Result<Vec<(&'a Parameter, Option<&'a Expr>)>> {
    let mut values: Vec<Option<&Expr>> = vec![None; def.parameters.len()];
    for (at, argument) in call.arguments.iter().enumerate() {
        let place = position(call, def, at, argument)?;
        if values[place].replace(&argument.value).is_some() {
            let name = def.parameters[place].name().to_owned();
            return Err(TextErrorKind::DefinedTwice { what: "argument", name }.at(&argument.value.span));
        }
    }
    for (parameter, value) in def.parameters.iter().zip(&values) {
        let has_default = matches!(parameter, Parameter::Scalar { default: Some(_), .. });
        if value.is_none() && !has_default {
            let (function, parameter) = (def.name.clone(), parameter.name().to_owned());
            return Err(TextErrorKind::MissingArgument { function, parameter }.at(&call.span));
        }
    }
    Ok(def.parameters.iter().zip(values).collect())
}

/// The position of the parameter to which an argument belongs.
fn position(call: &Call, def: &Def, at: usize, argument: &Argument) -> Result<usize> {
    let function = || def.name.clone();
    let Some((name, span)) = &argument.name else {
        if at < def.parameters.len() {
            return Ok(at);
        }
        let (expected, found) = (def.parameters.len(), call.arguments.len());
        let kind = TextErrorKind::Arity { name: function(), expected, found, instead: None };
        return Err(kind.at(&call.span));
    };
    let known = def.parameters.iter().position(|parameter| parameter.name() == name);
    known.ok_or_else(|| {
        let all = def.parameters.iter().map(|parameter| parameter.name().to_owned());
        let near = similar_or_nearest(name, all);
        TextErrorKind::UnknownParameter { function: function(), name: name.clone(), near }.at(span)
    })
}

/// The access by which an argument is used directly: each index is a letter of its own, without a constraint,
/// or has no letters.
pub(super) fn direct<'a>(argument: &'a Expr, axes: &[String], constrained: &[&str]) -> Option<&'a Access> {
    let ExprKind::Access(access) = &argument.kind else { return None };
    let mut seen: Vec<&str> = Vec::new();
    for index in &access.indices {
        let Index::Linear(index) = index else { return None };
        match index.as_letter() {
            Some(letter) if seen.contains(&letter) || constrained.contains(&letter) => return None,
            Some(letter) => seen.push(letter),
            None => {
                let mut others = Vec::new();
                letters::in_index(index, &mut others);
                if !others.is_empty() {
                    return None;
                }
            }
        }
    }
    (seen.len() == axes.len()).then_some(access)
}

/// The binding of a parameter or result to the node of an access that [`direct`] found, or of a target.
/// `axes` has the letter of each axis of the parameter.
pub(super) fn binding(access: &Access, axes: &[String]) -> ArrayBinding {
    let bound = |index: &Index| match index {
        Index::Linear(index) => {
            let at = axes.iter().position(|axis| index.as_letter() == Some(axis));
            at.map_or_else(|| AxisBinding::Fixed(index.clone()), AxisBinding::Axis)
        }
        Index::Concat(_) | Index::Row(_) | Index::Computed(_) => AxisBinding::Axis(0),
    };
    let axes = access.indices.iter().map(bound).collect();
    ArrayBinding { name: access.name.clone(), merge: access.merge, axes }
}

/// The letters of the caller in place of a function's letters and row variables.
#[derive(Debug, Default)]
pub(super) struct MatchedAxes {
    letters: BTreeMap<String, String>,
    pub(super) rows: BTreeMap<String, Vec<String>>,
    /// The axis of an argument that each letter of the caller stands for.
    sizes: BTreeMap<String, AxisSize>,
}

impl MatchedAxes {
    /// Matches the axes of an argument, from left to right, with those of its parameter.
    pub(super) fn enter(
        &mut self,
        function: &str,
        pattern: &Pattern,
        axes: &[String],
        span: &ByteRange,
    ) -> Result<()> {
        let fixed = pattern.axes.iter().filter(|axis| matches!(axis, PatternAxis::Letter(..))).count();
        let has_row = fixed < pattern.axes.len();
        if axes.len() < fixed || (!has_row && axes.len() > fixed) {
            let (pattern, axes) = (pattern.to_string(), axes.join(","));
            let function = function.to_owned();
            return Err(TextErrorKind::ArgumentRank { function, pattern, axes }.at(span));
        }
        let mut at = 0;
        for axis in &pattern.axes {
            let count = match axis {
                PatternAxis::Letter(..) => 1,
                PatternAxis::Row(_) => axes.len() - fixed,
            };
            let part = &axes[at..at + count];
            let known = match axis {
                PatternAxis::Letter(letter, _) => {
                    let known = self.letters.entry(letter.clone()).or_insert_with(|| part[0].clone());
                    std::slice::from_ref(known)
                }
                PatternAxis::Row(row) => self.rows.entry(row.name.clone()).or_insert_with(|| part.to_vec()),
            };
            if known != part {
                let (function, axis) = (function.to_owned(), axis.to_string());
                let (expected, found) = (known.join(","), part.join(","));
                let kind = TextErrorKind::AxisMismatch { function, axis, expected, found };
                return Err(kind.at(span));
            }
            at += count;
        }
        Ok(())
    }

    /// Records the axes of the node in place of an argument with these letters.
    pub(super) fn enter_sizes(&mut self, letters: &[String], node: &ArrayBinding) {
        node.enter_sizes(letters, &mut self.sizes);
    }

    /// Replaces the sizes of the caller's letters by sizes of axes. Returns a letter that no argument has.
    pub(super) fn replace_sizes(&self, expr: &mut Expr) -> Option<String> {
        if let ExprKind::Size(letter) = &expr.kind {
            match self.sizes.get(letter) {
                Some(size) => expr.kind = ExprKind::AxisSize(size.clone()),
                None => return Some(letter.clone()),
            }
        }
        expr.children_mut().into_iter().find_map(|child| self.replace_sizes(child))
    }

    /// The letters of the axes of a result; `None` for a letter that no argument has.
    pub(super) fn result(&self, function: &str, pattern: &Pattern) -> Result<Vec<Option<String>>> {
        let mut letters = Vec::new();
        for axis in &pattern.axes {
            match axis {
                PatternAxis::Letter(letter, _) => letters.push(self.letters.get(letter).cloned()),
                PatternAxis::Row(row) => match self.rows.get(&row.name) {
                    Some(row) => letters.extend(row.iter().cloned().map(Some)),
                    None => {
                        let (function, row_text) = (function.to_owned(), row.to_string());
                        let kind = TextErrorKind::UnknownRow { function, row: row_text };
                        return Err(kind.at(&row.span));
                    }
                },
            }
        }
        Ok(letters)
    }
}

/// An expression of integers and symbols as an index; `None` for other expressions.
pub(super) fn as_index(expr: &Expr) -> Option<IndexExprKind> {
    let index = |expr: &Expr| Some(IndexExpr { kind: as_index(expr)?, span: expr.span.clone() });
    Some(match &expr.kind {
        ExprKind::Number(number) => IndexExprKind::Number(number.int?),
        ExprKind::AxisSize(size) => IndexExprKind::AxisSize(size.clone()),
        ExprKind::Symbol(name) => IndexExprKind::Atom(Atom::Symbol(name.clone())),
        ExprKind::Unary(UnaryOp::Neg, a) => IndexExprKind::Negated(Box::new(index(a)?)),
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (Box::new(index(a)?), index(b)?);
            let factor = |op, a, b| IndexExprKind::Product(a, vec![(op, expr.span.clone(), b)]);
            match op {
                BinaryOp::Add => IndexExprKind::Sum(a, vec![(false, b)]),
                BinaryOp::Sub => IndexExprKind::Sum(a, vec![(true, b)]),
                BinaryOp::Mul => factor(FactorOp::Times, a, b),
                BinaryOp::Div => factor(FactorOp::Over, a, b),
                BinaryOp::Rem => factor(FactorOp::Modulo, a, b),
                _ => return None,
            }
        }
        _ => return None,
    })
}
