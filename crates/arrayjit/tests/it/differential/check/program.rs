//! Programs as data, which the generator makes and the evaluator reads, and their text.

use std::fmt;

use tnode::DType;

/// A sequence of routines over shared nodes, with the bindings of each round of runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) nodes: Vec<Node>,
    pub(crate) symbols: Vec<Symbol>,
    /// The statements of each routine. A round runs all routines in order.
    pub(crate) routines: Vec<Vec<Statement>>,
    /// The value of each symbol, for each round.
    pub(crate) rounds: Vec<Vec<i64>>,
}

/// A static symbol and the number of its values.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub(crate) name: &'static str,
    pub(crate) range: i64,
}

/// A node of the program.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Sizes without margins.
    pub(crate) dims: Vec<usize>,
    /// Elements of the margins on both sides of every axis.
    pub(crate) margin: usize,
    /// The declared value of the margins, from the padding.
    pub(crate) neutral: Option<f64>,
    pub(crate) mode: Mode,
    /// The bit patterns of the elements that the host writes before the first run.
    pub(crate) data: Option<Vec<u64>>,
}

/// The memory mode that the program requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Undecided,
    Materialized,
    Virtual,
}

/// A letter of a statement, with the number of its values.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) name: &'static str,
    pub(crate) extent: usize,
    /// Whether the text gives the range in a `where`, although it follows from an axis.
    pub(crate) is_explicit: bool,
}

/// A statement: an assignment, or a value for a whole node.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// Stores or accumulates values over a product space.
    Assign(Assign),
    /// `node := offsets()`
    Offsets { node: usize },
    /// `node := values(..)`
    Values { node: usize, values: Vec<Number> },
    /// `node := slice(source, @symbol)`
    Slice { node: usize, source: usize, symbol: usize },
}

/// `targets operator values where ..`
#[derive(Clone, Debug)]
pub(crate) struct Assign {
    pub(crate) letters: Vec<Letter>,
    pub(crate) targets: Vec<Access>,
    pub(crate) op: Accumulation,
    /// Whether every element starts from the neutral element of the operation.
    pub(crate) starts: bool,
    pub(crate) values: Vec<Expr>,
}

/// The operation that combines a value with the element's current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulation {
    Store,
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    Or,
    And,
}

/// An element of a node.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) node: usize,
    pub(crate) axes: Vec<Axis>,
    /// The number for elements outside the node, from `pad`.
    pub(crate) pad: Option<Number>,
}

/// The index of one axis.
#[derive(Clone, Debug)]
pub(crate) enum Axis {
    Affine(Affine),
    /// An index that is known only when the program runs.
    Computed(Box<Expr>),
    /// A concatenation of the ranges of several letters.
    Concat(Vec<usize>),
}

/// A sum of multiples of letters and symbols.
#[derive(Clone, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) terms: Vec<(i64, Var)>,
    pub(crate) offset: i64,
}

/// A variable of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Var {
    Letter(usize),
    Symbol(usize),
}

/// A number in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    /// A number that is written with a fraction.
    Fraction(f64),
    Infinity,
    Nan,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Number(Number),
    Var(Var),
    Size(usize),
    Read(Access),
    Cast(DType, Box<Expr>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<[Expr; 2]>),
    Where(Box<[Expr; 3]>),
    Fma(Box<[Expr; 3]>),
}

macro_rules! operations {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $token:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($variant,)* }

        impl $name {
            #[allow(dead_code, reason = "binary operations are drawn by kind")]
            pub(crate) const ALL: &[$name] = &[$($name::$variant,)*];

            pub(crate) fn token(self) -> &'static str {
                match self { $($name::$variant => $token,)* }
            }
        }
    };
}

