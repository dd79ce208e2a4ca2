//! Random programs on matrices: whatever is turned, tiled, copied ahead or multiplied by tensor cores, results are those of the program as it is
//! written.
//!
//! Numbers are integers, or floats that hold small whole numbers: of these every sum and product is exact, so that their order shows in nothing. Some
//! programs are of class `Strict`: these have any floats, since their order is that in which they are written.
//! `GPU_SEEDS` in the environment says how many programs, for long checks.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

#[path = "common/device.rs"]
mod device;
#[path = "common/programs.rs"]
mod programs;

use std::collections::BTreeMap;
use std::fmt::Write;

use codegen_core::{Codegen, ScheduleOptions, schedule};
use codegen_ptx::{Ptx, PtxOptions, Target, TensorCores, ptx};
use fastrand::Rng;

/// Extents around those of tiles.
const EDGES: [usize; 20] = [1, 1, 2, 3, 4, 7, 8, 15, 16, 17, 20, 24, 31, 32, 33, 48, 63, 64, 65, 129];
/// Floats up to here are whole in tensor cores, whatever these cut off.
const NARROW: f64 = 1024.0;
/// Sums of floats up to here are exact.
const EXACT: f64 = (1 << 22) as f64;

/// An array of the program.
#[derive(Clone)]
struct Node {
    name: String,
    dims: Vec<usize>,
    dtype: &'static str,
    /// What its elements are between, if they are floats.
    bound: f64,
}

/// An expression of the type that the program computes in.
struct Value {
    text: String,
    bound: f64,
}

#[derive(Clone)]
struct Loop {
    var: String,
    extent: usize,
}

/// Where an array is read or stored along one dimension, which has so many elements.
struct Place {
    at: String,
    dim: usize,
    /// Whether that is inside for some iterations alone.
    guarded: bool,
}

/// What the extents of a program are chosen for.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Large matrices: they are turned by way of shared memory.
    Turned,
    /// Extents around those of tiles.
    Edges,
    /// Batches of so many matrices that tiles are large.
    Many,
    /// Sizes that tensor cores take.
    Tensor,
    /// Few results of long sums.
    Long,
    /// So much that the largest tiles are taken; by few programs, since it takes a while.
    Large,
}

