//! Steps over tensor nodes: the form of a program between its text and its loops.
//!
//! An [`Assignments`] value is a sequence of steps over tensor nodes. Make one from [text](crate::text), or
//! with the functions of [`builder`](crate::builder); join several with [`Assignments::then`]; lower it with
//! [`lower`](crate::lower::lower). Nothing here settles a memory mode.

use tnode::{DType, Scalar, TensorNode};

use crate::indexing::{Projections, StaticSymbol};
use crate::{
    AccumOp, KeyPart, Origin, Random, SampleValues, SymbolTable, Warning, binary_dtype, ternary_dtype,
    unary_dtype,
};
use lowered_ir::ir::{Affine, BinaryOp, SymbolId, TernaryOp, UnaryOp, Var};

/// A sequence of assignments.
///
/// The empty one does nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignments {
    /// The symbols that indices mention by position; names are distinct.
    pub symbols: SymbolTable,
    /// What is done, in order.
    pub steps: Vec<ProgramStep>,
    /// What reading the text found that is legal and often a mistake.
    pub warnings: Vec<Warning>,
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramStep {
    /// Combines operands and stores or accumulates the result.
    Accum(Box<Accum>),
    /// Accumulations that are one: each writes the part of its target where other letters of concatenated
    /// axes run. All have the same operation, and each target gets the neutral element before any of them.
    Concat(Vec<Accum>),
    /// Fills a node from something that is no node.
    Fetch {
        /// The node filled.
        node: TensorNode,
        /// With what.
        op: FetchOp,
        /// Where in a text this stands.
        origin: Origin,
    },
    /// A group of steps with a name. The outermost names make the name of the routine.
    Block {
        /// The name, in words.
        name: String,
        /// What it does.
        steps: Vec<ProgramStep>,
    },
    /// A line for readers of the loop IR, such as the statement that the next steps come from.
    Remark(String),
}

impl ProgramStep {
    /// The accumulations of the step itself, not of the steps in a block.
    pub fn accums(&self) -> &[Accum] {
        match self {
            ProgramStep::Accum(accum) => std::slice::from_ref(accum),
            ProgramStep::Concat(parts) => parts,
            ProgramStep::Fetch { .. } | ProgramStep::Block { .. } | ProgramStep::Remark(_) => &[],
        }
    }

    /// Where in a text the step itself stands.
    pub fn origin(&self) -> &Origin {
        match self {
            ProgramStep::Accum(accum) => &accum.origin,
            ProgramStep::Concat(parts) => parts.first().map_or(Origin::unknown(), |part| &part.origin),
            ProgramStep::Fetch { origin, .. } => origin,
            ProgramStep::Block { .. } | ProgramStep::Remark(_) => Origin::unknown(),
        }
    }
}

/// `lhs ⊕= op(operands)` at every point of a product space.
#[derive(Clone, Debug, PartialEq)]
pub struct Accum {
    /// Whether the node is set to the neutral element of `op` first. Otherwise its values count.
    pub init_neutral: bool,
    /// How the result is combined with what is there.
    pub op: AccumOp,
    /// The node written.
    pub lhs: TensorNode,
    /// The result to accumulate.
    pub rhs: Rhs,
    /// What computed indices are: operands of integer types that come after those of `rhs`
    /// ([`AxisIndex::Computed`] counts them all). Where such an index is outside of its dimension, what is
    /// read is the neutral value ([`Accum::outside`]) and what is written has no effect.
    ///
    /// [`AxisIndex::Computed`]: crate::indexing::AxisIndex::Computed
    pub computed: Vec<Operand>,
    /// The product space, and the indices of `lhs` and of each operand.
    pub projections: Projections,
    /// Where in a text this stands.
    pub origin: Origin,
}

impl Accum {
    /// The operands of the operation, then those that indices are computed by, in the order of their
    /// projections.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.rhs.operands().iter().chain(&self.computed)
    }

    /// What the operand at that position is where its computed index is outside: what `pad` says; else, where
    /// the operand alone is accumulated, the neutral element of the accumulation, so that it adds nothing;
    /// else 0. Settles the node's type.
    pub fn outside(&self, at: usize) -> Scalar {
        match (self.operands().nth(at), &self.rhs) {
            (Some(Operand::Padded { node, outside }), _) => literal(*outside, node.dtype()),
            (Some(Operand::Node(node)), Rhs::Copy(_)) if at == 0 => self.op.neutral(node.dtype()),
            (Some(operand), _) => Scalar::zero(operand.dtype()),
            (None, _) => Scalar::zero(self.lhs.dtype()),
        }
    }
}

