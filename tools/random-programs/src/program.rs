//! Programs as data: nodes, symbols, and the statements of each routine.

use tnode::{DType, MemoryMode, Padding, TensorNode};

/// A sequence of routines over shared nodes, with the bindings of each round of runs.
#[derive(Clone, Debug, Default)]
pub struct RandomProgram {
    /// The nodes; statements refer to them by position.
    pub nodes: Vec<ProgramNode>,
    /// The static symbols; statements refer to them by position.
    pub symbols: Vec<ProgramSymbol>,
    /// The statements of each routine. A round runs all routines in order.
    pub routines: Vec<Vec<ProgramStatement>>,
    /// The value of each symbol, for each round.
    pub rounds: Vec<Vec<i64>>,
}

/// A static symbol and the number of its values.
#[derive(Clone, Debug)]
pub struct ProgramSymbol {
    /// The name without the leading `@`.
    pub name: &'static str,
    /// The symbol's values are `0..range`.
    pub range: i64,
}

/// A node of the program.
#[derive(Clone, Debug)]
pub struct ProgramNode {
    /// The name in the text.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// Sizes without margins.
    pub dims: Vec<usize>,
    /// Elements of the margins on both sides of every axis.
    pub margin: usize,
    /// The declared value of the margins, from the padding.
    pub neutral: Option<f64>,
    /// The requested memory mode.
    pub mode: NodeMode,
    /// The bit patterns of the elements that the host writes before the first run.
    pub data: Option<Vec<u64>>,
}

/// The memory mode that the program requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeMode {
    /// The program requests no mode, and the optimizer decides.
    Undecided,
    /// The node has memory.
    Materialized,
    /// The node is inlined at each use.
    Virtual,
    /// The node is stored; the optimizer decides where, and for how long.
    NeverVirtual,
}

/// A letter of a statement, with the number of its values.
#[derive(Clone, Debug)]
pub struct ProgramLetter {
    /// The name in the text.
    pub name: &'static str,
    /// The letter's values are `0..extent`.
    pub extent: usize,
    /// Whether the text gives the range in a `where`, although it follows from an axis.
    pub is_explicit: bool,
}

/// A statement: an assignment, or a value for a whole node.
#[derive(Clone, Debug)]
pub enum ProgramStatement {
    /// Stores or accumulates values over a product space.
    Assign(ProgramAssign),
    /// `node := offsets()`
    Offsets {
        /// The written node.
        node: usize,
    },
    /// `node := values(..)`
    Values {
        /// The written node.
        node: usize,
        /// The elements in row-major order.
        values: Vec<ProgramNumber>,
    },
    /// `node := slice(source, @symbol)`
    Slice {
        /// The view.
        node: usize,
        /// The node whose first axis the symbol indexes.
        source: usize,
        /// The symbol.
        symbol: usize,
    },
}

/// `targets operator values where ..`
#[derive(Clone, Debug)]
pub struct ProgramAssign {
    /// The letters; indices refer to them by position.
    pub letters: Vec<ProgramLetter>,
    /// The written elements; two of them split a value along a concatenated axis.
    pub targets: Vec<ProgramAccess>,
    /// The operation that combines a value with the element.
    pub op: Accumulation,
    /// Whether every element starts from the neutral element of the operation.
    pub starts: bool,
    /// The values; two of them are concatenated along an axis.
    pub values: Vec<ProgramExpr>,
    /// The points at which the statement assigns.
    pub bound: Option<ProgramBound>,
}

/// `less <= greater` or `less < greater` in `where`.
#[derive(Clone, Copy, Debug)]
pub struct ProgramBound {
    /// The lesser side.
    pub less: ProgramVar,
    /// The greater side.
    pub greater: ProgramVar,
    /// Whether the sides differ.
    pub is_strict: bool,
}

/// The operation that combines a value with the element's current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulation {
    /// The value replaces the element.
    Store,
    /// `old + new`
    Add,
    /// `old - new`
    Sub,
    /// `old * new`
    Mul,
    /// `old / new`
    Div,
    /// `old` to the power of `new`
    Pow,
    /// The greater of both.
    Max,
    /// The smaller of both.
    Min,
    /// `new` where `old > 0`, else 0
    ReluGate,
    /// `new` where `0 < old < 1`, else 0
    Satur01Gate,
    /// 1 if either is not 0, else 0
    Or,
    /// 1 if both are not 0, else 0
    And,
}

/// An element of a node.
#[derive(Clone, Debug)]
pub struct ProgramAccess {
    /// The node.
    pub node: usize,
    /// An index for each axis of the node.
    pub axes: Vec<ProgramAxis>,
    /// The number for elements outside the node, from `pad`.
    pub pad: Option<ProgramNumber>,
}

/// The index of one axis.
#[derive(Clone, Debug)]
pub enum ProgramAxis {
    /// A sum of letters and symbols.
    Affine(ProgramAffine),
    /// An index that is known only when the program runs.
    Computed(Box<ProgramExpr>),
    /// A concatenation of the ranges of several letters.
    Concat(Vec<usize>),
}

