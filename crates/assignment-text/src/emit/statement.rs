//! Turns resolved statements into assignments.
//!
//! A statement with concatenated axes becomes one accumulation per component, with the only target and the
//! only value whose letters are active in that component.
//!
//! An operation whose operands are elements of nodes, numbers or index values becomes one accumulation. Each
//! subexpression with a further operation is assigned to a new virtual node, over the letters that occur in
//! it.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{DType, Dims, MemoryMode, Reason, Scalar, TensorNode};

use super::warnings::ValueWarnings;
use crate::error::{LocatedError, TextErrorKind, bad_bound};
use crate::number::Number;
use crate::source::{excerpt, framed, on_one_line};
use crate::tree::{AccessKind, NodeAccess, ResolvedExpr, ResolvedExprKind, ResolvedStatement};
use crate::types::{is_widened, operand_type, type_of};
use assignments::ByteRange;
use assignments::indexing::concat::{self, Component};
use assignments::indexing::{
    AxisIndex, IndexError, Indexed, Projection, Projections, are_injective, axis_iterator,
};
use assignments::{
    AccessSpan, Accum, AccumOp, Assignments, Operand, Origin, ProgramStep, Rhs, Warning, WarningKind,
    identifier,
};
use lowered_ir::ir::{Affine, TernaryOp, Var};
use lowered_ir::passes::decide_modes::SUBEXPRESSION_REASON;
use lowered_ir::{SourceSpan, SourceText};

/// Appends the steps of a statement, and warnings about it. `ranges` has the range of each letter.
pub(super) fn emit(
    statement: &ResolvedStatement,
    ranges: &[i64],
    text: &SourceText,
    assignments: &mut Assignments,
) -> Result<(), LocatedError> {
    let Assignments { steps, warnings, .. } = assignments;
    let axes: Vec<Vec<usize>> = statement
        .letters
        .iter()
        .map(|letter| letter.parts.clone())
        .filter(|parts| !parts.is_empty())
        .collect();
    let Some(components) = concat::components(ranges, &axes) else {
        let limit = concat::MAX_COMPONENTS;
        return Err(TextErrorKind::TooManyParts { limit }.at(statement.op_span.clone()));
    };
    let sides = TargetsAndValues::of(statement);
    let part = |component| StatementComponent::new(statement, &sides, component, ranges, text);
    let parts = components.iter().map(part).collect::<Result<Vec<StatementComponent>, _>>()?;
    let once = written_once(&parts);
    for part in &parts {
        check_reduction(statement, part)?;
        check_once(statement, part, &once)?;
        let letters: Vec<&str> = collected(|into| part.target.letters(into))
            .into_iter()
            .map(|letter| statement.letters[letter].name.as_str())
            .collect();
        let repeats = part.letters.iter().any(|&letter| ranges[letter] > 1);
        ValueWarnings { text, node: &part.target.node, letters: &letters, repeats, warnings }
            .value(&part.value);
    }
    // Letters and nodes of functions have scopes of their own.
    if statement.frame.is_none() {
        warnings.extend(statement.letters.iter().filter(|letter| letter.node.is_some()).map(|letter| {
            let kind = WarningKind::LetterOfNode { name: letter.name.clone() };
            Warning::new(kind, Some(SourceSpan::new(text.clone(), letter.span.clone())))
        }));
    }
    let conditions = &statement.conditions;
    let span = framed(statement.span.clone(), &statement.frame, text);
    let mut emitter = Emitter { ranges, conditions, text, statement: &span, written: DType::F32, steps };
    let accum = |part: &StatementComponent| emitter.part(statement, part);
    let mut accums = parts.iter().map(accum).collect::<Result<Vec<Accum>, _>>()?;
    match (accums.pop(), accums.is_empty()) {
        (Some(only), true) => steps.push(ProgramStep::Accum(Box::new(only))),
        (last, _) => {
            accums.extend(last);
            steps.push(ProgramStep::Concat(accums));
        }
    }
    Ok(())
}

/// A component of a statement: its target and value in terms of active letters.
struct StatementComponent {
    target: NodeAccess,
    value: ResolvedExpr,
    /// The active letters; the letters of the target come first.
    letters: Vec<usize>,
    /// The product space, and the projection to the target.
    writes: Projections,
}