operations! {
    /// Functions of one argument.
    Unary {
        Neg = "neg", Abs = "abs", Not = "not", Relu = "relu", Satur01 = "satur01", Exp = "exp", Exp2 = "exp2",
        Log = "log", Log2 = "log2", Sin = "sin", Cos = "cos", Tanh = "tanh", Sqrt = "sqrt", Recip = "recip",
        RecipSqrt = "recip_sqrt", Trunc = "trunc", Floor = "floor", RoundEven = "round_even",
    }
}

operations! {
    /// Operators and functions of two arguments.
    Binary {
        Add = "+", Sub = "-", Mul = "*", Div = "/", Rem = "%", Lt = "<", Le = "<=", Gt = ">", Ge = ">=", Eq = "==",
        Ne = "!=", Pow = "pow", Max = "max", Min = "min", ReluGate = "relu_gate", Satur01Gate = "satur01_gate",
        And = "and", Or = "or", BitAnd = "bit_and", BitOr = "bit_or", BitXor = "bit_xor", Shl = "shl", Shr = "shr",
    }
}

impl Binary {
    pub(crate) fn is_comparison(self) -> bool {
        matches!(self, Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne)
    }

    pub(crate) fn is_bitwise(self) -> bool {
        matches!(self, Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr)
    }

    pub(crate) fn is_logical(self) -> bool {
        matches!(self, Binary::And | Binary::Or)
    }
}

impl Accumulation {
    pub(crate) fn token(self) -> &'static str {
        match self {
            Accumulation::Store => "",
            Accumulation::Add => "+",
            Accumulation::Sub => "-",
            Accumulation::Mul => "*",
            Accumulation::Div => "/",
            Accumulation::Max => "max",
            Accumulation::Min => "min",
            Accumulation::Or => "or",
            Accumulation::And => "and",
        }
    }
}

impl Expr {
    /// Calls `visit` on this expression and all its parts, in the order of the text.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(self);
        match self {
            Expr::Number(_) | Expr::Var(_) | Expr::Size(_) => {}
            Expr::Read(access) => access.walk(visit),
            Expr::Cast(_, a) | Expr::Unary(_, a) => a.walk(visit),
            Expr::Binary(_, args) => args.iter().for_each(|arg| arg.walk(visit)),
            Expr::Where(args) | Expr::Fma(args) => args.iter().for_each(|arg| arg.walk(visit)),
        }
    }
}

impl Access {
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Expr)) {
        for axis in &self.axes {
            match axis {
                Axis::Affine(affine) => affine.terms.iter().for_each(|&(_, var)| visit(&Expr::Var(var))),
                Axis::Concat(letters) => letters.iter().for_each(|&l| visit(&Expr::Var(Var::Letter(l)))),
                Axis::Computed(expr) => expr.walk(visit),
            }
        }
    }
}

impl Assign {
    /// The letters that the targets mention, then all others: first the letters of indices in the order of
    /// the text, then letters that occur only as values.
    pub(crate) fn loops(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let add = |to: &mut Vec<usize>, e: &Expr| {
            if let Expr::Var(Var::Letter(letter)) | Expr::Size(letter) = e
                && !to.contains(letter)
            {
                to.push(*letter);
            }
        };
        self.targets.iter().for_each(|target| target.walk(&mut |e| add(&mut outer, e)));
        let mut read = Vec::new();
        self.values.iter().for_each(|value| accesses(value, &mut read));
        read.iter().for_each(|access| access.walk(&mut |e| add(&mut inner, e)));
        self.values.iter().for_each(|value| value.walk(&mut |e| add(&mut inner, e)));
        inner.retain(|letter| !outer.contains(letter));
        (outer, inner)
    }

    fn accesses(&self) -> Vec<&Access> {
        let mut all: Vec<&Access> = self.targets.iter().collect();
        self.values.iter().for_each(|value| accesses(value, &mut all));
        for target in &self.targets {
            for axis in &target.axes {
                if let Axis::Computed(expr) = axis {
                    accesses(expr, &mut all);
                }
            }
        }
        all
    }
}

