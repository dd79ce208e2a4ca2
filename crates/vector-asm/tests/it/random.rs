//! Random programs with every operation, lane type, number of lanes, loop shape and address shape, compared
//! with the evaluator bit for bit.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{Failure, try_check};
use proptest::prelude::*;
use random_programs::Choices;
use vector_asm::{
    Binary, Comparison, Counter, CounterSum, Index, LaneType, LoopRange, StoredType, Unary, Value, Variable,
    VectorAddress, VectorBuilder, VectorOp, VectorProgram, VectorType,
};
use vector_evaluator::EvaluationState;

/// Bytes of each array. Addresses stay within it.
const BYTES: i64 = 8192;
const ARGS: u32 = 4;
/// The index of the array that is only read.
const READ_ONLY: u32 = 3;
const ELEMENTS: [LaneType; 6] =
    [LaneType::F32, LaneType::F64, LaneType::I32, LaneType::U32, LaneType::I64, LaneType::U64];

/// Samples a program; holds the values, variables and counters that are visible.
struct ProgramSampler<'a> {
    choices: Choices<'a>,
    builder: VectorBuilder,
    values: Vec<Value>,
    variables: Vec<(Variable, VectorType)>,
    /// Open loops: the counter and its largest value.
    loops: Vec<(Counter, i64)>,
    part: i64,
}

