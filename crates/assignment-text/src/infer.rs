//! Infers the dimensions and element types of intermediates, and the types of declared nodes without one.
//!
//! A name on a left-hand side that no given node has is an *intermediate*. Its first statement must write it
//! without reading earlier values, and gives it its dimensions: the range of the letter on an axis that a
//! letter indexes alone, one more than the greatest index on any other axis. A declared node whose dimensions
//! are open takes them in the same way.
//!
//! Element types follow from values, bottom-up: a node that is written before it is read gets the type to
//! which the first written value promotes; truth values that are accumulated become `i32`. A value of numbers
//! only leaves the type open. The first statement that combines the node with typed values, or writes one to
//! it, then gives it the type that a number would have in its place; if there is none, the type is the node's
//! default, `f32` for intermediates. A later value that does not promote to the inferred type is an error.
//!
//! All statements are analysed before assignments are made of any, since a later statement may give a type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tnode::{DType, DelayedDType, Dims, TensorNode};

use crate::ast::{Access, Declaration, ExpandedStep, Fetch, Frame, Role, Statement};
use crate::error::{LocatedError, TextErrorKind};
use crate::names::{NodeNames, written};
use crate::ranges::{self, declaration};
use crate::resolve::{self, NodeAccess, ResolvedExpr, ResolvedExprKind, ResolvedStatement};
use crate::types::{ExprType, accumulated_type, either_type, operand_type, type_of};
use crate::{axis_sizes, computing, gradient, views};
use assignments::ByteRange;
use assignments::{AccumOp, Assignments, ProgramStep, Warning, WarningKind};
use lowered_ir::ir::{Affine, TernaryOp, Var};
use lowered_ir::random::Distribution;
use lowered_ir::{SourceSpan, SourceText};

/// The analysis of a text, statement by statement.
pub(crate) struct Inference<'a> {
    text: &'a SourceText,
    names: NodeNames,
    /// The intermediates in the order of their first statements.
    first_writes: Vec<FirstWrite>,
    /// The nodes that a statement reads which does not write them.
    read: BTreeSet<TensorNode>,
    /// The nodes with an inferred type, each with the byte position of the statement that gave it.
    typed: BTreeMap<TensorNode, usize>,
    /// The nodes that a statement has written.
    written: BTreeSet<TensorNode>,
    /// For a node of numbers whose type is open, the nodes of numbers that its values are made of. They get
    /// the type with it.
    made_of: BTreeMap<TensorNode, Vec<TensorNode>>,
}

/// The first statement that writes an intermediate.
struct FirstWrite {
    node: TensorNode,
    /// The name, as errors show it.
    name: String,
    /// The byte range of the node's name, or of the parameter of a gradient.
    name_span: ByteRange,
    /// The call or repetition that the statement belongs to.
    frame: Option<Arc<Frame>>,
}

/// An analysed statement over letters, a statement that fills a node, a gradient, or a detached node.
pub(crate) enum Analysed {
    /// A statement with the range of each letter.
    Ranged(ResolvedStatement, Vec<i64>),
    Fill,
    Gradient(ProgramStep),
    Detach(TensorNode),
}

