//! Derives programs from bytes: every choice takes one byte, and after the last byte every choice is the
//! simplest alternative.

use std::collections::BTreeSet;

use filetests::generate::{Choices, bytes_of_seed};
use tnode::DType;

use super::format;
use super::program::{
    Access, Accumulation, Affine, Assign, Axis, Binary, Expr, Letter, Mode, Node, Number, Program, Statement,
    Symbol, Unary, Var,
};
use super::types::{Type, Types};

/// The most points of a statement's product space, and the most elements of a node.
const MAX_POINTS: usize = 1500;
const EXTENTS: [usize; 18] = [2, 3, 1, 4, 5, 7, 8, 9, 16, 17, 33, 6, 65, 31, 12, 130, 0, 260];
const LETTERS: [&str; 5] = ["i", "j", "k", "l", "m"];

const TYPES: [DType; 24] = {
    use DType::{Bf16, Bool, F16, F32, F64, Fp8E4m3fn, Fp8E5m2, I8, I32, I64, U8, U16, U32, U64};
    [
        F32, F32, F64, I32, F32, I64, U8, Bool, F16, Bf16, Fp8E5m2, Fp8E4m3fn, I8, U16, U32, U64, F32, F32,
        F64, I32, F32, F16, I64, Bool,
    ]
};
const INDEX_TYPES: [DType; 7] =
    [DType::I32, DType::I64, DType::U8, DType::I8, DType::U16, DType::U32, DType::U64];

/// The program that the bytes describe.
pub(crate) fn program(bytes: &[u8]) -> Program {
    let mut maker = Maker {
        choices: Choices::new(bytes),
        program: Program::default(),
        valued: BTreeSet::new(),
        fixed: BTreeSet::new(),
        letters: Vec::new(),
    };
    maker.routines();
    maker.program
}

struct Maker<'b> {
    choices: Choices<'b>,
    program: Program,
    /// The nodes whose values the current routine may read.
    valued: BTreeSet<usize>,
    /// The nodes that no later statement may write.
    fixed: BTreeSet<usize>,
    /// The letters of the current statement.
    letters: Vec<Letter>,
}

/// The letters and nodes that the value of a statement may mention.
struct Scope {
    letters: Vec<usize>,
    target: usize,
    /// The element that the statement writes, if its value may read it.
    own: Option<Access>,
    written: DType,
}

