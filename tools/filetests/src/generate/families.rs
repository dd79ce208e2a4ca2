//! Families of programs of increasing size, for measuring how compile time depends on the number of
//! statements.
//!
//! Each family has one kind of dependence between statements: they update one node, pass values on, or are
//! independent.

use std::fmt::Write;

use tnode::{DType, MemoryMode, TensorNode};

use super::GeneratedProgram;

/// A family of programs, one for each size.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name in tables and charts.
    pub name: &'static str,
    /// A description of its programs.
    pub about: &'static str,
    /// Makes the program of a given number of statements; in a family of single statements, of operands.
    pub program: fn(usize) -> GeneratedProgram,
}

/// Every family.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "self_updates",
        about: "`x[i] := x[i] * 0.5 + 1`, again and again",
        program: self_updates,
    },
    Family { name: "accumulations", about: "`y[i] += x[i]`, again and again", program: accumulations },
    Family { name: "scalar_updates", about: "`s := s * 0.5 + 1`, again and again", program: scalar_updates },
    Family { name: "elements", about: "each statement stores another element", program: elements },
    Family {
        name: "virtual_chain",
        about: "each node is virtual and made of the one before",
        program: virtual_chain,
    },
    Family { name: "open_chain", about: "a chain of nodes that may be virtual", program: open_chain },
    Family {
        name: "kept_chain",
        about: "each node has memory and is made of the one before",
        program: kept_chain,
    },
    Family { name: "independent", about: "each statement has nodes of its own", program: independent },
    Family { name: "readers", about: "all statements read one node", program: readers },
    Family { name: "shared_virtual", about: "all statements read one virtual node", program: shared_virtual },
    Family { name: "reductions", about: "each statement sums an array of its own", program: reductions },
    Family { name: "fan_in", about: "one statement adds many nodes", program: fan_in },
    Family { name: "long_expression", about: "one statement adds many terms", program: long_expression },
    Family { name: "fills", about: "many nodes are filled and accumulated into", program: fills },
    Family { name: "symbols", about: "each statement reads at a symbol of its own", program: symbols },
    Family { name: "slices", about: "each statement reads a slice of its own", program: slices },
    Family { name: "training", about: "a step of training of a deep network", program: training },
];

/// The family of that name.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

/// The elements of a vector.
const LENGTH: usize = 64;

/// The nodes of a program under construction.
#[derive(Default)]
struct Maker {
    text: String,
    nodes: Vec<TensorNode>,
}

impl Maker {
    fn node(&mut self, label: &str, dims: &[usize], mode: Option<MemoryMode>) {
        let builder = TensorNode::builder(label).dims(dims.iter().copied()).dtype(DType::F32);
        let builder = match mode {
            Some(mode) => builder.mode(mode),
            None => builder,
        };
        self.nodes.push(builder.build().expect("sizes are small"));
    }