/// The targets and the values of a statement, each with its letters, and the letters that occur in neither.
struct TargetsAndValues<'a> {
    targets: Vec<(&'a NodeAccess, BTreeSet<usize>)>,
    values: Vec<(&'a ResolvedExpr, BTreeSet<usize>)>,
    unused: Vec<usize>,
}

impl TargetsAndValues<'_> {
    fn of(statement: &ResolvedStatement) -> TargetsAndValues<'_> {
        let target = |read| (read, letters_of(read));
        let value = |tree| (tree, collected(|into| ResolvedExpr::letters(tree, into)));
        TargetsAndValues {
            targets: statement.lhs.iter().map(target).collect(),
            values: statement.rhs.iter().map(value).collect(),
            unused: unused_letters(statement),
        }
    }
}

fn letters_of(read: &NodeAccess) -> BTreeSet<usize> {
    collected(|into| read.letters(into))
}

impl StatementComponent {
    /// Selects the only target and the only value of a component.
    fn new(
        statement: &ResolvedStatement,
        sides: &TargetsAndValues<'_>,
        component: &Component,
        ranges: &[i64],
        text: &str,
    ) -> Result<StatementComponent, LocatedError> {
        let runs = |letters: &BTreeSet<usize>| letters.iter().all(|&letter| component.live[letter]);
        let targets = sides.targets.iter().filter(|(_, letters)| runs(letters)).map(|(target, _)| *target);
        let values = sides.values.iter().filter(|(_, letters)| runs(letters)).map(|(value, _)| *value);
        let ambiguous = |what, spans: Vec<ByteRange>| {
            let letters = component.letters().iter().map(|&k| statement.letters[k].name.clone()).collect();
            let found = spans.iter().map(|span| excerpt(text, span).to_owned()).collect();
            let place = spans.get(1).unwrap_or(&statement.op_span).clone();
            TextErrorKind::Ambiguous { letters, what, found }.at(place)
        };
        let target =
            only(targets, |found| ambiguous("target", found.iter().map(|t| t.span.clone()).collect()))?;
        let value = only(values, |found| ambiguous("value", found.iter().map(|t| t.span.clone()).collect()))?;
        let place = |index: &Affine| in_component(index, statement, component);
        let (target, value) = (target.map(&place), value.map(&place));
        let mut used = letters_of(&target);
        value.letters(&mut used);
        used.extend(&sides.unused);
        let letters: Vec<usize> = used.into_iter().collect();
        // The operand that computes an index does not affect the other indices, so an empty access stands for
        // it.
        let index = target.computed.as_ref().map(|_| OperandAccess::default());
        let shape = ProductShape { ranges, letters: &letters, conditions: &statement.conditions, text };
        let writes = projections(&shape, target.accessed(0), Vec::from_iter(index), "target")?;
        Ok(StatementComponent { target, value, letters, writes })
    }
}

/// The letters whose coefficient is 0 in every index, such as `k` in `i + 0*k`. They are iterated
/// nevertheless.
fn unused_letters(statement: &ResolvedStatement) -> Vec<usize> {
    let mut used = BTreeSet::new();
    statement.lhs.iter().for_each(|target| target.letters(&mut used));
    statement.rhs.iter().for_each(|value| value.letters(&mut used));
    let mut parts = statement.letters.iter().flat_map(|letter| letter.parts.clone());
    used.extend(&mut parts);
    let plain = |&k: &usize| statement.letters[k].parts.is_empty() && !used.contains(&k);
    (0..statement.letters.len()).filter(plain).collect()
}

fn collected(enter: impl FnOnce(&mut BTreeSet<usize>)) -> BTreeSet<usize> {
    let mut letters = BTreeSet::new();
    enter(&mut letters);
    letters
}

fn only<T>(
    found: impl Iterator<Item = T>,
    otherwise: impl FnOnce(Vec<T>) -> LocatedError,
) -> Result<T, LocatedError> {
    let mut found: Vec<T> = found.collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (last, _) => {
            found.extend(last);
            Err(otherwise(found))
        }
    }
}

/// An index in which each concatenated axis is replaced by its active letter plus the offset of that letter.
fn in_component(index: &Affine, statement: &ResolvedStatement, component: &Component) -> Affine {
    let axes = (0..statement.letters.len()).filter(|&k| !statement.letters[k].parts.is_empty());
    axes.zip(&component.picked).fold(index.clone(), |index, (axis, &(letter, before))| {
        index.substitute(axis_iterator(axis), &Affine::var(axis_iterator(letter)).plus_constant(before))
    })
}

