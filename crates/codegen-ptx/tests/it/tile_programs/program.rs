//! A program being generated, and its parts.

use std::fmt::Write;

use codegen_ptx::{Ptx, PtxOptions, Target, TensorCoreInstructions, ptx};
use fastrand::Rng;

use super::extents::{Shape, extents};
use super::values::{NARROW, ProgramNode};

/// A loop of a nest.
#[derive(Clone)]
pub(crate) struct Loop {
    pub(crate) var: String,
    pub(crate) extent: usize,
}

/// A program being generated.
pub(crate) struct MatrixProgram {
    pub(crate) random: Rng,
    pub(crate) shape: Shape,
    pub(crate) class: &'static str,
    pub(crate) target: Target,
    pub(crate) options: PtxOptions,
    /// The type in which values are computed.
    pub(crate) dtype: &'static str,
    /// The types that are stored.
    pub(crate) stored: Vec<&'static str>,
    /// Batch, rows, columns, K.
    pub(crate) extents: [usize; 4],
    /// Maximum number of iterations of a nest.
    pub(crate) most: usize,
    /// Declarations of nodes, with their modes.
    pub(crate) declared: Vec<(String, &'static str)>,
    pub(crate) symbols: String,
    pub(crate) body: String,
    pub(crate) nodes: Vec<ProgramNode>,
    pub(crate) names: [usize; 4],
}

impl MatrixProgram {
    pub(crate) fn new(seed: u64) -> MatrixProgram {
        use Shape::{Edges, Large, Long, Many, Tensor, Transposed};
        let mut random = Rng::with_seed(seed);
        let shape = match seed % 32 {
            31 => Large,
            _ => [Transposed, Transposed, Edges, Edges, Many, Tensor, Tensor, Long][random.usize(..8)],
        };
        let is_float = shape == Tensor || random.u8(..8) < if shape == Large { 6 } else { 2 };
        let half = ["bf16", "f16"][random.usize(..2)];
        let mut options = PtxOptions::default();
        let (dtype, stored) = match is_float {
            true if random.u8(..6) == 0 => {
                options.tf32 = true;
                ("f32", vec!["f32"])
            }
            true => ("f32", vec!["f32", half, half]),
            false => {
                let all = ["i32", "i32", "i64", "u16", "u16", "u8"];
                let [one, other] = [(); 2].map(|()| all[random.usize(..6)]);
                (one, vec![one, one, one, other])
            }
        };
        options.tensor_cores = match random.u8(..8) {
            0 => TensorCoreInstructions::Off,
            1 => TensorCoreInstructions::Mma,
            _ => TensorCoreInstructions::Auto,
        };
        let (extents, most) = extents(shape, &mut random);
        let target =
            [Target::Sm70, Target::Sm80, Target::Sm90a, Target::Sm90a, Target::Sm90a][random.usize(..5)];
        let class = ["strict", "fast"][random.usize(..8).min(1)];
        let (declared, symbols, body) = (Vec::new(), String::new(), String::new());
        let (nodes, names) = (Vec::new(), [0; 4]);
        MatrixProgram {
            random,
            shape,
            class,
            target,
            options,
            dtype,
            stored,
            extents,
            most,
            declared,
            symbols,
            body,
            nodes,
            names,
        }
    }

    pub(crate) fn one_in(&mut self, count: u32) -> bool {
        self.random.u32(..count) == 0
    }

    pub(crate) fn is_float(&self) -> bool {
        self.dtype == "f32"
    }

    /// A number that no other node, loop, local or symbol has.
    pub(crate) fn number(&mut self, of: usize) -> usize {
        self.names[of] += 1;
        self.names[of] - 1
    }

    pub(crate) fn node(
        &mut self,
        dims: &[usize],
        dtype: &'static str,
        mode: &'static str,
        bound: f64,
    ) -> ProgramNode {
        let number = self.number(0);
        let listed: Vec<String> = dims.iter().map(usize::to_string).collect();
        self.declared.push((format!("node %{number} \"n{number}\" {dtype}[{}]", listed.join(", ")), mode));
        ProgramNode { name: format!("%{number}"), dims: dims.to_vec(), dtype, bound }
    }

