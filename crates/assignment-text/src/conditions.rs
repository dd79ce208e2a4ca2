//! The conditions of scans as statements.
//!
//! `scan t in 0..n while c { .. }` becomes
//!
//! ```text
//! t.1.while := 1
//! scan t in 0..n {
//!     t.1.while := where(c, t.1.while, 0)
//!     ..
//! }
//! ```
//!
//! where the node [ends](assignments::ScanEnd) the scan. A number of steps that a run gives, `t < n`, is a
//! condition before `c`; the scan then has as many steps as that number has at most.

use assignments::{ByteRange, Nodes, ScanEnd};
use lowered_ir::ir::TernaryOp;

use crate::ast::{Access, ExpandedStep, Expr, ExprKind, Statement};
use crate::error::Result;
use crate::number::Number;
use crate::tree::ResolvedStep;

/// Adds the statements that compute conditions.
pub(crate) fn as_statements(steps: Vec<ExpandedStep>) -> Result<Vec<ExpandedStep>> {
    let mut all = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            ExpandedStep::ScanStart(scan) if scan.conditions().next().is_some() => {
                let (span, frame) = (scan.span.clone(), scan.frame.clone());
                let node = || Access::whole(name(&scan.symbol.name), &span);
                let plain = |kind| Expr::new(kind, span.clone());
                let made = |value, span: &ByteRange| {
                    ExpandedStep::Statement(Statement::made(node(), Some(value), span.clone(), &frame))
                };
                let (one, zero) = (plain(number(1))?, plain(number(0))?);
                let before = plain(ExprKind::Access(Box::new(node())))?;
                let goes_on = scan.conditions().rev().try_fold(before, |goes_on, condition| {
                    let operands = Box::new([condition.clone(), goes_on, zero.clone()]);
                    Expr::new(ExprKind::Ternary(TernaryOp::Where, operands), condition.span.clone())
                })?;
                all.push(made(one, &span));
                let place = goes_on.span.clone();
                let goes_on = made(goes_on, &place);
                all.push(ExpandedStep::ScanStart(scan));
                all.push(goes_on);
            }
            step => all.push(step),
        }
    }
    Ok(all)
}

fn number(value: i64) -> ExprKind {
    ExprKind::Number(Number::integer(value))
}

/// The name of the node that is 1 until the scan over a symbol ends.
fn name(symbol: &str) -> String {
    format!("{symbol}.while")
}

/// The condition of a scan that starts with a step: the node that is 1 until the scan ends, among the nodes
/// that the text makes.
pub(crate) fn of_scan(step: &ExpandedStep, made: &Nodes) -> Option<ScanEnd> {
    match step {
        ExpandedStep::ScanStart(scan) if scan.conditions().next().is_some() => {
            Some(ScanEnd { node: made.get(&name(&scan.symbol.name))?.clone(), is_final: true })
        }
        _ => None,
    }
}

/// The head of the first scan with a condition.
pub(crate) fn place(steps: &[ResolvedStep]) -> &ByteRange {
    let head = |step: &&ResolvedStep| matches!(&step.source, ExpandedStep::ScanStart(scan) if scan.conditions().next().is_some());
    steps.iter().find(head).map_or(&(0..0), |step| step.source.span())
}
