//! Makes the statement of a step.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{DType, RunSize, Scalar, TensorNode};

use super::names::PrintedNames;
use super::numbers::{NOWHERE, NumberContext, cast_unless, constant, expr, is_number, number};
use super::site::{Site, enter_letter, inner_site};
use super::subexpressions::Subexpressions;
use crate::ast::{Access, Expr, ExprKind, Fetch, Index, KeyArgument, RandomCall, Statement};
use crate::constraint::{Comparison, Constraint};
use crate::linear::{Atom, AxisSize, FactorOp, IndexExpr, IndexExprKind};
use crate::number::Number;
use assignments::indexing::{AxisIndex, extent};
use assignments::{Accum, AccumOp, Assignments, FetchOp, KeyPart, Operand, Random, Rhs, SampleValues};
use lowered_ir::ir::{Affine, BinaryOp, LoopId, SymbolId, UnaryOp, Var};

/// Makes the statement of one step.
pub(super) struct StatementPrinter<'p, 'a> {
    program: &'a Assignments,
    names: &'p PrintedNames,
    subexpressions: &'p Subexpressions<'a>,
    /// The symbols whose ranges earlier statements state.
    ranged: &'p mut BTreeSet<SymbolId>,
    letters: BTreeMap<LoopId, String>,
    /// The axes that a letter indexes alone and that give it a range: their dimensions, and the sizes that a
    /// run gives.
    sizes: Vec<(LoopId, usize, Option<RunSize>)>,
    /// The iterators that occur.
    mentioned: BTreeSet<LoopId>,
    /// The symbols that occur and whose ranges no earlier statement states.
    symbols: BTreeSet<SymbolId>,
}

impl<'p, 'a> StatementPrinter<'p, 'a> {
    pub(super) fn new(
        program: &'a Assignments,
        names: &'p PrintedNames,
        subexpressions: &'p Subexpressions<'a>,
        ranged: &'p mut BTreeSet<SymbolId>,
    ) -> StatementPrinter<'p, 'a> {
        let (letters, sizes, mentioned, symbols) = Default::default();
        StatementPrinter { program, names, subexpressions, ranged, letters, sizes, mentioned, symbols }
    }

    /// The statement of an accumulation.
    pub(super) fn accum(mut self, accum: &'a Accum, init_neutral: bool) -> Statement {
        let site = Site { accum, values: BTreeMap::new() };
        self.name_letters(&site);
        let projections = &accum.projections;
        let mut target = self.whole(&accum.lhs);
        target.indices =
            self.indices(&site, &accum.lhs, projections.project_lhs(), Some(projections.lhs_dims()));
        let value = self.value(&site, accum.lhs.dtype());
        let iterators = projections.product_iterators();
        let unused = iterators.iter().filter(|iterator| !self.mentioned.contains(iterator));
        self.mention_unused(&unused.copied().collect::<Vec<_>>(), &mut target);
        let ends = self.ends(accum);
        self.statement(target, accum.op, init_neutral, Some(value), None, ends)
    }

    /// The statement of a fill.
    pub(super) fn fill(mut self, node: &TensorNode, op: &FetchOp) -> Statement {
        let fetch = match op {
            FetchOp::Constant(value) => {
                return self.constant(node, Scalar::from_f64(node.dtype(), *value));
            }
            FetchOp::EmbedSymbol(id) => {
                let kind = ExprKind::Symbol(self.symbol(*id));
                return self.assignment(node, expr(kind));
            }
            FetchOp::EmbedDim { of, axis } => {
                let size = AxisSize { node: self.names.node(of).to_owned(), family: Vec::new(), axis: *axis };
                return self.assignment(node, expr(ExprKind::AxisSize(size)));
            }
            FetchOp::ConstantBits(bits) => Fetch::Bits(*bits, NOWHERE),
            FetchOp::ConstantFill(values) => {
                let value = |&value: &f64| (number(Scalar::from_f64(DType::F64, value), true), NOWHERE);
                Fetch::Values(values.iter().map(value).collect())
            }
            FetchOp::RangeOverOffsets => Fetch::Offsets,
            FetchOp::EmbedSelfId => Fetch::SelfId,
            FetchOp::Slice { index, of } => Fetch::Slice { of: self.whole(of), symbol: self.symbol(*index) },
            FetchOp::Order { of, axis, is_descending } => {
                Fetch::Order { of: self.whole(of), axis: *axis, is_descending: *is_descending }
            }
            FetchOp::Random(random) => Fetch::Random(self.random(random, Vec::new())),
            FetchOp::SampleValues(SampleValues { distribution, scheme, of }) => {
                Fetch::SampleValues { distribution: *distribution, scheme: *scheme, of: self.whole(of) }
            }
        };
        let target = self.whole(node);
        self.statement(target, AccumOp::Assign, false, None, Some(fetch), Vec::new())
    }

