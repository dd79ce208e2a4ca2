//! Wrong operations, constants and conversions, as text: an expression in place of another one.

use codegen_core::Caps;
use codegen_testkit::Level;
use lowered_ir::ir::{BinaryOp, Expr, NodeRef, Stmt};
use tnode::{DType, Scalar};

use super::{Fault, Row, Scope, everything, first_level};

/// The level, the name of the fault, the type of the operands, the expression, and what takes its place.
/// Operands are `a`, `b`, `c`; `l` is a scalar local.
const FAULTS: &str = "
L0 | f32 + is - | f32 | a + b | a - b
L0 | f32 - is swapped | f32 | a - b | b - a
L0 | f32 * loses the sign of zero | f32 | a * b | a * b + 0.0f32
L0 | f32 / by a reciprocal | f32 | a / b | a * (1.0f32 / b)
L0 | f32 % by a truncated quotient | f32 | a % b | a - trunc(a / b) * b
L0 | f32 max skips a NaN in b | f32 | max(a, b) | where(a < b, b, a)
L0 | f32 max of equal zeros is b | f32 | max(a, b) | where(a == b, b, max(a, b))
L0 | f32 min is swapped | f32 | min(a, b) | min(b, a)
L0 | f32 neg by a difference | f32 | neg(a) | 0.0f32 - a
L0 | f32 abs by a maximum | f32 | abs(a) | max(a, neg(a))
L0 | f32 sqrt of the magnitude | f32 | sqrt(a) | sqrt(abs(a))
L0 | f32 sqrt by an inexact root | f32 | sqrt(a) | a * (1.0f32 / sqrt(a))
L0 | f32 trunc is floor | f32 | trunc(a) | floor(a)
L0 | f32 floor is trunc | f32 | floor(a) | trunc(a)
L0 | f32 ties round up | f32 | round_even(a) | floor(a + 0.5f32)
L0 | f32 products and sums contract | f32 | a * b + c | fma(a, b, c)
L0 | f32 products and differences contract | f32 | c - a * b | fma(neg(a), b, c)
L0 | f32 fma rounds twice | f32 | fma(a, b, c) | a * b + c
L0 | f32 subnormal sums are zeros | f32 | a + b
   | where(abs(a + b) < 1.1754944e-38f32, (a + b) * 0.0f32, a + b)
L0 | f32 subnormal products are zeros | f32 | a * b
   | where(abs(a * b) < 1.1754944e-38f32, a * b * 0.0f32, a * b)
L0 | f32 NaN results are zeros | f32 | a * b | where(a * b == a * b, a * b, 0.0f32)
L1 | f32 < is <= | f32 | a < b | a <= b
L1 | f32 <= is < | f32 | a <= b | a < b
L1 | f32 == holds for NaN | f32 | a == b | and(not(a < b), not(b < a))
L1 | f32 != fails for NaN | f32 | a != b | or(a < b, b < a)
L1 | f32 == compares bits | f32 | a == b | bitcast i32(a) == bitcast i32(b)
L1 | i32 < is unsigned | i32 | a < b | bit_xor(a, -2147483648i32) < bit_xor(b, -2147483648i32)
L1 | i32 == by a difference of floats | i32 | a == b | convert f32(a) == convert f32(b)
L1 | i32 + through f32 | i32 | a + b | convert i32(convert f32(a) + convert f32(b))
L1 | i32 - through f32 | i32 | a - b | convert i32(convert f32(a) - convert f32(b))
L1 | i32 * through f32 | i32 | a * b | convert i32(convert f32(a) * convert f32(b))
L1 | i32 / rounds down | i32 | a / b | a / b - convert i32(and(bit_xor(a % b, b) < 0i32, a % b != 0i32))
L1 | i32 % has the sign of b | i32 | a % b | (a % b + b) % b
L1 | i32 neg saturates | i32 | neg(a) | where(a == -2147483648i32, 2147483647i32, neg(a))
L1 | i32 abs saturates | i32 | abs(a) | where(a == -2147483648i32, 2147483647i32, abs(a))
L1 | i32 max is unsigned | i32 | max(a, b)
   | bit_xor(max(bit_xor(a, -2147483648i32), bit_xor(b, -2147483648i32)), -2147483648i32)
