//! Checks a caller's choice of packing and block sizes against a problem, and lists the choices near another.

use crate::blocking::{Blocking, GemmShape, Packing, even_block};
use crate::choice::{BlockingChoice, ChoiceError, PackedBlocks};
use crate::machine::CpuTarget;

/// The most bytes of packed operands with a choice. Heuristics need less than a quarter of the L3 cache.
const MOST_PACKED_BYTES: usize = 256 << 20;

impl Blocking {
    /// The blocking of a choice.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`] if an operand cannot be read in place, if a size is no multiple of a tile's size or
    /// exceeds the problem, or if K cannot be cut.
    pub(crate) fn chosen(shape: &GemmShape, choice: &BlockingChoice) -> Result<Blocking, ChoiceError> {
        let sizes = |packing, mc: u32, kc: u32, nc: u32| {
            check_size("mc", mc, shape.height, shape.m.next_multiple_of(shape.height))?;
            check_size("nc", nc, shape.width, shape.n.next_multiple_of(shape.width))?;
            let least = if shape.k_can_be_cut { 1 } else { shape.k.max(1) };
            if (kc as usize) < least || kc as usize > shape.k.max(1) {
                let expected = format!("{least} to {}", shape.k.max(1));
                return Err(ChoiceError::Size { name: "kc", found: kc, expected });
            }
            Ok(Blocking { packing, mc: mc as usize, kc: kc as usize, nc: nc as usize })
        };
        let in_place = |operand, can_be_read: bool| {
            if can_be_read { Ok(()) } else { Err(ChoiceError::NotInPlace { operand }) }
        };
        let blocking = match *choice {
            BlockingChoice::InPlace { .. } | BlockingChoice::WholeA { .. } if shape.is_transposed => {
                return Err(ChoiceError::Transposed { found: *choice });
            }
            BlockingChoice::InPlace { rows_outer } => {
                in_place('A', shape.a_has_strides)?;
                in_place('B', shape.b_is_readable)?;
                let packing = Packing::Unpacked { rows_outer };
                Blocking { packing, kc: shape.k.max(1), mc: shape.height, nc: shape.width }
            }
            BlockingChoice::WholeA { kc, nc } => sizes(Packing::WholeA, shape.height as u32, kc, nc)?,
            BlockingChoice::Blocks { packed, mc, kc, nc } => {
                let (a, b) = match packed {
                    PackedBlocks::Both => (true, true),
                    PackedBlocks::OnlyA => (true, false),
                    PackedBlocks::OnlyB => (false, true),
                    PackedBlocks::Neither => (false, false),
                };
                in_place('A', a || shape.a_has_strides || shape.a_is_indexed)?;
                in_place('B', b || shape.b_is_readable)?;
                sizes(Packing::Blocks { a, b }, mc, kc, nc)?
            }
        };
        let bytes = blocking.packed_elements(shape).and_then(|elements| elements.checked_mul(shape.bytes));
        match bytes.unwrap_or(usize::MAX) {
            bytes if bytes > MOST_PACKED_BYTES => Err(ChoiceError::Memory { bytes, most: MOST_PACKED_BYTES }),
            _ => Ok(blocking),
        }
    }

    /// The choice that gives this blocking. It has no more rows than the problem.
    pub(crate) fn choice(&self, shape: &GemmShape) -> BlockingChoice {
        let Blocking { packing, kc, mc, nc } = *self;
        let mc = mc.min(shape.m.next_multiple_of(shape.height).max(shape.height));
        let [kc, mc, nc] = [kc, mc, nc].map(|size| size as u32);
        match packing {
            Packing::Unpacked { rows_outer } => BlockingChoice::InPlace { rows_outer },
            Packing::WholeA => BlockingChoice::WholeA { kc, nc },
            Packing::Blocks { a, b } => {
                let packed = match (a, b) {
                    (true, true) => PackedBlocks::Both,
                    (true, false) => PackedBlocks::OnlyA,
                    (false, true) => PackedBlocks::OnlyB,
                    (false, false) => PackedBlocks::Neither,
                };
                BlockingChoice::Blocks { packed, mc, kc, nc }
            }
        }
    }

    /// The choices next to this one, without it: every other packing with the sizes that the heuristics give
    /// it, and each size of this packing halved and doubled.
    pub(crate) fn alternatives(&self, shape: &GemmShape, cpu: &CpuTarget) -> Vec<BlockingChoice> {
        let packings = [
            Packing::Unpacked { rows_outer: true },
            Packing::Unpacked { rows_outer: false },
            Packing::WholeA,
            Packing::Blocks { a: true, b: true },
            Packing::Blocks { a: true, b: false },
            Packing::Blocks { a: false, b: true },
            Packing::Blocks { a: false, b: false },
        ];
        let other = packings.into_iter().filter(|packing| *packing != self.packing);
        let mut all: Vec<Blocking> = other.map(|packing| Blocking::of(packing, shape, cpu)).collect();
        if !matches!(self.packing, Packing::Unpacked { .. }) {
            let height = shape.height;
            let most = shape.m.next_multiple_of(height).max(height);
            let mc = |mc: usize| mc.clamp(height, most) / height * height;
            let nc = |nc: usize| even_block(shape.n, nc.max(1)).next_multiple_of(shape.width);
            let kc = |kc: usize| even_block(shape.k, kc.max(1));
            for size in [self.kc / 2, self.kc * 2] {
                all.push(Blocking { kc: kc(size), ..*self });
            }
            for size in [self.nc / 2, self.nc * 2, shape.n] {
                all.push(Blocking { nc: nc(size), ..*self });
            }
            for size in [self.mc / 2, self.mc * 2] {
                all.push(Blocking { mc: mc(size), ..*self });
            }
        }
        let own = self.choice(shape);
        let mut choices: Vec<BlockingChoice> = Vec::new();
        for choice in all.iter().map(|blocking| blocking.choice(shape)) {
            if choice != own && !choices.contains(&choice) && Blocking::chosen(shape, &choice).is_ok() {
                choices.push(choice);
            }
        }
        choices
    }

    /// The elements of packed operands; `None` if there are more than can be counted.
    fn packed_elements(&self, shape: &GemmShape) -> Option<usize> {
        let b = match self.packing {
            Packing::Unpacked { .. } | Packing::Blocks { b: false, .. } => 0,
            Packing::WholeA | Packing::Blocks { b: true, .. } => self.kc.checked_mul(self.nc)?,
        };
        let a = match self.packing {
            Packing::WholeA => shape.m.checked_mul(shape.k)?,
            Packing::Blocks { a: true, .. } => self.mc.min(shape.m).checked_mul(self.kc)?,
            Packing::Unpacked { .. } | Packing::Blocks { a: false, .. } => 0,
        };
        a.checked_add(b)
    }
}

/// Checks that a size is a multiple of `unit`, from `unit` to `most`.
fn check_size(name: &'static str, found: u32, unit: usize, most: usize) -> Result<(), ChoiceError> {
    let (size, most) = (found as usize, most.max(unit));
    if size.is_multiple_of(unit) && (unit..=most).contains(&size) {
        return Ok(());
    }
    Err(ChoiceError::Size { name, found, expected: format!("a multiple of {unit} up to {most}") })
}