/// Rejects a plain assignment with a letter that its target lacks.
fn check_reduction(statement: &ResolvedStatement, part: &StatementComponent) -> Result<(), LocatedError> {
    if statement.op != AccumOp::Assign {
        return Ok(());
    }
    let kept = collected(|into| part.target.letters(into));
    match part.letters.iter().find(|letter| !kept.contains(letter)) {
        Some(&letter) => {
            let (letter, node) = (&statement.letters[letter], part.target.node.name());
            let (letter, is_node) = (letter.name.clone(), letter.node.is_some());
            Err(TextErrorKind::NotReduced { letter, node, is_node }.at(statement.op_span.clone()))
        }
        None => Ok(()),
    }
}

/// The nodes that the components write, each with whether no element is written twice.
fn written_once(parts: &[StatementComponent]) -> BTreeMap<&TensorNode, bool> {
    let mut writes: BTreeMap<&TensorNode, Vec<&Projections>> = BTreeMap::new();
    for part in parts {
        writes.entry(&part.target.node).or_default().push(&part.writes);
    }
    writes.into_iter().map(|(node, writes)| (node, are_injective(&writes))).collect()
}

/// Rejects statements whose result would depend on the order of the loops. A plain assignment must write each
/// element at most once. A statement may read a node that it writes only at the element being written, and
/// only if each element is written once. `targets` says which nodes are written at most once per element.
fn check_once(
    statement: &ResolvedStatement,
    part: &StatementComponent,
    targets: &BTreeMap<&TensorNode, bool>,
) -> Result<(), LocatedError> {
    let lhs = &part.target;
    let once = targets[&lhs.node];
    if statement.op == AccumOp::Assign && !once {
        return Err(TextErrorKind::Overlap { node: lhs.node.name() }.at(lhs.span.clone()));
    }
    let mut rejected: Option<LocatedError> = None;
    let mut check = |read: &NodeAccess| {
        let is_target = targets.contains_key(&read.node);
        if rejected.is_some() || matches!(read.how, AccessKind::Merge) || !is_target {
            return;
        }
        let index = |access: &NodeAccess| access.index.iter().map(|(i, _)| i.clone()).collect::<Vec<_>>();
        let why = if statement.init {
            "its values are replaced by the neutral element first"
        } else if !once {
            "an element may be written more than once"
        } else if read.node != lhs.node
            || index(read) != index(lhs)
            || matches!(read.how, AccessKind::Padded(..))
        {
            "the element read is not the one written"
        } else if read.computed.is_some() || lhs.computed.is_some() {
            "which element is known only when it runs"
        } else {
            return;
        };
        rejected = Some(TextErrorKind::SelfRead { node: read.node.name(), why }.at(read.span.clone()));
    };
    lhs.each_index_read(&mut check);
    part.value.each_read(&mut check);
    rejected.map_or(Ok(()), Err)
}

/// The access of an operand to its node.
#[derive(Default)]
struct OperandAccess {
    dims: Dims,
    /// One index per axis, in letters of the statement.
    index: Vec<Affine>,
    /// The axis with a computed index, and the position of the operand that computes it.
    computed: Option<(usize, usize)>,
    place: AccessSpan,
}

impl OperandAccess {
    /// The access of an operand without a node.
    fn scalar(span: &ByteRange) -> OperandAccess {
        OperandAccess {
            place: AccessSpan { whole: span.clone(), indices: Vec::new() },
            ..OperandAccess::default()
        }
    }
}

impl NodeAccess {
    /// Converts the access. Operand `by` computes the index, if one is computed.
    fn accessed(&self, by: usize) -> OperandAccess {
        let (index, indices) = self.index.iter().cloned().unzip();
        let computed = self.computed.as_ref().map(|computed| (computed.axis, by));
        OperandAccess {
            dims: self.dims.clone(),
            index,
            computed,
            place: AccessSpan { whole: self.span.clone(), indices },
        }
    }
}

/// The operands of an accumulation: first the operands of the operation, then the operands that compute
/// indices.
#[derive(Default)]
struct OperandList {
    own: Vec<OperandAccess>,
    /// The number of operands of the operation.
    arity: usize,
    /// The operands that compute indices. An entry is `None` until the operand's own index is converted,
    /// because an operand that computes this index is appended behind the entry.
    computing: Vec<Option<(Operand, OperandAccess)>>,
}

