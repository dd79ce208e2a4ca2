//! Replaces names by their meanings in a scope: sizes by numbers, and the names of a function by the caller's
//! names.
//!
//! The indices of a statement are rewritten first, since they show which names are letters; then its values.

use tnode::RunSize;

use super::scope::{AxisBinding, FunctionScope, Scope};
use super::{arguments, letters};
use crate::ast::{Access, Call, Expr, ExprKind, Fetch, Index, KeyArgument, RandomCall, Row, Statement};
use crate::constraint::Constraint;
use crate::error::{Result, TextErrorKind, expected};
use crate::linear::{Atom, AxisSize, IndexExpr, IndexExprKind};
use crate::number::Number;
use assignments::ByteRange;
use assignments::spelling::similar_or_nearest;
use lowered_ir::ir::{BinaryOp, UnaryOp};

/// Replaces the names of a statement.
pub(super) fn statement(statement: &mut Statement, scope: &Scope) -> Result<()> {
    match &mut statement.fetch {
        Some(fetch) => {
            statement.lhs.iter_mut().try_for_each(|target| whole_node(target, scope))?;
            self::fetch(fetch, scope)?;
        }
        None => statement.lhs.iter_mut().try_for_each(|target| access(target, scope))?,
    }
    statement.rhs.iter_mut().try_for_each(|value| indices_of(value, scope))?;
    statement.constraints.iter_mut().try_for_each(|constraint| self::constraint(constraint, scope))?;
    let letters = letters::of_statement(statement);
    statement.values_mut().try_for_each(|value| values(value, &letters, scope))
}

/// Replaces the names of a call that is a statement of its own.
pub(super) fn call(call: &mut Call, scope: &Scope) -> Result<()> {
    call.arguments.iter_mut().try_for_each(|argument| indices_of(&mut argument.value, scope))?;
    let letters = letters::of_call(call);
    call.arguments.iter_mut().try_for_each(|argument| values(&mut argument.value, &letters, scope))
}

/// Replaces the names of an expression without letters.
pub(super) fn default_value(value: &mut Expr, scope: &Scope) -> Result<()> {
    indices_of(value, scope)?;
    values(value, &[], scope)
}

/// Replaces sizes by their numbers, and sums of sizes that a run gives by their symbols; returns the sizes of
/// these symbols.
pub(super) fn sizes(sizes: &mut [IndexExpr], scope: &Scope) -> Result<Vec<RunSize>> {
    let mut named = Vec::new();
    for size in sizes {
        let sum = match scope.mentions_sizes(size) {
            true => scope.size_sum(size)?,
            false => scope.integer(size)?.into(),
        };
        *size = match (sum.constant(), sum.size()) {
            (Some(number), _) => IndexExpr::number(number, size.span.clone()),
            (None, Some(run_size)) => {
                let symbol = Atom::Symbol(run_size.name().to_owned());
                named.push(run_size);
                IndexExpr::atom(symbol, size.span.clone())
            }
            (None, None) => {
                let name = size.to_string();
                return Err(TextErrorKind::NoSizeValue { name }.at(&size.span));
            }
        };
    }
    Ok(named)
}

/// Replaces the names in an index, and quotients of sizes that a run gives by the symbols of these sizes.
pub(super) fn index(index: &mut IndexExpr, scope: &Scope) -> Result<()> {
    quotients(index, scope);
    names(index, scope)
}

/// Replaces each quotient of sizes alone; others have no linear form.
fn quotients(index: &mut IndexExpr, scope: &Scope) {
    if index.divides()
        && let Some(found) = scope.symbol_sum(index)
    {
        *index = found.index(&index.span);
        return;
    }
    match &mut index.kind {
        IndexExprKind::Negated(inner) => quotients(inner, scope),
        IndexExprKind::Sum(first, others) => {
            quotients(first, scope);
            others.iter_mut().for_each(|(_, term)| quotients(term, scope));
        }
        IndexExprKind::Product(first, others) => {
            quotients(first, scope);
            others.iter_mut().for_each(|(.., factor)| quotients(factor, scope));
        }
        _ => {}
    }
}

