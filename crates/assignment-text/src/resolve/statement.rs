//! Resolves the names of a statement to letters, symbols and nodes.

use tnode::{Dims, RunSizes, TensorNode};

use super::dims::view_dims;
use super::letters::{concat_name, enter_letter, enter_letters};
use crate::ast::{Access, Expr, ExprKind, Index, RandomCall, Statement, View};
use crate::error::{Result, TextErrorKind, expected};
use crate::linear::{Atom, Linear};
use crate::names::NamesAt;
use crate::number::Number;
use crate::random;
use crate::source::on_one_line;
use crate::tree::{
    AccessKind, ComputedIndex, Letter, NodeAccess, ResolvedExpr, ResolvedExprKind, ResolvedStatement,
};
use assignments::indexing::{StaticSymbol, axis_iterator};
use assignments::{ByteRange, SymbolTable};
use lowered_ir::ir::{Affine, BinaryOp, UnaryOp, Var};

/// Resolves one statement. Its symbols are entered into `assignments`.
pub(crate) fn resolve(
    statement: &Statement,
    text: &str,
    nodes: NamesAt<'_>,
    symbols: &mut SymbolTable,
) -> Result<ResolvedStatement> {
    let mut letters = Vec::new();
    statement.lhs.iter().for_each(|target| enter_letters(target, &mut letters));
    for value in &statement.rhs {
        value.each_access(&mut |access| enter_letters(access, &mut letters));
    }
    for letter in &mut letters {
        letter.node = nodes.has(&letter.name).then(|| nodes.find(&letter.name).ok()).flatten();
    }
    let mut names = NameResolver { text, nodes, letters, symbols };
    names.declare(statement)?;
    let lhs =
        statement.lhs.iter().map(|target| names.read(target, AccessKind::Lhs)).collect::<Result<_, _>>()?;
    let rhs = statement.rhs.iter().map(|value| names.tree(value)).collect::<Result<_, _>>()?;
    let conditions = names.conditions(statement)?;
    let NameResolver { letters, .. } = names;
    let Statement { op, init, ref op_span, ref span, .. } = *statement;
    Ok(ResolvedStatement {
        letters,
        lhs,
        op,
        init,
        op_span: op_span.clone(),
        rhs,
        conditions,
        span: span.clone(),
        frame: statement.frame.clone(),
    })
}

struct NameResolver<'a> {
    text: &'a str,
    nodes: NamesAt<'a>,
    letters: Vec<Letter>,
    symbols: &'a mut SymbolTable,
}