impl OperandList {
    /// The operands that compute indices, and the accesses of all operands in order.
    fn finish(self) -> (Vec<Operand>, Vec<OperandAccess>) {
        let (computed, accessed): (Vec<Operand>, Vec<OperandAccess>) =
            self.computing.into_iter().flatten().unzip();
        (computed, self.own.into_iter().chain(accessed).collect())
    }
}

struct Emitter<'a> {
    ranges: &'a [i64],
    conditions: &'a [(Affine, ByteRange)],
    text: &'a SourceText,
    /// The statement, within the calls and repetitions that it comes from.
    statement: &'a SourceSpan,
    /// The type of the node that the current component writes.
    written: DType,
    steps: &'a mut Vec<ProgramStep>,
}

impl Emitter<'_> {
    /// The accumulation of one component. The steps of its subexpressions are appended first.
    fn part(
        &mut self,
        statement: &ResolvedStatement,
        part: &StatementComponent,
    ) -> Result<Accum, LocatedError> {
        let lhs = part.target.node.clone();
        self.written = lhs.dtype();
        let mut operands = OperandList::default();
        let rhs = self.rhs(&part.value, lhs.dtype(), &mut operands)?;
        let written = self.accessed(&part.target, &mut operands)?;
        let (computed, operands) = operands.finish();
        let origin = self.origin(&written, &operands);
        let projections = self.projections(&part.letters, written, operands, &part.value.span)?;
        Ok(Accum { init_neutral: statement.init, op: statement.op, lhs, rhs, computed, projections, origin })
    }

    /// The source spans of an accumulation.
    fn origin(&self, written: &OperandAccess, operands: &[OperandAccess]) -> Origin {
        let places = operands.iter().map(|operand| operand.place.clone()).collect();
        Origin::new(self.text, self.statement.clone(), written.place.clone(), places)
    }

    /// The expression as one operation. Numbers, which have no type of their own, take the type `wanted`.
    fn rhs(
        &mut self,
        tree: &ResolvedExpr,
        wanted: DType,
        operands: &mut OperandList,
    ) -> Result<Rhs, LocatedError> {
        let common = operand_type(tree, wanted, self.written);
        operands.arity = tree.children().len().max(1);
        match &tree.kind {
            ResolvedExprKind::Number(_)
            | ResolvedExprKind::Index(_)
            | ResolvedExprKind::Size(_)
            | ResolvedExprKind::NodeAccess(_)
            | ResolvedExprKind::Random(..) => Ok(Rhs::Copy(self.own_operand(tree, wanted, operands)?)),
            ResolvedExprKind::Cast(to, a) if *to == wanted => self.rhs(a, wanted, operands),
            ResolvedExprKind::Cast(..) => Ok(Rhs::Copy(self.own_operand(tree, wanted, operands)?)),
            ResolvedExprKind::Unary(op, a) if is_widened(*op, a) && common != DType::F32 => {
                let (kind, span) = (ResolvedExprKind::Cast(common, a.clone()), a.span.clone());
                Ok(Rhs::Unary(*op, self.own_operand(&ResolvedExpr { kind, span }, common, operands)?))
            }
            ResolvedExprKind::Unary(op, a) => Ok(Rhs::Unary(*op, self.own_operand(a, common, operands)?)),
            ResolvedExprKind::Binary(op, args) => {
                let a = self.own_operand(&args[0], common, operands)?;
                let b = self.own_operand(&args[1], common, operands)?;
                Ok(Rhs::Binary(*op, [a, b]))
            }
            ResolvedExprKind::Ternary(op, args) => {
                let first = if *op == TernaryOp::Where { DType::Bool } else { common };
                let a = self.own_operand(&args[0], first, operands)?;
                let b = self.own_operand(&args[1], common, operands)?;
                let c = self.own_operand(&args[2], common, operands)?;
                Ok(Rhs::Ternary(*op, [a, b, c]))
            }
        }
    }

    /// Adds an operand of the operation.
    fn own_operand(
        &mut self,
        tree: &ResolvedExpr,
        wanted: DType,
        operands: &mut OperandList,
    ) -> Result<Operand, LocatedError> {
        let (operand, accessed) = self.operand(tree, wanted, operands)?;
        operands.own.push(accessed);
        Ok(operand)
    }

    /// The expression as an operand. An operation becomes a virtual node.
    fn operand(
        &mut self,
        tree: &ResolvedExpr,
        wanted: DType,
        operands: &mut OperandList,
    ) -> Result<(Operand, OperandAccess), LocatedError> {
        match &tree.kind {
            ResolvedExprKind::Number(number) => {
                let value = self.number(*number, type_of(tree).or(wanted), &tree.span)?;
                Ok((Operand::Constant(value), OperandAccess::scalar(&tree.span)))
            }
            ResolvedExprKind::Index(index) => {
                let dtype = self.index_type(index, wanted, &tree.span)?;
                let accessed = OperandAccess {
                    dims: Dims::from_slice(&[1]),
                    index: vec![index.clone()],
                    ..OperandAccess::scalar(&tree.span)
                };
                Ok((Operand::Index(dtype), accessed))
            }
            ResolvedExprKind::Size(letter) => {
                let dtype = self.index_type(&Affine::constant(self.ranges[*letter]), wanted, &tree.span)?;
                let size = Scalar::from_i64(dtype, self.ranges[*letter]);
                Ok((Operand::Constant(size), OperandAccess::scalar(&tree.span)))
            }
            ResolvedExprKind::Random(random, cell) => {
                let dtype = type_of(tree).or(wanted);
                let accessed = OperandAccess {
                    dims: Dims::from_elem(1, cell.len()),
                    index: cell.clone(),
                    ..OperandAccess::scalar(&tree.span)
                };
                Ok((Operand::Random { random: Box::new(random.clone()), dtype }, accessed))
            }
            ResolvedExprKind::NodeAccess(read) => self.read(read, operands),
            ResolvedExprKind::Cast(to, a) => self.virtual_node(tree, a, *to),
            ResolvedExprKind::Unary(..) | ResolvedExprKind::Binary(..) | ResolvedExprKind::Ternary(..) => {
                self.virtual_node(tree, tree, type_of(tree).or(wanted))
            }
        }
    }

    fn read(
        &mut self,
        read: &NodeAccess,
        operands: &mut OperandList,
    ) -> Result<(Operand, OperandAccess), LocatedError> {
        let node = read.node.clone();
        let operand = match &read.how {
            AccessKind::Lhs | AccessKind::Plain => Operand::Node(node),
            AccessKind::Merge => Operand::MergeBuffer(node),
            AccessKind::Padded(outside, span) => {
                let outside = self.number(*outside, read.node.dtype(), span)?;
                Operand::Padded { node, outside }
            }
        };
        Ok((operand, self.accessed(read, operands)?))
    }

    /// The access to a node. If an operand computes its index, that operand is added to `operands`.
    fn accessed(
        &mut self,
        read: &NodeAccess,
        operands: &mut OperandList,
    ) -> Result<OperandAccess, LocatedError> {
        let Some(computed) = &read.computed else { return Ok(read.accessed(0)) };
        let at = operands.computing.len();
        operands.computing.push(None);
        operands.computing[at] = Some(self.operand(&computed.value, DType::I32, operands)?);
        Ok(read.accessed(operands.arity + at))
    }

    /// Converts a number, and fails if the type cannot represent it.
    fn number(&self, number: Number, dtype: DType, span: &ByteRange) -> Result<Scalar, LocatedError> {
        number.checked(dtype, self.text, span)
    }

    /// The type of an index used as a value: `i64` if wanted, else `i32`, which must hold all its values.
    fn index_type(&self, index: &Affine, wanted: DType, span: &ByteRange) -> Result<DType, LocatedError> {
        let bounds = index.bounds(|var| match var {
            Var::Loop(id) => (0, self.ranges[id.index()].max(1) - 1),
            Var::Symbol(_) => (0, 0),
        });
        let fits = |v: i64| i32::try_from(v).is_ok();
        match bounds {
            _ if wanted == DType::I64 => Ok(DType::I64),
            Some((lo, hi)) if fits(lo) && fits(hi) => Ok(DType::I32),
            _ => {
                let value = excerpt(self.text, span).to_owned();
                Err(TextErrorKind::Literal { value, dtype: DType::I32 }.at(span.clone()))
            }
        }
    }

    /// Assigns the values of `value`, for all letters in it, to a new virtual node of type `dtype`. `whole`
    /// is the subexpression that the node replaces.
    fn virtual_node(
        &mut self,
        whole: &ResolvedExpr,
        value: &ResolvedExpr,
        dtype: DType,
    ) -> Result<(Operand, OperandAccess), LocatedError> {
        let mut letters = BTreeSet::new();
        value.letters(&mut letters);
        let letters: Vec<usize> = letters.into_iter().collect();
        let mut operands = OperandList::default();
        let rhs = self.rhs(value, dtype, &mut operands)?;
        let (computed, operands) = operands.finish();
        let dims: Dims = letters.iter().map(|&k| usize::try_from(self.ranges[k]).unwrap_or(0)).collect();
        let node = self.make_node(whole, &dims, dtype)?;
        let index: Vec<Affine> = letters.iter().map(|&k| Affine::var(axis_iterator(k))).collect();
        let accessed = || OperandAccess {
            dims: dims.clone(),
            index: index.clone(),
            ..OperandAccess::scalar(&whole.span)
        };
        let origin = self.origin(&accessed(), &operands);
        let projections = self.projections(&letters, accessed(), operands, &whole.span)?;
        let lhs = node.clone();
        self.steps.push(ProgramStep::Accum(Box::new(Accum {
            init_neutral: false,
            op: AccumOp::Assign,
            lhs,
            rhs,
            computed,
            projections,
            origin,
        })));
        let read = accessed();
        Ok((Operand::Node(node), read))
    }

    fn make_node(&self, whole: &ResolvedExpr, dims: &Dims, dtype: DType) -> Result<TensorNode, LocatedError> {
        let source = on_one_line(self.text, &whole.span);
        let reason = Reason::new(format!("{SUBEXPRESSION_REASON}`{source}`"));
        let node = TensorNode::builder(identifier(&source)).dims(dims.iter().copied()).dtype(dtype);
        let node = node.mode_because(MemoryMode::Virtual, reason).build();
        node.map_err(|error| TextErrorKind::from(error).at(whole.span.clone()))
    }

    fn projections(
        &self,
        letters: &[usize],
        lhs: OperandAccess,
        rhs: Vec<OperandAccess>,
        span: &ByteRange,
    ) -> Result<Projections, LocatedError> {
        let shape =
            ProductShape { ranges: self.ranges, letters, conditions: self.conditions, text: self.text };
        projections(&shape, lhs, rhs, excerpt(self.text, span))
    }
}

