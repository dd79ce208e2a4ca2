//! The values that ship with the code, such as weights: each array once, aligned to 64 bytes.

/// Where the constants of a library are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConstantPlace {
    /// In the read-only data of the object file.
    #[default]
    Object,
    /// In a file of their own, which the program maps, reads or includes, and gives to the library.
    File,
}

/// The constants of a library.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    pub(crate) bytes: Vec<u8>,
    /// The offset and the length of each array.
    arrays: Vec<(usize, usize)>,
}

impl Constants {
    /// The offset of an array with these bytes, which is added unless it is there.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> u64 {
        let equal = |&&(offset, length): &&(usize, usize)| self.bytes[offset..offset + length] == *bytes;
        if let Some((offset, _)) = self.arrays.iter().find(equal) {
            return *offset as u64;
        }
        let offset = self.bytes.len().next_multiple_of(64);
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(bytes);
        self.arrays.push((offset, bytes.len()));
        offset as u64
    }
}
