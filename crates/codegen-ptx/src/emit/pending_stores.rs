//! Stores that wait for their neighbours, so that several become one.
//!
//! While code runs straight, a store of an element is not seen until something reads the element, or may be it. So stores wait, and what
//! is read from such an element is the value that waits. They are written, neighbours as vectors, before whatever might see that they were late:
//! a branch, a loop, a meeting of threads, a store or a read at an address that is not known to be another one. A whole vector
//! is written as soon as other elements are stored into.

use std::collections::BTreeMap;

use ptx_asm::{AddressBase, PtxOperand};
use tnode::DType;

use super::memory::{ElementAddress, MemoryObject, WIDTHS, has_width, memory_type};
use super::{Emitter, Value};

/// Stores that wait, those of one memory at addresses that differ by constants.
#[derive(Debug, Default)]
pub(super) struct PendingStores {
    runs: BTreeMap<MemoryObject, StoreGroup>,
}

#[derive(Debug)]
struct StoreGroup {
    base: AddressBase,
    align: u32,
    dtype: DType,
    /// By the constants.
    values: BTreeMap<i32, Value>,
}

impl StoreGroup {
    /// The widest vector at a constant all of whose elements wait.
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
    /// Lets a store wait.
    pub(super) fn wait(&mut self, element: ElementAddress, dtype: DType, value: Value) {
        let other = |run: &StoreGroup| run.base != element.base || run.dtype != dtype;
        if self.pending.runs.get(&element.memory).is_some_and(other) {
            self.flush_memory(element.memory);
        }
        let value = self.kept(value);
        if let Value::In(reg) = value {
            self.b.hold(reg);
        }
        let ElementAddress { memory, base, align, offset } = element;
        self.write_whole(memory, offset);
        let run = || StoreGroup { base, align, dtype, values: BTreeMap::new() };
        let run = self.pending.runs.entry(memory).or_insert_with(run);
        run.values.insert(offset, value);
    }

    /// Writes the whole vectors of a memory, once a store goes to another element: the next store might have replaced a part.
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

    /// Writes what waits before elements of a memory are read: those at constants `first..first + bytes` from the element's base.
    pub(super) fn flush_for_read(&mut self, element: ElementAddress, first: i32, bytes: i32) {
        let meets = |run: &StoreGroup| {
            run.base != element.base || run.values.range(first..first.saturating_add(bytes)).next().is_some()
        };
        if self.pending.runs.get(&element.memory).is_some_and(meets) {
            self.flush_memory(element.memory);
        }
    }

    /// Writes all that waits.
    pub(super) fn flush(&mut self) {
        let memories: Vec<MemoryObject> = self.pending.runs.keys().copied().collect();
        memories.into_iter().for_each(|memory| self.flush_memory(memory));
    }

    /// Writes what waits for one memory.
    pub(super) fn flush_memory(&mut self, memory: MemoryObject) {
        while let Some(run) = self.pending.runs.get(&memory)
            && let Some(&first) = run.values.keys().next()
        {
            let width = run.width(first);
            self.write(memory, first, width);
        }
        self.pending.runs.remove(&memory);
    }

    /// Writes a vector that waits. What it holds is known from here on.
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