    /// A node without indices.
    fn whole(&self, node: &TensorNode) -> Access {
        Access::whole(self.names.node(node), &NOWHERE)
    }

    /// The statement that assigns a constant to every element of a node.
    pub(super) fn constant(self, node: &TensorNode, value: Scalar) -> Statement {
        self.assignment(node, expr(ExprKind::Number(number(value, true))))
    }

    /// The statement that assigns a value without letters to every element of a node.
    fn assignment(self, node: &TensorNode, value: Expr) -> Statement {
        let mut target = self.whole(node);
        let mut used = BTreeSet::new();
        for _ in node.dims_without_padding().unwrap_or_default() {
            let letter = self.names.fresh_letter(&used);
            target.indices.push(Index::Linear(IndexExpr::letter(letter.clone(), NOWHERE)));
            used.insert(letter);
        }
        self.statement(target, AccumOp::Assign, false, Some(value), None, Vec::new())
    }

    /// The statement, with the ranges of its symbols.
    fn statement(
        self,
        target: Access,
        op: AccumOp,
        init: bool,
        value: Option<Expr>,
        fetch: Option<Fetch>,
        mut constraints: Vec<Constraint>,
    ) -> Statement {
        for id in self.symbols {
            let Some(symbol) = self.program.symbols.get(id.index()) else { continue };
            if let Some(range) = symbol.range.filter(|_| symbol.size.is_none()) {
                let left = IndexExpr::atom(Atom::Symbol(symbol.name.clone()), NOWHERE);
                constraints.push(less(left, IndexExpr::number(range, NOWHERE)));
            }
            self.ranged.insert(id);
        }
        let init = init && op != AccumOp::Assign;
        Statement { op, init, fetch, constraints, ..Statement::made(target, value, NOWHERE, &None) }
    }

    /// Gives every iterator a letter: the one that the source has as an index, if there is one.
    fn name_letters(&mut self, site: &Site<'a>) {
        let mut used = BTreeSet::new();
        let mut source = BTreeMap::new();
        self.source_letters(site, &mut source);
        for (iterator, letter) in source {
            if used.insert(letter.clone()) {
                self.letters.insert(iterator, letter);
            }
        }
        for &iterator in site.accum.projections.product_iterators() {
            if !self.letters.contains_key(&iterator) {
                let letter = self.names.fresh_letter(&used);
                used.insert(letter.clone());
                self.letters.insert(iterator, letter);
            }
        }
    }

    /// Enters the letters of the source, from indices that are an iterator alone. The source of an index that
    /// the text does not have is the whole access.
    fn source_letters(&self, site: &Site<'a>, into: &mut BTreeMap<LoopId, String>) {
        let (accum, origin) = (site.accum, &site.accum.origin);
        for (axis, index) in accum.projections.project_lhs().iter().enumerate() {
            let source = origin.target_index(axis).filter(|span| Some(span) != origin.target().as_ref());
            enter_letter(site, index, source, into);
        }
        for (at, indices) in accum.projections.project_rhs().iter().enumerate() {
            let operand = accum.operands().nth(at);
            match operand.and_then(Operand::node).and_then(|node| self.subexpressions.get(node)) {
                Some(inner) => self.source_letters(&inner_site(site, inner, indices), into),
                None => indices.iter().enumerate().for_each(|(axis, index)| {
                    let access = origin.operand(at);
                    let source = origin.operand_index(at, axis).filter(|span| Some(span) != access.as_ref());
                    enter_letter(site, index, source, into);
                }),
            }
        }
    }

