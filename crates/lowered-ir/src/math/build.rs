//! Expands an operation into IR: an algebra that records its steps instead of computing them.
//!
//! The steps become scalar locals, declared and set once; a step that is used once is written in place of its
//! use. The steps are the operations that [`Native`](super::Native) computes, so the expansion gives the same
//! bits.

use tnode::{DType, Scalar};

use super::{Algebra, Format, pow_of_single, single_computes_in_double, unary_of_single};
use crate::ir::{BinaryOp, Block, Expr, Fresh, LocalId, Stmt, TernaryOp, UnaryOp, walk};

/// Expands a transcendental operation on `x` of type `dtype`: appends the steps to `block` and gives the
/// result as an expression over their locals. For other operations, and for types other than `f32` and `f64`,
/// appends nothing and returns `None`.
pub fn unary(op: UnaryOp, dtype: DType, x: Expr, fresh: &mut Fresh, block: &mut Block) -> Option<Expr> {
    match dtype {
        DType::F32 if single_computes_in_double(op) => {
            let mut steps = IrAlgebra::new(Format::Double);
            let x = steps.input(Expr::convert(DType::F64, x));
            let result = unary_of_single(&mut steps, op, x)?;
            Some(Expr::convert(DType::F32, steps.write(result, fresh, block)))
        }
        DType::F32 => in_format(Format::Single, op, x, fresh, block),
        DType::F64 => in_format(Format::Double, op, x, fresh, block),
        _ => None,
    }
}

fn in_format(format: Format, op: UnaryOp, x: Expr, fresh: &mut Fresh, block: &mut Block) -> Option<Expr> {
    let mut steps = IrAlgebra::new(format);
    let x = steps.input(x);
    let result = super::unary(&mut steps, op, x)?;
    Some(steps.write(result, fresh, block))
}

/// Expands a transcendental operation on an `f32` into steps on `f32` and `i32` alone, for targets without
/// `f64`. For the operations of [`single_computes_in_double`] this is another function than that of
/// [`unary`], with an error bound of its own.
pub fn unary_in_single(op: UnaryOp, x: Expr, fresh: &mut Fresh, block: &mut Block) -> Option<Expr> {
    in_format(Format::Single, op, x, fresh, block)
}

/// Expands `x` to the power of `y`, both of type `dtype`, like [`unary`].
pub fn pow(dtype: DType, x: Expr, y: Expr, fresh: &mut Fresh, block: &mut Block) -> Option<Expr> {
    match dtype {
        DType::F32 => {
            let mut steps = IrAlgebra::new(Format::Double);
            let (x, y) = (Expr::convert(DType::F64, x), Expr::convert(DType::F64, y));
            let (x, y) = (steps.input(x), steps.input(y));
            let result = pow_of_single(&mut steps, x, y);
            Some(Expr::convert(DType::F32, steps.write(result, fresh, block)))
        }
        DType::F64 => Some(pow_in_format(Format::Double, x, y, fresh, block)),
        _ => None,
    }
}

/// Expands `x` to the power of `y`, both `f32`, like [`unary_in_single`].
pub fn pow_in_single(x: Expr, y: Expr, fresh: &mut Fresh, block: &mut Block) -> Expr {
    pow_in_format(Format::Single, x, y, fresh, block)
}

fn pow_in_format(format: Format, x: Expr, y: Expr, fresh: &mut Fresh, block: &mut Block) -> Expr {
    let mut steps = IrAlgebra::new(format);
    let (x, y) = (steps.input(x), steps.input(y));
    let result = super::pow(&mut steps, x, y);
    steps.write(result, fresh, block)
}

/// An operand of a step: an earlier step, or a constant.
#[derive(Clone, Copy, Debug)]
enum StepOperand {
    Step(usize),
    Const(Scalar),
}

/// An algebra that records its steps as IR. In each expression but an input's, the local `i` stands for step
/// `i`.
#[derive(Debug)]
struct IrAlgebra {
    format: Format,
    steps: Vec<IrStep>,
}

#[derive(Debug)]
struct IrStep {
    dtype: DType,
    expr: Expr,
    is_input: bool,
}

impl IrAlgebra {
    fn new(format: Format) -> IrAlgebra {
        IrAlgebra { format, steps: Vec::new() }
    }

    fn float_type(&self) -> DType {
        match self.format {
            Format::Single => DType::F32,
            Format::Double => DType::F64,
        }
    }

