//! Best-fit allocation of byte ranges from an unbounded space.

use std::collections::{BTreeMap, BTreeSet};

/// The gaps between allocated byte ranges. Adjacent gaps are merged into one.
#[derive(Default)]
pub(crate) struct FreeList {
    /// The lengths of the gaps by their offsets.
    gaps: BTreeMap<usize, usize>,
    /// The same gaps as (length, offset).
    by_length: BTreeSet<(usize, usize)>,
    /// The end of the last range. All bytes from here on are free.
    end: usize,
}

impl FreeList {
    /// Allocates `bytes` in the smallest gap that is large enough, or at the end.
    pub(crate) fn take(&mut self, bytes: usize) -> usize {
        if let Some(&(length, offset)) = self.by_length.range((bytes, 0)..).next() {
            self.remove(offset, length);
            self.insert(offset + bytes, length - bytes);
            return offset;
        }
        let offset = self.end;
        self.end += bytes;
        offset
    }

    /// Frees an allocated range.
    pub(crate) fn release(&mut self, offset: usize, bytes: usize) {
        let (mut start, mut end) = (offset, offset + bytes);
        if let Some((&before, &length)) = self.gaps.range(..start).next_back()
            && before + length == start
        {
            self.remove(before, length);
            start = before;
        }
        if let Some(&length) = self.gaps.get(&end) {
            self.remove(end, length);
            end += length;
        }
        if end == self.end {
            self.end = start;
        } else {
            self.insert(start, end - start);
        }
    }

    fn insert(&mut self, offset: usize, length: usize) {
        if length > 0 {
            self.gaps.insert(offset, length);
            self.by_length.insert((length, offset));
        }
    }

    fn remove(&mut self, offset: usize, length: usize) {
        self.gaps.remove(&offset);
        self.by_length.remove(&(length, offset));
    }
}