/// Replaces the names in an index.
pub(super) fn names(index: &mut IndexExpr, scope: &Scope) -> Result<()> {
    index.replace(&mut |leaf, span| match leaf {
        IndexExprKind::Atom(Atom::Letter(name)) => scope.in_index(name, span),
        IndexExprKind::Atom(Atom::Symbol(name)) => reject_symbol(name, span, scope).map(|()| None),
        IndexExprKind::LetterSize(letter) => Ok(letter_size(letter, scope).map(IndexExprKind::AxisSize)),
        IndexExprKind::AxisSize(size) => {
            axis_size(size, span, scope).map(|size| Some(IndexExprKind::AxisSize(size)))
        }
        _ => Ok(None),
    })
}

/// The axis of the caller's node that a letter of a function's parameter stands for.
fn letter_size(letter: &str, scope: &Scope) -> Option<AxisSize> {
    scope.function.as_ref()?.axes.get(letter).cloned()
}

/// The axis of the caller's node in place of an axis of a function's node.
fn axis_size(size: &AxisSize, span: &ByteRange, scope: &Scope) -> Result<AxisSize> {
    let position = position(&size.node, &size.family, scope)?;
    let named = |node: String| AxisSize { node: node + &position, family: Vec::new(), axis: size.axis };
    let Some(function) = &scope.function else { return Ok(named(size.node.clone())) };
    if let Some(binding) = function.arrays.get(&size.node).filter(|_| size.family.is_empty()) {
        return binding.axis_size(size.axis).ok_or_else(|| {
            let (name, expected, found) = (size.node.clone(), binding.rank(), size.axis.saturating_add(1));
            TextErrorKind::ParameterRank { name, expected, found }.at(span)
        });
    }
    match function.locals.contains(&size.node) {
        true => Ok(named(format!("{}.{}", function.prefix, size.node))),
        false => Err(outside(function, size.node.clone()).at(span)),
    }
}

/// Rejects a symbol in a function, which reads its parameters only.
fn reject_symbol(name: &str, span: &ByteRange, scope: &Scope) -> Result<()> {
    match &scope.function {
        Some(function) => Err(outside(function, format!("@{name}")).at(span)),
        None => Ok(()),
    }
}

fn outside(function: &FunctionScope, name: String) -> TextErrorKind {
    let known = function.arrays.keys().chain(function.scalars.keys()).chain(&function.locals);
    let near = similar_or_nearest(&name, known.cloned());
    TextErrorKind::OutsideFunction { function: function.function.clone(), name, near }
}

fn constraint(constraint: &mut Constraint, scope: &Scope) -> Result<()> {
    side(&mut constraint.left, scope)?;
    side(&mut constraint.right, scope)
}

/// Replaces the names in a side of a comparison. A side that is a size becomes its symbol, below which a
/// letter may stay.
fn side(side: &mut IndexExpr, scope: &Scope) -> Result<()> {
    match scope.derived_size(side) {
        Some(size) => *side = IndexExpr::atom(Atom::Symbol(scope.name(size)), side.span.clone()),
        None => index(side, scope)?,
    }
    Ok(())
}

/// Replaces the names in an access: in its indices, in computed indices, and the node's name.
fn access(access: &mut Access, scope: &Scope) -> Result<()> {
    access.indices = axes(std::mem::take(&mut access.indices), scope)?;
    node(access, scope)
}

/// Replaces the name of a node that is filled or read as a whole.
pub(super) fn whole_node(target: &mut Access, scope: &Scope) -> Result<()> {
    let binding = scope.function.as_ref().and_then(|function| function.arrays.get(&target.name));
    match binding {
        Some(binding) if binding.is_whole() && target.family.is_empty() => {
            target.name.clone_from(&binding.name);
            Ok(())
        }
        Some(_) => Err(TextErrorKind::PartFilled { name: target.name.clone() }.at(&target.span)),
        None => node(target, scope),
    }
}

