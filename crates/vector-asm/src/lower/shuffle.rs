//! Lane movement: parts of variables and values at any starting lane.
//!
//! Lanes move as 32-bit words, which covers both lane sizes. A [`WordSources`] gives the source of each word
//! of a result; [`gather_words`](Lowering::gather_words) finds cheap instructions for it.

use smallvec::SmallVec;

use super::{LoweredValue, Lowering};
use crate::machine::{Reg, WORDS};
use crate::op::Op;
use crate::program::{Value, Variable, VectorStmt, VectorType};

/// The source register and word of each word of a register; `None` if its contents do not matter.
pub(super) type WordSources = [Option<(Reg, u8)>; WORDS];

impl Lowering<'_> {
    /// Lowers the lanes `start..start + ty.lanes` of a value or variable with `lanes` lanes.
    pub(super) fn lanes_from(
        &mut self,
        of: &LoweredValue,
        lanes: u32,
        start: u32,
        ty: VectorType,
    ) -> LoweredValue {
        if lanes == 1 {
            return of.clone();
        }
        let size = (ty.element.bytes() / 4) as usize;
        let (first, count) = (start as usize * size, ty.lanes as usize * size);
        let mut result = LoweredValue { parts: SmallVec::new(), broadcast: false };
        let whole = self.words();
        if first % whole == 0 {
            // The parts are reused as they are; lanes after the last one are unspecified.
            result.parts.extend(of.parts[first / whole..].iter().take(self.parts(ty)).copied());
            return result;
        }
        for part in 0..self.parts(ty) {
            self.part = part as u32;
            let words = std::array::from_fn(|word| {
                let position = part * whole + word;
                let from = first + position;
                (word < whole && position < count).then(|| (of.parts[from / whole], (from % whole) as u8))
            });
            let register = self.gather_words(&words);
            result.parts.push(register);
        }
        result
    }

    /// Lowers the replacement of a variable's lanes. Dead lanes are not preserved.
    pub(super) fn set(&mut self, stmt: &VectorStmt, variable: Variable, start: u32, value: Value) {
        let (ty, of) = (self.program.variables[variable.0 as usize], self.ty(value));
        let size = ty.element.bytes() / 4;
        let live = self.liveness.after_set(stmt).clone();
        let is_live = |lane: u32| lane < ty.lanes && live[lane as usize / 64] >> (lane % 64) & 1 == 1;
        for part in 0..self.parts(ty) {
            let first = part as u32 * self.lanes_of(ty);
            if start >= first + self.lanes_of(ty) || start + of.lanes <= first {
                continue;
            }
            if let Some(register) = self.whole_part(ty, first, value, start) {
                self.variables[variable.0 as usize][part] = register;
                continue;
            }
            self.part = part as u32;
            let old = self.variables[variable.0 as usize][part];
            let words = std::array::from_fn(|word| {
                let lane = first + word as u32 / size;
                if word >= self.words() {
                    None
                } else if (start..start + of.lanes).contains(&lane) {
                    Some(self.word_of(value, lane - start, word, size))
                } else {
                    is_live(lane).then_some((old, word as u8))
                }
            });
            self.variables[variable.0 as usize][part] = self.gather_words(&words);
        }
    }

    /// The register of a value that fills a whole part of a variable, from lane `first` on, without moving
    /// lanes.
    fn whole_part(&self, ty: VectorType, first: u32, value: Value, start: u32) -> Option<Reg> {
        let (lanes, count) = (self.lanes_of(ty), self.ty(value).lanes);
        let at = first.checked_sub(start)?;
        let covered = at % lanes == 0 && count > 1 && start + count >= ty.lanes.min(first + lanes);
        covered.then(|| self.values[value.0 as usize].parts[(at / lanes) as usize])
    }

    /// The register, and the word in it, that hold a word of lane `lane` of a value. `word` is the
    /// destination of that word, and selects the half of a 64-bit lane.
    fn word_of(&self, value: Value, lane: u32, word: usize, size: u32) -> (Reg, u8) {
        let lanes = &self.values[value.0 as usize];
        if self.ty(value).lanes == 1 {
            let at = if lanes.broadcast { word } else { word % size as usize };
            return (lanes.parts[0], at as u8);
        }
        let position = (lane * size) as usize + word % size as usize;
        (lanes.parts[position / self.words()], (position % self.words()) as u8)
    }

    /// Builds a register from words of others.
    pub(super) fn gather_words(&mut self, words: &WordSources) -> Reg {
        if self.is_neon() {
            return self.neon_gather(words);
        }
        let mut sources: SmallVec<[Reg; 2]> = SmallVec::new();
        for (reg, _) in words.iter().flatten() {
            if !sources.contains(reg) {
                sources.push(*reg);
            }
        }
        match sources[..] {
            [] => self.constant32(0),
            [source] => self.arrange(source, words),
            [low, high] if let (8, Some(imm)) = (self.words(), halves(words, low, high)) => {
                self.emit_imm(Op::PermuteHalves, &[low, high], imm)
            }
            _ => self.blend_arranged(&sources, words),
        }
    }

    /// Moves the words of each source to their destinations, then blends the sources one after the other.
    fn blend_arranged(&mut self, sources: &[Reg], words: &WordSources) -> Reg {
        let mut result = Reg::NONE;
        for &source in sources {
            let own = words.map(|word| word.filter(|(reg, _)| *reg == source));
            let arranged = self.arrange(source, &own);
            if result == Reg::NONE {
                result = arranged;
                continue;
            }
            let mask = (0..WORDS).fold(0, |mask, i| mask | u16::from(own[i].is_some()) << i);
            result = self.emit_imm(Op::Blend, &[result, arranged], mask);
        }
        result
    }

    /// Permutes the words of one register.
    fn arrange(&mut self, source: Reg, words: &WordSources) -> Reg {
        let from = words.map(|word| word.map(|(_, from)| from as usize));
        let all =
            |holds: &dyn Fn(usize, usize) -> bool| (0..WORDS).all(|i| from[i].is_none_or(|f| holds(i, f)));
        if all(&|i, f| i == f) {
            return source;
        }
        if all(&|_, f| f == 0) {
            return self.emit(Op::All32, &[source]);
        }
        if all(&|i, f| f == i % 2) {
            return self.emit(Op::All64, &[source]);
        }
        if self.words() == 8 {
            if all(&|i, f| i < 4 && f == i + 4) {
                return self.emit_imm(Op::ExtractHigh, &[source], 1);
            }
            if let Some(imm) = in_lane(&from) {
                return self.emit_imm(Op::PermuteInLane, &[source], imm);
            }
            if let Some(imm) = pairs(&from) {
                return self.emit_imm(Op::Permute64, &[source], imm);
            }
        }
        let places = self.constant(from.map(|f| f.unwrap_or(0) as u32));
        self.emit(Op::Permute, &[places, source])
    }

    /// A mask of the first `bytes` bytes of a register.
    pub(super) fn mask(&mut self, bytes: u32) -> Reg {
        debug_assert!(bytes <= self.bytes() && bytes.is_multiple_of(4), "masks are of whole words");
        self.constant(std::array::from_fn(|i| if (i as u32) < bytes / 4 { u32::MAX } else { 0 }))
    }
}