/// Appends the accesses of an expression.
fn accesses<'e>(expr: &'e Expr, all: &mut Vec<&'e Access>) {
    match expr {
        Expr::Number(_) | Expr::Var(_) | Expr::Size(_) => {}
        Expr::Read(access) => {
            all.push(access);
            for axis in &access.axes {
                if let Axis::Computed(expr) = axis {
                    accesses(expr, all);
                }
            }
        }
        Expr::Cast(_, a) | Expr::Unary(_, a) => accesses(a, all),
        Expr::Binary(_, args) => args.iter().for_each(|arg| accesses(arg, all)),
        Expr::Where(args) | Expr::Fma(args) => args.iter().for_each(|arg| accesses(arg, all)),
    }
}

impl Program {
    /// The text of one routine.
    pub(crate) fn text(&self, routine: usize) -> String {
        self.routines[routine].iter().map(|statement| self.statement(statement) + "\n").collect()
    }

    fn statement(&self, statement: &Statement) -> String {
        match statement {
            Statement::Offsets { node } => format!("{} := offsets()", self.nodes[*node].name),
            Statement::Values { node, values } => {
                let values: Vec<String> = values.iter().map(Number::to_string).collect();
                format!("{} := values({})", self.nodes[*node].name, values.join(", "))
            }
            Statement::Slice { node, source, symbol } => {
                let symbol = &self.symbols[*symbol];
                format!(
                    "{} := slice({}, @{}) where @{} < {}",
                    self.nodes[*node].name, self.nodes[*source].name, symbol.name, symbol.name, symbol.range
                )
            }
            Statement::Assign(assign) => self.assign(assign),
        }
    }

    fn assign(&self, assign: &Assign) -> String {
        let list = |items: Vec<String>| items.join(", ");
        let targets = list(assign.targets.iter().map(|target| self.access(assign, target)).collect());
        let values = list(assign.values.iter().map(|value| self.expr(assign, value, true)).collect());
        let start = if assign.starts || assign.op == Accumulation::Store { ":" } else { "" };
        let limits = self.limits(assign);
        let limits = if limits.is_empty() { String::new() } else { format!(" where {}", list(limits)) };
        format!("{targets} {start}{}= {values}{limits}", assign.op.token())
    }

    fn limits(&self, assign: &Assign) -> Vec<String> {
        let (outer, inner) = assign.loops();
        let needed = outer.iter().chain(&inner).filter(|&&letter| self.needs_limit(assign, letter));
        let letters = needed.map(|&letter| {
            let Letter { name, extent, .. } = assign.letters[letter];
            format!("{name} < {extent}")
        });
        let mut symbols: Vec<usize> = Vec::new();
        let mut visit = |e: &Expr| {
            if let Expr::Var(Var::Symbol(symbol)) = e
                && !symbols.contains(symbol)
            {
                symbols.push(*symbol);
            }
        };
        assign.targets.iter().for_each(|target| target.walk(&mut visit));
        assign.values.iter().for_each(|value| value.walk(&mut visit));
        let symbols =
            symbols.iter().map(|&s| format!("@{} < {}", self.symbols[s].name, self.symbols[s].range));
        letters.chain(symbols).collect()
    }

    /// Whether the text must give the range of a letter: because it does not follow from the axes that the
    /// letter indexes alone, or because the program asks for it.
    fn needs_limit(&self, assign: &Assign, letter: usize) -> bool {
        let Letter { extent, is_explicit, .. } = assign.letters[letter];
        let mut sizes = Vec::new();
        for access in assign.accesses() {
            for (axis, &size) in access.axes.iter().zip(&self.nodes[access.node].dims) {
                if let Axis::Affine(Affine { terms, offset: 0 }) = axis
                    && matches!(terms[..], [(1, Var::Letter(l))] if l == letter)
                {
                    sizes.push(size);
                }
            }
        }
        is_explicit || sizes.is_empty() || sizes.iter().any(|&size| size != extent)
    }

