//! Programs to machine programs: values become registers, part by part, and variables disappear.
//!
//! A value of many lanes is a list of registers, the last one in part. A value of one lane is a register that holds it in all lanes (*everywhere*) or, where only
//! lane 0 is ever asked for, in lane 0. What dead lanes hold is open; nothing traps on it. Variables become the registers that hold what was
//! set last, and [`Phi`]s where loops come round. Short innermost loops are unrolled here, so that the copies can be interleaved.

mod arithmetic;
mod convert;
mod memory;
mod shuffle;
mod transpose;

use std::collections::HashMap;

use smallvec::SmallVec;

use self::transpose::Strided;
use crate::avx2::Op as Machine;
use crate::code::{Isa, Refusal};
use crate::live::Liveness;
use crate::machine::{Access, Address, Base, Inst, Loop, Node, Phi, Reg, Stream, Trips, Unit, WORDS};
use crate::program::{Counter, Index, Op, Program, Range, Stmt, Type, Value, Variable};

/// Registers of a value or variable.
type Parts = SmallVec<[Reg; 4]>;

/// A value in registers.
#[derive(Clone, Debug, Default)]
struct Lanes {
    parts: Parts,
    /// Of a value of one lane: whether all lanes hold it.
    everywhere: bool,
}

/// What is known of a counter.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// Its value.
    Fixed(i64),
    /// It is so much more than the counter of the loop around.
    Plus(i64),
}

pub(crate) struct Lower<'a> {
    program: &'a Program,
    liveness: Liveness,
    /// Whether a value of one lane is wanted in all lanes.
    wanted: Vec<bool>,
    unit: Unit,
    nodes: Vec<Node>,
    block: Vec<Inst>,
    /// Accesses of the block that are written out when it is whole.
    strided: Vec<Strided>,
    values: Vec<Lanes>,
    variables: Vec<Parts>,
    counters: Vec<Known>,
    /// The part that instructions belong to.
    part: u32,
    /// Parts of the copies of the body before this one.
    parts_before: u32,
    /// What a register is the negative of.
    negations: HashMap<Reg, Reg>,
    /// The register of each constant.
    constants: HashMap<[u32; WORDS], Reg>,
}

/// Translates a program that has passed its check.
pub(crate) fn lower(program: &Program, isa: Isa) -> Result<Unit, Refusal> {
    let mut lower = Lower {
        program,
        liveness: Liveness::of(program),
        wanted: wanted_everywhere(program),
        unit: Unit::new(isa),
        nodes: Vec::new(),
        block: Vec::new(),
        strided: Vec::new(),
        values: vec![Lanes::default(); program.values.len()],
        variables: Vec::new(),
        counters: vec![Known::Fixed(0); program.counters as usize],
        part: 0,
        parts_before: 0,
        negations: HashMap::new(),
        constants: HashMap::new(),
    };
    let zero = lower.constant([0; WORDS]);
    lower.variables =
        program.variables.iter().map(|ty| SmallVec::from_elem(zero, lower.parts(*ty))).collect();
    lower.statements(&program.body)?;
    lower.flush();
    lower.unit.nodes = lower.nodes;
    Ok(lower.unit)
}

/// Which values of one lane meet values of more lanes, or lanes other than the first.
fn wanted_everywhere(program: &Program) -> Vec<bool> {
    let mut wanted = vec![false; program.values.len()];
    mark_wanted(program, &program.body, &mut wanted);
    wanted
}

fn mark_wanted(program: &Program, body: &[Stmt], wanted: &mut [bool]) {
    for stmt in body {
        match stmt {
            Stmt::Loop { body, .. } => mark_wanted(program, body, wanted),
            Stmt::Let { value, op } if program.values[value.0 as usize].lanes > 1 => {
                operands(op).for_each(|operand| wanted[operand.0 as usize] = true);
            }
            Stmt::Set { variable, start, value }
                if *start > 0 || program.variables[variable.0 as usize].lanes == 1 =>
            {
                wanted[value.0 as usize] = true;
            }
            _ => {}
        }
    }
}

/// The values that an operation takes.
fn operands(op: &Op) -> impl Iterator<Item = Value> {
    let list: SmallVec<[Value; 3]> = match op {
        Op::Constant(_) | Op::Load(_) | Op::Get { .. } | Op::Index { .. } => SmallVec::new(),
        Op::LoadIf { condition, otherwise, .. } => SmallVec::from_slice(&[*condition, *otherwise]),
        Op::Slice { of, .. } => SmallVec::from_slice(&[*of]),
        Op::Unary(_, a) | Op::Convert(a) | Op::Bitcast(a) => SmallVec::from_slice(&[*a]),
        Op::Binary(_, a, b) | Op::Compare(_, a, b) => SmallVec::from_slice(&[*a, *b]),
        Op::Fma(a, b, c) | Op::Select(a, b, c) => SmallVec::from_slice(&[*a, *b, *c]),
    };
    list.into_iter()
}

