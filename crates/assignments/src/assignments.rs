//! The program between its text and its loops: a sequence of steps over tensor nodes.
//!
//! A front end such as `assignment-text` and the functions of [`builder`](crate::builder) make
//! [`Assignments`], [`Assignments::then`] joins two of them, and [`lower`](crate::lower::lower) turns them
//! into loops. No function of this crate settles a memory mode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;
use tnode::{DType, Scalar, TensorNode};

use crate::indexing::{Projections, StaticSymbol};
use crate::{
    AccumOp, CustomGradient, KeyPart, Nodes, Origin, Random, SampleValues, SymbolTable, Warning, all_steps,
    binary_dtype, ternary_dtype, unary_dtype, written,
};
use lowered_ir::eval;
use lowered_ir::ir::{Affine, BinaryOp, SymbolId, TernaryOp, UnaryOp, Var};

/// A program: a sequence of steps.
///
/// A program without steps does nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignments {
    /// The symbols that indices mention by position; names are distinct.
    pub symbols: SymbolTable,
    /// The steps, in the order in which they run.
    pub steps: Vec<ProgramStep>,
    /// Warnings that the parser found.
    pub warnings: Vec<Warning>,
    /// The nodes whose values a run leaves in memory, where the host can read them.
    pub kept: BTreeSet<TensorNode>,
    /// The nodes that backward passes compute again instead of reading their stored values, unless the
    /// program keeps them too. Each has the source span of its request.
    pub recomputed: BTreeMap<TensorNode, Origin>,
    /// The number of steps from one checkpoint to the next, for the letter of each scan whose gradient
    /// computes the steps between checkpoints again instead of storing their values. It divides the number of
    /// steps.
    pub checkpoints: BTreeMap<SymbolId, i64>,
    /// The most bytes in which the last gradient stores values of the steps of one scan, if there is a limit.
    /// A scan that needs more gets the checkpoints that store the fewest.
    pub scan_gradient_bytes: Option<u64>,
    /// Whether gradients round where the program does: the gradient by a value that was rounded from a wider
    /// type to f16 or bf16 is rounded to that type too, so that it takes half the memory, and products with
    /// it can run on tensor cores. Contributions to one gradient are summed before.
    pub narrow_gradients: bool,
    /// The nodes that the text makes, by name: those that it declares or writes without a declaration.
    pub text_nodes: Nodes,
    /// The program that gives declared nodes their initial values, and keeps these nodes; none if the text
    /// has no initial values.
    pub initial: Option<Arc<Assignments>>,
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramStep {
    /// Combines operands and stores or accumulates the result.
    Accum(Box<Accum>),
    /// The components of a statement with concatenated axes: each writes another part of its target. All have
    /// the same operation. If they initialize their targets, then all targets are set to the neutral element
    /// before the first accumulation.
    Concat(Vec<Accum>),
    /// Fills a node with values that are no elements of another node, or with a slice.
    Fetch {
        /// The node filled.
        node: TensorNode,
        /// The values.
        op: FetchOp,
        /// The source spans, if the step comes from a text.
        origin: Origin,
    },
    /// Fills nodes with the gradients of a loss, as far as the steps before this one compute it. The crate
    /// `autodiff` replaces this step by accumulations; [`lower`](crate::lower::lower) rejects it.
    Gradient {
        /// The loss: a node of floats of rank 0.
        loss: TensorNode,
        /// The nodes by which the loss is differentiated, each with the node that receives the derivatives.
        /// Both have the same dimensions.
        parameters: Vec<(TensorNode, TensorNode)>,
        /// The source spans, if the step comes from a text: operand 0 is the loss, and operand `1 + k` the
        /// parameter at position `k`.
        origin: Origin,
    },
    /// Makes the values that a node has here constants for the gradients of later steps: no derivative goes
    /// through them. Values that are stored afterwards have derivatives again. Lowering skips this step.
    Detach(TensorNode),
    /// Gives the gradients of later steps another way through nodes of earlier ones. Lowering skips this
    /// step, and a text cannot say it.
    CustomGradient(Box<CustomGradient>),
    /// A group of steps with a name. The names of the outermost blocks make the routine's name.
    Block {
        /// The name, in words.
        name: String,
        /// The steps of the group.
        steps: Vec<ProgramStep>,
    },
    /// Steps that run once for each value of a symbol, one value after the other, from 0 on. A run does not
    /// bind the symbol, which only these steps mention.
    Scan {
        /// The symbol, by its position in [`Assignments::symbols`]; made by [`StaticSymbol::step`].
        symbol: SymbolId,
        /// The steps of the body.
        steps: Vec<ProgramStep>,
        /// The condition that ends it, if there is one.
        end: Option<ScanEnd>,
    },
    /// A comment in the loop IR, such as the statement from which the next steps come.
    Remark(String),
}

