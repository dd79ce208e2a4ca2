//! Microkernels with a fused epilogue, generated for a plan.
//!
//! Such a microkernel sums in the same order as those of [`crate::tile`], then computes the epilogue on the
//! accumulators in registers, row by row, so that few more registers are needed. Its height, width, strides
//! and extent along K are constants. It computes the last block of K; the microkernels of [`crate::tile`]
//! compute the blocks before it and store partial sums.
//!
//! A long epilogue has no such microkernel: compiling a copy of it for each of a tile's vectors takes
//! longer than the copies save.

use vector_asm::{
    Counter, Index, LoopRange, StoredType, Value, Variable, VectorAddress, VectorOp, VectorProgram,
    VectorStmt, VectorType,
};

use crate::epilogue::{A_BASE, B_BASE, NEXT_BASE, OperandAccess};
use crate::epilogue_program::{RowEpilogue, widened};
use crate::problem::GemmProblem;

/// The counter of the loop over K.
const K_INDEX: Index = Index::Counter(Counter(0));

/// The most statements of a fused epilogue.
const MAX_FUSED_STATEMENTS: usize = 12;

/// The microkernel for a tile of `height` rows and `columns` columns, with initial accumulators at a place or
/// zeros; `None` if the epilogue cannot be fused.
pub(crate) fn microkernel(
    problem: &GemmProblem,
    access: &OperandAccess,
    initial: Option<&VectorAddress>,
    height: usize,
    columns: u32,
) -> Option<VectorProgram> {
    let epilogue = &problem.epilogue;
    if !access.is_fusible || epilogue.body.len() > MAX_FUSED_STATEMENTS || epilogue.variables.len() != 1 {
        return None;
    }
    let lanes = if access.b.is_some() { columns } else { columns.next_multiple_of(access.vector) };
    let mut builder = MicrokernelBuilder { problem, program: VectorProgram::default() };
    builder.program.variables = vec![VectorType { element: problem.element, lanes }; height];
    let rows = 0..height as u32;
    for row in rows.clone() {
        builder.prefetch(row)?;
    }
    for row in rows.clone() {
        builder.load_initial(row, initial, columns)?;
    }
    builder.sum_products(access, height, lanes);
    for row in rows {
        builder.epilogue(row, columns)?;
    }
    Some(builder.program)
}

struct MicrokernelBuilder<'a> {
    problem: &'a GemmProblem,
    program: VectorProgram,
}

impl MicrokernelBuilder<'_> {
    fn value(&mut self, lanes: u32) -> Value {
        self.program.values.push(VectorType { element: self.problem.element, lanes });
        Value(self.program.values.len() as u32 - 1)
    }

    fn row_epilogue(&self, row: u32) -> RowEpilogue<'_> {
        let accumulators = VectorOp::Get { variable: Variable(row), start: 0 };
        RowEpilogue {
            problem: self.problem,
            row: Some(row.into()),
            first_value: self.program.values.len() as u32,
            accumulators,
        }
    }

    /// Prefetches a row of the outputs, which arrives while the products are summed.
    fn prefetch(&mut self, row: u32) -> Option<()> {
        for stmt in &self.problem.epilogue.body {
            if let VectorStmt::Store { place, streaming: false, .. } = stmt {
                let place = self.row_epilogue(row).place(place)?;
                self.program.body.push(VectorStmt::Prefetch(place));
            }
        }
        Some(())
    }

    /// Loads the initial accumulators of a row. Variables start at zero.
    fn load_initial(&mut self, row: u32, initial: Option<&VectorAddress>, columns: u32) -> Option<()> {
        if let Some(initial) = initial {
            let place = self.row_epilogue(row).place(initial)?;
            let value = self.value(columns);
            self.program.body.push(VectorStmt::Let { value, op: VectorOp::Load(place) });
            self.program.body.push(VectorStmt::Set { variable: Variable(row), start: 0, value });
        }
        Some(())
    }

    /// Emits the loop over K, which adds one product to each accumulator per iteration.
    fn sum_products(&mut self, access: &OperandAccess, height: usize, lanes: u32) {
        let size = i64::from(self.problem.element.bytes());
        let place = |base, offset, coefficient, step| VectorAddress {
            base: Some(base),
            offset,
            terms: vec![(K_INDEX, coefficient)],
            step,
            memory: StoredType::Same,
        };
        let (row_stride, k_stride) =
            access.a.map_or((size, height as i64 * size), |(row, k)| (row as i64, k as i64));
        let b_stride = access.b.map_or(i64::from(access.width) * size, |k| k as i64);
        let mut body = Vec::new();
        let b = self.value(lanes);
        body.push(VectorStmt::Let { value: b, op: VectorOp::Load(place(B_BASE, 0, b_stride, size)) });
        if access.b_is_far {
            let lines = (0..i64::from(lanes) * size).step_by(64);
            body.extend(lines.map(|line| VectorStmt::Prefetch(place(NEXT_BASE, line, b_stride, size))));
        }
        for row in 0..height as u32 {
            let (a, sum, next) = (self.value(1), self.value(lanes), self.value(lanes));
            let element = place(A_BASE, i64::from(row) * row_stride, k_stride, 0);
            let variable = Variable(row);
            body.extend([
                VectorStmt::Let { value: a, op: VectorOp::Load(element) },
                VectorStmt::Let { value: sum, op: VectorOp::Get { variable, start: 0 } },
                VectorStmt::Let { value: next, op: VectorOp::Fma(a, b, sum) },
                VectorStmt::Set { variable, start: 0, value: next },
            ]);
        }
        self.program.counters = 1;
        let range = LoopRange::Constant(access.k as u64);
        self.program.body.push(VectorStmt::Loop { counter: Counter(0), range, body });
    }

    fn epilogue(&mut self, row: u32, columns: u32) -> Option<()> {
        let statements = self.row_epilogue(row).statements()?;
        self.program.values.extend(widened(&self.problem.epilogue.values, columns)?);
        self.program.body.extend(statements);
        Some(())
    }
}
