//! Compiled epilogues that do more than store the accumulators.
//!
//! Most tiles have a microkernel that is generated together with the epilogue ([`crate::fused`]). None is
//! generated for a long epilogue, or for a height or width that few tiles have. In these cases, the tile's
//! accumulators are stored in scratch memory, where they stay in the L1 cache, and the epilogue runs as a
//! loop over the rows of the tile. The loop is compiled for some widths and keeps intermediate values in
//! registers.

use std::ops::Range;
use std::ptr;

use vector_asm::{
    Counter, ExecutableCode, Index, LoopRange, StoredType, VectorAddress, VectorCode, VectorFunction,
    VectorOp, VectorProgram, VectorStmt, compile,
};

use crate::epilogue_program::{
    A_BASE, ARG_BASES, B_BASE, BATCH_BINDINGS, COLUMN_BINDING, LANE_BINDING, NEXT_BASE, ROW_BINDING,
    RowEpilogue, used_parameters, widened,
};
use crate::fused::{self, OperandAccess};
use crate::problem::{Dimension, GemmProblem, ParallelAxis, ROW};
use crate::simd::MAX_ROWS;

/// The compiled code of an epilogue.
#[derive(Debug)]
pub(crate) struct Epilogue {
    /// Generated microkernels by `height - 1`, for full tiles and for the tiles of the last columns.
    tiles: [[Option<VectorFunction>; 2]; MAX_ROWS],
    /// Columns of a full tile and of the last tile.
    columns: [usize; 2],
    /// Functions that apply the epilogue to accumulators in scratch memory, each with the number of columns
    /// that it processes, widest first. A tile without a generated microkernel is processed by calls whose
    /// widths add up to its own.
    functions: Vec<(usize, VectorFunction)>,
    /// Owns the memory of the functions: of the microkernels for these tiles, then of the others.
    code: ExecutableCode,
    order: Vec<(usize, usize)>,
    /// How generated microkernels access the operands.
    operand_access: OperandAccess,
    /// Bytes of a row of accumulators in scratch memory.
    row_bytes: usize,
    batch: usize,
    bindings: usize,
    args: usize,
}

impl Epilogue {
    /// Returns `None` if the epilogue cannot be compiled. `initial` holds the accumulators with which the
    /// last block of K starts.
    pub(crate) fn new(
        problem: &GemmProblem,
        access: &OperandAccess,
        initial: Option<&VectorAddress>,
    ) -> Option<Epilogue> {
        let code = EpilogueCode::compile(problem, access, initial)?;
        Epilogue::of_code(problem, access, &code)
    }

    /// The epilogue with its code. `None` if the code is that of another epilogue, or if it cannot be loaded.
    pub(crate) fn of_code(
        problem: &GemmProblem,
        access: &OperandAccess,
        EpilogueCode { tiles, widths, functions: codes }: &EpilogueCode,
    ) -> Option<Epilogue> {
        let width = access.width as usize;
        let columns = [width, (problem.n % width as u64) as usize];
        if codes.len() != tiles.len() + widths.len() {
            return None;
        }
        let code = ExecutableCode::load_all(&codes.iter().collect::<Vec<_>>()).ok()?;
        let mut table = [[None; 2]; MAX_ROWS];
        for (i, &(height, which)) in tiles.iter().enumerate() {
            *table.get_mut(height.checked_sub(1)?)?.get_mut(which)? = Some(code.function(i));
        }
        let behind = |(i, &width): (usize, &usize)| (width, code.function(tiles.len() + i));
        let functions = widths.iter().enumerate().map(behind).collect();
        let (bindings, args) = used_parameters(problem);
        Some(Epilogue {
            tiles: table,
            columns,
            functions,
            code,
            order: tiles.clone(),
            operand_access: *access,
            row_bytes: width * problem.element.bytes() as usize,
            batch: problem.batch.len(),
            bindings,
            args,
        })
    }
}

/// The code of an epilogue before it is loaded.
pub(crate) struct EpilogueCode {
    /// The kinds of tiles that have generated microkernels, by height and by position among the widths of
    /// tiles.
    pub(crate) tiles: Vec<(usize, usize)>,
    /// The columns that each further function processes, widest first.
    pub(crate) widths: Vec<usize>,
    /// The microkernels, then the further functions.
    pub(crate) functions: Vec<VectorCode>,
}

impl EpilogueCode {
    fn compile(
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
        Some(EpilogueCode { tiles, widths, functions: codes })
    }
}

impl Epilogue {
    /// Bytes of memory that the code takes.
    pub(crate) fn code_bytes(&self) -> usize {
        self.code.bytes()
    }

