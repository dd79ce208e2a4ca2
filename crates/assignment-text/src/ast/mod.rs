//! The syntax tree of assignment text, with unresolved names.
//!
//! A program is a list of [`Item`]s. Expansion leaves only statements and declarations, without calls of
//! functions, families of names, row variables and names of sizes.

mod expr;

use std::sync::Arc;

use tnode::DType;

pub(crate) use self::expr::{Expr, ExprKind, MAX_DEPTH};
use crate::constraint::Constraint;
use crate::expand::SymbolSum;
use crate::linear::{Atom, IndexExpr};
use crate::number::Number;
use crate::source::Frame;
use assignments::indexing::StaticSymbol;
use assignments::{AccumOp, ByteRange};
use lowered_ir::random::{Distribution, Scheme};

/// A part of a program.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Statement(Statement),
    /// `size batch, d = 256`: one size per item.
    Size(SizeItem),
    Def(Arc<Def>),
    /// A call that is a statement of its own, such as `sgd(w[i,j], g[i,j], 0.1)`.
    Call(Call),
    Repeat(Repeat),
    Scan(Repeat),
    /// `input x f32[32, 64]`: one node per item.
    Declaration(Declaration),
    /// `keep h`: one node per item.
    Keep(Access),
    /// `recompute h`: one node per item.
    Recompute(Access),
    View(View),
    Gradient(Gradient),
    /// `detach m`: one node per item.
    Detach(Detach),
}

impl Item {
    /// Calls `f` on every item, and on those of repetitions and scans behind these.
    pub(crate) fn each(items: &[Item], f: &mut dyn FnMut(&Item)) {
        for item in items {
            f(item);
            if let Item::Repeat(repeat) | Item::Scan(repeat) = item {
                Item::each(&repeat.body, f);
            }
        }
    }
}

/// A part of an expanded program whose place among the other parts matters.
#[derive(Clone, Debug)]
pub(crate) enum ExpandedStep {
    Statement(Statement),
    Gradient(Gradient),
    Detach(Detach),
    /// The steps from here to the end of the scan run once for each value of its letter.
    ScanStart(ScanStart),
    /// The end of the innermost scan.
    ScanEnd(ByteRange),
}

/// The beginning of `scan t in 0..n { .. }`.
#[derive(Clone, Debug)]
pub(crate) struct ScanStart {
    /// The symbol in place of the letter.
    pub(crate) symbol: StaticSymbol,
    /// The value that is read before each step and ends the scan if it is 0.
    pub(crate) condition: Option<Expr>,
    /// The end that a run gives; the range of the symbol is its bound.
    pub(crate) run_end: Option<RunEnd>,
    /// The number of steps from one checkpoint to the next, if the scan has any.
    pub(crate) every: Option<i64>,
    /// The bytes before the body.
    pub(crate) span: ByteRange,
    /// The calls and repetitions around the scan, the innermost first.
    pub(crate) frame: Option<Arc<Frame>>,
}

/// The end of a scan that a run gives.
#[derive(Clone, Debug)]
pub(crate) struct RunEnd {
    /// The number of steps.
    pub(crate) steps: SymbolSum,
    /// Whether the letter is less than that number.
    pub(crate) goes_on: Expr,
}

impl ExpandedStep {
    /// The steps as items, each scan with the items of its body.
    pub(crate) fn into_items(steps: Vec<ExpandedStep>) -> Vec<Item> {
        let (mut items, mut open) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                ExpandedStep::Statement(statement) => items.push(Item::Statement(statement)),
                ExpandedStep::Gradient(gradient) => items.push(Item::Gradient(gradient)),
                ExpandedStep::Detach(detach) => items.push(Item::Detach(detach)),
                ExpandedStep::ScanStart(scan) => open.push((scan, std::mem::take(&mut items))),
                ExpandedStep::ScanEnd(_) => {
                    let Some((scan, before)) = open.pop() else { continue };
                    let body = std::mem::replace(&mut items, before);
                    items.push(Item::Scan(scan.into_item(body)));
                }
            }
        }
        items
    }

    pub(crate) fn span(&self) -> &ByteRange {
        match self {
            ExpandedStep::Statement(statement) => &statement.span,
            ExpandedStep::Gradient(gradient) => &gradient.span,
            ExpandedStep::Detach(detach) => &detach.node.span,
            ExpandedStep::ScanStart(scan) => &scan.span,
            ExpandedStep::ScanEnd(span) => span,
        }
    }

    /// The calls and repetitions that the step comes from, the innermost first.
    pub(crate) fn frame(&self) -> &Option<Arc<Frame>> {
        match self {
            ExpandedStep::Statement(statement) => &statement.frame,
            ExpandedStep::Gradient(gradient) => &gradient.frame,
            ExpandedStep::Detach(detach) => &detach.frame,
            ExpandedStep::ScanStart(scan) => &scan.frame,
            ExpandedStep::ScanEnd(_) => &None,
        }
    }
}

