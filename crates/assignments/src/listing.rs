//! Prints assignments for people: each step on a line, in the notation of the project's predecessor (`=:+`
//! initializes, `=+` accumulates).
//!
//! Iterators print as `i0`, `i1`, … by product axis, and symbols by name. A node prints as the identifier of
//! its label, or with its id (`n12_w`) if another node of the assignments has the same identifier. No parser
//! reads listings.

use std::fmt;

use tnode::{AmbiguousIdents, IdentStyle, TensorNode};

use super::{
    Accum, AccumOp, Assignments, CustomGradient, FetchOp, KeyPart, Operand, ProgramStep, Random, Rhs,
    SampleValues,
};
use crate::indexing::{AxisIndex, StaticSymbol};
use lowered_ir::ir::{Affine, BinaryOp, SymbolId, Var};
use lowered_ir::random::Scheme;

impl fmt::Display for Assignments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes();
        let ambiguous = AmbiguousIdents::among(nodes.iter().map(TensorNode::label), &[]);
        steps(f, &self.steps, PrintedNames { symbols: &self.symbols, ambiguous: &ambiguous }, 0)
    }
}

/// The printed names of nodes and symbols.
#[derive(Clone, Copy)]
struct PrintedNames<'a> {
    symbols: &'a [StaticSymbol],
    ambiguous: &'a AmbiguousIdents,
}

impl PrintedNames<'_> {
    /// The node's code name, else its identifier.
    fn node(&self, node: &TensorNode) -> String {
        match node.code_name() {
            Some(_) => node.name(),
            None => node.styled_ident(IdentStyle::HeuristicDotGrad, self.ambiguous),
        }
    }
}

/// Prints one step on one line.
pub(crate) fn listing(step: &ProgramStep, symbols: &[StaticSymbol]) -> String {
    let names = PrintedNames { symbols, ambiguous: &AmbiguousIdents::default() };
    match step {
        ProgramStep::Fetch { node, op, .. } => format!("{} =: {}", names.node(node), fetch(op, names)),
        ProgramStep::Gradient { loss, parameters, .. } => gradient(loss, parameters, names),
        ProgramStep::Detach(node) => format!("detach {}", names.node(node)),
        ProgramStep::CustomGradient(custom) => custom_gradient(custom, names),
        step => {
            let listed = |accum| Accumulation { accum, names }.to_string();
            step.accums().iter().map(listed).collect::<Vec<_>>().join("; ")
        }
    }
}

fn steps(
    f: &mut fmt::Formatter<'_>,
    list: &[ProgramStep],
    names: PrintedNames<'_>,
    depth: usize,
) -> fmt::Result {
    list.iter().try_for_each(|step| {
        write!(f, "{:width$}", "", width = 2 * depth)?;
        match step {
            ProgramStep::Accum(accum) => writeln!(f, "{};", Accumulation { accum, names }),
            ProgramStep::Concat(parts) => {
                writeln!(f, "# concat;")?;
                for accum in parts {
                    writeln!(f, "{:width$}{};", "", Accumulation { accum, names }, width = 2 * depth + 2)?;
                }
                writeln!(f, "{:width$}# end", "", width = 2 * depth)
            }
            ProgramStep::Fetch { node, op, .. } => {
                writeln!(f, "{} =: {};", names.node(node), fetch(op, names))
            }
            ProgramStep::Gradient { loss, parameters, .. } => {
                writeln!(f, "{};", gradient(loss, parameters, names))
            }
            ProgramStep::Detach(node) => writeln!(f, "detach {};", names.node(node)),
            ProgramStep::CustomGradient(custom) => writeln!(f, "{};", custom_gradient(custom, names)),
            ProgramStep::Remark(text) => writeln!(f, "# {text}"),
            ProgramStep::Block { name, steps: inner } => {
                writeln!(f, "# \"{name}\";")?;
                steps(f, inner, names, depth + 1)?;
                writeln!(f, "{:width$}# end", "", width = 2 * depth)
            }
            ProgramStep::Scan { symbol, steps: inner, end } => {
                let range = names.symbols.get(symbol.index()).and_then(|symbol| symbol.range).unwrap_or(0);
                let end = end.as_ref().map_or(String::new(), |end| {
                    let word = if end.is_final { "while" } else { "if" };
                    format!(" {word} {}", names.node(&end.node))
                });
                writeln!(f, "# scan {} in 0..{range}{end};", symbol_name(*symbol, names.symbols))?;
                steps(f, inner, names, depth + 1)?;
                writeln!(f, "{:width$}# end", "", width = 2 * depth)
            }
        }
    })
}