impl Maker<'_> {
    fn routines(&mut self) {
        let routines = [1, 1, 2, 1, 2, 3][self.choices.below(6)];
        for routine in 0..routines {
            let mut statements = Vec::new();
            let count = 1 + self.choices.below(4);
            for at in 0..count {
                let is_last = routine + 1 == routines && at + 1 == count;
                statements.push(self.statement(is_last));
                if self.choices.is_done() {
                    break;
                }
            }
            self.program.routines.push(statements);
            // A node without declared memory may have no values after the routine.
            let nodes = &self.program.nodes;
            self.valued.retain(|&node| nodes[node].mode != Mode::Undecided || nodes[node].data.is_some());
            if self.choices.is_done() {
                break;
            }
        }
        for _ in 0..1 + self.choices.below(3) {
            let values = self.program.symbols.iter().map(|symbol| symbol.range);
            let ranges: Vec<i64> = values.collect();
            let round = ranges.iter().map(|&range| self.choices.below(range as usize) as i64).collect();
            self.program.rounds.push(round);
        }
    }

    fn statement(&mut self, is_last: bool) -> Statement {
        match self.choices.below(24) {
            21 => self.filling(is_last),
            22 => self.slice(),
            23 => self.concatenation(is_last),
            _ => self.assign(is_last),
        }
    }

    fn dtype(&mut self) -> DType {
        *self.choices.pick(&TYPES)
    }

    fn add(&mut self, dtype: DType, dims: Vec<usize>, mode: Mode) -> usize {
        let at = self.program.nodes.len();
        let node = Node { name: format!("n{at}"), dtype, dims, margin: 0, neutral: None, mode, data: None };
        self.program.nodes.push(node);
        at
    }

    /// Adds a node whose first writer is the current statement.
    fn result(&mut self, dtype: DType, dims: Vec<usize>, is_last: bool) -> usize {
        let mode = match self.choices.below(12) {
            _ if is_last => Mode::Materialized,
            0..=5 => Mode::Undecided,
            6 => Mode::Virtual,
            _ => Mode::Materialized,
        };
        let node = self.add(dtype, dims, mode);
        if self.choices.below(16) == 15 {
            self.program.nodes[node].margin = 1;
        }
        node
    }

    /// Adds a node with initial values from the host.
    fn input(&mut self, dtype: DType, dims: Vec<usize>) -> usize {
        let mode = if self.choices.chance(1, 3) { Mode::Materialized } else { Mode::Undecided };
        let node = self.add(dtype, dims, mode);
        self.give_values(node);
        self.valued.insert(node);
        node
    }

    fn give_values(&mut self, node: usize) {
        let (kind, seed) = (self.choices.below(6), self.choices.byte());
        let Node { dtype, dims, .. } = &self.program.nodes[node];
        let count: usize = dims.iter().product();
        let random = bytes_of_seed(u64::from(seed) * 256 + node as u64, count * 8);
        let bits = random.chunks_exact(8).map(|chunk| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            element(*dtype, kind, u64::from_le_bytes(word))
        });
        self.program.nodes[node].data = Some(bits.collect());
    }

    fn symbol(&mut self) -> usize {
        const NAMES: [&str; 2] = ["s", "t"];
        let at = self.choices.below(NAMES.len()).min(self.program.symbols.len());
        if at == self.program.symbols.len() {
            let range = 1 + self.choices.below(4) as i64;
            self.program.symbols.push(Symbol { name: NAMES[at], range });
        }
        at
    }

    /// Adds letters whose product space has at most `points` points.
    fn add_letters(&mut self, count: usize, mut points: usize) -> Vec<usize> {
        let mut added = Vec::new();
        for _ in 0..count.min(LETTERS.len() - self.letters.len()) {
            let extent = *self.choices.pick(&EXTENTS);
            let extent = if extent > points { 1 + extent % points.max(1) } else { extent };
            points /= extent.max(1);
            let is_explicit = self.choices.chance(1, 3);
            added.push(self.letters.len());
            self.letters.push(Letter { name: LETTERS[self.letters.len()], extent, is_explicit });
        }
        added
    }

    fn assign(&mut self, is_last: bool) -> Statement {
        use Accumulation::{Add, And, Div, Max, Min, Mul, Or, Store, Sub};
        let op = *self
            .choices
            .pick(&[Store, Add, Store, Add, Max, Store, Min, Mul, Add, Store, Sub, Or, Store, Add, And, Div]);
        let mut starts = op != Store && !self.choices.chance(1, 3);
        self.letters = Vec::new();
        let rank = [1, 2, 0, 3, 2, 1][self.choices.below(6)];
        let outer = self.add_letters(rank, MAX_POINTS);
        let points: usize = outer.iter().map(|&letter| self.letters[letter].extent.max(1)).product();
        let inner = if op == Store { 0 } else { [1, 0, 1, 2][self.choices.below(4)] };
        let mut all = outer.clone();
        all.extend(self.add_letters(inner, (MAX_POINTS * 2 / points).max(1)));
        let target = self.target(&outer, op, &mut starts, is_last);
        let written = self.program.nodes[target.node].dtype;
        let mut mentioned = BTreeSet::new();
        target.walk(&mut |e| {
            if let Expr::Var(Var::Letter(letter)) = e {
                mentioned.insert(*letter);
            }
        });
        if op == Store {
            all.retain(|letter| mentioned.contains(letter));
        }
        let reduces = all.iter().any(|letter| !mentioned.contains(letter));
        let may_read = !starts && !reduces && !target.is_computed() && self.valued.contains(&target.node);
        let own = may_read.then(|| target.clone());
        let scope = Scope { letters: all, target: target.node, own, written };
        let depth = [1, 2, 0, 3, 2, 1][self.choices.below(6)];
        let value = self.expr(&scope, depth);
        self.valued.insert(target.node);
        Statement::Assign(Assign {
            letters: std::mem::take(&mut self.letters),
            targets: vec![target],
            op,
            starts,
            values: vec![value],
        })
    }

    fn target(&mut self, outer: &[usize], op: Accumulation, starts: &mut bool, is_last: bool) -> Access {
        let mut order = outer.to_vec();
        if self.choices.chance(1, 3) {
            order.reverse();
        }
        let plain =
            |letter: &usize| Axis::Affine(Affine { terms: vec![(1, Var::Letter(*letter))], offset: 0 });
        let kind = self.choices.below(10);
        let accumulates = op != Accumulation::Store;
        if kind >= 7
            && !is_last
            && let Some(node) = self.rewritable()
        {
            let axes = self.index_into(node, outer, 0);
            if accumulates && self.program.nodes[node].mode == Mode::Virtual {
                *starts = false;
            }
            return Access { node, axes, pad: None };
        }
        let dtype = self.dtype();
        if kind == 6 && !outer.is_empty() && !is_last {
            return self.scatter(dtype, outer, *starts);
        }
        if kind == 5 {
            let (dims, axes) = self.shape(&order);
            let node = self.result(dtype, dims, is_last);
            if !*starts {
                self.needs_values(node);
            }
            return Access { node, axes, pad: None };
        }
        let dims = order.iter().map(|&letter| self.letters[letter].extent).collect();
        let node = self.result(dtype, dims, is_last);
        if accumulates && !*starts {
            self.needs_values(node);
        }
        Access { node, axes: order.iter().map(plain).collect(), pad: None }
    }

    /// Gives a node initial values from the host if it has none.
    fn needs_values(&mut self, node: usize) {
        self.program.nodes[node].mode = Mode::Materialized;
        if self.program.nodes[node].data.is_none() {
            self.give_values(node);
        }
        self.valued.insert(node);
    }

    /// Chooses a node with values that may be written again.
    fn rewritable(&mut self) -> Option<usize> {
        let all: Vec<usize> = self.valued.difference(&self.fixed).copied().collect();
        if all.is_empty() {
            return None;
        }
        let node = *self.choices.pick(&all);
        if self.program.nodes[node].data.is_some() {
            self.program.nodes[node].mode = Mode::Materialized;
        }
        Some(node)
    }

    /// A target with a computed index; its other axes distinguish elements.
    fn scatter(&mut self, dtype: DType, outer: &[usize], starts: bool) -> Access {
        let size = *self.choices.pick(&[4, 1, 7, 16, 3]);
        let index = self.computed_index(outer, size);
        let mut dims = vec![size];
        let mut axes = vec![Axis::Computed(Box::new(index))];
        let whole = self.choices.chance(1, 2);
        for &letter in if whole { outer } else { &outer[1..] } {
            dims.push(self.letters[letter].extent);
            axes.push(Axis::Affine(Affine { terms: vec![(1, Var::Letter(letter))], offset: 0 }));
        }
        if self.choices.chance(1, 3) {
            dims.rotate_left(1);
            axes.rotate_left(1);
        }
        if dims.iter().product::<usize>() > 4 * MAX_POINTS {
            dims[0] = dims[0].min(4);
        }
        let node = self.result(dtype, dims, false);
        if !starts {
            self.needs_values(node);
        }
        Access { node, axes, pad: None }
    }

    /// An integer expression that contains an access, with values mostly within `0..size`.
    fn computed_index(&mut self, letters: &[usize], size: usize) -> Expr {
        let dtype = *self.choices.pick(&INDEX_TYPES);
        let used: Vec<usize> = letters.iter().copied().filter(|_| !self.choices.chance(1, 3)).collect();
        let (dims, axes) = self.shape(&used);
        let node = self.add(dtype, dims, Mode::Undecided);
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
        let read = Expr::Read(Access { node, axes, pad: None });
        match self.choices.below(4) {
            3 => Expr::Binary(Binary::Add, Box::new([read, Expr::Number(Number::Integer(1))])),
            _ => read,
        }
    }

    /// Terms of an index over letters and symbols.
    fn terms(&mut self, letters: &[usize]) -> Vec<(i64, Var)> {
        if letters.is_empty() {
            return if self.choices.chance(1, 4) {
                vec![(1, Var::Symbol(self.symbol()))]
            } else {
                Vec::new()
            };
        }
        let letter = Var::Letter(*self.choices.pick(letters));
        match self.choices.below(12) {
            0..=4 => vec![(1, letter)],
            5 => Vec::new(),
            6 => vec![(-1, letter)],
            7 => vec![(2 + self.choices.below(2) as i64, letter)],
            8 | 9 => {
                let factor = [1, 2, -1, 3][self.choices.below(4)];
                let other = Var::Letter(*self.choices.pick(letters));
                if other == letter { vec![(factor, letter)] } else { vec![(factor, letter), (1, other)] }
            }
            10 => {
                let symbol = Var::Symbol(self.symbol());
                let factor = [1, 2, 5, -1][self.choices.below(4)];
                vec![(factor, symbol), (1, letter)]
            }
            _ => vec![(1, letter), (1, Var::Symbol(self.symbol()))],
        }
    }

    /// The least and greatest value of the terms.
    fn bounds(&self, terms: &[(i64, Var)]) -> (i64, i64) {
        let of = |&(factor, var): &(i64, Var)| {
            let last = match var {
                Var::Letter(letter) => self.letters[letter].extent.saturating_sub(1) as i64,
                Var::Symbol(symbol) => self.program.symbols[symbol].range - 1,
            };
            ((factor * last).min(0), (factor * last).max(0))
        };
        terms.iter().map(of).fold((0, 0), |(low, high), (l, h)| (low + l, high + h))
    }

    /// Sizes and indices of a node in which each letter occurs.
    fn shape(&mut self, letters: &[usize]) -> (Vec<usize>, Vec<Axis>) {
        let (mut dims, mut axes) = (Vec::new(), Vec::new());
        for &letter in letters {
            let plain = self.choices.chance(2, 3) || self.letters[letter].extent == 0;
            let mut terms = if plain { Vec::new() } else { self.terms(letters) };
            let mentions = |&(_, var): &(i64, Var)| var == Var::Letter(letter);
            if !terms.iter().any(mentions) {
                terms.push((1, Var::Letter(letter)));
            }
            let (low, high) = self.bounds(&terms);
            let (before, after) = if plain { (0, 0) } else { (self.choices.below(2), self.choices.below(2)) };
            let size = (high - low) as usize + 1 + before + after;
            dims.push(if plain { self.letters[letter].extent } else { size });
            axes.push(Axis::Affine(Affine { terms, offset: before as i64 - low }));
        }
        if self.choices.chance(1, 8) {
            let size = 1 + self.choices.below(3);
            axes.push(Axis::Affine(Affine { terms: Vec::new(), offset: self.choices.below(size) as i64 }));
            dims.push(size);
        }
        if dims.iter().product::<usize>() > 4 * MAX_POINTS {
            dims = letters.iter().map(|&letter| self.letters[letter].extent).collect();
            let plain = |&letter: &usize| Affine { terms: vec![(1, Var::Letter(letter))], offset: 0 };
            axes = letters.iter().map(|letter| Axis::Affine(plain(letter))).collect();
        }
        (dims, axes)
    }

    /// Indices of an existing node that are at most `beyond` elements out of bounds.
    fn index_into(&mut self, node: usize, letters: &[usize], beyond: i64) -> Vec<Axis> {
        let dims = self.program.nodes[node].dims.clone();
        let mut free = letters.to_vec();
        let mut axes = Vec::new();
        for size in dims {
            let exact = free.iter().position(|&letter| self.letters[letter].extent == size);
            if let Some(at) = exact
                && self.choices.chance(2, 3)
            {
                axes.push(Axis::Affine(Affine { terms: vec![(1, Var::Letter(free.remove(at)))], offset: 0 }));
                continue;
            }
            let terms = self.terms(letters);
            let affine = self.fit(terms, size, beyond).or_else(|| self.fit(Vec::new(), size, beyond));
            axes.push(Axis::Affine(affine.unwrap_or_default()));
        }
        axes
    }

    /// The terms with an offset that keeps them within the axis, or at most `beyond` elements out of bounds.
    fn fit(&mut self, terms: Vec<(i64, Var)>, size: usize, beyond: i64) -> Option<Affine> {
        let (low, high) = self.bounds(&terms);
        let (first, last) = (-beyond - low, size as i64 - 1 + beyond - high);
        if first > last {
            return None;
        }
        if first <= 0 && 0 <= last && self.choices.chance(1, 2) {
            return Some(Affine { terms, offset: 0 });
        }
        let offset = first + self.choices.below((last - first + 1).min(250) as usize) as i64;
        Some(Affine { terms, offset })
    }

    fn types(&self, scope: &Scope) -> Types<'_> {
        Types { program: &self.program, written: scope.written }
    }

    /// An expression of at most `levels` levels.
    fn expr(&mut self, scope: &Scope, levels: usize) -> Expr {
        if levels == 0 {
            return self.leaf(scope);
        }
        match self.choices.below(14) {
            0 | 1 => self.leaf(scope),
            2..=4 => {
                let op = *self.choices.pick(Unary::ALL);
                Expr::Unary(op, Box::new(self.expr(scope, levels - 1)))
            }
            5 => {
                let dtype = self.dtype();
                let inner = self.expr(scope, levels - 1);
                match self.types(scope).of(&inner) {
                    Type::Known(_) => Expr::Cast(dtype, Box::new(inner)),
                    _ => inner,
                }
            }
            6 => {
                let condition = self.comparison(scope, levels - 1);
                Expr::Where(Box::new([condition, self.expr(scope, levels - 1), self.expr(scope, levels - 1)]))
            }
            7 => Expr::Fma(Box::new([0; 3].map(|_| self.expr(scope, levels - 1)))),
            8 => self.comparison(scope, levels - 1),
            9 => self.bits(scope, levels - 1),
            _ => {
                use Binary::{Add, And, Div, Max, Min, Mul, Or, Pow, ReluGate, Rem, Satur01Gate, Sub};
                let op = *self.choices.pick(&[
                    Add,
                    Mul,
                    Sub,
                    Mul,
                    Add,
                    Max,
                    Min,
                    Div,
                    Rem,
                    Pow,
                    ReluGate,
                    Satur01Gate,
                    And,
                    Or,
                    Add,
                    Mul,
                ]);
                self.two(op, scope, levels - 1)
            }
        }
    }

    fn two(&mut self, op: Binary, scope: &Scope, levels: usize) -> Expr {
        let a = self.expr(scope, levels);
        let b = if op == Binary::Pow && self.choices.chance(2, 3) {
            let exponents =
                [Number::Integer(2), Number::Integer(3), Number::Fraction(0.5), Number::Integer(0)];
            Expr::Number(*self.choices.pick(&exponents))
        } else {
            self.expr(scope, levels)
        };
        Expr::Binary(op, Box::new([a, b]))
    }

    fn comparison(&mut self, scope: &Scope, levels: usize) -> Expr {
        use Binary::{Eq, Ge, Gt, Le, Lt, Ne};
        let op = *self.choices.pick(&[Lt, Eq, Le, Ne, Gt, Ge]);
        let a = self.typed(scope, levels);
        Expr::Binary(op, Box::new([a, self.expr(scope, levels)]))
    }

    /// An expression that has a type without its context.
    fn typed(&mut self, scope: &Scope, levels: usize) -> Expr {
        let a = self.expr(scope, levels);
        match self.types(scope).of(&a) {
            Type::Known(_) => a,
            _ => Expr::Cast(DType::F32, Box::new(self.read(scope))),
        }
    }

    /// An operation on the bits of integers.
    fn bits(&mut self, scope: &Scope, levels: usize) -> Expr {
        use Binary::{BitAnd, BitOr, BitXor, Shl, Shr};
        let op = *self.choices.pick(&[BitAnd, Shl, BitOr, Shr, BitXor]);
        let args = [0; 2].map(|_| {
            let arg = self.typed(scope, levels);
            match self.types(scope).of(&arg) {
                Type::Known(dtype) if !dtype.is_float() => arg,
                _ => Expr::Cast(*self.choices.pick(&INDEX_TYPES), Box::new(arg)),
            }
        });
        Expr::Binary(op, Box::new(args))
    }

    fn leaf(&mut self, scope: &Scope) -> Expr {
        match self.choices.below(16) {
            10 | 11 => Expr::Number(self.number()),
            12 if scope.letters.is_empty() => Expr::Var(Var::Symbol(self.symbol())),
            12 => Expr::Var(Var::Letter(*self.choices.pick(&scope.letters))),
            13 => match scope.letters.first() {
                Some(&letter) if self.choices.chance(1, 3) => {
                    let read = Expr::Var(Var::Letter(letter));
                    Expr::Binary(Binary::Sub, Box::new([read, Expr::Size(letter)]))
                }
                _ => Expr::Var(Var::Symbol(self.symbol())),
            },
            14 => self.gather(scope),
            15 => match scope.own.clone() {
                Some(own) => Expr::Read(own),
                None => self.read(scope),
            },
            _ => self.read(scope),
        }
    }

    fn number(&mut self) -> Number {
        use Number::{Fraction, Infinity, Integer, Nan};
        *self.choices.pick(&[
            Integer(2),
            Fraction(0.5),
            Integer(1),
            Integer(0),
            Integer(3),
            Fraction(1.5),
            Fraction(0.1),
            Integer(7),
            Fraction(0.25),
            Fraction(3.0),
            Integer(100),
            Fraction(2.0),
            Infinity,
            Nan,
        ])
    }

    fn read(&mut self, scope: &Scope) -> Expr {
        let known: Vec<usize> = self.valued.iter().copied().filter(|&node| node != scope.target).collect();
        if !known.is_empty() && self.choices.chance(1, 2) {
            // Prefers the latest node.
            let back = self.choices.below(known.len());
            let node = known[known.len() - 1 - back];
            return Expr::Read(self.access(scope, node));
        }
        let letters: Vec<usize> =
            scope.letters.iter().copied().filter(|_| !self.choices.chance(1, 4)).collect();
        let dtype = self.dtype();
        let (dims, axes) = self.shape(&letters);
        let node = self.input(dtype, dims);
        if self.choices.below(10) == 9 {
            self.program.nodes[node].margin = 1 + self.choices.below(2);
            let is_declared = self.choices.chance(1, 3);
            self.program.nodes[node].neutral = is_declared.then_some(2.0);
            return Expr::Read(self.access(scope, node));
        }
        Expr::Read(Access { node, axes, pad: None })
    }

    /// An access to a node with values, sometimes out of bounds with `pad`, or in its margins.
    fn access(&mut self, scope: &Scope, node: usize) -> Access {
        let Node { dtype, margin, .. } = self.program.nodes[node];
        if self.choices.chance(1, 5) {
            let pad = match self.choices.below(3) {
                2 if dtype.is_float() => Number::Fraction(0.5),
                1 => Number::Integer(1),
                _ => Number::Integer(0),
            };
            let axes = self.index_into(node, &scope.letters, 3);
            return Access { node, axes, pad: Some(pad) };
        }
        let axes = self.index_into(node, &scope.letters, margin as i64);
        Access { node, axes, pad: None }
    }

    fn gather(&mut self, scope: &Scope) -> Expr {
        let Expr::Read(mut access) = self.read(scope) else { unreachable!("a read") };
        let Node { dims, margin, .. } = self.program.nodes[access.node].clone();
        if dims.is_empty() || access.is_computed() {
            return Expr::Read(access);
        }
        let axis = self.choices.below(dims.len());
        if margin > 0 {
            // All other indices are in bounds.
            access.axes = self.index_into(access.node, &scope.letters, 0);
        }
        if access.pad.is_some() {
            access.axes = self.index_into(access.node, &scope.letters, 0);
        }
        let index = self.computed_index(&scope.letters, dims[axis]);
        access.axes[axis] = Axis::Computed(Box::new(index));
        Expr::Read(access)
    }

    fn filling(&mut self, is_last: bool) -> Statement {
        let dims: Vec<usize> = (0..self.choices.below(3)).map(|_| 1 + self.choices.below(4)).collect();
        let dtype = self.dtype();
        let node = self.result(dtype, dims, is_last);
        self.valued.insert(node);
        if self.choices.chance(1, 2) && dtype != DType::Bool {
            return Statement::Offsets { node };
        }
        let count: usize = self.program.nodes[node].dims.iter().product();
        let numbers = [Number::Integer(1), Number::Integer(0), Number::Integer(7), Number::Integer(3)];
        let values = (0..count).map(|_| {
            let number = *self.choices.pick(&numbers);
            if dtype == DType::Bool && number != Number::Integer(0) { Number::Integer(1) } else { number }
        });
        let values = values.collect();
        Statement::Values { node, values }
    }

    fn slice(&mut self) -> Statement {
        let symbol = self.symbol();
        let dims: Vec<usize> = (0..1 + self.choices.below(2)).map(|_| 1 + self.choices.below(5)).collect();
        let range = self.program.symbols[symbol].range as usize + self.choices.below(2);
        let dtype = self.dtype();
        let source = self.input(dtype, std::iter::once(range).chain(dims.iter().copied()).collect());
        self.program.nodes[source].mode = Mode::Materialized;
        let node = self.add(dtype, dims, Mode::Undecided);
        self.valued.insert(node);
        self.fixed.extend([source, node]);
        Statement::Slice { node, source, symbol }
    }

    /// A concatenation of two values, or a value that is split between two targets.
    fn concatenation(&mut self, is_last: bool) -> Statement {
        self.letters = Vec::new();
        let letters = self.add_letters(3, 100);
        let (first, second) = (letters[0], letters[1]);
        for letter in &mut self.letters {
            letter.extent = letter.extent.clamp(1, 8);
        }
        let plain = |letter: usize| Axis::Affine(Affine { terms: vec![(1, Var::Letter(letter))], offset: 0 });
        let extents: Vec<usize> = self.letters.iter().map(|letter| letter.extent).collect();
        let whole = extents[0] + extents[1];
        let joined = if self.choices.chance(1, 2) { vec![first, second] } else { vec![second, first] };
        let dtype = self.dtype();
        let op = if self.choices.chance(1, 2) { Accumulation::Store } else { Accumulation::Add };
        let starts = op != Accumulation::Store;
        let access = |node, axes| Access { node, axes, pad: None };
        let rest = letters[2];
        let (targets, values) = if self.choices.chance(1, 2) {
            let node = self.result(dtype, vec![whole, extents[2]], is_last);
            let target = access(node, vec![Axis::Concat(joined), plain(rest)]);
            let values = [first, second].map(|letter| {
                let scope = Scope { letters: vec![letter, rest], target: node, own: None, written: dtype };
                let kind = self.dtype();
                let read = self.input(kind, vec![extents[letter], extents[2]]);
                let read = Expr::Read(access(read, vec![plain(letter), plain(rest)]));
                let other = self.expr(&scope, 1);
                Expr::Binary(Binary::Add, Box::new([read, other]))
            });
            (vec![target], Vec::from(values))
        } else {
            let kind = self.dtype();
            let source = self.input(kind, vec![whole, extents[2]]);
            let targets = [first, second].map(|letter| {
                let node = self.result(dtype, vec![extents[letter], extents[2]], is_last);
                access(node, vec![plain(letter), plain(rest)])
            });
            let read = Expr::Read(access(source, vec![Axis::Concat(joined), plain(rest)]));
            (Vec::from(targets), vec![read])
        };
        self.valued.extend(targets.iter().map(|target| target.node));
        Statement::Assign(Assign { letters: std::mem::take(&mut self.letters), targets, op, starts, values })
    }
}

