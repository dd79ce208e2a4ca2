//! Derives programs from bytes: every choice takes one byte, and after the last byte every choice is the
//! simplest alternative.

mod data;
mod expr;
mod index;
mod statements;
mod targets;

use std::collections::BTreeSet;

use tnode::DType;

use crate::program::{
    Accumulation, NodeMode, ProgramAccess, ProgramAssign, ProgramBound, ProgramExpr, ProgramLetter,
    ProgramNode, ProgramStatement, ProgramVar, RandomProgram,
};
use crate::weights::{ProgramWeights, StatementKind};
use crate::{Choices, bytes_of_seed};

/// The program that the bytes describe.
pub fn program_from_bytes(bytes: &[u8], weights: &ProgramWeights) -> RandomProgram {
    let mut maker = ProgramMaker {
        choices: Choices::new(bytes),
        weights,
        program: RandomProgram::default(),
        valued: BTreeSet::new(),
        fixed: BTreeSet::new(),
        letters: Vec::new(),
    };
    maker.routines();
    maker.program
}

/// The program of a seed, derived from at most `len` bytes.
pub fn program_from_seed(seed: u64, len: usize, weights: &ProgramWeights) -> RandomProgram {
    program_from_bytes(&bytes_of_seed(seed, len), weights)
}

/// A program under construction.
struct ProgramMaker<'b, 'w> {
    choices: Choices<'b>,
    weights: &'w ProgramWeights,
    program: RandomProgram,
    /// The nodes whose values the current routine may read.
    valued: BTreeSet<usize>,
    /// The nodes that no later statement may write.
    fixed: BTreeSet<usize>,
    /// The letters of the current statement.
    letters: Vec<ProgramLetter>,
}

/// The letters and nodes that the value of a statement may mention.
struct ValueScope {
    letters: Vec<usize>,
    target: usize,
    /// The element that the statement writes, if its value may read it.
    own: Option<ProgramAccess>,
    written: DType,
}

impl ProgramMaker<'_, '_> {
    fn routines(&mut self) {
        let routines = *self.choices.pick(self.weights.routines);
        for routine in 0..routines {
            let mut statements = Vec::new();
            let count = 1 + self.choices.below(self.weights.statements_per_routine);
            for at in 0..count {
                let is_last = routine + 1 == routines && at + 1 == count;
                statements.push(self.statement(is_last));
                if self.choices.is_done() {
                    break;
                }
            }
            self.program.routines.push(statements);
            // Later routines may read a node with memory, a virtual node, which is inlined, or an input. Any
            // other node may have no values after this routine.
            let nodes = &self.program.nodes;
            let has_memory =
                |node: usize| matches!(nodes[node].mode, NodeMode::Materialized | NodeMode::Virtual);
            self.valued.retain(|&node| has_memory(node) || nodes[node].data.is_some());
            if self.choices.is_done() {
                break;
            }
        }
        for _ in 0..1 + self.choices.below(self.weights.rounds) {
            let values = self.program.symbols.iter().map(|symbol| symbol.range);
            let ranges: Vec<i64> = values.collect();
            let round = ranges.iter().map(|&range| self.choices.below(range as usize) as i64).collect();
            self.program.rounds.push(round);
        }
    }

    fn statement(&mut self, is_last: bool) -> ProgramStatement {
        match self.choices.pick(self.weights.statements) {
            StatementKind::Assign => self.assign(is_last),
            StatementKind::Fill => self.fill(is_last),
            StatementKind::Slice => self.slice(),
            StatementKind::Concatenation => self.concatenation(is_last),
        }
    }

    fn dtype(&mut self) -> DType {
        *self.choices.pick(self.weights.types)
    }

    fn add(&mut self, dtype: DType, dims: Vec<usize>, mode: NodeMode) -> usize {
        let at = self.program.nodes.len();
        let node =
            ProgramNode { name: format!("n{at}"), dtype, dims, margin: 0, neutral: None, mode, data: None };
        self.program.nodes.push(node);
        at
    }

