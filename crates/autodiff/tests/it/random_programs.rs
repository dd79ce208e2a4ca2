//! Random programs, whose gradients by all inputs of floats are compared with differences and with tangents.

use std::collections::BTreeMap;

use assignments::indexing::{AxisIndex, Projection, Projections, identity_projections};
use assignments::lower::{LowerOptions, lower};
use assignments::text::parse;
use assignments::{Accum, AccumOp, Assignments, FetchOp, Operand, ProgramStep, Rhs, builder};
use autodiff::{CheckError, CheckOptions, GradientErrorKind, check, gradient};
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp, Var};
use random_programs::{
    Accumulation, BinaryFunction, ExpressionKind, LeafKind, NodeMode, ProgramNumber, ProgramWeights,
    RandomProgram, StatementKind, TargetKind, UnaryFunction, program_from_seed,
};
use tnode::{DType, Dims, HostArray, Scalar, TensorNode};

use crate::compiled::{compare_optimised, compare_tangent};
use crate::support::{Input, noise};

/// Programs of floats and integers, mostly of operations with a derivative, whose values stay moderate.
fn weights() -> ProgramWeights {
    use Accumulation::{Add, Div, Max, Min, Mul, Store, Sub};
    use BinaryFunction as Op;
    use ExpressionKind::{Cast, Comparison, Fma, Function, Leaf, Operator, Where};
    use LeafKind::{Gather, Letter, Number, Own, Read, Symbol};
    use TargetKind::{Partial, Plain, Rewrite, Scatter};
    use UnaryFunction as F;
    ProgramWeights {
        statements_per_routine: 4,
        points: 60,
        extents: &[2, 3, 1, 4],
        types: &[DType::F64, DType::F64, DType::F64, DType::F64, DType::F64, DType::I32],
        statements: &[
            StatementKind::Assign,
            StatementKind::Assign,
            StatementKind::Assign,
            StatementKind::Concatenation,
            StatementKind::Slice,
        ],
        accumulations: &[Store, Add, Store, Add, Max, Add, Mul, Min, Store, Sub, Div, Store],
        targets: &[Plain, Plain, Partial, Scatter, Rewrite, Rewrite],
        result_modes: &[NodeMode::Undecided],
        ranks: &[1, 2, 0, 2, 3],
        rereads: (2, 3),
        levels: &[1, 2, 0, 1],
        expressions: &[Leaf, Operator, Operator, Operator, Function, Function, Where, Fma, Comparison, Cast],
        leaves: &[Read, Read, Read, Read, Read, Read, Gather, Own, Number, Letter, Symbol, Own],
        functions: &[
            F::Sin,
            F::Tanh,
            F::Neg,
            F::Abs,
            F::Relu,
            F::Exp,
            F::Cos,
            F::Satur01,
            F::Sin,
            F::Tanh,
            F::Sqrt,
            F::Recip,
        ],
        operators: &[Op::Mul, Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Min, Op::Div, Op::ReluGate],
        numbers: &[
            ProgramNumber::Fraction(0.5),
            ProgramNumber::Integer(1),
            ProgramNumber::Fraction(1.5),
            ProgramNumber::Fraction(0.3),
        ],
        ..ProgramWeights::one_routine()
    }
}

/// The program with one of its steps detached: no derivative goes through the values that the step stores.
fn detached(mut program: Assignments, seed: u64) -> Assignments {
    let count = program.steps.len().max(1) as u64;
    let from = usize::try_from(seed % count).unwrap_or(0);
    let stored = |step: &ProgramStep| step.accums().first().map(|accum| accum.lhs.clone());
    let found = program.steps.iter().enumerate().skip(from).find_map(|(at, step)| Some((at, stored(step)?)));
    if let Some((at, node)) = found {
        program.steps.insert(at + 1, ProgramStep::Detach(node));
    }
    program
}