impl ProgramStep {
    /// The steps inside of a block or scan; none for other steps.
    pub fn inner(&self) -> &[ProgramStep] {
        match self {
            ProgramStep::Block { steps, .. } | ProgramStep::Scan { steps, .. } => steps,
            ProgramStep::Accum(_)
            | ProgramStep::Concat(_)
            | ProgramStep::Fetch { .. }
            | ProgramStep::Gradient { .. }
            | ProgramStep::Detach(_)
            | ProgramStep::CustomGradient(_)
            | ProgramStep::Remark(_) => &[],
        }
    }

    /// The accumulations of this step, without those inside a block or scan.
    pub fn accums(&self) -> &[Accum] {
        match self {
            ProgramStep::Accum(accum) => std::slice::from_ref(accum),
            ProgramStep::Concat(parts) => parts,
            ProgramStep::Fetch { .. }
            | ProgramStep::Gradient { .. }
            | ProgramStep::Detach(_)
            | ProgramStep::CustomGradient(_)
            | ProgramStep::Block { .. }
            | ProgramStep::Scan { .. }
            | ProgramStep::Remark(_) => &[],
        }
    }

    /// The source spans of this step; unknown for detached nodes, custom gradients, blocks, scans and
    /// remarks.
    pub fn origin(&self) -> &Origin {
        match self {
            ProgramStep::Accum(accum) => &accum.origin,
            ProgramStep::Concat(parts) => parts.first().map_or(Origin::unknown(), |part| &part.origin),
            ProgramStep::Fetch { origin, .. } | ProgramStep::Gradient { origin, .. } => origin,
            ProgramStep::Detach(_)
            | ProgramStep::CustomGradient(_)
            | ProgramStep::Block { .. }
            | ProgramStep::Scan { .. }
            | ProgramStep::Remark(_) => Origin::unknown(),
        }
    }
}

/// The condition of a scan: a node of one element that the first steps of the body compute.
///
/// In an iteration in which it is 0, the steps behind them do not run. It needs a value before the scan.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanEnd {
    /// The node.
    pub node: TensorNode,
    /// Whether no later iteration runs either.
    pub is_final: bool,
}

impl ScanEnd {
    /// The steps that always run, and those that run unless the node is 0.
    pub fn split<'s>(&self, steps: &'s [ProgramStep]) -> (&'s [ProgramStep], &'s [ProgramStep]) {
        let computes = |step: &ProgramStep| {
            all_steps(std::slice::from_ref(step)).any(|step| written(step).contains(&&self.node))
        };
        steps.split_at(steps.iter().rposition(computes).map_or(0, |at| at + 1))
    }
}

/// `lhs ⊕= op(operands)` at every point of a product space.
#[derive(Clone, Debug, PartialEq)]
pub struct Accum {
    /// Whether the node is set to the neutral element of `op` first. Otherwise the accumulation starts from
    /// its earlier values.
    pub init_neutral: bool,
    /// The operation that combines the result with the element's earlier value.
    pub op: AccumOp,
    /// The node written.
    pub lhs: TensorNode,
    /// The operation whose result is accumulated.
    pub rhs: Rhs,
    /// The operands that compute indices, of integer types. [`AxisIndex::Computed`] numbers them after the
    /// operands of `rhs`. If such an index is outside its dimension, a read gives [`Accum::outside`] and a
    /// write has no effect.
    ///
    /// [`AxisIndex::Computed`]: crate::indexing::AxisIndex::Computed
    pub computed: Vec<Operand>,
    /// The product space, and the indices of `lhs` and of each operand.
    pub projections: Projections,
    /// The source spans, if the step comes from a text.
    pub origin: Origin,
}

