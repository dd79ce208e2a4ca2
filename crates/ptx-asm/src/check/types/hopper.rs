//! Instructions of 9.0 alone.

use super::{Checker, Found, class, exists, operands, same, within};
use crate::inst::Ty;
use crate::program::{Class, Operand, Place, Reg, Space, Target};

/// The most arrivals and the most bytes that a phase of a barrier in memory counts.
pub(super) const MOST_OF_BARRIER: u32 = (1 << 20) - 1;

impl Checker<'_> {
    /// An instruction of that target with one register of this class.
    pub(super) fn of_hopper(&self, reg: Reg, expected: Class) -> Found {
        self.from(Target::Sm90a)?;
        class(reg, expected)
    }

    pub(super) fn map(&self, dst: Reg, map: u32) -> Found {
        self.of_hopper(dst, Class::B64)?;
        let maps = self.kernel.maps;
        if map < maps { Ok(()) } else { Err(format!("there are {maps} tensor maps")) }
    }

    /// A barrier in the memory of a block.
    pub(super) fn barrier(&self, at: Place) -> Found {
        self.from(Target::Sm90a)?;
        self.place(Space::Shared, at, 8)
    }

    /// A tile of a tensor, and where it is in the memory of a block. How large it is, the map says.
    pub(super) fn tile(&self, map: Reg, at: &[Operand], shared: Place) -> Found {
        self.of_hopper(map, Class::B64)?;
        within("axes", at.len() as u32, 1, 5)?;
        operands(Ty::S32, at)?;
        self.aligned(Space::Shared, shared, 16, 128)
    }

    /// What four warps do together, beginning with the first, the fifth, and so on.
    pub(super) fn warpgroups(&self) -> Found {
        self.from(Target::Sm90a)?;
        if self.kernel.threads.is_multiple_of(128) {
            return Ok(());
        }
        Err(format!("a block of {} threads, expected whole warpgroups of 128", self.kernel.threads))
    }

    pub(super) fn set_max_registers(&self, count: u32) -> Found {
        self.warpgroups()?;
        within("registers", count, 24, 256)?;
        if !count.is_multiple_of(8) {
            return Err(format!("{count} registers, expected a multiple of 8"));
        }
        if self.kernel.blocks_per_processor.is_none() {
            // Assemblers ignore it then, with no more than a remark.
            return Err("the kernel does not say how many blocks a multiprocessor has room for".into());
        }
        Ok(())
    }

    /// [`crate::Inst::WarpgroupMma`]; the registers are both descriptors and the predicate.
    pub(super) fn product(
        &self,
        (factor, columns, transposed): (Ty, u32, [bool; 2]),
        d: &[Reg],
        [a, b, accumulate]: [Reg; 3],
    ) -> Found {
        self.warpgroups()?;
        exists(matches!(factor, Ty::F16 | Ty::Bf16 | Ty::F32), factor)?;
        if factor == Ty::F32 && transposed != [false; 2] {
            return Err("of tf32 the depth is innermost".into());
        }
        within("columns", columns, 8, 256)?;
        if !columns.is_multiple_of(8) {
            return Err(format!("{columns} columns, expected a multiple of 8"));
        }
        same("registers of the sums", d.len() as u32, columns / 2)?;
        d.iter().try_for_each(|&reg| class(reg, Class::F32))?;
        if (1..d.len()).any(|i| d[..i].contains(&d[i])) {
            return Err("two of the sums are in one register".into());
        }
        class(a, Class::B64)?;
        class(b, Class::B64)?;
        class(accumulate, Class::Pred)
    }
}
