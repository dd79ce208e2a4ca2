//! What programs mean, as directly as it can be written: the definition that machine code is compared with, bit for bit but for which NaN.

use std::ops::Range as Span;

use half::{bf16, f16};

use crate::check::ProgramError;
use crate::program::{
    Binary, Comparison, Counter, Element, Index, Memory, Op, Place, Program, Range, Stmt, Type, Unary, Value,
    Variable,
};

/// The memory that a program runs on, and its bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// What lies at each base address.
    pub args: Vec<Vec<u8>>,
    /// The value of each binding.
    pub bindings: Vec<i64>,
    /// The scratch memory.
    pub scratch: Vec<u8>,
}

/// Why a program cannot be evaluated on a machine.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// It is no program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An access outside of the memory.
    #[error("{bytes} bytes at {at} of base {base:?} are outside of its {len} bytes")]
    Outside {
        /// Which base; `None` is the scratch memory.
        base: Option<u32>,
        /// From its beginning.
        at: i64,
        /// How many are accessed.
        bytes: usize,
        /// How many there are.
        len: usize,
    },
    /// A base or binding that the machine does not have.
    #[error("the machine has no {0}")]
    Missing(String),
}

/// Runs a program on a machine, with `part` as the range of the loop that has [`Range::Part`].
///
/// # Errors
///
/// If the program does not pass its check, or accesses what the machine does not have. Statements before that were run.
pub fn evaluate(program: &Program, machine: &mut Machine, part: Span<u64>) -> Result<(), EvaluateError> {
    program.check()?;
    let mut run = Run {
        program,
        machine,
        part,
        values: program.values.iter().map(|ty| vec![0; ty.lanes as usize]).collect(),
        variables: program.variables.iter().map(|ty| vec![0; ty.lanes as usize]).collect(),
        counters: vec![0; program.counters as usize],
    };
    run.block(&program.body)
}

struct Run<'a> {
    program: &'a Program,
    machine: &'a mut Machine,
    part: Span<u64>,
    /// Lanes as bits, zero-extended.
    values: Vec<Vec<u64>>,
    variables: Vec<Vec<u64>>,
    counters: Vec<u64>,
}

