//! Declared locals: in registers by element or by groups of lanes, or in scratch memory.

use cranelift_codegen::ir::{Opcode, Value, types};
use lowered_ir::ir::{Affine, Indices, LocalId, Space};
use tnode::{DType, Dims};

use super::Emitter;
use super::memory::{Array, Element};
use super::repr::{self, LANES, Val};

/// A local in scope.
pub(super) struct Local {
    dtype: DType,
    dims: Dims,
    home: LocalStorage,
}

/// The location of a local's elements, in row-major order.
enum LocalStorage {
    /// One register for each element.
    Scalars(Vec<Value>),
    /// Neighboring elements as lanes, because a vector loop indexes them.
    Groups(Vec<Val>),
    /// For each element, a value for every lane of the current vector loop.
    Private(Vec<Val>),
    /// In scratch memory, from this offset on.
    Scratch(i64),
}

impl Emitter<'_> {
    /// Declares a local of zeros, or one without initial values.
    pub(super) fn declare(&mut self, local: LocalId, dtype: DType, dims: &Dims, space: Space) {
        let elements: usize = dims.iter().product();
        let home = match space {
            Space::Stack | Space::Scratch | Space::Workgroup | Space::Thread => {
                self.reserve(local, elements * dtype.size_bytes(), space != Space::Scratch)
            }
            Space::Register if self.lane.is_some() => {
                LocalStorage::Private(vec![self.zero_lanes(dtype); elements])
            }
            Space::Register if self.grouped.contains(&local) && dtype != DType::U32x4 => {
                LocalStorage::Groups(vec![self.zero_lanes(dtype); elements.div_ceil(LANES)])
            }
            Space::Register => {
                let ty = repr::one(dtype);
                LocalStorage::Scalars(vec![self.splat_bits(ty, 0); elements])
            }
        };
        self.declared.insert(local, Local { dtype, dims: dims.clone(), home });
    }

    fn zero_lanes(&mut self, dtype: DType) -> Val {
        let zero = self.splat_bits(repr::wide(dtype), 0);
        Val::lanes(std::iter::repeat_n(zero, repr::wide_parts(dtype)))
    }

    /// Allocates scratch memory until the end of the block.
    fn reserve(&mut self, local: LocalId, bytes: usize, needs_zeros: bool) -> LocalStorage {
        let offset = self.scratch_top.next_multiple_of(16);
        self.scratch_top = offset + bytes;
        self.scratch_bytes = self.scratch_bytes.max(self.scratch_top);
        if needs_zeros {
            let start = self.displaced(self.scratch, offset as i64);
            let by = self.ssa.int(types::I64, i64::from(start.offset));
            let base = self.ssa.binary(Opcode::Iadd, start.base, by);
            self.clear(Array::Local(local), base, bytes);
        } else {
            self.loads.forget_array(Array::Local(local));
        }
        LocalStorage::Scratch(offset as i64)
    }

    /// Reads an element: lanes if they differ, else one value.
    pub(super) fn get_local(&mut self, local: LocalId, index: &Indices) -> Val {
        if let Some(element) = self.scratch_element(local, index) {
            return self.load(&element);
        }
        let (at, step) = self.position(local, index);
        let Local { dtype, home, .. } = &self.declared[&local];
        let dtype = *dtype;
        match home {
            LocalStorage::Private(values) => values[at].clone(),
            LocalStorage::Groups(groups) if step == 1 && at % LANES == 0 => groups[at / LANES].clone(),
            _ if step == 0 => Val::one(self.read_one(local, at)),
            _ => {
                let lanes: Vec<Value> = (0..LANES as i64)
                    .map(|lane| self.read_one(local, (at as i64 + lane * step) as usize))
                    .collect();
                self.assemble(dtype, &lanes)
            }
        }
    }

    /// Writes an element: one value, or one for each lane.
    pub(super) fn set_local(&mut self, local: LocalId, index: &Indices, value: &Val) {
        if let Some(element) = self.scratch_element(local, index) {
            return self.store(&element, value);
        }
        let (at, step) = self.position(local, index);
        let dtype = self.declared[&local].dtype;
        if self.lane.is_none() {
            return self.write_one(local, at, value.first());
        }
        let lanes = self.widened(dtype, value);
        match self.home(local) {
            LocalStorage::Private(values) => values[at] = lanes,
            LocalStorage::Groups(groups) if step == 1 && at % LANES == 0 => groups[at / LANES] = lanes,
            _ => {
                for lane in 0..LANES {
                    let value = self.lane(dtype, &lanes, lane);
                    self.write_one(local, (at as i64 + lane as i64 * step) as usize, value);
                }
            }
        }
    }

    fn home(&mut self, local: LocalId) -> &mut LocalStorage {
        &mut self
            .declared
            .get_mut(&local)
            .expect("the verifier checks that locals are declared before use")
            .home
    }

    fn scratch_element(&mut self, local: LocalId, index: &Indices) -> Option<Element> {
        let Local { dtype, dims, home: LocalStorage::Scratch(offset) } = &self.declared[&local] else {
            return None;
        };
        let flat = Affine::row_major(index, dims);
        Some(self.element(Array::Local(local), *dtype, self.scratch, &flat, *offset))
    }

    /// The flat index of a register element in the first lane, and the increment from lane to lane.
    fn position(&mut self, local: LocalId, index: &Indices) -> (usize, i64) {
        let flat = Affine::row_major(index, &self.declared[&local].dims);
        let step = self.lane.map_or(0, |lane| flat.coefficient(lane));
        let at = self
            .constant_index(&flat)
            .expect("the verifier checks that register indices are known when unrolled");
        (at as usize, step)
    }

    fn read_one(&mut self, local: LocalId, at: usize) -> Value {
        let Local { dtype, home, .. } = &self.declared[&local];
        match home {
            LocalStorage::Scalars(values) => values[at],
            LocalStorage::Groups(groups) => {
                let (dtype, group) = (*dtype, groups[at / LANES].clone());
                self.lane(dtype, &group, at % LANES)
            }
            LocalStorage::Private(_) | LocalStorage::Scratch(_) => unreachable!("read by the callers"),
        }
    }

    fn write_one(&mut self, local: LocalId, at: usize, value: Value) {
        let dtype = self.declared[&local].dtype;
        let replaced = match self.home(local) {
            LocalStorage::Scalars(values) => return values[at] = value,
            LocalStorage::Groups(groups) => groups[at / LANES].clone(),
            LocalStorage::Private(_) | LocalStorage::Scratch(_) => unreachable!("written by the callers"),
        };
        let replaced = self.with_lane(dtype, &replaced, at % LANES, value);
        if let LocalStorage::Groups(groups) = self.home(local) {
            groups[at / LANES] = replaced;
        }
    }

    /// Replaces one of the lanes.
    fn with_lane(&mut self, dtype: DType, lanes: &Val, lane: usize, value: Value) -> Val {
        let value = match dtype {
            DType::Bool => self.ssa.unary(Opcode::Bmask, types::I32, value),
            _ if repr::one(dtype).bits() < 32 => self.extend(dtype, types::I32, value),
            _ => value,
        };
        let per_part = LANES / repr::wide_parts(dtype);
        let mut lanes = lanes.clone();
        let part = &mut lanes.parts[lane / per_part];
        *part = self.ssa.insert(*part, lane % per_part, value);
        lanes
    }

    /// The registers of some locals, in order.
    pub(super) fn registers(&self, locals: &[LocalId]) -> Vec<Value> {
        let mut registers = Vec::new();
        for local in locals {
            match &self.declared[local].home {
                LocalStorage::Scalars(values) => registers.extend(values),
                LocalStorage::Groups(values) | LocalStorage::Private(values) => {
                    registers.extend(values.iter().flat_map(|v| &v.parts));
                }
                LocalStorage::Scratch(_) => {}
            }
        }
        registers
    }

    /// Replaces the registers that [`Emitter::registers`] lists.
    pub(super) fn set_registers(&mut self, locals: &[LocalId], registers: &[Value]) {
        let mut next = registers.iter().copied();
        for &local in locals {
            let places: Vec<&mut Value> = match self.home(local) {
                LocalStorage::Scalars(values) => values.iter_mut().collect(),
                LocalStorage::Groups(values) | LocalStorage::Private(values) => {
                    values.iter_mut().flat_map(|v| v.parts.iter_mut()).collect()
                }
                LocalStorage::Scratch(_) => Vec::new(),
            };
            for (place, value) in places.into_iter().zip(&mut next) {
                *place = value;
            }
        }
    }
}
