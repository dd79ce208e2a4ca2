//! Delays stores, so that adjacent ones are combined into vector stores.
//!
//! In straight-line code, a store is not observable until its element is read or may be read. Stores are
//! therefore kept pending, and a read of such an element yields the pending value. Pending stores are
//! written, adjacent ones as vectors, before anything that could observe the delay: a branch, a loop, a
//! barrier, or an access at an address that may be the same. A complete vector is written as soon as other
//! elements are stored to.

use std::collections::BTreeMap;

use codegen_core::DType;
use ptx_asm::{AddressBase, PtxOperand};

use super::memory::{ElementAddress, MemoryObject, WIDTHS, has_width, memory_type};
use super::{Emitter, Value};

/// Pending stores, by the memory and base address that they share.
#[derive(Debug, Default)]
pub(super) struct PendingStores {
    runs: BTreeMap<MemoryObject, StoreGroup>,
}

#[derive(Debug)]
struct StoreGroup {
    base: AddressBase,
    align: u32,
    dtype: DType,
    /// Values by offset.
    values: BTreeMap<i32, Value>,
}

impl StoreGroup {
    /// The width of the widest vector that begins at an offset and whose elements are all pending.
    fn width(&self, offset: i32) -> i32 {
        let bytes = self.dtype.size_bytes() as i32;
        let is_whole = |&width: &i32| {
            let size = width * bytes;
            has_width(width.into(), bytes.into())
                && self.align.is_multiple_of(size as u32)
                && offset % size == 0
                && (0..width).all(|nth| self.values.contains_key(&(offset + nth * bytes)))
        };
        WIDTHS.map(|width| width as i32).into_iter().find(is_whole).unwrap_or(1)
    }
}

impl PendingStores {
    pub(super) fn get(&self, element: ElementAddress) -> Option<Value> {
        let run = self.runs.get(&element.memory).filter(|run| run.base == element.base)?;
        run.values.get(&element.offset).copied()
    }
}

impl Emitter<'_> {
    /// Adds a pending store.
    pub(super) fn wait(&mut self, element: ElementAddress, dtype: DType, value: Value) {
        let other = |run: &StoreGroup| run.base != element.base || run.dtype != dtype;
        if self.pending.runs.get(&element.memory).is_some_and(other) {
            self.flush_memory(element.memory);
        }
        let value = self.kept(value);
        if let Value::In(reg) = value {
            self.b.pin(reg);
        }
        let ElementAddress { memory, base, align, offset } = element;
        self.write_whole(memory, offset);
        let run = || StoreGroup { base, align, dtype, values: BTreeMap::new() };
        let run = self.pending.runs.entry(memory).or_insert_with(run);
        run.values.insert(offset, value);
    }

    /// Writes the complete vectors of a memory before a store to another element, which might replace part of
    /// them.
    fn write_whole(&mut self, memory: MemoryObject, next: i32) {
        let Some(run) = self.pending.runs.get(&memory).filter(|run| !run.values.contains_key(&next)) else {
            return;
        };
        let size = run.dtype.size_bytes() as i64;
        let widest = WIDTHS.into_iter().find(|&width| has_width(width, size)).unwrap_or(1) as i32;
        let whole: Vec<i32> =
            run.values.keys().copied().filter(|&first| run.width(first) == widest).collect();
        whole.into_iter().for_each(|first| self.write(memory, first, widest));
    }

    /// Writes the pending stores that a read of bytes `first..first + bytes` from the element's base may
    /// observe.
    pub(super) fn flush_for_read(&mut self, element: ElementAddress, first: i32, bytes: i32) {
        let may_overlap = |run: &StoreGroup| {
            run.base != element.base || run.values.range(first..first.saturating_add(bytes)).next().is_some()
        };
        if self.pending.runs.get(&element.memory).is_some_and(may_overlap) {
            self.flush_memory(element.memory);
        }
    }

    /// Writes all pending stores.
    pub(super) fn flush(&mut self) {
        let memories: Vec<MemoryObject> = self.pending.runs.keys().copied().collect();
        memories.into_iter().for_each(|memory| self.flush_memory(memory));
    }

    /// Writes the pending stores to one memory.
    pub(super) fn flush_memory(&mut self, memory: MemoryObject) {
        while let Some(run) = self.pending.runs.get(&memory)
            && let Some(&first) = run.values.keys().next()
        {
            let width = run.width(first);
            self.write(memory, first, width);
        }
        self.pending.runs.remove(&memory);
    }

    /// Writes a pending vector, and remembers its values.
    fn write(&mut self, memory: MemoryObject, first: i32, width: i32) {
        let Some(run) = self.pending.runs.get_mut(&memory) else { return };
        let (base, align, dtype) = (run.base, run.align, run.dtype);
        let offsets: Vec<i32> = (first..).step_by(dtype.size_bytes()).take(width as usize).collect();
        let values: Vec<Value> = offsets.iter().filter_map(|at| run.values.remove(at)).collect();
        let element = ElementAddress { memory, base, offset: first, align };
        let raw: Vec<PtxOperand> = values.iter().map(|&value| self.stored(dtype, value)).collect();
        self.store_vector(element, memory_type(dtype), &raw);
        for (offset, value) in offsets.into_iter().zip(values) {
            self.remember(element, offset, value);
        }
    }
}
