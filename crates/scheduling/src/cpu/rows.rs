//! Reductions of long rows, two rows at a time.
//!
//! ```text
//! for row { partials[32]; for k { partials[lane] += x[row, 32 k + lane] }; y[row] := the fold of partials }
//! =
//! for pair of rows { partials[2, 32]; for k { for both rows unrolled { … } }; for both rows unrolled { y[row] := … } }
//! ```
//!
//! What is too large for the caches arrives faster as two streams than as one, and what the rows share, such as the vector of a
//! matrix–vector product, is loaded once for both. Rows are independent, so no bit changes.

use lowered_ir::ir::{Block, LoopKind, Space, Stmt};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Nest};
use crate::jam::{self, Strip};
use codegen_core::Caps;

/// Rows at a time. Their partials leave half of 16 registers to the rest.
const ROWS: i64 = 2;

/// Bytes of a row from which on it is a stream of its own: a page.
const LONG_ROW: i64 = 4096;

/// What an element of a row counts: lanes are at least as wide.
const LANE_BYTES: i64 = 4;

/// The nest with its rows in pairs, if it reduces long rows that the caches do not hold.
pub(crate) fn pairs(nest: &Nest, caps: &Caps, names: &mut Names) -> Option<Block> {
    let (row, outer) = nest.loops.split_last()?;
    let rows = row.extent()?;
    let bytes = bytes_of_a_row(&nest.body)?;
    let is_large = bytes >= LONG_ROW && bytes.saturating_mul(rows) > caps.l2_bytes as i64;
    let for_threads = rows >= 2 * ROWS * caps.threads.max(1) as i64;
    if !is_large || !for_threads || !nest.movable(names).contains(row) {
        return None;
    }
    let strip = Strip { lanes: ROWS, kind: LoopKind::Unrolled };
    Some(nest::wrap(outer, jam::strips(row.var, rows, &nest.body, strip, names)))
}

/// How much one reduction reads of an operand that it passes over, if that is all that a body does: register arrays, loops over their lanes,
/// and one serial loop around such.
fn bytes_of_a_row(body: &[Stmt]) -> Option<i64> {
    let mut serial = None;
    for stmt in body {
        match stmt {
            Stmt::For { kind: LoopKind::Vector, .. } | Stmt::Set { .. } | Stmt::SetLocal { .. } => {}
            Stmt::Declare { space: Space::Register, .. } | Stmt::Comment(_) => {}
            Stmt::For { kind: LoopKind::Serial, lo: 0, hi, body, .. } if hi.symbol.is_none() => {
                if serial.replace((hi.limit, body)).is_some() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    let (count, inner) = serial?;
    let [Stmt::For { kind: LoopKind::Vector, hi, body, .. }] = inner.as_slice() else { return None };
    let [Stmt::SetLocal { .. }] = body.as_slice() else { return None };
    Some(count.saturating_mul(hi.limit).saturating_mul(LANE_BYTES))
}
