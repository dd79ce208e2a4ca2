//! Moving lanes: parts of variables and values, wherever they begin.
//!
//! Everything moves in words of 32 bits, so that elements of both sizes are one case. Where each word of a result comes from is a [`Words`]; one function finds
//! cheap instructions for it.

use smallvec::SmallVec;

use super::{Lanes, Lower};
use crate::avx2::Op as Machine;
use crate::machine::{Reg, WORDS};
use crate::program::{Stmt, Type, Value, Variable};

/// Where each word of a register comes from; `None`: it does not matter.
pub(super) type Words = [Option<(Reg, u8)>; WORDS];

impl Lower<'_> {
    /// Lanes `start..start + ty.lanes` of something with `lanes` lanes.
    pub(super) fn lanes_from(&mut self, of: &Lanes, lanes: u32, start: u32, ty: Type) -> Lanes {
        if lanes == 1 {
            return of.clone();
        }
        let size = (ty.element.bytes() / 4) as usize;
        let (first, count) = (start as usize * size, ty.lanes as usize * size);
        let mut result = Lanes { parts: SmallVec::new(), everywhere: false };
        let whole = self.words();
        if first % whole == 0 {
            // Whole registers; what lies behind the last lane is open.
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

    /// Sets lanes of a variable. Lanes that are not read later are not kept.
    pub(super) fn set(&mut self, stmt: &Stmt, variable: Variable, start: u32, value: Value) {
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

    /// The register of a value that holds all lanes of a variable's part from lane `first` on, as they lie there, if there is one.
    fn whole_part(&self, ty: Type, first: u32, value: Value, start: u32) -> Option<Reg> {
        let (lanes, count) = (self.lanes_of(ty), self.ty(value).lanes);
        let at = first.checked_sub(start)?;
        let covered = at % lanes == 0 && count > 1 && start + count >= ty.lanes.min(first + lanes);
        covered.then(|| self.values[value.0 as usize].parts[(at / lanes) as usize])
    }

    /// Where a word of a lane of a value is; `word` is where it is wanted.
    fn word_of(&self, value: Value, lane: u32, word: usize, size: u32) -> (Reg, u8) {
        let lanes = &self.values[value.0 as usize];
        if self.ty(value).lanes == 1 {
            let at = if lanes.everywhere { word } else { word % size as usize };
            return (lanes.parts[0], at as u8);
        }
        let position = (lane * size) as usize + word % size as usize;
        (lanes.parts[position / self.words()], (position % self.words()) as u8)
    }

    /// A register with these words.
    pub(super) fn gather_words(&mut self, words: &Words) -> Reg {
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
                self.emit_imm(Machine::PermuteHalves, &[low, high], imm)
            }
            _ => self.blend_arranged(&sources, words),
        }
    }

    /// Brings the words of each source to their places, then blends one source after the other in.
    fn blend_arranged(&mut self, sources: &[Reg], words: &Words) -> Reg {
        let mut result = Reg::NONE;
        for &source in sources {
            let own = words.map(|word| word.filter(|(reg, _)| *reg == source));
            let arranged = self.arrange(source, &own);
            if result == Reg::NONE {
                result = arranged;
                continue;
            }
            let mask = (0..WORDS).fold(0, |mask, i| mask | u16::from(own[i].is_some()) << i);
            result = self.emit_imm(Machine::Blend, &[result, arranged], mask);
        }
        result
    }

    /// Words of one register in other places.
    fn arrange(&mut self, source: Reg, words: &Words) -> Reg {
        let from = words.map(|word| word.map(|(_, from)| from as usize));
        let all =
            |holds: &dyn Fn(usize, usize) -> bool| (0..WORDS).all(|i| from[i].is_none_or(|f| holds(i, f)));
        if all(&|i, f| i == f) {
            return source;
        }
        if all(&|_, f| f == 0) {
            return self.emit(Machine::All32, &[source]);
        }
        if all(&|i, f| f == i % 2) {
            return self.emit(Machine::All64, &[source]);
        }
        if self.words() == 8 {
            if all(&|i, f| i < 4 && f == i + 4) {
                return self.emit_imm(Machine::ExtractHigh, &[source], 1);
            }
            if let Some(imm) = in_lane(&from) {
                return self.emit_imm(Machine::PermuteInLane, &[source], imm);
            }
            if let Some(imm) = pairs(&from) {
                return self.emit_imm(Machine::Permute64, &[source], imm);
            }
        }
        let places = self.constant(from.map(|f| f.unwrap_or(0) as u32));
        self.emit(Machine::Permute, &[places, source])
    }

    /// The first `bytes` bytes of a register as a mask: all bits set there, none behind.
    pub(super) fn mask(&mut self, bytes: u32) -> Reg {
        debug_assert!(bytes <= self.bytes() && bytes.is_multiple_of(4), "masks are of whole words");
        self.constant(std::array::from_fn(|i| if (i as u32) < bytes / 4 { u32::MAX } else { 0 }))
    }
}

/// The constant of `vperm2f128` that takes whole halves of two registers, if that is what is wanted.
fn halves(words: &Words, low: Reg, high: Reg) -> Option<u16> {
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
    // A plain blend is cheaper.
    (imm != 0x30 && imm != 0x12).then_some(imm)
}

/// The constant of `vpermilps`, if words stay in their halves and both halves are arranged alike.
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

/// The constant of `vpermpd`, if words move in pairs.
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