/// The values that the host gives to a node: moderate floats that are not 0, and integers as drawn.
fn input(node: &TensorNode, data: &[u64], seed: usize) -> Input {
    let values = if node.dtype().is_float() {
        let sign = |x: f64| if x < 0.5 { -0.2 - 2.0 * x } else { 2.2 * x - 0.9 };
        noise(seed, data.len()).into_iter().map(sign).collect()
    } else {
        data.iter()
            .map(|&bits| Scalar::new(node.dtype(), bits.into()).as_i64().rem_euclid(4) as f64)
            .collect()
    };
    Input { node: node.clone(), values }
}

/// The sines of the elements of a node, but 0 where an element is large, infinite or NaN.
fn moderate_sines(sines: &TensorNode, node: &TensorNode) -> Option<Assignments> {
    let dims = node.dims_without_padding().ok()?;
    let like = |name: &str, dtype| {
        let name = format!("{}_{name}", sines.name());
        TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype).build().ok()
    };
    let (size, is_moderate, sine) =
        (like("size", DType::F64)?, like("is_moderate", DType::Bool)?, like("all", DType::F64)?);
    let at = || (dims.clone(), identity_projections(&dims));
    let number = |value: f64| {
        (Operand::Constant(Scalar::from_f64(DType::F64, value)), (Dims::new(), Projection::new()))
    };
    let ((limit, limit_at), (zero, zero_at)) = (number(30.0), number(0.0));
    let compared = Projections::new(&dims, at(), vec![at(), limit_at], "compare").ok()?;
    let chosen = Projections::new(&dims, at(), vec![at(), at(), zero_at], "choose").ok()?;
    let compare = Rhs::Binary(BinaryOp::Lt, [(&size).into(), limit]);
    let choose = Rhs::Ternary(TernaryOp::Where, [(&is_moderate).into(), (&sine).into(), zero]);
    let assign = |to: &TensorNode, rhs, by| builder::accumulate(false, AccumOp::Assign, to, rhs, by);
    let program = builder::unary(&size, UnaryOp::Abs, node).ok()?;
    let program = program.then(assign(&is_moderate, compare, compared));
    let program = program.then(builder::unary(&sine, UnaryOp::Sin, node).ok()?);
    Some(program.then(assign(sines, choose, chosen)))
}

/// The program with a loss behind it: the sum of the sines of all moderate elements that it writes.
fn with_loss(program: Assignments) -> Option<(Assignments, TensorNode)> {
    let scalar = |name: String| TensorNode::builder(name).dims([]).dtype(DType::F64).build().ok();
    let (mut all, mut loss) = (program.clone(), None);
    for (position, node) in program.written_nodes().iter().enumerate() {
        let dims = node.dims_without_padding().ok()?;
        if !node.dtype().is_float() || dims.contains(&0) || node.mode().known_virtual() {
            continue;
        }
        let sines = TensorNode::builder(format!("sines_{position}")).dims(dims.clone()).dtype(DType::F64);
        let (sines, part) = (sines.build().ok()?, scalar(format!("part_{position}"))?);
        all = all.then(moderate_sines(&sines, node)?);
        let letters: Vec<String> = (0..dims.len()).map(|axis| format!("i{axis},")).collect();
        let sum = match dims.len() {
            0 => builder::copy(&part, &sines),
            _ => builder::permute(&format!("{} => ", letters.concat()), &part, AccumOp::Add, &sines),
        };
        all = all.then(sum.unwrap_or_else(|error| panic!("{error}")));
        loss = match loss {
            None => Some(part),
            Some(before) => {
                let sum = scalar(format!("sum_{position}"))?;
                all = all.then(builder::binary(&sum, BinaryOp::Add, [&before, &part]).ok()?);
                Some(sum)
            }
        };
    }
    Some((all, loss?))
}

