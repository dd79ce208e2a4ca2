//! Lane movement in registers of four words.

use smallvec::SmallVec;

use crate::lower::Lowering;
use crate::lower::shuffle::WordSources;
use crate::machine::Reg;
use crate::op::Op;

/// Instructions on two registers, with their immediate and the source of each word of the result: words 0 to
/// 3 are of the first register, and 4 to 7 of the second.
const PATTERNS: [(Op, u16, [u8; 4]); 11] = [
    (Op::Window, 8, [2, 3, 4, 5]),
    (Op::Window, 4, [1, 2, 3, 4]),
    (Op::Window, 12, [3, 4, 5, 6]),
    (Op::UnpackLow64, 0, [0, 1, 4, 5]),
    (Op::UnpackHigh64, 0, [2, 3, 6, 7]),
    (Op::UnpackLow32, 0, [0, 4, 1, 5]),
    (Op::UnpackHigh32, 0, [2, 6, 3, 7]),
    (Op::Even32, 0, [0, 2, 4, 6]),
    (Op::Odd32, 0, [1, 3, 5, 7]),
    (Op::EvenPairs32, 0, [0, 4, 2, 6]),
    (Op::OddPairs32, 0, [1, 5, 3, 7]),
];

impl Lowering<'_> {
    /// Builds a register from words of others.
    pub(in crate::lower) fn neon_gather(&mut self, words: &WordSources) -> Reg {
        let words = &words[..4];
        let mut sources: SmallVec<[Reg; 4]> = SmallVec::new();
        for (reg, _) in words.iter().flatten() {
            if !sources.contains(reg) {
                sources.push(*reg);
            }
        }
        let fits = |place: &dyn Fn(usize) -> (Reg, u8)| {
            words.iter().enumerate().all(|(i, word)| word.is_none_or(|word| word == place(i)))
        };
        for &source in &sources {
            if fits(&|i| (source, i as u8)) {
                return source;
            }
            if let Some(word) = (0..4).find(|word| fits(&|_| (source, *word))) {
                return self.emit_imm(Op::All32, &[source], u16::from(word));
            }
            if let Some(pair) = (0..2).find(|pair| fits(&|i| (source, 2 * pair + i as u8 % 2))) {
                return self.emit_imm(Op::All64, &[source], u16::from(pair));
            }
            if fits(&|i| (source, i as u8 ^ 1)) {
                return self.emit(Op::SwapWords, &[source]);
            }
        }
        for &first in &sources {
            for &second in &sources {
                let place = |word: u8| (if word < 4 { first } else { second }, word % 4);
                if let Some((op, imm, _)) = PATTERNS.iter().find(|(_, _, from)| fits(&|i| place(from[i]))) {
                    return self.emit_imm(*op, &[first, second], *imm);
                }
            }
        }
        self.insert_words(words, &sources)
    }

    /// Copies the words one by one, or as pairs, to a register that has as many of them as possible in place.
    fn insert_words(&mut self, words: &[Option<(Reg, u8)>], sources: &[Reg]) -> Reg {
        let in_place = |source: Reg| (0..4).filter(|i| words[*i] == Some((source, *i as u8))).count();
        let Some(&base) = sources.iter().max_by_key(|source| in_place(**source)) else {
            return self.constant32(0);
        };
        let (mut result, mut at) = (base, 0);
        while at < 4 {
            let is_pair = at % 2 == 0
                && words[at]
                    .is_some_and(|(reg, from)| from % 2 == 0 && words[at + 1] == Some((reg, from + 1)));
            match words[at] {
                Some((reg, from)) if (reg, usize::from(from)) != (base, at) => {
                    let (op, size) = if is_pair { (Op::IntoDouble, 2) } else { (Op::IntoWord, 1) };
                    let imm = (at / size) as u16 + 0x100 * (u16::from(from) / size as u16);
                    result = self.emit_imm(op, &[result, reg], imm);
                    at += size;
                }
                _ => at += 1,
            }
        }
        result
    }
}
