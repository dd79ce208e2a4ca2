//! Random programs in assignment text, for tests of the whole pipeline.
//!
//! A program has a few statements over letters of fixed extents. Statements map, reduce, scatter and update
//! in place; they read nodes of their own with permuted, strided, shifted, padded and symbol-dependent
//! indices, and the results of earlier statements. Everything is in bounds by construction, so the text
//! always compiles; a test checks that.

use std::collections::BTreeSet;

use tnode::{DType, MemoryMode, TensorNode};

use super::{Choices, bytes_of_seed, types};

/// A program in assignment text.
#[derive(Clone, Debug)]
pub struct Program {
    /// The statements, a line each.
    pub text: String,
    /// The nodes that the text names. The last written one is materialized, since it is the result.
    pub nodes: Vec<TensorNode>,
}

/// The program that the bytes describe.
pub fn program_from_bytes(bytes: &[u8]) -> Program {
    let mut choices = Choices::new(bytes);
    let extents = [0; 3].map(|_| 1 + choices.below(5));
    let mut maker =
        Maker { choices, extents, nodes: Vec::new(), written: Vec::new(), used: BTreeSet::new(), own: None };
    let count = 1 + maker.choices.below(4);
    let text = (0..count).map(|at| maker.statement(at + 1 == count) + "\n").collect();
    Program { text, nodes: maker.nodes }
}

/// The program of a seed, derived from at most `len` bytes.
pub fn program_from_seed(seed: u64, len: usize) -> Program {
    program_from_bytes(&bytes_of_seed(seed, len))
}

const LETTERS: [&str; 3] = ["i", "j", "k"];
/// Bindings of the one symbol, `@s`.
const SYMBOL_RANGE: usize = 3;
const NUMBERS: [&str; 6] = ["1", "2", "0", "0.5", "3", "1.25"];
const UNARY: [&str; 12] =
    ["neg", "relu", "abs", "exp", "tanh", "sqrt", "not", "satur01", "floor", "recip", "sin", "f32"];
const BINARY: [&str; 12] = ["+", "*", "-", "max", "/", "min", "<", "==", "%", "relu_gate", "and", ">="];

struct Maker<'b> {
    choices: Choices<'b>,
    extents: [usize; 3],
    nodes: Vec<TensorNode>,
    /// Nodes written so far: the text that reads them at their own letters, and these letters.
    written: Vec<(String, Vec<usize>)>,
    /// The letters that the statement mentions.
    used: BTreeSet<usize>,
    /// The text by which the statement reads its own target, if it may.
    own: Option<String>,
}