    pub(crate) fn input(&mut self, dims: &[usize], dtype: &'static str) -> ProgramNode {
        let node = self.node(dims, dtype, "on_device", 3.0);
        self.nodes.push(node.clone());
        node
    }

    /// A node that the program writes. In half of all cases it is local to a run, so its values are not
    /// observed afterwards.
    pub(crate) fn result(&mut self, dims: &[usize], dtype: &'static str, bound: f64) -> ProgramNode {
        let mode = if self.random.bool() { "local" } else { "on_device" };
        self.node(dims, dtype, mode, bound)
    }

    pub(crate) fn storage(&mut self) -> &'static str {
        self.stored[self.random.usize(..self.stored.len())]
    }

    /// A node with these dimensions, mostly an existing one.
    pub(crate) fn found(&mut self, dims: &[usize]) -> ProgramNode {
        let fits: Vec<ProgramNode> =
            self.nodes.iter().filter(|node| node.dims == dims && node.bound <= NARROW).cloned().collect();
        match self.random.choice(&fits) {
            Some(node) if self.random.u8(..5) > 0 => node.clone(),
            _ => {
                let dtype = self.storage();
                self.input(dims, dtype)
            }
        }
    }

    pub(crate) fn loops(&mut self, extents: &[usize]) -> Vec<Loop> {
        extents.iter().map(|&extent| Loop { var: format!("i{}", self.number(1)), extent }).collect()
    }

    pub(crate) fn symbol(&mut self, range: usize) -> String {
        let name = format!("@s{}", self.number(3));
        writeln!(self.symbols, "symbol {name} in 0..{range}").unwrap();
        name
    }

    pub(crate) fn nest(&mut self, loops: &[Loop], body: &str) {
        for l in loops {
            write!(self.body, "for {} in 0..{} {{ ", l.var, l.extent).unwrap();
        }
        writeln!(self.body, "{body} {}", "}".repeat(loops.len())).unwrap();
    }

    pub(crate) fn step(&mut self) {
        match (self.shape, self.random.u8(..12)) {
            (_, 0) => self.change(),
            (_, 1) => self.gather(),
            (_, 2) => self.scatter(),
            (_, 3) | (Shape::Long, 4..) => self.reduction(),
            (Shape::Transposed, _) => self.map(),
            (Shape::Tensor | Shape::Large | Shape::Many, 4..) => self.contraction(),
            (_, 4 | 5) => self.map(),
            _ => self.contraction(),
        }
    }

    /// The codegen, and the text of the routine.
    pub(crate) fn finish(mut self) -> (Ptx, String) {
        for _ in 0..2 {
            let (dims, dtype) = (self.dims(), self.storage());
            self.input(&dims, dtype);
        }
        match self.shape {
            // The whole budget goes into one contraction.
            Shape::Large => self.contraction(),
            Shape::Transposed => self.step(),
            _ => (0..2 + self.random.usize(..4)).for_each(|_| self.step()),
        }
        self.map();
        let MatrixProgram { class, symbols, body, .. } = &self;
        let mut declared = String::new();
        for (nth, (node, mode)) in self.declared.iter().enumerate() {
            // A node that no other statement reads becomes a register and leaves little to do.
            let is_read = body.lines().any(|line| reads_alone(line, &format!("%{nth}[")));
            writeln!(declared, "{node} {}", if is_read { mode } else { "on_device" }).unwrap();
        }
        let text = format!("routine @tiles {class} {{\n{symbols}{declared}{body}}}");
        (ptx(self.target, self.options), text)
    }
}

/// Whether a line reads an array and does not store into it.
fn reads_alone(line: &str, array: &str) -> bool {
    let is_stored = |rest: &str| rest.split_once(']').is_some_and(|(_, rest)| rest.starts_with(" :="));
    let mut mentions = line.split(array).skip(1).peekable();
    mentions.peek().is_some() && !mentions.any(is_stored)
}
