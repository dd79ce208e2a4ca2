//! Prints the items of programs. The printed text parses to the same items.

use std::fmt::{self, Display, Formatter};

use crate::ast::{
    Access, Argument, Call, Declaration, Def, Detach, ExpandedStep, Expr, ExprKind, Fetch, Gradient, Index,
    Initial, Item, KeyArgument, Parameter, Pattern, PatternAxis, RandomCall, Repeat, Row, ScanStart,
    SizeItem, Statement, View,
};
use crate::linear::{Atom, AxisSize, IndexExpr, IndexExprKind};
use crate::number::Number;
use crate::source::on_one_line;
use assignments::AccumOp;
use assignments::indexing::step_letter;
use lowered_ir::ir::{BinaryOp, UnaryOp};
use lowered_ir::random::Scheme;

/// The items of a program, one per line and indented by `depth` levels.
pub(crate) struct Lines<'a> {
    pub(crate) items: &'a [Item],
    pub(crate) depth: usize,
}

impl Display for Lines<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let margin = "    ".repeat(self.depth);
        self.items.iter().try_for_each(|item| {
            f.write_str(&margin)?;
            match item {
                Item::Statement(statement) => writeln!(f, "{statement}"),
                Item::Size(size) => writeln!(f, "{size}"),
                Item::Call(call) => writeln!(f, "{call}"),
                Item::Declaration(declaration) => writeln!(f, "{declaration}"),
                Item::Keep(target) => writeln!(f, "keep {}", NodeName(target)),
                Item::Recompute(target) => writeln!(f, "recompute {}", NodeName(target)),
                Item::View(view) => writeln!(f, "{view}"),
                Item::Gradient(gradient) => writeln!(f, "{gradient}"),
                Item::Detach(detach) => writeln!(f, "{detach}"),
                Item::Def(def) => self.block(f, &**def, &def.body, &margin),
                Item::Repeat(repeat) => self.block(f, &Head("repeat", repeat), &repeat.body, &margin),
                Item::Scan(scan) => self.block(f, &Head("scan", scan), &scan.body, &margin),
            }
        })
    }
}

impl Lines<'_> {
    fn block(&self, f: &mut Formatter<'_>, head: &dyn Display, body: &[Item], margin: &str) -> fmt::Result {
        let body = Lines { items: body, depth: self.depth + 1 };
        writeln!(f, "{head} {{\n{body}{margin}}}")
    }
}

/// Items separated by commas.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(at, item)| {
            f.write_str(if at == 0 { "" } else { ", " })?;
            item.fmt(f)
        })
    }
}

/// The name of a node, with its position in a family.
struct NodeName<'a>(&'a Access);

impl Display for NodeName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Access { name, family, .. } = self.0;
        f.write_str(name)?;
        self::family(f, family)
    }
}

/// The position of a node in its family, if it is in one.
fn family(f: &mut Formatter<'_>, position: &[IndexExpr]) -> fmt::Result {
    if position.is_empty() { Ok(()) } else { brackets(f, position) }
}

impl Display for Declaration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.token(), NodeName(&self.target))?;
        if let Some(dtype) = self.dtype {
            write!(f, " {dtype}")?;
        }
        brackets(f, &self.sizes)?;
        match &self.initial {
            Some(Initial { value: Some(value), .. }) => write!(f, " := {value}"),
            Some(Initial { fill: Some(fill), .. }) => write!(f, " := {fill}"),
            Some(_) | None => Ok(()),
        }
    }
}

impl Display for View {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "view {} = {} as [{}]", NodeName(&self.target), NodeName(&self.of), List(&self.sizes))
    }
}

impl Display for Gradient {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parameters: Vec<NodeName> = self.parameters.iter().map(NodeName).collect();
        write!(f, "grad {} by {}", NodeName(&self.loss), List(&parameters))
    }
}

impl Display for Detach {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "detach {}", NodeName(&self.node))
    }
}

impl Display for SizeItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "size {}", self.name)?;
        self.value.as_ref().map_or(Ok(()), |value| write!(f, " = {value}"))?;
        self.bound.as_ref().map_or(Ok(()), |bound| write!(f, " <= {bound}"))
    }
}

/// The part before the body of a repetition or scan, which begins with the word.
struct Head<'a>(&'static str, &'a Repeat);

impl Display for Head<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Head(word, Repeat { letter, from, to, condition, every, .. }) = self;
        write!(f, "{word} {letter} in {from}..{to}")?;
        condition.as_ref().map_or(Ok(()), |condition| write!(f, " while {condition}"))?;
        every.as_ref().map_or(Ok(()), |every| write!(f, " checkpoint every {every}"))
    }
}

/// The name of a symbol: the letter of a scan, or the name behind `@`.
struct SymbolName<'a>(&'a str);

impl Display for SymbolName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match step_letter(self.0) {
            Some(letter) => f.write_str(letter),
            None => write!(f, "@{}", self.0),
        }
    }
}

/// Prints the part before the body.
impl Display for Def {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "def {}({})", self.name, List(&self.parameters))?;
        if self.results.is_empty() { Ok(()) } else { write!(f, " -> {}", List(&self.results)) }
    }
}