/// A sum of multiples of letters and symbols.
#[derive(Clone, Debug, Default)]
pub struct ProgramAffine {
    /// The variables, each with its factor.
    pub terms: Vec<(i64, ProgramVar)>,
    /// The constant that is added.
    pub offset: i64,
}

/// A variable of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramVar {
    /// An index letter, as its position in the statement's `letters`.
    Letter(usize),
    /// A symbol of the program.
    Symbol(usize),
}

/// A number in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProgramNumber {
    /// A whole number.
    Integer(i64),
    /// A number that is written with a fraction.
    Fraction(f64),
    /// `inf`
    Infinity,
    /// `nan`
    Nan,
}

/// An expression.
#[derive(Clone, Debug)]
pub enum ProgramExpr {
    /// A number.
    Number(ProgramNumber),
    /// The value of a letter or symbol.
    Var(ProgramVar),
    /// The number of values of a letter.
    Size(usize),
    /// An element of a node.
    Read(ProgramAccess),
    /// A conversion to a type.
    Cast(DType, Box<ProgramExpr>),
    /// A function of one argument.
    Unary(UnaryFunction, Box<ProgramExpr>),
    /// An operator or function of two arguments.
    Binary(BinaryFunction, Box<[ProgramExpr; 2]>),
    /// `where(condition, then, otherwise)`
    Where(Box<[ProgramExpr; 3]>),
    /// `fma(a, b, c)`
    Fma(Box<[ProgramExpr; 3]>),
}

macro_rules! operations {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $token:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(
                #[doc = concat!("`", $token, "`")]
                $variant,
            )*
        }

        impl $name {
            /// All variants, in the order of their declaration.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The name or operator in the text.
            pub fn token(self) -> &'static str {
                match self { $($name::$variant => $token,)* }
            }
        }
    };
}

operations! {
    /// Functions of one argument.
    UnaryFunction {
        Neg = "neg", Abs = "abs", Not = "not", Relu = "relu", Satur01 = "satur01", Exp = "exp", Exp2 = "exp2",
        Expm1 = "expm1", Log = "log", Log1p = "log1p", Log2 = "log2", Sin = "sin", Cos = "cos", Tanh = "tanh",
        Sigmoid = "sigmoid",
        Atan = "atan", Erf = "erf", Erfc = "erfc", Sqrt = "sqrt", Recip = "recip", RecipSqrt = "recip_sqrt", Trunc = "trunc", Floor = "floor", RoundEven = "round_even",
    }
}

operations! {
    /// Operators and functions of two arguments.
    BinaryFunction {
        Add = "+", Sub = "-", Mul = "*", Div = "/", Rem = "%", Lt = "<", Le = "<=", Gt = ">", Ge = ">=", Eq = "==",
        Ne = "!=", Pow = "pow", Max = "max", Min = "min", ReluGate = "relu_gate", Satur01Gate = "satur01_gate",
        And = "and", Or = "or", BitAnd = "bit_and", BitOr = "bit_or", BitXor = "bit_xor", Shl = "shl", Shr = "shr",
        Arg1 = "arg1", Arg2 = "arg2",
    }
}

impl ProgramStatement {
    /// The nodes that the statement writes.
    pub fn written(&self) -> Vec<usize> {
        match self {
            ProgramStatement::Assign(assign) => assign.targets.iter().map(|target| target.node).collect(),
            ProgramStatement::Offsets { node }
            | ProgramStatement::Values { node, .. }
            | ProgramStatement::Slice { node, .. } => vec![*node],
        }
    }
}

impl BinaryFunction {
    /// Whether the result is a truth value of a comparison.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryFunction::Lt
                | BinaryFunction::Le
                | BinaryFunction::Gt
                | BinaryFunction::Ge
                | BinaryFunction::Eq
                | BinaryFunction::Ne
        )
    }

    /// Whether the operands are bits of integers.
    pub fn is_bitwise(self) -> bool {
        matches!(
            self,
            BinaryFunction::BitAnd
                | BinaryFunction::BitOr
                | BinaryFunction::BitXor
                | BinaryFunction::Shl
                | BinaryFunction::Shr
        )
    }

    /// Whether the operands are truth values.
    pub fn is_logical(self) -> bool {
        matches!(self, BinaryFunction::And | BinaryFunction::Or)
    }
}

impl Accumulation {
    /// Whether elements may start from a neutral element of the operation.
    pub fn has_neutral(self) -> bool {
        !matches!(self, Accumulation::Store | Accumulation::ReluGate | Accumulation::Satur01Gate)
    }

