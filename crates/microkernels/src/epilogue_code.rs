//! The code of epilogues: which functions a plan has, and their compilation.

use vector_asm::{
    Counter, Index, LoopRange, StoredType, VectorAddress, VectorCode, VectorOp, VectorProgram, VectorStmt,
    compile,
};

use crate::epilogue::{EpilogueFunctions, LANE_BINDING, OperandAccess};
use crate::epilogue_program::{RowEpilogue, widened};
use crate::fused;
use crate::problem::{Dimension, GemmProblem, ParallelAxis, ROW};

/// The code of an epilogue before it is loaded.
pub(crate) struct EpilogueCode {
    /// What the functions are.
    pub(crate) order: EpilogueFunctions,
    /// The microkernels, then the further functions.
    pub(crate) functions: Vec<VectorCode>,
}

impl EpilogueCode {
    /// Returns `None` if the epilogue cannot be compiled. `initial` holds the accumulators with which the
    /// last block of K starts.
    pub(crate) fn compile(
        problem: &GemmProblem,
        access: &OperandAccess,
        initial: Option<&VectorAddress>,
    ) -> Option<EpilogueCode> {
        let width = access.width as usize;
        let columns = [width, (problem.n % width as u64) as usize];
        let (worth, all) = common_tiles(problem, access.height, columns);
        let mut codes = Vec::new();
        let mut tiles = Vec::new();
        for &(height, which) in &worth {
            let program = fused::microkernel(problem, access, initial, height, columns[which] as u32);
            if let Some(code) = program.and_then(|program| compile(&program, access.isa).ok()) {
                tiles.push((height, which));
                codes.push(code);
            }
        }
        let is_complete = all && tiles == worth && !access.packs_in_tiles;
        let widths = if is_complete { Vec::new() } else { widths(problem, width) };
        for &lanes in &widths {
            codes.push(compile(&program(problem, width, lanes as u32)?, access.isa).ok()?);
        }
        Some(EpilogueCode { order: EpilogueFunctions { tiles, widths }, functions: codes })
    }
}

/// The most microkernels that are generated for a plan.
const MAX_GENERATED_TILES: usize = 2;
/// A microkernel is generated for a kind of tile only if at least this share of all tiles is of that kind.
const MIN_TILE_SHARE: f64 = 1.0 / 8.0;

/// The most common tiles of a problem, by height and index of `columns`; and whether every call computes
/// these tiles only.
fn common_tiles(problem: &GemmProblem, most: usize, columns: [usize; 2]) -> (Vec<(usize, usize)>, bool) {
    let (rows, width) = (problem.m as usize, columns[0] as u64);
    let number = rows.div_ceil(most).max(1);
    let heights = [(rows / number + 1, rows % number), (rows / number, number - rows % number)];
    let across = [(0, problem.n / width), (1, u64::from(columns[1] > 0))];
    let total = number as f64 * problem.n.div_ceil(width) as f64;
    let pairs = heights.iter().flat_map(|height| across.iter().map(move |which| (height, which)));
    let shares =
        pairs.map(|(&(height, down), &(which, b))| ((height, which), down as f64 * b as f64 / total));
    let mut shares: Vec<_> = shares.filter(|&((height, _), share)| height > 0 && share > 0.0).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let kinds = shares.len();
    shares.retain(|&(_, share)| share >= MIN_TILE_SHARE);
    shares.truncate(MAX_GENERATED_TILES);
    let is_constant = |(dimension, _): &(Dimension, _)| matches!(dimension, Dimension::Batch(_));
    let whole = matches!(problem.parallel, ParallelAxis::None | ParallelAxis::Batch)
        && problem.dynamic.iter().all(is_constant);
    let all = whole && shares.len() == kinds;
    (shares.into_iter().map(|(tile, _)| tile).collect(), all)
}

/// The widths for accumulators in scratch memory, in descending order. Every number of columns that a call
/// can leave is a sum of them.
fn widths(problem: &GemmProblem, width: usize) -> Vec<usize> {
    let mut widths = vec![(problem.n % width as u64) as usize];
    if problem.n >= width as u64 {
        widths.push(width);
    }
    let is_dynamic = problem.dynamic.iter().any(|(dimension, _)| *dimension == Dimension::N);
    if problem.parallel == ParallelAxis::Columns || is_dynamic {
        widths.extend((0..width.ilog2()).map(|log| 1 << log));
    }
    widths.retain(|&width| width > 0);
    widths.sort_unstable_by(|a, b| b.cmp(a));
    widths.dedup();
    widths
}

/// The epilogue of one width for accumulators in scratch memory; `None` if the epilogue has a statement that
/// epilogues may not have.
fn program(problem: &GemmProblem, width: usize, lanes: u32) -> Option<VectorProgram> {
    let epilogue = &problem.epilogue;
    let size = i64::from(problem.element.bytes());
    let accumulators = VectorAddress {
        base: None,
        offset: 0,
        terms: vec![(ROW, width as i64 * size), (Index::Binding(LANE_BINDING as u32), size)],
        step: size,
        memory: StoredType::Same,
    };
    let row = RowEpilogue { problem, row: None, first_value: 0, accumulators: VectorOp::Load(accumulators) };
    Some(VectorProgram {
        values: widened(&epilogue.values, lanes)?,
        variables: widened(&epilogue.variables, lanes)?,
        counters: 1,
        body: vec![VectorStmt::Loop { counter: Counter(0), range: LoopRange::Call, body: row.statements()? }],
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vector_asm::{LaneType, StoredType, VectorProgram};

    use super::common_tiles;
    use crate::problem::{AxisOffsets, GemmOperand, GemmProblem, ParallelAxis};

    fn contraction(rows: u64, columns: u64) -> GemmProblem {
        let operand = |base| GemmOperand {
            base,
            memory: StoredType::Same,
            offset: 0,
            terms: Vec::new(),
            outer: AxisOffsets::Strided(4),
            k: AxisOffsets::Table(Arc::new([])),
            bounds: Vec::new(),
            outside: 0,
            zero: 0,
        };
        GemmProblem {
            element: LaneType::F32,
            batch: Vec::new(),
            m: rows,
            n: columns,
            k: 0,
            dynamic: Vec::new(),
            a: operand(0),
            b: operand(1),
            initial: None,
            epilogue: VectorProgram::default(),
            parallel: ParallelAxis::None,
        }
    }

    #[test]
    fn tiles_that_are_rare_are_not_generated() {
        // There are 43 tiles along M, of which two have five rows.
        let mut problem = contraction(256, 64);
        assert_eq!(common_tiles(&problem, 6, [16, 0]), (vec![(6, 0)], false));
        // There are one tile of six rows and one of five, and all columns are in full tiles.
        problem.m = 11;
        assert_eq!(common_tiles(&problem, 6, [16, 0]), (vec![(6, 0), (5, 0)], true));
        problem.parallel = ParallelAxis::Rows;
        assert_eq!(common_tiles(&problem, 6, [16, 0]), (vec![(6, 0), (5, 0)], false));
        // All columns are in the last tile.
        problem.n = 9;
        problem.m = 3;
        problem.parallel = ParallelAxis::None;
        assert_eq!(common_tiles(&problem, 6, [16, 9]), (vec![(3, 1)], true));
        problem.m = 0;
        assert_eq!(common_tiles(&problem, 6, [16, 9]), (vec![], true));
    }
}