fn custom_gradient(custom: &CustomGradient, names: PrintedNames<'_>) -> String {
    let list =
        |nodes: &[TensorNode]| nodes.iter().map(|node| names.node(node)).collect::<Vec<_>>().join(", ");
    format!("custom gradient of {} by {}", list(&custom.outputs), list(&custom.inputs))
}

fn gradient(loss: &TensorNode, parameters: &[(TensorNode, TensorNode)], names: PrintedNames<'_>) -> String {
    let list = |nodes: Vec<&TensorNode>| {
        nodes.into_iter().map(|node| names.node(node)).collect::<Vec<_>>().join(", ")
    };
    let (by, written) = parameters.iter().map(|(parameter, gradient)| (parameter, gradient)).unzip();
    format!("{} =: grad {} by {}", list(written), names.node(loss), list(by))
}

fn fetch(op: &FetchOp, names: PrintedNames<'_>) -> String {
    let symbols = names.symbols;
    match op {
        FetchOp::Constant(value) => value.to_string(),
        FetchOp::ConstantBits(bits) => format!("bits({bits:#x})"),
        FetchOp::ConstantFill(values) => format!("{values:?}"),
        FetchOp::RangeOverOffsets => "range_over_offsets".to_owned(),
        FetchOp::EmbedSymbol(id) => symbol_name(*id, symbols),
        FetchOp::EmbedSelfId => "self_id".to_owned(),
        FetchOp::EmbedDim { of, axis } => format!("size({}, {axis})", names.node(of)),
        FetchOp::Random(random) => random_call(random, symbols, Vec::new()),
        FetchOp::SampleValues(SampleValues { distribution, scheme, of }) => {
            format!("{}({})", distribution.token(), in_scheme(*scheme, names.node(of)))
        }
        FetchOp::Order { of, axis, is_descending } => {
            let order = if *is_descending { "descending" } else { "ascending" };
            format!("{order}({}, {axis})", names.node(of))
        }
        FetchOp::Slice { index, of } => {
            format!("slice({}, {})", names.node(of), symbol_name(*index, symbols))
        }
    }
}

/// Random numbers in the notation of assignment text.
fn random_call(random: &Random, symbols: &[StaticSymbol], cell: Vec<String>) -> String {
    let part = |part: &KeyPart| match part {
        KeyPart::Number(number) => number.to_string(),
        KeyPart::Symbol(id) => symbol_name(*id, symbols),
    };
    let seed = in_scheme(random.scheme, random.seed.to_string());
    let parts = random.key.iter().map(part).chain(cell);
    let args: Vec<String> = std::iter::once(seed).chain(parts).collect();
    format!("{}({})", random.distribution.token(), args.join(", "))
}

fn in_scheme(scheme: Scheme, argument: String) -> String {
    match scheme.token() {
        None => argument,
        Some(token) => format!("{token}({argument})"),
    }
}

fn symbol_name(id: SymbolId, symbols: &[StaticSymbol]) -> String {
    symbols.get(id.index()).map_or_else(|| format!("@{}", id.0), StaticSymbol::to_string)
}

/// One accumulation on one line.
struct Accumulation<'a> {
    accum: &'a Accum,
    names: PrintedNames<'a>,
}

