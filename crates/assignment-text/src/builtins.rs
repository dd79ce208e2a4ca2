//! The functions of the language.

use tnode::DType;

use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use lowered_ir::random::Distribution;

const DISTRIBUTIONS: [Distribution; 3] = [Distribution::Uniform, Distribution::Normal, Distribution::Bits];

/// The distribution of the random numbers that the function of that name gives.
pub(crate) fn distribution(name: &str) -> Option<Distribution> {
    DISTRIBUTIONS.into_iter().find(|distribution| distribution.token() == name)
}

/// Whether a program may define a function of this name, which the language has. Programs did so before the
/// language had it.
pub(crate) fn may_be_redefined(function: &str) -> bool {
    matches!(function, "atan" | "erf" | "erfc" | "expm1" | "log1p" | "sigmoid")
}

/// The names of the functions of the language.
pub(crate) fn functions() -> impl Iterator<Item = String> {
    let unary = UnaryOp::ALL.iter().map(|op| op.token());
    let binary = BinaryOp::ALL.iter().map(|op| op.token());
    let ternary = TernaryOp::ALL.iter().map(|op| op.token());
    let all = unary
        .chain(binary)
        .chain(ternary)
        .chain(DType::ALL.iter().map(|d| d.token()))
        .chain(["pad", "size"])
        .chain(DISTRIBUTIONS.into_iter().map(Distribution::token));
    all.filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())).map(str::to_owned)
}
