//! Code for what becomes of the sums, where that is more than a store.
//!
//! The usual way is a tile that is generated together with the epilogue ([`crate::fused`]). Where there is none, for long epilogues and for heights and widths that only an unusual
//! part has, the epilogue's template becomes a program per width: a loop over the rows of a tile, whose sums lie in scratch memory, with as
//! many lanes as the tile has columns. What it computes is in registers from there to its stores; the sums never leave the first-level
//! cache.

use std::ops::Range;
use std::ptr;

use vector_asm::{
    Counter, ExecutableCode, Function, Index, Isa, Memory, Op, Place, Program, Range as Values, Stmt, compile,
};

use crate::contraction::{Contraction, ROW, Split};
use crate::fused::{self, Reading};
use crate::template::{
    ARGS_AT, BATCH_AT, COLUMN_AT, Copy, LANE_AT, LEFT_AT, RIGHT_AT, ROW_AT, mentioned, widened,
};
use crate::tile::HEIGHT;

/// Compiled code for the sums of tiles.
#[derive(Debug)]
pub(crate) struct Epilogue {
    /// Generated tiles, by height less one, then the wide one and that for the last columns.
    tiles: [[Option<Function>; 2]; HEIGHT],
    /// How many columns these have.
    columns: [usize; 2],
    /// Code for sums in scratch memory, by width, the widest first. Every number of columns that occurs without a generated tile is a sum of these.
    functions: Vec<(usize, Function)>,
    /// Holds the functions.
    code: ExecutableCode,
    /// How the generated tiles read the factors.
    reading: Reading,
    batch: usize,
    bindings: usize,
    args: usize,
}

impl Epilogue {
    /// `None` if there is no code for it. The sums of the last block begin at `start`.
    pub(crate) fn new(what: &Contraction, reading: &Reading, start: Option<&Place>) -> Option<Epilogue> {
        let width = reading.width as usize;
        let columns = [width, (what.columns % width as u64) as usize];
        let (worth, all) = usual(what, columns);
        let mut codes = Vec::new();
        let mut tiles = Vec::new();
        for &(height, which) in &worth {
            let program = fused::program(what, reading, start, height, columns[which] as u32);
            if let Some(code) = program.and_then(|program| compile(&program, Isa::Avx2).ok()) {
                tiles.push((height, which));
                codes.push(code);
            }
        }
        let widths = if all && tiles == worth { Vec::new() } else { widths(what, width) };
        for &lanes in &widths {
            codes.push(compile(&program(what, width, lanes as u32)?, Isa::Avx2).ok()?);
        }
        let code = ExecutableCode::load_all(&codes.iter().collect::<Vec<_>>()).ok()?;
        let mut table = [[None; 2]; HEIGHT];
        for (i, &(height, which)) in tiles.iter().enumerate() {
            table[height - 1][which] = Some(code.function(i));
        }
        let behind = |(i, &width): (usize, &usize)| (width, code.function(tiles.len() + i));
        let functions = widths.iter().enumerate().map(behind).collect();
        let (bindings, args) = mentioned(what);
        Some(Epilogue {
            tiles: table,
            columns,
            functions,
            code,
            reading: *reading,
            batch: what.batch.len(),
            bindings,
            args,
        })
    }

    /// How many bytes of memory the code takes.
    pub(crate) fn code_bytes(&self) -> usize {
        self.code.bytes()
    }

    /// How many words of scratch memory the code's bindings and base addresses take.
    pub(crate) fn words(&self) -> usize {
        self.args_at() + ARGS_AT as usize + self.args
    }

    fn args_at(&self) -> usize {
        BATCH_AT + self.batch + self.bindings
    }

    /// Writes what does not change during a call.
    ///
    /// # Safety
    ///
    /// `words` has room for [`Epilogue::words`]; `args` and `bindings` are those of the contraction.
    pub(crate) unsafe fn begin(&self, words: *mut i64, args: *const *mut u8, bindings: *const i64) {
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..self.bindings {
                *words.add(BATCH_AT + self.batch + i) = *bindings.add(i);
            }
            let to = words.add(self.args_at()).cast::<*mut u8>();
            for i in 0..self.args {
                *to.add(ARGS_AT as usize + i) = *args.add(i);
            }
        }
    }

    /// Writes the indices of the batch.
    ///
    /// # Safety
    ///
    /// `words` has room for [`Epilogue::words`].
    pub(crate) unsafe fn enter(&self, words: *mut i64, batch: &[u64]) {
        for (i, &index) in batch.iter().enumerate().take(self.batch) {
            // SAFETY: the caller's promise.
            unsafe { *words.add(BATCH_AT + i) = index as i64 };
        }
    }

    /// How the generated tiles read the factors.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The generated tile of a height and a number of columns, if there is one.
    #[inline(always)]
    pub(crate) fn tile(&self, height: usize, columns: usize) -> Option<Function> {
        let which = self.columns.iter().position(|&some| some == columns)?;
        self.tiles[height - 1][which]
    }

    /// Runs a generated tile, at its first row and column, on the factors where it reads them.
    ///
    /// # Safety
    ///
    /// The words are those written by [`Epilogue::begin`] and [`Epilogue::enter`]; the factors lie as the plan said, and the rows and columns of the
    /// tile are the contraction's.
    #[inline(always)]
    pub(crate) unsafe fn run_tile(
        &self,
        function: Function,
        words: *mut i64,
        factors: [*const u8; 2],
        [row, column]: [usize; 2],
    ) {
        // SAFETY: the caller's promise; the code touches what the tile and the epilogue name for these rows and columns.
        unsafe {
            *words.add(COLUMN_AT) = column as i64;
            *words.add(ROW_AT) = row as i64;
            let args = words.add(self.args_at()).cast::<*mut u8>();
            *args.add(LEFT_AT as usize) = factors[0].cast_mut();
            *args.add(RIGHT_AT as usize) = factors[1].cast_mut();
            function(args, words, ptr::null_mut(), 0, 0);
        }
    }

    /// Runs on the sums of a tile in scratch memory, `width` elements from row to row.
    ///
    /// # Safety
    ///
    /// The words are those written by [`Epilogue::begin`] and [`Epilogue::enter`], and the rows and columns of the tile are the contraction's.
    #[inline(always)]
    pub(crate) unsafe fn run(
        &self,
        words: *mut i64,
        sums: *mut u8,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        // The code counts rows from the first one of the contraction.
        let sums = sums.wrapping_sub(rows.start * ROW_BYTES);
        let mut at = 0;
        for &(width, function) in &self.functions {
            while columns.len() - at >= width {
                // SAFETY: the caller's promise; the code touches what the epilogue names for these rows and columns.
                unsafe {
                    *words.add(COLUMN_AT) = (columns.start + at) as i64;
                    *words.add(LANE_AT) = at as i64;
                    let args = words.add(self.args_at()).cast();
                    function(args, words, sums, rows.start as u64, rows.end as u64);
                }
                at += width;
            }
        }
        debug_assert_eq!(at, columns.len(), "widths make up all columns");
    }
}

