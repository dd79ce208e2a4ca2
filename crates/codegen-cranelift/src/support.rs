//! The supported operations by type. Kernels with other operations are rejected here, before any code is
//! generated.
//!
//! The table describes kernels after legalization. `bool`, integers, `f32` and `f64` have arithmetic.
//! Narrower floats are moved, selected and reinterpreted, and some are converted from and to `f32`, but have
//! no arithmetic; `u32x4` is only moved. GEMM plans may read operands from narrower floats.

use codegen_core::emit::lacking;
use codegen_core::{Caps, Checked, CodegenError, DTypeSet, Kernel, Renderer, canonical, reject};
use lowered_ir::ir::{BinaryOp, Expr, Locals, LoweredRoutine, Stmt, TernaryOp, UnaryOp, walk};
use tnode::DType;

use crate::caps::CONVERTED_TYPES;

/// The name of this codegen in messages.
pub(crate) const NAME: &str = "cranelift";

/// Checks kernels, which [`CraneliftCompiler`](crate::CraneliftCompiler) compiles directly.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct CraneliftRenderer;

/// Says that the operations of a kernel are all supported.
#[derive(Clone, Copy, Debug)]
pub struct CheckedKernel {
    /// The element types of contractions for which the kernel was checked.
    pub(crate) contractions: DTypeSet,
}

impl Renderer for CraneliftRenderer {
    type Source = CheckedKernel;

    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<CheckedKernel, CodegenError> {
        check(kernel, caps.contractions)?;
        Ok(CheckedKernel { contractions: caps.contractions })
    }
}

/// Checks that every operation of the kernel is supported. `contractions` has the element types of GEMM
/// plans.
///
/// # Errors
///
/// [`CodegenError::Unsupported`] naming the first operation that is not supported, and
/// [`CodegenError::Failed`] if the kernel's launch covers nested parallel loops, as on a GPU.
pub(crate) fn check(kernel: &Kernel, contractions: DTypeSet) -> Result<(), CodegenError> {
    let routine = kernel.ir();
    let (extent, most) = (kernel.abi().launch.extent, kernel.host_extent());
    if extent != 1 && extent != most {
        // The range of a call indexes the outermost loop only.
        let message = format!("it is launched over 0..{extent}, expected 0..{most} or 0..1");
        return Err(failed(&kernel.abi().name, "checking its launch", message));
    }
    check_block(routine, &routine.locals(), &routine.body, contractions)
        .map_err(|rejection| rejection.of_kernel(NAME, &kernel.abi().name))
}

/// An error that is a bug of this crate, in a stage of compiling a kernel.
pub(crate) fn failed(kernel: &str, stage: &'static str, message: String) -> CodegenError {
    CodegenError::failed(NAME, kernel, stage, message)
}

fn check_block(routine: &LoweredRoutine, locals: &Locals, block: &[Stmt], contractions: DTypeSet) -> Checked {
    block.iter().try_for_each(|stmt| match stmt {
        Stmt::For { body, .. } if canonical::widens(body, routine, Some(locals), contractions) => Ok(()),
        Stmt::For { body, .. } => check_block(routine, locals, body, contractions),
        stmt => {
            check_stmt(routine, locals, stmt)?;
            stmt.values().try_for_each(|value| check_value(routine, locals, value))
        }
    })
}

fn check_stmt(routine: &LoweredRoutine, locals: &Locals, stmt: &Stmt) -> Checked {
    match stmt {
        Stmt::SetDynamic { op: Some(op), .. } => lacking::accumulating_scatter(op),
        Stmt::SetDynamic { at, .. } => check_index_type("scatter", routine.dtype_of(at, locals)),
        _ => Ok(()),
    }
}

fn check_value(routine: &LoweredRoutine, locals: &Locals, value: &Expr) -> Checked {
    let mut checked = Ok(());
    walk::parts(value).for_each(|expr| {
        if checked.is_ok() {
            checked = check_expr(routine, locals, expr);
        }
    });
    checked
}