impl NameResolver<'_> {
    /// Enters the ranges that `where` declares, and the letters that occur only as values.
    fn declare(&mut self, statement: &Statement) -> Result<()> {
        for constraint in &statement.constraints {
            match constraint.range()? {
                Some((Atom::Letter(name), limit)) => {
                    self.declare_range(name, (limit, &constraint.span), statement)?;
                }
                Some((Atom::Symbol(_), _)) => {}
                None => {
                    for name in constraint.letters() {
                        self.known_letter(name, &constraint.span, statement)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn declare_range(
        &mut self,
        name: &str,
        (limit, span): (i128, &ByteRange),
        statement: &Statement,
    ) -> Result<()> {
        let letter = self.known_letter(name, span, statement)?;
        if let Some((other, _)) = letter.declared
            && other != limit
        {
            let conflict = format!("contradicts `{name} < {other}` in the same statement");
            return Err(TextErrorKind::BadRange { name: name.to_owned(), range: limit, conflict }.at(span));
        }
        letter.declared = Some((limit, span.clone()));
        Ok(())
    }

    /// The entry of a letter that a `where` mentions, which must occur elsewhere in the statement.
    fn known_letter(&mut self, name: &str, span: &ByteRange, statement: &Statement) -> Result<&mut Letter> {
        self.enter_value_letter(name, statement);
        let unused = || TextErrorKind::UnusedLetter { letter: name.to_owned() }.at(span);
        self.letters.iter_mut().find(|letter| letter.name == name).ok_or_else(unused)
    }

    /// The bounds of a statement, with the comparisons in which they are written.
    fn conditions(&mut self, statement: &Statement) -> Result<Vec<(Affine, ByteRange)>> {
        let mut conditions = Vec::new();
        for constraint in &statement.constraints {
            if constraint.range()?.is_some() {
                continue;
            }
            let (span, gap) = (&constraint.span, constraint.comparison.gap());
            let (less, greater) = constraint.sides();
            let (less, greater) = (self.linear(&less.linear()?), self.linear(&greater.linear()?));
            let difference = less.checked_times(-1).and_then(|less| greater.checked_plus(&less));
            let condition = difference.and_then(|difference| difference.checked_plus(&(-gap).into()));
            let condition = condition.ok_or_else(|| {
                let bound = on_one_line(self.text, span);
                TextErrorKind::Bound { bound, why: "exceeds 64 bits".to_owned() }.at(span)
            })?;
            conditions.push((condition, span.clone()));
        }
        Ok(conditions)
    }

    fn enter_value_letter(&mut self, name: &str, statement: &Statement) {
        let mut place = None;
        for value in statement.values() {
            value.each_name(&mut |found, span, _| {
                if found == name {
                    place.get_or_insert_with(|| span.clone());
                }
            });
        }
        if let Some(span) = place {
            enter_letter(name, &span, Vec::new(), &mut self.letters);
        }
    }

    fn letter(&self, name: &str) -> Option<usize> {
        self.letters.iter().position(|letter| letter.name == name)
    }

    fn index(&mut self, index: &Index) -> Result<Affine> {
        match index {
            Index::Linear(index) => Ok(self.linear(&index.linear()?)),
            Index::Concat(concat) => {
                let letter = self.letter(&concat_name(concat)).unwrap_or(usize::MAX);
                Ok(Affine::var(axis_iterator(letter)))
            }
            Index::Computed(_) => Ok(Affine::constant(0)),
            Index::Row(row) => Err(TextErrorKind::RowOutsideFunction.at(&row.span)),
        }
    }

    /// The computed index of an access. There is at most one.
    fn computed(&mut self, access: &Access) -> Result<Option<Box<ComputedIndex>>> {
        let is_computed = |index: &Index| matches!(index, Index::Computed(_));
        let found = access.indices.iter().filter(|index| is_computed(index)).count();
        if found > 1 {
            let access_text = on_one_line(self.text, &access.span);
            return Err(TextErrorKind::SeveralComputed { access: access_text, found }.at(&access.span));
        }
        let Some((axis, Index::Computed(value))) =
            access.indices.iter().enumerate().find(|(_, index)| is_computed(index))
        else {
            return Ok(None);
        };
        let value = self.tree(value)?;
        Ok(Some(Box::new(ComputedIndex { axis, value })))
    }

    fn linear(&mut self, linear: &Linear) -> Affine {
        linear.terms.iter().fold(Affine::constant(linear.offset), |sum, (atom, coefficient, _)| {
            let var = match atom {
                Atom::Letter(name) => Var::Loop(axis_iterator(self.letter(name).unwrap_or(usize::MAX))),
                Atom::Symbol(name) => Var::Symbol(self.symbols.enter(&StaticSymbol::open(name))),
            };
            sum.plus(&Affine::term(var, *coefficient))
        })
    }

    fn read(&mut self, access: &Access, how: AccessKind) -> Result<NodeAccess> {
        if let Some(view) = self.nodes.view(&access.name) {
            return self.read_view(view, access, how);
        }
        let node = self.nodes.find(&access.name).map_err(|kind| kind.at(&access.name_span))?;
        self.read_node(node, access, how)
    }

    /// A read of a view, in the view's dimensions.
    fn read_view(&mut self, view: &View, access: &Access, how: AccessKind) -> Result<NodeAccess> {
        if !matches!(how, AccessKind::Plain) {
            let name = access.name.clone();
            return Err(TextErrorKind::ViewUse { name }.at(&access.name_span));
        }
        let name = self.nodes.viewed(view)?;
        let node = self.nodes.find(name).map_err(|kind| kind.at(&view.of.name_span))?;
        if self.nodes.is_unwritten(name) {
            return Err(self.nodes.not_written(name).at(&access.name_span));
        }
        reject_rows(access)?;
        let (dims, sizes) = view_dims(view, &node, self.nodes.names())?;
        if dims.len() != access.indices.len() {
            let (node, found) = (access.name.clone(), access.indices.len());
            return Err(TextErrorKind::Rank { node, dims, found }.at(&access.span));
        }
        Ok(NodeAccess { view: Some(access.name.clone()), ..self.indexed(node, (dims, sizes), access, how)? })
    }

    fn read_node(&mut self, node: TensorNode, access: &Access, how: AccessKind) -> Result<NodeAccess> {
        let located = |kind: TextErrorKind| kind.at(&access.span);
        if access.merge && matches!(how, AccessKind::Lhs | AccessKind::Padded(..)) {
            let found = "a merge buffer, which can only be read as it is";
            return Err(expected("a node", found, &access.span));
        }
        reject_rows(access)?;
        if !matches!(how, AccessKind::Lhs) && self.nodes.is_unwritten(&access.name) {
            return Err(self.nodes.not_written(&access.name).at(&access.name_span));
        }
        let sizes = node.run_sizes().into();
        let (dims, is_open) = match node.dims_without_padding() {
            Ok(dims) => (dims, false),
            // The ranges of letters, which follow from the values, settle the dimensions of the target.
            Err(_) if matches!(how, AccessKind::Lhs) => (Dims::new(), true),
            Err(error) => return Err(located(error.into())),
        };
        if !is_open && dims.len() != access.indices.len() {
            let found = access.indices.len();
            return Err(located(TextErrorKind::Rank { node: node.name(), dims, found }));
        }
        self.indexed(node, (dims, sizes), access, how)
    }

    /// An access whose number of indices fits the dimensions.
    fn indexed(
        &mut self,
        node: TensorNode,
        (dims, sizes): (Dims, RunSizes),
        access: &Access,
        how: AccessKind,
    ) -> Result<NodeAccess> {
        for size in sizes.iter().flatten() {
            // A given node may have a size that the text does not declare.
            size.each_source(&mut |size| _ = self.symbols.enter(&StaticSymbol::size(size)));
        }
        let computed = self.computed(access)?;
        if computed.is_some() && matches!(how, AccessKind::Merge) {
            return Err(expected("a node", "a merge buffer, which has no computed indices", &access.span));
        }
        let index = |index: &Index| Ok((self.index(index)?, index.span().clone()));
        let index = access.indices.iter().map(index).collect::<Result<_>>()?;
        let span = access.span.clone();
        Ok(NodeAccess {
            node,
            dims,
            sizes: sizes.into_vec().into(),
            literals: None,
            how,
            view: None,
            index,
            computed,
            span,
        })
    }

    fn tree(&mut self, expr: &Expr) -> Result<ResolvedExpr> {
        let kind = match &expr.kind {
            ExprKind::Number(number) => ResolvedExprKind::Number(*number),
            ExprKind::Symbol(name) => {
                ResolvedExprKind::Index(Affine::var(self.symbols.enter(&StaticSymbol::open(name))))
            }
            ExprKind::Name(name) => self.name(name, &expr.span)?,
            ExprKind::Letter(name) => match self.letter(name) {
                Some(letter) => ResolvedExprKind::Index(Affine::var(axis_iterator(letter))),
                None => {
                    return Err(
                        TextErrorKind::OpenRange { letter: name.clone(), declaration: None }.at(&expr.span)
                    );
                }
            },
            // The sizes of axes have become numbers.
            ExprKind::AxisSize(_) => {
                return Err(TextErrorKind::NotAffine { found: "the size of an axis" }.at(&expr.span));
            }
            ExprKind::RowSize(row) => return Err(TextErrorKind::RowOutsideFunction.at(&row.span)),
            // Expansion replaces the calls of all functions that the text defines.
            ExprKind::Call(call) => {
                let name = call.function.clone();
                let kind = TextErrorKind::UnknownFunction { name, near: Vec::new(), instead: None };
                return Err(kind.at(&call.name_span));
            }
            ExprKind::Size(name) => match self.letter(name) {
                Some(letter) => ResolvedExprKind::Size(letter),
                None => return Err(TextErrorKind::NoLetter { name: name.clone() }.at(&expr.span)),
            },
            ExprKind::Access(access) => ResolvedExprKind::NodeAccess(
                self.read(access, if access.merge { AccessKind::Merge } else { AccessKind::Plain })?,
            ),
            ExprKind::Pad(access, outside, span) => {
                ResolvedExprKind::NodeAccess(self.read(access, AccessKind::Padded(*outside, span.clone()))?)
            }
            ExprKind::Unary(op, a) => ResolvedExprKind::Unary(*op, Box::new(self.tree(a)?)),
            ExprKind::Binary(op, a, b) => {
                ResolvedExprKind::Binary(*op, Box::new([self.tree(a)?, self.tree(b)?]))
            }
            ExprKind::Exchanged(op, a, b) => {
                let (a, b) = (self.tree(a)?, self.tree(b)?);
                ResolvedExprKind::Binary(*op, Box::new([b, a]))
            }
            ExprKind::Ternary(op, args) => {
                let [a, b, c] = args.as_ref();
                ResolvedExprKind::Ternary(*op, Box::new([self.tree(a)?, self.tree(b)?, self.tree(c)?]))
            }
            ExprKind::Cast(dtype, a) => ResolvedExprKind::Cast(*dtype, Box::new(self.tree(a)?)),
            ExprKind::Random(call) => self.random(call)?,
        };
        let tree = ResolvedExpr { kind, span: expr.span.clone() };
        Ok(match as_index(&tree) {
            Some(index) if !index.terms().is_empty() => {
                ResolvedExpr { kind: ResolvedExprKind::Index(index), ..tree }
            }
            _ => tree,
        })
    }

    /// A call that gives random numbers. Each letter in its arguments must occur elsewhere in the statement.
    fn random(&mut self, call: &RandomCall) -> Result<ResolvedExprKind> {
        let mut open = None;
        call.each_letter(&mut |name, span| {
            if self.letter(name).is_none() {
                open.get_or_insert((name, span));
            }
        });
        if let Some((name, span)) = open {
            return Err(TextErrorKind::OpenRange { letter: name.to_owned(), declaration: None }.at(span));
        }
        let (random, cell) = random::resolve(call, None, self.text, self.symbols)?;
        Ok(ResolvedExprKind::Random(random, cell.iter().map(|index| self.linear(index)).collect()))
    }

    /// A bare name: a letter, a node of rank 0, `inf` or `nan`.
    fn name(&mut self, name: &str, span: &ByteRange) -> Result<ResolvedExprKind> {
        if let Some(letter) = self.letter(name) {
            let is_number = |node: TensorNode| node.dims_without_padding().is_ok_and(|dims| dims.is_empty());
            // A failed search for a node collects similar names.
            return match self.nodes.has(name) && self.nodes.find(name).is_ok_and(is_number) {
                true => Err(TextErrorKind::NodeOrLetter { name: name.to_owned() }.at(span)),
                false => Ok(ResolvedExprKind::Index(Affine::var(axis_iterator(letter)))),
            };
        }
        match self.nodes.find(name) {
            Ok(node) => {
                let access = Access::whole(name, span);
                Ok(ResolvedExprKind::NodeAccess(self.read_node(node, &access, AccessKind::Plain)?))
            }
            Err(kind) => match (Number::named(name), kind) {
                (Some(number), _) => Ok(ResolvedExprKind::Number(number)),
                (None, TextErrorKind::UnknownNode { name, near }) => {
                    Err(TextErrorKind::UnknownName { name, near }.at(span))
                }
                (None, kind) => Err(kind.at(span)),
            },
        }
    }
}

/// Rejects the row variables of an access, which only functions have.
fn reject_rows(access: &Access) -> Result<()> {
    let row = access.indices.iter().find(|index| matches!(index, Index::Row(_)));
    row.map_or(Ok(()), |row| Err(TextErrorKind::RowOutsideFunction.at(row.span())))
}

/// The index form of a sum of integer multiples of letters and symbols; `None` for other expressions.
fn as_index(tree: &ResolvedExpr) -> Option<Affine> {
    let constant = |tree: &ResolvedExpr| match tree.kind {
        ResolvedExprKind::Number(Number { int: Some(int), .. }) => i64::try_from(int).ok(),
        _ => None,
    };
    match &tree.kind {
        ResolvedExprKind::Number(_) => constant(tree).map(Affine::constant),
        ResolvedExprKind::Index(index) => Some(index.clone()),
        ResolvedExprKind::Unary(UnaryOp::Neg, a) => as_index(a)?.checked_times(-1),
        ResolvedExprKind::Binary(op, args) => {
            let [a, b] = args.as_ref();
            match op {
                BinaryOp::Add => as_index(a)?.checked_plus(&as_index(b)?),
                BinaryOp::Sub => as_index(a)?.checked_plus(&as_index(b)?.checked_times(-1)?),
                BinaryOp::Mul => match (constant(a), constant(b)) {
                    (Some(factor), _) => as_index(b)?.checked_times(factor),
                    (_, Some(factor)) => as_index(a)?.checked_times(factor),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}
