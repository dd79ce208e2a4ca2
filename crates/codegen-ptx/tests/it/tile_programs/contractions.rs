//! Matmuls and other contractions, their operands, and their epilogues.

use std::fmt::Write;

use super::extents::Shape;
use super::program::{Loop, MatrixProgram};
use super::values::{BoundedExpr, DimIndex, EXACT, NARROW, ProgramNode};

impl MatrixProgram {
    /// An operand of a contraction. Each of its dimensions belongs to one loop, or to a window over two
    /// loops.
    pub(crate) fn operand(
        &mut self,
        side: &Loop,
        others: &[Loop],
        ks: &[Loop],
        dtype: &'static str,
    ) -> BoundedExpr {
        let plain = |l: &Loop| DimIndex { at: l.var.clone(), dim: l.extent, guarded: false };
        if self.one_in(if self.shape == Shape::Tensor { 40 } else { 16 }) {
            return self.looked_up(side, ks, dtype);
        }
        let mut places: Vec<DimIndex> = Vec::new();
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
                places.push(DimIndex { at, dim: side.extent, guarded: true });
            }
            3 => {
                let at = format!("{} - {}", side.var, self.random.u8(1..3));
                places.extend([DimIndex { at, dim: side.extent, guarded: true }, plain(k)]);
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
        let fits: Vec<ProgramNode> = self.nodes.iter().filter(|node| node.dims == dims).cloned().collect();
        let fits: Vec<&ProgramNode> =
            fits.iter().filter(|node| node.bound <= NARROW && node.dtype == dtype).collect();
        let node = match self.random.choice(fits) {
            Some(node) if self.random.bool() => node.clone(),
            _ => self.input(&dims, dtype),
        };
        let operand = self.element(&node, &places);
        match self.random.u8(..if self.shape == Shape::Tensor { 40 } else { 12 }) {
            0 => BoundedExpr {
                text: format!("({} + {})", operand.text, self.constant(self.dtype)),
                bound: operand.bound + 3.0,
            },
            _ => operand,
        }
    }

    /// Rows of a table at computed indices (gather).
    pub(crate) fn looked_up(&mut self, side: &Loop, ks: &[Loop], dtype: &'static str) -> BoundedExpr {
        let rows = self.random.usize(1..20);
        let dims: Vec<usize> = [rows].into_iter().chain(ks.iter().map(|k| k.extent)).collect();
        let table = self.input(&dims, dtype);
        let row = self.computed(rows, std::slice::from_ref(side));
        let along: String = ks.iter().map(|k| format!(", {}", k.var)).collect();
        let text = format!("gather({}[{{{row}}}{along}], {})", table.name, self.constant(dtype));
        let text = if dtype == self.dtype { text } else { format!("convert {}({text})", self.dtype) };
        BoundedExpr { text, bound: 3.0 }
    }

    pub(crate) fn contraction(&mut self) {
        let [batch, rows, columns, depth] = self.extents;
        let batch = if batch > 1 && (batch > 16 || self.random.u8(..4) > 0) { vec![batch] } else { vec![] };
        let batch = self.loops(&batch);
        let [row, column] = <[Loop; 2]>::try_from(self.loops(&[rows, columns])).ok().unwrap();
        let is_deep = self.one_in(if self.shape == Shape::Tensor { 16 } else { 4 });
        let ks = if is_deep { vec![depth, 3] } else { vec![depth] };
        let ks = self.loops(&ks);
        let (mut one, other) = (self.storage(), self.storage());
        if self.shape == Shape::Tensor && self.random.u8(..8) > 0 {
            // The last type is the narrow one, if there is one.
            one = self.stored[self.stored.len() - 1];
        }
        let other = if self.random.u8(..4) > 0 { one } else { other };
        let a = self.operand(&row, &batch, &ks, one);
        let b = self.operand(&column, &batch, &ks, other);
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
            true => self.contraction_in_local(&outer, &kept, &ks, [&a, &b], bound),
            false => self.contraction_in_node(&outer, &kept, &ks, [&a, &b], bound),
        }
    }

    pub(crate) fn contraction_in_local(
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
            let sum = BoundedExpr { text: local.clone(), bound };
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

    pub(crate) fn contraction_in_node(
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
            // An elementwise epilogue.
            let loops = self.loops(&dims);
            let at: Vec<&str> = loops.iter().map(|l| l.var.as_str()).collect();
            let element = format!("{}[{}]", node.name, at.join(", "));
            let other = self.value(&loops, 1);
            let sum = self.clamped(BoundedExpr { text: element.clone(), bound });
            let value = self.combined(sum, other);
            let value = self.as_stored(value, self.dtype);
            let mut body = format!("{element} := {}", value.text);
            node.bound = value.bound;
            if self.random.bool() {
                let sum = BoundedExpr { text: element, bound: value.bound };
                write!(body, " {}", self.stored(&loops, sum)).unwrap();
            }
            self.nest(&loops, &body);
        }
        self.nodes.push(node);
    }
}

/// Adjacent elements from a position on, as convolutions read them.
fn window(side: &Loop, k: &Loop, stride: usize) -> DimIndex {
    let at = match stride {
        1 => format!("{} + {}", side.var, k.var),
        _ => format!("{stride}*{} + {}", side.var, k.var),
    };
    DimIndex { at, dim: stride * (side.extent - 1) + k.extent, guarded: false }
}
