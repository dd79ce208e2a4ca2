//! The address windows of shared and local memory, and their contents.

use super::fault::{CheckResult, FaultCause, MemoryLocation, malformed};
use ptx_asm::{ArrayDecl, StateSpace};

/// Addresses of a kernel's arrays in one state space. Gaps separate the arrays, so that an access beyond one
/// array does not hit the next. Each array starts in the first bank, as the first array does on hardware.
#[derive(Debug)]
pub(super) struct ArrayLayout {
    space: StateSpace,
    /// Address and size of each array.
    arrays: Vec<(u32, u32)>,
    /// End of the last array.
    end: u32,
}

/// Least gap between arrays, in bytes.
const GAP: u64 = 128;

impl ArrayLayout {
    /// # Errors
    ///
    /// [`FaultCause::Malformed`] for an empty array, an alignment that is not a power of two, or more bytes
    /// than a window holds.
    pub(super) fn new(space: StateSpace, arrays: &[ArrayDecl]) -> CheckResult<ArrayLayout> {
        let mut placed = Vec::with_capacity(arrays.len());
        let mut end = 0;
        for (i, array) in arrays.iter().enumerate() {
            if array.bytes == 0 || !array.align.is_power_of_two() {
                return malformed(format!("{} array {i} is {array:?}", space));
            }
            let start = (end + GAP).next_multiple_of(u64::from(array.align).max(GAP));
            end = start + u64::from(array.bytes);
            if end > 1 << 24 {
                return malformed(format!("{} arrays need {end} bytes", space));
            }
            placed.push((start as u32, array.bytes));
        }
        Ok(ArrayLayout { space, arrays: placed, end: end as u32 })
    }

    /// The address of an array.
    pub(super) fn address(&self, array: u32) -> CheckResult<u32> {
        match self.arrays.get(array as usize) {
            Some(&(start, _)) => Ok(start),
            None => malformed(format!("there is no {} array {array}", self.space)),
        }
    }

    /// Size of the window in bytes.
    pub(super) fn size(&self) -> usize {
        self.end as usize
    }

    /// Checks that a range lies within one array and returns its offset in the window.
    pub(super) fn locate(&self, address: u32, bytes: u32) -> CheckResult<usize> {
        let after = self.arrays.partition_point(|&(start, _)| start <= address);
        if let Some(&(start, size)) = after.checked_sub(1).and_then(|i| self.arrays.get(i))
            && u64::from(address - start) + u64::from(bytes) <= u64::from(size)
        {
            return Ok(address as usize);
        }
        let nearest = match after.checked_sub(1).map(|i| (i, self.arrays[i])) {
            Some((i, (start, size))) => describe(&i.to_string(), u64::from(start), u64::from(size)),
            None => "there is no array below".into(),
        };
        let (space, address) = (self.space, u64::from(address));
        Err(Box::new(FaultCause::OutOfBounds { space, address, bytes, nearest }))
    }

    /// Describes a byte of an array for a fault.
    pub(super) fn location(&self, at: usize) -> MemoryLocation {
        let i = self.arrays.partition_point(|&(start, _)| start as usize <= at).saturating_sub(1);
        let start = self.arrays.get(i).map_or(0, |&(start, _)| start as usize);
        MemoryLocation { space: self.space, address: at as u64, array: i.to_string(), byte: at - start }
    }
}

/// Describes the size and the start of an array, for the fault of an access that misses the array.
pub(super) fn describe(name: &str, start: u64, size: u64) -> String {
    format!("`{name}` has {size} bytes from {start:#x} on")
}

/// Contents of a window.
#[derive(Debug)]
pub(super) struct TrackedBytes {
    pub(super) bytes: Vec<u8>,
    /// For each byte, whether it was written.
    written: Vec<bool>,
}

impl TrackedBytes {
    pub(super) fn new(size: usize) -> TrackedBytes {
        TrackedBytes { bytes: vec![0; size], written: vec![false; size] }
    }

    /// Marks every byte as uninitialized.
    pub(super) fn clear(&mut self) {
        self.written.fill(false);
    }

    /// Offset of the first uninitialized byte in a range.
    pub(super) fn unwritten(&self, at: usize, bytes: usize) -> Option<usize> {
        self.written[at..at + bytes].iter().position(|&written| !written).map(|i| at + i)
    }

    /// Writes bytes and marks them as initialized.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.written[at..at + bytes.len()].fill(true);
    }
}