/// The immediate of `vperm2f128`, if the words are whole halves of two registers.
fn halves(words: &WordSources, low: Reg, high: Reg) -> Option<u16> {
    let mut imm = 0;
    for half in 0..2 {
        let mut choice = None;
        for i in 0..4 {
            let Some((reg, from)) = words[half * 4 + i] else { continue };
            let this = (u16::from(reg == high) << 1) | u16::from(from / 4);
            if usize::from(from % 4) != i || choice.is_some_and(|c| c != this) || (reg != low && reg != high)
            {
                return None;
            }
            choice = Some(this);
        }
        imm |= choice.unwrap_or(0) << (4 * half);
    }
    // With these two immediates the result is a blend, for which there is a cheaper instruction.
    (imm != 0x30 && imm != 0x12).then_some(imm)
}

/// The immediate of `vpermilps`, if words stay in their halves and both halves are permuted alike.
fn in_lane(from: &[Option<usize>; WORDS]) -> Option<u16> {
    let mut choice = [None; 4];
    for i in 0..8 {
        let Some(f) = from[i] else { continue };
        if f / 4 != i / 4 || choice[i % 4].is_some_and(|c| c != f % 4) {
            return None;
        }
        choice[i % 4] = Some(f % 4);
    }
    Some((0..4).fold(0, |imm, i| imm | (choice[i].unwrap_or(i) as u16) << (2 * i)))
}

/// The immediate of `vpermpd`, if words move in pairs.
fn pairs(from: &[Option<usize>; WORDS]) -> Option<u16> {
    let mut imm = 0;
    for pair in 0..4 {
        let low = from[2 * pair];
        let high = from[2 * pair + 1];
        let first = match (low, high) {
            (Some(l), Some(h)) if l % 2 == 0 && h == l + 1 => l,
            (Some(l), None) if l % 2 == 0 => l,
            (None, Some(h)) if h % 2 == 1 => h - 1,
            (None, None) => 0,
            _ => return None,
        };
        imm |= (first as u16 / 2) << (2 * pair);
    }
    Some(imm)
}
