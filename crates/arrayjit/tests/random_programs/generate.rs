//! Derives programs from bytes: a total function to valid programs.
//!
//! Every decision consumes one byte, and an exhausted list gives 0, the simplest alternative. So any bytes
//! are a program, and shrinking the bytes shrinks the program. The result is valid by construction: parsing
//! and lowering it must succeed.

use std::collections::BTreeSet;

use assignments::AccumOp;
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use assignments::text::TextErrorKind;
use lowered_ir::ir::{BinaryOp, UnaryOp};
use tnode::DType;

use super::case::{Case, Node, NodeFill, NodeRole};

/// A class of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every operation and type.
    Any,
    /// Floats and operations through which rounding errors spread in proportion to magnitudes.
    Bounded,
}

/// The most points of a statement's product space.
const MAX_POINTS: usize = 6000;

const EXTENTS: [usize; 18] = [2, 3, 1, 4, 5, 7, 8, 9, 6, 16, 17, 32, 33, 65, 70, 257, 300, 1000];

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::Bf16];

/// `f32` most often, as in real programs.
const TYPES: [DType; 24] = {
    use DType::*;
    [
        F32, F32, F64, I32, F32, I64, U8, Bool, F16, Bf16, Fp8E5m2, Fp8E4m3fn, I8, U16, U32, U64, F32, F32,
        F64, I32, F32, F32, I64, Bool,
    ]
};

/// The program that `choices` describe: one list of choices per statement.
pub(crate) fn case(kind: Kind, choices: &[Vec<u8>]) -> Case {
    let mut writer = Writer { kind, case: Case::default(), written: BTreeSet::new(), symbols: Vec::new() };
    for choices in choices {
        writer.statement(&mut Choices::new(choices));
    }
    writer.case
}

