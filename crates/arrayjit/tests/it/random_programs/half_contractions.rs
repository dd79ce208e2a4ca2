//! Contractions of 16-bit floats beside copies of their operands and results.
//!
//! Random programs rarely contain a contraction with operands in 16 bits and sums in 32: the form that
//! targets compile whole or, if they reject it, in register tiles, after legalization. Every case here has
//! one, and copies that share loops with it or, because they change the split of an index, local nodes.

use std::fmt::Write;

use arrayjit::TensorNode;
use filetests::generate::GeneratedProgram;
use random_programs::Choices;
use tnode::{DType, MemoryMode};

/// A contraction into `c`: of matrices, batches of them, or an image and filters.
struct Matmul {
    operands: [Vec<usize>; 2],
    result: Vec<usize>,
    /// The indices of `c`, and the ranges of the letters.
    target: &'static str,
    ranges: String,
    /// The elements of `x` and `w` that are multiplied.
    reads: [String; 2],
}

struct ContractionMaker<'b> {
    program: GeneratedProgram,
    choices: Choices<'b>,
    dtype: DType,
}

/// The program that the bytes describe.
pub(super) fn program(bytes: &[u8]) -> GeneratedProgram {
    let mut choices = Choices::new(bytes);
    let dtype = *choices.pick(&[DType::F16, DType::Bf16]);
    let program = GeneratedProgram { text: String::new(), nodes: Vec::new() };
    let mut maker = ContractionMaker { program, choices, dtype };
    maker.statements();
    maker.program
}

