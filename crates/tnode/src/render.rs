//! Host arrays as text for people: aligned columns, with the middle of long axes left out.
//!
//! The last two axes make a grid; each index of the axes before them gets a grid of its own under a line that
//! names the index. All numbers of one array are printed in one style, chosen by the numbers that are shown.

use std::fmt;

use crate::dtype::DType;
use crate::host_array::HostArray;
use crate::scalar::Scalar;

/// How much of an array to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// The maximum number of entries per axis, including the ellipsis. An even number is rounded up to an odd
    /// one, so that as many entries are shown from the end as from the beginning.
    pub entries_per_axis: usize,
    /// Significant digits of floats.
    pub digits: usize,
}

impl Default for RenderOptions {
    fn default() -> RenderOptions {
        RenderOptions { entries_per_axis: 6, digits: 4 }
    }
}

/// Prints like [`HostArray::render`] with the default options.
impl fmt::Display for HostArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(RenderOptions::default()))
    }
}

impl HostArray {
    /// The array as text: a line with type and dimensions, then the values without margins.
    pub fn render(&self, options: RenderOptions) -> String {
        let dims = self.dims_without_padding();
        let entries = options.entries_per_axis.max(2) | 1;
        let (outer, grid) = dims.split_at(dims.len().saturating_sub(2));
        let grids: Vec<(Vec<ShownIndex>, Grid)> = steps_product(outer, entries)
            .into_iter()
            .map(|at| (at.clone(), self.grid(&at, grid, entries)))
            .collect();
        let style = Style::choose(grids.iter().flat_map(|(_, grid)| grid.scalars()), options.digits);
        let width =
            grids.iter().flat_map(|(_, grid)| grid.scalars()).map(|x| style.print(x).chars().count()).max();
        let mut text = format!("{}{dims:?}\n", self.dtype());
        for (at, grid) in &grids {
            if !at.is_empty() {
                text += &format!("{}\n", index_line(at));
            }
            text += &grid.print(style, width.unwrap_or(1));
        }
        text
    }

    /// The last two axes of the values at the outer index `at`. If `at` stands for omitted values, the grid
    /// marks them as left out.
    fn grid(&self, at: &[ShownIndex], dims: &[usize], entries: usize) -> Grid {
        if at.contains(&ShownIndex::Ellipsis) {
            return Grid { rows: Vec::new() };
        }
        let (rows, columns) = match dims {
            [rows, columns] => (steps(*rows, entries), steps(*columns, entries)),
            [columns] => (vec![ShownIndex::At(0)], steps(*columns, entries)),
            _ => (vec![ShownIndex::At(0)], vec![ShownIndex::At(0)]),
        };
        let cell = |row: ShownIndex, column: ShownIndex| {
            let index: Vec<ShownIndex> = match dims.len() {
                2 => at.iter().copied().chain([row, column]).collect(),
                1 => at.iter().copied().chain([column]).collect(),
                _ => at.to_vec(),
            };
            let index: Option<Vec<usize>> = index.into_iter().map(ShownIndex::index).collect();
            index.and_then(|index| self.get(&index).ok())
        };
        Grid {
            rows: rows.iter().map(|&row| columns.iter().map(|&column| cell(row, column)).collect()).collect(),
        }
    }
}

/// An index that is printed along an axis, or the mark for omitted ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownIndex {
    At(usize),
    Ellipsis,
}

impl ShownIndex {
    fn index(self) -> Option<usize> {
        match self {
            ShownIndex::At(index) => Some(index),
            ShownIndex::Ellipsis => None,
        }
    }
}

/// The positions of an axis that are shown: at most `entries`, which is odd.
fn steps(size: usize, entries: usize) -> Vec<ShownIndex> {
    if size <= entries {
        return (0..size).map(ShownIndex::At).collect();
    }
    let side = entries / 2;
    let last = (size - side..size).map(ShownIndex::At);
    (0..side).map(ShownIndex::At).chain([ShownIndex::Ellipsis]).chain(last).collect()
}

/// Every index of the outer axes; where an axis leaves something out, the axes after it leave out everything.
fn steps_product(dims: &[usize], entries: usize) -> Vec<Vec<ShownIndex>> {
    let mut product = vec![Vec::new()];
    for &size in dims {
        let extend = |at: Vec<ShownIndex>| {
            let rest = if at.contains(&ShownIndex::Ellipsis) { vec![] } else { steps(size, entries) };
            match rest.is_empty() && size > 0 {
                true => vec![at],
                false => rest.into_iter().map(|step| [at.as_slice(), &[step]].concat()).collect(),
            }
        };
        product = product.into_iter().flat_map(extend).collect();
    }
    product
}

fn index_line(at: &[ShownIndex]) -> String {
    let parts: Vec<String> =
        at.iter().map(|step| step.index().map_or("…".into(), |i| i.to_string())).collect();
    format!("[{}]", parts.join(", "))
}

/// The shown values of a two-dimensional part; `None` where something is left out.
struct Grid {
    rows: Vec<Vec<Option<Scalar>>>,
}

impl Grid {
    fn scalars(&self) -> impl Iterator<Item = Scalar> {
        self.rows.iter().flatten().copied().flatten()
    }

    fn print(&self, style: Style, width: usize) -> String {
        let cell = |cell: &Option<Scalar>| {
            let text = cell.map_or("…".to_owned(), |x| style.print(x));
            format!("  {text:>width$}")
        };
        self.rows.iter().map(|row| row.iter().map(cell).collect::<String>() + "\n").collect()
    }
}

/// How the numbers of one array are printed.
#[derive(Clone, Copy)]
enum Style {
    /// The text that every text form of the project has for the value.
    Exact,
    /// With this many decimals.
    Fixed(usize),
    /// With this many digits after the first, and an exponent.
    Scientific(usize),
}

impl Style {
    /// Decimals if the magnitudes are moderate and near to each other, else exponents.
    fn choose(shown: impl Iterator<Item = Scalar>, digits: usize) -> Style {
        let digits = digits.clamp(1, 17);
        let (mut least, mut most, mut whole, mut float) = (f64::INFINITY, 0.0f64, true, false);
        for x in shown {
            float |= x.dtype().is_float();
            let magnitude = Some(x.as_f64().abs()).filter(|m| m.is_finite() && *m > 0.0);
            if let Some(magnitude) = magnitude {
                (least, most) = (least.min(magnitude), most.max(magnitude));
                whole &= magnitude.fract() == 0.0;
            }
        }
        if !float {
            return Style::Exact;
        }
        let exponent = if most > 0.0 { most.log10().floor() as i32 } else { 0 };
        if whole && exponent < digits as i32 + 2 {
            return Style::Fixed(1);
        }
        if !(-3..digits as i32 + 2).contains(&exponent) || most / least > 1e3 {
            return Style::Scientific(digits - 1);
        }
        Style::Fixed((digits as i32 - 1 - exponent).max(1) as usize)
    }

    fn print(self, x: Scalar) -> String {
        let value = x.as_f64();
        match self {
            Style::Fixed(decimals) if value.is_finite() => format!("{value:.decimals$}"),
            Style::Scientific(decimals) if value.is_finite() => format!("{value:.decimals$e}"),
            Style::Exact if x.dtype() == DType::Bool => u8::from(x.as_bool()).to_string(),
            _ => x.to_string(),
        }
    }
}