    /// A node with memory.
    fn kept(&mut self, label: &str, dims: &[usize]) {
        self.node(label, dims, Some(MemoryMode::Materialized));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn done(self) -> GeneratedProgram {
        GeneratedProgram { text: self.text, nodes: self.nodes }
    }
}

fn repeated(statement: &str, nodes: &[(&str, &[usize])], n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    nodes.iter().for_each(|(label, dims)| maker.kept(label, dims));
    (0..n).for_each(|_| maker.line(format_args!("{statement}")));
    maker.done()
}

fn self_updates(n: usize) -> GeneratedProgram {
    repeated("x[i] := x[i] * 0.5 + 1", &[("x", &[LENGTH])], n)
}

fn accumulations(n: usize) -> GeneratedProgram {
    repeated("y[i] += x[i]", &[("x", &[LENGTH]), ("y", &[LENGTH])], n)
}

fn scalar_updates(n: usize) -> GeneratedProgram {
    repeated("s := s * 0.5 + 1", &[("s", &[])], n)
}

fn elements(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    maker.kept("x", &[LENGTH]);
    maker.kept("y", &[n]);
    (0..n).for_each(|k| maker.line(format_args!("y[{k}] := x[{}] * 2", k % LENGTH)));
    maker.done()
}

fn chain(n: usize, mode: Option<MemoryMode>) -> GeneratedProgram {
    let mut maker = Maker::default();
    maker.kept("t0", &[LENGTH]);
    for k in 1..=n {
        let mode = if k == n { Some(MemoryMode::Materialized) } else { mode };
        maker.node(&format!("t{k}"), &[LENGTH], mode);
        maker.line(format_args!("t{k}[i] := t{}[i] * 0.5 + 1", k - 1));
    }
    maker.done()
}

fn virtual_chain(n: usize) -> GeneratedProgram {
    chain(n, Some(MemoryMode::Virtual))
}

fn open_chain(n: usize) -> GeneratedProgram {
    chain(n, None)
}

fn kept_chain(n: usize) -> GeneratedProgram {
    chain(n, Some(MemoryMode::Materialized))
}

fn independent(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    for k in 0..n {
        maker.kept(&format!("x{k}"), &[LENGTH]);
        maker.kept(&format!("y{k}"), &[LENGTH]);
        maker.line(format_args!("y{k}[i] := x{k}[i] * 0.5"));
    }
    maker.done()
}

fn readers(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    maker.kept("x", &[LENGTH]);
    for k in 0..n {
        maker.kept(&format!("y{k}"), &[LENGTH]);
        maker.line(format_args!("y{k}[i] := x[i] * {k}.5"));
    }
    maker.done()
}

fn shared_virtual(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    maker.kept("x", &[LENGTH]);
    maker.node("t", &[LENGTH], Some(MemoryMode::Virtual));
    maker.line(format_args!("t[i] := exp(x[i])"));
    for k in 0..n {
        maker.kept(&format!("y{k}"), &[LENGTH]);
        maker.line(format_args!("y{k}[i] := t[i] * {k}.5"));
    }
    maker.done()
}

fn reductions(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    for k in 0..n {
        maker.kept(&format!("x{k}"), &[LENGTH]);
        maker.kept(&format!("s{k}"), &[]);
        maker.line(format_args!("s{k} :+= x{k}[i]"));
    }
    maker.done()
}

/// The sum of the terms as a balanced tree, so that expressions do not exceed the depth limit of the text.
fn sum(terms: std::ops::Range<usize>, term: &dyn Fn(usize) -> String) -> String {
    if terms.len() <= 1 {
        return term(terms.start);
    }
    let middle = terms.start + terms.len() / 2;
    format!("({} + {})", sum(terms.start..middle, term), sum(middle..terms.end, term))
}

fn fan_in(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    (0..n).for_each(|k| maker.kept(&format!("x{k}"), &[LENGTH]));
    maker.kept("y", &[LENGTH]);
    let terms = sum(0..n, &|k| format!("x{k}[i]"));
    maker.line(format_args!("y[i] := {terms}"));
    maker.done()
}

fn long_expression(n: usize) -> GeneratedProgram {
    let terms = sum(0..n, &|k| format!("x[i] * {k}.5"));
    repeated(&format!("y[i] := {terms}"), &[("x", &[LENGTH]), ("y", &[LENGTH])], 1)
}

fn fills(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    maker.kept("x", &[LENGTH]);
    for k in 0..n.div_ceil(2) {
        maker.kept(&format!("y{k}"), &[LENGTH]);
        maker.line(format_args!("y{k}[i] := 0 * i"));
        maker.line(format_args!("y{k}[i] += x[i] * x[j]"));
    }
    maker.done()
}

fn symbols(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    maker.kept("x", &[8, LENGTH]);
    for k in 0..n {
        maker.kept(&format!("y{k}"), &[LENGTH]);
        maker.line(format_args!("y{k}[i] := x[@s{k}, i]"));
    }
    maker.done()
}

fn slices(n: usize) -> GeneratedProgram {
    let mut maker = Maker::default();
    maker.kept("x", &[8, LENGTH]);
    for k in 0..n.div_ceil(2) {
        maker.node(&format!("b{k}"), &[LENGTH], None);
        maker.kept(&format!("y{k}"), &[LENGTH]);
        maker.line(format_args!("b{k} := slice(x, @s)"));
        maker.line(format_args!("y{k}[i] := b{k}[i] * 2"));
    }
    maker.done()
}

/// Statements per layer in `training`.
const PER_LAYER: usize = 9;

fn training(n: usize) -> GeneratedProgram {
    const BATCH: usize = 4;
    const WIDTH: usize = 8;
    let mut maker = Maker::default();
    let layers = n.div_ceil(PER_LAYER).max(1);
    maker.kept("a0", &[BATCH, WIDTH]);
    maker.kept("target", &[BATCH, WIDTH]);
    for k in 1..=layers {
        maker.kept(&format!("w{k}"), &[WIDTH, WIDTH]);
        maker.kept(&format!("b{k}"), &[WIDTH]);
        for (label, dims) in [
            (format!("h{k}"), &[BATCH, WIDTH][..]),
            (format!("a{k}"), &[BATCH, WIDTH]),
            (format!("da{k}"), &[BATCH, WIDTH]),
            (format!("dh{k}"), &[BATCH, WIDTH]),
            (format!("dw{k}"), &[WIDTH, WIDTH]),
            (format!("db{k}"), &[WIDTH]),
        ] {
            maker.node(&label, dims, None);
        }
        let before = k - 1;
        maker.line(format_args!("h{k}[b,o] :+= a{before}[b,i] * w{k}[i,o]"));
        maker.line(format_args!("h{k}[b,o] := h{k}[b,o] + b{k}[o]"));
        maker.line(format_args!("a{k}[b,o] := relu(h{k}[b,o])"));
    }
    maker.node("da0", &[BATCH, WIDTH], None);
    maker.line(format_args!("da{layers}[b,o] := (a{layers}[b,o] - target[b,o]) * 0.5"));
    for k in (1..=layers).rev() {
        let before = k - 1;
        maker.line(format_args!("dh{k}[b,o] := relu_gate(a{k}[b,o], da{k}[b,o])"));
        maker.line(format_args!("dw{k}[i,o] :+= a{before}[b,i] * dh{k}[b,o]"));
        maker.line(format_args!("db{k}[o] :+= dh{k}[b,o]"));
        maker.line(format_args!("da{before}[b,i] :+= dh{k}[b,o] * w{k}[i,o]"));
        maker.line(format_args!("w{k}[i,o] -= 0.1 * dw{k}[i,o]"));
        maker.line(format_args!("b{k}[o] -= 0.1 * db{k}[o]"));
    }
    maker.done()
}

#[cfg(test)]
mod tests {
    use assignment_text::parse;

    use super::*;

    #[test]
    fn every_program_is_read_and_has_the_statements_asked_for() {
        for family in FAMILIES {
            let GeneratedProgram { text, nodes } = (family.program)(40);
            parse(&text, &nodes).unwrap_or_else(|error| panic!("{}: {error}", family.name));
            let statements = text.lines().count();
            assert!(statements == 1 || (40..=46).contains(&statements), "{}: {statements}", family.name);
        }
    }
}
