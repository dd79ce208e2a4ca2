//! The supported operations by type. Kernels with other operations are rejected here, before any code is
//! generated.
//!
//! The table describes kernels after legalisation. `bool`, integers, `f32` and `f64` have arithmetic.
//! Narrower floats are moved, selected and reinterpreted, but have no arithmetic; `u32x4` is only moved. GEMM
//! plans may read operands from narrower floats.

use codegen_core::canonical;
use codegen_core::{CodegenError, DTypeSet, Kernel};
use lowered_ir::ir::{BinaryOp, Expr, Locals, Routine, Stmt, TernaryOp, UnaryOp, walk};
use tnode::DType;

/// The name of this codegen in messages.
pub(crate) const NAME: &str = "cranelift";

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
    match reject_block(routine, &routine.locals(), &routine.body, contractions) {
        None => Ok(()),
        Some((op, why)) => Err(CodegenError::Unsupported {
            codegen: NAME.into(),
            kernel: kernel.abi().name.clone(),
            op,
            why: why.into(),
        }),
    }
}

/// An error that is a bug of this crate, in a stage of compiling a kernel.
pub(crate) fn failed(kernel: &str, stage: &'static str, message: String) -> CodegenError {
    CodegenError::Failed { codegen: NAME.into(), kernel: kernel.into(), stage, message }
}

fn reject_block(
    routine: &Routine,
    locals: &Locals,
    block: &[Stmt],
    contractions: DTypeSet,
) -> Option<(String, &'static str)> {
    let refuse = |stmt: &Stmt| match stmt {
        Stmt::For { body, .. } if canonical::widens(body, routine, contractions) => None,
        Stmt::For { body, .. } => reject_block(routine, locals, body, contractions),
        stmt => reject_stmt(routine, locals, stmt)
            .or_else(|| stmt.values().into_iter().find_map(|value| reject_value(routine, locals, value))),
    };
    block.iter().find_map(refuse)
}

fn reject_stmt(routine: &Routine, locals: &Locals, stmt: &Stmt) -> Option<(String, &'static str)> {
    match stmt {
        Stmt::SetDynamic { op: Some(op), .. } => {
            Some((format!("scatter {op}"), "legalisation expands accumulating stores at computed indices"))
        }
        Stmt::SetDynamic { at, .. } if routine.dtype_of(at, locals) != DType::I64 => {
            let found = routine.dtype_of(at, locals);
            Some((format!("scatter at {found}"), "legalisation makes computed indices `i64`"))
        }
        _ => None,
    }
}

fn reject_value(routine: &Routine, locals: &Locals, value: &Expr) -> Option<(String, &'static str)> {
    let mut refused = None;
    walk::each_expr(value, &mut |expr| {
        if refused.is_none() {
            refused = reject_expr(routine, locals, expr);
        }
    });
    refused
}

fn reject_expr(routine: &Routine, locals: &Locals, expr: &Expr) -> Option<(String, &'static str)> {
    let dtype = |e: &Expr| routine.dtype_of(e, locals);
    match expr {
        Expr::Unary { op, arg } => named(op, dtype(arg), unary(*op, dtype(arg))),
        Expr::Binary { op, a, .. } => named(op, dtype(a), binary(*op, dtype(a))),
        Expr::Ternary { op: TernaryOp::Where, b, .. } => {
            named(&TernaryOp::Where, dtype(b), random_bits(dtype(b)))
        }
        Expr::Ternary { op: TernaryOp::Fma, a, .. } => named(&TernaryOp::Fma, dtype(a), arithmetic(dtype(a))),
        Expr::Ternary { op: TernaryOp::Mul3, a, .. } => {
            named(&TernaryOp::Mul3, dtype(a), Some("legalisation expands it"))
        }
        Expr::Convert { to, arg } => {
            let from = dtype(arg);
            let why = if from == *to { None } else { arithmetic(from).or(arithmetic(*to)) };
            why.map(|why| (format!("convert {to}({from})"), why))
        }
        Expr::Bitcast { to, arg } => {
            let from = dtype(arg);
            let why = (from.size_bytes() != to.size_bytes()).then_some("the types differ in size");
            why.map(|why| (format!("bitcast {to}({from})"), why))
        }
        Expr::Index { dtype: DType::I32 | DType::I64, .. } => None,
        Expr::Index { dtype, .. } => Some((format!("index {dtype}"), "indices are `i32` or `i64`")),
        Expr::GetDynamic { at, .. } if dtype(at) != DType::I64 => {
            Some((format!("gather at {}", dtype(at)), "legalisation makes computed indices `i64`"))
        }
        Expr::Const(_) | Expr::Get { .. } | Expr::GetGuarded { .. } | Expr::GetDynamic { .. } => None,
        Expr::Lane { .. } | Expr::Lanes(_) => None,
        Expr::GetMerge { .. } | Expr::GetLocal { .. } => None,
    }
}

fn named(
    op: &impl std::fmt::Display,
    dtype: DType,
    why: Option<&'static str>,
) -> Option<(String, &'static str)> {
    why.map(|why| (format!("`{op}` on {dtype}"), why))
}

fn unary(op: UnaryOp, dtype: DType) -> Option<&'static str> {
    use UnaryOp::*;
    match op {
        // Sine and cosine of `f64` are called for arguments outside of the expansion's range.
        Sin | Cos if dtype == DType::F64 => None,
        Exp | Exp2 | Log | Log2 | Sin | Cos | Tanh => Some("legalisation expands transcendental functions"),
        Neg | Abs | Not | Relu | Satur01 | Sqrt | Recip | RecipSqrt | Trunc | Floor | RoundEven => {
            arithmetic(dtype)
        }
    }
}

fn binary(op: BinaryOp, dtype: DType) -> Option<&'static str> {
    match op {
        BinaryOp::Arg1 | BinaryOp::Arg2 => Some("legalisation replaces it"),
        _ if op.is_random() => Some("legalisation expands generators of random bits"),
        BinaryOp::Pow if dtype.is_float() => Some("legalisation expands transcendental functions"),
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
    is_narrow.then_some("legalisation computes with narrow floats through f32")
}

/// Whether kernels may compute with a type.
#[cfg(test)]
pub(crate) fn computes(dtype: DType) -> bool {
    arithmetic(dtype).is_none()
}
