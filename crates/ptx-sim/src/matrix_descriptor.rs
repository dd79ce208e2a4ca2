//! Where the factors of a warpgroup's product are in shared memory, as the hardware's descriptors say.
//!
//! A descriptor has the first byte's address and two distances in units of 16 bytes (bits 0–13, 16–29, 32–45), an offset of the pattern (49–51) and how chunks of 16 bytes are exchanged
//! (62–63: none, 128, 64, 32 bytes). A factor has lines, rows of the left one or columns of the right one, and a depth of 32 bytes.
//!
//! With the depth innermost, lines are as long as what is exchanged, eight of them below each other; the next eight are `stride` further. Without exchanges, each half of the
//! depth is eight lines of 16 bytes, and the halves are `leading` apart. With the lines innermost, one for each step of the depth, eight steps lie below each other, as wide
//! as what is exchanged; the next eight steps are `stride` further, the next lines `leading`; without exchanges the other way round. Exchanges go by bits of the address itself.

use super::tensor_map::Swizzle;

/// A descriptor, decoded.
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
    /// What is wrong with the bits.
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

    /// Addresses of chunks of 16 bytes. With the depth innermost, two of each line, line after line; else those of the first step of the depth, then the next, each of
    /// eight 16-bit elements of lines.
    pub(super) fn chunks(&self, lines: usize, lines_innermost: bool) -> Vec<usize> {
        if lines_innermost {
            let steps = (0..16).flat_map(|step| (0..lines / 8).map(move |chunk| (step, chunk)));
            steps.map(|(step, chunk)| self.of_lines(step, chunk)).collect()
        } else {
            (0..2 * lines).map(|at| self.of_depth(at / 2, at % 2)).collect()
        }
    }

    /// A half of a line's depth.
    fn of_depth(&self, line: usize, half: usize) -> usize {
        let (span, group) = (self.swizzle.span(), line / 8 * self.stride);
        let half = if self.swizzle == Swizzle::None { half * self.leading } else { 16 * half };
        self.swizzle.apply(self.start + group + line % 8 * span + half)
    }

    /// Eight lines at a step of the depth.
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