impl Lower<'_> {
    /// Bytes of a register.
    fn bytes(&self) -> u32 {
        self.unit.isa.bytes()
    }

    /// Words of 32 bits in a register.
    fn words(&self) -> usize {
        self.unit.isa.words()
    }

    /// How many registers a value of a type takes.
    fn parts(&self, ty: Type) -> usize {
        (ty.lanes * ty.element.bytes()).div_ceil(self.bytes()) as usize
    }

    /// How many lanes of a type a register has.
    fn lanes_of(&self, ty: Type) -> u32 {
        self.bytes() / ty.element.bytes()
    }

    // Instructions.

    fn instruction(
        &mut self,
        op: Machine,
        srcs: &[Reg],
        imm: u16,
        address: Option<Address>,
        access: Access,
    ) -> Reg {
        let dst =
            if matches!(access, Access::Write | Access::Hint) { Reg::NONE } else { self.unit.register() };
        let mut sources = [Reg::NONE; 3];
        sources[..srcs.len()].copy_from_slice(srcs);
        let part = self.parts_before + self.part;
        self.block.push(Inst { op, dst, srcs: sources, imm, address, access, part });
        dst
    }

    fn emit(&mut self, op: Machine, srcs: &[Reg]) -> Reg {
        self.instruction(op, srcs, 0, None, Access::None)
    }

    fn emit_imm(&mut self, op: Machine, srcs: &[Reg], imm: u16) -> Reg {
        self.instruction(op, srcs, imm, None, Access::None)
    }

    /// A constant, by its words.
    fn constant(&mut self, mut words: [u32; WORDS]) -> Reg {
        words[self.words()..].fill(0);
        if let Some(register) = self.constants.get(&words) {
            return *register;
        }
        self.unit.constants.push(words);
        self.unit.registers.push(self.unit.constants.len() as u32 - 1);
        let register = Reg(self.unit.registers.len() as u32 - 1);
        self.constants.insert(words, register);
        register
    }

    fn constant32(&mut self, word: u32) -> Reg {
        self.constant([word; WORDS])
    }

    fn constant64(&mut self, word: u64) -> Reg {
        self.constant(std::array::from_fn(|i| (word >> (32 * (i % 2))) as u32))
    }

    /// The same bits in each lane of a type.
    fn constant_of(&mut self, ty: Type, bits: u64) -> Reg {
        if ty.element.bits() == 32 { self.constant32(bits as u32) } else { self.constant64(bits) }
    }

    fn flush(&mut self) {
        self.resolve_strided();
        if !self.block.is_empty() {
            self.nodes.push(Node::Block(std::mem::take(&mut self.block)));
        }
    }

    // Statements.

    fn statements(&mut self, body: &[Stmt]) -> Result<(), Refusal> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<(), Refusal> {
        self.part = 0;
        match stmt {
            Stmt::Loop { counter, range, body } => self.enter(stmt, *counter, *range, body),
            Stmt::Let { value, op } => self.define(*value, op),
            Stmt::Set { variable, start, value } => {
                self.set(stmt, *variable, *start, *value);
                Ok(())
            }
            Stmt::Store { place, value, streaming } => self.store(place, *value, *streaming),
            Stmt::Prefetch(place) => {
                let address = self.address(place, 0, 0);
                self.instruction(Machine::Prefetch, &[], 0, Some(address), Access::Hint);
                Ok(())
            }
        }
    }

    fn enter(&mut self, stmt: &Stmt, counter: Counter, range: Range, body: &[Stmt]) -> Result<(), Refusal> {
        let size = self.size(body);
        match range {
            Range::To(n) if n <= 1 || size.is_some_and(|size| n.saturating_mul(size) <= 24) => {
                self.copies(counter, 0..n, body)
            }
            Range::To(n) => {
                let factor = n.min(size.map_or(1, unroll_factor));
                let rounds = n / factor;
                if rounds == 1 {
                    return self.copies(counter, 0..n, body);
                }
                self.repeat(stmt, counter, Trips::Constant(rounds), factor, body)?;
                self.copies(counter, rounds * factor..n, body)
            }
            Range::Part => {
                let factor = size.map_or(1, unroll_factor);
                let shift = factor.ilog2();
                self.repeat(stmt, counter, Trips::Part { shift }, factor, body)?;
                if shift > 0 { self.repeat(stmt, counter, Trips::Rest { shift }, 1, body) } else { Ok(()) }
            }
        }
    }

    /// The body once for each value of its counter.
    fn copies(
        &mut self,
        counter: Counter,
        values: std::ops::Range<u64>,
        body: &[Stmt],
    ) -> Result<(), Refusal> {
        let (before, parts) = (self.parts_before, self.most_parts(body));
        for value in values {
            self.counters[counter.0 as usize] = Known::Fixed(value as i64);
            self.statements(body)?;
            self.parts_before += parts;
        }
        self.parts_before = before;
        Ok(())
    }

    /// A loop over `factor` copies of the body.
    fn repeat(
        &mut self,
        stmt: &Stmt,
        counter: Counter,
        trips: Trips,
        factor: u64,
        body: &[Stmt],
    ) -> Result<(), Refusal> {
        self.flush();
        let outside = std::mem::take(&mut self.nodes);
        let before = std::mem::replace(&mut self.parts_before, 0);
        let mut carried = self.carry(stmt, trips);
        let parts = self.most_parts(body);
        for copy in 0..factor {
            self.counters[counter.0 as usize] = Known::Plus(copy as i64);
            self.statements(body)?;
            self.parts_before += parts;
        }
        self.flush();
        self.parts_before = before;
        let body = std::mem::replace(&mut self.nodes, outside);
        for (variable, part, phi) in &mut carried {
            let current = &mut self.variables[*variable][*part];
            phi.next = *current;
            *current = phi.phi;
        }
        let phis = carried.into_iter().map(|(_, _, phi)| phi).collect();
        self.nodes.push(Node::Loop(Loop { counter, trips, step: factor as i64, phis, body }));
        Ok(())
    }

    /// Makes a phi of each part of a variable that a loop sets and that is looked at later.
    fn carry(&mut self, stmt: &Stmt, trips: Trips) -> Vec<(usize, usize, Phi)> {
        let mut carried = Vec::new();
        for (v, ty) in self.program.variables.iter().enumerate() {
            for part in 0..self.parts(*ty) {
                let first = part as u32 * self.lanes_of(*ty);
                let lanes = first..ty.lanes.min(first + self.lanes_of(*ty));
                let (set, read, after) = self.liveness.of_loop(stmt, Variable(v as u32), lanes);
                if !set || !(read || after) {
                    continue;
                }
                let phi = self.unit.register();
                let start = std::mem::replace(&mut self.variables[v][part], phi);
                // Without this an iteration that runs for certain would begin with what nobody reads.
                let start = if read || !matches!(trips, Trips::Constant(_)) { start } else { Reg::NONE };
                carried.push((v, part, Phi { phi, start, next: phi }));
            }
        }
        carried
    }

    /// About how many instructions a body without loops becomes; `None` if there are loops.
    fn size(&self, body: &[Stmt]) -> Option<u64> {
        let mut size = 0;
        for stmt in body {
            size += match stmt {
                Stmt::Loop { .. } => return None,
                Stmt::Let { op: Op::Constant(_) | Op::Get { .. } | Op::Bitcast(_), .. }
                | Stmt::Set { .. } => 0,
                Stmt::Let { value, .. } | Stmt::Store { value, .. } => {
                    self.parts(self.program.values[value.0 as usize]) as u64
                }
                Stmt::Prefetch(_) => 1,
            };
        }
        Some(size)
    }

    /// The most registers that a value of a body has.
    fn most_parts(&self, body: &[Stmt]) -> u32 {
        let of = |stmt: &Stmt| match stmt {
            Stmt::Let { value, .. } => self.parts(self.program.values[value.0 as usize]) as u32,
            _ => 1,
        };
        body.iter().map(of).max().unwrap_or(1)
    }

    // Values.

    fn ty(&self, value: Value) -> Type {
        self.program.values[value.0 as usize]
    }

    /// The register of a part; a value of one lane has one for all.
    fn part_of(&self, value: Value, part: usize) -> Reg {
        let parts = &self.values[value.0 as usize].parts;
        if parts.len() == 1 { parts[0] } else { parts[part] }
    }

    fn define(&mut self, value: Value, op: &Op) -> Result<(), Refusal> {
        let ty = self.ty(value);
        let mut lanes = match op {
            Op::Constant(bits) => {
                let constant = self.constant_of(ty, *bits);
                Lanes { parts: SmallVec::from_elem(constant, self.parts(ty)), everywhere: true }
            }
            Op::Load(place) => self.load(place, ty)?,
            Op::LoadIf { condition, place, otherwise } => self.load_if(*condition, place, *otherwise, ty)?,
            Op::Get { variable, start } => {
                let of = Lanes { parts: self.variables[variable.0 as usize].clone(), everywhere: true };
                let lanes = self.program.variables[variable.0 as usize].lanes;
                self.lanes_from(&of, lanes, *start, ty)
            }
            Op::Slice { of, start } => {
                let from = self.values[of.0 as usize].clone();
                self.lanes_from(&from, self.ty(*of).lanes, *start, ty)
            }
            Op::Index { offset, terms, step } => self.index(*offset, terms, *step, ty),
            Op::Bitcast(a) => {
                let mut lanes = self.values[a.0 as usize].clone();
                if lanes.parts.len() == 1 {
                    lanes.parts = SmallVec::from_elem(lanes.parts[0], self.parts(ty));
                }
                lanes
            }
            Op::Convert(a) => self.convert(*a, ty)?,
            _ => self.elementwise(op, ty)?,
        };
        if ty.lanes == 1 && !lanes.everywhere && self.wanted[value.0 as usize] {
            let all = if ty.element.bits() == 32 { Machine::All32 } else { Machine::All64 };
            lanes =
                Lanes { parts: SmallVec::from_elem(self.emit(all, &[lanes.parts[0]]), 1), everywhere: true };
        }
        self.values[value.0 as usize] = lanes;
        Ok(())
    }

    /// An operation on each part of its operands in turn; parts with the same operands are one.
    fn elementwise(&mut self, op: &Op, ty: Type) -> Result<Lanes, Refusal> {
        let mut lanes = Lanes { parts: SmallVec::new(), everywhere: true };
        let mut last: SmallVec<[Reg; 3]> = SmallVec::new();
        for part in 0..self.parts(ty) {
            self.part = part as u32;
            let sources: SmallVec<[Reg; 3]> =
                operands(op).map(|operand| self.part_of(operand, part)).collect();
            let result = match lanes.parts.last() {
                Some(result) if sources == last => *result,
                _ => self.arithmetic(op, ty, &sources)?,
            };
            lanes.parts.push(result);
            last = sources;
        }
        lanes.everywhere = operands(op).all(|operand| self.values[operand.0 as usize].everywhere);
        Ok(lanes)
    }

    /// `offset + Σ coefficient · index + step · lane`.
    fn index(&mut self, offset: i64, terms: &[(Index, i64)], step: i64, ty: Type) -> Lanes {
        let (terms, offset) = self.affine(offset, terms);
        let (lanes, count) = (self.lanes_of(ty), self.words());
        let first = (!terms.is_empty()).then(|| {
            let stream = self.unit.stream(Stream { base: Base::Zero, terms, offset: 0 });
            let address = Address { stream, offset: 0, bytes: 0 };
            let integer = self.instruction(Machine::Integer, &[], 0, Some(address), Access::None);
            self.emit(if ty.element.bits() == 32 { Machine::All32 } else { Machine::All64 }, &[integer])
        });
        let mut result = Lanes { parts: SmallVec::new(), everywhere: ty.lanes == 1 };
        let step = if ty.lanes == 1 { 0 } else { step };
        for part in 0..self.parts(ty) as u32 {
            self.part = part;
            let words = std::array::from_fn(|word| {
                let lane = i64::from(part * lanes) + word as i64 * i64::from(lanes) / count as i64;
                let number = offset.wrapping_add(step.wrapping_mul(lane)) as u64;
                if ty.element.bits() == 32 || word % 2 == 0 { number as u32 } else { (number >> 32) as u32 }
            });
            let constant = self.constant(words);
            result.parts.push(match first {
                None => constant,
                Some(first) if words[..count].iter().all(|word| *word == 0) => first,
                Some(first) => {
                    let add = if ty.element.bits() == 32 { Machine::AddI32 } else { Machine::AddI64 };
                    self.emit(add, &[first, constant])
                }
            });
        }
        result
    }

    /// Takes counters apart: those that a loop counts, and what the others add to the offset.
    fn affine(&self, mut offset: i64, terms: &[(Index, i64)]) -> (Vec<(Index, i64)>, i64) {
        let mut left = Vec::with_capacity(terms.len());
        for &(index, coefficient) in terms {
            if let Index::Counter(Counter(c)) = index {
                let (Known::Fixed(add) | Known::Plus(add)) = self.counters[c as usize];
                offset = offset.wrapping_add(coefficient.wrapping_mul(add));
                if matches!(self.counters[c as usize], Known::Fixed(_)) {
                    continue;
                }
            }
            if coefficient != 0 {
                left.push((index, coefficient));
            }
        }
        left.sort_unstable();
        (left, offset)
    }
}

/// How many copies of a body of so many instructions a loop has.
fn unroll_factor(size: u64) -> u64 {
    match size {
        0..=8 => 4,
        9..=32 => 2,
        _ => 1,
    }
}