impl Accum {
    /// The operands of `rhs`, then `computed`, in the order of the projections.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.rhs.operands().iter().chain(&self.computed)
    }

    /// The value of the operand at position `at` if its computed index is outside the dimension: the value
    /// given to `pad`; the neutral element of the accumulation if the operand itself is accumulated; 0
    /// otherwise. Settles the node's type.
    pub fn outside(&self, at: usize) -> Scalar {
        match (self.operands().nth(at), &self.rhs) {
            (Some(Operand::Padded { node, outside }), _) => literal(*outside, node.dtype()),
            (Some(Operand::Node(node)), Rhs::Copy(_)) if at == 0 => self.op.neutral(node.dtype()),
            (Some(operand), _) => Scalar::zero(operand.dtype()),
            (None, _) => Scalar::zero(self.lhs.dtype()),
        }
    }
}

/// An operation on operands. Operands are converted to the operation's type ([`Rhs::operation_dtype`]), the
/// result to the type of the node written.
#[derive(Clone, Debug, PartialEq)]
pub enum Rhs {
    /// The operand itself.
    Copy(Operand),
    /// An operation on one operand.
    Unary(UnaryOp, Operand),
    /// An operation on two.
    Binary(BinaryOp, [Operand; 2]),
    /// An operation on three.
    Ternary(TernaryOp, [Operand; 3]),
}

impl Rhs {
    /// The operands, in the order of their projections.
    pub fn operands(&self) -> &[Operand] {
        match self {
            Rhs::Copy(a) | Rhs::Unary(_, a) => std::slice::from_ref(a),
            Rhs::Binary(_, operands) => operands,
            Rhs::Ternary(_, operands) => operands,
        }
    }

    /// The operands, to be replaced.
    pub fn operands_mut(&mut self) -> &mut [Operand] {
        match self {
            Rhs::Copy(a) | Rhs::Unary(_, a) => std::slice::from_mut(a),
            Rhs::Binary(_, operands) => operands,
            Rhs::Ternary(_, operands) => operands,
        }
    }

    /// The type of the result. Settles the types of the nodes.
    pub fn dtype(&self) -> DType {
        match self {
            Rhs::Binary(op, _) => op.result(self.operation_dtype()),
            _ => self.operation_dtype(),
        }
    }

    /// The result as a number of type `to`, if all operands are constants.
    pub fn constant(&self, to: DType) -> Option<Scalar> {
        let mut values = SmallVec::<[Scalar; 3]>::new();
        for operand in self.operands() {
            let Operand::Constant(value) = operand else { return None };
            values.push(*value);
        }
        let dtype = self.operation_dtype();
        if [dtype, to].contains(&DType::U32x4) {
            return None;
        }
        let value = |at: usize| literal(values[at], dtype);
        let result = match self {
            Rhs::Copy(_) => value(0),
            Rhs::Unary(op, _) => eval::unary(*op, value(0)),
            Rhs::Binary(op, _) => eval::binary(*op, value(0), value(1)),
            Rhs::Ternary(TernaryOp::Where, _) => {
                eval::ternary(TernaryOp::Where, literal(values[0], DType::Bool), value(1), value(2))
            }
            Rhs::Ternary(op, _) => eval::ternary(*op, value(0), value(1), value(2)),
        };
        Some(literal(result, to))
    }

    /// The type in which the operation computes. Settles the types of the nodes.
    pub fn operation_dtype(&self) -> DType {
        match self {
            Rhs::Copy(a) => a.dtype(),
            Rhs::Unary(op, a) => unary_dtype(*op, a.dtype()),
            Rhs::Binary(op, [a, b]) => binary_dtype(*op, a.dtype(), b.dtype()),
            Rhs::Ternary(op, [a, b, c]) => ternary_dtype(*op, a.dtype(), b.dtype(), c.dtype()),
        }
    }
}

/// Converts a number written in the program. For `u32x4`, a float converts by its numeric value; conversions
/// of values keep the bits instead.
pub(crate) fn literal(value: Scalar, to: DType) -> Scalar {
    if to == DType::U32x4 && value.dtype().is_float() {
        return Scalar::from_f64(to, value.as_f64());
    }
    value.convert(to)
}