fn axes(indices: Vec<Index>, scope: &Scope) -> Result<Vec<Index>> {
    let parts = indices.into_iter().map(|index| axis(index, scope));
    Ok(parts.collect::<Result<Vec<_>>>()?.concat())
}

/// The indices in place of one: several for a row variable.
fn axis(index: Index, scope: &Scope) -> Result<Vec<Index>> {
    Ok(match index {
        Index::Linear(mut index) => {
            self::index(&mut index, scope)?;
            vec![Index::Linear(index)]
        }
        Index::Row(row) => match &scope.function {
            Some(function) => row_letters(&row, function)?.into_iter().map(Index::Linear).collect(),
            None => vec![Index::Row(row)],
        },
        Index::Computed(mut expr) => {
            indices_of(&mut expr, scope)?;
            vec![Index::Computed(expr)]
        }
        Index::Concat(concat) => vec![Index::Concat(concat)],
    })
}

/// The letters of a row variable.
fn row_letters(row: &Row, function: &FunctionScope) -> Result<Vec<IndexExpr>> {
    let Some(letters) = function.rows.get(&row.name) else {
        let (function, row_text) = (function.function.clone(), row.to_string());
        return Err(TextErrorKind::UnknownRow { function, row: row_text }.at(&row.span));
    };
    Ok(letters.iter().map(|letter| IndexExpr::letter(letter, row.span.clone())).collect())
}

/// Replaces the name of an access, whose indices have been rewritten.
pub(super) fn node(access: &mut Access, scope: &Scope) -> Result<()> {
    let positions = position(&access.name, &access.family, scope)?;
    if let Some(function) = &scope.function {
        in_function(access, function)?;
    }
    access.name += &positions;
    access.family.clear();
    Ok(())
}

/// The end of the name of a node of the family `name`: `.2` for the position `[2]`.
fn position(name: &str, family: &[IndexExpr], scope: &Scope) -> Result<String> {
    let mut positions = String::new();
    for position in family {
        let number = scope.integer(position).map_err(|error| error.map(open_position))?;
        match number {
            at if at >= 0 => positions += &format!(".{at}"),
            found => {
                let name = name.to_owned();
                return Err(TextErrorKind::NegativeMember { name, found }.at(&position.span));
            }
        }
    }
    Ok(positions)
}

/// The error about a position in a family, in place of the one about any integer.
fn open_position(kind: TextErrorKind) -> TextErrorKind {
    match kind {
        TextErrorKind::NoInteger { name } => TextErrorKind::OpenPosition { name },
        kind => kind,
    }
}

fn in_function(access: &mut Access, function: &FunctionScope) -> Result<()> {
    let Some(binding) = function.arrays.get(&access.name).filter(|_| access.family.is_empty()) else {
        if !function.locals.contains(&access.name) {
            return Err(outside(function, access.name.clone()).at(&access.name_span));
        }
        access.name = format!("{}.{}", function.prefix, access.name);
        return Ok(());
    };
    let expected = binding.rank();
    if access.indices.len() != expected {
        let (name, found) = (access.name.clone(), access.indices.len());
        return Err(TextErrorKind::ParameterRank { name, expected, found }.at(&access.span));
    }
    let own = std::mem::take(&mut access.indices);
    let bound = |axis: &AxisBinding| match axis {
        AxisBinding::Axis(at) => own[*at].clone(),
        AxisBinding::Fixed(index) => Index::Linear(index.clone()),
    };
    access.indices = binding.axes.iter().map(bound).collect();
    access.name.clone_from(&binding.name);
    access.merge |= binding.merge;
    Ok(())
}

/// Replaces the names in the accesses and the random numbers of an expression.
fn indices_of(expr: &mut Expr, scope: &Scope) -> Result<()> {
    match &mut expr.kind {
        ExprKind::Access(read) => match scalar(read, scope) {
            Some(value) => {
                expr.kind = value;
                return Ok(());
            }
            None => access(read, scope)?,
        },
        ExprKind::Pad(read, ..) => access(read, scope)?,
        ExprKind::Symbol(name) => reject_symbol(name, &expr.span, scope)?,
        ExprKind::Random(call) => random(call, scope)?,
        ExprKind::Call(call) => {
            call.indices = call.indices.take().map(|indices| axes(indices, scope)).transpose()?;
        }
        _ => {}
    }
    expr.children_mut().into_iter().try_for_each(|child| indices_of(child, scope))
}

