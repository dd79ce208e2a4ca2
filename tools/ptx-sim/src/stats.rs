//! Statistics of a run: executions per instruction, coalescing, bank conflicts.

use std::collections::BTreeMap;

use super::registers::{LaneValues, lanes};
use super::tensor_map::TileSegment;
use ptx_asm::Inst;

/// Statistics of a run, per instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// One entry per instruction, in program order.
    pub insts: Vec<InstStats>,
}

/// Executions and memory traffic of one instruction, summed over all warps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstStats {
    /// The kind of instruction; see [`KernelStats::count`].
    pub opcode: String,
    /// The instruction in Rust's `Debug` form.
    pub inst: String,
    /// Number of executions by warps.
    pub warps: u64,
    /// Number of executions by threads.
    pub threads: u64,
    /// Bytes of memory that the threads access.
    pub bytes: u64,
    /// Sectors of 32 bytes of global memory that each warp access touches, summed.
    pub sectors: u64,
    /// Bank conflicts: the number of passes over the 32 banks (of 4 bytes) of shared memory that accesses
    /// take in addition to the necessary passes. Accesses of 8 bytes take half a warp per pass, accesses of
    /// 16 bytes a quarter, and matrix rows eight lanes. Lanes that access one address share a pass.
    pub conflicts: u64,
}

impl KernelStats {
    /// How many times warps executed instructions of a kind. The kind is the variant of [`Inst`] in lower
    /// case, with the type for arithmetic and the state space for memory, as in `fma.f32`, `convert.f32.s32`,
    /// `load.global`, `atomic.shared`, `barrier`, `cpasync`, `ldmatrix`, `mma`.
    pub fn count(&self, opcode: &str) -> u64 {
        self.of(opcode).map(|inst| inst.warps).sum()
    }

    /// Number of executions by warps, for each kind of instruction.
    pub fn counts(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for inst in &self.insts {
            *counts.entry(inst.opcode.as_str()).or_default() += inst.warps;
        }
        counts
    }

    /// Bytes that instructions of a kind access.
    pub fn bytes(&self, opcode: &str) -> u64 {
        self.of(opcode).map(|inst| inst.bytes).sum()
    }

    /// Sectors of global memory that instructions of a kind touch.
    pub fn sectors(&self, opcode: &str) -> u64 {
        self.of(opcode).map(|inst| inst.sectors).sum()
    }

    /// Bank conflicts of all instructions.
    pub fn conflicts(&self) -> u64 {
        self.insts.iter().map(|inst| inst.conflicts).sum()
    }

    fn of(&self, opcode: &str) -> impl Iterator<Item = &InstStats> {
        self.insts.iter().filter(move |inst| inst.opcode == opcode)
    }
}

impl InstStats {
    pub(super) fn new(inst: &Inst) -> InstStats {
        let text = format!("{inst:?}");
        let (opcode, inst) = (opcode(inst, &text), text);
        InstStats { opcode, inst, warps: 0, threads: 0, bytes: 0, sectors: 0, conflicts: 0 }
    }

    /// Counts an execution by the lanes of `mask`.
    pub(super) fn ran(&mut self, mask: u32) {
        self.warps += 1;
        self.threads += u64::from(mask.count_ones());
    }

    /// Counts an access of global memory with `bytes` bytes per lane.
    pub(super) fn global(&mut self, mask: u32, addresses: &LaneValues, bytes: u32) {
        self.bytes += u64::from(mask.count_ones() * bytes);
        self.sectors += sectors(mask, addresses, bytes);
    }

    /// Counts a TMA transfer; `segments` are in the order of addresses, row by row.
    pub(super) fn tile(&mut self, segments: &[TileSegment]) {
        self.bytes += segments.iter().map(|segment| u64::from(segment.bytes)).sum::<u64>();
        let mut found: Vec<u64> = segments.iter().map(|segment| segment.global / 32).collect();
        self.sectors += distinct(&mut found);
    }

    /// Counts an access of shared memory with `bytes` bytes per lane.
    pub(super) fn shared(&mut self, mask: u32, addresses: &LaneValues, bytes: u32) {
        self.bytes += u64::from(mask.count_ones() * bytes);
        self.conflicts += conflicts(mask, addresses, bytes);
    }
}

/// Number of 32-byte sectors that lanes touch. Accesses are aligned and at most 16 bytes, so none crosses a
/// sector.
fn sectors(mask: u32, addresses: &LaneValues, bytes: u32) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let mut found = [0; 32];
    let mut count = 0;
    for lane in lanes(mask) {
        found[count] = addresses[lane] / 32;
        count += 1;
    }
    distinct(&mut found[..count])
}

/// Number of different values.
fn distinct(numbers: &mut [u64]) -> u64 {
    if !numbers.is_sorted() {
        numbers.sort_unstable();
    }
    let changes = numbers.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
    changes + u64::from(!numbers.is_empty())
}

/// Passes over the banks beyond the first, summed over the parts of the warp that access memory together.
pub(super) fn conflicts(mask: u32, addresses: &LaneValues, bytes: u32) -> u64 {
    let together = match bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    (0..32 / together)
        .map(|part| passes(part_of(mask, part, together), addresses, bytes).saturating_sub(1))
        .sum()
}

fn part_of(mask: u32, part: u32, together: u32) -> u32 {
    mask & ((u64::MAX >> (64 - together)) << (part * together)) as u32
}

/// The largest number of different words that lanes access in one bank.
fn passes(mask: u32, addresses: &LaneValues, bytes: u32) -> u64 {
    let words = u64::from(bytes.div_ceil(4));
    let mut found = [0; 32];
    let mut count = 0;
    for lane in lanes(mask) {
        for word in 0..words {
            found[count] = addresses[lane] / 4 + word;
            count += 1;
        }
    }
    let found = &mut found[..count];
    found.sort_unstable();
    let mut banks = [0_u64; 32];
    let mut last = None;
    for &mut word in found {
        if last != Some(word) {
            banks[word as usize % 32] += 1;
        }
        last = Some(word);
    }
    banks.into_iter().max().unwrap_or(0)
}

/// The kind of an instruction; `text` is its `Debug` form.
fn opcode(inst: &Inst, text: &str) -> String {
    let name = match inst {
        Inst::Unary { op, ty, .. } => format!("{op:?}.{ty:?}"),
        Inst::Binary { op, ty, .. } => format!("{op:?}.{ty:?}"),
        Inst::Ternary { op, ty, .. } => format!("{op:?}.{ty:?}"),
        Inst::Compare { ty, .. } => format!("Compare.{ty:?}"),
        Inst::Select { ty, .. } => format!("Select.{ty:?}"),
        Inst::Convert { to, from, .. } => format!("Convert.{to:?}.{from:?}"),
        Inst::Load { space, .. } => format!("Load.{}", space),
        Inst::Store { space, .. } => format!("Store.{}", space),
        Inst::Atomic { space, .. } => format!("Atomic.{}", space),
        _ => text.chars().take_while(|c| c.is_alphanumeric()).collect(),
    };
    name.to_lowercase()
}
