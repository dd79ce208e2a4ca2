//! Letters, symbols and indices.

use tnode::DType;

use super::ProgramMaker;
use crate::program::{
    BinaryFunction, NodeMode, ProgramAccess, ProgramAffine, ProgramAxis, ProgramExpr, ProgramLetter,
    ProgramNumber, ProgramSymbol, ProgramVar,
};
use crate::{bytes_of_seed, format};

const LETTERS: [&str; 5] = ["i", "j", "k", "l", "m"];

/// Types of computed indices and of operands of bit operations.
pub(super) const INDEX_TYPES: [DType; 7] =
    [DType::I32, DType::I64, DType::U8, DType::I8, DType::U16, DType::U32, DType::U64];

impl ProgramMaker<'_, '_> {
    pub(super) fn symbol(&mut self) -> usize {
        const NAMES: [&str; 2] = ["s", "t"];
        let at = self.choices.below(NAMES.len()).min(self.program.symbols.len());
        if at == self.program.symbols.len() {
            let range = 1 + self.choices.below(4) as i64;
            self.program.symbols.push(ProgramSymbol { name: NAMES[at], range });
        }
        at
    }

    /// Adds letters whose product space has at most `points` points.
    pub(super) fn add_letters(&mut self, count: usize, mut points: usize) -> Vec<usize> {
        let mut added = Vec::new();
        for _ in 0..count.min(LETTERS.len() - self.letters.len()) {
            let extent = *self.choices.pick(self.weights.extents);
            let extent = if extent > points { 1 + extent % points.max(1) } else { extent };
            points /= extent.max(1);
            let is_explicit = self.choices.chance(1, 3);
            added.push(self.letters.len());
            self.letters.push(ProgramLetter { name: LETTERS[self.letters.len()], extent, is_explicit });
        }
        added
    }

    /// An integer expression that contains an access, with values mostly within `0..size`.
    pub(super) fn computed_index(&mut self, letters: &[usize], size: usize) -> ProgramExpr {
        let dtype = *self.choices.pick(&INDEX_TYPES);
        let used: Vec<usize> = letters.iter().copied().filter(|_| !self.choices.chance(1, 3)).collect();
        let (dims, axes) = self.shape(&used);
        let node = self.add(dtype, dims, NodeMode::Undecided);
        let seed = self.choices.byte();
        let count: usize = self.program.nodes[node].dims.iter().product();
        let random = bytes_of_seed(u64::from(seed) + 1000 * node as u64, count);
        let value = |&byte: &u8| {
            let value = i128::from(byte) % (size as i128 + 3) - i128::from(format::range(dtype).0 < 0);
            (value as u64) & (u64::MAX >> (64 - 8 * dtype.size_bytes()))
        };
        self.program.nodes[node].data = Some(random.iter().map(value).collect());
        self.valued.insert(node);
        self.fixed.insert(node);
        let read = ProgramExpr::Read(ProgramAccess { node, axes, pad: None });
        match self.choices.below(4) {
            3 => ProgramExpr::Binary(
                BinaryFunction::Add,
                Box::new([read, ProgramExpr::Number(ProgramNumber::Integer(1))]),
            ),
            _ => read,
        }
    }

    /// Terms of an index over letters and symbols.
    pub(super) fn terms(&mut self, letters: &[usize]) -> Vec<(i64, ProgramVar)> {
        if letters.is_empty() {
            return if self.choices.chance(1, 4) {
                vec![(1, ProgramVar::Symbol(self.symbol()))]
            } else {
                Vec::new()
            };
        }
        let letter = ProgramVar::Letter(*self.choices.pick(letters));
        match self.choices.below(12) {
            0..=4 => vec![(1, letter)],
            5 => Vec::new(),
            6 => vec![(-1, letter)],
            7 => vec![(2 + self.choices.below(2) as i64, letter)],
            8 | 9 => {
                let factor = [1, 2, -1, 3][self.choices.below(4)];
                let other = ProgramVar::Letter(*self.choices.pick(letters));
                if other == letter { vec![(factor, letter)] } else { vec![(factor, letter), (1, other)] }
            }
            10 => {
                let symbol = ProgramVar::Symbol(self.symbol());
                let factor = [1, 2, 5, -1][self.choices.below(4)];
                vec![(factor, symbol), (1, letter)]
            }
            _ => vec![(1, letter), (1, ProgramVar::Symbol(self.symbol()))],
        }
    }