    /// The indices of an access. An axis of size `dims` that a letter indexes alone gives it a range.
    fn indices(
        &mut self,
        site: &Site<'a>,
        node: &TensorNode,
        projection: &[AxisIndex],
        dims: Option<&[usize]>,
    ) -> Vec<Index> {
        let mut indices = Vec::new();
        for (axis, index) in projection.iter().enumerate() {
            if let Some(operand) = index.computed() {
                let context = NumberContext { others: None, wanted: DType::I32, as_integer: true };
                indices.push(Index::Computed(self.operand(site, operand, context)));
                continue;
            }
            let index = site.place(&index.affine());
            if let (Some(Var::Loop(iterator)), Some(&size)) =
                (index.as_var(), dims.and_then(|dims| dims.get(axis)))
            {
                self.sizes.push((iterator, size, node.run_size(axis).cloned()));
            }
            indices.push(Index::Linear(self.index(&index)));
        }
        indices
    }

    fn index(&mut self, index: &Affine) -> IndexExpr {
        let mut sum: Option<IndexExpr> = None;
        for (is_negative, term) in self.terms(index) {
            let kind = match sum.take() {
                None if is_negative => IndexExprKind::Negated(Box::new(term)),
                None => term.kind,
                Some(IndexExpr { kind: IndexExprKind::Sum(first, mut others), .. }) => {
                    others.push((is_negative, term));
                    IndexExprKind::Sum(first, others)
                }
                Some(first) => IndexExprKind::Sum(Box::new(first), vec![(is_negative, term)]),
            };
            sum = Some(IndexExpr { kind, span: NOWHERE });
        }
        sum.unwrap_or_else(|| IndexExpr::number(0, NOWHERE))
    }

    /// The terms of an index, each with whether it is subtracted; none for 0.
    fn terms(&mut self, index: &Affine) -> Vec<(bool, IndexExpr)> {
        let number =
            |number: u64| IndexExpr { kind: IndexExprKind::Number(i128::from(number)), span: NOWHERE };
        let mut terms = Vec::new();
        for &(var, coefficient) in index.terms() {
            let atom = IndexExpr::atom(self.atom(var), NOWHERE);
            let term = match coefficient.unsigned_abs() {
                1 => atom,
                factor => IndexExpr {
                    kind: IndexExprKind::Product(
                        Box::new(number(factor)),
                        vec![(FactorOp::Times, NOWHERE, atom)],
                    ),
                    span: NOWHERE,
                },
            };
            terms.push((coefficient < 0, term));
        }
        if index.offset() != 0 {
            terms.push((index.offset() < 0, number(index.offset().unsigned_abs())));
        }
        // A sum begins with a term that is added, if there is one.
        if let Some(first) = terms.iter().position(|(is_negative, _)| !is_negative) {
            terms[..=first].rotate_right(1);
        }
        terms
    }

    fn atom(&mut self, var: Var) -> Atom {
        match var {
            Var::Loop(iterator) => {
                self.mentioned.insert(iterator);
                Atom::Letter(self.letters.get(&iterator).cloned().unwrap_or_else(|| iterator.to_string()))
            }
            Var::Symbol(id) => Atom::Symbol(self.symbol(id)),
        }
    }

    /// The name of a symbol, which is recorded.
    fn symbol(&mut self, id: SymbolId) -> String {
        if !self.ranged.contains(&id) {
            self.symbols.insert(id);
        }
        self.program.symbols.get(id.index()).map_or_else(String::new, |symbol| symbol.name.clone())
    }

    /// The value of an accumulation. Numbers alone take the type `wanted`.
    fn value(&mut self, site: &Site<'a>, wanted: DType) -> Expr {
        let rhs = &site.accum.rhs;
        let common = rhs.operation_dtype();
        let is_comparison = matches!(rhs, Rhs::Binary(op, _) if op.is_comparison());
        let others = |at: usize| {
            let operands = rhs.operands().iter().enumerate();
            let others = operands.filter(|(other, operand)| *other != at && !is_number(operand));
            others.map(|(_, operand)| operand.dtype()).reduce(DType::promote)
        };
        let mut operand = |at: usize| {
            let is_condition = at == 0 && matches!(rhs, Rhs::Ternary(op, _) if op.token() == "where");
            let (others, wanted) = match rhs {
                Rhs::Copy(_) => (None, wanted),
                _ if is_condition => (None, DType::Bool),
                _ if is_comparison => (others(at), if common.is_float() { DType::F32 } else { DType::I32 }),
                _ => (others(at), common),
            };
            let context = NumberContext { others, wanted, as_integer: !is_comparison };
            self.operand(site, at, context)
        };
        match rhs {
            Rhs::Copy(_) => operand(0),
            Rhs::Unary(op, _) => expr(ExprKind::Unary(*op, Box::new(operand(0)))),
            Rhs::Binary(op, _) => {
                let (a, b) = (operand(0), operand(1));
                expr(ExprKind::Binary(*op, Box::new(a), Box::new(b)))
            }
            Rhs::Ternary(op, _) => {
                let (a, b, c) = (operand(0), operand(1), operand(2));
                expr(ExprKind::Ternary(*op, Box::new([a, b, c])))
            }
        }
    }