impl<'a> Inference<'a> {
    pub(crate) fn new(text: &'a SourceText, names: NodeNames) -> Inference<'a> {
        let (first_writes, read, typed, written, made_of) = Default::default();
        Inference { text, names, first_writes, read, typed, written, made_of }
    }

    pub(crate) fn names(&self) -> &NodeNames {
        &self.names
    }

    /// Analyses a statement, a gradient or a detached node.
    pub(crate) fn step(
        &mut self,
        step: &mut ExpandedStep,
        assignments: &mut Assignments,
    ) -> Result<Analysed, LocatedError> {
        match step {
            ExpandedStep::Statement(statement) => {
                axis_sizes::replace(statement, &self.names)?;
                self.statement(statement, assignments)
            }
            ExpandedStep::Gradient(gradient) => {
                gradient::analyse(gradient, self, self.text).map(Analysed::Gradient)
            }
            ExpandedStep::Detach(detach) => {
                gradient::with_values(&detach.node.name, &detach.node, self.names()).map(Analysed::Detach)
            }
        }
    }

    /// Resolves a statement, and infers the dimensions of its targets and the types that it determines.
    fn statement(
        &mut self,
        statement: &Statement,
        assignments: &mut Assignments,
    ) -> Result<Analysed, LocatedError> {
        if let (Some(fetch), Some(target)) = (&statement.fetch, statement.lhs.first()) {
            resolve::reject_letters(statement)?;
            self.check_target(target, statement)?;
            self.fill(fetch, target, statement)?;
            self.mark_writes(statement);
            return Ok(Analysed::Fill);
        }
        for target in statement.lhs.iter().filter(|target| !target.merge) {
            self.introduce(target)?;
            self.check_target(target, statement)?;
        }
        let mut resolved = resolve::resolve(statement, self.text, &self.names, assignments)?;
        let ranges = ranges::letter_ranges(&resolved, assignments, self.text)?;
        settle_dims(&mut resolved, &ranges, assignments)?;
        ranges::check_bounds(&resolved, &ranges, assignments, self.text)
            .map_err(|error| self.with_first_write(error))?;
        let ranges = views::replace(&mut resolved, ranges, assignments)?;
        computing::convert(&mut resolved, &self.names);
        self.types(&resolved)?;
        self.mark_reads(&resolved);
        self.mark_writes(statement);
        Ok(Analysed::Ranged(resolved, ranges))
    }

    /// Settles all types that are still open to the defaults of the nodes.
    pub(crate) fn settle_types(&mut self) {
        for node in self.names.open_nodes() {
            node.dtype();
        }
    }

    /// Rejects intermediates that no statement reads and that are not among the nodes `kept`.
    pub(crate) fn check_used(&self, kept: &BTreeSet<TensorNode>) -> Result<(), LocatedError> {
        let is_unused = |node: &TensorNode| !self.read.contains(node) && !kept.contains(node);
        let unused = self.first_writes.iter().find(|first| is_unused(&first.node));
        unused.map_or(Ok(()), |FirstWrite { name, name_span, frame, .. }| {
            let (name, near) = (name.clone(), self.names.similar_to(name));
            Err(TextErrorKind::Unused { name, near }.at(name_span.clone()).within(frame))
        })
    }

    /// Warnings about declared inputs that nothing reads.
    pub(crate) fn unused_inputs(
        &self,
        declarations: &[Declaration],
        kept: &BTreeSet<TensorNode>,
        text: &SourceText,
    ) -> Vec<Warning> {
        let unused = declarations.iter().filter(|declaration| {
            let node = self.names.find(&declaration.target.name);
            declaration.role == Role::Input
                && node.is_ok_and(|node| !self.read.contains(&node) && !kept.contains(&node))
        });
        let warning = |declaration: &Declaration| {
            let kind = WarningKind::UnusedInput { name: declaration.target.name.clone() };
            Warning::new(kind, Some(SourceSpan::new(text.clone(), declaration.span.clone())))
        };
        unused.map(warning).collect()
    }

    /// Makes the node of a target that nothing declares and no earlier statement writes.
    fn introduce(&mut self, target: &Access) -> Result<(), LocatedError> {
        if self.names.has(&target.name) {
            return Ok(());
        }
        let node = TensorNode::builder(self.names.label(&target.name)).dims_later().build();
        let node = node.map_err(|error| TextErrorKind::from(error).at(target.span.clone()))?;
        self.add_intermediate(&target.name, node);
        Ok(())
    }

    /// Adds a node that nothing declares. It has no values yet.
    pub(crate) fn add_intermediate(&mut self, name: &str, node: TensorNode) {
        self.names.add_intermediate(name, node);
    }

    /// Rejects a target that the program must not write, or whose earlier values it lacks.
    fn check_target(&self, target: &Access, statement: &Statement) -> Result<(), LocatedError> {
        let name = target.name.clone();
        match self.names.role(&name) {
            Some(role @ (Role::Input | Role::Const)) => {
                let role = role.token();
                return Err(TextErrorKind::ReadOnly { name, role }.at(target.name_span.clone()));
            }
            Some(Role::Param | Role::Node) | None => {}
        }
        if self.names.is_unwritten(&name) && statement.op != AccumOp::Assign && !statement.init {
            let op = statement.op;
            return Err(TextErrorKind::NoEarlierValues { name, op }.at(statement.op_span.clone()));
        }
        Ok(())
    }

    fn mark_writes(&mut self, statement: &Statement) {
        for target in &statement.lhs {
            let shown = self.source(&target.name_span);
            self.mark_written(&target.name, &shown, &target.name_span, &statement.frame);
        }
    }

    /// Records that a step writes the node of that name, which errors show as `shown`.
    pub(crate) fn mark_written(
        &mut self,
        name: &str,
        shown: &str,
        name_span: &ByteRange,
        frame: &Option<Arc<Frame>>,
    ) {
        let is_first = self.names.set_written(name);
        let Ok(node) = self.names.find(name) else { return };
        self.written.insert(node.clone());
        if is_first {
            let (name, name_span, frame) = (shown.to_owned(), name_span.clone(), frame.clone());
            self.first_writes.push(FirstWrite { node, name, name_span, frame });
        }
    }

    /// Whether a step so far writes the node.
    pub(crate) fn is_written(&self, node: &TensorNode) -> bool {
        self.written.contains(node)
    }

    /// Records that a step reads the node.
    pub(crate) fn mark_read(&mut self, node: &TensorNode) {
        self.read.insert(node.clone());
    }

    /// Infers the target of a statement that fills a whole node. Only slices and sorted positions give
    /// dimensions.
    fn fill(&mut self, fetch: &Fetch, target: &Access, statement: &Statement) -> Result<(), LocatedError> {
        let source = match fetch {
            Fetch::Slice { of, of_span, .. }
            | Fetch::Order { of, of_span, .. }
            | Fetch::SampleValues { of, of_span, .. } => {
                let node = self.names.find(of).map_err(|kind| kind.at(of_span.clone()))?;
                self.read.insert(node.clone());
                Some(node)
            }
            _ => None,
        };
        let dtype = source.as_ref().map(TensorNode::dtype);
        if !self.names.has(&target.name) {
            let dims = match (fetch, &source) {
                (Fetch::Slice { .. }, Some(of)) => {
                    of.dims_without_padding().ok().map(|dims| dims[1..].into())
                }
                (Fetch::Order { .. }, Some(of)) => of.dims_without_padding().ok(),
                _ => None,
            };
            let Some(dims) = dims else {
                let [example, number] =
                    [&[None][..], &[]].map(|dims| declaration(&target.name, DType::F32, dims));
                let node = target.name.clone();
                return Err(TextErrorKind::OpenDims { node, example, number }.at(target.span.clone()));
            };
            let node = TensorNode::builder(self.names.label(&target.name)).dims(dims).build();
            let node = node.map_err(|error| TextErrorKind::from(error).at(target.span.clone()))?;
            self.names.add_intermediate(&target.name, node);
        }
        let node = self.names.find(&target.name).map_err(|kind| kind.at(target.name_span.clone()))?;
        let value = match fetch {
            Fetch::Offsets | Fetch::SelfId => ExprType::Integer,
            Fetch::Values(numbers) => match numbers.iter().all(|(number, _)| number.int.is_some()) {
                true => ExprType::Integer,
                false => ExprType::Fraction,
            },
            Fetch::Random(call) if call.distribution != Distribution::Bits => ExprType::Fraction,
            Fetch::SampleValues { .. } => ExprType::Fraction,
            Fetch::Order { .. } => ExprType::Known(DType::I32),
            Fetch::Slice { .. } => ExprType::Known(dtype.unwrap_or(DType::F32)),
            // The bits mean nothing without a type.
            Fetch::Bits(..) | Fetch::Random(_) => ExprType::Known(node.dtype()),
        };
        if has_open_type(&node) {
            self.type_target(&node, value, statement.span.start);
        }
        Ok(())
    }

    /// Infers the types of the targets, and of the nodes of numbers that the statement reads.
    fn types(&mut self, statement: &ResolvedStatement) -> Result<(), LocatedError> {
        // The earlier values of a node that is read come from elsewhere, so the statements do not give its
        // type.
        statement.each_source(&mut |read| {
            if read.literals.is_none() {
                read.node.dtype();
            }
        });
        let starts = statement.init || statement.op == AccumOp::Assign;
        for target in &statement.lhs {
            if !starts && target.literals.is_none() {
                target.node.dtype();
            }
        }
        let open = |target: &&NodeAccess| has_open_type(&target.node);
        let settled = statement.lhs.iter().find(|target| !open(target)).map(|target| target.node.dtype());
        let mut contexts = Vec::new();
        for value in &statement.rhs {
            let wanted = settled.unwrap_or_else(|| type_of(value).or(DType::F32));
            literal_contexts(value, wanted, wanted, &mut contexts);
        }
        for computed in statement.lhs.iter().filter_map(|target| target.computed.as_ref()) {
            literal_contexts(&computed.value, DType::I32, DType::I32, &mut contexts);
        }
        let is_fraction = |value: &ResolvedExpr| type_of(value) == ExprType::Fraction;
        let stays_open = settled.is_none() && statement.rhs.iter().all(is_fraction);
        for (node, dtype) in contexts {
            match statement.lhs.first() {
                Some(target) if stays_open && self.names.literals(&node) == Some(ExprType::Fraction) => {
                    self.made_of.entry(target.node.clone()).or_default().push(node);
                }
                _ => self.settle(&node, dtype, statement.span.start),
            }
        }
        let value = statement.rhs.iter().map(|value| accumulated_type(statement.op, type_of(value)));
        let Some(value) = value.reduce(either_type) else { return Ok(()) };
        let value = if computing::is_open(statement, value) { ExprType::Fraction } else { value };
        for target in &statement.lhs {
            match has_open_type(&target.node) {
                true => self.type_target(&target.node, value, statement.span.start),
                false => self.check_type(&target.node, value, statement)?,
            }
        }
        Ok(())
    }

    /// Records the type of a value that a statement writes to a node whose type is open.
    fn type_target(&mut self, node: &TensorNode, value: ExprType, statement_start: usize) {
        match value {
            ExprType::Known(_) | ExprType::Widened => {
                self.settle(node, value.or(DType::F32), statement_start);
            }
            ExprType::Integer | ExprType::Fraction => {
                let earlier = self.names.literals(node).unwrap_or(value);
                self.names.set_literals(node, Some(either_type(earlier, value)));
            }
        }
    }

    /// Gives a node of numbers only, whose type is open, that type.
    pub(crate) fn settle_numbers(&mut self, node: &TensorNode, dtype: DType, at: usize) {
        if self.names.literals(node).is_some() {
            self.settle(node, dtype, at);
        }
    }

    /// Gives a node that type, unless it has one.
    pub(crate) fn settle_open(&mut self, node: &TensorNode, dtype: DType, at: usize) {
        if has_open_type(node) {
            self.settle(node, dtype, at);
        }
    }

    fn settle(&mut self, node: &TensorNode, dtype: DType, statement_start: usize) {
        self.names.set_literals(node, None);
        // The type may be settled by another thread meanwhile, which is then the node's type.
        if node.infer_dtype(move || dtype).is_ok() && node.dtype() == dtype {
            self.typed.insert(node.clone(), statement_start);
        }
        for part in self.made_of.remove(node).unwrap_or_default() {
            if has_open_type(&part) {
                self.settle(&part, ExprType::Fraction.or(dtype), statement_start);
            }
        }
    }

    /// Rejects a value that does not promote to the type which an earlier statement gave its target.
    fn check_type(
        &self,
        node: &TensorNode,
        value: ExprType,
        statement: &ResolvedStatement,
    ) -> Result<(), LocatedError> {
        let (Some(&typed_at), present) = (self.typed.get(node), node.dtype()) else { return Ok(()) };
        let found = match value {
            ExprType::Known(found) => found,
            ExprType::Widened if !present.is_float() => DType::F32,
            _ => return Ok(()),
        };
        if present.promote(found) == present {
            return Ok(());
        }
        let name = node.name();
        let dims = node.dims_without_padding().unwrap_or_default();
        let example = declaration(&written(node), present.promote(found), &known(&dims));
        let line = self.line(typed_at);
        let span = statement.rhs.first().map_or(statement.span.clone(), |value| value.span.clone());
        Err(TextErrorKind::TypeConflict { node: name, present, line, found, example }.at(span))
    }

    /// Adds to an error about an index where the dimensions of an intermediate come from.
    fn with_first_write(&self, error: LocatedError) -> LocatedError {
        error.map(|kind| match kind {
            TextErrorKind::OutOfBounds { index, lo, hi, node, axis, size, padded, .. } => {
                let first = self.first_writes.iter().find(|first| first.node.name() == node);
                let inferred = first.and_then(|first| {
                    let sizes = grown(&first.node.dims_without_padding().ok()?, axis, hi)?;
                    Some((
                        self.line(first.name_span.start),
                        declaration(&written(&first.node), DType::F32, &sizes),
                    ))
                });
                TextErrorKind::OutOfBounds {
                    index,
                    lo,
                    hi,
                    node,
                    axis,
                    size,
                    padded,
                    inferred: inferred.map(Box::new),
                }
            }
            kind => kind,
        })
    }

    fn mark_reads(&mut self, statement: &ResolvedStatement) {
        let targets: Vec<&TensorNode> = statement.lhs.iter().map(|target| &target.node).collect();
        let mut read = Vec::new();
        statement.each_source(&mut |access| {
            if !targets.contains(&&access.node) {
                read.push(access.node.clone());
            }
        });
        self.read.extend(read);
    }

    /// The number of the line of a byte position, from 1.
    fn line(&self, at: usize) -> usize {
        SourceSpan::new(self.text.clone(), at..at).line()
    }

    fn source(&self, span: &ByteRange) -> String {
        self.text.get(span.clone()).unwrap_or_default().to_owned()
    }
}

/// Whether the type of a node is open, and neither specified nor inferred by a front end.
pub(crate) fn has_open_type(node: &TensorNode) -> bool {
    !node.is_dtype_settled() && matches!(node.delayed_dtype(), DelayedDType::Default(_))
}

/// The nodes of numbers in an expression, each with the type of its place. `wanted` is the type of the
/// expression's place and `written` that of the node written.
fn literal_contexts(tree: &ResolvedExpr, wanted: DType, written: DType, into: &mut Vec<(TensorNode, DType)>) {
    let children = match &tree.kind {
        ResolvedExprKind::NodeAccess(read) => {
            if let Some(literals) = read.literals {
                into.push((read.node.clone(), literals.or(wanted)));
            }
            if let Some(computed) = &read.computed {
                literal_contexts(&computed.value, DType::I32, DType::I32, into);
            }
            return;
        }
        ResolvedExprKind::Cast(to, a) => return literal_contexts(a, *to, *to, into),
        ResolvedExprKind::Ternary(TernaryOp::Where, args) => {
            literal_contexts(&args[0], DType::Bool, written, into);
            &args[1..]
        }
        _ => tree.children(),
    };
    let common = operand_type(tree, wanted, written);
    children.iter().for_each(|child| literal_contexts(child, common, written, into));
}

/// Settles the open dimensions of the targets.
fn settle_dims(
    statement: &mut ResolvedStatement,
    ranges: &[i64],
    assignments: &Assignments,
) -> Result<(), LocatedError> {
    let is_open = |target: &&NodeAccess| target.node.dims_without_padding().is_err();
    let mut sizes: BTreeMap<TensorNode, Dims> = BTreeMap::new();
    for target in statement.lhs.iter().filter(is_open) {
        let found = target_sizes(target, ranges, assignments)?;
        let sizes = sizes.entry(target.node.clone()).or_insert_with(|| found.clone());
        sizes.iter_mut().zip(found).for_each(|(size, found)| *size = found.max(*size));
    }
    for target in &mut statement.lhs {
        let Some(dims) = sizes.get(&target.node) else { continue };
        let located = |kind: TextErrorKind| kind.at(target.span.clone());
        target.node.set_dims(dims.iter().copied()).map_err(|error| located(error.into()))?;
        if dims.len() != target.index.len() {
            let (node, found) = (target.node.name(), target.index.len());
            return Err(located(TextErrorKind::Rank { node, dims: dims.clone(), found }));
        }
        target.dims = dims.clone();
    }
    Ok(())
}

/// The sizes that the indices of a target ask for: one more than the greatest index on each axis.
fn target_sizes(
    target: &NodeAccess,
    ranges: &[i64],
    assignments: &Assignments,
) -> Result<Dims, LocatedError> {
    let size = |axis: usize| axis_size(target, axis, ranges, assignments);
    let sizes: Vec<Result<usize, String>> = (0..target.index.len()).map(size).collect();
    if let Some((axis, why)) =
        sizes.iter().enumerate().find_map(|(axis, size)| Some((axis, size.as_ref().err()?)))
    {
        let node = target.node.name();
        let known: Vec<Option<usize>> = sizes.iter().map(|size| size.as_ref().ok().copied()).collect();
        let example = declaration(&written(&target.node), DType::F32, &known);
        let why = why.clone();
        return Err(TextErrorKind::OpenAxis { node, axis, why, example }.at(target.index[axis].1.clone()));
    }
    Ok(sizes.into_iter().flatten().collect())
}

/// One more than the greatest index on an axis of a target, or the reason why it is not known.
fn axis_size(
    target: &NodeAccess,
    axis: usize,
    ranges: &[i64],
    assignments: &Assignments,
) -> Result<usize, String> {
    if target.is_computed(axis) {
        return Err("its index is computed".to_owned());
    }
    let index: &Affine = &target.index[axis].0;
    let symbol = |var: Var| match var {
        Var::Symbol(id) => Some(&assignments.symbols[id.index()]),
        Var::Loop(_) => None,
    };
    let mut symbols = index.terms().iter().filter_map(|(var, _)| symbol(*var));
    if let Some(open) = symbols.find(|symbol| symbol.range.is_none()) {
        return Err(format!("`@{0}` lacks a range such as `where @{0} < 8`", open.name));
    }
    let range = |var: Var| match var {
        Var::Loop(id) => ranges[id.index()],
        Var::Symbol(id) => assignments.symbols[id.index()].range.unwrap_or(1),
    };
    if index.terms().iter().any(|(var, _)| range(*var) == 0) {
        return Ok(0);
    }
    let greatest = index.bounds(|var| (0, range(var) - 1)).map_or(i64::MAX, |(_, greatest)| greatest);
    usize::try_from(i128::from(greatest) + 1).map_err(|_| "its index is negative".to_owned())
}

fn known(dims: &Dims) -> Vec<Option<usize>> {
    dims.iter().copied().map(Some).collect()
}

/// The dimensions with the size that index `hi` asks for on one axis; `None` for a negative index.
fn grown(dims: &Dims, axis: usize, hi: i64) -> Option<Vec<Option<usize>>> {
    let needed = usize::try_from(hi).ok()?.checked_add(1)?;
    let mut sizes = known(dims);
    let size = sizes.get_mut(axis)?;
    *size = Some(needed.max((*size)?));
    Some(sizes)
}