/// The value of a scalar parameter that is written as an access, `rate[]`.
fn scalar(access: &Access, scope: &Scope) -> Option<ExprKind> {
    let bare = access.indices.is_empty() && access.family.is_empty() && !access.merge;
    let value = scope.function.as_ref()?.scalars.get(&access.name).filter(|_| bare)?;
    Some(value.kind.clone())
}

fn random(call: &mut RandomCall, scope: &Scope) -> Result<()> {
    seed(&mut call.seed, scope)?;
    let mut parts = Vec::new();
    for part in std::mem::take(&mut call.parts) {
        match (part, &scope.function) {
            (KeyArgument::Row(row), Some(function)) => {
                parts.extend(row_letters(&row, function)?.into_iter().map(KeyArgument::Index));
            }
            (KeyArgument::Index(mut part), _) => {
                index(&mut part, scope)?;
                parts.push(KeyArgument::Index(part));
            }
            (part, _) => parts.push(part),
        }
    }
    call.parts = parts;
    Ok(())
}

/// Replaces the name of a seed, which must be a number then.
fn seed(seed: &mut IndexExpr, scope: &Scope) -> Result<()> {
    index(seed, scope)?;
    match seed.integer()? {
        Some(number) if number >= 0 => seed.kind = IndexExprKind::Number(number),
        None if seed.as_letter().is_some() => {}
        Some(_) | None => {
            return Err(expected("a seed such as `42`", format!("`{seed}`"), &seed.span));
        }
    }
    Ok(())
}

/// Replaces the names in a function that fills a node.
pub(super) fn fetch(fetch: &mut Fetch, scope: &Scope) -> Result<()> {
    match fetch {
        Fetch::Random(call) => random(call, scope),
        Fetch::SampleValues { distribution, scheme, of } => {
            if let Some(kind) = scope.in_index(&of.name, &of.span)? {
                let mut seed = IndexExpr { kind, span: of.span.clone() };
                self::seed(&mut seed, scope)?;
                let (distribution, scheme) = (*distribution, *scheme);
                *fetch = Fetch::Random(RandomCall { distribution, scheme, seed, parts: Vec::new() });
                return Ok(());
            }
            whole_node(of, scope)
        }
        Fetch::Slice { of, symbol } => {
            reject_symbol(symbol, &of.span, scope)?;
            whole_node(of, scope)
        }
        Fetch::Order { of, .. } => whole_node(of, scope),
        Fetch::Offsets | Fetch::SelfId | Fetch::Values(_) | Fetch::Bits(..) => Ok(()),
    }
}

/// Replaces the names that are values. `letters` has the letters of the statement.
fn values(expr: &mut Expr, letters: &[String], scope: &Scope) -> Result<()> {
    let is_negated_number = negated_number(expr).is_some();
    let replaced = match &expr.kind {
        ExprKind::Name(name) => value(name, &expr.span, letters, scope)?,
        ExprKind::RowSize(row) => match &scope.function {
            Some(function) => Some(row_size(row, &expr.span, letters, function)?),
            None => None,
        },
        ExprKind::Size(letter) if !letters.contains(letter) => {
            letter_size(letter, scope).map(ExprKind::AxisSize)
        }
        ExprKind::AxisSize(size) => Some(ExprKind::AxisSize(axis_size(size, &expr.span, scope)?)),
        _ => None,
    };
    match replaced {
        Some(kind) => expr.kind = kind,
        None => {
            let indices = expr.indices_mut().into_iter().flatten().filter_map(Index::computed_mut);
            indices.into_iter().try_for_each(|index| values(index, letters, scope))?;
            expr.children_mut().into_iter().try_for_each(|child| values(child, letters, scope))?;
        }
    }
    // As the parser does for `-2`. But `neg(2)` of the source negates in the type of the context.
    if let Some(number) = negated_number(expr).filter(|_| !is_negated_number) {
        expr.kind = ExprKind::Number(number);
    }
    expr.depth = expr.kind.depth(&expr.span)?;
    Ok(())
}