    /// Adds a node `tN` whose first writer is the current statement.
    fn result(&mut self, dtype: DType, dims: Vec<usize>, is_last: bool) -> usize {
        let mode = *self.choices.pick(self.weights.result_modes);
        let mode = if is_last { NodeMode::Materialized } else { mode };
        let node = self.add(dtype, dims, mode);
        self.program.nodes[node].name = format!("t{node}");
        if self.weights.has_margins && self.choices.below(16) == 15 {
            self.program.nodes[node].margin = 1;
        }
        node
    }

    /// Adds a node `nN` with initial values from the host.
    fn input(&mut self, dtype: DType, dims: Vec<usize>) -> usize {
        let mode = if self.choices.chance(1, 3) { NodeMode::Materialized } else { NodeMode::Undecided };
        let node = self.add(dtype, dims, mode);
        self.give_values(node);
        self.valued.insert(node);
        node
    }

    fn give_values(&mut self, node: usize) {
        let (kind, seed) = (*self.choices.pick(self.weights.data), self.choices.byte());
        let ProgramNode { dtype, dims, .. } = &self.program.nodes[node];
        let count: usize = dims.iter().product();
        let random = bytes_of_seed(u64::from(seed) * 256 + node as u64, count * 8);
        let bits = random.chunks_exact(8).map(|chunk| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            data::element(*dtype, kind, u64::from_le_bytes(word))
        });
        self.program.nodes[node].data = Some(bits.collect());
    }

    fn assign(&mut self, is_last: bool) -> ProgramStatement {
        use Accumulation::Store;
        let op = *self.choices.pick(self.weights.accumulations);
        let mut starts = op.has_neutral() && !self.choices.chance(1, 3);
        self.letters = Vec::new();
        let rank = *self.choices.pick(self.weights.ranks);
        let outer = self.add_letters(rank, self.weights.points);
        let points: usize = outer.iter().map(|&letter| self.letters[letter].extent.max(1)).product();
        let inner = if op == Store { 0 } else { [1, 0, 1, 2][self.choices.below(4)] };
        let mut all = outer.clone();
        all.extend(self.add_letters(inner, (self.weights.points * 2 / points).max(1)));
        let target = self.target(&outer, op, &mut starts, is_last);
        let written = self.program.nodes[target.node].dtype;
        let mut mentioned = BTreeSet::new();
        target.walk(&mut |e| {
            if let ProgramExpr::Var(ProgramVar::Letter(letter)) = e {
                mentioned.insert(*letter);
            }
        });
        if op == Store {
            all.retain(|letter| mentioned.contains(letter));
        }
        let reduces = all.iter().any(|letter| !mentioned.contains(letter));
        let may_read = !starts && !reduces && !target.is_computed() && self.valued.contains(&target.node);
        let own = may_read.then(|| target.clone());
        let scope = ValueScope { letters: all, target: target.node, own, written };
        let levels = *self.choices.pick(self.weights.levels);
        let value = self.expr(&scope, levels);
        // A bound would leave elements of a virtual node or of a first store without a value.
        let is_complete = starts || self.valued.contains(&target.node);
        let is_virtual = self.program.nodes[target.node].mode == NodeMode::Virtual;
        self.valued.insert(target.node);
        let mut assign = ProgramAssign {
            letters: std::mem::take(&mut self.letters),
            targets: vec![target],
            op,
            starts,
            values: vec![value],
            bound: None,
        };
        if is_complete && !is_virtual && self.choices.chance(1, 5) {
            assign.bound = self.bound(&assign);
        }
        ProgramStatement::Assign(assign)
    }

    /// A bound that relates a letter of the statement to another letter or to a symbol.
    fn bound(&mut self, assign: &ProgramAssign) -> Option<ProgramBound> {
        let (mut letters, inner) = assign.loops();
        letters.extend(inner);
        if letters.is_empty() {
            return None;
        }
        let first = letters.swap_remove(self.choices.below(letters.len()));
        let other = match letters.is_empty() || self.choices.chance(1, 3) {
            true => ProgramVar::Symbol(self.symbol()),
            false => ProgramVar::Letter(*self.choices.pick(&letters)),
        };
        let mut sides = [ProgramVar::Letter(first), other];
        if self.choices.chance(1, 3) {
            sides.reverse();
        }
        let [less, greater] = sides;
        Some(ProgramBound { less, greater, is_strict: self.choices.chance(1, 3) })
    }
}
