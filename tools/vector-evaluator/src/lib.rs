//! The reference evaluator of vector programs. Compiled code is compared with it bit for bit, except for the
//! payload and sign of NaN.
#![forbid(unsafe_code)]

use std::ops::Range as Span;

use half::{bf16, f16};
use vector_asm::{
    Binary, Comparison, Counter, CounterSum, Index, LaneType, LoopRange, StoredType, Unary, Value, Variable,
    VectorAddress, VectorOp, VectorProgram, VectorStmt, VectorType,
};

/// The memory and bindings of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluationState {
    /// The memory at each base address.
    pub args: Vec<Vec<u8>>,
    /// The value of each binding.
    pub bindings: Vec<i64>,
    /// The scratch memory.
    pub scratch: Vec<u8>,
}

/// Runs a program, with `call` as the range of the loop that has [`LoopRange::Call`].
///
/// # Errors
///
/// If the program is invalid, or accesses memory or a binding that the state does not have. Statements before
/// the access have run.
pub fn evaluate(
    program: &VectorProgram,
    machine: &mut EvaluationState,
    call: Span<u64>,
) -> Result<(), String> {
    program.check().map_err(|error| error.to_string())?;
    let mut run = Evaluator {
        program,
        machine,
        call,
        values: program.values.iter().map(|ty| vec![0; ty.lanes as usize]).collect(),
        variables: program.variables.iter().map(|ty| vec![0; ty.lanes as usize]).collect(),
        counters: vec![0; program.counters as usize],
    };
    run.block(&program.body)
}

struct Evaluator<'a> {
    program: &'a VectorProgram,
    machine: &'a mut EvaluationState,
    call: Span<u64>,
    /// The bits of each lane, zero-extended.
    values: Vec<Vec<u64>>,
    variables: Vec<Vec<u64>>,
    counters: Vec<u64>,
}

