//! A program as lists of flat indices: for every statement, the element that each access has at each point of
//! the statement's product space, in the order of the loops.

use assignments::indexing::{AxisIndex, Projections};
use assignments::{Accum, AccumOp, Assignments, FetchOp, Operand, ProgramStep, Rhs};
use lowered_ir::ir::{Affine, Var};
use serde_json::{Value, json};
use tnode::{DType, Scalar, TensorNode};

/// The program for the script. `None` if it has a step that the script does not know, such as random numbers.
pub(super) fn program(
    program: &Assignments,
    bindings: &[i64],
    given: &[(TensorNode, Option<Vec<f64>>)],
    parameters: &[TensorNode],
    loss: &TensorNode,
) -> Option<Value> {
    let mut exporter =
        Exporter { program, bindings, nodes: given.iter().map(|(node, _)| node.clone()).collect() };
    let steps = program.steps.iter().map(|step| exporter.step(step)).collect::<Option<Vec<_>>>()?.concat();
    let node = |node: &TensorNode| {
        let values = given.iter().find(|(known, _)| known == node).and_then(|(_, values)| values.clone());
        let size: usize = node.dims_without_padding().ok()?.iter().product();
        Some(json!({ "dtype": node.dtype().to_string(), "size": size, "values": values }))
    };
    let nodes = exporter.nodes.iter().map(node).collect::<Option<Vec<_>>>()?;
    let position = |node: &TensorNode| exporter.nodes.iter().position(|known| known == node);
    let parameters = parameters.iter().map(position).collect::<Option<Vec<_>>>()?;
    Some(json!({ "nodes": nodes, "steps": steps, "parameters": parameters, "loss": position(loss)? }))
}

struct Exporter<'a> {
    program: &'a Assignments,
    /// The values of the symbols.
    bindings: &'a [i64],
    /// The nodes, which the export numbers.
    nodes: Vec<TensorNode>,
}

