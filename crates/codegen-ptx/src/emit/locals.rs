//! Declared locals in the homes that the plan assigns: registers, local arrays or shared arrays.

use codegen_core::ir::{Affine, Indices, LocalId, Space};
use codegen_core::threads::Home;
use codegen_core::{Checked, DType, Scalar, reject};
use ptx_asm::{GuardPredicate, PtxOperand, PtxStmt, Reg, RegClass, Ty};

use super::memory::MemoryObject;
use super::{Emitter, Value, carrier};
use crate::builder::InstBuilder;

/// Where the elements of a local are.
#[derive(Clone, Debug)]
pub(super) enum LocalStorage {
    /// The value of each element.
    Values(Vec<Value>),
    /// Registers for each element; four of them for lanes.
    Variables(Vec<Vec<Reg>>),
    /// An array in memory.
    Array(MemoryObject),
}

/// Numbers of registers allocated before a statement.
pub(super) type RegisterMark = [u32; RegClass::ALL.len()];

impl Emitter<'_> {
    /// Declares a local. It holds zeros, unless it is `overwritten` before it is read.
    pub(super) fn declare(&mut self, local: LocalId, overwritten: bool) -> Checked {
        let decl = self.locals[&local].clone();
        let skipped = self.skipped(local);
        let elements = decl.dims[skipped..].iter().product::<usize>();
        let bytes = (elements.max(1) as u64).saturating_mul(decl.dtype.size_bytes() as u64);
        let storage = match self.plan.homes.get(&local).copied().unwrap_or(Home::Values) {
            Home::Values => LocalStorage::Values(vec![Value::Known(Scalar::zero(decl.dtype)); elements]),
            Home::Variables => {
                LocalStorage::Variables((0..elements).map(|_| self.zeroed(decl.dtype)).collect())
            }
            Home::Array => LocalStorage::Array(self.private_array(local, bytes, overwritten)?),
            Home::Shared => LocalStorage::Array(self.shared_array(local, bytes, overwritten)?),
        };
        self.storage.insert(local, storage);
        Ok(())
    }

    /// Number of leading dimensions of a local that are threads.
    pub(super) fn skipped(&self, local: LocalId) -> usize {
        let dims = self.locals[&local].dims.len();
        self.plan.thread_dims.get(&local).copied().unwrap_or(0).min(dims)
    }

    /// Registers that hold zeros. An assembler removes the zeroing if nothing reads it.
    pub(super) fn zeroed(&mut self, dtype: DType) -> Vec<Reg> {
        let count = if dtype == DType::U32x4 { 4 } else { 1 };
        let class = carrier(dtype).class();
        let zero = |e: &mut Self| match class {
            RegClass::Pred => {
                let nothing = e.b.mov(RegClass::B32, 0u32);
                e.b.compare(ptx_asm::CmpOp::Ne, Ty::U32, nothing, 0u32)
            }
            class => e.b.mov(class, PtxOperand::Const(0)),
        };
        let registers: Vec<Reg> = (0..count).map(|_| zero(self)).collect();
        self.variables.extend(&registers);
        registers
    }

    fn private_array(&mut self, local: LocalId, bytes: u64, overwritten: bool) -> Checked<MemoryObject> {
        if let Some(&LocalStorage::Array(memory)) = self.storage.get(&local) {
            // Another copy of an unrolled loop has declared the local before, so its memory is used again.
            if !overwritten {
                self.zero(memory, bytes.next_multiple_of(16));
            }
            return Ok(memory);
        }
        let taken = self.b.array_bytes().1;
        let most = u64::from(self.setting.options.local_bytes);
        if taken.saturating_add(bytes) > most {
            return reject(
                format!("local {local}"),
                format!("arrays take more than {most} bytes of each thread"),
            );
        }
        let memory = MemoryObject::Private(self.b.local(whole(bytes), 16));
        if !overwritten {
            self.zero(memory, bytes.next_multiple_of(16));
        }
        Ok(memory)
    }

    fn shared_array(&mut self, local: LocalId, bytes: u64, overwritten: bool) -> Checked<MemoryObject> {
        let op = || format!("workgroup local {local}");
        if !self.is_cooperative {
            return reject(op(), "it stands in a kernel without workgroup loops");
        }
        if self.within {
            return reject(op(), "it is declared in a workgroup loop: declare it before");
        }
        if self.depth > 0 && !overwritten {
            return reject(op(), "it is declared in a loop, and would have to be zeroed each time");
        }
        let total = self.b.array_bytes().0.saturating_add(bytes.next_multiple_of(16));
        let most = self.setting.caps.workgroups.map_or(0, |w| w.memory_bytes as u64);
        if total > most {
            return reject(op(), format!("workgroup memory would take {total} bytes, there are {most}"));
        }
        let memory = MemoryObject::Shared(self.b.shared(whole(bytes), 16));
        if !overwritten {
            self.zero_cooperatively(memory, bytes.div_ceil(16) as u32);
        }
        Ok(memory)
    }

    /// Zeroes shared memory by all threads of a block, 16 bytes at a time. A barrier must follow before it is
    /// read.
    fn zero_cooperatively(&mut self, memory: MemoryObject, stores: u32) {
        self.zeroing = true;
        let threads = self.block_threads;
        let start = self.element(memory, &Affine::constant(0), 1);
        let thread = self.thread;
        let write = |e: &mut Self, at: Reg| {
            let zero = e.b.mov(RegClass::B32, 0u32);
            let element = e.further(start, at, 16);
            e.store_vector(element, Ty::B32, &[zero.into(); 4]);
        };
        if stores == threads {
            return write(self, thread);
        }
        let takes_part = self.b.index_compare(ptx_asm::CmpOp::Lt, Ty::U32, thread, stores);
        self.open();
        if stores < threads {
            write(self, thread);
        } else {
            let first = self.b.mov(RegClass::B32, thread);
            self.counted(first, threads.into(), stores.into(), write);
        }
        let then = self.close();
        self.b.push_stmt(PtxStmt::If { guard: GuardPredicate::on(takes_part), then, otherwise: Vec::new() });
    }

    pub(super) fn get_local(&mut self, local: LocalId, index: &Indices) -> Checked<Value> {
        if let Some(value) = self.shuffled_element(local, index) {
            return Ok(value);
        }
        let own = self.own_index(local, index);
        match &self.storage[&local] {
            LocalStorage::Values(values) => Ok(values[self.known_element(local, &own)?]),
            LocalStorage::Variables(variables) => {
                let registers = &variables[self.known_element(local, &own)?];
                Ok(match registers.as_slice() {
                    &[a, b, c, d] => Value::Lanes([a, b, c, d].map(PtxOperand::from)),
                    registers => Value::In(registers[0]),
                })
            }
            &LocalStorage::Array(memory) => Ok(self.load(memory, self.locals[&local].dtype, &own)),
        }
    }

    /// Stores into a local. If the value was computed for this store alone, `mark` is the mark that was taken
    /// before the computation.
    pub(super) fn set_local(
        &mut self,
        local: LocalId,
        index: &Indices,
        value: Value,
        mark: Option<&RegisterMark>,
    ) -> Checked {
        let decl = &self.locals[&local];
        if decl.space == Space::Workgroup && !self.within {
            return reject(
                format!("a store to workgroup local {local}"),
                "it stands outside of workgroup loops, where every thread of the workgroup would do it",
            );
        }
        let dtype = decl.dtype;
        let own = self.own_index(local, index);
        match &self.storage[&local] {
            &LocalStorage::Array(memory) => self.store(memory, dtype, &own, value),
            LocalStorage::Values(_) => {
                let at = self.known_element(local, &own)?;
                let value = self.kept(value);
                if let Some(LocalStorage::Values(values)) = self.storage.get_mut(&local) {
                    values[at] = value;
                }
            }
            LocalStorage::Variables(variables) => {
                let registers = variables[self.known_element(local, &own)?].clone();
                self.assign(&registers, value, mark);
            }
        }
        Ok(())
    }

    pub(super) fn assign(&mut self, registers: &[Reg], value: Value, mark: Option<&RegisterMark>) {
        if let &[_, _, _, _] = registers {
            // Reads all lanes before it writes the first.
            let lanes = self.lanes(value).map(|lane| self.b.mov(RegClass::B32, lane));
            for (&dst, src) in registers.iter().zip(lanes) {
                self.b.set(dst, src);
            }
            return;
        }
        let dst = registers[0];
        if let (Value::In(from), Some(mark)) = (value, mark)
            && InstBuilder::is_younger(from, mark)
            && from.class == dst.class
            && self.b.retarget(from, dst)
        {
            return;
        }
        let src = self.operand(value);
        if src != PtxOperand::Reg(dst) {
            self.b.set(dst, src);
        }
    }

    /// Linear index of an element in the part of an array that belongs to the thread.
    fn own_index(&self, local: LocalId, index: &Indices) -> Affine {
        let skipped = self.skipped(local);
        Affine::row_major(&index[skipped.min(index.len())..], &self.locals[&local].dims[skipped..])
    }

    fn known_element(&self, local: LocalId, own: &Affine) -> Checked<usize> {
        match self.scope.known(own) {
            Some(at) => Ok(at as usize),
            None => {
                reject(format!("local {local}"), "its elements are registers, picked by what is not known")
            }
        }
    }
}

/// Size of an array, rounded up to whole vectors of zeros.
fn whole(bytes: u64) -> u32 {
    bytes.next_multiple_of(16) as u32
}
