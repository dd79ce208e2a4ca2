//! Declared locals where the plan puts them.

use codegen_core::threads::Home;
use lowered_ir::ir::{Indices, LocalId, Space};
use tnode::Scalar;

use super::{Emitter, Operand};
use crate::builder::{Place, Variable};
use crate::refusal::{Checked, refuse};

/// What holds a local.
#[derive(Clone, Debug)]
pub(super) enum Storage {
    /// The value of each element.
    Values(Vec<Operand>),
    /// A variable per element.
    Variables(Vec<Variable>),
    /// An array.
    Array(Variable),
}

impl Emitter<'_> {
    /// Declares a local. It holds zeros, unless it is `overwritten` before anything reads it.
    pub(super) fn declare(&mut self, local: LocalId, overwritten: bool) -> Checked {
        let decl = self.locals[&local].clone();
        let skipped = self.plan.thread_dims.get(&local).copied().unwrap_or(0).min(decl.dims.len());
        let elements = decl.dims[skipped..].iter().product::<usize>();
        let ty = self.carrier(decl.dtype);
        let bytes = (elements.max(1) as u64).saturating_mul(ty.bytes().into());
        let name = format!("l{}", local.0);
        let length = (!decl.dims[skipped..].is_empty()).then_some(elements as u32);
        let storage = match self.plan.homes.get(&local).copied().unwrap_or(Home::Values) {
            Home::Values => Storage::Values(vec![Operand::Known(Scalar::zero(decl.dtype)); elements]),
            Home::Variables => {
                self.take_private(bytes)?;
                let one = |e: &mut Self, at: usize| {
                    let name = if length.is_some() { format!("{name}_{at}") } else { name.clone() };
                    e.b.local(&name, ty, None)
                };
                Storage::Variables((0..elements).map(|at| one(self, at)).collect())
            }
            Home::Array => {
                self.take_private(bytes)?;
                Storage::Array(self.b.local(&name, ty, Some((elements as u32).max(1))))
            }
            Home::Shared => {
                self.check_shared(local, bytes, overwritten)?;
                let length = decl.dims.first().map(|_| (elements as u32).max(1));
                let variable = self.b.shared(&name, ty, length.or(Some(1)));
                Storage::Array(variable)
            }
        };
        if !overwritten && decl.space != Space::Workgroup {
            self.clear(&storage, decl.dtype);
        }
        self.storage.insert(local, storage);
        Ok(())
    }

    fn clear(&mut self, storage: &Storage, dtype: tnode::DType) {
        match storage {
            Storage::Values(_) => {}
            Storage::Variables(variables) => {
                for &variable in variables {
                    let (place, zero) = (self.b.place(variable), self.known(Scalar::zero(dtype)));
                    self.b.store(place, zero);
                }
            }
            Storage::Array(variable) => self.b.clear(*variable),
        }
    }

    fn take_private(&mut self, bytes: u64) -> Checked {
        self.private_bytes = self.private_bytes.saturating_add(bytes);
        let most = self.options.private_bytes;
        if self.private_bytes > u64::from(most) {
            return refuse("local arrays", format!("they take more than {most} bytes of each thread"));
        }
        Ok(())
    }

    /// Shared memory is zero once, when a workgroup begins.
    fn check_shared(&mut self, local: LocalId, bytes: u64, overwritten: bool) -> Checked {
        let op = || format!("workgroup local {local}");
        if self.threads.is_none() {
            return refuse(op(), "it stands in a kernel without workgroup loops");
        }
        if self.within.is_some() {
            return refuse(op(), "it is declared in a workgroup loop: declare it before");
        }
        if self.depth > 0 && !overwritten {
            return refuse(
                op(),
                "it is declared in a loop, and would have to be zeroed by all threads each time",
            );
        }
        self.shared_bytes = self.shared_bytes.saturating_add(bytes.next_multiple_of(16));
        let most = self.caps.workgroups.map_or(0, |w| w.memory_bytes as u64);
        if self.shared_bytes > most {
            return refuse(
                op(),
                format!("workgroup memory would take {} bytes, there are {most}", self.shared_bytes),
            );
        }
        Ok(())
    }

    pub(super) fn get_local(&mut self, local: LocalId, index: &Indices) -> Checked<Operand> {
        self.note_local_read(local);
        if let Storage::Values(values) = &self.storage[&local] {
            let at = self.known_element(local, index)?;
            return Ok(values[at]);
        }
        let place = self.local_place(local, index)?;
        Ok(Operand::Computed(self.b.load(place)))
    }

    pub(super) fn set_local(&mut self, local: LocalId, index: &Indices, value: Operand) -> Checked {
        if self.locals[&local].space == Space::Workgroup && self.within.is_none() {
            return refuse(
                format!("a store to workgroup local {local}"),
                "it stands outside of workgroup loops, where every thread would do it",
            );
        }
        if let Storage::Values(_) = &self.storage[&local] {
            let at = self.known_element(local, index)?;
            if let Operand::Computed(value) = value {
                self.b.name(value, &format!("l{}", local.0));
            }
            if let Some(Storage::Values(values)) = self.storage.get_mut(&local) {
                values[at] = value;
            }
            return Ok(());
        }
        let place = self.local_place(local, index)?;
        let value = self.value(value);
        self.b.store(place, value);
        Ok(())
    }

    fn local_place(&mut self, local: LocalId, index: &Indices) -> Checked<Place> {
        match &self.storage[&local] {
            Storage::Array(variable) => {
                let variable = *variable;
                let flat = self.own_index(local, index);
                let at = self.index(&flat);
                Ok(self.b.element(variable, at))
            }
            Storage::Variables(_) | Storage::Values(_) => {
                let at = self.known_element(local, index)?;
                match &self.storage[&local] {
                    Storage::Variables(variables) => {
                        let variable = variables[at];
                        Ok(self.b.place(variable))
                    }
                    _ => refuse(format!("local {local}"), "it has no place in memory"),
                }
            }
        }
    }

    /// The number of an element among those of the thread.
    fn own_index(&self, local: LocalId, index: &Indices) -> lowered_ir::ir::Affine {
        let skipped = self.plan.thread_dims.get(&local).copied().unwrap_or(0);
        let decl = &self.locals[&local];
        let own: Indices = index.iter().skip(skipped).cloned().collect();
        Self::flat(&own, &decl.dims[skipped.min(decl.dims.len())..])
    }

    fn known_element(&self, local: LocalId, index: &Indices) -> Checked<usize> {
        let flat = self.own_index(local, index);
        match self.known_index(&flat) {
            Some(at) => Ok(at as usize),
            None => {
                refuse(format!("local {local}"), "its elements are registers, picked by what is not known")
            }
        }
    }
}