impl Display for Parameter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Array { pattern, inout: true } => write!(f, "inout {pattern}"),
            Parameter::Array { pattern, inout: false } => pattern.fmt(f),
            Parameter::Scalar { name, default: None, .. } => f.write_str(name),
            Parameter::Scalar { name, default: Some(value), .. } => write!(f, "{name} = {value}"),
        }
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(PatternAxis::to_string).collect();
        write!(f, "{}[{}]", self.name, axes.join(","))
    }
}

impl Display for PatternAxis {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PatternAxis::Letter(letter, _) => f.write_str(letter),
            PatternAxis::Row(row) => row.fmt(f),
        }
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { f.write_str("..") } else { write!(f, "..{}..", self.name) }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.function, List(&self.arguments))?;
        self.indices.as_ref().map_or(Ok(()), |indices| brackets(f, indices))
    }
}

impl Display for Argument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some((name, _)) => write!(f, "{name} = {}", self.value),
            None => self.value.fmt(f),
        }
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let init = if self.init { ":" } else { "" };
        let op = if self.op == AccumOp::Assign { ":=".to_owned() } else { format!("{init}{}", self.op) };
        write!(f, "{} {op} ", List(&self.lhs))?;
        match &self.fetch {
            Some(fetch) => fetch.fmt(f)?,
            // Without parentheses, a random number alone would fill the whole target.
            None if matches!(self.rhs.as_slice(), [Expr { kind: ExprKind::Random(_), .. }]) => {
                write!(f, "({})", self.rhs[0])?;
            }
            None => List(&self.rhs).fmt(f)?,
        }
        if self.constraints.is_empty() { Ok(()) } else { write!(f, " where {}", List(&self.constraints)) }
    }
}

impl Display for Fetch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Fetch::Offsets => f.write_str("offsets()"),
            Fetch::SelfId => f.write_str("self_id()"),
            Fetch::Values(numbers) => {
                let numbers: Vec<&Number> = numbers.iter().map(|(number, _)| number).collect();
                write!(f, "values({})", List(&numbers))
            }
            Fetch::Bits(bits, _) => write!(f, "bits({bits:#x})"),
            Fetch::Slice { of, symbol } => write!(f, "slice({}, {})", NodeName(of), SymbolName(symbol)),
            Fetch::Order { of, axis, is_descending } => {
                let order = if *is_descending { "descending" } else { "ascending" };
                write!(f, "{order}({}, {axis})", NodeName(of))
            }
            Fetch::Random(call) => call.fmt(f),
            Fetch::SampleValues { distribution, scheme, of } => {
                write!(f, "{}({})", distribution.token(), in_scheme(*scheme, &of.name))
            }
        }
    }
}

impl Display for RandomCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}", self.distribution.token(), in_scheme(self.scheme, &self.seed.to_string()))?;
        self.parts.iter().try_for_each(|part| match part {
            KeyArgument::SelfId(_) => f.write_str(", self_id()"),
            KeyArgument::Index(index) => write!(f, ", {index}"),
            KeyArgument::Row(row) => write!(f, ", {row}"),
        })?;
        f.write_str(")")
    }
}

fn in_scheme(scheme: Scheme, argument: &str) -> String {
    scheme.token().map_or_else(|| argument.to_owned(), |token| format!("{token}({argument})"))
}

impl Display for Atom {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Letter(name) => f.write_str(name),
            Atom::Symbol(name) => SymbolName(name).fmt(f),
        }
    }
}

impl Display for Access {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.merge {
            f.write_str(".merge")?;
        }
        if !self.family.is_empty() {
            brackets(f, &self.family)?;
        }
        match self.indices.is_empty() && self.family.is_empty() {
            true => Ok(()),
            false => brackets(f, &self.indices),
        }
    }
}

fn brackets<T: Display>(f: &mut Formatter<'_>, indices: &[T]) -> fmt::Result {
    let indices: Vec<String> = indices.iter().map(T::to_string).collect();
    write!(f, "[{}]", indices.join(","))
}

impl Display for Index {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Index::Linear(index) => index.fmt(f),
            Index::Concat(concat) => {
                let letters: Vec<&str> = concat.letters.iter().map(|(letter, _)| letter.as_str()).collect();
                f.write_str(&letters.join("^"))
            }
            Index::Row(row) => row.fmt(f),
            Index::Computed(expr) => expr.fmt(f),
        }
    }
}

impl Display for IndexExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            IndexExprKind::Number(number) => number.fmt(f),
            IndexExprKind::Atom(atom) => atom.fmt(f),
            IndexExprKind::LetterSize(letter) => write!(f, "size({letter})"),
            IndexExprKind::AxisSize(size) => size.fmt(f),
            IndexExprKind::Negated(inner) => write!(f, "-{}", IndexFactor(inner)),
            IndexExprKind::Sum(first, others) => {
                IndexTerm(first).fmt(f)?;
                others.iter().try_for_each(|(minus, term)| {
                    write!(f, " {} {}", if *minus { "-" } else { "+" }, IndexTerm(term))
                })
            }
            IndexExprKind::Product(first, others) => {
                IndexFactor(first).fmt(f)?;
                others
                    .iter()
                    .try_for_each(|(op, _, factor)| write!(f, "{}{}", op.token(), IndexFactor(factor)))
            }
        }
    }
}