fn check_expr(routine: &LoweredRoutine, locals: &Locals, expr: &Expr) -> Checked {
    let dtype = |e: &Expr| routine.dtype_of(e, locals);
    match expr {
        Expr::Unary { op, arg } => checked(op, dtype(arg), unary(*op, dtype(arg))),
        Expr::Binary { op, a, .. } => checked(op, dtype(a), binary(*op, dtype(a))),
        Expr::Ternary { op: TernaryOp::Where, b, .. } => {
            checked(&TernaryOp::Where, dtype(b), random_bits(dtype(b)))
        }
        Expr::Ternary { op: TernaryOp::Fma, a, .. } => {
            checked(&TernaryOp::Fma, dtype(a), arithmetic(dtype(a)))
        }
        Expr::Ternary { op: TernaryOp::Mul3, a, .. } => lacking::expanded(TernaryOp::Mul3, dtype(a)),
        Expr::Convert { to, arg } => {
            let from = dtype(arg);
            let why = match (from, *to) {
                (from, to) if from == to => None,
                (narrow, DType::F32) | (DType::F32, narrow) if CONVERTED_TYPES.contains(narrow) => None,
                (from, to) => arithmetic(from).or(arithmetic(to)),
            };
            why.map_or(Ok(()), |why| reject(format!("convert {to}({from})"), why))
        }
        Expr::Bitcast { to, arg } => {
            let from = dtype(arg);
            match from.size_bytes() == to.size_bytes() {
                true => Ok(()),
                false => reject(format!("bitcast {to}({from})"), "the types differ in size"),
            }
        }
        Expr::Index { dtype: DType::I32 | DType::I64, .. } => Ok(()),
        Expr::Index { dtype, .. } => reject(format!("index {dtype}"), "indices are `i32` or `i64`"),
        Expr::GetDynamic { at, .. } => check_index_type("gather", dtype(at)),
        Expr::Const(_) | Expr::Get { .. } | Expr::GetGuarded { .. } => Ok(()),
        Expr::Lane { .. } | Expr::Lanes(_) => Ok(()),
        Expr::GetMerge { .. } | Expr::GetLocal { .. } => Ok(()),
    }
}

fn check_index_type(op: &str, dtype: DType) -> Checked {
    match dtype {
        DType::I64 => Ok(()),
        _ => reject(format!("{op} at {dtype}"), "legalization makes computed indices `i64`"),
    }
}

fn checked(op: &impl std::fmt::Display, dtype: DType, why: Option<&'static str>) -> Checked {
    why.map_or(Ok(()), |why| reject(format!("`{op}` on {dtype}"), why))
}

fn unary(op: UnaryOp, dtype: DType) -> Option<&'static str> {
    match op {
        // Sine and cosine of `f64` are called for arguments outside of the expansion's range.
        UnaryOp::Sin | UnaryOp::Cos if dtype == DType::F64 => None,
        _ if op.is_transcendental() => Some("legalization expands transcendental functions"),
        _ => arithmetic(dtype),
    }
}

fn binary(op: BinaryOp, dtype: DType) -> Option<&'static str> {
    match op {
        BinaryOp::Arg1 | BinaryOp::Arg2 => Some("legalization replaces it"),
        _ if op.is_random() => Some("legalization expands generators of random bits"),
        BinaryOp::Pow if dtype.is_float() => Some("legalization expands transcendental functions"),
        _ if op.is_bitwise() && dtype.is_float() => Some("floats have no bit operations"),
        _ => arithmetic(dtype),
    }
}

fn arithmetic(dtype: DType) -> Option<&'static str> {
    random_bits(dtype).or(narrow_float(dtype))
}

fn random_bits(dtype: DType) -> Option<&'static str> {
    (dtype == DType::U32x4).then_some("random bits are only moved")
}

fn narrow_float(dtype: DType) -> Option<&'static str> {
    let is_narrow = dtype.is_float() && dtype.size_bytes() < 4;
    is_narrow.then_some("legalization computes with narrow floats through f32")
}

/// Whether kernels may compute with a type.
#[cfg(test)]
pub(crate) fn computes(dtype: DType) -> bool {
    arithmetic(dtype).is_none()
}
