//! Reductions of long rows, two rows at a time.
//!
//! ```text
//! for row { partials[32]; for k { partials[lane] += x[row, 32 k + lane] }; y[row] := the fold of partials }
//! =
//! for pair of rows {
//!   partials[2, 32]; for k { for both rows unrolled { … } }
//!   for both rows unrolled { y[row] := … }
//! }
//! ```
//!
//! Data that exceeds the caches arrives faster as two streams than as one, and data that the rows share, such
//! as the vector of a matrix–vector product, is loaded once for both. Rows are independent, so no bit
//! changes.

use lowered_ir::ir::{Block, LoopKind, Space, Stmt};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Nest};
use crate::common::unroll_and_jam::{self, Strip};
use codegen_core::Caps;

/// Rows at a time. Their partial results leave half of 16 registers free.
const ROWS: i64 = 2;

/// The least length in bytes, one page, for which a row is worth a stream of its own.
const LONG_ROW: i64 = 4096;

/// The number of bytes that each element of a row counts as, because no lane is narrower.
const LANE_BYTES: i64 = 4;

/// The nest with its rows in pairs, if it reduces long rows that exceed the caches.
pub(crate) fn pair_rows(nest: &Nest, caps: &Caps, names: &mut Names) -> Option<Block> {
    let (row, outer) = nest.loops.split_last()?;
    let rows = row.extent()?;
    let bytes = bytes_of_a_row(&nest.body)?;
    let is_large = bytes >= LONG_ROW && bytes.saturating_mul(rows) > caps.l2_bytes as i64;
    let for_threads = rows >= 2 * ROWS * caps.threads.max(1) as i64;
    if !is_large || !for_threads || !nest.possible_lanes(names).contains(row) {
        return None;
    }
    let strip = Strip { lanes: ROWS, kind: LoopKind::Unrolled };
    Some(nest::wrap(outer, unroll_and_jam::strips(row.var, rows, &nest.body, strip, names)))
}

/// The bytes that one reduction reads of its operand, if the body contains nothing but register arrays,
/// vector loops over them, and one serial loop around such loops.
fn bytes_of_a_row(body: &[Stmt]) -> Option<i64> {
    let mut serial = None;
    for stmt in body {
        match stmt {
            Stmt::For { kind: LoopKind::Vector, .. } | Stmt::Set { .. } | Stmt::SetLocal { .. } => {}
            Stmt::Declare { space: Space::Register, .. } | Stmt::Comment(_) => {}
            Stmt::For { kind: LoopKind::Serial, lo: 0, hi, body, .. } if hi.is_constant() => {
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
