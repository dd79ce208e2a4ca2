//! Declared locals in registers: values within straight-line code, variables if loops carry them.
//!
//! A local is divided into *rows*. If a vector loop indexes along its last dimension, a row consists of the
//! elements along that dimension; otherwise each element is a row. The known contents of a row are
//! *segments*, values of neighboring lanes. Lanes outside of the segments are in the row's variable. Before
//! a loop that assigns the local, and at the end of its body, new segments are stored to the variable.

use lowered_ir::ir::{Affine, Indices, LocalId, LoopKind, Stmt, walk};
use std::collections::BTreeSet;
use tnode::{DType, Dims};
use vector_asm::{LaneType, Value, Variable, VectorOp, VectorType};

use super::Translator;
use super::build::ProgramBuilder;
use super::reason::{BailoutReason, Result};
use super::repr;
use crate::emit::scan;

/// The location of a local's elements.
pub(super) enum LocalStorage {
    /// In rows with this number of lanes.
    Rows(u32, Vec<Row>),
    /// For each element, a value of the current vector loop that has the element in every lane.
    Private(Vec<Value>),
    /// In scratch memory, from this offset on.
    Scratch(i64),
}

/// The known contents of a row of a local.
pub(super) struct Row {
    ty: VectorType,
    variable: Option<Variable>,
    /// Disjoint ranges of lanes with their values.
    segments: Vec<LaneSegment>,
}

struct LaneSegment {
    start: u32,
    value: Value,
    lanes: u32,
    /// Whether the value has not been stored to the row's variable yet.
    is_new: bool,
}

/// Locals that a vector loop indexes along their last dimension.
pub(super) fn walked(body: &[Stmt]) -> Result<BTreeSet<LocalId>> {
    let mut found = BTreeSet::new();
    let mut rejected = None;
    walk::stmts(body).for_each(|stmt| {
        let Stmt::For { var, kind: LoopKind::Vector, body, .. } = stmt else { return };
        scan::each_local_access(body, &mut |local, index| {
            let Some((last, outer)) = index.split_last() else { return };
            if last.coefficient(*var) == 1 {
                found.insert(local);
            }
            let is_row = matches!(last.coefficient(*var), 0 | 1) && !outer.iter().any(|i| i.mentions(*var));
            if !is_row {
                rejected.get_or_insert(local);
            }
        });
    });
    // Locals in memory may have any layout, but a row in registers supports no other access.
    let registers = registers(body);
    match rejected.filter(|local| registers.contains(local)) {
        Some(local) => Err(BailoutReason::Lanes(local)),
        None => Ok(found),
    }
}

fn registers(body: &[Stmt]) -> BTreeSet<LocalId> {
    let mut registers = BTreeSet::new();
    walk::stmts(body).for_each(|stmt| {
        if let Stmt::Declare { local, space: lowered_ir::ir::Space::Register, .. } = stmt {
            registers.insert(*local);
        }
    });
    registers
}

impl Row {
    fn zeros(ty: VectorType, build: &mut ProgramBuilder) -> Row {
        let value = build.constant(ty.element, ty.lanes, 0);
        Row {
            ty,
            variable: None,
            segments: vec![LaneSegment { start: 0, value, lanes: ty.lanes, is_new: true }],
        }
    }

    /// The value of some lanes.
    fn read(&mut self, local: LocalId, start: u32, lanes: u32, build: &mut ProgramBuilder) -> Value {
        if let Some(segment) = self.segments.iter().find(|p| p.holds(start, lanes)) {
            return segment.part(start, lanes, build);
        }
        self.flush(start, lanes, build);
        self.segments.retain(|p| !p.meets(start, lanes));
        let variable = self.variable(build);
        let value = build.get(local, variable, start, lanes);
        self.segments.push(LaneSegment { start, value, lanes, is_new: false });
        value
    }

