//! Statements other than assignments of one value: fills, slices and concatenations.

use tnode::DType;

use super::{ProgramMaker, ValueScope};
use crate::program::{
    Accumulation, BinaryFunction, NodeMode, ProgramAccess, ProgramAffine, ProgramAssign, ProgramAxis,
    ProgramExpr, ProgramNumber, ProgramStatement, ProgramVar,
};

impl ProgramMaker<'_, '_> {
    pub(super) fn fill(&mut self, is_last: bool) -> ProgramStatement {
        let dims: Vec<usize> = (0..self.choices.below(3)).map(|_| 1 + self.choices.below(4)).collect();
        let dtype = self.dtype();
        let node = self.result(dtype, dims, is_last);
        self.valued.insert(node);
        if self.choices.chance(1, 2) && dtype != DType::Bool {
            return ProgramStatement::Offsets { node };
        }
        let count: usize = self.program.nodes[node].dims.iter().product();
        let numbers = [
            ProgramNumber::Integer(1),
            ProgramNumber::Integer(0),
            ProgramNumber::Integer(7),
            ProgramNumber::Integer(3),
        ];
        let values = (0..count).map(|_| {
            let number = *self.choices.pick(&numbers);
            if dtype == DType::Bool && number != ProgramNumber::Integer(0) {
                ProgramNumber::Integer(1)
            } else {
                number
            }
        });
        let values = values.collect();
        ProgramStatement::Values { node, values }
    }

    pub(super) fn slice(&mut self) -> ProgramStatement {
        let symbol = self.symbol();
        let dims: Vec<usize> = (0..1 + self.choices.below(2)).map(|_| 1 + self.choices.below(5)).collect();
        let range = self.program.symbols[symbol].range as usize + self.choices.below(2);
        let dtype = self.dtype();
        let source = self.input(dtype, std::iter::once(range).chain(dims.iter().copied()).collect());
        self.program.nodes[source].mode = NodeMode::Materialized;
        let node = self.add(dtype, dims, NodeMode::Undecided);
        self.valued.insert(node);
        self.fixed.extend([source, node]);
        ProgramStatement::Slice { node, source, symbol }
    }

    /// A concatenation of two values, or a value that is split between two targets.
    pub(super) fn concatenation(&mut self, is_last: bool) -> ProgramStatement {
        self.letters = Vec::new();
        let letters = self.add_letters(3, 100);
        let (first, second) = (letters[0], letters[1]);
        for letter in &mut self.letters {
            letter.extent = letter.extent.clamp(1, 8);
        }
        let plain = |letter: usize| {
            ProgramAxis::Affine(ProgramAffine { terms: vec![(1, ProgramVar::Letter(letter))], offset: 0 })
        };
        let extents: Vec<usize> = self.letters.iter().map(|letter| letter.extent).collect();
        let whole = extents[0] + extents[1];
        let joined = if self.choices.chance(1, 2) { vec![first, second] } else { vec![second, first] };
        let dtype = self.dtype();
        let op = if self.choices.chance(1, 2) { Accumulation::Store } else { Accumulation::Add };
        let starts = op != Accumulation::Store;
        let access = |node, axes| ProgramAccess { node, axes, pad: None };
        let rest = letters[2];
        let (targets, values) = if self.choices.chance(1, 2) {
            let node = self.result(dtype, vec![whole, extents[2]], is_last);
            let target = access(node, vec![ProgramAxis::Concat(joined), plain(rest)]);
            let values = [first, second].map(|letter| {
                let scope =
                    ValueScope { letters: vec![letter, rest], target: node, own: None, written: dtype };
                let kind = self.dtype();
                let read = self.input(kind, vec![extents[letter], extents[2]]);
                let read = ProgramExpr::Read(access(read, vec![plain(letter), plain(rest)]));
                let other = self.expr(&scope, 1);
                ProgramExpr::Binary(BinaryFunction::Add, Box::new([read, other]))
            });
            (vec![target], Vec::from(values))
        } else {
            let kind = self.dtype();
            let source = self.input(kind, vec![whole, extents[2]]);
            let targets = [first, second].map(|letter| {
                let node = self.result(dtype, vec![extents[letter], extents[2]], is_last);
                access(node, vec![plain(letter), plain(rest)])
            });
            let read = ProgramExpr::Read(access(source, vec![ProgramAxis::Concat(joined), plain(rest)]));
            (Vec::from(targets), vec![read])
        };
        self.valued.extend(targets.iter().map(|target| target.node));
        ProgramStatement::Assign(ProgramAssign {
            letters: std::mem::take(&mut self.letters),
            targets,
            op,
            starts,
            values,
            bound: None,
        })
    }
}