impl ScanStart {
    /// The values that are read before each step, any of which ends the scan if it is 0.
    pub(crate) fn conditions(&self) -> impl DoubleEndedIterator<Item = &Expr> {
        self.run_end.iter().map(|end| &end.goes_on).chain(&self.condition)
    }

    fn into_item(self, body: Vec<Item>) -> Repeat {
        let ScanStart { symbol, condition, run_end, every, span, .. } = self;
        let number = |number| IndexExpr::number(number, span.clone());
        let bound = symbol.range.unwrap_or(0);
        Repeat {
            letter: symbol.letter().unwrap_or_default().to_owned(),
            letter_span: span.clone(),
            from: number(0),
            to: run_end.map_or_else(|| number(bound), |end| end.steps.index(&span)),
            condition,
            every: every.map(number),
            body,
            span,
        }
    }
}

/// `grad loss by w, b`: the gradients of a loss by parameters, as far as the program before computes it.
#[derive(Clone, Debug)]
pub(crate) struct Gradient {
    /// The loss, without indices.
    pub(crate) loss: Access,
    /// The nodes or families of nodes by which the loss is differentiated, without indices.
    pub(crate) parameters: Vec<Access>,
    pub(crate) span: ByteRange,
    /// The repetitions around the item, the innermost first.
    pub(crate) frame: Option<Arc<Frame>>,
}

/// `recompute h`: a node that backward passes compute again.
#[derive(Clone, Debug)]
pub(crate) struct Recomputed {
    /// The name, without indices.
    pub(crate) target: Access,
    /// The repetitions around the item, the innermost first.
    pub(crate) frame: Option<Arc<Frame>>,
}

/// `detach m`: no derivative goes through the values that the node has so far.
#[derive(Clone, Debug)]
pub(crate) struct Detach {
    /// The node, without indices.
    pub(crate) node: Access,
    /// The calls and repetitions around the item, the innermost first.
    pub(crate) frame: Option<Arc<Frame>>,
}

/// A node with its type and sizes.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) role: Role,
    /// The name, without indices.
    pub(crate) target: Access,
    /// The element type; inferred if there is none.
    pub(crate) dtype: Option<DType>,
    pub(crate) sizes: Vec<IndexExpr>,
    pub(crate) initial: Option<Initial>,
    /// The bytes before the initial value.
    pub(crate) span: ByteRange,
}

/// The role of a declared node in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A node whose values come from outside, and that the program only reads.
    Input,
    /// A node whose values outlive a run.
    Param,
    /// A node that keeps its initial values.
    Const,
    /// An intermediate.
    Node,
}

impl Role {
    const ALL: [Role; 4] = [Role::Input, Role::Param, Role::Const, Role::Node];

    /// The word that begins a declaration.
    pub(crate) fn token(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Param => "param",
            Role::Const => "const",
            Role::Node => "node",
        }
    }

    pub(crate) fn from_token(token: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.token() == token)
    }

    /// Whether a declaration may have an initial value.
    pub(crate) fn has_initial_value(self) -> bool {
        matches!(self, Role::Param | Role::Const)
    }
}

/// The initial value of a declared node: an expression, or a function that fills the node.
#[derive(Clone, Debug)]
pub(crate) struct Initial {
    pub(crate) value: Option<Expr>,
    pub(crate) fill: Option<Fetch>,
    pub(crate) op_span: ByteRange,
    /// The bytes of the value.
    pub(crate) span: ByteRange,
}

/// `view v = x as [b, t, h, d]`: reads of a node under other dimensions.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The name of the view, without indices.
    pub(crate) target: Access,
    /// The node or view that is read.
    pub(crate) of: Access,
    pub(crate) sizes: Vec<IndexExpr>,
    pub(crate) span: ByteRange,
}