impl ProgramSampler<'_> {
    fn ty(&mut self) -> VectorType {
        let element = *self.choices.pick(&ELEMENTS);
        let lanes = match self.choices.below(4) {
            0 => 1,
            1 => *self.choices.pick(&[2, 4, 8, 16, 32, 64]),
            _ => 1 + self.choices.below(70) as u32,
        };
        VectorType::new(element, lanes)
    }

    /// Samples an address that stays within its array for all values of the counters.
    fn place(&mut self, ty: VectorType, write: bool) -> VectorAddress {
        let base = match self.choices.below(ARGS as usize + 1) as u32 {
            ARGS => None,
            READ_ONLY if write => Some(0),
            base => Some(base),
        };
        let memory = match ty.element {
            LaneType::I32 => *self.choices.pick(&[
                StoredType::Same,
                StoredType::Same,
                StoredType::U8,
                StoredType::I8,
                StoredType::U16,
                StoredType::I16,
            ]),
            LaneType::U32 => *self.choices.pick(&[StoredType::Same, StoredType::U8, StoredType::U16]),
            LaneType::F32 => {
                *self.choices.pick(&[StoredType::Same, StoredType::Same, StoredType::F16, StoredType::BF16])
            }
            _ => StoredType::Same,
        };
        let size = i64::from(memory.bytes().unwrap_or(ty.element.bytes()));
        let step = match self.choices.below(6) {
            0 if !write => 0,
            1 => size * *self.choices.pick(&[2, 3, 7]),
            2 => -size,
            _ => size,
        };
        let span = step * (i64::from(ty.lanes) - 1);
        let (mut low, mut high) = (span.min(0), span.max(0) + size);
        let mut terms = Vec::new();
        for (counter, most) in self.loops.clone() {
            let coefficient = match self.choices.below(4) {
                0 => continue,
                1 => size,
                2 => 32,
                _ => *self.choices.pick(&[-4, 8, 64, 128]),
            };
            if high - low + (coefficient * most).abs() > BYTES {
                continue;
            }
            low += (coefficient * most).min(0);
            high += (coefficient * most).max(0);
            terms.push((Index::Counter(counter), coefficient));
        }
        if self.choices.below(8) == 0 && high - low + 12 <= BYTES {
            terms.push((Index::Binding(0), 4));
            high += 12;
        }
        let room = (BYTES - (high - low)) / size;
        // The access begins at the start of the array, at the last possible position, or at a random one.
        let at = match self.choices.below(3) {
            0 => 0,
            1 => room,
            _ => (self.choices.word() % (room as u64 + 1)) as i64,
        };
        VectorAddress { base, offset: at * size - low, terms, step, memory }
    }

    /// A visible value of a type or of its lane type with one lane; a new constant if there is none.
    fn operand(&mut self, element: LaneType, lanes: u32) -> Value {
        let fits: Vec<Value> = self
            .values
            .iter()
            .copied()
            .filter(|value| {
                let ty = self.builder.ty(*value);
                ty.element == element && (ty.lanes == lanes || ty.lanes == 1)
            })
            .collect();
        if !fits.is_empty() && self.choices.below(8) > 0 {
            let recent = fits.len().min(6);
            return fits[fits.len() - 1 - self.choices.below(recent)];
        }
        let ty = VectorType::new(element, if self.choices.below(2) == 0 { lanes } else { 1 });
        if self.choices.below(3) == 0 {
            let bits = self.bits(element);
            return self.keep(ty, VectorOp::Constant(bits));
        }
        let place = self.place(ty, false);
        self.keep(ty, VectorOp::Load(place))
    }

    fn bits(&mut self, element: LaneType) -> u64 {
        let number =
            *self.choices.pick(&[0.0, 1.0, -1.0, 0.5, 3e9, -3e9, 5e9, 1e-40, f64::NAN, f64::INFINITY, 2.0]);
        match element {
            LaneType::F32 => u64::from((number as f32).to_bits()),
            LaneType::F64 => number.to_bits(),
            _ => {
                *self.choices.pick(&[0, 1, 31, 32, 63, 5, u64::MAX, 1 << 31, 1 << 63, 0x1234_5678_9abc_def0])
            }
        }
    }

    fn keep(&mut self, ty: VectorType, op: VectorOp) -> Value {
        let value = self.builder.define(ty, op);
        self.values.push(value);
        value
    }

    fn define(&mut self) {
        let ty = self.ty();
        let VectorType { element, lanes } = ty;
        let operation = self.choices.below(16);
        let op = match operation {
            0 => VectorOp::Constant(self.bits(element)),
            1 | 2 => VectorOp::Load(self.place(ty, false)),
            3 => {
                let size = i64::from(element.bytes());
                let step = if self.choices.below(4) == 0 { 0 } else { size };
                let place = VectorAddress { step, memory: StoredType::Same, ..self.place(ty, false) };
                if place.offset < 0 || place.offset + size * i64::from(lanes) > BYTES / 2 {
                    return;
                }
                let condition = self.condition(element, lanes);
                let place = VectorAddress { terms: Vec::new(), ..place };
                VectorOp::LoadIf { condition, place, otherwise: self.operand(element, lanes) }
            }
            4 | 5 => {
                let variables: Vec<_> =
                    self.variables.iter().filter(|(_, t)| t.element == element).copied().collect();
                if variables.is_empty() {
                    return;
                }
                let (variable, of) = *self.choices.pick(&variables);
                let lanes = lanes.min(of.lanes);
                let start = self.choices.below((of.lanes - lanes) as usize + 1) as u32;
                self.keep(VectorType::new(element, lanes), VectorOp::Get { variable, start });
                return;
            }
            6 => {
                let Some(&of) = self.values.last() else { return };
                let from = self.builder.ty(of);
                let lanes = lanes.min(from.lanes);
                let start = self.choices.below((from.lanes - lanes) as usize + 1) as u32;
                self.keep(VectorType::new(from.element, lanes), VectorOp::Slice { of, start });
                return;
            }
            7 if !element.is_float() => {
                let terms = self.loops.iter().map(|(c, _)| (Index::Counter(*c), 3)).collect();
                VectorOp::Index { offset: -5, terms, step: 7 }
            }
            8 if element.is_float() => {
                let a = self.operand(element, lanes);
                VectorOp::Fma(a, self.operand(element, lanes), self.operand(element, lanes))
            }
            9 => {
                let comparison = *self.choices.pick(&[
                    Comparison::Less,
                    Comparison::LessEqual,
                    Comparison::Equal,
                    Comparison::NotEqual,
                ]);
                let integer = if element.bits() == 32 { LaneType::I32 } else { LaneType::I64 };
                let a = self.operand(element, lanes);
                let b = self.operand(element, lanes);
                self.keep(VectorType::new(integer, lanes), VectorOp::Compare(comparison, a, b));
                return;
            }
            10 => {
                let condition = self.condition(element, lanes);
                let a = self.operand(element, lanes);
                VectorOp::Select(condition, a, self.operand(element, lanes))
            }
            11 => {
                let from = *self.choices.pick(&ELEMENTS);
                VectorOp::Convert(self.operand(from, lanes))
            }
            12 => {
                let same: Vec<LaneType> =
                    ELEMENTS.into_iter().filter(|e| e.bits() == element.bits()).collect();
                let from = *self.choices.pick(&same);
                VectorOp::Bitcast(self.operand(from, lanes))
            }
            13 => {
                let a = self.operand(element, lanes);
                let floats = [
                    Unary::Negate,
                    Unary::Absolute,
                    Unary::SquareRoot,
                    Unary::Floor,
                    Unary::Truncate,
                    Unary::RoundEven,
                ];
                let integers = [Unary::Negate, Unary::Absolute, Unary::Not];
                VectorOp::Unary(*self.choices.pick(if element.is_float() { &floats } else { &integers }), a)
            }
            _ => {
                use Binary::{
                    Add, And, Divide, Maximum, Minimum, Multiply, Or, ShiftLeft, ShiftRight, Subtract, Xor,
                };
                let floats = [Add, Subtract, Multiply, Divide, Maximum, Minimum];
                let integers =
                    [Add, Subtract, Multiply, Maximum, Minimum, And, Or, Xor, ShiftLeft, ShiftRight];
                let op = *self.choices.pick(if element.is_float() { &floats[..] } else { &integers });
                let a = self.operand(element, lanes);
                VectorOp::Binary(op, a, self.operand(element, lanes))
            }
        };
        self.keep(ty, op);
    }

    fn condition(&mut self, element: LaneType, lanes: u32) -> Value {
        let a = self.operand(element, lanes);
        let b = self.operand(element, lanes);
        let lanes = self.builder.ty(a).lanes.max(self.builder.ty(b).lanes);
        let integer = if element.bits() == 32 { LaneType::I32 } else { LaneType::I64 };
        self.keep(VectorType::new(integer, lanes), VectorOp::Compare(Comparison::Less, a, b))
    }

    fn statement(&mut self, depth: u64) {
        match self.choices.below(12) {
            0 if depth < 3 => self.enter(depth),
            1..=3 => {
                let Some(value) = self.recent() else { return };
                let ty = self.builder.ty(value);
                let place = self.place(ty, true);
                if self.choices.below(4) == 0 {
                    self.builder.store_streaming(place, value);
                } else {
                    self.builder.store(place, value);
                }
            }
            4 | 5 => {
                let Some(value) = self.recent() else { return };
                let ty = self.builder.ty(value);
                let fits: Vec<_> = self
                    .variables
                    .iter()
                    .filter(|(_, t)| t.element == ty.element && t.lanes >= ty.lanes)
                    .copied()
                    .collect();
                if fits.is_empty() {
                    return;
                }
                let (variable, of) = *self.choices.pick(&fits);
                let room = (of.lanes - ty.lanes) as usize;
                let start = if self.choices.below(2) == 0 { 0 } else { self.choices.below(room + 1) };
                self.builder.insert_lanes(variable, start as u32, value);
            }
            _ => self.define(),
        }
    }

    fn recent(&mut self) -> Option<Value> {
        let recent = self.values.len().min(5);
        if recent == 0 {
            return None;
        }
        Some(self.values[self.values.len() - 1 - self.choices.below(recent)])
    }

    /// An end of a loop, over the counters of enclosing loops and the binding.
    fn clip(&mut self) -> CounterSum {
        let offset = self.choices.below(8) as i64 - 2;
        let mut indices: Vec<Index> = self.loops.iter().map(|&(counter, _)| counter.into()).collect();
        indices.push(Index::Binding(0));
        indices.retain(|_| self.choices.below(2) == 0);
        let terms = indices.into_iter().map(|index| (index, self.choices.below(5) as i64 - 2)).collect();
        CounterSum { offset, terms }
    }

    fn enter(&mut self, depth: u64) {
        let part = depth == 0 && self.part == 0 && self.choices.below(3) == 0;
        let trips = *self.choices.pick(&[0, 1, 2, 3, 4, 5, 7, 9, 13]);
        let (range, most) = if part {
            self.part = 1;
            (LoopRange::Call, 9)
        } else if self.choices.below(3) == 0 {
            let clips = (0..1 + self.choices.below(2)).map(|_| self.clip()).collect();
            (LoopRange::Clipped { limit: trips, clips }, trips as i64 - 1)
        } else {
            (LoopRange::Constant(trips), trips as i64 - 1)
        };
        let counter = self.builder.begin(range);
        self.loops.push((counter, most.max(0)));
        let visible = self.values.len();
        let statements = 1 + self.choices.below(10);
        for _ in 0..statements {
            self.statement(depth + 1);
        }
        self.values.truncate(visible);
        self.loops.pop();
        self.builder.end();
    }
}

