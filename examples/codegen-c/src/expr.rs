//! Expressions as C. The result of each operation has a name, so that no text is written twice, and the type
//! of the name cuts narrow integers to their width.

use codegen_core::ir::{BinaryOp, Expr, Guard, Range, TernaryOp, UnaryOp};
use codegen_core::{Checked, DType, Scalar, reject};

use crate::render::{Emitter, affine};
use crate::wide;

/// A C expression without side effects that may stand beside any operator, and its type.
pub(crate) type Value = (String, DType);

impl Emitter<'_> {
    /// Writes the operations of an expression, and returns its value.
    pub(crate) fn expr(&mut self, expr: &Expr) -> Checked<Value> {
        match expr {
            Expr::Const(scalar) => Ok((constant(*scalar), scalar.dtype())),
            Expr::Index { index, dtype } => {
                Ok((format!("(({})({}))", c_type(*dtype), affine(index)), *dtype))
            }
            Expr::Get { node, index } | Expr::GetMerge { node, index } => {
                Ok((self.node(*node, index), self.ir.node(*node).dtype))
            }
            Expr::GetLocal { local, index } => Ok((self.local(*local, index), self.locals[local].dtype)),
            Expr::GetGuarded { guard, node, index, otherwise } => {
                let (otherwise, dtype) = self.expr(otherwise)?;
                let read = self.node(*node, index);
                Ok(self.named(dtype, format!("{} ? {read} : {otherwise}", holds(guard))))
            }
            Expr::Unary { op, arg } => self.unary(*op, arg),
            Expr::Binary { op, a, b } => self.binary(*op, a, b),
            Expr::Ternary { op, a, b, c } => self.ternary(*op, a, b, c),
            _ => self.wide_expr(expr),
        }
    }

    fn unary(&mut self, op: UnaryOp, arg: &Expr) -> Checked<Value> {
        let (x, dtype) = self.expr(arg)?;
        let function = match op {
            UnaryOp::Neg => return Ok(self.named(dtype, format!("-{x}"))),
            UnaryOp::Abs if dtype.is_integer() => {
                return Ok(self.named(dtype, format!("{x} < 0 ? -{x} : {x}")));
            }
            UnaryOp::Abs => "fabs",
            UnaryOp::Sqrt => "sqrt",
            UnaryOp::Floor => "floor",
            UnaryOp::Trunc => "trunc",
            UnaryOp::RoundEven => "rint",
            // An operand of `where` without a name, so that C calls the function for huge angles only.
            UnaryOp::Sin | UnaryOp::Cos if dtype == DType::F64 => {
                return Ok((format!("huge_angle_{op}({x})"), dtype));
            }
            _ => return not_legal(op, dtype),
        };
        Ok(self.named(dtype, format!("{function}{}({x})", suffix(dtype))))
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Checked<Value> {
        use BinaryOp::{Add, BitAnd, BitOr, BitXor, Div, Eq, Le, Lt, Max, Min, Mul, Ne, Rem, Shl, Shr, Sub};
        let ((a, dtype), (b, _)) = (self.expr(a)?, self.expr(b)?);
        let text = match op {
            Add | Sub | Mul | Div | Lt | Le | Eq | Ne => format!("{a} {op} {b}"),
            Max => format!("{b} > {a} || {b} != {b} ? {b} : {a}"),
            Min => format!("{b} < {a} || {b} != {b} ? {b} : {a}"),
            Rem if dtype.is_float() => format!("fmod{}({a}, {b})", suffix(dtype)),
            Rem => format!("{a} % {b}"),
            BitAnd => format!("{a} & {b}"),
            BitOr => format!("{a} | {b}"),
            BitXor => format!("{a} ^ {b}"),
            Shl => format!("{a} << {b}"),
            Shr => format!("{a} >> {b}"),
            _ => return not_legal(op, dtype),
        };
        Ok(self.named(op.result(dtype), text))
    }

    fn ternary(&mut self, op: TernaryOp, a: &Expr, b: &Expr, c: &Expr) -> Checked<Value> {
        let ((a, _), (b, dtype), (c, _)) = (self.expr(a)?, self.expr(b)?, self.expr(c)?);
        let text = match op {
            TernaryOp::Where => format!("{a} ? {b} : {c}"),
            TernaryOp::Fma => format!("fma{}({a}, {b}, {c})", suffix(dtype)),
            TernaryOp::Mul3 => return not_legal(op, dtype),
        };
        Ok(self.named(dtype, text))
    }

    /// Gives the result of an operation a name.
    pub(crate) fn named(&mut self, dtype: DType, text: String) -> Value {
        let name = format!("v{}", self.values);
        self.values += 1;
        self.line(format!("const {} {name} = {text};", c_type(dtype)));
        (name, dtype)
    }
}

fn not_legal<T>(op: impl std::fmt::Display, dtype: DType) -> Checked<T> {
    reject(format!("{op} {dtype}"), "legalization replaces it; was the kernel scheduled for another target?")
}

/// The end of the names of `math.h` for `float`.
fn suffix(dtype: DType) -> &'static str {
    if dtype == DType::F32 { "f" } else { "" }
}

fn holds(guard: &Guard) -> String {
    let holds = |Range { index, lo, hi }: &Range| format!("{lo} <= {0} && {0} < {hi}", affine(index));
    guard.iter().map(holds).fold("1".into(), |all, range| format!("{all} && {range}"))
}

/// The C type of an element.
pub(crate) fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::I32 => "int32_t",
        DType::Bool => "uint8_t",
        _ => wide::c_type(dtype),
    }
}

/// A constant with exactly these bits.
fn constant(scalar: Scalar) -> String {
    match scalar.dtype() {
        DType::F32 if scalar.as_f32().is_finite() => format!("({:e}f)", scalar.as_f32()),
        DType::I32 | DType::Bool => format!("({})", scalar.as_i64()),
        _ => wide::constant(scalar),
    }
}
