//! Compiled epilogues that do more than store the accumulators.
//!
//! Most tiles have a microkernel that is generated together with the epilogue ([`crate::fused`]). None is
//! generated for a long epilogue, or for a height or width that few tiles have. In these cases, the tile's
//! accumulators are stored in scratch memory, where they stay in the L1 cache, and the epilogue runs as a
//! loop over the rows of the tile. The loop is compiled for some widths and keeps intermediate values in
//! registers.

use std::ops::Range;
use std::ptr;

use serde::{Deserialize, Serialize};
#[cfg(feature = "assembler")]
use vector_asm::{ExecutableCode, VectorCode};
use vector_asm::{Index, Isa, VectorFunction, VectorOp, VectorStmt};

#[cfg(feature = "assembler")]
use crate::epilogue_code::EpilogueCode;
use crate::problem::GemmProblem;
use crate::simd::MAX_ROWS;

/// Positions of the column, the first lane, the row and the first batch index among the bindings.
pub(crate) const COLUMN_BINDING: usize = 0;
pub(crate) const LANE_BINDING: usize = 1;
pub(crate) const ROW_BINDING: usize = 2;
pub(crate) const BATCH_BINDINGS: usize = 3;

/// Positions of A, B, what is prefetched and the problem's first argument among the base addresses.
pub(crate) const A_BASE: u32 = 0;
pub(crate) const B_BASE: u32 = 1;
pub(crate) const NEXT_BASE: u32 = 2;
pub(crate) const ARG_BASES: u32 = 3;

/// How the tiles of the last block of K access the operands. Strides are in bytes.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "assembler"), expect(dead_code, reason = "the assembler reads the rest"))]
pub(crate) struct OperandAccess {
    /// The instruction set.
    pub(crate) isa: Isa,
    /// Products that each accumulator adds.
    pub(crate) k: usize,
    /// Whether tiles may compute the epilogue: A is packed or has strides, and the product is not computed
    /// transposed.
    pub(crate) is_fusible: bool,
    /// Strides of A by row and along K; `None` if A is packed, with as many elements for each position along
    /// K as the tile has rows.
    pub(crate) a: Option<(isize, isize)>,
    /// Stride of B along K; `None` if B is packed, with the columns of a full tile for each position along K.
    pub(crate) b: Option<isize>,
    /// Whether B is read in place from a far cache, so that tiles prefetch elements of the next ones.
    pub(crate) b_is_far: bool,
    /// Whether some tiles pack B, which generated ones do not.
    pub(crate) packs_in_tiles: bool,
    /// Rows of the largest tile.
    pub(crate) height: usize,
    /// Columns of a full tile and of a vector.
    pub(crate) width: u32,
    pub(crate) vector: u32,
}

/// The functions of an epilogue: which there are, in their order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EpilogueFunctions {
    /// The kinds of tiles that have generated microkernels, by height and by position among the widths of
    /// tiles.
    pub(crate) tiles: Vec<(usize, usize)>,
    /// The columns that each further function processes, widest first.
    pub(crate) widths: Vec<usize>,
}

/// The functions of an epilogue, ready to be called.
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
    #[cfg(feature = "assembler")]
    code: EpilogueMemory,
    /// What the functions are, in the order of the code.
    #[cfg(feature = "assembler")]
    order: EpilogueFunctions,
    /// How generated microkernels access the operands.
    operand_access: OperandAccess,
    /// Bytes of a row of accumulators in scratch memory.
    row_bytes: usize,
    batch: usize,
    bindings: usize,
    args: usize,
}

/// Where the code of an epilogue is.
#[cfg(feature = "assembler")]
#[derive(Debug)]
enum EpilogueMemory {
    /// In memory that this owns.
    Loaded(ExecutableCode),
    /// In no memory that can be executed: another process runs the plan.
    Unloaded(Vec<VectorCode>),
    /// In the program.
    Linked,
}

impl Epilogue {
    /// The epilogue with these functions. `None` if they are those of another epilogue.
    pub(crate) fn of_functions(
        problem: &GemmProblem,
        access: &OperandAccess,
        order: &EpilogueFunctions,
        functions: &[VectorFunction],
    ) -> Option<Epilogue> {
        if functions.len() != order.tiles.len() + order.widths.len() {
            return None;
        }
        let mut epilogue = Epilogue::without_functions(problem, access, order);
        let (tiles, rest) = functions.split_at(order.tiles.len());
        for (&(height, which), &function) in order.tiles.iter().zip(tiles) {
            *epilogue.tiles.get_mut(height.checked_sub(1)?)?.get_mut(which)? = Some(function);
        }
        epilogue.functions = order.widths.iter().copied().zip(rest.iter().copied()).collect();
        Some(epilogue)
    }

