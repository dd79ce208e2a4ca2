//! Loop nests over arrays: maps, reductions, lookups.

use std::fmt::Write;

use super::extents::Shape;
use super::program::{Loop, MatrixProgram};
use super::values::{BoundedExpr, DimIndex, EXACT, NARROW, ProgramNode};

impl MatrixProgram {
    /// Some of the extents, in random order.
    pub(crate) fn dims(&mut self) -> Vec<usize> {
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
        let from = if self.shape == Shape::Transposed || self.random.bool() { matrices } else { others };
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

    /// `node[…] := value` of a new node, inside the given loops.
    pub(crate) fn stored(&mut self, loops: &[Loop], value: BoundedExpr) -> String {
        let dtype = self.storage();
        let value = self.as_stored(value, dtype);
        let mut order: Vec<&Loop> = loops.iter().collect();
        if self.random.u8(..if self.shape == Shape::Tensor { 16 } else { 5 }) == 0 {
            self.random.shuffle(&mut order);
        }
        let kinds = if self.shape == Shape::Tensor { 60 } else { 20 };
        let place = |program: &mut MatrixProgram, l: &Loop| match program.random.u8(..kinds) {
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

    pub(crate) fn map(&mut self) {
        let dims = self.dims();
        let mut loops = self.loops(&dims);
        let mut body = String::new();
        let straight = loops.clone();
        for _ in 0..if self.one_in(4) { 2 } else { 1 } {
            let depth = self.random.u32(..if self.shape == Shape::Transposed { 2 } else { 3 });
            let mut value = self.value(&loops, depth);
            if self.shape == Shape::Transposed && self.random.u8(..4) > 0 {
                let transposed = self.transposed(&loops);
                value = self.combined(transposed, value);
            }
            body += &self.stored(&straight, value);
            body.push(' ');
        }
        if self.one_in(3) {
            self.random.shuffle(&mut loops);
        }
        self.nest(&loops, &body);
    }

    /// Updates a node in place.
    pub(crate) fn change(&mut self) {
        let fits = |node: &&ProgramNode| node.dims.iter().product::<usize>() <= 100_000;
        let fitting: Vec<&ProgramNode> = self.nodes.iter().filter(fits).collect();
        let Some(node) = self.random.choice(fitting).cloned() else { return };
        let loops = self.loops(&node.dims);
        let at: Vec<DimIndex> =
            loops.iter().map(|l| DimIndex { at: l.var.clone(), dim: l.extent, guarded: false }).collect();
        let own = self.element(&node, &at);
        let other = self.value(&loops, 1);
        let value = self.combined(own, other);
        let value = if value.bound > node.bound { self.clamped(value) } else { value };
        let value = self.as_stored(value, node.dtype);
        let at: Vec<String> = at.into_iter().map(|place| place.at).collect();
        self.nest(&loops, &format!("{}[{}] := {}", node.name, at.join(", "), value.text));
    }

    /// Sums, maxima or minima along some of the loops.
    pub(crate) fn reduction(&mut self) {
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

    /// The expression for an accumulator after it takes a value, with its bound after `count` values.
    pub(crate) fn accumulated(&mut self, acc: &str, value: BoundedExpr, count: usize) -> BoundedExpr {
        let kind = self.random.u8(..6);
        let value = if value.bound * count as f64 > EXACT { self.clamped(value) } else { value };
        let (text, bound) = (value.text, value.bound.max(3.0));
        match kind {
            // The sign of a zero depends on which operand comes last.
            0 if self.is_float() => BoundedExpr { text: format!("max({text} + 0.0f32, {acc})"), bound },
            0 => BoundedExpr { text: format!("max({text}, {acc})"), bound },
            1 if !self.is_float() => BoundedExpr { text: format!("min({text}, {acc})"), bound },
            _ => BoundedExpr { text: format!("{acc} + {text}"), bound: 3.0 + bound * count as f64 },
        }
    }

    pub(crate) fn reduced_in_local(&mut self, outer: &[Loop], inner: &[Loop], value: BoundedExpr) {
        let local = format!("l{}", self.number(2));
        let count = inner.iter().map(|l| l.extent).product();
        let taken = self.accumulated(&local, value, count);
        let around: String = inner.iter().map(|l| format!("for {} in 0..{} {{ ", l.var, l.extent)).collect();
        let ends = "}".repeat(inner.len());
        let sum = BoundedExpr { text: local.clone(), bound: taken.bound };
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

    pub(crate) fn reduced_in_node(
        &mut self,
        outer: &[Loop],
        inner: &[Loop],
        value: BoundedExpr,
        count: usize,
    ) {
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

    /// Writes the statements that initialize a node before anything is accumulated in it.
    pub(crate) fn begin(&mut self, node: &ProgramNode) {
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

    /// A computed index into a dimension of this extent.
    pub(crate) fn computed(&mut self, dim: usize, loops: &[Loop]) -> String {
        let l = &loops[self.random.usize(..loops.len())];
        if self.one_in(3) {
            return format!("index i32({}) * 2i32 - 1i32", l.var);
        }
        let ids = self.node(&[l.extent], "i32", "on_device", 0.0);
        format!("{}[{}] % {}i32", ids.name, l.var, dim + 2)
    }

    pub(crate) fn gather(&mut self) {
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
        let gathered = BoundedExpr { text, bound: node.bound.max(3.0) };
        let gathered = if gathered.bound > NARROW { self.clamped(gathered) } else { gathered };
        let other = self.value(&loops, 1);
        let value = self.combined(gathered, other);
        let body = self.stored(&loops, value);
        self.nest(&loops, &body);
    }

    pub(crate) fn scatter(&mut self) {
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
}