/// Choices derived from bytes.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes, at: 0 }
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(byte) % n.max(1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

#[derive(Clone, Copy)]
struct Letter {
    name: &'static str,
    extent: usize,
}

struct Symbol {
    name: &'static str,
    range: usize,
}

struct Writer {
    kind: Kind,
    case: Case,
    /// Nodes with values: inputs, and those written by an earlier statement.
    written: BTreeSet<usize>,
    symbols: Vec<Symbol>,
}

/// The names that an expression may use.
struct Scope {
    letters: Vec<Letter>,
    /// The node written, and its index if reading that element is allowed.
    target: (usize, Option<String>),
    /// Letters and symbols mentioned so far.
    used: BTreeSet<String>,
}

impl Writer {
    fn statement(&mut self, c: &mut Choices<'_>) {
        let op = self.operation(c);
        let init = op != AccumOp::Assign && !c.one_in(3);
        let outer = self.letters(c, &["i", "j", "k"], MAX_POINTS);
        let points: usize = outer.iter().map(|letter| letter.extent).product();
        let mut all = outer.clone();
        if op != AccumOp::Assign {
            all.extend(self.letters(c, &["r", "q"], MAX_POINTS / points.max(1)));
        }
        let mut scope = Scope { letters: outer.clone(), target: (0, None), used: BTreeSet::new() };
        let (target, index) = self.target(c, &mut scope, init);
        // An assignment cannot reduce, so it has no letters that are missing from the target's index.
        let indexed: Vec<Letter> = outer.into_iter().filter(|l| scope.used.contains(l.name)).collect();
        if op == AccumOp::Assign {
            all.clone_from(&indexed);
        }
        let reduces = all.len() > indexed.len();
        let own = (!init && !reduces && self.written.contains(&target)).then(|| index.clone());
        scope.letters = all;
        scope.target = (target, own);
        let depth = c.pick(&[0, 1, 2, 2, 3, 1]);
        let mut value = self.expr(c, &mut scope, depth);
        // Every letter on the right may be missing; such an operation is legal, but uninteresting.
        if let Some(letter) = scope.letters.iter().find(|l| !scope.used.contains(l.name)).copied() {
            let read = self.read(c, &mut scope, letter);
            value = format!("{value} {} {read}", c.pick(&["+", "*"]));
        }
        let wheres = self.wheres(&scope);
        let sign = format!("{}{}=", if init || op == AccumOp::Assign { ":" } else { "" }, op.token());
        let name = &self.case.nodes[target].name;
        self.case.statements.push(format!("{name}[{index}] {sign} {value}{wheres}"));
        if self.is_rejected() {
            self.case.statements.pop();
        } else {
            self.written.insert(target);
        }
    }

    /// Whether the last statement is rejected because its result would depend on the order of the loops, or
    /// because it overwrites another statement's values. Any other error is a failure, which is found later.
    fn is_rejected(&self) -> bool {
        match self.case.parse(&self.case.handles()) {
            Err(error) => {
                matches!(error.kind(), TextErrorKind::Overlap { .. } | TextErrorKind::SelfRead { .. })
            }
            Ok(assignments) => {
                let error = lower(&assignments, &LowerOptions::default()).err();
                let kind = error.as_ref().map(|error| error.kind());
                matches!(kind, Some(LowerErrorKind::LostValues { .. }))
            }
        }
    }

    fn operation(&self, c: &mut Choices<'_>) -> AccumOp {
        use AccumOp::{Add, Assign, Max, Min, Mul, Sub};
        match self.kind {
            Kind::Bounded => c.pick(&[Assign, Add, Add, Add, Max, Min, Sub]),
            Kind::Any if c.one_in(6) => c.pick(&AccumOp::ALL),
            Kind::Any => c.pick(&[Assign, Add, Assign, Add, Max, Min, Mul]),
        }
    }

    fn letters(&self, c: &mut Choices<'_>, names: &[&'static str], mut points: usize) -> Vec<Letter> {
        let count = [1, 2, 0, 3][c.below(4)].min(names.len());
        let mut letters = Vec::new();
        for &name in &names[..count] {
            let fitting: Vec<usize> = EXTENTS.into_iter().filter(|&extent| extent <= points).collect();
            if fitting.is_empty() {
                break;
            }
            let extent = c.pick(&fitting);
            points /= extent;
            letters.push(Letter { name, extent });
        }
        letters
    }

    fn dtype(&self, c: &mut Choices<'_>) -> DType {
        match self.kind {
            Kind::Any => c.pick(&TYPES),
            Kind::Bounded => FLOATS[[0, 0, 0, 1, 0, 2, 0, 3][c.below(8)]],
        }
    }

    fn add(&mut self, dtype: DType, dims: Vec<usize>, role: NodeRole) -> usize {
        let at = self.case.nodes.len();
        self.case.nodes.push(Node { name: format!("n{at}"), dtype, dims, margin: 0, role });
        at
    }

    /// The node written, and its index.
    fn target(&mut self, c: &mut Choices<'_>, scope: &mut Scope, init: bool) -> (usize, String) {
        let mut letters = scope.letters.clone();
        if letters.len() > 1 && c.one_in(3) {
            letters.rotate_left(1);
        }
        let names: Vec<String> = letters.iter().map(|letter| letter.name.to_owned()).collect();
        let plain = |scope: &mut Scope| {
            scope.used.extend(names.iter().cloned());
            names.join(", ")
        };
        let dims = letters.iter().map(|letter| letter.extent).collect();
        let dtype = self.dtype(c);
        match c.below(6) {
            0 | 1 => {
                let at = self.add(dtype, dims, NodeRole::Output);
                self.case.nodes[at].margin = [0, 0, 0, 0, 0, 0, 0, 1][c.below(8)];
                (at, plain(scope))
            }
            2 | 3 => (self.add(dtype, dims, NodeRole::Inner), plain(scope)),
            4 => {
                // Gaps, reversals, diagonals and symbols: the rest of the node keeps its values.
                let (dims, index) = self.shape(c, scope, &letters);
                let role = if init && c.one_in(2) { NodeRole::Inner } else { NodeRole::Output };
                (self.add(dtype, dims, role), index)
            }
            _ => match self.case.nodes.len() {
                0 => (self.add(dtype, dims, NodeRole::Output), plain(scope)),
                // A node without earlier values may be written in part only if it is initialised.
                count => {
                    let at = c.below(count);
                    if !self.written.contains(&at) {
                        return (self.add(dtype, dims, NodeRole::Output), plain(scope));
                    }
                    let index = self.index_into(c, scope, at);
                    (at, index)
                }
            },
        }
    }

    /// Dimensions for which some index of these letters is in bounds, and that index.
    fn shape(&mut self, c: &mut Choices<'_>, scope: &mut Scope, letters: &[Letter]) -> (Vec<usize>, String) {
        let mut dims = Vec::new();
        let mut index = Vec::new();
        for (at, letter) in letters.iter().enumerate() {
            let (name, extent) = (letter.name, letter.extent);
            scope.used.insert(name.to_owned());
            let last = extent - 1;
            let (dim, text) = match c.below(9) {
                0 | 1 => (extent, name.to_owned()),
                2 => {
                    let (factor, offset) = (2 + c.below(3), c.below(3));
                    (factor * last + offset + 1 + c.below(2), format!("{factor}*{name} + {offset}"))
                }
                3 => (extent, format!("{last} - {name}")),
                4 => {
                    let offset = c.below(5);
                    (extent + offset + c.below(2), format!("{name} + {offset}"))
                }
                5 => {
                    let symbol = self.symbol(c);
                    let (range, factor) = (self.symbols[symbol].range, c.pick(&[1, extent, extent + 1]));
                    let symbol = format!("@{}", self.symbols[symbol].name);
                    scope.used.insert(symbol.clone());
                    (factor * (range - 1) + extent, format!("{factor}*{symbol} + {name}"))
                }
                6 => {
                    let other = letters[c.below(letters.len())];
                    scope.used.insert(other.name.to_owned());
                    let stride = 1 + c.below(3);
                    (stride * last + other.extent, format!("{stride}*{name} + {}", other.name))
                }
                7 => {
                    dims.push(1 + c.below(3));
                    index.push(c.below(dims[dims.len() - 1]).to_string());
                    (extent, name.to_owned())
                }
                _ => {
                    let other = letters[at.saturating_sub(1)];
                    scope.used.insert(other.name.to_owned());
                    dims.push(other.extent);
                    index.push(other.name.to_owned());
                    (extent, name.to_owned())
                }
            };
            dims.push(dim);
            index.push(text);
        }
        if dims.iter().product::<usize>() > 4 * MAX_POINTS {
            dims = letters.iter().map(|letter| letter.extent).collect();
            index = letters.iter().map(|letter| letter.name.to_owned()).collect();
        }
        (dims, index.join(", "))
    }

    fn symbol(&mut self, c: &mut Choices<'_>) -> usize {
        const NAMES: [&str; 2] = ["s", "t"];
        let at = c.below(NAMES.len()).min(self.symbols.len());
        if at == self.symbols.len() {
            let range = 1 + c.below(5);
            self.symbols.push(Symbol { name: NAMES[at], range });
            self.case.bindings.push((NAMES[at].to_owned(), c.below(range) as i64));
        }
        at
    }

    /// An index into an existing node that is in bounds.
    fn index_into(&mut self, c: &mut Choices<'_>, scope: &mut Scope, node: usize) -> String {
        let dims = self.case.nodes[node].dims.clone();
        let mut index = Vec::new();
        for dim in dims {
            let fitting: Vec<Letter> = scope.letters.iter().copied().filter(|l| l.extent <= dim).collect();
            let choice = c.below(7);
            if fitting.is_empty() || choice == 6 {
                index.push(c.below(dim).to_string());
                continue;
            }
            // Exact fits first: they are the common case.
            let exact = fitting.iter().copied().find(|letter| letter.extent == dim && index.len() < 4);
            let letter = if choice < 2 { exact.unwrap_or(fitting[0]) } else { c.pick(&fitting) };
            scope.used.insert(letter.name.to_owned());
            let (name, last, room) = (letter.name, letter.extent - 1, dim - letter.extent);
            index.push(match choice {
                3 if last > 0 && 2 * last < dim => format!("2*{name} + {}", c.below(dim - 2 * last)),
                4 => format!("{} - {name}", last + c.below(room + 1)),
                5 => {
                    let symbol = self.symbol(c);
                    let Symbol { name: symbol, range } = self.symbols[symbol];
                    if range - 1 <= room {
                        scope.used.insert(format!("@{symbol}"));
                        format!("{name} + @{symbol}")
                    } else {
                        name.to_owned()
                    }
                }
                _ => match c.below(room + 1) {
                    0 => name.to_owned(),
                    offset => format!("{name} + {offset}"),
                },
            });
        }
        index.join(", ")
    }

    /// An existing node to read: one with values; the target only if it may be read.
    fn readable(&self, c: &mut Choices<'_>, scope: &Scope) -> Option<usize> {
        let known: Vec<usize> = self.written.iter().copied().filter(|at| *at != scope.target.0).collect();
        (!known.is_empty() && !c.one_in(3)).then(|| known[known.len() - 1 - c.below(known.len())])
    }

    fn input(&mut self, c: &mut Choices<'_>, dims: Vec<usize>) -> usize {
        let dtype = self.dtype(c);
        let fill = match self.kind {
            Kind::Bounded => NodeFill::Unit,
            Kind::Any => c.pick(&[NodeFill::Small, NodeFill::Unit, NodeFill::Unit, NodeFill::Raw]),
        };
        let at = self.add(dtype, dims, NodeRole::Input(fill));
        self.case.nodes[at].margin = [0, 0, 0, 0, 0, 0, 1, 2][c.below(8)];
        self.written.insert(at);
        at
    }

    /// A read of a new input that mentions this letter.
    fn read(&mut self, c: &mut Choices<'_>, scope: &mut Scope, letter: Letter) -> String {
        let (dims, index) = self.shape(c, scope, &[letter]);
        let at = self.input(c, dims);
        format!("{}[{index}]", self.case.nodes[at].name)
    }

    fn leaf(&mut self, c: &mut Choices<'_>, scope: &mut Scope) -> String {
        match c.below(10) {
            7 => match self.kind {
                Kind::Any => c.pick(&["2", "1", "0", "3", "0.5", "1.5", "0.1"]).to_owned(),
                Kind::Bounded => c.pick(&["2.0", "0.5", "1.5", "0.1"]).to_owned(),
            },
            8 if self.kind == Kind::Any => self.index_value(c, scope),
            9 => self.padded(c, scope),
            6 if scope.target.1.is_some() => {
                let index = scope.target.1.clone().unwrap_or_default();
                format!("{}[{index}]", self.case.nodes[scope.target.0].name)
            }
            _ => match self.readable(c, scope) {
                Some(at) => {
                    let index = self.index_into(c, scope, at);
                    format!("{}[{index}]", self.case.nodes[at].name)
                }
                None => {
                    let mut letters: Vec<Letter> = Vec::new();
                    for letter in scope.letters.clone() {
                        if !c.one_in(4) {
                            letters.push(letter);
                        }
                    }
                    let (dims, index) = self.shape(c, scope, &letters);
                    let at = self.input(c, dims);
                    format!("{}[{index}]", self.case.nodes[at].name)
                }
            },
        }
    }

    fn index_value(&mut self, c: &mut Choices<'_>, scope: &mut Scope) -> String {
        if scope.letters.is_empty() || c.one_in(4) {
            let symbol = self.symbol(c);
            let symbol = format!("@{}", self.symbols[symbol].name);
            scope.used.insert(symbol.clone());
            return symbol;
        }
        let letter = scope.letters[c.below(scope.letters.len())];
        scope.used.insert(letter.name.to_owned());
        match c.below(3) {
            0 => letter.name.to_owned(),
            1 => format!("(3*{} - 1)", letter.name),
            _ => format!("({} == {})", letter.name, c.below(letter.extent)),
        }
    }

    /// A read that may be out of bounds.
    fn padded(&mut self, c: &mut Choices<'_>, scope: &mut Scope) -> String {
        let at = match self.readable(c, scope) {
            Some(at) => at,
            None => {
                let dims = scope.letters.iter().map(|letter| letter.extent).collect();
                self.input(c, dims)
            }
        };
        let mut index = Vec::new();
        for _ in 0..self.case.nodes[at].dims.len() {
            if scope.letters.is_empty() {
                index.push((c.below(5) as i64 - 2).to_string());
                continue;
            }
            let letter = scope.letters[c.below(scope.letters.len())];
            scope.used.insert(letter.name.to_owned());
            let factor = c.pick(&["", "", "2*", "-"]);
            index.push(format!("{factor}{} - {}", letter.name, c.below(4)));
        }
        let outside = if self.kind == Kind::Any { c.pick(&["0", "1", "7"]) } else { "0" };
        format!("pad({}, {outside})[{}]", self.case.nodes[at].name, index.join(", "))
    }

    fn expr(&mut self, c: &mut Choices<'_>, scope: &mut Scope, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(c, scope);
        }
        let depth = depth - 1;
        let infix = |op: &str, a: &str, b: &str| format!("({a} {op} {b})");
        match (self.kind, c.below(12)) {
            (_, 0 | 1) => infix("*", &self.expr(c, scope, depth), &self.expr(c, scope, depth)),
            (_, 2 | 3) => infix("+", &self.expr(c, scope, depth), &self.expr(c, scope, depth)),
            (_, 4) => infix("-", &self.expr(c, scope, depth), &self.expr(c, scope, depth)),
            (Kind::Bounded, 5) => {
                let op = c.pick(&["max", "min"]);
                format!("{op}({}, {})", self.expr(c, scope, depth), self.expr(c, scope, depth))
            }
            (Kind::Bounded, 6) => format!(
                "fma({}, {}, {})",
                self.expr(c, scope, depth),
                self.expr(c, scope, depth),
                self.expr(c, scope, depth)
            ),
            (Kind::Bounded, 7 | 8) => {
                let op = c.pick(&["neg", "abs", "relu"]);
                format!("{op}({})", self.expr(c, scope, depth))
            }
            (Kind::Bounded, _) => self.leaf(c, scope),
            (Kind::Any, 5 | 6) => {
                let op = c.pick(UnaryOp::ALL).token();
                format!("{op}({})", self.expr(c, scope, depth))
            }
            (Kind::Any, 7 | 8) => self.binary(c, scope, depth),
            (Kind::Any, 9) => {
                let test = c.pick(&["<", "<=", "==", "!=", ">"]);
                let (a, b) = (self.expr(c, scope, 0), self.expr(c, scope, 0));
                format!(
                    "where({a} {test} {b}, {}, {})",
                    self.expr(c, scope, depth),
                    self.expr(c, scope, depth)
                )
            }
            (Kind::Any, 10) => format!(
                "fma({}, {}, {})",
                self.expr(c, scope, depth),
                self.expr(c, scope, depth),
                self.expr(c, scope, depth)
            ),
            (Kind::Any, _) => {
                let dtype = c.pick(&TYPES);
                format!("{dtype}({})", self.expr(c, scope, depth))
            }
        }
    }

    fn binary(&mut self, c: &mut Choices<'_>, scope: &mut Scope, depth: usize) -> String {
        let numeric: Vec<BinaryOp> = BinaryOp::ALL.iter().copied().filter(|op| !op.is_random()).collect();
        let op = c.pick(&numeric);
        let (mut a, mut b) = (self.expr(c, scope, depth), self.expr(c, scope, depth));
        if op.is_bitwise() {
            let dtype = c.pick(&[DType::I32, DType::U8, DType::I64, DType::U32, DType::Bool]);
            (a, b) = (format!("{dtype}({a})"), format!("{dtype}({b})"));
        }
        let token = op.token();
        if token.starts_with(|first: char| first.is_ascii_alphabetic()) {
            format!("{token}({a}, {b})")
        } else {
            format!("({a} {token} {b})")
        }
    }

    /// The ranges of all mentioned letters and symbols.
    fn wheres(&self, scope: &Scope) -> String {
        let letters = scope.letters.iter().filter(|letter| scope.used.contains(letter.name));
        let letters = letters.map(|letter| format!("{} < {}", letter.name, letter.extent));
        let symbols = self.symbols.iter().filter(|s| scope.used.contains(&format!("@{}", s.name)));
        let all: Vec<String> = letters.chain(symbols.map(|s| format!("@{} < {}", s.name, s.range))).collect();
        if all.is_empty() { String::new() } else { format!(" where {}", all.join(", ")) }
    }
}