/// The result of one program.
enum Outcome {
    /// The gradients are close to the differences.
    Close(Assignments),
    /// The front end rejects the program.
    Rejected,
    /// The program has no gradient, for a documented reason.
    WithoutGradient,
    /// No input is a parameter, or the loss changes too fast for differences.
    NotComparable,
}

fn outcome(random: &RandomProgram, seed: u64) -> Result<Outcome, String> {
    let nodes: Vec<TensorNode> = random.nodes.iter().map(|node| node.tensor_node()).collect();
    let Ok(program) = parse(&random.text(0), &nodes) else { return Ok(Outcome::Rejected) };
    let written = program.written_nodes();
    let Some((program, loss)) = with_loss(program) else { return Ok(Outcome::NotComparable) };
    let bindings: Vec<i64> = program
        .symbols
        .iter()
        .map(|symbol| random.symbols.iter().position(|known| known.name == symbol.name))
        .map(|at| at.map_or(0, |at| random.rounds[0][at]))
        .collect();
    if lower(&program, &LowerOptions::default()).is_err() {
        return Ok(Outcome::Rejected);
    }
    let mut inputs: Vec<Input> = Vec::new();
    for (position, (node, drawn)) in nodes.iter().zip(&random.nodes).enumerate() {
        if let Some(data) = &drawn.data {
            inputs.push(input(node, data, position + 1000 * usize::try_from(seed).unwrap_or(0)));
        }
    }
    let parameters: Vec<&TensorNode> = inputs
        .iter()
        .map(|input| &input.node)
        .filter(|node| node.dtype().is_float() && !written.contains(node) && program.nodes().contains(node))
        .collect();
    if parameters.is_empty() {
        return Ok(Outcome::NotComparable);
    }
    let found = match gradient(&program, &loss, &parameters) {
        Ok(found) => found,
        Err(error) => {
            return match error.kind() {
                GradientErrorKind::Reduction { .. }
                | GradientErrorKind::ReadsWhatItWrites { .. }
                | GradientErrorKind::WritesSlice { .. }
                | GradientErrorKind::StaleSlice { .. } => Ok(Outcome::WithoutGradient),
                _ => Err(error.to_string()),
            };
        }
    };
    let arrays: Vec<(&TensorNode, HostArray)> =
        inputs.iter().map(|input| (&input.node, input.array())).collect();
    let mut differences = Vec::new();
    for step in [1e-5, 1e-6, 3e-5, 1e-7] {
        let options = CheckOptions { step, tolerance: 1e-4, bindings: bindings.clone() };
        match check(&program, &loss, &parameters, &arrays, &options) {
            Ok(_) => {
                compare_optimised(&found.program, &inputs, &found.gradients, &bindings)?;
                compare_tangent(&program, &loss, &found, inputs.clone(), &parameters, &bindings, 1e-9)?;
                let detached = detached(program.clone(), seed);
                let found = gradient(&detached, &loss, &parameters).map_err(|error| error.to_string())?;
                compare_tangent(&detached, &loss, &found, inputs.clone(), &parameters, &bindings, 1e-9)?;
                return Ok(Outcome::Close(program));
            }
            Err(CheckError::Differs { worst, .. }) => differences.push(worst),
            Err(error) => return Err(error.to_string()),
        }
    }
    // Differences that depend on the step are at a kink, or the loss changes too fast.
    let spread = differences.windows(2).any(|pair| {
        let (a, b) = (pair[0].difference, pair[1].difference);
        !(pair[0].index == pair[1].index && (a - b).abs() <= 1e-3 * (1.0 + a.abs()))
    });
    if spread || !differences[0].difference.is_finite() {
        return Ok(Outcome::NotComparable);
    }
    Err(format!("{:?}\n{}", differences[0], found.program))
}

/// The forms of access and the operations of a program.
fn count_forms(program: &Assignments, counts: &mut BTreeMap<&'static str, usize>) {
    let mut count = |form| *counts.entry(form).or_insert(0) += 1;
    for step in &program.steps {
        match step {
            ProgramStep::Concat(_) => count("concatenation"),
            ProgramStep::Fetch { op: FetchOp::Slice { .. }, .. } => count("slice"),
            _ => {}
        }
        for accum in step.accums() {
            count_accum(accum, &mut count);
        }
    }
}