    /// Replaces some lanes.
    fn write(&mut self, start: u32, value: Value, build: &mut ProgramBuilder) {
        let lanes = build.type_of(value).lanes;
        let straddles =
            |p: &LaneSegment| p.meets(start, lanes) && !(start <= p.start && p.end() <= start + lanes);
        if let Some(old) = self.segments.iter().find(|p| straddles(p)).map(|p| (p.start, p.lanes)) {
            self.flush(old.0, old.1, build);
        }
        self.segments.retain(|p| !p.meets(start, lanes));
        self.segments.push(LaneSegment { start, value, lanes, is_new: true });
    }

    /// Stores the new segments that overlap some lanes to the variable.
    fn flush(&mut self, start: u32, lanes: u32, build: &mut ProgramBuilder) {
        if !self.segments.iter().any(|p| p.is_new && p.meets(start, lanes)) {
            return;
        }
        let variable = self.variable(build);
        for segment in self.segments.iter_mut().filter(|p| p.is_new && p.meets(start, lanes)) {
            build.set(variable, segment.start, segment.value);
            segment.is_new = false;
        }
    }

    fn flush_all(&mut self, build: &mut ProgramBuilder) {
        self.flush(0, self.ty.lanes, build);
    }

    fn variable(&mut self, build: &mut ProgramBuilder) -> Variable {
        *self.variable.get_or_insert_with(|| build.variable(self.ty))
    }

    /// Whether one value covers the row.
    fn is_one_value(&self) -> bool {
        matches!(self.segments.as_slice(), [segment] if segment.lanes == self.ty.lanes)
    }
}

impl LaneSegment {
    fn end(&self) -> u32 {
        self.start + self.lanes
    }

    fn holds(&self, start: u32, lanes: u32) -> bool {
        self.start <= start && start + lanes <= self.end()
    }

    fn meets(&self, start: u32, lanes: u32) -> bool {
        self.start < start + lanes && start < self.end()
    }

    fn part(&self, start: u32, lanes: u32, build: &mut ProgramBuilder) -> Value {
        let element = build.type_of(self.value).element;
        if lanes == self.lanes {
            return self.value;
        }
        match build.as_constant(self.value) {
            Some(bits) => build.constant(element, lanes, bits),
            None => {
                let start = start - self.start;
                build.pure(VectorType { element, lanes }, VectorOp::Slice { of: self.value, start })
            }
        }
    }
}

