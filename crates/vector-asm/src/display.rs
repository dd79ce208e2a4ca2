//! Programs as text, for dumps and failing tests.

use std::fmt;

use crate::program::{
    Counter, CounterSum, Index, LaneType, LoopRange, Value, Variable, VectorAddress, VectorOp, VectorProgram,
    VectorStmt, VectorType,
};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

impl fmt::Display for LaneType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl fmt::Display for VectorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.element, self.lanes)
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Index::Counter(counter) => counter.fmt(f),
            Index::Binding(binding) => write!(f, "@{binding}"),
        }
    }
}

fn affine(f: &mut fmt::Formatter<'_>, offset: i64, terms: &[(Index, i64)]) -> fmt::Result {
    write!(f, "{offset}")?;
    terms.iter().try_for_each(|(index, coefficient)| write!(f, " + {coefficient}·{index}"))
}

impl fmt::Display for CounterSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        affine(f, self.offset, &self.terms)
    }
}

impl fmt::Display for VectorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Some(base) => write!(f, "arg{base}[")?,
            None => f.write_str("scratch[")?,
        }
        affine(f, self.offset, &self.terms)?;
        write!(f, " step {}]", self.step)?;
        if self.memory.bytes().is_some() { write!(f, " as {:?}", self.memory) } else { Ok(()) }
    }
}

impl fmt::Display for VectorOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorOp::Constant(bits) => write!(f, "{bits:#x}"),
            VectorOp::Load(place) => write!(f, "{place}"),
            VectorOp::LoadIf { condition, place, otherwise } => {
                write!(f, "if {condition} then {place} else {otherwise}")
            }
            VectorOp::Get { variable, start } => write!(f, "{variable}[{start}..]"),
            VectorOp::Slice { of, start } => write!(f, "{of}[{start}..]"),
            VectorOp::Index { offset, terms, step } => {
                f.write_str("index ")?;
                affine(f, *offset, terms)?;
                write!(f, " + {step}·lane")
            }
            VectorOp::Unary(op, a) => write!(f, "{op:?} {a}"),
            VectorOp::Binary(op, a, b) => write!(f, "{op:?} {a}, {b}"),
            VectorOp::Fma(a, b, c) => write!(f, "Fma {a}, {b}, {c}"),
            VectorOp::Compare(comparison, a, b) => write!(f, "{comparison:?} {a}, {b}"),
            VectorOp::Select(condition, a, b) => write!(f, "Select {condition}, {a}, {b}"),
            VectorOp::Convert(a) => write!(f, "Convert {a}"),
            VectorOp::Bitcast(a) => write!(f, "Bitcast {a}"),
        }
    }
}

impl fmt::Display for VectorProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ty) in self.variables.iter().enumerate() {
            writeln!(f, "var {} {ty}", Variable(i as u32))?;
        }
        block(self, f, &self.body, 0)
    }
}

fn block(
    program: &VectorProgram,
    f: &mut fmt::Formatter<'_>,
    body: &[VectorStmt],
    depth: usize,
) -> fmt::Result {
    for stmt in body {
        write!(f, "{:1$}", "", 2 * depth)?;
        match stmt {
            VectorStmt::Loop { counter, range, body } => {
                match range {
                    LoopRange::Constant(n) => writeln!(f, "for {counter} in 0..{n} {{")?,
                    LoopRange::Clipped { limit, clips } => {
                        write!(f, "for {counter} in 0..min({limit}")?;
                        clips.iter().try_for_each(|clip| write!(f, ", {clip}"))?;
                        writeln!(f, ") {{")?;
                    }
                    LoopRange::Call => writeln!(f, "for {counter} in begin..end {{")?,
                }
                block(program, f, body, depth + 1)?;
                writeln!(f, "{:1$}}}", "", 2 * depth)?;
            }
            VectorStmt::Let { value, op } => match program.values.get(value.0 as usize) {
                Some(ty) => writeln!(f, "{value} {ty} := {op}")?,
                None => writeln!(f, "{value} := {op}")?,
            },
            VectorStmt::Set { variable, start, value } => writeln!(f, "{variable}[{start}..] := {value}")?,
            VectorStmt::Store { place, value, streaming: false } => writeln!(f, "{place} := {value}")?,
            VectorStmt::Store { place, value, streaming: true } => {
                writeln!(f, "{place} := {value} streaming")?
            }
            VectorStmt::Prefetch(place) => writeln!(f, "prefetch {place}")?,
        }
    }
    Ok(())
}