    /// The least and greatest value of the terms.
    pub(super) fn bounds(&self, terms: &[(i64, ProgramVar)]) -> (i64, i64) {
        let of = |&(factor, var): &(i64, ProgramVar)| {
            let last = match var {
                ProgramVar::Letter(letter) => self.letters[letter].extent.saturating_sub(1) as i64,
                ProgramVar::Symbol(symbol) => self.program.symbols[symbol].range - 1,
            };
            ((factor * last).min(0), (factor * last).max(0))
        };
        terms.iter().map(of).fold((0, 0), |(low, high), (l, h)| (low + l, high + h))
    }

    /// Sizes and indices of a node in which each letter occurs.
    pub(super) fn shape(&mut self, letters: &[usize]) -> (Vec<usize>, Vec<ProgramAxis>) {
        let (mut dims, mut axes) = (Vec::new(), Vec::new());
        for &letter in letters {
            let plain = self.choices.chance(2, 3) || self.letters[letter].extent == 0;
            let mut terms = if plain { Vec::new() } else { self.terms(letters) };
            let mentions = |&(_, var): &(i64, ProgramVar)| var == ProgramVar::Letter(letter);
            if !terms.iter().any(mentions) {
                terms.push((1, ProgramVar::Letter(letter)));
            }
            let (low, high) = self.bounds(&terms);
            let (before, after) = if plain { (0, 0) } else { (self.choices.below(2), self.choices.below(2)) };
            let size = (high - low) as usize + 1 + before + after;
            dims.push(if plain { self.letters[letter].extent } else { size });
            axes.push(ProgramAxis::Affine(ProgramAffine { terms, offset: before as i64 - low }));
        }
        if self.choices.chance(1, 8) {
            let size = 1 + self.choices.below(3);
            axes.push(ProgramAxis::Affine(ProgramAffine {
                terms: Vec::new(),
                offset: self.choices.below(size) as i64,
            }));
            dims.push(size);
        }
        if dims.iter().product::<usize>() > 4 * self.weights.points {
            dims = letters.iter().map(|&letter| self.letters[letter].extent).collect();
            let plain =
                |&letter: &usize| ProgramAffine { terms: vec![(1, ProgramVar::Letter(letter))], offset: 0 };
            axes = letters.iter().map(|letter| ProgramAxis::Affine(plain(letter))).collect();
        }
        (dims, axes)
    }

    /// Indices of an existing node that are at most `beyond` elements out of bounds.
    pub(super) fn index_into(&mut self, node: usize, letters: &[usize], beyond: i64) -> Vec<ProgramAxis> {
        let dims = self.program.nodes[node].dims.clone();
        let mut free = letters.to_vec();
        let mut axes = Vec::new();
        for size in dims {
            let exact = free.iter().position(|&letter| self.letters[letter].extent == size);
            if let Some(at) = exact
                && self.choices.chance(2, 3)
            {
                axes.push(ProgramAxis::Affine(ProgramAffine {
                    terms: vec![(1, ProgramVar::Letter(free.remove(at)))],
                    offset: 0,
                }));
                continue;
            }
            let terms = self.terms(letters);
            let affine = self.fit(terms, size, beyond).or_else(|| self.fit(Vec::new(), size, beyond));
            axes.push(ProgramAxis::Affine(affine.unwrap_or_default()));
        }
        axes
    }

    /// The terms with an offset that keeps them within the axis, or at most `beyond` elements out of bounds.
    pub(super) fn fit(
        &mut self,
        terms: Vec<(i64, ProgramVar)>,
        size: usize,
        beyond: i64,
    ) -> Option<ProgramAffine> {
        let (low, high) = self.bounds(&terms);
        let (first, last) = (-beyond - low, size as i64 - 1 + beyond - high);
        if first > last {
            return None;
        }
        if first <= 0 && 0 <= last && self.choices.chance(1, 2) {
            return Some(ProgramAffine { terms, offset: 0 });
        }
        let offset = first + self.choices.below((last - first + 1).min(250) as usize) as i64;
        Some(ProgramAffine { terms, offset })
    }
}