L1 | i32 min is max at MIN | i32 | min(a, b) | where(a == -2147483648i32, b, min(a, b))
L1 | i32 shr is logical | i32 | shr(a, b)
   | where(bit_and(b, 31i32) == 0i32, a, shr(bit_and(a, 2147483647i32), b))
L1 | i32 shl keeps the sign | i32 | shl(a, b)
   | bit_or(bit_and(a, -2147483648i32), bit_and(shl(a, b), 2147483647i32))
L1 | i32 bit_and is logical | i32 | bit_and(a, b) | and(a, b)
L1 | i32 bit_or is + | i32 | bit_or(a, b) | a + b
L1 | i32 bit_xor is bit_or | i32 | bit_xor(a, b) | bit_or(a, b)
L1 | bool bit_and is bit_or | bool | bit_and(a, b) | bit_or(a, b)
L1 | bool bit_or is bit_xor | bool | bit_or(a, b) | bit_xor(a, b)
L1 | bool bit_xor is bit_or | bool | bit_xor(a, b) | bit_or(a, b)
L1 | where takes the other branch | bool | where(a, b, c) | where(a, c, b)
L1 | a maximum in a local skips a NaN that comes second | f32 | max(l, b) | where(b != b, l, max(l, b))
L1 | f32 max begins with -FLT_MAX | f32 | -inff32 | -3.4028235e38f32
L1 | f32 min begins with FLT_MAX | f32 | inff32 | 3.4028235e38f32
L1 | i32 max begins with MIN + 1 | i32 | -2147483648i32 | -2147483647i32
L1 | i32 min begins with MAX - 1 | i32 | 2147483647i32 | 2147483646i32
L1 | the constant -0.0 is 0.0 | f32 | -0.0f32 | 0.0f32
L1 | f32 products begin with 0 | f32 | 1.0f32 | 0.0f32
L1 | i32 products begin with 0 | i32 | 1i32 | 0i32
L1 | the constant NaN is 0 | f32 | nanf32 | 0.0f32
L1 | the constant true is false | bool | true | false
L1 | the constant false is true | bool | false | true
L1 | f32 to i32 does not saturate | f32 | convert i32(a)
   | where(2147483648.0f32 <= a, -2147483648i32, convert i32(a))
L1 | f32 NaN to i32 is MIN | f32 | convert i32(a) | where(a == a, convert i32(a), -2147483648i32)
L1 | f32 to i32 rounds | f32 | convert i32(a) | convert i32(round_even(a))
L1 | i32 to f32 in two halves | i32 | convert f32(a) | convert f32(shr(a, 1i32)) * 2.0f32
L1 | bool to i32 is -1 | bool | convert i32(a) | neg(convert i32(a))
L2 | f16 + is - (claimed to be native) | f16 | a + b | a - b
L2 | f64 * through f32 | f64 | a * b | convert f64(convert f32(a) * convert f32(b))
L2 | i64 * through f64 | i64 | a * b | convert i64(convert f64(a) * convert f64(b))
L2 | u32 < is signed | u32 | a < b | bitcast i32(a) < bitcast i32(b)
L2 | u8 + saturates | u8 | a + b | convert u8(min(convert i32(a) + convert i32(b), 255i32))
L2 | u8 sums in locals saturate | u8 | l + b | convert u8(min(convert i32(l) + convert i32(b), 255i32))
L2 | i8 shr is logical | i8 | shr(a, b) | bitcast i8(shr(bitcast u8(a), bitcast u8(b)))
L2 | u16 / by 0 is the maximum | u16 | a / b | where(b == 0u16, 65535u16, a / b)
L2 | u64 < loses the low half | u64 | a < b | shr(a, 32u64) < shr(b, 32u64)
L2 | f32 to bf16 truncates | f32 | convert bf16(a) | bitcast bf16(convert u16(shr(bitcast u32(a), 16u32)))
L2 | f64 to f16 through f32 | f64 | convert f16(a) | convert f16(convert f32(a))
L2 | i64 to f32 through f64 | i64 | convert f32(a) | convert f32(convert f64(a))
L2 | fp8_e5m2 overflows to the greatest number | f32 | convert fp8_e5m2(a)
   | convert fp8_e5m2(min(a, 57344.0f32))