/// The source of an operand's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// An element of a node. Indices may reach into the node's padding.
    Node(TensorNode),
    /// An element of the merge buffer, which holds a copy of the node.
    MergeBuffer(TensorNode),
    /// An element of a node, or `outside` where the index is not within its dimensions.
    Padded {
        /// The node read.
        node: TensorNode,
        /// The value outside the dimensions.
        outside: Scalar,
    },
    /// A constant. It has no dimensions.
    Constant(Scalar),
    /// The value of an index. The operand's projection has that one index; the dimension is ignored.
    Index(DType),
    /// A random number for each combination of the indices in the operand's projection. There are at most
    /// [`MAX_CELL`](lowered_ir::random::MAX_CELL) indices; their dimensions are ignored.
    Random {
        /// The distribution and the key.
        random: Box<Random>,
        /// The number's type.
        dtype: DType,
    },
}

impl Operand {
    /// The node that is read from the context's memory, if any.
    pub fn node(&self) -> Option<&TensorNode> {
        match self {
            Operand::Node(node) | Operand::Padded { node, .. } => Some(node),
            Operand::MergeBuffer(_) | Operand::Constant(_) | Operand::Index(_) | Operand::Random { .. } => {
                None
            }
        }
    }

    /// The type of the values. Settles the node's type.
    pub fn dtype(&self) -> DType {
        match self {
            Operand::Node(node) | Operand::Padded { node, .. } | Operand::MergeBuffer(node) => node.dtype(),
            Operand::Constant(value) => value.dtype(),
            Operand::Index(dtype) | Operand::Random { dtype, .. } => *dtype,
        }
    }
}

impl From<&TensorNode> for Operand {
    fn from(node: &TensorNode) -> Operand {
        Operand::Node(node.clone())
    }
}

impl From<Scalar> for Operand {
    fn from(value: Scalar) -> Operand {
        Operand::Constant(value)
    }
}

/// The values that fill a node.
#[derive(Clone, Debug, PartialEq)]
pub enum FetchOp {
    /// One number, converted to the node's type.
    Constant(f64),
    /// One bit pattern of the node's type.
    ConstantBits(u128),
    /// A number per element in row-major order; at most [`CONSTANT_FILL_LIMIT`] of them.
    ConstantFill(Vec<f64>),
    /// The row-major offset of each element.
    RangeOverOffsets,
    /// The value of a static symbol, by its position in [`Assignments::symbols`].
    EmbedSymbol(SymbolId),
    /// The id of the node.
    EmbedSelfId,
    /// The size of an axis of a node, without margins. The node needs no memory.
    EmbedDim {
        /// The node with the axis.
        of: TensorNode,
        /// The axis, from 0.
        axis: usize,
    },
    /// The slice of a node at one index of its first axis. If possible the node filled becomes a view of the
    /// slice, which costs no memory and no code; writes to the view then write the parent. [`crate::lower`]
    /// has the conditions.
    Slice {
        /// The index, by the symbol's position in [`Assignments::symbols`].
        index: SymbolId,
        /// The parent of the slice.
        of: TensorNode,
    },
    /// The positions of the elements along an axis of a node, in sorted order. The node filled has the same
    /// dimensions, or fewer elements on that axis: then it gets the first positions. Equal elements keep
    /// their order, 0 and −0 are equal, and NaN is the largest number.
    Order {
        /// The node whose elements are compared.
        of: TensorNode,
        /// The axis, from 0.
        axis: usize,
        /// Whether the largest element comes first.
        is_descending: bool,
    },
    /// An independent random number for each element.
    Random(Random),
    /// Random numbers made of samples that a node holds.
    SampleValues(SampleValues),
}

/// The largest number of elements that [`FetchOp::ConstantFill`] may fill: each becomes a statement.
pub const CONSTANT_FILL_LIMIT: usize = 16;

impl Assignments {
    /// Whether the program has no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether a step is a gradient, which the crate `autodiff` replaces by accumulations.
    pub fn has_gradients(&self) -> bool {
        crate::all_steps(&self.steps).any(|step| matches!(step, ProgramStep::Gradient { .. }))
    }

    /// The position of the symbol of that name, which is entered if it is new. A symbol without a range
    /// adopts the given range. A different range is entered as a second symbol, which lowering rejects.
    pub fn symbol(&mut self, symbol: &StaticSymbol) -> SymbolId {
        self.symbols.enter(symbol)
    }