/// The program that a list of bytes determines.
fn program(bytes: &[u8]) -> VectorProgram {
    let choices = Choices::new(bytes);
    let mut draw = ProgramSampler {
        choices,
        builder: VectorBuilder::new(),
        values: Vec::new(),
        variables: Vec::new(),
        loops: Vec::new(),
        part: 0,
    };
    for _ in 0..draw.choices.below(5) {
        let ty = draw.ty();
        let variable = draw.builder.variable(ty);
        draw.variables.push((variable, ty));
    }
    while !draw.choices.is_done() {
        draw.statement(0);
    }
    // Stores the final values of all variables.
    for (i, (variable, ty)) in draw.variables.clone().into_iter().enumerate() {
        let value = draw.builder.get(variable);
        draw.builder.store(VectorAddress::scratch(ty.element).plus(i as i64 * 576), value);
    }
    draw.builder.finish()
}

/// Memory with numbers of all formats and random bits.
fn machine(seed: u64) -> EvaluationState {
    let mut state = seed | 1;
    let mut fill = || -> Vec<u8> {
        let mut bytes = Vec::new();
        while (bytes.len() as i64) < BYTES {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = state >> 16;
            let number = (random % 2000) as f64 / 16.0 - 60.0;
            match random >> 40 & 7 {
                0..=3 => bytes.extend((number as f32).to_le_bytes().repeat(2)),
                4 | 5 => bytes.extend(number.to_le_bytes()),
                6 => bytes.extend(random.to_le_bytes()),
                _ => bytes.extend(state.to_le_bytes()),
            }
        }
        bytes
    };
    EvaluationState { args: (0..ARGS).map(|_| fill()).collect(), bindings: vec![3], scratch: fill() }
}

fn run(bytes: &[u8], seed: u64) -> Result<bool, TestCaseError> {
    let program = program(bytes);
    match try_check(&program, machine(seed), seed % 4..10) {
        Ok(()) => Ok(true),
        Err(Failure::Rejected(
            vector_asm::VectorCompileError::Conversion { .. } | vector_asm::VectorCompileError::LoadIf,
        )) => Ok(false),
        Err(why) => {
            if let (Ok(path), Ok(code)) =
                (std::env::var("LISTING"), vector_asm::compile(&program, vector_asm::Isa::Avx2))
            {
                std::fs::write(path, common::listing(&code)).unwrap();
            }
            Err(TestCaseError::fail(format!("{why}\n{program}")))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_compute_what_they_mean(
        bytes in prop::collection::vec(any::<u8>(), 20..400),
        seed in any::<u64>(),
    ) {
        run(&bytes, seed)?;
    }

    #[test]
    fn programs_that_need_many_registers(bytes in prop::collection::vec(any::<u8>(), 500..1600), seed in any::<u64>()) {
        run(&bytes, seed)?;
    }
}