    /// The kinds of tiles that have generated microkernels, and the widths of the further functions, in the
    /// order of [`Epilogue::machine_code`].
    pub(crate) fn kinds(&self) -> (Vec<(usize, usize)>, Vec<usize>) {
        (self.order.clone(), self.functions.iter().map(|(width, _)| *width).collect())
    }

    /// The code of each function, followed by its constants.
    pub(crate) fn machine_code(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.code.len()).map(|position| self.code.code(position))
    }

    /// Words of scratch memory for the bindings and base addresses of the code.
    pub(crate) fn words(&self) -> usize {
        self.args_at() + ARG_BASES as usize + self.args
    }

    fn args_at(&self) -> usize {
        BATCH_BINDINGS + self.batch + self.bindings
    }

    /// Writes the bindings and base addresses that are constant during a call.
    ///
    /// # Safety
    ///
    /// `words` has room for [`Epilogue::words`]; `args` and `bindings` are those of a call.
    pub(crate) unsafe fn write_constants(&self, words: *mut i64, args: *const *mut u8, bindings: *const i64) {
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..self.bindings {
                *words.add(BATCH_BINDINGS + self.batch + i) = *bindings.add(i);
            }
            let to = words.add(self.args_at()).cast::<*mut u8>();
            for i in 0..self.args {
                *to.add(ARG_BASES as usize + i) = *args.add(i);
            }
        }
    }

    /// Writes the batch indices.
    ///
    /// # Safety
    ///
    /// `words` has room for [`Epilogue::words`].
    pub(crate) unsafe fn write_batch_indices(&self, words: *mut i64, batch: &[u64]) {
        for (i, &index) in batch.iter().enumerate().take(self.batch) {
            // SAFETY: the caller's promise.
            unsafe { *words.add(BATCH_BINDINGS + i) = index as i64 };
        }
    }

    /// How generated microkernels access the operands.
    pub(crate) fn operand_access(&self) -> &OperandAccess {
        &self.operand_access
    }

    /// The generated microkernel for a height and a number of columns, if there is one.
    #[inline(always)]
    pub(crate) fn tile(&self, height: usize, columns: usize) -> Option<VectorFunction> {
        let which = self.columns.iter().position(|&some| some == columns)?;
        self.tiles[height - 1][which]
    }

    /// Runs a generated microkernel for the tile at `row` and `column`, with operands A and B and what it may
    /// prefetch.
    ///
    /// # Safety
    ///
    /// [`Epilogue::write_constants`] and [`Epilogue::write_batch_indices`] wrote the words; the operands have
    /// the strides of [`Epilogue::operand_access`], and the rows and columns of the tile are the problem's.
    #[inline(always)]
    pub(crate) unsafe fn run_tile(
        &self,
        function: VectorFunction,
        words: *mut i64,
        operands: [*const u8; 3],
        [row, column]: [usize; 2],
    ) {
        // SAFETY: the caller's promise; the code accesses the elements of this tile and of its epilogue.
        unsafe {
            *words.add(COLUMN_BINDING) = column as i64;
            *words.add(ROW_BINDING) = row as i64;
            let args = words.add(self.args_at()).cast::<*mut u8>();
            *args.add(A_BASE as usize) = operands[0].cast_mut();
            *args.add(B_BASE as usize) = operands[1].cast_mut();
            *args.add(NEXT_BASE as usize) = operands[2].cast_mut();
            function(args, words, ptr::null_mut(), 0, 0);
        }
    }

    /// Runs the epilogue on the accumulators of a tile in scratch memory, whose rows are two vectors apart.
    ///
    /// # Safety
    ///
    /// [`Epilogue::write_constants`] and [`Epilogue::write_batch_indices`] wrote the words, and the rows and
    /// columns of the tile are the problem's.
    #[inline(always)]
    pub(crate) unsafe fn run(
        &self,
        words: *mut i64,
        accumulators: *mut u8,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        // The code counts rows from the problem's first one.
        let accumulators = accumulators.wrapping_sub(rows.start * self.row_bytes);
        let mut at = 0;
        for &(width, function) in &self.functions {
            while columns.len() - at >= width {
                // SAFETY: the caller's promise; the code accesses the places of the epilogue for these rows
                // and columns.
                unsafe {
                    *words.add(COLUMN_BINDING) = (columns.start + at) as i64;
                    *words.add(LANE_BINDING) = at as i64;
                    let args = words.add(self.args_at()).cast();
                    function(args, words, accumulators, rows.start as u64, rows.end as u64);
                }
                at += width;
            }
        }
        debug_assert_eq!(at, columns.len(), "widths make up all columns");
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