    fn operand(&mut self, site: &Site<'a>, at: usize, context: NumberContext) -> Expr {
        let Some(operand) = site.accum.operands().nth(at) else { return expr(ExprKind::Name(String::new())) };
        let dims = site.accum.projections.rhs_dims().get(at);
        match operand {
            Operand::Node(node) => match self.subexpressions.get(node) {
                Some(inner) => self.subexpression(&inner_site(site, inner, site.indices(at))),
                None => {
                    let mut read = self.whole(node);
                    read.indices = self.indices(site, node, site.indices(at), dims.map(|dims| &**dims));
                    expr(self.read(read))
                }
            },
            Operand::MergeBuffer(node) => {
                let mut read = Access { merge: true, ..self.whole(node) };
                read.indices = self.indices(site, node, site.indices(at), dims.map(|dims| &**dims));
                expr(ExprKind::Access(Box::new(read)))
            }
            Operand::Padded { node, outside } => {
                let mut read = self.whole(node);
                read.indices = self.indices(site, node, site.indices(at), None);
                expr(ExprKind::Pad(Box::new(read), number(*outside, true), NOWHERE))
            }
            Operand::Constant(value) => constant(*value, context),
            Operand::Index(dtype) => {
                let index = site.indices(at).first().map(AxisIndex::affine).unwrap_or_default();
                let value = self.index_value(&site.place(&index));
                let is_wide = context.others.unwrap_or(context.wanted) == DType::I64;
                cast_unless(is_wide == (*dtype == DType::I64), *dtype, value)
            }
            Operand::Random { random, dtype } => {
                let cell: Vec<Affine> =
                    site.indices(at).iter().map(|index| site.place(&index.affine())).collect();
                let call = self.random(random, cell);
                let fits = *dtype == DType::U32 || context.others.unwrap_or(context.wanted) == *dtype;
                cast_unless(fits, *dtype, expr(ExprKind::Random(Box::new(call))))
            }
        }
    }

    /// The value of a subexpression, converted to the type of its node.
    fn subexpression(&mut self, site: &Site<'a>) -> Expr {
        let (accum, dtype) = (site.accum, site.accum.lhs.dtype());
        let value = self.value(site, dtype);
        let is_copy = matches!(accum.rhs, Rhs::Copy(_));
        cast_unless(!is_copy && accum.rhs.dtype() == dtype, dtype, value)
    }

    /// An access to a node. A node of rank 0 is a bare name, unless a letter has it.
    fn read(&self, read: Access) -> ExprKind {
        let is_letter = || self.letters.values().any(|letter| *letter == read.name);
        match read.indices.is_empty() && !is_letter() {
            true => ExprKind::Name(read.name),
            false => ExprKind::Access(Box::new(read)),
        }
    }

    /// An index as a value.
    fn index_value(&mut self, index: &Affine) -> Expr {
        let number = |number: i64| expr(ExprKind::Number(Number::integer(number)));
        let mut sum: Option<Expr> = None;
        for &(var, coefficient) in index.terms() {
            let value = match self.atom(var) {
                Atom::Letter(name) => expr(ExprKind::Letter(name)),
                Atom::Symbol(name) => expr(ExprKind::Symbol(name)),
            };
            let times = |factor, value| binary(BinaryOp::Mul, number(factor), value);
            sum = Some(match (sum, coefficient) {
                (None, 1) => value,
                (None, -1) => expr(ExprKind::Unary(UnaryOp::Neg, Box::new(value))),
                (None, factor) => times(factor, value),
                (Some(sum), 1) => binary(BinaryOp::Add, sum, value),
                (Some(sum), -1) => binary(BinaryOp::Sub, sum, value),
                (Some(sum), factor) => binary(BinaryOp::Add, sum, times(factor, value)),
            });
        }
        match (sum, index.offset()) {
            (None, offset) => number(offset),
            (Some(sum), 0) => sum,
            (Some(sum), offset @ ..0) => binary(BinaryOp::Sub, sum, number(offset.saturating_neg())),
            (Some(sum), offset) => binary(BinaryOp::Add, sum, number(offset)),
        }
    }