    /// The epilogue with its code. `None` if the code is that of another epilogue, or if it cannot be loaded.
    #[cfg(feature = "assembler")]
    pub(crate) fn of_code(
        problem: &GemmProblem,
        access: &OperandAccess,
        EpilogueCode { order, functions: codes }: &EpilogueCode,
    ) -> Option<Epilogue> {
        let code = ExecutableCode::load_all(&codes.iter().collect::<Vec<_>>()).ok()?;
        let functions: Vec<VectorFunction> = (0..codes.len()).map(|at| code.function(at)).collect();
        let epilogue = Epilogue::of_functions(problem, access, order, &functions)?;
        Some(Epilogue { code: EpilogueMemory::Loaded(code), ..epilogue })
    }

    /// The epilogue of a plan that another process runs.
    #[cfg(feature = "assembler")]
    pub(crate) fn unloaded(problem: &GemmProblem, access: &OperandAccess, code: EpilogueCode) -> Epilogue {
        let epilogue = Epilogue::without_functions(problem, access, &code.order);
        Epilogue { code: EpilogueMemory::Unloaded(code.functions), ..epilogue }
    }

    #[cfg_attr(
        not(feature = "assembler"),
        expect(unused_variables, reason = "only plans as data have an order")
    )]
    fn without_functions(
        problem: &GemmProblem,
        access: &OperandAccess,
        order: &EpilogueFunctions,
    ) -> Epilogue {
        let width = access.width as usize;
        let (bindings, args) = used_parameters(problem);
        Epilogue {
            tiles: [[None; 2]; MAX_ROWS],
            columns: [width, (problem.n % width as u64) as usize],
            functions: Vec::new(),
            #[cfg(feature = "assembler")]
            code: EpilogueMemory::Linked,
            #[cfg(feature = "assembler")]
            order: order.clone(),
            operand_access: *access,
            row_bytes: width * problem.element.bytes() as usize,
            batch: problem.batch.len(),
            bindings,
            args,
        }
    }
}

#[cfg(feature = "assembler")]
impl Epilogue {
    /// Bytes of memory that the code takes.
    pub(crate) fn code_bytes(&self) -> usize {
        match &self.code {
            EpilogueMemory::Loaded(code) => code.bytes(),
            EpilogueMemory::Unloaded(_) | EpilogueMemory::Linked => 0,
        }
    }

    /// What the functions are, in the order of [`Epilogue::machine_code`].
    pub(crate) fn order(&self) -> &EpilogueFunctions {
        &self.order
    }

    /// The code of each function, followed by its constants; nothing if the program has it.
    pub(crate) fn machine_code(&self) -> Vec<&[u8]> {
        match &self.code {
            EpilogueMemory::Loaded(code) => (0..code.len()).map(|position| code.code(position)).collect(),
            EpilogueMemory::Unloaded(functions) => functions.iter().map(VectorCode::bytes).collect(),
            EpilogueMemory::Linked => Vec::new(),
        }
    }
}

impl Epilogue {
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

/// The number of bindings and of base addresses that an epilogue uses, up to the last one.
pub(crate) fn used_parameters(problem: &GemmProblem) -> (usize, usize) {
    let (mut bindings, mut args) = (0, 0);
    let mut see = |terms: &[(Index, i64)], base: Option<u32>| {
        args = args.max(base.map_or(0, |base| base as usize + 1));
        for (index, _) in terms {
            if let Index::Binding(binding) = index {
                bindings = bindings.max(*binding as usize + 1);
            }
        }
    };
    for stmt in &problem.epilogue.body {
        match stmt {
            VectorStmt::Store { place, .. } | VectorStmt::Prefetch(place) => see(&place.terms, place.base),
            VectorStmt::Let { op: VectorOp::Load(place) | VectorOp::LoadIf { place, .. }, .. } => {
                see(&place.terms, place.base);
            }
            VectorStmt::Let { op: VectorOp::Index { terms, .. }, .. } => see(terms, None),
            _ => {}
        }
    }
    if let Some(initial) = &problem.initial {
        see(&initial.terms, initial.base);
    }
    (bindings, args)
}