L2 | fp8_e4m3fn NaN is 0 | f32 | convert fp8_e4m3fn(a) | convert fp8_e4m3fn(where(a == a, a, 0.0f32))
L2 | f64 max begins with -DBL_MAX | f64 | -inff64 | -1.7976931348623157e308f64
L2 | f16 min begins with the greatest number | f16 | inff16 | 65504.0f16
L2 | u8 min begins with 254 | u8 | 255u8 | 254u8
L2 | i64 max begins with MIN + 1 | i64 | -9223372036854775808i64 | -9223372036854775807i64
L2 | f32 exp through exp2 | f32 | exp(a) | exp2(a * 1.442695f32)
L2 | f32 log through log2 | f32 | log(a) | log2(a) * 0.6931472f32
L2 | f32 tanh by quotients | f32 | tanh(a) | (exp(a + a) - 1.0f32) / (exp(a + a) + 1.0f32)
L2 | f32 cos by a shifted sin | f32 | cos(a) | sin(a + 1.5707964f32)
L2 | f64 exp2 through f32 | f64 | exp2(a) | convert f64(exp2(convert f32(a)))
L2 | f64 log2 through f32 | f64 | log2(a) | convert f64(log2(convert f32(a)))
L2 | f64 sin through f32 | f64 | sin(a) | convert f64(sin(convert f32(a)))
L2 | f32 pow by functions | f32 | pow(a, b) | exp2(b * log2(a))
L4 | fast fma rounds twice | f32 | fma(a, b, c) | a * b + c
";

/// An expression in place of another one.
pub(crate) struct Rewrite {
    dtype: DType,
    from: Expr,
    to: Expr,
}

impl Rewrite {
    fn new(dtype: &str, from: &str, to: &str) -> Rewrite {
        let expr = |text: &str| {
            let text = words(text);
            let nodes: String = (0..4).map(|at| format!("node %{at} \"n\" {dtype}[1]\n")).collect();
            let local = format!("declare l0 {dtype}[] register");
            let text = format!("routine @r strict {{ {nodes} {local} %3[0] := {text} }}");
            let routine = lowered_ir::text::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let Some(Stmt::Set { value, .. }) = routine.body.into_iter().nth(1) else { panic!("{text}") };
            value
        };
        Rewrite { dtype: dtype.parse().unwrap(), from: expr(from), to: expr(to) }
    }

    /// The expression with this change, if it has the form.
    pub(crate) fn apply(&self, scope: &Scope, expr: Expr) -> Expr {
        let mut found = [const { None }; 4];
        let is_typed = |expr: &Expr| scope.dtype(expr) == self.dtype;
        if !matches(&self.from, &expr, &mut found) || !found.iter().flatten().next().is_none_or(is_typed) {
            return expr;
        }
        lowered_ir::ir::walk::map_expr(self.to.clone(), &mut |e| match variable(&e) {
            Some(at) => found[at].clone().unwrap(),
            None => e,
        })
    }
}

/// A fault that puts an expression on operands of a type in place of another one.
pub(crate) fn fault(dtype: &str, from: &str, to: &str) -> Fault {
    // Faults live as long as the tests.
    Fault::Rewrite(Box::leak(Box::new(Rewrite::new(dtype, from, to))))
}

