//! Programs in double precision, on which differences are accurate.

use std::collections::BTreeMap;

use assignments::{Accum, Assignments, FetchOp, Operand, ProgramStep, Rhs, SampleValues};
use tnode::{DType, MemoryMode, TensorNode};

/// The nodes of floats of a program with their twins of type f64.
#[derive(Default)]
pub(crate) struct Twins(BTreeMap<TensorNode, TensorNode>);

impl Twins {
    /// The twin of a node; the node itself if it holds no floats, or is f64 already.
    pub(crate) fn of(&mut self, node: &TensorNode) -> Result<TensorNode, tnode::TensorNodeError> {
        if !node.dtype().is_float() || node.dtype() == DType::F64 {
            return Ok(node.clone());
        }
        if let Some(twin) = self.0.get(node) {
            return Ok(twin.clone());
        }
        let builder =
            TensorNode::builder(node.label().to_vec()).dims(node.dims_without_padding()?).dtype(DType::F64);
        let builder = builder.run_sizes(node.run_sizes().into());
        let builder = match node.padding() {
            Some(padding) => builder.padding(padding.clone()),
            None => builder,
        };
        let is_virtual = node.mode().known_virtual();
        let twin = if is_virtual { builder.mode(MemoryMode::Virtual) } else { builder }.build()?;
        self.0.insert(node.clone(), twin.clone());
        Ok(twin)
    }

    /// A copy of the program in which twins replace the nodes.
    pub(crate) fn program(&mut self, program: &Assignments) -> Result<Assignments, tnode::TensorNodeError> {
        let steps = self.steps(&program.steps)?;
        Ok(Assignments { symbols: program.symbols.clone(), steps, ..Assignments::default() })
    }

    fn steps(&mut self, steps: &[ProgramStep]) -> Result<Vec<ProgramStep>, tnode::TensorNodeError> {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &ProgramStep) -> Result<ProgramStep, tnode::TensorNodeError> {
        Ok(match step {
            ProgramStep::Accum(accum) => ProgramStep::Accum(Box::new(self.accum(accum)?)),
            ProgramStep::Concat(parts) => {
                ProgramStep::Concat(parts.iter().map(|part| self.accum(part)).collect::<Result<_, _>>()?)
            }
            ProgramStep::Fetch { node, op, origin } => {
                ProgramStep::Fetch { node: self.of(node)?, op: self.fetch(op)?, origin: origin.clone() }
            }
            ProgramStep::Block { name, steps } => {
                ProgramStep::Block { name: name.clone(), steps: self.steps(steps)? }
            }
            step => step.clone(),
        })
    }

    fn fetch(&mut self, op: &FetchOp) -> Result<FetchOp, tnode::TensorNodeError> {
        Ok(match op {
            FetchOp::Slice { index, of } => FetchOp::Slice { index: *index, of: self.of(of)? },
            FetchOp::EmbedDim { of, axis } => FetchOp::EmbedDim { of: self.of(of)?, axis: *axis },
            FetchOp::Order { of, axis, is_descending } => {
                FetchOp::Order { of: self.of(of)?, axis: *axis, is_descending: *is_descending }
            }
            FetchOp::SampleValues(samples) => {
                FetchOp::SampleValues(SampleValues { of: self.of(&samples.of)?, ..samples.clone() })
            }
            op => op.clone(),
        })
    }

    fn accum(&mut self, accum: &Accum) -> Result<Accum, tnode::TensorNodeError> {
        let rhs = match &accum.rhs {
            Rhs::Copy(a) => Rhs::Copy(self.operand(a)?),
            Rhs::Unary(op, a) => Rhs::Unary(*op, self.operand(a)?),
            Rhs::Binary(op, [a, b]) => Rhs::Binary(*op, [self.operand(a)?, self.operand(b)?]),
            Rhs::Ternary(op, [a, b, c]) => {
                Rhs::Ternary(*op, [self.operand(a)?, self.operand(b)?, self.operand(c)?])
            }
        };
        let computed =
            accum.computed.iter().map(|operand| self.operand(operand)).collect::<Result<_, _>>()?;
        Ok(Accum { lhs: self.of(&accum.lhs)?, rhs, computed, ..accum.clone() })
    }

    fn operand(&mut self, operand: &Operand) -> Result<Operand, tnode::TensorNodeError> {
        Ok(match operand {
            Operand::Node(node) => Operand::Node(self.of(node)?),
            Operand::MergeBuffer(node) => Operand::MergeBuffer(self.of(node)?),
            Operand::Padded { node, outside } => Operand::Padded { node: self.of(node)?, outside: *outside },
            operand => operand.clone(),
        })
    }
}
