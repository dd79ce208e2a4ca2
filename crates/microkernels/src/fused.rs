//! Tiles with what becomes of their sums: programs that are generated when a plan is made.
//!
//! A program sums a tile as [`crate::tile`] does, in the same order, and computes the epilogue on the sums while they are in registers, row by row, so few registers
//! are wanted besides them. All that a plan knows is constant in it: height, width, steps of the factors, the depth. It is
//! for the last block of the depth; sums of the blocks before it are kept in memory by tiles of that module.
//!
//! The copies of a long epilogue, twelve for a full tile, take longer to compile than they save, so there are no such tiles for one.

use vector_asm::{Counter, Index, Memory, Op, Place, Program, Range, Stmt, Type, Value, Variable};

use crate::contraction::Contraction;
use crate::template::{Copy, LEFT_AT, RIGHT_AT, widened};

/// The counter of the loop over the depth.
const DEPTH: Index = Index::Counter(Counter(0));

/// The most statements of an epilogue that tiles compute in registers.
const SHORT: usize = 12;

/// How tiles of the last block of the depth read the factors. Steps are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// How many products are added.
    pub(crate) depth: usize,
    /// By row and by depth; `None`: packed, so many elements for each depth as the tile has rows.
    pub(crate) left: Option<(isize, isize)>,
    /// By depth; `None`: packed, whole vectors for each depth, a whole tile's width apart.
    pub(crate) right: Option<isize>,
    /// Columns of a whole tile, and of a vector.
    pub(crate) width: u32,
    pub(crate) vector: u32,
}

/// The program for a tile of so many rows and columns, whose sums begin at a place or at zero; `None` if there is none.
pub(crate) fn program(
    what: &Contraction,
    reading: &Reading,
    start: Option<&Place>,
    height: usize,
    columns: u32,
) -> Option<Program> {
    let template = &what.epilogue;
    if template.body.len() > SHORT || template.variables.len() != 1 {
        return None;
    }
    let lanes = if reading.right.is_some() { columns } else { columns.next_multiple_of(reading.vector) };
    let mut writer = Writer { what, program: Program::default() };
    writer.program.variables = vec![Type { element: what.element, lanes }; height];
    let rows = 0..height as u32;
    for row in rows.clone() {
        writer.prefetch(row)?;
    }
    for row in rows.clone() {
        writer.begin(row, start, columns)?;
    }
    writer.sum(reading, height, lanes);
    for row in rows {
        writer.epilogue(row, columns)?;
    }
    Some(writer.program)
}

struct Writer<'a> {
    what: &'a Contraction,
    program: Program,
}

impl Writer<'_> {
    fn value(&mut self, lanes: u32) -> Value {
        self.program.values.push(Type { element: self.what.element, lanes });
        Value(self.program.values.len() as u32 - 1)
    }

    fn copy(&self, row: u32) -> Copy<'_> {
        let sums = Op::Get { variable: Variable(row), start: 0 };
        Copy { what: self.what, row: Some(row.into()), first: self.program.values.len() as u32, sums }
    }

    /// Outputs are on their way while sums are computed.
    fn prefetch(&mut self, row: u32) -> Option<()> {
        for stmt in &self.what.epilogue.body {
            if let Stmt::Store { place, streaming: false, .. } = stmt {
                let place = self.copy(row).place(place)?;
                self.program.body.push(Stmt::Prefetch(place));
            }
        }
        Some(())
    }

    /// Where the sums of a row begin. Variables begin at zero.
    fn begin(&mut self, row: u32, start: Option<&Place>, columns: u32) -> Option<()> {
        if let Some(start) = start {
            let place = self.copy(row).place(start)?;
            let value = self.value(columns);
            self.program.body.push(Stmt::Let { value, op: Op::Load(place) });
            self.program.body.push(Stmt::Set { variable: Variable(row), start: 0, value });
        }
        Some(())
    }

    /// The loop over the depth.
    fn sum(&mut self, reading: &Reading, height: usize, lanes: u32) {
        let size = i64::from(self.what.element.bytes());
        let place = |base, offset, coefficient, step| Place {
            base: Some(base),
            offset,
            terms: vec![(DEPTH, coefficient)],
            step,
            memory: Memory::Same,
        };
        let (row_step, depth_step) =
            reading.left.map_or((size, height as i64 * size), |(row, depth)| (row as i64, depth as i64));
        let right_step = reading.right.map_or(i64::from(reading.width) * size, |depth| depth as i64);
        let mut body = Vec::new();
        let right = self.value(lanes);
        body.push(Stmt::Let { value: right, op: Op::Load(place(RIGHT_AT, 0, right_step, size)) });
        for row in 0..height as u32 {
            let (left, sum, next) = (self.value(1), self.value(lanes), self.value(lanes));
            let element = place(LEFT_AT, i64::from(row) * row_step, depth_step, 0);
            let variable = Variable(row);
            body.extend([
                Stmt::Let { value: left, op: Op::Load(element) },
                Stmt::Let { value: sum, op: Op::Get { variable, start: 0 } },
                Stmt::Let { value: next, op: Op::Fma(left, right, sum) },
                Stmt::Set { variable, start: 0, value: next },
            ]);
        }
        self.program.counters = 1;
        let range = Range::To(reading.depth as u64);
        self.program.body.push(Stmt::Loop { counter: Counter(0), range, body });
    }

    fn epilogue(&mut self, row: u32, columns: u32) -> Option<()> {
        let statements = self.copy(row).statements()?;
        self.program.values.extend(widened(&self.what.epilogue.values, columns)?);
        self.program.body.extend(statements);
        Some(())
    }
}