    /// Appends `next` to these assignments. Symbols of the same name become one. Where both texts make a node
    /// of one name, [`text_nodes`](Assignments::text_nodes) has the one of `next`.
    #[must_use]
    pub fn then(mut self, mut next: Assignments) -> Assignments {
        let renumbered: Vec<SymbolId> = next.symbols.iter().map(|symbol| self.symbol(symbol)).collect();
        renumber(&mut next.steps, &renumbered);
        self.steps.extend(next.steps);
        self.warnings.extend(next.warnings);
        self.kept.extend(next.kept);
        self.recomputed.extend(next.recomputed);
        let checkpoints = next.checkpoints.into_iter();
        self.checkpoints.extend(checkpoints.map(|(id, every)| (renumbered[id.index()], every)));
        let limits = [self.scan_gradient_bytes, next.scan_gradient_bytes];
        self.scan_gradient_bytes = limits.into_iter().flatten().min();
        self.narrow_gradients |= next.narrow_gradients;
        self.initial = match (self.initial, next.initial) {
            (Some(first), Some(second)) => Some(Arc::new((*first).clone().then((*second).clone()))),
            (first, second) => first.or(second),
        };
        let made = next.text_nodes.by_name().map(|(name, node)| (name, node.clone()));
        self.text_nodes.extend(made);
        self
    }

    /// Wraps these assignments in one block of that name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Assignments {
        let steps = vec![ProgramStep::Block { name: name.into(), steps: self.steps }];
        Assignments { steps, ..self }
    }
}

impl FromIterator<Assignments> for Assignments {
    fn from_iter<I: IntoIterator<Item = Assignments>>(parts: I) -> Assignments {
        parts.into_iter().fold(Assignments::default(), Assignments::then)
    }
}

fn renumber(steps: &mut [ProgramStep], to: &[SymbolId]) {
    let new = |id: SymbolId| to.get(id.index()).copied().unwrap_or(id);
    for step in steps {
        if let ProgramStep::Fetch { op: FetchOp::Random(random), .. } = step {
            renumber_key(random, new);
        }
        operands_mut(step).for_each(|operand| {
            if let Operand::Random { random, .. } = operand {
                renumber_key(random, new);
            }
        });
        match step {
            ProgramStep::Accum(accum) => accum.projections.map_indices(|index| renumber_index(&index, new)),
            ProgramStep::Concat(parts) => {
                let each = parts.iter_mut().map(|part| &mut part.projections);
                each.for_each(|projections| projections.map_indices(|index| renumber_index(&index, new)));
            }
            ProgramStep::Fetch {
                op: FetchOp::EmbedSymbol(id) | FetchOp::Slice { index: id, .. }, ..
            } => *id = new(*id),
            ProgramStep::Block { steps, .. } => renumber(steps, to),
            ProgramStep::CustomGradient(custom) => renumber(&mut custom.steps, to),
            ProgramStep::Scan { symbol, steps, .. } => {
                *symbol = new(*symbol);
                renumber(steps, to);
            }
            ProgramStep::Fetch { .. }
            | ProgramStep::Gradient { .. }
            | ProgramStep::Detach(_)
            | ProgramStep::Remark(_) => {}
        }
    }
}

fn renumber_key(random: &mut Random, new: impl Fn(SymbolId) -> SymbolId) {
    for part in &mut random.key {
        if let KeyPart::Symbol(id) = part {
            *id = new(*id);
        }
    }
}

/// The operands of this step, without those inside a block or scan.
fn operands_mut(step: &mut ProgramStep) -> impl Iterator<Item = &mut Operand> {
    let accums: &mut [Accum] = match step {
        ProgramStep::Accum(accum) => std::slice::from_mut(accum),
        ProgramStep::Concat(parts) => parts,
        ProgramStep::Fetch { .. }
        | ProgramStep::Gradient { .. }
        | ProgramStep::Detach(_)
        | ProgramStep::CustomGradient(_)
        | ProgramStep::Block { .. }
        | ProgramStep::Scan { .. }
        | ProgramStep::Remark(_) => &mut [],
    };
    accums.iter_mut().flat_map(|accum| accum.rhs.operands_mut().iter_mut().chain(&mut accum.computed))
}

/// Renumbers all symbols at once. Renumbering one symbol after another could renumber a symbol twice.
fn renumber_index(index: &Affine, new: impl Fn(SymbolId) -> SymbolId) -> Affine {
    index.terms().iter().fold(Affine::constant(index.offset()), |sum, &(var, coefficient)| {
        let var = match var {
            Var::Symbol(id) => Var::Symbol(new(id)),
            Var::Loop(_) => var,
        };
        sum.plus(&Affine::term(var, coefficient))
    })
}