impl Evaluator<'_> {
    fn block(&mut self, body: &[VectorStmt]) -> Result<(), String> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &VectorStmt) -> Result<(), String> {
        match stmt {
            VectorStmt::Loop { counter, range, body } => {
                let span = match range {
                    LoopRange::Constant(n) => 0..*n,
                    LoopRange::Clipped { limit, clips } => 0..self.end(*limit, clips)?,
                    LoopRange::Call => self.call.clone(),
                };
                for i in span {
                    self.counters[counter.0 as usize] = i;
                    self.block(body)?;
                }
            }
            VectorStmt::Let { value, op } => {
                let lanes = self.op(self.program.values[value.0 as usize], op)?;
                self.values[value.0 as usize] = lanes;
            }
            VectorStmt::Set { variable: Variable(variable), start, value } => {
                let lanes = self.values[value.0 as usize].clone();
                let start = *start as usize;
                self.variables[*variable as usize][start..start + lanes.len()].copy_from_slice(&lanes);
            }
            VectorStmt::Store { place, value, streaming: _ } => {
                let element = self.program.values[value.0 as usize].element;
                for (lane, bits) in self.values[value.0 as usize].clone().into_iter().enumerate() {
                    let stored = to_memory(element, place.memory, bits);
                    let bytes = bytes_of(element, place.memory);
                    self.bytes(place, lane, bytes)?.copy_from_slice(&stored.to_le_bytes()[..bytes]);
                }
            }
            VectorStmt::Prefetch(_) => {}
        }
        Ok(())
    }

    /// The end of a loop.
    fn end(&self, limit: u64, clips: &[CounterSum]) -> Result<u64, String> {
        let mut end = limit as i64;
        for clip in clips {
            let mut value = clip.offset;
            for &(index, coefficient) in &clip.terms {
                value = value.wrapping_add(coefficient.wrapping_mul(self.index(index)?));
            }
            end = end.min(value);
        }
        Ok(end.max(0) as u64)
    }

    fn index(&self, index: Index) -> Result<i64, String> {
        match index {
            Index::Counter(Counter(c)) => Ok(self.counters[c as usize] as i64),
            Index::Binding(b) => {
                let binding = self.machine.bindings.get(b as usize);
                binding.copied().ok_or_else(|| format!("the evaluation has no binding {b}"))
            }
        }
    }

    fn affine(&self, offset: i64, terms: &[(Index, i64)]) -> Result<i64, String> {
        terms.iter().try_fold(offset, |sum, &(index, coefficient)| {
            Ok(sum.wrapping_add(self.index(index)?.wrapping_mul(coefficient)))
        })
    }

    /// The bytes of one lane in memory.
    fn bytes(&mut self, place: &VectorAddress, lane: usize, bytes: usize) -> Result<&mut [u8], String> {
        let at = self.affine(place.offset, &place.terms)?.wrapping_add(place.step.wrapping_mul(lane as i64));
        let memory = match place.base {
            None => &mut self.machine.scratch,
            Some(base) => match self.machine.args.get_mut(base as usize) {
                Some(memory) => memory,
                None => return Err(format!("the evaluation has no base {base}")),
            },
        };
        let len = memory.len();
        let start = usize::try_from(at).ok();
        start.and_then(|start| memory.get_mut(start..start.checked_add(bytes)?)).ok_or_else(|| {
            format!("{bytes} bytes at {at} of base {:?} are outside of its {len} bytes", place.base)
        })
    }

    fn load(&mut self, place: &VectorAddress, lane: usize, element: LaneType) -> Result<u64, String> {
        let bytes = bytes_of(element, place.memory);
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(self.bytes(place, lane, bytes)?);
        Ok(from_memory(element, place.memory, u64::from_le_bytes(word)))
    }

    /// A lane of an operand; an operand with one lane is broadcast.
    fn lane(&self, value: Value, lane: usize) -> u64 {
        let lanes = &self.values[value.0 as usize];
        if lanes.len() == 1 { lanes[0] } else { lanes[lane] }
    }

    fn op(&mut self, ty: VectorType, op: &VectorOp) -> Result<Vec<u64>, String> {
        (0..ty.lanes as usize).map(|lane| self.op_lane(ty.element, op, lane)).collect()
    }

    fn op_lane(&mut self, element: LaneType, op: &VectorOp, i: usize) -> Result<u64, String> {
        let of = |value: Value| self.program.values[value.0 as usize].element;
        Ok(match op {
            VectorOp::Constant(bits) => truncate(element, *bits),
            VectorOp::Load(place) => self.load(place, i, element)?,
            VectorOp::LoadIf { condition, place, otherwise } => match self.lane(*condition, i) {
                0 => self.lane(*otherwise, i),
                _ => self.load(place, i, element)?,
            },
            VectorOp::Get { variable, start } => self.variables[variable.0 as usize][*start as usize + i],
            VectorOp::Slice { of, start } => self.values[of.0 as usize][*start as usize + i],
            VectorOp::Index { offset, terms, step } => {
                let lane = step.wrapping_mul(i as i64);
                truncate(element, self.affine(*offset, terms)?.wrapping_add(lane) as u64)
            }
            VectorOp::Unary(op, a) => unary(*op, element, self.lane(*a, i)),
            VectorOp::Binary(op, a, b) => binary(*op, element, self.lane(*a, i), self.lane(*b, i)),
            VectorOp::Fma(a, b, c) => fma(element, self.lane(*a, i), self.lane(*b, i), self.lane(*c, i)),
            VectorOp::Compare(comparison, a, b) => {
                let holds = compare(*comparison, of(*a), self.lane(*a, i), self.lane(*b, i));
                if holds { truncate(element, u64::MAX) } else { 0 }
            }
            VectorOp::Select(condition, a, b) => match self.lane(*condition, i) {
                0 => self.lane(*b, i),
                _ => self.lane(*a, i),
            },
            VectorOp::Convert(a) => convert(of(*a), element, self.lane(*a, i)),
            VectorOp::Bitcast(a) => self.lane(*a, i),
        })
    }
}

fn bytes_of(element: LaneType, memory: StoredType) -> usize {
    memory.bytes().unwrap_or(element.bytes()) as usize
}

fn from_memory(element: LaneType, memory: StoredType, word: u64) -> u64 {
    match memory {
        StoredType::Same | StoredType::U8 | StoredType::U16 => truncate(element, word),
        StoredType::I8 => u64::from(i32::from(word as u8 as i8) as u32),
        StoredType::I16 => u64::from(i32::from(word as u16 as i16) as u32),
        StoredType::F16 => u64::from(f16::from_bits(word as u16).to_f32().to_bits()),
        StoredType::BF16 => (word & 0xffff) << 16,
    }
}