    fn random(&mut self, random: &Random, cell: Vec<Affine>) -> RandomCall {
        let number =
            |number: u64| IndexExpr { kind: IndexExprKind::Number(i128::from(number)), span: NOWHERE };
        let mut parts = Vec::new();
        for part in &random.key {
            parts.push(KeyArgument::Index(match part {
                KeyPart::Number(part) => number(*part),
                KeyPart::Symbol(id) => IndexExpr::atom(Atom::Symbol(self.symbol(*id)), NOWHERE),
            }));
        }
        for index in &cell {
            parts.push(KeyArgument::Index(self.index(index)));
        }
        let (distribution, scheme) = (random.distribution, random.scheme);
        RandomCall { distribution, scheme, seed: number(random.seed), parts }
    }

    /// Mentions iterators that occur nowhere, times 0, so that they are iterated.
    fn mention_unused(&mut self, unused: &[LoopId], target: &mut Access) {
        for &iterator in unused {
            let letter = IndexExpr::atom(self.atom(Var::Loop(iterator)), NOWHERE);
            let zero = Box::new(IndexExpr::number(0, NOWHERE));
            let kind = IndexExprKind::Product(zero, vec![(FactorOp::Times, NOWHERE, letter)]);
            let term = (false, IndexExpr { kind, span: NOWHERE });
            if let Some(Index::Linear(index)) = target.indices.last_mut() {
                index.kind = match std::mem::replace(&mut index.kind, IndexExprKind::Number(0)) {
                    IndexExprKind::Sum(first, others) => {
                        IndexExprKind::Sum(first, others.into_iter().chain([term]).collect())
                    }
                    kind => IndexExprKind::Sum(Box::new(IndexExpr { kind, span: NOWHERE }), vec![term]),
                };
            }
        }
    }

    /// The ranges of letters that no axis gives, and the ends of loops.
    fn ends(&mut self, accum: &Accum) -> Vec<Constraint> {
        let projections = &accum.projections;
        let mut ends = Vec::new();
        for (at, &iterator) in projections.product_iterators().iter().enumerate() {
            let size = projections.product_space()[at];
            let (fixed, clips): (Vec<&Affine>, Vec<&Affine>) =
                projections.clips()[at].iter().partition(|clip| clip.as_constant().is_some());
            let fixed = fixed.into_iter().filter_map(Affine::as_constant).min();
            let range = fixed.map_or(extent(size), |fixed| fixed.min(extent(size)));
            let mut axes = self.sizes.iter().filter(|(letter, ..)| *letter == iterator).peekable();
            let first = axes.peek().and_then(|(.., size)| size.clone());
            let sizes = self.sizes.iter().filter(|(letter, ..)| *letter == iterator).map(|(.., size)| size);
            let of_arrays = sizes.clone().flatten().next().cloned();
            let own =
                projections.run_sizes().find(|(sized, _)| *sized == iterator).map(|(_, size)| size.clone());
            let is_said = sizes.clone().next().is_some() && sizes.clone().all(|s| *s == first);
            let size = of_arrays.clone().or(own).filter(|_| !(is_said && of_arrays.is_some()));
            if let Some(size) = size {
                let letter = IndexExpr::atom(self.atom(Var::Loop(iterator)), NOWHERE);
                ends.push(less(letter, IndexExpr::letter(size.name(), NOWHERE)));
            } else if axes.peek().is_none() || axes.any(|(_, axis, _)| extent(*axis) != range) {
                let letter = IndexExpr::atom(self.atom(Var::Loop(iterator)), NOWHERE);
                ends.push(less(letter, IndexExpr::number(range, NOWHERE)));
            }
            for clip in clips {
                let letter = IndexExpr::atom(self.atom(Var::Loop(iterator)), NOWHERE);
                let end = self.index(clip);
                ends.push(less(letter, end));
            }
        }
        ends
    }
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    expr(ExprKind::Binary(op, Box::new(a), Box::new(b)))
}

fn less(left: IndexExpr, right: IndexExpr) -> Constraint {
    Constraint { left, comparison: Comparison::Less, right, span: NOWHERE }
}
