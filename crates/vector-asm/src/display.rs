//! Programs as text, for dumps and failing tests.

use std::fmt;

use crate::program::{Counter, Element, Index, Op, Place, Program, Range, Stmt, Type, Value, Variable};

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

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl fmt::Display for Type {
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

impl fmt::Display for Place {
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

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Constant(bits) => write!(f, "{bits:#x}"),
            Op::Load(place) => write!(f, "{place}"),
            Op::LoadIf { condition, place, otherwise } => {
                write!(f, "if {condition} then {place} else {otherwise}")
            }
            Op::Get { variable, start } => write!(f, "{variable}[{start}..]"),
            Op::Slice { of, start } => write!(f, "{of}[{start}..]"),
            Op::Index { offset, terms, step } => {
                f.write_str("index ")?;
                affine(f, *offset, terms)?;
                write!(f, " + {step}·lane")
            }
            Op::Unary(op, a) => write!(f, "{op:?} {a}"),
            Op::Binary(op, a, b) => write!(f, "{op:?} {a}, {b}"),
            Op::Fma(a, b, c) => write!(f, "Fma {a}, {b}, {c}"),
            Op::Compare(comparison, a, b) => write!(f, "{comparison:?} {a}, {b}"),
            Op::Select(condition, a, b) => write!(f, "Select {condition}, {a}, {b}"),
            Op::Convert(a) => write!(f, "Convert {a}"),
            Op::Bitcast(a) => write!(f, "Bitcast {a}"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ty) in self.variables.iter().enumerate() {
            writeln!(f, "var {} {ty}", Variable(i as u32))?;
        }
        block(self, f, &self.body, 0)
    }
}

fn block(program: &Program, f: &mut fmt::Formatter<'_>, body: &[Stmt], depth: usize) -> fmt::Result {
    for stmt in body {
        write!(f, "{:1$}", "", 2 * depth)?;
        match stmt {
            Stmt::Loop { counter, range, body } => {
                match range {
                    Range::To(n) => writeln!(f, "for {counter} in 0..{n} {{")?,
                    Range::Part => writeln!(f, "for {counter} in part {{")?,
                }
                block(program, f, body, depth + 1)?;
                writeln!(f, "{:1$}}}", "", 2 * depth)?;
            }
            Stmt::Let { value, op } => match program.values.get(value.0 as usize) {
                Some(ty) => writeln!(f, "{value} {ty} := {op}")?,
                None => writeln!(f, "{value} := {op}")?,
            },
            Stmt::Set { variable, start, value } => writeln!(f, "{variable}[{start}..] := {value}")?,
            Stmt::Store { place, value, streaming: false } => writeln!(f, "{place} := {value}")?,
            Stmt::Store { place, value, streaming: true } => writeln!(f, "{place} := {value} streaming")?,
            Stmt::Prefetch(place) => writeln!(f, "prefetch {place}")?,
        }
    }
    Ok(())
}