impl Exporter<'_> {
    fn number(&mut self, node: &TensorNode) -> usize {
        self.nodes.iter().position(|known| known == node).unwrap_or_else(|| {
            self.nodes.push(node.clone());
            self.nodes.len() - 1
        })
    }

    fn step(&mut self, step: &ProgramStep) -> Option<Vec<Value>> {
        match step {
            ProgramStep::Accum(_) | ProgramStep::Concat(_) => self.accums(step.accums()),
            ProgramStep::Fetch { node, op, .. } => Some(vec![self.fetch(node, op)?]),
            ProgramStep::Remark(_) => Some(Vec::new()),
            // The programs of the generator have none of these.
            ProgramStep::Block { .. }
            | ProgramStep::Scan { .. }
            | ProgramStep::Detach(_)
            | ProgramStep::CustomGradient(_)
            | ProgramStep::Gradient { .. } => None,
        }
    }

    /// All targets are filled before the first accumulation.
    fn accums(&mut self, accums: &[Accum]) -> Option<Vec<Value>> {
        let mut steps = Vec::new();
        for accum in accums.iter().filter(|accum| accum.init_neutral) {
            let (target, value) = (self.number(&accum.lhs), accum.op.neutral(accum.lhs.dtype()));
            steps.push(json!({ "target": target, "fill": number(value) }));
        }
        for accum in accums {
            steps.push(self.accum(accum)?);
        }
        Some(steps)
    }

    fn accum(&mut self, accum: &Accum) -> Option<Value> {
        let points = self.points(&accum.projections);
        let operands: Vec<Value> = (0..accum.operands().count())
            .map(|at| self.operand(accum, at, &points))
            .collect::<Option<_>>()?;
        let target = self.access(&accum.lhs, accum.projections.project_lhs(), &points)?;
        let op = match &accum.rhs {
            Rhs::Copy(_) => "copy",
            Rhs::Unary(op, _) => op.token(),
            Rhs::Binary(op, _) => op.token(),
            Rhs::Ternary(op, _) => op.token(),
        };
        Some(json!({
            "target": target,
            "accumulate": accum.op.token(),
            "op": op,
            "dtype": accum.rhs.operation_dtype().to_string(),
            "operands": operands,
        }))
    }

    fn fetch(&mut self, node: &TensorNode, op: &FetchOp) -> Option<Value> {
        let dims = node.dims_without_padding().ok()?;
        let size: usize = dims.iter().product();
        let target = self.number(node);
        let values = match op {
            FetchOp::Constant(value) => vec![*value; size],
            FetchOp::ConstantFill(values) => values.clone(),
            FetchOp::RangeOverOffsets => (0..size).map(|at| at as f64).collect(),
            FetchOp::EmbedSymbol(id) => vec![self.bindings[id.index()] as f64; size],
            FetchOp::Slice { index, of } => {
                let first = self.bindings[index.index()] * i64::try_from(size).ok()?;
                let indices: Vec<i64> = (first..).take(size).collect();
                let whole: Vec<usize> = (0..size).collect();
                return Some(json!({
                    "target": { "node": target, "index": whole },
                    "accumulate": "",
                    "op": "copy",
                    "dtype": of.dtype().to_string(),
                    "operands": [{ "node": self.number(of), "index": indices, "outside": 0 }],
                }));
            }
            _ => return None,
        };
        Some(json!({ "target": target, "fill": values }))
    }

    /// The iterators' values at each point, in the order of the loops.
    fn points(&self, projections: &Projections) -> Vec<Vec<i64>> {
        let iterators = projections.product_iterators();
        let axes = iterators.last().map_or(0, |last| last.index() + 1);
        let mut points = vec![vec![0; axes]];
        for (at, iterator) in iterators.iter().enumerate() {
            let mut longer = Vec::new();
            for point in points {
                let clips = projections.clips()[at].iter().map(|clip| self.index(clip, &point));
                let extent = i64::try_from(projections.product_space()[at]).unwrap_or(0);
                for value in 0..clips.fold(extent, i64::min) {
                    let mut point = point.clone();
                    point[iterator.index()] = value;
                    longer.push(point);
                }
            }
            points = longer;
        }
        points
    }

    /// The value of an index at a point.
    fn index(&self, index: &Affine, point: &[i64]) -> i64 {
        let value = |var| match var {
            Var::Loop(id) => point.get(id.index()).copied().unwrap_or(0),
            Var::Symbol(id) => self.bindings[id.index()],
        };
        index.terms().iter().fold(index.offset(), |sum, &(var, factor)| sum + factor * value(var))
    }

    /// An element of a node at every point: a flat index, or -1 outside of the node.
    fn access(&mut self, node: &TensorNode, projection: &[AxisIndex], points: &[Vec<i64>]) -> Option<Value> {
        let dims = node.dims_without_padding().ok()?;
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        let flat = |point: &Vec<i64>| {
            projection.iter().zip(dims.iter().zip(&strides)).try_fold(0, |sum, (index, (&dim, &stride))| {
                let at = usize::try_from(self.index(&index.affine(), point)).ok().filter(|&at| at < dim)?;
                Some(sum + at * stride)
            })
        };
        let flat: Vec<i64> =
            points.iter().map(|point| flat(point).map_or(-1, |at| i64::try_from(at).unwrap_or(-1))).collect();
        let computed = projection.iter().enumerate().find_map(|(axis, index)| {
            let operand = index.computed()?;
            Some(json!({ "operand": operand, "extent": dims[axis], "stride": strides[axis] }))
        });
        Some(json!({ "node": self.number(node), "index": flat, "computed": computed }))
    }

    fn operand(&mut self, accum: &Accum, at: usize, points: &[Vec<i64>]) -> Option<Value> {
        let projection = &accum.projections.project_rhs()[at];
        let operand = accum.operands().nth(at)?;
        match operand {
            Operand::Node(node) | Operand::Padded { node, .. } => {
                let is_computed = projection.iter().any(|index| index.computed().is_some());
                let is_padded = matches!(operand, Operand::Padded { .. });
                let outside =
                    if is_computed || is_padded { accum.outside(at) } else { self.margin(accum, at, node) };
                let mut access = self.access(node, projection, points)?;
                access["outside"] = number(outside);
                Some(access)
            }
            Operand::Constant(value) => Some(
                json!({ "dtype": value.dtype().to_string(), "values": vec![number(*value); points.len()] }),
            ),
            Operand::Index(dtype) => {
                let index = projection[0].affine();
                let values: Vec<i64> = points.iter().map(|point| self.index(&index, point)).collect();
                Some(json!({ "dtype": dtype.to_string(), "values": values }))
            }
            _ => None,
        }
    }

    /// The value in the margins of a node that an accumulation reads.
    fn margin(&self, accum: &Accum, at: usize, node: &TensorNode) -> Scalar {
        let is_index = at >= accum.rhs.operands().len();
        let reader = if is_index { AccumOp::Assign } else { self.reader(accum) };
        let declared = node.padding().and_then(|padding| padding.neutral).unwrap_or(0.0);
        match reader {
            AccumOp::Assign => Scalar::from_f64(node.dtype(), declared),
            op => op.neutral(node.dtype()),
        }
    }

    /// The operation that accumulates the values of an accumulation: that of the first reader of a virtual
    /// node, else its own.
    fn reader(&self, accum: &Accum) -> AccumOp {
        if accum.op != AccumOp::Assign || !accum.lhs.mode().known_virtual() {
            return accum.op;
        }
        let reads = |reader: &&Accum| reader.operands().any(|operand| operand.node() == Some(&accum.lhs));
        let mut accums = self.program.steps.iter().flat_map(|step| step.accums());
        accums.find(reads).map_or(AccumOp::Assign, |first| self.reader(first))
    }
}

/// A number for JSON, which has no infinities.
fn number(value: Scalar) -> Value {
    let value = if value.dtype() == DType::Bool { f64::from(value.as_bool()) } else { value.as_f64() };
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}
