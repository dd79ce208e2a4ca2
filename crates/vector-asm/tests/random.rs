//! Random programs: every operation, element, number of lanes, shape of loops and kind of place, compared with the evaluator bit for bit.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{Failure, try_check};
use proptest::prelude::*;
use vector_asm::{
    Binary, Builder, Comparison, Counter, Element, Index, Machine, Memory, Op, Place, Program, Range, Type,
    Unary, Value, Variable,
};

/// Bytes of each array; places keep within them.
const BYTES: i64 = 8192;
const ARGS: u32 = 4;
/// The last array is only read.
const READ_ONLY: u32 = 3;
const ELEMENTS: [Element; 6] =
    [Element::F32, Element::F64, Element::I32, Element::U32, Element::I64, Element::U64];

/// Choices taken from a list of numbers, so that a failing program shrinks with the list.
struct Choices<'a> {
    numbers: &'a [u64],
    at: usize,
}

impl Choices<'_> {
    fn next(&mut self) -> u64 {
        self.at += 1;
        self.numbers.get(self.at - 1).copied().unwrap_or(0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// A program in the making, with what is visible.
struct Draw<'a> {
    choices: Choices<'a>,
    builder: Builder,
    values: Vec<Value>,
    variables: Vec<(Variable, Type)>,
    /// Open loops: their counters and the largest value of each.
    loops: Vec<(Counter, i64)>,
    part: i64,
}

impl Draw<'_> {
    fn ty(&mut self) -> Type {
        let element = self.choices.pick(&ELEMENTS);
        let lanes = match self.choices.below(4) {
            0 => 1,
            1 => self.choices.pick(&[2, 4, 8, 16, 32, 64]),
            _ => 1 + self.choices.below(70) as u32,
        };
        Type::new(element, lanes)
    }

    /// A place for a type that stays within its array for all values of the counters.
    fn place(&mut self, ty: Type, write: bool) -> Place {
        let base = match self.choices.below(u64::from(ARGS) + 1) {
            b if b == u64::from(ARGS) => None,
            b if write && b == u64::from(READ_ONLY) => Some(0),
            b => Some(b as u32),
        };
        let memory = match ty.element {
            Element::I32 => self.choices.pick(&[
                Memory::Same,
                Memory::Same,
                Memory::U8,
                Memory::I8,
                Memory::U16,
                Memory::I16,
            ]),
            Element::U32 => self.choices.pick(&[Memory::Same, Memory::U8, Memory::U16]),
            Element::F32 => self.choices.pick(&[Memory::Same, Memory::Same, Memory::F16, Memory::BF16]),
            _ => Memory::Same,
        };
        let size = i64::from(memory.bytes().unwrap_or(ty.element.bytes()));
        let step = match self.choices.below(6) {
            0 if !write => 0,
            1 => size * self.choices.pick(&[2, 3, 7]),
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
                _ => self.choices.pick(&[-4, 8, 64, 128]),
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
        // Near an end of the array as often as anywhere.
        let at = match self.choices.below(3) {
            0 => 0,
            1 => room,
            _ => self.choices.below(room as u64 + 1) as i64,
        };
        Place { base, offset: at * size - low, terms, step, memory }
    }

    /// A visible value of a type (its lanes, or one); a new constant if there is none.
    fn operand(&mut self, element: Element, lanes: u32) -> Value {
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
            return fits[fits.len() - 1 - self.choices.below(recent as u64) as usize];
        }
        let ty = Type::new(element, if self.choices.below(2) == 0 { lanes } else { 1 });
        if self.choices.below(3) == 0 {
            let bits = self.bits(element);
            return self.keep(ty, Op::Constant(bits));
        }
        let place = self.place(ty, false);
        self.keep(ty, Op::Load(place))
    }

    fn bits(&mut self, element: Element) -> u64 {
        let number =
            self.choices.pick(&[0.0, 1.0, -1.0, 0.5, 3e9, -3e9, 5e9, 1e-40, f64::NAN, f64::INFINITY, 2.0]);
        match element {
            Element::F32 => u64::from((number as f32).to_bits()),
            Element::F64 => number.to_bits(),
            _ => self.choices.pick(&[0, 1, 31, 32, 63, 5, u64::MAX, 1 << 31, 1 << 63, 0x1234_5678_9abc_def0]),
        }
    }

    fn keep(&mut self, ty: Type, op: Op) -> Value {
        let value = self.builder.define(ty, op);
        self.values.push(value);
        value
    }

    fn define(&mut self) {
        let ty = self.ty();
        let Type { element, lanes } = ty;
        let operation = self.choices.below(16);
        let op = match operation {
            0 => Op::Constant(self.bits(element)),
            1 | 2 => Op::Load(self.place(ty, false)),
            3 => {
                let size = i64::from(element.bytes());
                let step = if self.choices.below(4) == 0 { 0 } else { size };
                let place = Place { step, memory: Memory::Same, ..self.place(ty, false) };
                if place.offset < 0 || place.offset + size * i64::from(lanes) > BYTES / 2 {
                    return;
                }
                let condition = self.condition(element, lanes);
                let place = Place { terms: Vec::new(), ..place };
                Op::LoadIf { condition, place, otherwise: self.operand(element, lanes) }
            }
            4 | 5 => {
                let variables: Vec<_> =
                    self.variables.iter().filter(|(_, t)| t.element == element).copied().collect();
                if variables.is_empty() {
                    return;
                }
                let (variable, of) = self.choices.pick(&variables);
                let lanes = lanes.min(of.lanes);
                let start = self.choices.below(u64::from(of.lanes - lanes) + 1) as u32;
                self.keep(Type::new(element, lanes), Op::Get { variable, start });
                return;
            }
            6 => {
                let Some(&of) = self.values.last() else { return };
                let from = self.builder.ty(of);
                let lanes = lanes.min(from.lanes);
                let start = self.choices.below(u64::from(from.lanes - lanes) + 1) as u32;
                self.keep(Type::new(from.element, lanes), Op::Slice { of, start });
                return;
            }
            7 if !element.is_float() => {
                let terms = self.loops.iter().map(|(c, _)| (Index::Counter(*c), 3)).collect();
                Op::Index { offset: -5, terms, step: 7 }
            }
            8 if element.is_float() => {
                let a = self.operand(element, lanes);
                Op::Fma(a, self.operand(element, lanes), self.operand(element, lanes))
            }
            9 => {
                let comparison = self.choices.pick(&[
                    Comparison::Less,
                    Comparison::LessEqual,
                    Comparison::Equal,
                    Comparison::NotEqual,
                ]);
                let integer = if element.bits() == 32 { Element::I32 } else { Element::I64 };
                let a = self.operand(element, lanes);
                let b = self.operand(element, lanes);
                self.keep(Type::new(integer, lanes), Op::Compare(comparison, a, b));
                return;
            }
            10 => {
                let condition = self.condition(element, lanes);
                let a = self.operand(element, lanes);
                Op::Select(condition, a, self.operand(element, lanes))
            }
            11 => {
                let from = self.choices.pick(&ELEMENTS);
                Op::Convert(self.operand(from, lanes))
            }
            12 => {
                let same: Vec<Element> =
                    ELEMENTS.into_iter().filter(|e| e.bits() == element.bits()).collect();
                let from = self.choices.pick(&same);
                Op::Bitcast(self.operand(from, lanes))
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
                Op::Unary(self.choices.pick(if element.is_float() { &floats } else { &integers }), a)
            }
            _ => {
                use Binary::{
                    Add, And, Divide, Maximum, Minimum, Multiply, Or, ShiftLeft, ShiftRight, Subtract, Xor,
                };
                let floats = [Add, Subtract, Multiply, Divide, Maximum, Minimum];
                let integers =
                    [Add, Subtract, Multiply, Maximum, Minimum, And, Or, Xor, ShiftLeft, ShiftRight];
                let op = self.choices.pick(if element.is_float() { &floats[..] } else { &integers });
                let a = self.operand(element, lanes);
                Op::Binary(op, a, self.operand(element, lanes))
            }
        };
        self.keep(ty, op);
    }

    fn condition(&mut self, element: Element, lanes: u32) -> Value {
        let a = self.operand(element, lanes);
        let b = self.operand(element, lanes);
        let lanes = self.builder.ty(a).lanes.max(self.builder.ty(b).lanes);
        let integer = if element.bits() == 32 { Element::I32 } else { Element::I64 };
        self.keep(Type::new(integer, lanes), Op::Compare(Comparison::Less, a, b))
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
                let (variable, of) = self.choices.pick(&fits);
                let room = u64::from(of.lanes - ty.lanes);
                let start = if self.choices.below(2) == 0 { 0 } else { self.choices.below(room + 1) };
                self.builder.set_lanes(variable, start as u32, value);
            }
            _ => self.define(),
        }
    }

    fn recent(&mut self) -> Option<Value> {
        let recent = self.values.len().min(5);
        if recent == 0 {
            return None;
        }
        Some(self.values[self.values.len() - 1 - self.choices.below(recent as u64) as usize])
    }

    fn enter(&mut self, depth: u64) {
        let part = depth == 0 && self.part == 0 && self.choices.below(3) == 0;
        let trips = self.choices.pick(&[0, 1, 2, 3, 4, 5, 7, 9, 13]);
        let (range, most) = if part {
            self.part = 1;
            (Range::Part, 9)
        } else {
            (Range::To(trips), trips as i64 - 1)
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

/// The program that a list of numbers stands for.
fn program(numbers: &[u64]) -> Program {
    let choices = Choices { numbers, at: 0 };
    let mut draw = Draw {
        choices,
        builder: Builder::new(),
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
    while draw.choices.at < numbers.len() {
        draw.statement(0);
    }
    // What variables hold in the end is seen.
    for (i, (variable, ty)) in draw.variables.clone().into_iter().enumerate() {
        let value = draw.builder.get(variable);
        draw.builder.store(Place::scratch(ty.element).plus(i as i64 * 576), value);
    }
    draw.builder.finish()
}

/// Memory that holds numbers of all formats and anything else.
fn machine(seed: u64) -> Machine {
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
    Machine { args: (0..ARGS).map(|_| fill()).collect(), bindings: vec![3], scratch: fill() }
}

fn run(numbers: &[u64], seed: u64) -> Result<bool, TestCaseError> {
    let program = program(numbers);
    match try_check(&program, machine(seed), seed % 4..10) {
        Ok(()) => Ok(true),
        Err(Failure::Refused(vector_asm::Refusal::Conversion { .. } | vector_asm::Refusal::LoadIf)) => {
            Ok(false)
        }
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
        numbers in prop::collection::vec(any::<u64>(), 20..300),
        seed in any::<u64>(),
    ) {
        run(&numbers, seed)?;
    }

    #[test]
    fn programs_that_need_many_registers(numbers in prop::collection::vec(any::<u64>(), 400..1200), seed in any::<u64>()) {
        run(&numbers, seed)?;
    }
}