    fn int_type(&self) -> DType {
        match self.format {
            Format::Single => DType::I32,
            Format::Double => DType::I64,
        }
    }

    fn input(&mut self, expr: Expr) -> StepOperand {
        self.push(IrStep { dtype: self.float_type(), expr, is_input: true })
    }

    fn step(&mut self, dtype: DType, expr: Expr) -> StepOperand {
        self.push(IrStep { dtype, expr, is_input: false })
    }

    fn push(&mut self, step: IrStep) -> StepOperand {
        self.steps.push(step);
        StepOperand::Step(self.steps.len() - 1)
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, a: StepOperand, b: StepOperand) -> StepOperand {
        self.step(dtype, Expr::binary(op, a.reference(), b.reference()))
    }

    fn float_binary(&mut self, op: BinaryOp, a: StepOperand, b: StepOperand) -> StepOperand {
        self.binary(op, self.float_type(), a, b)
    }

    fn int_binary(&mut self, op: BinaryOp, a: StepOperand, b: StepOperand) -> StepOperand {
        self.binary(op, self.int_type(), a, b)
    }

    /// A shift amount modulo the width. The mask is repeated at each use, so that every analysis sees that
    /// the shift is in range.
    fn shift_amount(&mut self, by: StepOperand) -> StepOperand {
        let mask = self.int(8 * self.int_type().size_bytes() as i64 - 1);
        self.int_binary(BinaryOp::BitAnd, by, mask)
    }

    fn float_unary(&mut self, op: UnaryOp, x: StepOperand) -> StepOperand {
        self.step(self.float_type(), Expr::unary(op, x.reference()))
    }

    /// Appends the declarations and values of the steps that `result` needs, and gives its expression.
    fn write(self, result: StepOperand, fresh: &mut Fresh, block: &mut Block) -> Expr {
        let uses = self.uses(result);
        let mut written: Vec<Expr> = Vec::with_capacity(self.steps.len());
        for (step, uses) in self.steps.into_iter().zip(uses) {
            let expr = match step.is_input {
                true => step.expr,
                false => walk::map_children(step.expr, &mut |operand| resolve(operand, &written)),
            };
            let in_place = uses < 2 || is_atom(&expr);
            written.push(if in_place { expr } else { bind(expr, step.dtype, fresh, block) });
        }
        resolve(result.reference(), &written)
    }

    /// The number of uses of each step. Uses by steps that are themselves unused do not count, and the result
    /// counts as one use.
    fn uses(&self, result: StepOperand) -> Vec<usize> {
        let mut uses = vec![0; self.steps.len()];
        count(&result.reference(), &mut uses);
        for at in (0..self.steps.len()).rev() {
            if uses[at] > 0 && !self.steps[at].is_input {
                walk::parts(&self.steps[at].expr).for_each(|part| count(part, &mut uses));
            }
        }
        uses
    }
}

fn count(expr: &Expr, uses: &mut [usize]) {
    if let Expr::GetLocal { local, .. } = expr {
        uses[local.index()] += 1;
    }
}

/// The expression a reference to a step stands for; a constant stands for itself.
fn resolve(operand: Expr, written: &[Expr]) -> Expr {
    match operand {
        Expr::GetLocal { local, .. } => written[local.index()].clone(),
        constant => constant,
    }
}

fn is_atom(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) => true,
        Expr::GetLocal { index, .. } => index.is_empty(),
        _ => false,
    }
}

/// Declares a scalar local that holds `expr`, and gives a reference to it.
pub fn bind(expr: Expr, dtype: DType, fresh: &mut Fresh, block: &mut Block) -> Expr {
    let local = fresh.local_id();
    block.extend([Stmt::scalar(local, dtype), Stmt::set_scalar(local, expr)]);
    Expr::local(local)
}

impl StepOperand {
    fn reference(self) -> Expr {
        match self {
            StepOperand::Step(at) => Expr::local(LocalId(at as u32)),
            StepOperand::Const(scalar) => Expr::Const(scalar),
        }
    }
}

/// Defines methods that record one operation on their operands.
macro_rules! operations {
    ($($name:ident($($operand:ident),*) => $step:ident($op:path);)*) => {
        $(
            fn $name(&mut self, $($operand: StepOperand),*) -> StepOperand {
                self.$step($op, $($operand),*)
            }
        )*
    };
}

