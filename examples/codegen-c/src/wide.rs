//! Everything beyond `f32`, `i32` and `bool` on known elements: the other types and conversions to them,
//! computed indices, random bits, logs.

use codegen_core::ir::{Expr, Indices, LogPart, NodeRef, Stmt, UnaryOp};
use codegen_core::{Checked, DType, Scalar, math, reject};
use libloading::Library;

use crate::expr::{Value, c_type as any_c_type};
use crate::render::Emitter;

/// The C type of an element. Legalization computes with the bits of narrow floats.
pub(crate) fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::I8 => "int8_t",
        DType::I64 => "int64_t",
        _ => bits_type(dtype),
    }
}

/// The type of the bits of an element.
fn bits_type(dtype: DType) -> &'static str {
    match dtype.size_bytes() {
        1 => "uint8_t",
        2 => "uint16_t",
        4 => "uint32_t",
        8 => "uint64_t",
        _ => "u32x4",
    }
}

/// A constant with exactly these bits.
pub(crate) fn constant(scalar: Scalar) -> String {
    let (dtype, bits) = (scalar.dtype(), scalar.bits());
    match dtype {
        DType::F64 if scalar.as_f64().is_finite() => format!("({:e})", scalar.as_f64()),
        _ if dtype.is_integer() && bits < 1 << 31 => format!("(({}){bits})", any_c_type(dtype)),
        DType::U32x4 => words([0, 32, 64, 96].map(|at| format!("{:#x}u", (bits >> at) as u32))),
        _ => reinterpreted(bits_type(dtype), any_c_type(dtype), format!("{bits:#x}u")),
    }
}

/// Random bits of four words.
pub(crate) fn words(words: [String; 4]) -> String {
    format!("((u32x4){{{{{}}}}})", words.join(", "))
}

/// The bits of a value as another type of the same size.
pub(crate) fn reinterpreted(from: &str, to: &str, x: String) -> String {
    format!("((union {{ {from} from; {to} to; }}){{{x}}}).to")
}

/// A value in another type. Integers keep their low bits. Floats lose their fraction, saturate at the ends of
/// the range, and are 0 for NaN.
pub(crate) fn converted(from: DType, to: DType, x: &str) -> String {
    let cast = format!("({}){x}", any_c_type(to));
    if !from.is_float() || !to.is_integer() {
        return cast;
    }
    let [least, most] = [f64::NEG_INFINITY, f64::INFINITY].map(|end| constant(Scalar::from_f64(to, end)));
    let high = 2f64.powi(8 * to.size_bytes() as i32 - i32::from(to.is_signed()));
    let low = if to.is_signed() { -high } else { 0.0 };
    format!("{x} != {x} ? 0 : {x} <= {low:e} ? {least} : {x} >= {high:e} ? {most} : {cast}")
}

impl Emitter<'_> {
    /// Conversions, computed indices and random bits.
    pub(crate) fn wide_expr(&mut self, expr: &Expr) -> Checked<Value> {
        match expr {
            Expr::Convert { to, arg } => {
                let (arg, from) = self.expr(arg)?;
                Ok(self.named(*to, converted(from, *to, &arg)))
            }
            Expr::Bitcast { to, arg } => {
                let (arg, from) = self.expr(arg)?;
                Ok(self.named(*to, reinterpreted(any_c_type(from), any_c_type(*to), arg)))
            }
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                let (otherwise, dtype) = self.expr(otherwise)?;
                let (inside, read) = self.computed(*node, index, *axis, at)?;
                Ok(self.named(dtype, format!("{inside} ? {read} : {otherwise}")))
            }
            Expr::Lane { lane, arg } => Ok((format!("{}.w[{lane}]", self.expr(arg)?.0), DType::U32)),
            Expr::Lanes(lanes) => {
                let [a, b, c, d] = lanes.each_ref().map(|lane| self.expr(lane));
                Ok((words([a?.0, b?.0, c?.0, d?.0]), DType::U32x4))
            }
            _ => reject("an expression", "it is none of the second level"),
        }
    }

    /// Stores at computed indices, and logs.
    pub(crate) fn wide_stmt(&mut self, stmt: &Stmt) -> Checked {
        match stmt {
            Stmt::SetDynamic { node, index, axis, at, op: None, value } => {
                let (value, _) = self.expr(value)?;
                let (inside, element) = self.computed(*node, index, *axis, at)?;
                self.line(format!("if ({inside}) {element} = {value};"));
                Ok(())
            }
            Stmt::Log { parts } => self.log(parts, self.lines.get(stmt).unwrap_or_default()),
            _ => reject("an accumulating scatter", "legalization replaces it"),
        }
    }

    /// The condition that a computed index is in bounds, and the element there.
    fn computed(
        &mut self,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        at: &Expr,
    ) -> Checked<(String, String)> {
        let (at, dtype) = self.expr(at)?;
        let (at, _) = self.named(dtype, at);
        let (dims, first) = (&self.ir.node(node).dims, self.node(node, index));
        let stride: usize = dims[axis + 1..].iter().product();
        Ok((format!("(uint64_t){at} < {}u", dims[axis]), format!("(&{first})[{at} * {stride}]")))
    }

    /// Passes the bits of each value to the log, then the number of the line.
    fn log(&mut self, parts: &[LogPart], number: usize) -> Checked {
        for part in parts.iter().filter_map(LogPart::value) {
            let (value, dtype) = self.expr(part)?;
            let value = self.named(dtype, value).0;
            let word = |at: usize| format!("{value}.w[{at}] | (uint64_t){value}.w[{}] << 32", at + 1);
            let [low, high] = match dtype {
                DType::U32x4 => [word(0), word(2)],
                _ => [reinterpreted(any_c_type(dtype), bits_type(dtype), value), "0".into()],
            };
            self.line(format!("log->value(log, {low}, {high});"));
        }
        self.line(format!("log->line(log, {number});"));
        Ok(())
    }
}

/// Gives a library the functions that its kernels call.
pub(crate) fn link(library: &Library) -> Result<(), libloading::Error> {
    type Angle = extern "C" fn(f64) -> f64;
    extern "C" fn sin(x: f64) -> f64 {
        math::unary_f64(UnaryOp::Sin, x)
    }
    extern "C" fn cos(x: f64) -> f64 {
        math::unary_f64(UnaryOp::Cos, x)
    }
    for (name, function) in [("huge_angle_sin", sin as Angle), ("huge_angle_cos", cos)] {
        // SAFETY: the prelude defines variables of these names and this type, and no kernel runs yet.
        unsafe { **library.get::<*mut Angle>(name)? = function };
    }
    Ok(())
}
