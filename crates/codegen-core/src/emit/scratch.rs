//! The layout of a host kernel's scratch memory.

use std::collections::BTreeMap;

use lowered_ir::ir::{LocalId, Space, Stmt, walk};

/// Where the locals of a kernel lie in its scratch memory.
///
/// The locals that are not in `register` space follow one another in the order of their declarations. The
/// size of each is rounded up to a multiple of [`Caps::alignment`](crate::Caps::alignment). A codegen may
/// keep fewer locals in memory, or share the memory of locals that are never in scope together; the ABI of
/// its artifact then states fewer bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScratchLayout {
    /// The offset of each local in bytes.
    pub offsets: BTreeMap<LocalId, usize>,
    /// The size of the scratch memory in bytes.
    pub bytes: usize,
}

impl ScratchLayout {
    /// The layout of a kernel's body for a target with this alignment; 0 counts as 1.
    pub fn new(body: &[Stmt], alignment: usize) -> ScratchLayout {
        let mut layout = ScratchLayout::default();
        walk::stmts(body).for_each(|stmt| {
            let Stmt::Declare { local, dtype, dims, space } = stmt else { return };
            if *space != Space::Register {
                layout.offsets.insert(*local, layout.bytes);
                let size = dims.iter().product::<usize>() * dtype.size_bytes();
                layout.bytes += size.next_multiple_of(alignment.max(1));
            }
        });
        layout
    }
}

#[cfg(test)]
mod tests {
    use lowered_ir::ir::LocalId;

    use super::ScratchLayout;

    #[test]
    fn locals_with_addresses_follow_one_another() {
        let text = "routine @r {
          declare l0 f32[3] stack
          for i0 in 0..2 {
            declare l1 f64[5] register
            declare l2 u8[65] stack
          }
        }";
        let routine = lowered_ir::text::parse(text).expect("the text is valid");
        let layout = ScratchLayout::new(&routine.body, 64);
        assert_eq!(layout.offsets, [(LocalId(0), 0), (LocalId(2), 64)].into());
        assert_eq!(layout.bytes, 64 + 128);
        assert_eq!(ScratchLayout::new(&routine.body, 0).bytes, 12 + 65);
    }
}