impl ContractionMaker<'_> {
    fn statements(&mut self) {
        let dtype = self.dtype;
        let Matmul { operands: [x, w], result, target, ranges, reads: [mut left, right] } = self.matmul();
        if x.len() == 2 && self.choices.chance(1, 2) {
            // The rows and columns of `x` are those of `u` in another split.
            self.node("u", dtype, &[x[1], x[0]], Some(MemoryMode::Materialized));
            self.split("u", [x[1], x[0]], "x_flat", None);
            left = left.replace("x[i,k]", &format!("x_flat[{}*i + k]", x[1]));
        } else {
            self.node("x", dtype, &x, Some(MemoryMode::Materialized));
        }
        let has_x = left.contains("x[") || left.contains("pad(x");
        self.node("w", dtype, &w, Some(MemoryMode::Materialized));
        self.node("c", DType::F32, &result, None);
        let mode = *self.choices.pick(&[None, Some(MemoryMode::Materialized)]);
        self.node("a", dtype, &result, mode);
        // Copies of `v` may run in the loops of the contraction.
        self.node("v", dtype, &result, Some(MemoryMode::Materialized));
        self.line(&format!("c{target} :+= f32({left}) * f32({right}) where {ranges}"));
        self.line(&elementwise("a", "c", &result, dtype));
        let mut sources = vec![("v", result.clone()), ("a", result.clone()), ("w", w)];
        sources.extend(has_x.then_some(("x", x)));
        for name in ["d", "e"] {
            let (source, dims) = sources[self.choices.below(sources.len())].clone();
            let target = self.copy(name, source, &dims);
            sources.push((name, target));
        }
    }

    fn line(&mut self, line: &str) {
        self.program.text += line;
        self.program.text.push('\n');
    }

    fn node(&mut self, name: &str, dtype: DType, dims: &[usize], mode: Option<MemoryMode>) {
        let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
        let node = mode.into_iter().fold(node, |node, mode| node.mode(mode));
        self.program.nodes.push(node.build().expect("a small node"));
    }

    fn extent(&mut self) -> usize {
        *self.choices.pick(&[8, 16, 3, 5, 24, 32, 40, 6, 17])
    }

    fn matmul(&mut self) -> Matmul {
        let [m, n, k] = [0; 3].map(|_| self.extent());
        let ranges = format!("i < {m}, j < {n}, k < {k}");
        match self.choices.below(3) {
            0 => Matmul {
                operands: [vec![m, k], vec![k, n]],
                result: vec![m, n],
                target: "[i,j]",
                ranges,
                reads: ["x[i,k]".into(), "w[k,j]".into()],
            },
            1 => Matmul {
                operands: [vec![2, m, k], vec![k, n]],
                result: vec![2, m, n],
                target: "[b,i,j]",
                ranges: format!("b < 2, {ranges}"),
                reads: ["x[b,i,k]".into(), "w[k,j]".into()],
            },
            _ => self.convolution(),
        }
    }

    fn convolution(&mut self) -> Matmul {
        let outputs = *self.choices.pick(&[4, 8, 3, 16]);
        let (inputs, side) = (1 + self.choices.below(4), 4 + self.choices.below(6));
        let (p, padding) = (1 + self.choices.below(3), self.choices.below(2));
        let out = side + 2 * padding + 1 - p;
        let index = |letters: [&str; 2]| format!("{} + {} - {padding}", letters[0], letters[1]);
        Matmul {
            operands: [vec![inputs, side, side], vec![outputs, inputs, p, p]],
            result: vec![outputs, out, out],
            target: "[o,h,v]",
            ranges: format!("o < {outputs}, h < {out}, v < {out}, c < {inputs}, r < {p}, s < {p}"),
            reads: [
                format!("pad(x, 0)[c, {}, {}]", index(["h", "r"]), index(["v", "s"])),
                "w[o,c,r,s]".into(),
            ],
        }
    }

    /// A flat copy `flat` of a matrix, and, if `to` is a node, that one with rows as long as columns were.
    fn split(&mut self, from: &str, [rows, columns]: [usize; 2], flat: &str, to: Option<&str>) {
        self.node(flat, self.dtype, &[rows * columns], None);
        let ranges = format!("i < {rows}, j < {columns}");
        self.line(&format!("{flat}[{columns}*i + j] := {from}[i,j] where {ranges}"));
        if let Some(to) = to {
            self.node(to, self.dtype, &[columns, rows], Some(MemoryMode::Materialized));
            self.line(&format!("{to}[i,j] := {flat}[{rows}*i + j] where i < {columns}, j < {rows}"));
        }
    }

    /// A copy in other dimensions: flat, transposed, with the first two axes as one, or in another split.
    /// Returns the dimensions.
    fn copy(&mut self, to: &str, from: &str, dims: &[usize]) -> Vec<usize> {
        let way = self.choices.below(4);
        if let (3, &[rows, columns]) = (way, dims) {
            self.split(from, [rows, columns], &format!("{to}_flat"), Some(to));
            return vec![columns, rows];
        }
        let letters = &LETTERS[..dims.len()];
        let (target, at) = match way {
            1 => {
                let reversed: Vec<&str> = letters.iter().rev().copied().collect();
                (dims.iter().rev().copied().collect(), reversed.join(","))
            }
            2 if dims.len() > 1 => {
                let mut at = flat(&dims[..2]);
                letters[2..].iter().for_each(|letter| write!(at, ",{letter}").expect("strings grow"));
                ([&[dims[0] * dims[1]], &dims[2..]].concat(), at)
            }
            _ => (vec![dims.iter().product()], flat(dims)),
        };
        self.node(to, self.dtype, &target, Some(MemoryMode::Materialized));
        self.line(&format!("{to}[{at}] := {from}[{}] where {}", letters.join(","), ranges(dims)));
        target
    }
}

const LETTERS: [&str; 4] = ["i", "j", "k", "l"];

fn ranges(dims: &[usize]) -> String {
    let each = dims.iter().zip(LETTERS).map(|(dim, letter)| format!("{letter} < {dim}"));
    each.collect::<Vec<_>>().join(", ")
}

/// The row-major position of the element at the letters.
fn flat(dims: &[usize]) -> String {
    let step = |at: usize| dims[at + 1..].iter().product::<usize>();
    let terms = (0..dims.len()).map(|at| format!("{}*{}", step(at), LETTERS[at]));
    terms.collect::<Vec<_>>().join(" + ")
}

/// Converts each element of one node to the type of the other.
fn elementwise(to: &str, from: &str, dims: &[usize], dtype: DType) -> String {
    let index = LETTERS[..dims.len()].join(",");
    format!("{to}[{index}] := {dtype}({from}[{index}]) where {}", ranges(dims))
}