impl fmt::Display for Accumulation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accum = self.accum;
        let lhs = self.names.node(&accum.lhs) + &self.indices(accum.projections.project_lhs());
        let init = if accum.init_neutral || accum.op == AccumOp::Assign { ":" } else { "" };
        write!(f, "{lhs} ={init}{} {}", spelling(accum.op), self.rhs())?;
        let ends = accum.projections.product_iterators().iter().zip(accum.projections.clips());
        let ends = ends.flat_map(|(iterator, clips)| clips.iter().map(move |clip| (iterator, clip)));
        ends.enumerate().try_for_each(|(at, (iterator, clip))| {
            let before = if at == 0 { " where" } else { "," };
            write!(f, "{before} {iterator} < {}", self.affine(clip))
        })
    }
}

impl Accumulation<'_> {
    fn rhs(&self) -> String {
        let arg = |at: usize| self.operand(at);
        match &self.accum.rhs {
            Rhs::Copy(_) => arg(0),
            Rhs::Unary(op, _) => format!("{op}({})", arg(0)),
            Rhs::Binary(op, _) if is_infix(*op) => format!("{} {op} {}", arg(0), arg(1)),
            Rhs::Binary(op, _) => format!("{op}({}, {})", arg(0), arg(1)),
            Rhs::Ternary(op, _) => format!("{op}({}, {}, {})", arg(0), arg(1), arg(2)),
        }
    }

    fn operand(&self, at: usize) -> String {
        let projection = self.accum.projections.project_rhs().get(at).map_or(&[][..], |p| p);
        let indices = || self.indices(projection);
        match self.accum.operands().nth(at) {
            Some(Operand::Node(node)) => self.names.node(node) + &indices(),
            Some(Operand::MergeBuffer(node)) => format!("{}.merge{}", self.names.node(node), indices()),
            Some(Operand::Padded { node, outside }) => {
                format!("pad({}, {outside}){}", self.names.node(node), indices())
            }
            Some(Operand::Constant(value)) => value.to_string(),
            Some(Operand::Random { random, .. }) => random_call(
                random,
                self.names.symbols,
                projection.iter().map(|index| self.index(index)).collect(),
            ),
            Some(Operand::Index(_)) => projection.iter().map(|index| self.index(index)).collect(),
            None => String::new(),
        }
    }

    fn indices(&self, projection: &[AxisIndex]) -> String {
        if projection.is_empty() {
            return String::new();
        }
        let indices: Vec<String> = projection.iter().map(|index| self.index(index)).collect();
        format!("[{}]", indices.join(", "))
    }

    fn index(&self, index: &AxisIndex) -> String {
        if let Some(operand) = index.computed() {
            return self.operand(operand);
        }
        self.affine(&index.affine())
    }

    fn affine(&self, index: &Affine) -> String {
        affine(index, |var| match var {
            Var::Loop(id) => id.to_string(),
            Var::Symbol(id) => symbol_name(id, self.names.symbols),
        })
    }
}

/// Prints an affine form, such as `2*i0 + i1 - 1`.
pub(crate) fn affine(index: &Affine, name: impl Fn(Var) -> String) -> String {
    let mut text = String::new();
    let mut push = |negative: bool, term: String| {
        text += match (text.is_empty(), negative) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        text += &term;
    };
    for &(var, c) in index.terms() {
        let size = c.unsigned_abs();
        push(c < 0, if size == 1 { name(var) } else { format!("{size}*{}", name(var)) });
    }
    let offset = index.offset();
    if offset != 0 || index.terms().is_empty() {
        push(offset < 0, offset.unsigned_abs().to_string());
    }
    text
}

fn is_infix(op: BinaryOp) -> bool {
    !op.token().starts_with(|c: char| c.is_ascii_alphabetic())
}

/// The sign of an accumulating operation in the predecessor's notation.
fn spelling(op: AccumOp) -> &'static str {
    match op {
        AccumOp::Assign => "",
        AccumOp::Add => "+",
        AccumOp::Sub => "-",
        AccumOp::Mul => "*",
        AccumOp::Div => "/",
        AccumOp::Pow => "**",
        AccumOp::Max => "@^",
        AccumOp::Min => "@-",
        AccumOp::ReluGate => "?/",
        AccumOp::Satur01Gate => "?^",
        AccumOp::Or => "||",
        AccumOp::And => "&&",
    }
}
