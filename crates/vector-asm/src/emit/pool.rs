//! The constant pool behind the code of a function, ordered by first use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::machine::MachineProgram;

/// The constants that instructions refer to.
#[derive(Debug, Default)]
pub(crate) struct ConstantPool {
    /// The position of each constant in the pool.
    places: HashMap<u32, usize>,
    order: Vec<u32>,
}

impl ConstantPool {
    /// Adds a constant, by its index in the program.
    pub(crate) fn add(&mut self, constant: u32) {
        if let Entry::Vacant(entry) = self.places.entry(constant) {
            entry.insert(self.order.len());
            self.order.push(constant);
        }
    }

    /// Appends the constants to the code, aligned to the size of a register. Returns the start of the pool.
    pub(crate) fn append(&self, bytes: &mut Vec<u8>, unit: &MachineProgram) -> usize {
        let words = unit.isa.words();
        let start = bytes.len().next_multiple_of(words * 4);
        bytes.resize(start, 0);
        for constant in &self.order {
            let constant = &unit.constants[*constant as usize];
            bytes.extend(constant[..words].iter().flat_map(|word| word.to_le_bytes()));
        }
        start
    }

    /// Bytes from the start of the pool to a constant.
    pub(crate) fn offset(&self, constant: u32, unit: &MachineProgram) -> usize {
        self.places[&constant] * unit.isa.words() * 4
    }
}