/// An operation on operands. Operands are converted to the type in which the operation computes, and the
/// result to that of the node written.
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

    fn operands_mut(&mut self) -> &mut [Operand] {
        match self {
            Rhs::Copy(a) | Rhs::Unary(_, a) => std::slice::from_mut(a),
            Rhs::Binary(_, operands) => operands,
            Rhs::Ternary(_, operands) => operands,
        }
    }

    /// The type of the result; settles the types of the nodes.
    pub fn dtype(&self) -> DType {
        match self {
            Rhs::Binary(op, _) => op.result(self.operation_dtype()),
            _ => self.operation_dtype(),
        }
    }

    /// The type in which the operation computes; settles the types of the nodes.
    pub fn operation_dtype(&self) -> DType {
        match self {
            Rhs::Copy(a) => a.dtype(),
            Rhs::Unary(op, a) => unary_dtype(*op, a.dtype()),
            Rhs::Binary(op, [a, b]) => binary_dtype(*op, a.dtype(), b.dtype()),
            Rhs::Ternary(op, [a, b, c]) => ternary_dtype(*op, a.dtype(), b.dtype(), c.dtype()),
        }
    }
}

/// A number of the program in another type: unlike a value, it becomes random bits by what it counts.
pub(crate) fn literal(value: Scalar, to: DType) -> Scalar {
    if to == DType::U32x4 && value.dtype().is_float() {
        return Scalar::from_f64(to, value.as_f64());
    }
    value.convert(to)
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operand {
    /// An element of a node. Indices may reach into the node's padding.
    Node(TensorNode),
    /// An element of the merge buffer, which holds a copy of the node.
    MergeBuffer(TensorNode),
    /// An element of a node, or `outside` where the index is not within its dimensions.
    Padded {
        /// The node read.
        node: TensorNode,
        /// The value elsewhere.
        outside: Scalar,
    },
    /// A constant. It has no dimensions.
    Constant(Scalar),
    /// The value of an index. Its projection has that one index; its dimension is not used.
    Index(DType),
    /// A random number of its own for each combination of the indices that its projection has, at most
    /// [`MAX_CELL`](lowered_ir::random::MAX_CELL); their dimensions are not used.
    Random {
        /// From which draws.
        random: Box<Random>,
        /// Its type.
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

    /// The type of the values; settles the node's type.
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

/// What fills a node.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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
    /// The size of an axis of a node, without margins. That node need not have memory.
    EmbedDim {
        /// Whose axis.
        of: TensorNode,
        /// Which one.
        axis: usize,
    },
    /// The part of a node at one index of its first axis. Where it can be, the node filled becomes a view of
    /// that part, which takes neither memory nor time, and writes to it write the other node;
    /// [`crate::lower`] says where.
    Slice {
        /// The index, by the symbol's position in [`Assignments::symbols`].
        index: SymbolId,
        /// Whose part.
        of: TensorNode,
    },
    /// Random numbers, each element its own.
    Random(Random),
    /// Random numbers from draws that a node holds.
    SampleValues(SampleValues),
}

/// The largest node that [`FetchOp::ConstantFill`] may fill, in elements: each becomes a statement.
pub const CONSTANT_FILL_LIMIT: usize = 16;

impl Assignments {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The symbol of that name, entered if it is new. A range given for a symbol that has none is adopted;
    /// one that differs is entered as a second symbol, which lowering refuses by name.
    pub fn symbol(&mut self, symbol: &StaticSymbol) -> SymbolId {
        self.symbols.enter(symbol)
    }

    /// These assignments, then those. Symbols of one name become one.
    #[must_use]
    pub fn then(mut self, mut next: Assignments) -> Assignments {
        let renumbered: Vec<SymbolId> = next.symbols.iter().map(|symbol| self.symbol(symbol)).collect();
        renumber(&mut next.steps, &renumbered);
        self.steps.extend(next.steps);
        self.warnings.extend(next.warnings);
        self
    }

    /// These assignments as one block of that name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Assignments {
        Assignments {
            symbols: self.symbols,
            steps: vec![ProgramStep::Block { name: name.into(), steps: self.steps }],
            warnings: self.warnings,
        }
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
            ProgramStep::Fetch { .. } | ProgramStep::Remark(_) => {}
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

/// The operands of the step itself.
fn operands_mut(step: &mut ProgramStep) -> impl Iterator<Item = &mut Operand> {
    let accums: &mut [Accum] = match step {
        ProgramStep::Accum(accum) => std::slice::from_mut(accum),
        ProgramStep::Concat(parts) => parts,
        ProgramStep::Fetch { .. } | ProgramStep::Block { .. } | ProgramStep::Remark(_) => &mut [],
    };
    accums.iter_mut().flat_map(|accum| accum.rhs.operands_mut().iter_mut().chain(&mut accum.computed))
}

/// All at once: one after another could renumber a symbol twice.
fn renumber_index(index: &Affine, new: impl Fn(SymbolId) -> SymbolId) -> Affine {
    index.terms().iter().fold(Affine::constant(index.offset()), |sum, &(var, coefficient)| {
        let var = match var {
            Var::Symbol(id) => Var::Symbol(new(id)),
            Var::Loop(_) => var,
        };
        sum.plus(&Affine::term(var, coefficient))
    })
}