/// The text with operands as elements of nodes and as a local.
fn words(text: &str) -> String {
    let of = |word: &str| match word {
        "a" => "%0[0]".to_owned(),
        "b" => "%1[0]".to_owned(),
        "c" => "%2[0]".to_owned(),
        "l" => "l0".to_owned(),
        other => other.to_owned(),
    };
    let is_word = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    let ends = text.char_indices().filter(|(_, c)| !is_word(*c)).map(|(at, c)| (at, at + c.len_utf8()));
    let mut done = String::new();
    let mut start = 0;
    for (at, end) in ends.chain([(text.len(), text.len())]) {
        done += &of(&text[start..at]);
        done += &text[at..end];
        start = end;
    }
    done
}

/// The position of an operand of a rewrite.
fn variable(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Get { node: NodeRef(at), .. } => Some(*at as usize),
        Expr::GetLocal { .. } => Some(3),
        _ => None,
    }
}

/// Whether an expression has a form, with its operands.
fn matches(form: &Expr, expr: &Expr, found: &mut [Option<Expr>; 4]) -> bool {
    if let Some(at) = variable(form) {
        let is_local = matches!(expr, Expr::GetLocal { .. });
        found[at] = Some(expr.clone());
        return at < 3 || is_local;
    }
    let mut all = |pairs: &[(&Expr, &Expr)]| pairs.iter().all(|(form, expr)| matches(form, expr, found));
    match (form, expr) {
        (Expr::Const(a), Expr::Const(b)) => a == b,
        (Expr::Unary { op, arg }, Expr::Unary { op: is, arg: x }) => op == is && all(&[(arg, x)]),
        (Expr::Convert { to, arg }, Expr::Convert { to: is, arg: x }) => to == is && all(&[(arg, x)]),
        (Expr::Binary { op, a, b }, Expr::Binary { op: is, a: x, b: y }) => {
            op == is && all(&[(a, x), (b, y)])
        }
        (Expr::Ternary { op, a, b, c }, Expr::Ternary { op: is, a: x, b: y, c: z }) => {
            op == is && all(&[(a, x), (b, y), (c, z)])
        }
        _ => false,
    }
}

/// The rows of the text; a line that begins with a separator continues the one before.
fn rewrites() -> Vec<Row> {
    let text = FAULTS.replace("\n   |", " |");
    let row = |line: &str| {
        let cells: Vec<String> = line.split(" | ").map(str::to_owned).collect();
        let [level, name, dtype, from, to] = <[String; 5]>::try_from(cells).unwrap();
        let level = Level::ALL.into_iter().find(|known| known.to_string() == level).unwrap();
        let caps = if level <= Level::L1 { first_level } else { everything };
        Row { name: String::leak(name), level, caps, fault: fault(&dtype, &from, &to) }
    };
    text.trim().lines().map(row).collect()
}

pub(crate) fn table() -> Vec<Row> {
    let row = |name, level, caps: fn() -> Caps, fault| Row { name, level, caps, fault };
    let others = vec![
        row(
            "subnormal constants are zeros",
            Level::L1,
            first_level,
            Fault::Constant(|value| match value.dtype() {
                DType::F32 if value.as_f32().is_subnormal() => Scalar::zero(DType::F32),
                _ => value,
            }),
        ),
        row(
            "bitcast converts",
            Level::L1,
            first_level,
            expr!(|scope| Expr::Bitcast { to, arg } if scope.dtype(&arg) != to => Expr::convert(to, *arg)),
        ),
        row(
            "threefry with fewer rounds",
            Level::L2,
            everything,
            expr!(|_| Expr::Binary { op: BinaryOp::Threefry, a, b } => {
                Expr::binary(BinaryOp::ThreefryLight, *a, *b)
            }),
        ),
        row(
            "lanes in reverse order",
            Level::L2,
            everything,
            expr!(|_| Expr::Lane { lane, arg } => Expr::lane(3 - lane, *arg)),
        ),
    ];
    rewrites().into_iter().chain(others).collect()
}
