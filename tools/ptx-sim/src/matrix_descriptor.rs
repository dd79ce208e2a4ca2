//! Matrix descriptors: the layout of a `wgmma` operand in shared memory.
//!
//! A descriptor has the start address (bits 0–13), the leading-dimension byte offset (16–29) and the
//! stride-dimension byte offset (32–45), all in units of 16 bytes, a base offset (49–51, here 0), and the
//! swizzle mode (62–63: none, 128, 64, 32 bytes). A *line* of an operand is a row of A or a column of B; its
//! length, K, is 32 bytes.
//!
//! In a K-major operand with a swizzle, lines begin at multiples of the swizzle span, and groups of eight
//! lines are `stride` bytes apart. Without a swizzle, a group consists of two blocks, one for each half of K.
//! A block has eight half-lines of 16 bytes, and the two blocks are `leading` bytes apart. In an M- or
//! N-major operand, a block has eight rows, one for each of eight indices along K. A row is as long as the
//! swizzle span and has the elements of adjacent lines at the row's index. Blocks for the next eight indices
//! along K are `stride` bytes apart, and blocks for the next lines are `leading` bytes apart; without a
//! swizzle the two offsets swap roles. The swizzle is applied to the bits of addresses.

use super::tensor_map::Swizzle;

/// A decoded matrix descriptor; offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatrixDescriptor {
    start: usize,
    leading: usize,
    stride: usize,
    swizzle: Swizzle,
}

impl MatrixDescriptor {
    /// # Errors
    ///
    /// A description of the invalid bits.
    pub(super) fn decode(bits: u64) -> Result<MatrixDescriptor, String> {
        let field = |from: u32| (bits >> from & 0x3fff) as usize * 16;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let used = 0xc000_3fff_3fff_3fff;
        if bits & !used != 0 {
            return Err(format!("descriptor {bits:#x} has bits {:#x}, expected none of them", bits & !used));
        }
        let descriptor = MatrixDescriptor { start: field(0), leading: field(16), stride: field(32), swizzle };
        if swizzle.apply(descriptor.start) != descriptor.start {
            return Err(format!("descriptor {bits:#x} begins within a pattern of {} bytes", swizzle.align()));
        }
        Ok(descriptor)
    }

    /// Addresses of the operand's chunks of 16 bytes. A K-major operand has two chunks per line, and its
    /// chunks are in the order of lines. An M- or N-major operand has elements of 16 bits; its chunks have
    /// one element of each of eight adjacent lines, and are in the order of indices along K.
    pub(super) fn chunks(&self, lines: usize, lines_innermost: bool) -> Vec<usize> {
        if lines_innermost {
            let steps = (0..16).flat_map(|step| (0..lines / 8).map(move |chunk| (step, chunk)));
            steps.map(|(step, chunk)| self.of_lines(step, chunk)).collect()
        } else {
            (0..2 * lines).map(|at| self.of_depth(at / 2, at % 2)).collect()
        }
    }

    /// The address of one half of a line of a K-major operand.
    fn of_depth(&self, line: usize, half: usize) -> usize {
        let (span, group) = (self.swizzle.span(), line / 8 * self.stride);
        let half = if self.swizzle == Swizzle::None { half * self.leading } else { 16 * half };
        self.swizzle.apply(self.start + group + line % 8 * span + half)
    }

    /// The address of the chunk with eight adjacent lines at index `step` along K, for an M- or N-major
    /// operand.
    fn of_lines(&self, step: usize, chunk: usize) -> usize {
        let span = self.swizzle.span();
        let (steps, lines) = match self.swizzle {
            Swizzle::None => (self.leading, self.stride),
            _ => (self.stride, self.leading),
        };
        let (wide, within) = (chunk / (span / 16), chunk % (span / 16));
        self.swizzle.apply(self.start + step / 8 * steps + step % 8 * span + wide * lines + 16 * within)
    }
}