/// The bits of an element: small integers, fractions, any bits, special values, or a mixture.
fn element(dtype: DType, kind: usize, random: u64) -> u64 {
    let mask = u64::MAX >> (64 - 8 * dtype.size_bytes());
    if dtype == DType::Bool {
        return random & 1;
    }
    let kind = if kind == 5 { (random >> 60) as usize % 5 } else { kind };
    match kind {
        3 => (random >> 8) & mask,
        4 => special(dtype, (random >> 8) as usize % 10),
        1 if dtype.is_float() => format::encode(dtype, ((random >> 8) % 65_536) as f64 / 32_768.0 - 1.0),
        _ if dtype.is_float() => format::encode(dtype, ((random >> 8) % 9) as f64 - 4.0),
        _ => (random >> 8) % 7,
    }
}

fn special(dtype: DType, which: usize) -> u64 {
    if !dtype.is_float() {
        let (low, high) = format::range(dtype);
        let values = [0, 1, low, high, low + 1, high - 1, high / 2, 2, high, low];
        return (values[which] as u64) & (u64::MAX >> (64 - 8 * dtype.size_bytes()));
    }
    let (large, normal) = (format::largest(dtype), format::least_normal(dtype));
    let tiny = format::ulp(dtype, 0.0);
    let values = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, tiny, -normal, large, 1.0, -1.5];
    format::encode(dtype, values[which])
}