/// An index as a term of a sum.
struct IndexTerm<'a>(&'a IndexExpr);

impl Display for IndexTerm<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        parenthesized(f, self.0, matches!(self.0.kind, IndexExprKind::Sum(..)))
    }
}

/// An index as a factor of a product.
struct IndexFactor<'a>(&'a IndexExpr);

impl Display for IndexFactor<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_loose = matches!(self.0.kind, IndexExprKind::Sum(..) | IndexExprKind::Product(..));
        parenthesized(f, self.0, is_loose)
    }
}

fn parenthesized(f: &mut Formatter<'_>, inner: &dyn Display, enclosed: bool) -> fmt::Result {
    if enclosed { write!(f, "({inner})") } else { inner.fmt(f) }
}

impl Display for AxisSize {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "size({}", self.node)?;
        family(f, &self.family)?;
        write!(f, ", {})", self.axis)
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.int {
            Some(int) => int.fmt(f),
            // Digits beyond the range of `f64`.
            None if self.is_literal && self.value.is_infinite() => {
                f.write_str(if self.value < 0.0 { "-1e999" } else { "1e999" })
            }
            None if self.value.is_nan() => f.write_str("nan"),
            None => write!(f, "{:?}", self.value),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Number(number) => number.fmt(f),
            ExprKind::Name(name) | ExprKind::Letter(name) => f.write_str(name),
            ExprKind::Symbol(name) => SymbolName(name).fmt(f),
            // Without brackets, a name could be a letter.
            ExprKind::Access(access)
                if access.indices.is_empty() && access.family.is_empty() && !access.merge =>
            {
                write!(f, "{}[]", access.name)
            }
            ExprKind::Access(access) => access.fmt(f),
            ExprKind::Pad(access, outside, _) => {
                write!(f, "pad({}, {outside})", access.name)?;
                if !access.family.is_empty() {
                    brackets(f, &access.family)?;
                }
                brackets(f, &access.indices)
            }
            ExprKind::Size(letter) => write!(f, "size({letter})"),
            ExprKind::AxisSize(size) => size.fmt(f),
            ExprKind::RowSize(row) => write!(f, "size({row})"),
            // `-2` is one number.
            ExprKind::Unary(UnaryOp::Neg, a) if !matches!(a.kind, ExprKind::Number(_)) => {
                write!(f, "-{}", Operand(a, FACTOR))
            }
            ExprKind::Unary(op, a) => write!(f, "{}({a})", op.token()),
            ExprKind::Binary(op, a, b) => match precedence(*op) {
                None => write!(f, "{}({a}, {b})", op.token()),
                Some(own) => {
                    let left = if own == COMPARISON { SUM } else { own };
                    write!(f, "{} {} {}", Operand(a, left), op.token(), Operand(b, own + 1))
                }
            },
            ExprKind::Exchanged(op, a, b) => {
                let sign = if *op == BinaryOp::Lt { ">" } else { ">=" };
                write!(f, "{} {sign} {}", Operand(a, SUM), Operand(b, SUM))
            }
            ExprKind::Ternary(op, args) => write!(f, "{}({})", op.token(), List(args.as_slice())),
            ExprKind::Cast(dtype, a) => write!(f, "{}({a})", dtype.token()),
            ExprKind::Random(call) => call.fmt(f),
            ExprKind::Call(call) => call.fmt(f),
        }
    }
}

const COMPARISON: u8 = 0;
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const FACTOR: u8 = 3;

/// How tightly an infix operation binds its operands; `None` for functions.
fn precedence(op: BinaryOp) -> Option<u8> {
    match op {
        _ if op.is_comparison() => Some(COMPARISON),
        BinaryOp::Add | BinaryOp::Sub => Some(SUM),
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => Some(PRODUCT),
        _ => None,
    }
}

/// An operand of an operation that binds at least as tightly as the number.
struct Operand<'a>(&'a Expr, u8);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let own = match &self.0.kind {
            ExprKind::Binary(op, ..) => precedence(*op).unwrap_or(FACTOR),
            ExprKind::Exchanged(..) => COMPARISON,
            _ => FACTOR,
        };
        parenthesized(f, self.0, own < self.1)
    }
}

/// A step on one line: as the text has it, or as expansion made it.
pub(crate) fn source_line(step: &ExpandedStep, text: &str) -> String {
    match step {
        ExpandedStep::Statement(statement) if statement.is_expanded => statement.to_string(),
        ExpandedStep::Statement(Statement { span, .. }) => on_one_line(text, span),
        ExpandedStep::Gradient(gradient) => gradient.to_string(),
        ExpandedStep::Detach(detach) => detach.to_string(),
        ExpandedStep::ScanStart(ScanStart { span, .. }) | ExpandedStep::ScanEnd(span) => {
            on_one_line(text, span)
        }
    }
}