fn count_accum(accum: &Accum, count: &mut impl FnMut(&'static str)) {
    let is_once = accum.projections.is_injective();
    match accum.op {
        AccumOp::Max | AccumOp::Min if !is_once => count("extreme of several values"),
        AccumOp::Mul if !is_once => count("product of several values"),
        AccumOp::Add if !is_once => count("sum of several values"),
        AccumOp::Mul | AccumOp::Div | AccumOp::Max | AccumOp::Min if !accum.init_neutral => {
            count("elementwise update");
        }
        _ => {}
    }
    let is_computed = |index: &AxisIndex| index.computed().is_some();
    if accum.projections.project_lhs().iter().any(is_computed) {
        count("scatter");
    }
    if !accum.init_neutral && !accum.projections.is_surjective() {
        count("partial target");
    }
    for (operand, projection) in accum.operands().zip(accum.projections.project_rhs()) {
        match operand {
            Operand::Padded { .. } => count("padded"),
            Operand::Node(node) if *node == accum.lhs => count("in place"),
            Operand::Node(_) => {}
            _ => continue,
        }
        count_indices(projection, count);
    }
}

fn count_indices(projection: &Projection, count: &mut impl FnMut(&'static str)) {
    let loops: Vec<Vec<_>> =
        projection.iter().map(|index| index.loop_terms().iter().map(|term| term.0).collect()).collect();
    let plain: Vec<_> = loops.iter().filter(|ids| ids.len() == 1).map(|ids| ids[0]).collect();
    if plain.windows(2).any(|pair| pair[0] > pair[1]) {
        count("permuted");
    }
    if plain.windows(2).any(|pair| pair[0] == pair[1]) {
        count("diagonal");
    }
    for index in projection {
        let has_symbol = index.affine().terms().iter().any(|(var, _)| matches!(var, Var::Symbol(_)));
        match index {
            AxisIndex::Computed(_) => count("gather"),
            _ if has_symbol => count("symbol"),
            AxisIndex::Fixed(_) => count("fixed"),
            AxisIndex::Affine(_) => count("affine"),
            _ => {}
        }
    }
}

#[test]
fn gradients_of_random_programs() {
    let (mut close, mut rejected, mut without, mut not_comparable) = (0, 0, 0, 0);
    let mut counts = BTreeMap::new();
    let mut failures = Vec::new();
    for seed in [1291, 2339].into_iter().chain(0..300) {
        let random = program_from_seed(seed, 300, &weights());
        match outcome(&random, seed) {
            Ok(Outcome::Close(program)) => {
                close += 1;
                count_forms(&program, &mut counts);
            }
            Ok(Outcome::Rejected) => rejected += 1,
            Ok(Outcome::WithoutGradient) => without += 1,
            Ok(Outcome::NotComparable) => not_comparable += 1,
            Err(why) => failures.push(format!("seed {seed}: {why}\n{}\n", random.text(0))),
        }
    }
    let summary = format!(
        "{close} close, {rejected} rejected, {without} without gradient, {not_comparable} not comparable\n{counts:?}"
    );
    assert!(failures.is_empty(), "{} failures; {summary}\n{}", failures.len(), failures.join("\n"));
    assert!(close >= 220, "{summary}");
    for form in [
        "affine",
        "concatenation",
        "diagonal",
        "elementwise update",
        "extreme of several values",
        "fixed",
        "gather",
        "in place",
        "padded",
        "partial target",
        "permuted",
        "product of several values",
        "scatter",
        "slice",
        "sum of several values",
        "symbol",
    ] {
        assert!(counts.get(form).is_some_and(|&count| count >= 2), "{form}: {summary}");
    }
}