impl Run<'_> {
    fn block(&mut self, body: &[Stmt]) -> Result<(), EvaluateError> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<(), EvaluateError> {
        match stmt {
            Stmt::Loop { counter, range, body } => {
                let span = match range {
                    Range::To(n) => 0..*n,
                    Range::Part => self.part.clone(),
                };
                for i in span {
                    self.counters[counter.0 as usize] = i;
                    self.block(body)?;
                }
            }
            Stmt::Let { value, op } => {
                let lanes = self.op(self.program.values[value.0 as usize], op)?;
                self.values[value.0 as usize] = lanes;
            }
            Stmt::Set { variable: Variable(variable), start, value } => {
                let lanes = self.values[value.0 as usize].clone();
                let start = *start as usize;
                self.variables[*variable as usize][start..start + lanes.len()].copy_from_slice(&lanes);
            }
            Stmt::Store { place, value, streaming: _ } => {
                let element = self.program.values[value.0 as usize].element;
                for (lane, bits) in self.values[value.0 as usize].clone().into_iter().enumerate() {
                    let stored = to_memory(element, place.memory, bits);
                    let bytes = bytes_of(element, place.memory);
                    self.bytes(place, lane, bytes)?.copy_from_slice(&stored.to_le_bytes()[..bytes]);
                }
            }
            Stmt::Prefetch(_) => {}
        }
        Ok(())
    }

    fn index(&self, index: Index) -> Result<i64, EvaluateError> {
        match index {
            Index::Counter(Counter(c)) => Ok(self.counters[c as usize] as i64),
            Index::Binding(b) => {
                let binding = self.machine.bindings.get(b as usize);
                binding.copied().ok_or_else(|| EvaluateError::Missing(format!("binding {b}")))
            }
        }
    }

    fn affine(&self, offset: i64, terms: &[(Index, i64)]) -> Result<i64, EvaluateError> {
        terms.iter().try_fold(offset, |sum, &(index, coefficient)| {
            Ok(sum.wrapping_add(self.index(index)?.wrapping_mul(coefficient)))
        })
    }

    /// The bytes of one lane.
    fn bytes(&mut self, place: &Place, lane: usize, bytes: usize) -> Result<&mut [u8], EvaluateError> {
        let at = self.affine(place.offset, &place.terms)?.wrapping_add(place.step.wrapping_mul(lane as i64));
        let memory = match place.base {
            None => &mut self.machine.scratch,
            Some(base) => match self.machine.args.get_mut(base as usize) {
                Some(memory) => memory,
                None => return Err(EvaluateError::Missing(format!("base {base}"))),
            },
        };
        let len = memory.len();
        let start = usize::try_from(at).ok();
        start
            .and_then(|start| memory.get_mut(start..start.checked_add(bytes)?))
            .ok_or(EvaluateError::Outside { base: place.base, at, bytes, len })
    }

    fn load(&mut self, place: &Place, lane: usize, element: Element) -> Result<u64, EvaluateError> {
        let bytes = bytes_of(element, place.memory);
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(self.bytes(place, lane, bytes)?);
        Ok(from_memory(element, place.memory, u64::from_le_bytes(word)))
    }

    /// A lane of an operand; a lone lane stands for all.
    fn lane(&self, value: Value, lane: usize) -> u64 {
        let lanes = &self.values[value.0 as usize];
        if lanes.len() == 1 { lanes[0] } else { lanes[lane] }
    }

    fn op(&mut self, ty: Type, op: &Op) -> Result<Vec<u64>, EvaluateError> {
        (0..ty.lanes as usize).map(|lane| self.op_lane(ty.element, op, lane)).collect()
    }

    fn op_lane(&mut self, element: Element, op: &Op, i: usize) -> Result<u64, EvaluateError> {
        let of = |value: Value| self.program.values[value.0 as usize].element;
        Ok(match op {
            Op::Constant(bits) => element.truncate(*bits),
            Op::Load(place) => self.load(place, i, element)?,
            Op::LoadIf { condition, place, otherwise } => match self.lane(*condition, i) {
                0 => self.lane(*otherwise, i),
                _ => self.load(place, i, element)?,
            },
            Op::Get { variable, start } => self.variables[variable.0 as usize][*start as usize + i],
            Op::Slice { of, start } => self.values[of.0 as usize][*start as usize + i],
            Op::Index { offset, terms, step } => {
                let lane = step.wrapping_mul(i as i64);
                element.truncate(self.affine(*offset, terms)?.wrapping_add(lane) as u64)
            }
            Op::Unary(op, a) => unary(*op, element, self.lane(*a, i)),
            Op::Binary(op, a, b) => binary(*op, element, self.lane(*a, i), self.lane(*b, i)),
            Op::Fma(a, b, c) => fma(element, self.lane(*a, i), self.lane(*b, i), self.lane(*c, i)),
            Op::Compare(comparison, a, b) => {
                let holds = compare(*comparison, of(*a), self.lane(*a, i), self.lane(*b, i));
                if holds { element.truncate(u64::MAX) } else { 0 }
            }
            Op::Select(condition, a, b) => match self.lane(*condition, i) {
                0 => self.lane(*b, i),
                _ => self.lane(*a, i),
            },
            Op::Convert(a) => convert(of(*a), element, self.lane(*a, i)),
            Op::Bitcast(a) => self.lane(*a, i),
        })
    }
}

fn bytes_of(element: Element, memory: Memory) -> usize {
    memory.bytes().unwrap_or(element.bytes()) as usize
}

fn from_memory(element: Element, memory: Memory, word: u64) -> u64 {
    match memory {
        Memory::Same | Memory::U8 | Memory::U16 => element.truncate(word),
        Memory::I8 => u64::from(i32::from(word as u8 as i8) as u32),
        Memory::I16 => u64::from(i32::from(word as u16 as i16) as u32),
        Memory::F16 => u64::from(f16::from_bits(word as u16).to_f32().to_bits()),
        Memory::BF16 => (word & 0xffff) << 16,
    }
}

