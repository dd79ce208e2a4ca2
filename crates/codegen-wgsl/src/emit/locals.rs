//! Declared locals, in the storage that the plan assigns to them.

use codegen_core::ir::{Affine, Indices, LocalId, Space};
use codegen_core::threads::Home;
use codegen_core::{Checked, Scalar, reject};

use super::{Emitter, Operand};
use crate::builder::{Pointer, Variable};

/// The storage of a local.
#[derive(Clone, Debug)]
pub(super) enum LocalStorage {
    /// One value per element, without memory.
    Values(Vec<Operand>),
    /// One variable per element.
    Variables(Vec<Variable>),
    /// An array variable.
    Array(Variable),
}

impl Emitter<'_> {
    /// Declares a local and sets it to zeros, unless it is `overwritten` before it is read.
    pub(super) fn declare(&mut self, local: LocalId, overwritten: bool) -> Checked {
        let decl = self.locals[&local].clone();
        let skipped = self.plan.thread_dims.get(&local).copied().unwrap_or(0).min(decl.dims.len());
        let elements = decl.dims[skipped..].iter().product::<usize>();
        let ty = self.carrier(decl.dtype);
        let bytes = (elements.max(1) as u64).saturating_mul(ty.bytes().into());
        let name = format!("l{}", local.0);
        let length = (!decl.dims[skipped..].is_empty()).then_some(elements as u32);
        let storage = match self.plan.homes.get(&local).copied().unwrap_or(Home::Values) {
            Home::Values => LocalStorage::Values(vec![Operand::Known(Scalar::zero(decl.dtype)); elements]),
            Home::Variables => {
                self.take_private(bytes)?;
                let one = |e: &mut Self, at: usize| {
                    let name = if length.is_some() { format!("{name}_{at}") } else { name.clone() };
                    e.b.local(&name, ty, None)
                };
                LocalStorage::Variables((0..elements).map(|at| one(self, at)).collect())
            }
            Home::Array => {
                self.take_private(bytes)?;
                LocalStorage::Array(self.b.local(&name, ty, Some((elements as u32).max(1))))
            }
            Home::Shared => {
                self.check_shared(local, bytes, overwritten)?;
                let length = decl.dims.first().map(|_| (elements as u32).max(1));
                let variable = self.b.shared(&name, ty, length.or(Some(1)));
                LocalStorage::Array(variable)
            }
        };
        if !overwritten && decl.space != Space::Workgroup {
            self.clear(&storage, decl.dtype);
        }
        self.storage.insert(local, storage);
        Ok(())
    }

    fn clear(&mut self, storage: &LocalStorage, dtype: codegen_core::DType) {
        match storage {
            LocalStorage::Values(_) => {}
            LocalStorage::Variables(variables) => {
                for &variable in variables {
                    let (pointer, zero) =
                        (self.b.pointer_to(variable), self.known_value(Scalar::zero(dtype)));
                    self.b.store(pointer, zero);
                }
            }
            LocalStorage::Array(variable) => self.b.clear(*variable),
        }
    }

    fn take_private(&mut self, bytes: u64) -> Checked {
        self.private_bytes = self.private_bytes.saturating_add(bytes);
        let most = self.options.private_bytes;
        if self.private_bytes > u64::from(most) {
            return reject("local arrays", format!("they take more than {most} bytes of each thread"));
        }
        Ok(())
    }

    /// Checks the declaration of a shared local. Shared memory is zeroed only once, when a workgroup begins.
    fn check_shared(&mut self, local: LocalId, bytes: u64, overwritten: bool) -> Checked {
        let op = || format!("workgroup local {local}");
        if self.threads.is_none() {
            return reject(op(), "it stands in a kernel without workgroup loops");
        }
        if self.within.is_some() {
            return reject(op(), "it is declared in a workgroup loop: declare it before");
        }
        if self.depth > 0 && !overwritten {
            return reject(
                op(),
                "it is declared in a loop, and would have to be zeroed by all threads each time",
            );
        }
        self.shared_bytes = self.shared_bytes.saturating_add(bytes.next_multiple_of(16));
        let most = self.caps.workgroups.map_or(0, |w| w.memory_bytes as u64);
        if self.shared_bytes > most {
            return reject(
                op(),
                format!("workgroup memory would take {} bytes, there are {most}", self.shared_bytes),
            );
        }
        Ok(())
    }

    pub(super) fn get_local(&mut self, local: LocalId, index: &Indices) -> Checked<Operand> {
        self.note_local_read(local);
        if let LocalStorage::Values(values) = &self.storage[&local] {
            let at = self.known_element(local, index)?;
            return Ok(values[at]);
        }
        let pointer = self.local_pointer(local, index)?;
        Ok(Operand::Computed(self.b.load(pointer)))
    }

    pub(super) fn set_local(&mut self, local: LocalId, index: &Indices, value: Operand) -> Checked {
        if self.locals[&local].space == Space::Workgroup && self.within.is_none() {
            return reject(
                format!("a store to workgroup local {local}"),
                "it stands outside of workgroup loops, where every thread would do it",
            );
        }
        if let LocalStorage::Values(_) = &self.storage[&local] {
            let at = self.known_element(local, index)?;
            if let Operand::Computed(value) = value {
                self.b.name(value, &format!("l{}", local.0));
            }
            if let Some(LocalStorage::Values(values)) = self.storage.get_mut(&local) {
                values[at] = value;
            }
            return Ok(());
        }
        let pointer = self.local_pointer(local, index)?;
        let value = self.value(value);
        self.b.store(pointer, value);
        Ok(())
    }

    fn local_pointer(&mut self, local: LocalId, index: &Indices) -> Checked<Pointer> {
        match &self.storage[&local] {
            LocalStorage::Array(variable) => {
                let variable = *variable;
                let flat = self.own_index(local, index);
                let at = self.index(&flat);
                Ok(self.b.element(variable, at))
            }
            LocalStorage::Variables(_) | LocalStorage::Values(_) => {
                let at = self.known_element(local, index)?;
                match &self.storage[&local] {
                    LocalStorage::Variables(variables) => {
                        let variable = variables[at];
                        Ok(self.b.pointer_to(variable))
                    }
                    _ => reject(format!("local {local}"), "it has no pointer in memory"),
                }
            }
        }
    }

    /// The number of an element among the elements of the thread.
    fn own_index(&self, local: LocalId, index: &Indices) -> Affine {
        let skipped = self.plan.thread_dims.get(&local).copied().unwrap_or(0);
        let decl = &self.locals[&local];
        let own: Indices = index.iter().skip(skipped).cloned().collect();
        Affine::row_major(&own, &decl.dims[skipped.min(decl.dims.len())..])
    }

    fn known_element(&self, local: LocalId, index: &Indices) -> Checked<usize> {
        let flat = self.own_index(local, index);
        match self.scope.known(&flat) {
            Some(at) => Ok(at as usize),
            None => {
                reject(format!("local {local}"), "its elements are registers, picked by what is not known")
            }
        }
    }
}