    /// The operator in the text, without its `=`.
    pub fn token(self) -> &'static str {
        match self {
            Accumulation::Store => "",
            Accumulation::Add => "+",
            Accumulation::Sub => "-",
            Accumulation::Mul => "*",
            Accumulation::Div => "/",
            Accumulation::Pow => "pow",
            Accumulation::Max => "max",
            Accumulation::Min => "min",
            Accumulation::ReluGate => "relu_gate",
            Accumulation::Satur01Gate => "satur01_gate",
            Accumulation::Or => "or",
            Accumulation::And => "and",
        }
    }
}

impl ProgramExpr {
    /// Calls `visit` on this expression and all its parts, in the order of the text.
    pub fn walk(&self, visit: &mut dyn FnMut(&ProgramExpr)) {
        visit(self);
        match self {
            ProgramExpr::Number(_) | ProgramExpr::Var(_) | ProgramExpr::Size(_) => {}
            ProgramExpr::Read(access) => access.walk(visit),
            ProgramExpr::Cast(_, a) | ProgramExpr::Unary(_, a) => a.walk(visit),
            ProgramExpr::Binary(_, args) => args.iter().for_each(|arg| arg.walk(visit)),
            ProgramExpr::Where(args) | ProgramExpr::Fma(args) => args.iter().for_each(|arg| arg.walk(visit)),
        }
    }
}

impl ProgramAccess {
    /// Whether an index is computed when the program runs.
    pub fn is_computed(&self) -> bool {
        self.axes.iter().any(|axis| matches!(axis, ProgramAxis::Computed(_)))
    }

    /// Calls `visit` on the variables and expressions of all indices, in the order of the text.
    pub fn walk(&self, visit: &mut dyn FnMut(&ProgramExpr)) {
        for axis in &self.axes {
            match axis {
                ProgramAxis::Affine(affine) => {
                    affine.terms.iter().for_each(|&(_, var)| visit(&ProgramExpr::Var(var)))
                }
                ProgramAxis::Concat(letters) => {
                    letters.iter().for_each(|&l| visit(&ProgramExpr::Var(ProgramVar::Letter(l))))
                }
                ProgramAxis::Computed(expr) => expr.walk(visit),
            }
        }
    }
}

impl ProgramAssign {
    /// Two lists: the letters that the targets mention, and all other letters. The second list starts with
    /// the letters of indices in the order of the text; letters that occur only as values follow.
    pub fn loops(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let add = |to: &mut Vec<usize>, e: &ProgramExpr| {
            if let ProgramExpr::Var(ProgramVar::Letter(letter)) | ProgramExpr::Size(letter) = e
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

    pub(crate) fn accesses(&self) -> Vec<&ProgramAccess> {
        let mut all: Vec<&ProgramAccess> = self.targets.iter().collect();
        self.values.iter().for_each(|value| accesses(value, &mut all));
        for target in &self.targets {
            for axis in &target.axes {
                if let ProgramAxis::Computed(expr) = axis {
                    accesses(expr, &mut all);
                }
            }
        }
        all
    }
}

/// Appends the accesses of an expression.
fn accesses<'e>(expr: &'e ProgramExpr, all: &mut Vec<&'e ProgramAccess>) {
    match expr {
        ProgramExpr::Number(_) | ProgramExpr::Var(_) | ProgramExpr::Size(_) => {}
        ProgramExpr::Read(access) => {
            all.push(access);
            for axis in &access.axes {
                if let ProgramAxis::Computed(expr) = axis {
                    accesses(expr, all);
                }
            }
        }
        ProgramExpr::Cast(_, a) | ProgramExpr::Unary(_, a) => accesses(a, all),
        ProgramExpr::Binary(_, args) => args.iter().for_each(|arg| accesses(arg, all)),
        ProgramExpr::Where(args) | ProgramExpr::Fma(args) => args.iter().for_each(|arg| accesses(arg, all)),
    }
}

impl ProgramNode {
    /// The margins and their value, if the node has margins.
    pub fn padding(&self) -> Option<Padding> {
        let margins = self.dims.iter().map(|_| (self.margin, self.margin));
        (self.margin > 0).then(|| Padding::new(margins, self.neutral))
    }

    /// The position of each element within the array with margins, row-major.
    pub fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0];
        for &size in &self.dims {
            let whole = size + 2 * self.margin;
            let axis = |&start: &usize| (0..size).map(move |at| start * whole + self.margin + at);
            offsets = offsets.iter().flat_map(axis).collect();
        }
        offsets
    }

    /// A new tensor node with this name, shape and type, and with the requested memory mode.
    pub fn tensor_node(&self) -> TensorNode {
        let builder =
            TensorNode::builder(self.name.as_str()).dims(self.dims.iter().copied()).dtype(self.dtype);
        let builder = match self.mode {
            NodeMode::Undecided => builder,
            NodeMode::Materialized => builder.mode(MemoryMode::Materialized),
            NodeMode::Virtual => builder.mode(MemoryMode::Virtual),
            NodeMode::NeverVirtual => builder.mode(MemoryMode::NeverVirtual),
        };
        let builder = match self.padding() {
            Some(padding) => builder.padding(padding),
            None => builder,
        };
        builder.build().expect("a small node")
    }
}