    fn access(&self, assign: &Assign, access: &Access) -> String {
        let axes: Vec<String> = access.axes.iter().map(|axis| self.axis(assign, axis)).collect();
        let name = &self.nodes[access.node].name;
        let name = match access.pad {
            Some(number) => format!("pad({name}, {number})"),
            None => name.clone(),
        };
        format!("{name}[{}]", axes.join(", "))
    }

    fn axis(&self, assign: &Assign, axis: &Axis) -> String {
        match axis {
            Axis::Computed(expr) => self.expr(assign, expr, false),
            Axis::Concat(letters) => {
                letters.iter().map(|&l| assign.letters[l].name).collect::<Vec<_>>().join("^")
            }
            Axis::Affine(affine) => {
                let mut text = String::new();
                for &(factor, var) in &affine.terms {
                    let sign = if factor < 0 {
                        "-"
                    } else if text.is_empty() {
                        ""
                    } else {
                        "+"
                    };
                    let factor = if factor.abs() == 1 { String::new() } else { format!("{}*", factor.abs()) };
                    text += &format!("{sign}{factor}{}", self.var(assign, var));
                }
                match affine.offset {
                    0 if !text.is_empty() => text,
                    offset if offset >= 0 && !text.is_empty() => format!("{text}+{offset}"),
                    offset => format!("{text}{offset}"),
                }
            }
        }
    }

    fn var(&self, assign: &Assign, var: Var) -> String {
        match var {
            Var::Letter(letter) => assign.letters[letter].name.to_owned(),
            Var::Symbol(symbol) => format!("@{}", self.symbols[symbol].name),
        }
    }

    fn expr(&self, assign: &Assign, expr: &Expr, is_whole: bool) -> String {
        let list = |args: &[Expr]| {
            args.iter().map(|arg| self.expr(assign, arg, true)).collect::<Vec<_>>().join(", ")
        };
        match expr {
            Expr::Number(number) => number.to_string(),
            Expr::Var(var) => self.var(assign, *var),
            Expr::Size(letter) => format!("size({})", assign.letters[*letter].name),
            Expr::Read(access) => self.access(assign, access),
            Expr::Cast(dtype, a) => format!("{dtype}({})", self.expr(assign, a, true)),
            Expr::Unary(op, a) => format!("{}({})", op.token(), self.expr(assign, a, true)),
            Expr::Where(args) => format!("where({})", list(&args[..])),
            Expr::Fma(args) => format!("fma({})", list(&args[..])),
            Expr::Binary(op, args) if op.token().starts_with(char::is_alphabetic) => {
                format!("{}({})", op.token(), list(&args[..]))
            }
            Expr::Binary(op, args) => {
                let [a, b] = [0, 1].map(|at| self.expr(assign, &args[at], false));
                let text = format!("{a} {} {b}", op.token());
                if is_whole { text } else { format!("({text})") }
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => write!(f, "{value}"),
            Number::Fraction(value) => write!(f, "{value:?}"),
            Number::Infinity => f.write_str("inf"),
            Number::Nan => f.write_str("nan"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: String = (0..self.routines.len()).map(|routine| self.text(routine)).collect();
        let is_mentioned =
            |node: &&Node| texts.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == node.name);
        for node in self.nodes.iter().filter(is_mentioned) {
            write!(f, "node {} {}{:?} {:?}", node.name, node.dtype, node.dims, node.mode)?;
            if node.margin > 0 {
                write!(f, " margin {} {:?}", node.margin, node.neutral)?;
            }
            match &node.data {
                Some(data) => writeln!(f, " = {:x?}", &data[..data.len().min(40)])?,
                None => writeln!(f)?,
            }
        }
        for round in &self.rounds {
            writeln!(f, "round {round:?}")?;
        }
        for routine in 0..self.routines.len() {
            write!(f, "routine {routine}\n{}", self.text(routine))?;
        }
        Ok(())
    }
}