/// A size, with the value that it has unless the caller binds another.
#[derive(Clone, Debug)]
pub(crate) struct SizeItem {
    pub(crate) name: String,
    pub(crate) name_span: ByteRange,
    pub(crate) value: Option<IndexExpr>,
    /// The greatest value of a size that each run gives.
    pub(crate) bound: Option<IndexExpr>,
}

/// `repeat l in 0..n { .. }`, or `scan t in 0..n { .. }`.
#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    pub(crate) letter: String,
    pub(crate) letter_span: ByteRange,
    /// The first value of the letter, and the end of its values, excluded.
    pub(crate) from: IndexExpr,
    pub(crate) to: IndexExpr,
    /// The value that ends a scan if it is 0.
    pub(crate) condition: Option<Expr>,
    /// The number of steps from one checkpoint of a scan to the next.
    pub(crate) every: Option<IndexExpr>,
    pub(crate) body: Vec<Item>,
    /// The bytes before the body.
    pub(crate) span: ByteRange,
}

/// `def name(parameters) -> results { .. }`.
#[derive(Debug)]
pub(crate) struct Def {
    pub(crate) name: String,
    pub(crate) name_span: ByteRange,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) results: Vec<Pattern>,
    pub(crate) body: Vec<Item>,
}

/// A parameter of a function.
#[derive(Debug)]
pub(crate) enum Parameter {
    /// An array; the function may write it if it is `inout`.
    Array { pattern: Pattern, inout: bool },
    /// A number, size, symbol or node of rank 0, with the value that it has if the call gives none.
    Scalar { name: String, name_span: ByteRange, default: Option<Expr> },
}

impl Parameter {
    pub(crate) fn name(&self) -> &str {
        match self {
            Parameter::Array { pattern, .. } => &pattern.name,
            Parameter::Scalar { name, .. } => name,
        }
    }

    pub(crate) fn name_span(&self) -> &ByteRange {
        match self {
            Parameter::Array { pattern, .. } => &pattern.name_span,
            Parameter::Scalar { name_span, .. } => name_span,
        }
    }
}

/// `x[..,k]`: the axes of a parameter or result.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) name: String,
    pub(crate) name_span: ByteRange,
    pub(crate) axes: Vec<PatternAxis>,
    pub(crate) span: ByteRange,
}

#[derive(Clone, Debug)]
pub(crate) enum PatternAxis {
    Letter(String, ByteRange),
    Row(Row),
}

/// A row variable: `..`, whose name is empty, or `..r..`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) span: ByteRange,
}

/// A call of a function that the text defines.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) name_span: ByteRange,
    pub(crate) arguments: Vec<Argument>,
    /// The indices of the result, if the call states them.
    pub(crate) indices: Option<Vec<Index>>,
    pub(crate) span: ByteRange,
}

/// An argument, with the parameter's name and its byte range if the call states it.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: Option<(String, ByteRange)>,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    /// The targets; several only with concatenated axes.
    pub(crate) lhs: Vec<Access>,
    pub(crate) op: AccumOp,
    pub(crate) init: bool,
    pub(crate) op_span: ByteRange,
    /// The values; several only with concatenated axes, none with `fetch`.
    pub(crate) rhs: Vec<Expr>,
    /// The function that fills the whole target.
    pub(crate) fetch: Option<Fetch>,
    /// The byte range of all values, or of the function that fills.
    pub(crate) rhs_span: ByteRange,
    pub(crate) constraints: Vec<Constraint>,
    pub(crate) span: ByteRange,
    /// Whether expansion made the statement or changed it, so that it differs from the text at `span`.
    pub(crate) is_expanded: bool,
    /// The calls and repetitions that the statement comes from, the innermost first.
    pub(crate) frame: Option<Arc<Frame>>,
}

impl Statement {
    /// A plain assignment that no text has.
    pub(crate) fn made(
        target: Access,
        value: Option<Expr>,
        span: ByteRange,
        frame: &Option<Arc<Frame>>,
    ) -> Statement {
        Statement {
            lhs: vec![target],
            op: AccumOp::Assign,
            init: false,
            op_span: span.clone(),
            rhs_span: value.as_ref().map_or(span.clone(), |value| value.span.clone()),
            rhs: Vec::from_iter(value),
            fetch: None,
            constraints: Vec::new(),
            span,
            is_expanded: true,
            frame: frame.clone(),
        }
    }