impl Algebra for IrAlgebra {
    type Float = StepOperand;
    type Int = StepOperand;
    type Bool = StepOperand;

    fn format(&self) -> Format {
        self.format
    }

    fn float(&mut self, x: f64) -> StepOperand {
        StepOperand::Const(Scalar::from_f64(self.float_type(), x))
    }

    fn int(&mut self, x: i64) -> StepOperand {
        StepOperand::Const(Scalar::from_i64(self.int_type(), x))
    }

    operations! {
        neg(x) => float_unary(UnaryOp::Neg);
        abs(x) => float_unary(UnaryOp::Abs);
        round_even(x) => float_unary(UnaryOp::RoundEven);
        add(a, b) => float_binary(BinaryOp::Add);
        sub(a, b) => float_binary(BinaryOp::Sub);
        mul(a, b) => float_binary(BinaryOp::Mul);
        div(a, b) => float_binary(BinaryOp::Div);
        max(a, b) => float_binary(BinaryOp::Max);
        min(a, b) => float_binary(BinaryOp::Min);
        int_add(a, b) => int_binary(BinaryOp::Add);
        int_sub(a, b) => int_binary(BinaryOp::Sub);
        int_mul(a, b) => int_binary(BinaryOp::Mul);
        and(a, b) => int_binary(BinaryOp::BitAnd);
        or(a, b) => int_binary(BinaryOp::BitOr);
    }

    fn fma(&mut self, a: StepOperand, b: StepOperand, c: StepOperand) -> StepOperand {
        self.step(self.float_type(), Expr::fma(a.reference(), b.reference(), c.reference()))
    }

    fn lt(&mut self, a: StepOperand, b: StepOperand) -> StepOperand {
        self.binary(BinaryOp::Lt, DType::Bool, a, b)
    }

    fn eq(&mut self, a: StepOperand, b: StepOperand) -> StepOperand {
        self.binary(BinaryOp::Eq, DType::Bool, a, b)
    }

    fn int_eq(&mut self, a: StepOperand, b: StepOperand) -> StepOperand {
        self.binary(BinaryOp::Eq, DType::Bool, a, b)
    }

    fn select(&mut self, c: StepOperand, a: StepOperand, b: StepOperand) -> StepOperand {
        let [c, a, b] = [c, a, b].map(StepOperand::reference);
        self.step(self.float_type(), Expr::ternary(TernaryOp::Where, c, a, b))
    }

    fn int_select(&mut self, c: StepOperand, a: StepOperand, b: StepOperand) -> StepOperand {
        let [c, a, b] = [c, a, b].map(StepOperand::reference);
        self.step(self.int_type(), Expr::ternary(TernaryOp::Where, c, a, b))
    }

    fn bits(&mut self, x: StepOperand) -> StepOperand {
        match x {
            StepOperand::Const(scalar) => StepOperand::Const(Scalar::new(self.int_type(), scalar.bits())),
            step => self.step(self.int_type(), Expr::bitcast(self.int_type(), step.reference())),
        }
    }

    fn with_bits(&mut self, x: StepOperand) -> StepOperand {
        self.step(self.float_type(), Expr::bitcast(self.float_type(), x.reference()))
    }

    fn to_float(&mut self, x: StepOperand) -> StepOperand {
        self.step(self.float_type(), Expr::convert(self.float_type(), x.reference()))
    }

    fn shl(&mut self, x: StepOperand, by: u32) -> StepOperand {
        let by = self.int(i64::from(by));
        self.int_binary(BinaryOp::Shl, x, by)
    }

    fn call(&mut self, op: UnaryOp, x: StepOperand) -> StepOperand {
        self.float_unary(op, x)
    }

    fn shr(&mut self, x: StepOperand, by: u32) -> StepOperand {
        let by = self.int(i64::from(by));
        self.int_binary(BinaryOp::Shr, x, by)
    }

    fn shl_by(&mut self, x: StepOperand, by: StepOperand) -> StepOperand {
        let by = self.shift_amount(by);
        self.int_binary(BinaryOp::Shl, x, by)
    }

    fn shr_by(&mut self, x: StepOperand, by: StepOperand) -> StepOperand {
        let by = self.shift_amount(by);
        self.int_binary(BinaryOp::Shr, x, by)
    }
}
