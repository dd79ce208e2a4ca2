//! The values that a program reads and computes.

use super::extents::Shape;
use super::program::{Loop, MatrixProgram};

/// Whole numbers up to this magnitude are exact as `f16`, and as `f32` truncated to `tf32`.
pub(crate) const NARROW: f64 = 1024.0;
/// Sums of whole numbers are exact in floats up to this magnitude.
pub(crate) const EXACT: f64 = (1 << 22) as f64;

/// An array of the program.
#[derive(Clone)]
pub(crate) struct ProgramNode {
    pub(crate) name: String,
    pub(crate) dims: Vec<usize>,
    pub(crate) dtype: &'static str,
    /// Bound of the magnitude of its elements, if they are floats.
    pub(crate) bound: f64,
}

/// An expression of the type in which the program computes.
pub(crate) struct BoundedExpr {
    pub(crate) text: String,
    pub(crate) bound: f64,
}

/// The index of an access along one dimension, and the extent of the dimension.
pub(crate) struct DimIndex {
    pub(crate) at: String,
    pub(crate) dim: usize,
    /// Whether the index is in bounds for some iterations only.
    pub(crate) guarded: bool,
}

impl MatrixProgram {
    pub(crate) fn constant(&mut self, dtype: &str) -> String {
        let number = if self.random.bool() { 0 } else { self.random.u8(1..4) };
        if self.dtype == "f32" { format!("{number}.0{dtype}") } else { format!("{number}{dtype}") }
    }

    /// An index into a dimension: mostly the variable of a loop with the dimension's extent.
    pub(crate) fn place(&mut self, dim: usize, loops: &[Loop], used: &mut Vec<String>) -> DimIndex {
        let plain = |at: String| DimIndex { at, dim, guarded: false };
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
            return DimIndex { at: format!("{} {shift}", l.var), dim, guarded: true };
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
            Some(l) => DimIndex { at: l.var, dim, guarded: true },
            None => plain(self.random.usize(..dim).to_string()),
        }
    }

    /// An element of a node, converted to the type in which the program computes.
    pub(crate) fn element(&mut self, node: &ProgramNode, places: &[DimIndex]) -> BoundedExpr {
        let at: Vec<&str> = places.iter().map(|place| place.at.as_str()).collect();
        let element = format!("{}[{}]", node.name, at.join(", "));
        let guard = |place: &DimIndex| format!("0 <= {} < {}, ", place.at, place.dim);
        let guards: String = places.iter().filter(|place| place.guarded).map(guard).collect();
        let element = match guards.as_str() {
            "" => element,
            _ => format!("guarded({guards}{element}, {})", self.constant(node.dtype)),
        };
        let text = match node.dtype == self.dtype {
            true => element,
            false => format!("convert {}({element})", self.dtype),
        };
        let value = BoundedExpr { text, bound: node.bound.max(3.0) };
        if value.bound > NARROW { self.clamped(value) } else { value }
    }

    pub(crate) fn clamped(&self, value: BoundedExpr) -> BoundedExpr {
        match self.is_float() {
            true => BoundedExpr { text: format!("min(max({}, -3.0f32), 3.0f32)", value.text), bound: 3.0 },
            false => value,
        }
    }

    pub(crate) fn read(&mut self, node: &ProgramNode, loops: &[Loop]) -> BoundedExpr {
        let mut used = Vec::new();
        let places: Vec<DimIndex> = node.dims.iter().map(|&dim| self.place(dim, loops, &mut used)).collect();
        self.element(node, &places)
    }

    /// A node that shares dimensions with some loops, if there is one.
    pub(crate) fn related(&mut self, loops: &[Loop]) -> Option<ProgramNode> {
        let related =
            |node: &ProgramNode| node.dims.iter().filter(|&&d| loops.iter().any(|l| l.extent == d)).count();
        let candidates: Vec<ProgramNode> =
            (0..3).filter_map(|_| self.random.choice(&self.nodes).cloned()).collect();
        candidates.into_iter().max_by_key(|node| 2 * related(node) as i64 - node.dims.len() as i64)
    }

    /// An element of a node whose rows lie along another loop.
    pub(crate) fn transposed(&mut self, loops: &[Loop]) -> BoundedExpr {
        let mut order = loops.to_vec();
        order.rotate_right(1);
        if order.len() > 2 && self.random.bool() {
            order.swap(0, 1);
        }
        let dims: Vec<usize> = order.iter().map(|l| l.extent).collect();
        let node = self.found(&dims);
        let places: Vec<DimIndex> =
            order.iter().map(|l| DimIndex { at: l.var.clone(), dim: l.extent, guarded: false }).collect();
        self.element(&node, &places)
    }

    pub(crate) fn leaf(&mut self, loops: &[Loop]) -> BoundedExpr {
        if self.one_in(10) {
            return BoundedExpr { text: self.constant(self.dtype), bound: 3.0 };
        }
        if self.one_in(3) || (self.shape == Shape::Transposed && self.random.bool()) {
            // The node may be transposed.
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
            None => BoundedExpr { text: self.constant(self.dtype), bound: 3.0 },
        }
    }

    pub(crate) fn value(&mut self, loops: &[Loop], depth: u32) -> BoundedExpr {
        if depth == 0 || self.one_in(3) {
            return self.leaf(loops);
        }
        let [a, b] = [(); 2].map(|()| self.value(loops, depth - 1));
        self.combined(a, b)
    }

    pub(crate) fn combined(&mut self, a: BoundedExpr, b: BoundedExpr) -> BoundedExpr {
        let (sum, product, most) = (a.bound + b.bound, a.bound * b.bound, a.bound.max(b.bound));
        let (a, b) = (a.text, b.text);
        match self.random.u8(..7) {
            0 | 1 => BoundedExpr { text: format!("({a} + {b})"), bound: sum },
            2 => BoundedExpr { text: format!("({a} - {b})"), bound: sum },
            3 if product <= NARROW => BoundedExpr { text: format!("({a} * {b})"), bound: product },
            4 => BoundedExpr { text: format!("where({a} < {b}, {b}, {a} + {b})"), bound: sum },
            5 => BoundedExpr { text: format!("min({a}, {b})"), bound: most },
            _ => BoundedExpr { text: format!("max({a}, {b})"), bound: most },
        }
    }

    /// A value converted for storage, which the type represents exactly.
    pub(crate) fn as_stored(&mut self, value: BoundedExpr, dtype: &str) -> BoundedExpr {
        let most = match dtype {
            "bf16" => 256.0,
            _ => NARROW,
        };
        let value = if self.is_float() && value.bound > most { self.clamped(value) } else { value };
        // Signs of zeros are ignored.
        let text = match self.is_float() && value.text.contains(' ') {
            true => format!("({} + 0.0f32)", value.text),
            false => value.text,
        };
        let text = if dtype == self.dtype { text } else { format!("convert {dtype}({text})") };
        BoundedExpr { text, bound: value.bound }
    }
}