    /// The expressions that compute indices of targets, and the values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Expr> {
        self.lhs.iter().flat_map(Access::computed).chain(&self.rhs)
    }

    /// The expressions that compute indices of targets, and the values, to change them.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let indices = self.lhs.iter_mut().flat_map(|target| &mut target.indices);
        indices.filter_map(Index::computed_mut).chain(&mut self.rhs)
    }
}

/// A function that fills a node.
#[derive(Clone, Debug)]
pub(crate) enum Fetch {
    Offsets,
    SelfId,
    /// The numbers, each with its byte range.
    Values(Vec<(Number, ByteRange)>),
    Bits(u128, ByteRange),
    Slice {
        of: Access,
        symbol: String,
    },
    Order {
        of: Access,
        axis: usize,
        is_descending: bool,
    },
    Random(RandomCall),
    SampleValues {
        distribution: Distribution,
        scheme: Scheme,
        of: Access,
    },
}

/// A call of `uniform(seed, ..)` or another function of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct RandomCall {
    pub(crate) distribution: Distribution,
    pub(crate) scheme: Scheme,
    pub(crate) seed: IndexExpr,
    pub(crate) parts: Vec<KeyArgument>,
}

impl RandomCall {
    /// Calls `f` on the letters in the arguments, each with its byte range.
    pub(crate) fn each_letter<'a>(&'a self, f: &mut dyn FnMut(&'a str, &'a ByteRange)) {
        for part in &self.parts {
            if let KeyArgument::Index(index) = part {
                index.each_atom(&mut |atom, span| {
                    if let Atom::Letter(name) = atom {
                        f(name, span);
                    }
                });
            }
        }
    }
}

/// An argument after the seed, which becomes part of the key or of the counter.
#[derive(Clone, Debug)]
pub(crate) enum KeyArgument {
    /// `self_id()`, with its byte range.
    SelfId(ByteRange),
    Index(IndexExpr),
    Row(Row),
}

/// `name[indices]`, `name.merge[indices]`, `name[number][indices]` or a bare name.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) name: String,
    pub(crate) name_span: ByteRange,
    /// The position in a family of names: `w[2][i]` is `w.2[i]`. Empty for other names.
    pub(crate) family: Vec<IndexExpr>,
    pub(crate) merge: bool,
    pub(crate) indices: Vec<Index>,
    pub(crate) span: ByteRange,
}

impl Access {
    /// A node without indices.
    pub(crate) fn whole(name: impl Into<String>, span: &ByteRange) -> Access {
        Access::indexed(name, Vec::new(), span)
    }

    pub(crate) fn indexed(name: impl Into<String>, indices: Vec<Index>, span: &ByteRange) -> Access {
        let (name, name_span, span) = (name.into(), span.clone(), span.clone());
        Access { name, name_span, family: Vec::new(), merge: false, indices, span }
    }

    /// The expressions that compute indices.
    pub(crate) fn computed(&self) -> impl Iterator<Item = &Expr> {
        self.indices.iter().filter_map(Index::computed)
    }
}

/// The index of one axis, or of the axes of a row variable.
#[derive(Clone, Debug)]
pub(crate) enum Index {
    Linear(IndexExpr),
    Concat(Concat),
    Row(Row),
    /// The value of an expression that contains accesses.
    Computed(Expr),
}

impl Index {
    /// The expression that computes the index, if one does.
    pub(crate) fn computed(&self) -> Option<&Expr> {
        match self {
            Index::Computed(expr) => Some(expr),
            Index::Linear(_) | Index::Concat(_) | Index::Row(_) => None,
        }
    }

    /// The letter that is the whole index.
    pub(crate) fn as_letter(&self) -> Option<&str> {
        match self {
            Index::Linear(index) => index.as_letter(),
            Index::Concat(_) | Index::Row(_) | Index::Computed(_) => None,
        }
    }

    /// The expression that computes the index, if one does.
    pub(crate) fn computed_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Index::Computed(expr) => Some(expr),
            Index::Linear(_) | Index::Concat(_) | Index::Row(_) => None,
        }
    }

    pub(crate) fn span(&self) -> &ByteRange {
        match self {
            Index::Linear(linear) => &linear.span,
            Index::Concat(concat) => &concat.span,
            Index::Row(row) => &row.span,
            Index::Computed(expr) => &expr.span,
        }
    }
}

/// `i^j`: an axis concatenated of the axes of letters, each with its byte range.
#[derive(Clone, Debug)]
pub(crate) struct Concat {
    pub(crate) letters: Vec<(String, ByteRange)>,
    pub(crate) span: ByteRange,
}
