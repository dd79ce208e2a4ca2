//! The discrete Fourier transform of complex numbers, whose count is a power of [`RADIX`].
//!
//! Each pass over the array computes six stages in blocks that stay in cache, so that 18 stages read memory
//! three times. The factors are inputs: they depend on the count alone, and peers keep them from call to call
//! as well. Source: Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, for stages of a
//! large radix.

use std::fmt::Write as _;

use crate::case::{Case, Init, Node, Operation};

/// The points of the transforms that a pass computes.
const RADIX: usize = 64;
/// How many of these transforms are computed side by side, in vectors. Their values fit into an L1 cache.
const COLUMNS: usize = 32;

pub(super) fn all() -> Vec<Case> {
    vec![fft("fft_262144", 1 << 18)]
}

/// The same case with as few points as two passes need.
#[cfg(test)]
pub(super) fn small() -> Vec<Case> {
    vec![fft("fft_4096", 1 << 12)]
}

fn fft(name: &'static str, count: usize) -> Case {
    let mut nodes = vec![
        Node::input("re", &[count]),
        Node::input("im", &[count]),
        Node::with("c", &[RADIX / 2], Init::Cosines),
        Node::with("s", &[RADIX / 2], Init::Sines),
    ];
    let mut text = String::new();
    for index in 0..count.ilog(RADIX) {
        let pass = Pass { count, index };
        text += &pass.text();
        if !pass.is_last() {
            nodes.push(Node::with(format!("c{index}"), &pass.factors(), Init::Cosines));
            nodes.push(Node::with(format!("s{index}"), &pass.factors(), Init::Sines));
        }
    }
    nodes.extend(["yr", "yi"].map(|name| Node::written(name, &[count])));
    let flops = 5.0 * (count * count.ilog2() as usize) as f64;
    Case::new(name, Operation::Fft, &text, nodes).flops(flops).formulas(|inputs| {
        let [re, im] = transformed(&inputs[0], &inputs[1]);
        vec![re, im]
    })
}

/// A stage of [`RADIX`] in the terms of the prelude's `fft_stage`: transforms of every `count / RADIX`-th
/// element, whose results are multiplied by factors. Column i of these belongs to group i / m; a block of
/// columns lies within a group, or each column is one.
struct Pass {
    count: usize,
    index: u32,
}

impl Pass {
    fn m(&self) -> usize {
        RADIX.pow(self.index)
    }

    fn columns(&self) -> usize {
        self.count / RADIX
    }

    fn groups(&self) -> usize {
        self.columns() / self.m()
    }

    fn is_last(&self) -> bool {
        self.groups() == 1
    }

    /// The shape of the factors: row q and column i are exp(-2πi·qi / n), in blocks if each column is a
    /// group.
    fn factors(&self) -> Vec<usize> {
        match self.index {
            0 => vec![self.columns() / COLUMNS, RADIX, COLUMNS],
            _ => vec![RADIX, self.groups()],
        }
    }

    fn text(&self) -> String {
        let index = self.index;
        let loops = if index == 0 { "b,q,v" } else { "j,b,q,v" };
        let mut text = self.load(loops);
        let stages = RADIX.ilog2();
        for stage in 0..stages {
            let names = |stage: u32| format!("xr{index}_{stage}[{loops}], xi{index}_{stage}[{loops}]");
            let (l, m) = (RADIX >> (stage + 1), 1 << stage);
            let _ =
                writeln!(text, "{} := fft_stage({}, c[h], s[h], {l}, {m})", names(stage + 1), names(stage));
        }
        text + &self.store(["xr", "xi"].map(|part| format!("{part}{index}_{stages}[{loops}]")))
    }

    /// Copies blocks of columns of the input.
    fn load(&self, loops: &str) -> String {
        let (index, columns, m) = (self.index, self.columns(), self.m());
        let [re, im] = match index {
            0 => ["re".to_owned(), "im".to_owned()],
            _ => ["yr", "yi"].map(|part| format!("{part}{}", index - 1)),
        };
        let (group, blocks) = match index {
            0 => (String::new(), columns / COLUMNS),
            _ => (format!("{m}*j + "), m / COLUMNS),
        };
        let ends = format!("b < {blocks}, q < {RADIX}, v < {COLUMNS}");
        let ends = if index == 0 { ends } else { format!("j < {}, {ends}", self.groups()) };
        let load = |part, from| {
            format!(
                "x{part}{index}_0[{loops}] := {from}[{group}{COLUMNS}*b + v + {columns}*q] where {ends}\n"
            )
        };
        load("r", re) + &load("i", im)
    }

    /// Multiplies the transforms by factors, and stores them.
    fn store(&self, [xr, xi]: [String; 2]) -> String {
        let (index, m) = (self.index, self.m());
        let (to, factor) = match index {
            0 => (format!("{RADIX}*({COLUMNS}*b + v) + q"), "b,q,v"),
            _ => (format!("{}*j + {m}*q + {COLUMNS}*b + v", RADIX * m), "q,j"),
        };
        if self.is_last() {
            return format!("yr[{to}] := {xr}\nyi[{to}] := {xi}\n");
        }
        let [c, s] = ["c", "s"].map(|part| format!("{part}{index}[{factor}]"));
        format!("yr{index}[{to}] := {xr} * {c} - {xi} * {s}\nyi{index}[{to}] := {xr} * {s} + {xi} * {c}\n")
    }
}

/// The transform by recursion on even and odd positions.
fn transformed(re: &[f64], im: &[f64]) -> [Vec<f64>; 2] {
    let count = re.len();
    if count == 1 {
        return [re.to_vec(), im.to_vec()];
    }
    let part = |x: &[f64], from: usize| x.iter().skip(from).step_by(2).copied().collect::<Vec<f64>>();
    let [even, odd] = [0, 1].map(|from| transformed(&part(re, from), &part(im, from)));
    let mut y = [vec![0.0; count], vec![0.0; count]];
    for k in 0..count / 2 {
        let (sin, cos) = (-2.0 * std::f64::consts::PI * k as f64 / count as f64).sin_cos();
        let turned = [odd[0][k] * cos - odd[1][k] * sin, odd[0][k] * sin + odd[1][k] * cos];
        for part in 0..2 {
            y[part][k] = even[part][k] + turned[part];
            y[part][k + count / 2] = even[part][k] - turned[part];
        }
    }
    y
}