impl Maker<'_> {
    fn node(&mut self, label: &str, dims: Vec<usize>, kept: bool) {
        let dtype: DType = *self.choices.pick(&types::NUMBERS);
        let builder = TensorNode::builder(label).dims(dims).dtype(dtype);
        let builder = if kept { builder.mode(MemoryMode::Materialized) } else { builder };
        self.nodes.push(builder.build().expect("sizes are small"));
    }

    fn statement(&mut self, last: bool) -> String {
        const OPS: [&str; 10] = [":=", ":=", ":+=", ":+=", "+=", ":max=", ":=", "*=", ":*=", "-="];
        let op = *self.choices.pick(&OPS);
        let mut letters: Vec<usize> = (0..LETTERS.len()).filter(|_| !self.choices.chance(1, 3)).collect();
        if self.choices.chance(1, 3) {
            letters.reverse();
        }
        self.used = letters.iter().copied().collect();
        let label = format!("t{}", self.written.len());
        let scatters = op.starts_with(':') && op != ":=" && self.choices.chance(1, 3);
        let (scale, shift) = if scatters { (2, 1) } else { (1, 0) };
        let dims = letters.iter().map(|&l| scale * self.extents[l] + shift).collect();
        let index = |letter: &usize| {
            if scatters { format!("2*{} + 1", LETTERS[*letter]) } else { LETTERS[*letter].to_owned() }
        };
        let lhs = format!("{label}[{}]", letters.iter().map(index).collect::<Vec<_>>().join(", "));
        self.node(&label, dims, last);
        self.own = (op == ":=").then(|| lhs.clone());
        let rhs = if op == ":=" { self.expr(&letters, 3) } else { self.expr(&[0, 1, 2], 3) };
        let read = letters.iter().map(|&letter| LETTERS[letter]).collect::<Vec<_>>().join(", ");
        self.written.push((format!("{label}[{read}]"), letters));
        let limits =
            self.used.iter().map(|&letter| format!("{} < {}", LETTERS[letter], self.extents[letter]));
        let limits: Vec<String> = limits.chain([format!("@s < {SYMBOL_RANGE}")]).collect();
        format!("{lhs} {op} {rhs} where {}", limits.join(", "))
    }

    /// An expression in some of `letters`, of at most that many levels.
    fn expr(&mut self, letters: &[usize], levels: usize) -> String {
        let kind = if levels == 0 { self.choices.below(6) } else { self.choices.below(12) };
        match kind {
            0..=2 => self.read(letters),
            3 => self.earlier(letters),
            4 => (*self.choices.pick(&NUMBERS)).to_owned(),
            5 => self.value(letters),
            6 | 7 => format!("{}({})", self.choices.pick(&UNARY), self.expr(letters, levels - 1)),
            8 => {
                let args = [0; 3].map(|_| self.expr(letters, levels - 1));
                let function = if self.choices.chance(1, 3) { "fma" } else { "where" };
                format!("{function}({})", args.join(", "))
            }
            _ => {
                let op = *self.choices.pick(&BINARY);
                let (a, b) = (self.expr(letters, levels - 1), self.expr(letters, levels - 1));
                if op.starts_with(char::is_alphabetic) {
                    format!("{op}({a}, {b})")
                } else {
                    format!("({a} {op} {b})")
                }
            }
        }
    }

    /// A letter or the symbol as a value.
    fn value(&mut self, letters: &[usize]) -> String {
        match letters.get(self.choices.below(letters.len() + 1)) {
            None => "@s".to_owned(),
            Some(&letter) => {
                self.used.insert(letter);
                LETTERS[letter].to_owned()
            }
        }
    }

    /// An earlier result, or the element being written, or a new node.
    fn earlier(&mut self, letters: &[usize]) -> String {
        if let Some(own) = self.own.clone().filter(|_| self.choices.chance(1, 3)) {
            return own;
        }
        let fits = |(_, needed): &&(String, Vec<usize>)| needed.iter().all(|letter| letters.contains(letter));
        let readable: Vec<(String, Vec<usize>)> = self.written.iter().filter(fits).cloned().collect();
        if readable.is_empty() {
            return self.read(letters);
        }
        let (text, needed) = self.choices.pick(&readable).clone();
        self.used.extend(needed);
        text
    }

    /// An element of a new node that is as large as the index needs, or smaller by one at either end and
    /// padded.
    fn read(&mut self, letters: &[usize]) -> String {
        let padded = self.choices.chance(1, 4);
        let axes: Vec<(String, usize)> = (0..self.choices.below(4)).map(|_| self.index(letters)).collect();
        let label = format!("n{}", self.nodes.len());
        let trim = |&(_, size): &(String, usize)| if padded { size.saturating_sub(2).max(1) } else { size };
        self.node(&label, axes.iter().map(trim).collect(), false);
        let shift = if padded { " - 1" } else { "" };
        let index: Vec<String> = axes.iter().map(|(text, _)| format!("{text}{shift}")).collect();
        let access = if padded { format!("pad({label}, {})", self.choices.pick(&["0", "1"])) } else { label };
        format!("{access}[{}]", index.join(", "))
    }

    /// An index that begins at 0, and the number of its values.
    fn index(&mut self, letters: &[usize]) -> (String, usize) {
        let (mut text, mut last) = (String::new(), 0);
        for &letter in letters {
            let coefficient = *self.choices.pick(&[0, 1, 1, 0, 2]);
            if coefficient > 0 {
                self.used.insert(letter);
                text += &format!("{coefficient}*{} + ", LETTERS[letter]);
                last += coefficient * (self.extents[letter] - 1);
            }
        }
        if self.choices.chance(1, 5) {
            text += "2*@s + ";
            last += 2 * (SYMBOL_RANGE - 1);
        }
        let offset = self.choices.below(2);
        (format!("{text}{offset}"), last + offset + 1)
    }
}