fn to_memory(_element: LaneType, memory: StoredType, bits: u64) -> u64 {
    match memory {
        StoredType::Same | StoredType::U8 | StoredType::I8 | StoredType::U16 | StoredType::I16 => bits,
        StoredType::F16 => u64::from(f16::from_f32(f32::from_bits(bits as u32)).to_bits()),
        StoredType::BF16 => u64::from(bf16::from_f32(f32::from_bits(bits as u32)).to_bits()),
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Applies an operation that both float types have.
macro_rules! float {
    ($element:expr, $operation:expr, $($a:expr),+) => {
        match $element {
            LaneType::F64 => { let f: fn($(float!(@ty f64 $a)),+) -> f64 = $operation; f($(double($a)),+).to_bits() }
            _ => { let f: fn($(float!(@ty f32 $a)),+) -> f32 = $operation; u64::from(f($(single($a)),+).to_bits()) }
        }
    };
    (@ty $ty:tt $a:expr) => { $ty };
}

fn unary(op: Unary, element: LaneType, a: u64) -> u64 {
    let sign = 1 << (element.bits() - 1);
    if element.is_float() {
        return match op {
            Unary::Negate => a ^ sign,
            Unary::Absolute => a & !sign,
            Unary::SquareRoot => float!(element, |a| a.sqrt(), a),
            Unary::Floor => float!(element, |a| a.floor(), a),
            Unary::Truncate => float!(element, |a| a.trunc(), a),
            Unary::RoundEven => float!(element, |a| a.round_ties_even(), a),
            Unary::Not => unreachable!("the check rejects it"),
        };
    }
    truncate(
        element,
        match op {
            Unary::Negate => a.wrapping_neg(),
            Unary::Absolute if element.is_signed() => signed(element, a).wrapping_abs() as u64,
            Unary::Absolute => a,
            Unary::Not => !a,
            _ => unreachable!("the check rejects it"),
        },
    )
}

fn binary(op: Binary, element: LaneType, a: u64, b: u64) -> u64 {
    let takes_second = match op {
        Binary::Maximum => Some(compare(Comparison::Less, element, a, b)),
        Binary::Minimum => Some(compare(Comparison::Less, element, b, a)),
        _ => None,
    };
    if let Some(takes_second) = takes_second {
        return if takes_second || compare(Comparison::NotEqual, element, b, b) { b } else { a };
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
    truncate(
        element,
        match op {
            Binary::Add => a.wrapping_add(b),
            Binary::Subtract => a.wrapping_sub(b),
            Binary::Multiply => a.wrapping_mul(b),
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::ShiftLeft => a << amount,
            Binary::ShiftRight if element.is_signed() => (signed(element, a) >> amount) as u64,
            Binary::ShiftRight => a >> amount,
            Binary::Divide | Binary::Maximum | Binary::Minimum => {
                unreachable!("the check rejects it, or it is above")
            }
        },
    )
}

fn fma(element: LaneType, a: u64, b: u64, c: u64) -> u64 {
    float!(element, |a, b, c| a.mul_add(b, c), a, b, c)
}

fn compare(comparison: Comparison, element: LaneType, a: u64, b: u64) -> bool {
    fn holds<T: PartialOrd>(comparison: Comparison, a: T, b: T) -> bool {
        match comparison {
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b,
        }
    }
    match element {
        LaneType::F32 => holds(comparison, single(a), single(b)),
        LaneType::F64 => holds(comparison, double(a), double(b)),
        LaneType::I32 | LaneType::I64 => holds(comparison, signed(element, a), signed(element, b)),
        LaneType::U32 | LaneType::U64 => holds(comparison, a, b),
    }
}

fn convert(from: LaneType, to: LaneType, a: u64) -> u64 {
    /// Converts a number to the lane type `to` by Rust's `as`, which defines the conversions.
    macro_rules! number {
        ($x:expr) => {
            match to {
                LaneType::F32 => u64::from(($x as f32).to_bits()),
                LaneType::F64 => ($x as f64).to_bits(),
                LaneType::I32 => u64::from($x as i32 as u32),
                LaneType::U32 => u64::from($x as u32),
                LaneType::I64 => $x as i64 as u64,
                LaneType::U64 => $x as u64,
            }
        };
    }
    match from {
        LaneType::F32 => number!(single(a)),
        LaneType::F64 => number!(double(a)),
        LaneType::I32 | LaneType::I64 => number!(signed(from, a)),
        LaneType::U32 | LaneType::U64 => number!(a),
    }
}

/// Clears the bits that a lane has no room for.
fn truncate(lane: LaneType, bits: u64) -> u64 {
    if lane.bits() == 32 { bits & 0xffff_ffff } else { bits }
}

/// Sign-extends a lane of a signed integer.
fn signed(lane: LaneType, bits: u64) -> i64 {
    if lane.bits() == 32 { i64::from(bits as u32 as i32) } else { bits as i64 }
}