impl Translator<'_> {
    /// Declares a local of zeros in registers.
    pub(super) fn declare_register(&mut self, local: LocalId, dtype: DType, dims: &Dims) -> Result<()> {
        let element = repr::element(dtype).ok_or(BailoutReason::RandomBits)?;
        let elements: usize = dims.iter().product();
        let home = if self.lane.is_some() {
            LocalStorage::Private(vec![self.build.constant(element, 1, 0); elements])
        } else {
            let lanes = match dims.last() {
                Some(&last) if self.walked.contains(&local) => last as u32,
                _ => 1,
            };
            let rows = elements.checked_div(lanes as usize).unwrap_or(0);
            if rows > MAX_ROWS {
                return Err(BailoutReason::TooLarge);
            }
            let row = |_| Row::zeros(VectorType { element, lanes }, &mut self.build);
            LocalStorage::Rows(lanes, (0..rows).map(row).collect())
        };
        self.homes.insert(local, home);
        Ok(())
    }

    /// Ends the life of a local and frees its variables.
    pub(super) fn forget_local(&mut self, local: LocalId) {
        if let Some(LocalStorage::Rows(_, rows)) = self.homes.remove(&local) {
            rows.into_iter().filter_map(|row| row.variable).for_each(|v| self.build.release(v));
        }
    }

    /// Reads an element of a local in registers. If the element differs between the lanes of the current
    /// vector loop, reads one element per lane.
    pub(super) fn get_register(&mut self, local: LocalId, index: &Indices) -> Result<Value> {
        let (at, walks) = self.position(local, index)?;
        let lanes = self.lane.filter(|_| walks).map_or(1, |(_, lanes)| lanes);
        match self.homes.get_mut(&local) {
            Some(LocalStorage::Private(values)) => Ok(values[at as usize]),
            Some(LocalStorage::Rows(row_lanes, rows)) => {
                let (row, start) = ((at / *row_lanes) as usize, at % *row_lanes);
                Ok(rows[row].read(local, start, lanes, &mut self.build))
            }
            _ => unreachable!("{DECLARED}"),
        }
    }

    /// Replaces an element of a local in registers.
    pub(super) fn set_register(&mut self, local: LocalId, index: &Indices, value: Value) -> Result<()> {
        let (at, walks) = self.position(local, index)?;
        if let Some(LocalStorage::Private(values)) = self.homes.get_mut(&local) {
            values[at as usize] = value;
            return Ok(());
        }
        let lanes = match self.lane {
            Some((_, lanes)) if walks => lanes,
            Some((_, lanes)) if lanes > 1 => return Err(BailoutReason::SharedStore),
            _ => 1,
        };
        let is_truth = self.locals[&local].dtype == DType::Bool;
        // Masks in variables have 32 bits.
        let value = if is_truth { self.mask_as(value, LaneType::I32) } else { value };
        let value = self.broadcast(value, lanes);
        if let Some(LocalStorage::Rows(row_lanes, rows)) = self.homes.get_mut(&local) {
            let (row, start) = ((at / *row_lanes) as usize, at % *row_lanes);
            rows[row].write(start, value, &mut self.build);
        }
        Ok(())
    }

    /// The flat index of an element in the first lane, and whether the lanes access neighboring elements.
    fn position(&self, local: LocalId, index: &Indices) -> Result<(u32, bool)> {
        let flat = Affine::row_major(index, &self.locals[&local].dims);
        let walks = self.lane.is_some_and(|(var, _)| flat.mentions(var));
        if walks && matches!(self.homes.get(&local), Some(LocalStorage::Private(_))) {
            return Err(BailoutReason::Lanes(local));
        }
        Ok((self.constant_index(&flat), walks))
    }

    fn constant_index(&self, flat: &Affine) -> u32 {
        let index = self.resolve(flat);
        debug_assert!(
            index.terms.is_empty(),
            "the verifier checks that register indices are known when unrolled"
        );
        index.offset as u32
    }

    /// Before a loop: stores new segments of the locals that the loop accesses to their variables, except
    /// rows that the loop only reads and that one value covers. Forgets the segments of locals that the loop
    /// assigns.
    pub(super) fn enter_loop(&mut self, body: &[Stmt]) {
        let assigned = scan::assigned(body);
        let mut mentioned = BTreeSet::new();
        scan::each_local_access(body, &mut |local, _| {
            mentioned.insert(local);
        });
        for local in mentioned {
            let Some(LocalStorage::Rows(_, rows)) = self.homes.get_mut(&local) else { continue };
            let is_assigned = assigned.contains(&local);
            for row in rows.iter_mut().filter(|row| is_assigned || !row.is_one_value()) {
                row.flush_all(&mut self.build);
            }
            if is_assigned {
                rows.iter_mut().for_each(|row| row.segments.clear());
            }
        }
    }

    /// At the end of a loop's body, before the loop is closed: stores new segments to their variables.
    pub(super) fn leave_loop(&mut self, body: &[Stmt]) {
        for local in scan::assigned(body) {
            let Some(LocalStorage::Rows(_, rows)) = self.homes.get_mut(&local) else { continue };
            for row in rows {
                row.flush_all(&mut self.build);
                row.segments.clear();
            }
        }
    }

    /// Forgets the values that were defined inside of a loop, after that loop has been closed.
    pub(super) fn drop_hidden(&mut self) {
        let level = self.build.level();
        for home in self.homes.values_mut() {
            let LocalStorage::Rows(_, rows) = home else { continue };
            for row in rows {
                row.segments.retain(|p| self.build.is_visible_at(p.value, level));
            }
        }
    }
}

/// Maximum number of rows of a local in registers. No register file is as large.
const MAX_ROWS: usize = 1 << 10;

const DECLARED: &str = "the verifier checks that locals are declared before use";