/// The product space of some letters of a statement.
struct ProductShape<'a> {
    /// The range of each letter of the statement.
    ranges: &'a [i64],
    /// The letters of the space, outermost first.
    letters: &'a [usize],
    /// The conditions of the statement. Those with other letters do not apply.
    conditions: &'a [(Affine, ByteRange)],
    text: &'a str,
}

/// Projections over a product space. The indices mention no other letters.
fn projections(
    shape: &ProductShape<'_>,
    lhs: OperandAccess,
    rhs: Vec<OperandAccess>,
    source: &str,
) -> Result<Projections, LocatedError> {
    let &ProductShape { ranges, letters, conditions, text } = shape;
    let axes: Vec<usize> = letters.iter().map(|&k| usize::try_from(ranges[k]).unwrap_or(0)).collect();
    let axis: BTreeMap<usize, usize> = letters.iter().enumerate().map(|(axis, &k)| (k, axis)).collect();
    let in_axes = |index: &Affine| {
        let start = Affine::constant(index.offset());
        index.terms().iter().try_fold(start, |sum, &(var, coefficient)| {
            let var = match var {
                Var::Loop(id) => Var::Loop(axis_iterator(*axis.get(&id.index())?)),
                Var::Symbol(_) => var,
            };
            Some(sum.plus(&Affine::term(var, coefficient)))
        })
    };
    let renamed =
        |index: &Affine| AxisIndex::new(in_axes(index).expect("letters were collected from the indices"));
    let (applying, spans): (Vec<Affine>, Vec<&ByteRange>) =
        conditions.iter().filter_map(|(condition, span)| Some((in_axes(condition)?, span))).unzip();
    let indexed = |accessed: OperandAccess| -> Indexed {
        let mut projection: Projection = accessed.index.iter().map(renamed).collect();
        if let Some((axis, by)) = accessed.computed {
            projection[axis] = AxisIndex::Computed(by);
        }
        (accessed.dims, projection)
    };
    match Projections::within(&axes, &applying, indexed(lhs), rhs.into_iter().map(indexed).collect(), source)
    {
        Err(IndexError::Condition { condition, why }) => Err(bad_bound(spans[condition], &why, text)),
        found => Ok(found.expect("ranks and computed indices were checked when names were resolved")),
    }
}