/// Bytes of a row of sums: two vectors.
const ROW_BYTES: usize = 64;

/// The most tiles that are generated for a plan, and the least part of a contraction that one is worth its code for.
const MOST: usize = 2;
const LEAST: f64 = 1.0 / 8.0;

/// The tiles that most of a contraction is made up of, by height and position among `columns`; and whether there are no others, whatever the call.
fn usual(what: &Contraction, columns: [usize; 2]) -> (Vec<(usize, usize)>, bool) {
    let (rows, width) = (what.rows as usize, columns[0] as u64);
    let number = rows.div_ceil(HEIGHT).max(1);
    let heights = [(rows / number + 1, rows % number), (rows / number, number - rows % number)];
    let across = [(0, what.columns / width), (1, u64::from(columns[1] > 0))];
    let total = number as f64 * what.columns.div_ceil(width) as f64;
    let pairs = heights.iter().flat_map(|height| across.iter().map(move |which| (height, which)));
    let shares =
        pairs.map(|(&(height, down), &(which, right))| ((height, which), down as f64 * right as f64 / total));
    let mut shares: Vec<_> = shares.filter(|&((height, _), share)| height > 0 && share > 0.0).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let kinds = shares.len();
    shares.retain(|&(_, share)| share >= LEAST);
    shares.truncate(MOST);
    let whole = matches!(what.split, Split::None | Split::Batch);
    let all = whole && shares.len() == kinds;
    (shares.into_iter().map(|(tile, _)| tile).collect(), all)
}

/// The widths of which every number of columns of a tile is made up.
fn widths(what: &Contraction, width: usize) -> Vec<usize> {
    let mut widths = vec![(what.columns % width as u64) as usize];
    if what.columns >= width as u64 {
        widths.push(width);
    }
    if what.split == Split::Columns {
        widths.extend((0..width.ilog2()).map(|log| 1 << log));
    }
    widths.retain(|&width| width > 0);
    widths.sort_unstable_by(|a, b| b.cmp(a));
    widths.dedup();
    widths
}

/// The program for one width of sums in scratch memory; `None` if the template is not one.
fn program(what: &Contraction, width: usize, lanes: u32) -> Option<Program> {
    let template = &what.epilogue;
    let size = i64::from(what.element.bytes());
    let sums = Place {
        base: None,
        offset: 0,
        terms: vec![(ROW, width as i64 * size), (Index::Binding(LANE_AT as u32), size)],
        step: size,
        memory: Memory::Same,
    };
    let copy = Copy { what, row: None, first: 0, sums: Op::Load(sums) };
    Some(Program {
        values: widened(&template.values, lanes)?,
        variables: widened(&template.variables, lanes)?,
        counters: 1,
        body: vec![Stmt::Loop { counter: Counter(0), range: Values::Part, body: copy.statements()? }],
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vector_asm::{Element, Memory, Program};

    use super::usual;
    use crate::contraction::{Contraction, Factor, Offsets, Split};

    fn contraction(rows: u64, columns: u64) -> Contraction {
        let factor = |base| Factor {
            base,
            memory: Memory::Same,
            offset: 0,
            terms: Vec::new(),
            outer: Offsets::Strided(4),
            depth: Offsets::Table(Arc::new([])),
            bounds: Vec::new(),
        };
        Contraction {
            element: Element::F32,
            batch: Vec::new(),
            rows,
            columns,
            depth: 0,
            left: factor(0),
            right: factor(1),
            start: None,
            epilogue: Program::default(),
            split: Split::None,
        }
    }

    #[test]
    fn tiles_that_are_rare_are_not_generated() {
        // 43 tiles down, two of them of five rows.
        let mut what = contraction(256, 64);
        assert_eq!(usual(&what, [16, 0]), (vec![(6, 0)], false));
        // As many of six rows as of five, and all columns in whole tiles.
        what.rows = 11;
        assert_eq!(usual(&what, [16, 0]), (vec![(6, 0), (5, 0)], true));
        what.split = Split::Rows;
        assert_eq!(usual(&what, [16, 0]), (vec![(6, 0), (5, 0)], false));
        // All columns are the last ones.
        what.columns = 9;
        what.rows = 3;
        what.split = Split::None;
        assert_eq!(usual(&what, [16, 9]), (vec![(3, 1)], true));
        what.rows = 0;
        assert_eq!(usual(&what, [16, 9]), (vec![], true));
    }
}
