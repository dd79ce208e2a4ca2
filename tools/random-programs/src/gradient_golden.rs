//! Random programs with the gradients that jax computed: a file with one fact per line, each after a keyword.
//!
//! `cargo xtask gradient-goldens` writes the file. Its keywords, in the order of a program:
//! * `program`: the seed, which names the program;
//! * `node`: name, type, sizes, and the margins on both sides of each axis with their declared value, if any;
//! * `values`: the elements of that node before the run, in row-major order; parameters are the nodes of
//!   floats that have values and a line `gradient`;
//! * `symbol`: the name and value of a static symbol;
//! * `text`: a line of assignment text;
//! * `loss`: the value of the node `loss`;
//! * `gradient`: a parameter, and the derivatives of the loss by its elements in row-major order.

use std::fmt;

use tnode::Scalar;

use crate::program::{NodeMode, ProgramNode};

/// A program with its loss and gradients, as another library computed them in `f64`.
#[derive(Clone, Debug, Default)]
pub struct GradientGolden {
    /// The seed that the program was made from.
    pub seed: u64,
    /// The nodes that the text does not make, among them `loss`.
    pub nodes: Vec<ProgramNode>,
    /// The name and value of each static symbol.
    pub symbols: Vec<(String, i64)>,
    /// The assignment text.
    pub text: String,
    /// The value of the node `loss`.
    pub loss: f64,
    /// The name of each parameter, with the derivatives of the loss by its elements in row-major order.
    pub gradients: Vec<(String, Vec<f64>)>,
}

impl GradientGolden {
    /// The value of a static symbol; 0 if the program has none of that name.
    pub fn symbol(&self, name: &str) -> i64 {
        self.symbols.iter().find(|(known, _)| known == name).map_or(0, |&(_, value)| value)
    }
}

/// The programs of the file `goldens/gradients.txt` of this crate.
///
/// # Panics
/// If the file is damaged.
pub fn gradient_goldens() -> Vec<GradientGolden> {
    let lines = include_str!("../goldens/gradients.txt").lines().filter(|line| !line.starts_with('#'));
    lines.fold(Vec::new(), |mut goldens, line| {
        read_line(line, &mut goldens).unwrap_or_else(|| panic!("a damaged line of goldens: {line}"));
        goldens
    })
}

fn read_line(line: &str, goldens: &mut Vec<GradientGolden>) -> Option<()> {
    let (keyword, rest) = line.split_once(' ')?;
    if keyword == "program" {
        goldens.push(GradientGolden { seed: rest.parse().ok()?, ..GradientGolden::default() });
        return Some(());
    }
    let golden = goldens.last_mut()?;
    match keyword {
        "node" => golden.nodes.push(read_node(rest)?),
        "values" => golden.nodes.last_mut()?.set_values(numbers(rest)?),
        "symbol" => {
            let (name, value) = rest.split_once(' ')?;
            golden.symbols.push((name.to_owned(), value.parse().ok()?));
        }
        "text" => golden.text += &format!("{rest}\n"),
        "loss" => golden.loss = rest.parse().ok()?,
        "gradient" => {
            let (name, values) = rest.split_once(' ')?;
            golden.gradients.push((name.to_owned(), numbers(values)?));
        }
        _ => return None,
    }
    Some(())
}

/// Reads `NAME TYPE[SIZES]`, perhaps with `margin WIDTH VALUE` behind it.
fn read_node(text: &str) -> Option<ProgramNode> {
    let (name, rest) = text.split_once(' ')?;
    let (dtype, rest) = rest.split_once('[')?;
    let (dims, margin) = rest.split_once(']')?;
    let dims = dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().ok());
    let mut margin = margin.split_whitespace().skip(1);
    Some(ProgramNode {
        name: name.to_owned(),
        dtype: dtype.parse().ok()?,
        dims: dims.collect::<Option<_>>()?,
        margin: margin.next().map_or(Some(0), |width| width.parse().ok())?,
        neutral: margin.next().and_then(|value| value.parse().ok()),
        mode: NodeMode::Undecided,
        data: None,
    })
}

fn numbers(text: &str) -> Option<Vec<f64>> {
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}

fn scalar_bits(value: Scalar) -> u64 {
    let mut bytes = [0; 8];
    value.write(&mut bytes[..value.dtype().size_bytes()]).expect("a type of at most 8 bytes");
    u64::from_le_bytes(bytes)
}

impl ProgramNode {
    /// The elements that the host writes before the first run, in row-major order; `None` if it writes none.
    pub fn values(&self) -> Option<Vec<f64>> {
        let value = |&bits: &u64| Scalar::new(self.dtype, bits.into()).as_f64();
        Some(self.data.as_ref()?.iter().map(value).collect())
    }

    /// Replaces the elements that the host writes before the first run.
    pub fn set_values(&mut self, values: impl IntoIterator<Item = f64>) {
        let bits = |value| scalar_bits(Scalar::from_f64(self.dtype, value));
        self.data = Some(values.into_iter().map(bits).collect());
    }
}

/// A number with ten significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

fn write_numbers(f: &mut fmt::Formatter<'_>, numbers: &[f64]) -> fmt::Result {
    for &number in numbers {
        let number = rounded(number);
        // `{:?}` writes small numbers with an exponent, and whole numbers with a fraction.
        let text = format!("{number:?}");
        write!(f, " {}", text.strip_suffix(".0").unwrap_or(&text))?;
    }
    writeln!(f)
}

/// Writes the lines of one program. Floats have ten significant digits.
impl fmt::Display for GradientGolden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {}", self.seed)?;
        for node in &self.nodes {
            let dims: Vec<String> = node.dims.iter().map(usize::to_string).collect();
            write!(f, "node {} {}[{}]", node.name, node.dtype, dims.join(","))?;
            if node.margin > 0 {
                write!(f, " margin {}", node.margin)?;
                node.neutral.map_or(Ok(()), |value| write!(f, " {value}"))?;
            }
            writeln!(f)?;
            if let Some(values) = node.values() {
                write!(f, "values")?;
                write_numbers(f, &values)?;
            }
        }
        for (name, value) in &self.symbols {
            writeln!(f, "symbol {name} {value}")?;
        }
        for line in self.text.lines() {
            writeln!(f, "text {line}")?;
        }
        write!(f, "loss")?;
        write_numbers(f, &[self.loss])?;
        for (name, values) in &self.gradients {
            write!(f, "gradient {name}")?;
            write_numbers(f, values)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_goldens_are_read_back() {
        let file = include_str!("../goldens/gradients.txt");
        let programs = file.split_once("program ").map_or("", |(comment, _)| &file[comment.len()..]);
        let written: String = gradient_goldens().iter().map(GradientGolden::to_string).collect();
        assert_eq!(written, programs);
        assert!(written.len() < 400_000, "the goldens are larger than a test needs: {}", written.len());
    }
}
