//! What a run did: how often each instruction ran, and how well it used memory.

use std::collections::BTreeMap;

use super::registers::{LaneValues, lanes};
use super::tensor_map::TileSegment;
use ptx_asm::Inst;

/// What a run did, instruction by instruction in the order of the kernel's tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Of each instruction.
    pub insts: Vec<InstStats>,
}

/// What a run did with one instruction, all warps together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstStats {
    /// What kind it is: see [`KernelStats::count`].
    pub opcode: String,
    /// The instruction itself.
    pub inst: String,
    /// How many warps ran it, each time counted.
    pub warps: u64,
    /// How many threads did.
    pub threads: u64,
    /// Bytes of memory that its threads asked for.
    pub bytes: u64,
    /// Sectors of 32 bytes of global memory that it touched, warp by warp.
    pub sectors: u64,
    /// Passes over the banks of shared memory that it needed beyond those that its width needs. There are 32 banks of 4 bytes; accesses of
    /// 8 bytes are made by halves of warps, those of 16 by quarters, rows of matrices eight at a time. Lanes at one address share a pass.
    pub conflicts: u64,
}

impl KernelStats {
    /// How many warps ran instructions of a kind: Rust's names in lower case, of arithmetic with the type, of memory with the space, as in
    /// `fma.f32`, `convert.f32.s32`, `load.global`, `atomic.shared`, `barrier`, `cpasync`, `ldmatrix`, `mma`.
    pub fn count(&self, opcode: &str) -> u64 {
        self.of(opcode).map(|inst| inst.warps).sum()
    }

    /// How many warps ran instructions of each kind.
    pub fn counts(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for inst in &self.insts {
            *counts.entry(inst.opcode.as_str()).or_default() += inst.warps;
        }
        counts
    }

    /// Bytes that instructions of a kind asked for.
    pub fn bytes(&self, opcode: &str) -> u64 {
        self.of(opcode).map(|inst| inst.bytes).sum()
    }

    /// Sectors of global memory that instructions of a kind touched.
    pub fn sectors(&self, opcode: &str) -> u64 {
        self.of(opcode).map(|inst| inst.sectors).sum()
    }

    /// Superfluous passes over shared memory, of all instructions.
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

    /// A warp ran it.
    pub(super) fn ran(&mut self, mask: u32) {
        self.warps += 1;
        self.threads += u64::from(mask.count_ones());
    }

    /// Its lanes accessed global memory, so many bytes each.
    pub(super) fn global(&mut self, mask: u32, addresses: &LaneValues, bytes: u32) {
        self.bytes += u64::from(mask.count_ones() * bytes);
        self.sectors += sectors(mask, addresses, bytes);
    }

    /// A tile of which these pieces lie in the tensor was copied; their order is that of addresses, line by line.
    pub(super) fn tile(&mut self, pieces: &[TileSegment]) {
        self.bytes += pieces.iter().map(|piece| u64::from(piece.bytes)).sum::<u64>();
        let mut found: Vec<u64> = pieces.iter().map(|piece| piece.global / 32).collect();
        self.sectors += distinct(&mut found);
    }

    /// Its lanes accessed shared memory, so many bytes each.
    pub(super) fn shared(&mut self, mask: u32, addresses: &LaneValues, bytes: u32) {
        self.bytes += u64::from(mask.count_ones() * bytes);
        self.conflicts += conflicts(mask, addresses, bytes);
    }
}

/// How many sectors of 32 bytes lanes touch. No access crosses one: accesses are aligned and of 16 bytes at most.
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

/// How many different numbers there are.
fn distinct(numbers: &mut [u64]) -> u64 {
    if !numbers.is_sorted() {
        numbers.sort_unstable();
    }
    let changes = numbers.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
    changes + u64::from(!numbers.is_empty())
}

/// Passes over the banks beyond the first of each part of the warp.
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

/// The most different words of one bank that lanes access.
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

/// What an instruction is called in statistics; `text` is all of it.
fn opcode(inst: &Inst, text: &str) -> String {
    let name = match inst {
        Inst::Unary { op, ty, .. } => format!("{op:?}.{ty:?}"),
        Inst::Binary { op, ty, .. } => format!("{op:?}.{ty:?}"),
        // The constant of a `Logic` is no part of its name.
        Inst::Ternary { op: ptx_asm::PtxTernaryOp::Logic(_), ty, .. } => format!("Logic.{ty:?}"),
        Inst::Ternary { op, ty, .. } => format!("{op:?}.{ty:?}"),
        Inst::Compare { ty, .. } => format!("Compare.{ty:?}"),
        Inst::Select { ty, .. } => format!("Select.{ty:?}"),
        Inst::Convert { to, from, .. } => format!("Convert.{to:?}.{from:?}"),
        Inst::ConvertPair { to, .. } => format!("ConvertPair.{to:?}"),
        Inst::Load { space, .. } => format!("Load.{}", space),
        Inst::Store { space, .. } => format!("Store.{}", space),
        Inst::Atomic { space, .. } => format!("Atomic.{}", space),
        _ => text.chars().take_while(|c| c.is_alphanumeric()).collect(),
    };
    name.to_lowercase()
}