/// A program that is being drawn.
struct Program {
    random: Rng,
    shape: Shape,
    class: &'static str,
    target: Target,
    options: PtxOptions,
    /// The type of what is computed.
    dtype: &'static str,
    /// The types of what is stored.
    stored: Vec<&'static str>,
    /// Batch, rows, columns, depth.
    extents: [usize; 4],
    /// Iterations of a nest at most.
    most: usize,
    /// The declarations of nodes, and their modes.
    declared: Vec<(String, &'static str)>,
    symbols: String,
    body: String,
    nodes: Vec<Node>,
    names: [usize; 4],
}

impl Program {
    fn new(seed: u64) -> Program {
        use Shape::{Edges, Large, Long, Many, Tensor, Turned};
        let mut random = Rng::with_seed(seed);
        let shape = match seed % 32 {
            31 => Large,
            _ => [Turned, Turned, Edges, Edges, Many, Tensor, Tensor, Long][random.usize(..8)],
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
            0 => TensorCores::Off,
            1 => TensorCores::Warps,
            _ => TensorCores::Auto,
        };
        let (extents, most) = extents(shape, &mut random);
        let target =
            [Target::Sm70, Target::Sm80, Target::Sm90a, Target::Sm90a, Target::Sm90a][random.usize(..5)];
        let class = ["strict", "fast"][random.usize(..8).min(1)];
        let (declared, symbols, body) = (Vec::new(), String::new(), String::new());
        let (nodes, names) = (Vec::new(), [0; 4]);
        Program {
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

    fn one_in(&mut self, count: u32) -> bool {
        self.random.u32(..count) == 0
    }

    fn is_float(&self) -> bool {
        self.dtype == "f32"
    }

    /// A number that no other node, loop, local or symbol has.
    fn number(&mut self, of: usize) -> usize {
        self.names[of] += 1;
        self.names[of] - 1
    }

    fn node(&mut self, dims: &[usize], dtype: &'static str, mode: &'static str, bound: f64) -> Node {
        let number = self.number(0);
        let listed: Vec<String> = dims.iter().map(usize::to_string).collect();
        self.declared.push((format!("node %{number} \"n{number}\" {dtype}[{}]", listed.join(", ")), mode));
        Node { name: format!("%{number}"), dims: dims.to_vec(), dtype, bound }
    }

    fn input(&mut self, dims: &[usize], dtype: &'static str) -> Node {
        let node = self.node(dims, dtype, "on_device", 3.0);
        self.nodes.push(node.clone());
        node
    }

    /// A node that the program writes, and nobody else may read in half of all cases.
    fn result(&mut self, dims: &[usize], dtype: &'static str, bound: f64) -> Node {
        let mode = if self.random.bool() { "local" } else { "on_device" };
        self.node(dims, dtype, mode, bound)
    }

    fn storage(&mut self) -> &'static str {
        self.stored[self.random.usize(..self.stored.len())]
    }

    /// A node of these dimensions, one that there is mostly.
    fn found(&mut self, dims: &[usize]) -> Node {
        let fits: Vec<Node> =
            self.nodes.iter().filter(|node| node.dims == dims && node.bound <= NARROW).cloned().collect();
        match self.random.choice(&fits) {
            Some(node) if self.random.u8(..5) > 0 => node.clone(),
            _ => {
                let dtype = self.storage();
                self.input(dims, dtype)
            }
        }
    }

    fn loops(&mut self, extents: &[usize]) -> Vec<Loop> {
        extents.iter().map(|&extent| Loop { var: format!("i{}", self.number(1)), extent }).collect()
    }

    fn symbol(&mut self, range: usize) -> String {
        let name = format!("@s{}", self.number(3));
        writeln!(self.symbols, "symbol {name} in 0..{range}").unwrap();
        name
    }

    fn constant(&mut self, dtype: &str) -> String {
        let number = if self.random.bool() { 0 } else { self.random.u8(1..4) };
        if self.dtype == "f32" { format!("{number}.0{dtype}") } else { format!("{number}{dtype}") }
    }

    /// Where a dimension is read: at a loop of its extent mostly.
    fn place(&mut self, dim: usize, loops: &[Loop], used: &mut Vec<String>) -> Place {
        let plain = |at: String| Place { at, dim, guarded: false };
        let same: Vec<&Loop> = loops.iter().filter(|l| l.extent == dim).collect();
        let smaller: Vec<&Loop> = loops.iter().filter(|l| l.extent < dim).collect();
        let any = self.random.choice(loops).cloned();
        let kind = self.random.u8(..if self.shape == Shape::Tensor { 80 } else { 24 });
        if kind == 0
            && let Some(l) = self.random.choice(&same)
        {
            return plain(format!("{} - {}", dim - 1, l.var));
        }
        if kind == 1
            && let [one, other, ..] = smaller[..]
            && one.extent + other.extent - 1 <= dim
        {
            return plain(format!("{} + {}", one.var, other.var));
        }
        if kind == 2
            && let Some(l) = &any
        {
            let shift = ["- 1", "+ 1", "- 3", "+ 4", "- 16"][self.random.usize(..5)];
            return Place { at: format!("{} {shift}", l.var), dim, guarded: true };
        }
        if kind == 3
            && let Some(l) = smaller.iter().find(|l| 2 * l.extent <= dim + 1)
        {
            return plain(format!("2*{}", l.var));
        }
        if kind == 4 {
            return plain(self.symbol(dim));
        }
        let unused: Vec<&Loop> = same.iter().copied().filter(|l| !used.contains(&l.var)).collect();
        if let Some(l) = self.random.choice(&unused).or(self.random.choice(&same)) {
            used.push(l.var.clone());
            return plain(l.var.clone());
        }
        if let Some(l) = self.random.choice(&smaller) {
            let room = dim - l.extent;
            return match self.random.u8(..3) {
                0 => plain(format!("{} + {}", l.var, self.symbol(room + 1))),
                _ => plain(format!("{} + {}", l.var, self.random.usize(..=room))),
            };
        }
        match any.filter(|_| self.shape != Shape::Tensor && self.random.bool()) {
            Some(l) => Place { at: l.var, dim, guarded: true },
            None => plain(self.random.usize(..dim).to_string()),
        }
    }

    /// An element of a node, as what the program computes in.
    fn element(&mut self, node: &Node, places: &[Place]) -> Value {
        let at: Vec<&str> = places.iter().map(|place| place.at.as_str()).collect();
        let element = format!("{}[{}]", node.name, at.join(", "));
        let guard = |place: &Place| format!("0 <= {} < {}, ", place.at, place.dim);
        let guards: String = places.iter().filter(|place| place.guarded).map(guard).collect();
        let element = match guards.as_str() {
            "" => element,
            _ => format!("guarded({guards}{element}, {})", self.constant(node.dtype)),
        };
        let text = match node.dtype == self.dtype {
            true => element,
            false => format!("convert {}({element})", self.dtype),
        };
        let value = Value { text, bound: node.bound.max(3.0) };
        if value.bound > NARROW { self.clamped(value) } else { value }
    }

    fn clamped(&self, value: Value) -> Value {
        match self.is_float() {
            true => Value { text: format!("min(max({}, -3.0f32), 3.0f32)", value.text), bound: 3.0 },
            false => value,
        }
    }

    fn read(&mut self, node: &Node, loops: &[Loop]) -> Value {
        let mut used = Vec::new();
        let places: Vec<Place> = node.dims.iter().map(|&dim| self.place(dim, loops, &mut used)).collect();
        self.element(node, &places)
    }

    /// A node that has much to do with some loops, if there is one.
    fn related(&mut self, loops: &[Loop]) -> Option<Node> {
        let related =
            |node: &Node| node.dims.iter().filter(|&&d| loops.iter().any(|l| l.extent == d)).count();
        let drawn: Vec<Node> = (0..3).filter_map(|_| self.random.choice(&self.nodes).cloned()).collect();
        drawn.into_iter().max_by_key(|node| 2 * related(node) as i64 - node.dims.len() as i64)
    }

    /// An element of a node whose rows are along another loop.
    fn turned(&mut self, loops: &[Loop]) -> Value {
        let mut order = loops.to_vec();
        order.rotate_right(1);
        if order.len() > 2 && self.random.bool() {
            order.swap(0, 1);
        }
        let dims: Vec<usize> = order.iter().map(|l| l.extent).collect();
        let node = self.found(&dims);
        let places: Vec<Place> =
            order.iter().map(|l| Place { at: l.var.clone(), dim: l.extent, guarded: false }).collect();
        self.element(&node, &places)
    }

    fn leaf(&mut self, loops: &[Loop]) -> Value {
        if self.one_in(10) {
            return Value { text: self.constant(self.dtype), bound: 3.0 };
        }
        if self.one_in(3) || (self.shape == Shape::Turned && self.random.bool()) {
            // Turned, or as it is.
            let mut dims: Vec<usize> = loops.iter().map(|l| l.extent).collect();
            if self.random.bool() {
                self.random.shuffle(&mut dims);
            }
            dims.truncate(3);
            let node = self.found(&dims);
            return self.read(&node, loops);
        }
        match self.related(loops) {
            Some(node) => self.read(&node, loops),
            None => Value { text: self.constant(self.dtype), bound: 3.0 },
        }
    }

    fn value(&mut self, loops: &[Loop], depth: u32) -> Value {
        if depth == 0 || self.one_in(3) {
            return self.leaf(loops);
        }
        let [a, b] = [(); 2].map(|()| self.value(loops, depth - 1));
        self.combined(a, b)
    }

    fn combined(&mut self, a: Value, b: Value) -> Value {
        let (sum, product, most) = (a.bound + b.bound, a.bound * b.bound, a.bound.max(b.bound));
        let (a, b) = (a.text, b.text);
        match self.random.u8(..7) {
            0 | 1 => Value { text: format!("({a} + {b})"), bound: sum },
            2 => Value { text: format!("({a} - {b})"), bound: sum },
            3 if product <= NARROW => Value { text: format!("({a} * {b})"), bound: product },
            4 => Value { text: format!("where({a} < {b}, {b}, {a} + {b})"), bound: sum },
            5 => Value { text: format!("min({a}, {b})"), bound: most },
            _ => Value { text: format!("max({a}, {b})"), bound: most },
        }
    }

    /// A value as it is stored in some type: floats that the type has.
    fn as_stored(&mut self, value: Value, dtype: &str) -> Value {
        let most = match dtype {
            "bf16" => 256.0,
            _ => NARROW,
        };
        let value = if self.is_float() && value.bound > most { self.clamped(value) } else { value };
        // Signs of zeros are nobody's business.
        let text = match self.is_float() && value.text.contains(' ') {
            true => format!("({} + 0.0f32)", value.text),
            false => value.text,
        };
        let text = if dtype == self.dtype { text } else { format!("convert {dtype}({text})") };
        Value { text, bound: value.bound }
    }

    fn nest(&mut self, loops: &[Loop], body: &str) {
        for l in loops {
            write!(self.body, "for {} in 0..{} {{ ", l.var, l.extent).unwrap();
        }
        writeln!(self.body, "{body} {}", "}".repeat(loops.len())).unwrap();
    }

    /// Some of the extents, in any order.
    fn dims(&mut self) -> Vec<usize> {
        let [batch, rows, columns, depth] = self.extents;
        let matrices = vec![vec![rows, columns], vec![batch, rows, columns], vec![batch, columns, rows]];
        let others = vec![
            vec![rows, depth],
            vec![depth, columns],
            vec![columns, depth, rows],
            vec![rows, batch, depth],
            vec![columns],
            vec![batch, rows],
        ];
        let from = if self.shape == Shape::Turned || self.random.bool() { matrices } else { others };
        let most = self.most.min(90_000);
        let fits = |dims: &&Vec<usize>| dims.iter().product::<usize>() <= most;
        let fitting: Vec<&Vec<usize>> = from.iter().filter(fits).collect();
        let mut dims = self.random.choice(fitting).cloned().unwrap_or_else(|| vec![rows]);
        match self.random.u8(..4) {
            0 => self.random.shuffle(&mut dims),
            1 => dims.reverse(),
            _ => {}
        }
        dims
    }

    /// `node[…] := value` of a new node, for whose index some loops are there.
    fn stored(&mut self, loops: &[Loop], value: Value) -> String {
        let dtype = self.storage();
        let value = self.as_stored(value, dtype);
        let mut order: Vec<&Loop> = loops.iter().collect();
        if self.random.u8(..if self.shape == Shape::Tensor { 16 } else { 5 }) == 0 {
            self.random.shuffle(&mut order);
        }
        let place =
            |program: &mut Program, l: &Loop| match program.random.u8(..if program.shape == Shape::Tensor {
                60
            } else {
                20
            }) {
                0 => (format!("{} - {}", l.extent - 1, l.var), l.extent),
                1 if l.extent < 64 => (format!("2*{}", l.var), 2 * l.extent),
                2 => (format!("{} + 3", l.var), l.extent + 4),
                _ => (l.var.clone(), l.extent),
            };
        let (at, dims): (Vec<String>, Vec<usize>) = order.iter().map(|l| place(self, l)).unzip();
        let node = self.result(&dims, dtype, value.bound);
        let text = format!("{}[{}] := {}", node.name, at.join(", "), value.text);
        self.nodes.push(node);
        text
    }

    fn map(&mut self) {
        let dims = self.dims();
        let mut loops = self.loops(&dims);
        let mut body = String::new();
        let straight = loops.clone();
        for _ in 0..if self.one_in(4) { 2 } else { 1 } {
            let depth = self.random.u32(..if self.shape == Shape::Turned { 2 } else { 3 });
            let mut value = self.value(&loops, depth);
            if self.shape == Shape::Turned && self.random.u8(..4) > 0 {
                let turned = self.turned(&loops);
                value = self.combined(turned, value);
            }
            body += &self.stored(&straight, value);
            body.push(' ');
        }
        if self.one_in(3) {
            self.random.shuffle(&mut loops);
        }
        self.nest(&loops, &body);
    }

    /// What is there is changed where it is.
    fn change(&mut self) {
        let fits = |node: &&Node| node.dims.iter().product::<usize>() <= 100_000;
        let fitting: Vec<&Node> = self.nodes.iter().filter(fits).collect();
        let Some(node) = self.random.choice(fitting).cloned() else { return };
        let loops = self.loops(&node.dims);
        let at: Vec<Place> =
            loops.iter().map(|l| Place { at: l.var.clone(), dim: l.extent, guarded: false }).collect();
        let own = self.element(&node, &at);
        let other = self.value(&loops, 1);
        let value = self.combined(own, other);
        let value = if value.bound > node.bound { self.clamped(value) } else { value };
        let value = self.as_stored(value, node.dtype);
        let at: Vec<String> = at.into_iter().map(|place| place.at).collect();
        self.nest(&loops, &format!("{}[{}] := {}", node.name, at.join(", "), value.text));
    }

    /// Sums, or the greatest or least, along some of the loops.
    fn reduction(&mut self) {
        let mut dims = self.dims();
        let depth = self.extents[3];
        if self.random.bool() && dims.iter().product::<usize>() * depth <= self.most.min(150_000) {
            dims.insert(self.random.usize(..=dims.len()), depth);
        }
        let loops = self.loops(&dims);
        let mut is_kept: Vec<bool> = loops.iter().map(|_| self.random.bool()).collect();
        let first = self.random.usize(..loops.len());
        is_kept[first] = false;
        let [outer, inner] = [true, false].map(|kept| -> Vec<Loop> {
            loops.iter().zip(&is_kept).filter(|(_, is)| **is == kept).map(|(l, _)| l.clone()).collect()
        });
        let depth = self.random.u32(..2);
        let value = self.value(&loops, depth);
        let count: usize = inner.iter().map(|l| l.extent).product();
        match self.one_in(4) {
            true => self.reduced_in_local(&outer, &inner, value),
            false => self.reduced_in_node(&outer, &inner, value, count),
        }
    }

    /// How an accumulator takes a value, and what bounds it then, after so many.
    fn accumulated(&mut self, acc: &str, value: Value, count: usize) -> Value {
        let kind = self.random.u8(..6);
        let value = if value.bound * count as f64 > EXACT { self.clamped(value) } else { value };
        let (text, bound) = (value.text, value.bound.max(3.0));
        match kind {
            // The sign of a zero depends on which comes last.
            0 if self.is_float() => Value { text: format!("max({text} + 0.0f32, {acc})"), bound },
            0 => Value { text: format!("max({text}, {acc})"), bound },
            1 if !self.is_float() => Value { text: format!("min({text}, {acc})"), bound },
            _ => Value { text: format!("{acc} + {text}"), bound: 3.0 + bound * count as f64 },
        }
    }

    fn reduced_in_local(&mut self, outer: &[Loop], inner: &[Loop], value: Value) {
        let local = format!("l{}", self.number(2));
        let count = inner.iter().map(|l| l.extent).product();
        let taken = self.accumulated(&local, value, count);
        let around: String = inner.iter().map(|l| format!("for {} in 0..{} {{ ", l.var, l.extent)).collect();
        let ends = "}".repeat(inner.len());
        let sum = Value { text: local.clone(), bound: taken.bound };
        let stored = self.stored(outer, sum);
        let body = format!(
            "declare {local} {}[] register {around}{local} := {} {ends} {stored}",
            self.dtype, taken.text
        );
        match outer {
            [] => {
                let once = self.loops(&[1]);
                self.nest(&once, &body);
            }
            _ => self.nest(outer, &body),
        }
    }

    fn reduced_in_node(&mut self, outer: &[Loop], inner: &[Loop], value: Value, count: usize) {
        let dims: Vec<usize> = outer.iter().map(|l| l.extent).collect();
        let at: Vec<&str> = outer.iter().map(|l| l.var.as_str()).collect();
        let mut node = self.result(&dims, self.dtype, 0.0);
        let element = format!("{}[{}]", node.name, at.join(", "));
        let taken = self.accumulated(&element, value, count);
        self.begin(&node);
        let mut loops = [outer, inner].concat();
        if self.one_in(4) {
            self.random.shuffle(&mut loops);
        }
        self.nest(&loops, &format!("{element} := {}", taken.text));
        node.bound = taken.bound;
        self.nodes.push(node);
    }

    /// What a node holds before anything is accumulated in it.
    fn begin(&mut self, node: &Node) {
        if self.random.bool() {
            writeln!(self.body, "zero {}", node.name).unwrap();
            return;
        }
        let loops = self.loops(&node.dims);
        let at: Vec<&str> = loops.iter().map(|l| l.var.as_str()).collect();
        let at = format!("{}[{}]", node.name, at.join(", "));
        let value = match self.nodes.iter().find(|bias| bias.bound <= 3.0).cloned() {
            Some(bias) if self.random.bool() => self.read(&bias, &loops).text,
            _ => self.constant(self.dtype),
        };
        self.nest(&loops, &format!("{at} := {value}"));
    }

    /// A factor of a contraction, with a dimension for each of some loops or of windows.
    fn factor(&mut self, side: &Loop, others: &[Loop], ks: &[Loop], dtype: &'static str) -> Value {
        let plain = |l: &Loop| Place { at: l.var.clone(), dim: l.extent, guarded: false };
        if self.one_in(if self.shape == Shape::Tensor { 40 } else { 16 }) {
            return self.looked_up(side, ks, dtype);
        }
        let mut places: Vec<Place> = Vec::new();
        for l in others {
            if self.random.u8(..4) > 0 {
                places.push(plain(l));
            }
        }
        let k = &ks[0];
        match self.random.u8(..if self.shape == Shape::Tensor { 40 } else { 14 }) {
            0 => places.push(window(side, k, 1)),
            1 => places.push(window(side, k, 2)),
            2 => {
                let at = format!("{} + {} - 1", side.var, k.var);
                places.push(Place { at, dim: side.extent, guarded: true });
            }
            3 => {
                let at = format!("{} - {}", side.var, self.random.u8(1..3));
                places.extend([Place { at, dim: side.extent, guarded: true }, plain(k)]);
            }
            _ => places.extend([plain(side), plain(k)]),
        }
        places.extend(ks[1..].iter().map(plain));
        let last = places.len().saturating_sub(2);
        match self.random.u8(..if self.shape == Shape::Tensor { 20 } else { 8 }) {
            0 => self.random.shuffle(&mut places),
            1 => places.reverse(),
            kind if kind % 2 == 0 => places[last..].reverse(),
            _ => {}
        }
        let dims: Vec<usize> = places.iter().map(|place| place.dim).collect();
        let fits: Vec<Node> = self.nodes.iter().filter(|node| node.dims == dims).cloned().collect();
        let fits: Vec<&Node> =
            fits.iter().filter(|node| node.bound <= NARROW && node.dtype == dtype).collect();
        let node = match self.random.choice(fits) {
            Some(node) if self.random.bool() => node.clone(),
            _ => self.input(&dims, dtype),
        };
        let factor = self.element(&node, &places);
        match self.random.u8(..if self.shape == Shape::Tensor { 40 } else { 12 }) {
            0 => Value {
                text: format!("({} + {})", factor.text, self.constant(self.dtype)),
                bound: factor.bound + 3.0,
            },
            _ => factor,
        }
    }

    /// Rows of a table, as computed indices say.
    fn looked_up(&mut self, side: &Loop, ks: &[Loop], dtype: &'static str) -> Value {
        let rows = self.random.usize(1..20);
        let dims: Vec<usize> = [rows].into_iter().chain(ks.iter().map(|k| k.extent)).collect();
        let table = self.input(&dims, dtype);
        let row = self.computed(rows, std::slice::from_ref(side));
        let along: String = ks.iter().map(|k| format!(", {}", k.var)).collect();
        let text = format!("gather({}[{{{row}}}{along}], {})", table.name, self.constant(dtype));
        let text = if dtype == self.dtype { text } else { format!("convert {}({text})", self.dtype) };
        Value { text, bound: 3.0 }
    }

    fn contraction(&mut self) {
        let [batch, rows, columns, depth] = self.extents;
        let batch = if batch > 1 && (batch > 16 || self.random.u8(..4) > 0) { vec![batch] } else { vec![] };
        let batch = self.loops(&batch);
        let [row, column] = <[Loop; 2]>::try_from(self.loops(&[rows, columns])).ok().unwrap();
        let is_deep = self.one_in(if self.shape == Shape::Tensor { 16 } else { 4 });
        let ks = if is_deep { vec![depth, 3] } else { vec![depth] };
        let ks = self.loops(&ks);
        let (mut one, other) = (self.storage(), self.storage());
        if self.shape == Shape::Tensor && self.random.u8(..8) > 0 {
            // The last one is narrow, if one is.
            one = self.stored[self.stored.len() - 1];
        }
        let other = if self.random.u8(..4) > 0 { one } else { other };
        let a = self.factor(&row, &batch, &ks, one);
        let b = self.factor(&column, &batch, &ks, other);
        let count: usize = ks.iter().map(|k| k.extent).product();
        let [a, b] = match a.bound * b.bound * count as f64 > EXACT {
            true => [self.clamped(a), self.clamped(b)],
            false => [a, b],
        };
        let bound = a.bound * b.bound * count as f64 + 3.0;
        let (a, b) = if self.random.bool() { (a.text, b.text) } else { (b.text, a.text) };
        let mut outer = batch;
        outer.extend([row, column]);
        let kept = outer.clone();
        if self.one_in(5) {
            self.random.shuffle(&mut outer);
        }
        match self.random.bool() {
            true => self.products_in_local(&outer, &kept, &ks, [&a, &b], bound),
            false => self.products_in_node(&outer, &kept, &ks, [&a, &b], bound),
        }
    }

    fn products_in_local(
        &mut self,
        outer: &[Loop],
        kept: &[Loop],
        ks: &[Loop],
        [a, b]: [&str; 2],
        bound: f64,
    ) {
        let local = format!("l{}", self.number(2));
        let start = match self.nodes.iter().find(|bias| bias.bound <= 3.0).cloned() {
            Some(bias) if self.one_in(3) => format!("{local} := {}", self.read(&bias, kept).text),
            _ => String::new(),
        };
        let around: String = ks.iter().map(|l| format!("for {} in 0..{} {{ ", l.var, l.extent)).collect();
        let taken = match self.random.u8(..3) {
            0 => format!("fma({a}, {b}, {local})"),
            _ => format!("{local} + {a} * {b}"),
        };
        let ends = "}".repeat(ks.len());
        let mut after = String::new();
        for _ in 0..self.random.u8(1..4) {
            let sum = Value { text: local.clone(), bound };
            let value = match self.random.u8(..3) {
                0 => sum,
                _ => {
                    let other = self.value(kept, 1);
                    let sum = if sum.bound > NARROW { self.clamped(sum) } else { sum };
                    self.combined(sum, other)
                }
            };
            after += &self.stored(kept, value);
            after.push(' ');
        }
        let declare = format!("declare {local} {}[] register", self.dtype);
        self.nest(outer, &format!("{declare} {start} {around}{local} := {taken} {ends} {after}"));
    }

    fn products_in_node(
        &mut self,
        outer: &[Loop],
        kept: &[Loop],
        ks: &[Loop],
        [a, b]: [&str; 2],
        bound: f64,
    ) {
        let dims: Vec<usize> = kept.iter().map(|l| l.extent).collect();
        let at: Vec<&str> = kept.iter().map(|l| l.var.as_str()).collect();
        let mut node = self.result(&dims, self.dtype, 0.0);
        let element = format!("{}[{}]", node.name, at.join(", "));
        self.begin(&node);
        let mut loops = [outer, ks].concat();
        if self.one_in(8) {
            self.random.shuffle(&mut loops);
        }
        self.nest(&loops, &format!("{element} := {element} + {a} * {b}"));
        node.bound = bound;
        if self.random.bool() {
            // What follows element by element.
            let loops = self.loops(&dims);
            let at: Vec<&str> = loops.iter().map(|l| l.var.as_str()).collect();
            let element = format!("{}[{}]", node.name, at.join(", "));
            let other = self.value(&loops, 1);
            let sum = self.clamped(Value { text: element.clone(), bound });
            let value = self.combined(sum, other);
            let value = self.as_stored(value, self.dtype);
            let mut body = format!("{element} := {}", value.text);
            node.bound = value.bound;
            if self.random.bool() {
                let sum = Value { text: element, bound: value.bound };
                write!(body, " {}", self.stored(&loops, sum)).unwrap();
            }
            self.nest(&loops, &body);
        }
        self.nodes.push(node);
    }

    /// An index that is computed, for a dimension of so many elements.
    fn computed(&mut self, dim: usize, loops: &[Loop]) -> String {
        let l = &loops[self.random.usize(..loops.len())];
        if self.one_in(3) {
            return format!("index i32({}) * 2i32 - 1i32", l.var);
        }
        let ids = self.node(&[l.extent], "i32", "on_device", 0.0);
        format!("{}[{}] % {}i32", ids.name, l.var, dim + 2)
    }

    fn gather(&mut self) {
        let dims = self.dims();
        let loops = self.loops(&dims);
        let Some(node) = self.related(&loops).filter(|node| !node.dims.is_empty()) else { return };
        let axis = self.random.usize(..node.dims.len());
        let mut used = Vec::new();
        let mut at: Vec<String> = Vec::new();
        for (nth, &dim) in node.dims.iter().enumerate() {
            at.push(match nth == axis {
                true => format!("{{{}}}", self.computed(dim, &loops)),
                false => {
                    let place = self.place(dim, &loops, &mut used);
                    if place.guarded { self.random.usize(..dim).to_string() } else { place.at }
                }
            });
        }
        let text = format!("gather({}[{}], {})", node.name, at.join(", "), self.constant(node.dtype));
        let text = if node.dtype == self.dtype { text } else { format!("convert {}({text})", self.dtype) };
        let gathered = Value { text, bound: node.bound.max(3.0) };
        let gathered = if gathered.bound > NARROW { self.clamped(gathered) } else { gathered };
        let other = self.value(&loops, 1);
        let value = self.combined(gathered, other);
        let body = self.stored(&loops, value);
        self.nest(&loops, &body);
    }

    fn scatter(&mut self) {
        let dims = self.dims();
        let count: usize = dims.iter().product();
        if count > 20_000 {
            return;
        }
        let loops = self.loops(&dims);
        let mut node = self.result(&dims, self.dtype, 3.0);
        let axis = self.random.usize(..dims.len());
        let value = self.value(&loops, 1);
        let value = self.clamped(value);
        let at: Vec<String> = (0..dims.len())
            .map(|nth| match nth == axis {
                true => format!("{{{}}}", self.computed(dims[nth], &loops)),
                false => loops[nth].var.clone(),
            })
            .collect();
        writeln!(self.body, "zero {}", node.name).unwrap();
        let how = ["", "+", "max"][self.random.usize(..3)];
        let text = if self.is_float() { format!("({} + 0.0f32)", value.text) } else { value.text };
        self.nest(&loops, &format!("scatter {how} {}[{}] := {text}", node.name, at.join(", ")));
        node.bound = 3.0 * count as f64;
        self.nodes.push(node);
    }

    fn step(&mut self) {
        match (self.shape, self.random.u8(..12)) {
            (_, 0) => self.change(),
            (_, 1) => self.gather(),
            (_, 2) => self.scatter(),
            (_, 3) | (Shape::Long, 4..) => self.reduction(),
            (Shape::Turned, _) => self.map(),
            (Shape::Tensor | Shape::Large | Shape::Many, 4..) => self.contraction(),
            (_, 4 | 5) => self.map(),
            _ => self.contraction(),
        }
    }

    /// The codegen, and the text of the routine.
    fn finish(mut self) -> (Ptx, String) {
        for _ in 0..2 {
            let (dims, dtype) = (self.dims(), self.storage());
            self.input(&dims, dtype);
        }
        match self.shape {
            // All it takes is for this.
            Shape::Large => self.contraction(),
            Shape::Turned => self.step(),
            _ => (0..2 + self.random.usize(..4)).for_each(|_| self.step()),
        }
        self.map();
        let Program { class, symbols, body, .. } = &self;
        let mut declared = String::new();
        for (nth, (node, mode)) in self.declared.iter().enumerate() {
            // What no other statement reads is a register, and leaves little to do.
            let is_read = body.lines().any(|line| reads_alone(line, &format!("%{nth}[")));
            writeln!(declared, "{node} {}", if is_read { mode } else { "on_device" }).unwrap();
        }
        let text = format!("routine @tiles {class} {{\n{symbols}{declared}{body}}}");
        (ptx(self.target, self.options), text)
    }
}

/// Whether a line reads an array, and does not store into it.
fn reads_alone(line: &str, array: &str) -> bool {
    let is_stored = |rest: &str| rest.split_once(']').is_some_and(|(_, rest)| rest.starts_with(" :="));
    let mut mentions = line.split(array).skip(1).peekable();
    mentions.peek().is_some() && !mentions.any(is_stored)
}

/// Neighbours from a place on, as convolutions read them.
fn window(side: &Loop, k: &Loop, stride: usize) -> Place {
    let at = match stride {
        1 => format!("{} + {}", side.var, k.var),
        _ => format!("{stride}*{} + {}", side.var, k.var),
    };
    Place { at, dim: stride * (side.extent - 1) + k.extent, guarded: false }
}

/// The batch, rows, columns and depth of a program, and how many iterations a nest may have.
fn extents(shape: Shape, random: &mut Rng) -> ([usize; 4], usize) {
    loop {
        let mut edge = || EDGES[random.usize(..EDGES.len())];
        let [a, b, c] = [edge(), edge(), edge()];
        let (found, most) = match shape {
            Shape::Turned => {
                let tiles = [[1, 8, 8], [2, 8, 4], [4, 4, 4], [16, 2, 2], [64, 1, 1], [1, 16, 4], [32, 1, 2]];
                let [batch, rows, columns] = tiles[random.usize(..7)];
                let mut over = || [0, 0, 0, 1, 4, 17][random.usize(..6)];
                let [rows, columns] = [32 * rows + over(), 32 * columns + over()];
                ([batch, rows, columns, 1], 72_000)
            }
            Shape::Edges => ([random.usize(1..4), a, b, c], 15_000),
            Shape::Many => {
                let batch = random.usize(64..70);
                let mut side = || 4 * random.usize(4..8) + [0, 0, 1, 3][random.usize(..4)];
                let [rows, columns] = [side(), side()];
                ([batch, rows, columns, random.usize(1..20)], 75_000)
            }
            // So many small products that blocks have several tiles.
            Shape::Tensor if random.u8(..6) == 0 => {
                let batch = random.usize(133..140);
                let mut side = || 8 * random.usize(2..4);
                ([batch, side(), side(), 16], 1_400_000)
            }
            Shape::Tensor => {
                let batch = random.usize(1..4);
                let mut side =
                    || 8 * random.usize(2..14) + if random.u8(..12) == 0 { random.usize(1..5) } else { 0 };
                ([batch, side(), side(), side()], 60_000)
            }
            Shape::Long => {
                let (rows, columns) = (random.usize(1..6), [a, 4 * random.usize(1..30)][random.usize(..2)]);
                ([random.usize(1..3), rows, columns, random.usize(256..9000)], 25_000)
            }
            Shape::Large => {
                let mut side = || 8 * random.usize(7..19) + [0, 0, 0, 4][random.usize(..4)];
                let [rows, columns] = [side(), side()];
                let batch = [random.usize(60..70), random.usize(128..140)][random.usize(..2)];
                ([batch, rows, columns, [4, 8, 16, 19, 24][random.usize(..5)]], 8_000_000)
            }
        };
        if found.iter().product::<usize>() <= most {
            return (found, most);
        }
    }
}

/// Runs the program of a seed.
fn check(seed: u64) {
    let (codegen, text) = Program::new(seed).finish();
    programs::check(&codegen, &text, seed);
}

#[test]
fn programs_on_matrices_are_what_is_written() {
    for seed in 0..programs::seeds(8) {
        check(seed);
    }
}

/// How many ways there are.
const WAYS: usize = 9;

/// Which ways of their own the kernels of a program go.
fn ways(seed: u64) -> Vec<&'static str> {
    let (codegen, text) = Program::new(seed).finish();
    let routine = lowered_ir::text::parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    let scheduled = schedule(&routine, codegen.caps(), &ScheduleOptions::default()).unwrap();
    let rendered = codegen.render(&scheduled.kernels).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    let code = ptx_asm::print(&rendered.module);
    let shared = |ir: &str| ir.matches(" workgroup\n").count();
    let mut found = Vec::new();
    for kernel in &scheduled.kernels {
        let ir = lowered_ir::text::print(&kernel.ir);
        let (shared, has_own) = (shared(&ir), ir.contains(" thread\n"));
        found.extend(ir.contains("[32, 33] workgroup").then_some("turned"));
        found.extend((has_own && shared == 2).then_some("tiles"));
        found.extend((has_own && shared == 4).then_some("tiles read ahead"));
    }
    let signs = [
        ("warps' products", "mma.sync"),
        ("warps' copies", "cp.async.cg"),
        ("warpgroups' products", "wgmma.mma_async"),
        ("tiles of results", "cp.async.bulk.tensor.2d.global"),
        ("trees", "shfl.sync"),
    ];
    found.extend(signs.into_iter().filter(|(_, sign)| code.contains(sign)).map(|(way, _)| way));
    found.extend(rendered.launches.iter().any(|launch| launch.cluster > 1).then_some("clusters"));
    found.extend(scheduled.nodes.iter().any(|node| node.name.starts_with("part")).then_some("stages"));
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn programs_go_all_ways() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..96 {
        ways(seed).into_iter().for_each(|way| *seen.entry(way).or_default() += 1);
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), WAYS, "{seen:?}");
}

/// What is left of the matrix has one thread for its row and several for its columns, so the store that follows has a loop of its own.
#[test]
fn a_store_follows_a_piece_of_several_threads() {
    let text = "routine @tiles fast {
                  node %0 \"x\" bf16[48, 64] on_device
                  node %1 \"ids\" i32[48] on_device
                  node %2 \"y\" f32[64, 16, 48] on_device
                  node %3 \"first\" f32[64] on_device
                  for i0 in 0..64 { for i1 in 0..16 { for i2 in 0..48 {
                    %2[i0, i1, i2] := convert f32(gather(%0[{%1[i2] % 50i32}, i0], 1.0bf16))
                  } } }
                  for i3 in 0..64 { %3[i3] := convert f32(%0[0, i3]) }
                }";
    for target in Target::ALL {
        programs::check(&ptx(target, PtxOptions::default()), text, 0);
    }
}