fn to_memory(_element: Element, memory: Memory, bits: u64) -> u64 {
    match memory {
        Memory::Same | Memory::U8 | Memory::I8 | Memory::U16 | Memory::I16 => bits,
        Memory::F16 => u64::from(f16::from_f32(f32::from_bits(bits as u32)).to_bits()),
        Memory::BF16 => u64::from(bf16::from_f32(f32::from_bits(bits as u32)).to_bits()),
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Applies an operation that both float formats have.
macro_rules! float {
    ($element:expr, $operation:expr, $($a:expr),+) => {
        match $element {
            Element::F64 => { let f: fn($(float!(@ty f64 $a)),+) -> f64 = $operation; f($(double($a)),+).to_bits() }
            _ => { let f: fn($(float!(@ty f32 $a)),+) -> f32 = $operation; u64::from(f($(single($a)),+).to_bits()) }
        }
    };
    (@ty $ty:tt $a:expr) => { $ty };
}

fn unary(op: Unary, element: Element, a: u64) -> u64 {
    let sign = 1 << (element.bits() - 1);
    if element.is_float() {
        return match op {
            Unary::Negate => a ^ sign,
            Unary::Absolute => a & !sign,
            Unary::SquareRoot => float!(element, |a| a.sqrt(), a),
            Unary::Floor => float!(element, |a| a.floor(), a),
            Unary::Truncate => float!(element, |a| a.trunc(), a),
            Unary::RoundEven => float!(element, |a| a.round_ties_even(), a),
            Unary::Not => unreachable!("the check refuses it"),
        };
    }
    element.truncate(match op {
        Unary::Negate => a.wrapping_neg(),
        Unary::Absolute if element.is_signed() => element.signed(a).wrapping_abs() as u64,
        Unary::Absolute => a,
        Unary::Not => !a,
        _ => unreachable!("the check refuses it"),
    })
}

fn binary(op: Binary, element: Element, a: u64, b: u64) -> u64 {
    if op == Binary::Maximum {
        return if compare(Comparison::Less, element, b, a) { a } else { b };
    }
    if op == Binary::Minimum {
        return if compare(Comparison::Less, element, a, b) { a } else { b };
    }
    if element.is_float() {
        return match op {
            Binary::Add => float!(element, |a, b| a + b, a, b),
            Binary::Subtract => float!(element, |a, b| a - b, a, b),
            Binary::Multiply => float!(element, |a, b| a * b, a, b),
            _ => float!(element, |a, b| a / b, a, b),
        };
    }
    let amount = (b % u64::from(element.bits())) as u32;
    element.truncate(match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft => a << amount,
        Binary::ShiftRight if element.is_signed() => (element.signed(a) >> amount) as u64,
        Binary::ShiftRight => a >> amount,
        Binary::Divide | Binary::Maximum | Binary::Minimum => {
            unreachable!("the check refuses it, or it is above")
        }
    })
}

fn fma(element: Element, a: u64, b: u64, c: u64) -> u64 {
    float!(element, |a, b, c| a.mul_add(b, c), a, b, c)
}

fn compare(comparison: Comparison, element: Element, a: u64, b: u64) -> bool {
    fn holds<T: PartialOrd>(comparison: Comparison, a: T, b: T) -> bool {
        match comparison {
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b,
        }
    }
    match element {
        Element::F32 => holds(comparison, single(a), single(b)),
        Element::F64 => holds(comparison, double(a), double(b)),
        Element::I32 | Element::I64 => holds(comparison, element.signed(a), element.signed(b)),
        Element::U32 | Element::U64 => holds(comparison, a, b),
    }
}

fn convert(from: Element, to: Element, a: u64) -> u64 {
    /// The number in the element `to`, by Rust's conversions, which are the ones meant.
    macro_rules! number {
        ($x:expr) => {
            match to {
                Element::F32 => u64::from(($x as f32).to_bits()),
                Element::F64 => ($x as f64).to_bits(),
                Element::I32 => u64::from($x as i32 as u32),
                Element::U32 => u64::from($x as u32),
                Element::I64 => $x as i64 as u64,
                Element::U64 => $x as u64,
            }
        };
    }
    match from {
        Element::F32 => number!(single(a)),
        Element::F64 => number!(double(a)),
        Element::I32 | Element::I64 => number!(from.signed(a)),
        Element::U32 | Element::U64 => number!(a),
    }
}