/// The value of a negated number.
fn negated_number(expr: &Expr) -> Option<Number> {
    match &expr.kind {
        ExprKind::Unary(UnaryOp::Neg, operand) => match operand.kind {
            ExprKind::Number(number) => Some(number.negated()),
            _ => None,
        },
        _ => None,
    }
}

/// The meaning of a bare name; `None` if it keeps its name.
fn value(name: &str, span: &ByteRange, letters: &[String], scope: &Scope) -> Result<Option<ExprKind>> {
    let is_letter = letters.iter().any(|letter| letter == name);
    let integer = scope.integers.get(name).filter(|_| !is_letter);
    let number = integer.map(|&integer| ExprKind::Number(Number::integer(integer)));
    let step = scope.symbol(name).filter(|_| !is_letter);
    let number = step.map(|symbol| ExprKind::Symbol(symbol.to_owned())).or(number);
    let Some(function) = &scope.function else { return Ok(number) };
    let is_node = function.arrays.contains_key(name) || function.locals.contains(name);
    match (is_letter, is_node) {
        (true, true) => Err(TextErrorKind::NodeOrLetter { name: name.to_owned() }.at(span)),
        (true, false) => Ok(Some(ExprKind::Letter(name.to_owned()))),
        (false, true) => {
            let mut read = Access::whole(name, span);
            in_function(&mut read, function)?;
            Ok(Some(ExprKind::Access(Box::new(read))))
        }
        (false, false) => {
            let scalar = function.scalars.get(name).map(|scalar| scalar.kind.clone());
            let named = || Number::named(name).map(ExprKind::Number);
            let kind = scalar.or(number).or_else(named);
            kind.map(Some).ok_or_else(|| outside(function, name.to_owned()).at(span))
        }
    }
}

/// The product of the sizes of the letters of a row variable.
fn row_size(row: &Row, span: &ByteRange, letters: &[String], function: &FunctionScope) -> Result<ExprKind> {
    let mut product: Option<ExprKind> = None;
    for letter in row_letters(row, function)? {
        let letter = letter.as_letter().unwrap_or_default().to_owned();
        let axis = function.axes.get(&letter).filter(|_| !letters.contains(&letter));
        let size = axis.map_or(ExprKind::Size(letter), |axis| ExprKind::AxisSize(axis.clone()));
        product = Some(match product {
            None => size,
            Some(before) => {
                let factor = |kind| Expr::new(kind, span.clone()).map(Box::new);
                ExprKind::Binary(BinaryOp::Mul, factor(before)?, factor(size)?)
            }
        });
    }
    Ok(product.unwrap_or(ExprKind::Number(Number::integer(1))))
}

impl Scope {
    /// The symbol in place of a name: that of a scan, or the size that a run gives.
    fn symbol(&self, name: &str) -> Option<&str> {
        let size = self.run_sizes.get(name);
        self.steps.get(name).map(String::as_str).or(size.map(RunSize::name))
    }

    /// The value of an integer.
    pub(super) fn integer(&self, value: &IndexExpr) -> Result<i64> {
        let mut value = value.clone();
        index(&mut value, self)?;
        value.known_integer()
    }

    /// The number or symbol that an index has in place of a name; `None` for a letter.
    pub(super) fn in_index(&self, name: &str, span: &ByteRange) -> Result<Option<IndexExprKind>> {
        if let Some(scalar) = self.function.as_ref().and_then(|function| function.scalars.get(name)) {
            let value = arguments::as_index(scalar);
            return value.map(Some).ok_or_else(|| TextErrorKind::NotAffine { found: "a value" }.at(span));
        }
        let step = self.symbol(name).map(|symbol| IndexExprKind::Atom(Atom::Symbol(symbol.to_owned())));
        let number = self.integers.get(name).map(|&number| IndexExprKind::Number(i128::from(number)));
        Ok(step.or(number))
    }
}
