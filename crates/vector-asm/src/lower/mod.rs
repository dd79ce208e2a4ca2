//! Lowering: programs to machine programs. Values become registers, and variables disappear.
//!
//! A value of several lanes becomes a list of registers, its *parts*; the last one may be partly filled. A
//! value of one lane becomes a register that holds it in all lanes (*broadcast*) or, if no use needs more, in
//! lane 0. The contents of unused lanes are unspecified, and no instruction traps on them. Variables become
//! the registers that were set last, with [`Phi`]s for the values that loops carry. Short innermost loops are
//! unrolled here, so that the copies of their bodies can be interleaved.

mod arithmetic;
mod convert;
mod memory;
mod neon;
mod nibble_table;
mod shuffle;
mod transpose;

use std::collections::HashMap;

use smallvec::SmallVec;

use self::nibble_table::NibbleTables;
pub use self::nibble_table::nibble_lookups;
use self::transpose::StridedAccess;
use crate::code::VectorCompileError;
use crate::live::Liveness;
use crate::machine::{
    Access, Address, Base, Inst, Loop, MachineProgram, Node, Phi, Reg, Stream, Trips, WORDS,
};
use crate::op::Op;
use crate::processor::Isa;
use crate::program::{
    Counter, CounterSum, Index, LoopRange, Value, Variable, VectorOp, VectorProgram, VectorStmt, VectorType,
};

/// The registers of a value or variable.
type ValueRegisters = SmallVec<[Reg; 4]>;

#[derive(Clone, Debug, Default)]
struct LoweredValue {
    parts: ValueRegisters,
    /// For a value of one lane: whether all lanes hold it.
    broadcast: bool,
}

/// A counter in the current copy of its loop's body.
#[derive(Clone, Copy, Debug)]
enum CounterValue {
    /// The counter is a constant.
    Fixed(i64),
    /// The counter is this much more than the counter of the enclosing machine loop.
    Plus(i64),
}

pub(crate) struct Lowering<'a> {
    program: &'a VectorProgram,
    liveness: Liveness,
    /// Whether a value of one lane is needed in all lanes.
    wanted: Vec<bool>,
    unit: MachineProgram,
    nodes: Vec<Node>,
    block: Vec<Inst>,
    /// Strided accesses of the current block, which are expanded when the block is complete.
    strided: Vec<StridedAccess>,
    values: Vec<LoweredValue>,
    variables: Vec<ValueRegisters>,
    counters: Vec<CounterValue>,
    /// The part of the value that instructions compute.
    part: u32,
    /// The number of parts in the preceding copies of the body.
    parts_before: u32,
    /// For a register that is a negation, its operand.
    negations: HashMap<Reg, Reg>,
    /// The register of each constant.
    constants: HashMap<[u32; WORDS], Reg>,
    /// Conversions of four bits, where the target has tables for them.
    tables: NibbleTables,
}

/// Lowers a program that [`VectorProgram::check`] has verified.
pub(crate) fn lower(program: &VectorProgram, isa: Isa) -> Result<MachineProgram, VectorCompileError> {
    let mut lower = Lowering {
        program,
        liveness: Liveness::of(program),
        wanted: needs_broadcast(program, isa),
        unit: MachineProgram::new(isa),
        nodes: Vec::new(),
        block: Vec::new(),
        strided: Vec::new(),
        values: vec![LoweredValue::default(); program.values.len()],
        variables: Vec::new(),
        counters: vec![CounterValue::Fixed(0); program.counters as usize],
        part: 0,
        parts_before: 0,
        negations: HashMap::new(),
        constants: HashMap::new(),
        tables: if isa == Isa::Avx512 { NibbleTables::of(program) } else { NibbleTables::default() },
    };
    let zero = lower.constant([0; WORDS]);
    lower.variables =
        program.variables.iter().map(|ty| SmallVec::from_elem(zero, lower.parts(*ty))).collect();
    lower.statements(&program.body)?;
    lower.flush();
    lower.unit.nodes = lower.nodes;
    Ok(lower.unit)
}

/// Determines which values of one lane are operands of wider values, or fill a lane of a variable other than
/// the first.
fn needs_broadcast(program: &VectorProgram, isa: Isa) -> Vec<bool> {
    let mut wanted = vec![false; program.values.len()];
    mark_broadcast(program, isa, &program.body, &mut wanted);
    wanted
}

fn mark_broadcast(program: &VectorProgram, isa: Isa, body: &[VectorStmt], wanted: &mut [bool]) {
    for stmt in body {
        match stmt {
            VectorStmt::Loop { body, .. } => mark_broadcast(program, isa, body, wanted),
            VectorStmt::Let { value, op } if program.values[value.0 as usize].lanes > 1 => {
                let of_lane = if isa == Isa::Neon { neon::lane_operand(program, op) } else { None };
                let others = (0..).zip(operands(op)).filter(|(at, _)| Some(*at) != of_lane);
                others.for_each(|(_, operand)| wanted[operand.0 as usize] = true);
            }
            VectorStmt::Set { variable, start, value }
                if *start > 0 || program.variables[variable.0 as usize].lanes == 1 =>
            {
                wanted[value.0 as usize] = true;
            }
            _ => {}
        }
    }
}

/// The operands of an operation.
fn operands(op: &VectorOp) -> impl Iterator<Item = Value> {
    let list: SmallVec<[Value; 3]> = match op {
        VectorOp::Constant(_) | VectorOp::Load(_) | VectorOp::Get { .. } | VectorOp::Index { .. } => {
            SmallVec::new()
        }
        VectorOp::LoadIf { condition, otherwise, .. } => SmallVec::from_slice(&[*condition, *otherwise]),
        VectorOp::Slice { of, .. } => SmallVec::from_slice(&[*of]),
        VectorOp::Unary(_, a) | VectorOp::Convert(a) | VectorOp::Bitcast(a) => SmallVec::from_slice(&[*a]),
        VectorOp::Binary(_, a, b) | VectorOp::Compare(_, a, b) => SmallVec::from_slice(&[*a, *b]),
        VectorOp::Fma(a, b, c) | VectorOp::Select(a, b, c) => SmallVec::from_slice(&[*a, *b, *c]),
    };
    list.into_iter()
}

impl Lowering<'_> {
    /// Bytes of a register.
    fn bytes(&self) -> u32 {
        self.unit.isa.bytes()
    }

    /// 32-bit words of a register.
    fn words(&self) -> usize {
        self.unit.isa.words()
    }

    /// The number of registers of a value.
    fn parts(&self, ty: VectorType) -> usize {
        (ty.lanes * ty.element.bytes()).div_ceil(self.bytes()) as usize
    }

    /// The number of lanes in a register.
    fn lanes_of(&self, ty: VectorType) -> u32 {
        self.bytes() / ty.element.bytes()
    }

    fn is_neon(&self) -> bool {
        self.unit.isa == Isa::Neon
    }

    // Instructions.

    fn instruction(
        &mut self,
        op: Op,
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

    fn emit(&mut self, op: Op, srcs: &[Reg]) -> Reg {
        self.instruction(op, srcs, 0, None, Access::None)
    }

    fn emit_imm(&mut self, op: Op, srcs: &[Reg], imm: u16) -> Reg {
        self.instruction(op, srcs, imm, None, Access::None)
    }

    /// A constant by its words. Equal constants share a register.
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
    fn constant_of(&mut self, ty: VectorType, bits: u64) -> Reg {
        if ty.element.bits() == 32 { self.constant32(bits as u32) } else { self.constant64(bits) }
    }

    fn flush(&mut self) {
        self.resolve_strided();
        if !self.block.is_empty() {
            self.nodes.push(Node::Block(std::mem::take(&mut self.block)));
        }
    }

    // Statements.

    fn statements(&mut self, body: &[VectorStmt]) -> Result<(), VectorCompileError> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &VectorStmt) -> Result<(), VectorCompileError> {
        self.part = 0;
        match stmt {
            VectorStmt::Loop { counter, range, body } => self.enter(stmt, *counter, range, body),
            VectorStmt::Let { value, op } => self.define(*value, op),
            VectorStmt::Set { variable, start, value } => {
                self.set(stmt, *variable, *start, *value);
                Ok(())
            }
            VectorStmt::Store { place, value, streaming } => self.store(place, *value, *streaming),
            VectorStmt::Prefetch(place) => {
                let address = self.address(place, 0, 0);
                self.instruction(Op::Prefetch, &[], 0, Some(address), Access::Hint);
                Ok(())
            }
        }
    }

    fn enter(
        &mut self,
        stmt: &VectorStmt,
        counter: Counter,
        range: &LoopRange,
        body: &[VectorStmt],
    ) -> Result<(), VectorCompileError> {
        let size = self.size(body);
        match *range {
            LoopRange::Constant(n) if n <= 1 || size.is_some_and(|size| n.saturating_mul(size) <= 24) => {
                self.copies(counter, 0..n, body)
            }
            LoopRange::Constant(n) => {
                let factor = n.min(size.map_or(1, unroll_factor));
                let rounds = n / factor;
                if rounds == 1 {
                    return self.copies(counter, 0..n, body);
                }
                self.repeat(stmt, counter, Trips::Constant(rounds), factor, body)?;
                self.copies(counter, rounds * factor..n, body)
            }
            LoopRange::Clipped { limit, ref clips } => {
                let ends = clips.iter().map(|clip| self.end(clip)).collect();
                self.unit.clips.push(ends);
                let clips = self.unit.clips.len() as u32 - 1;
                self.repeat(stmt, counter, Trips::Clipped { limit, clips }, 1, body)
            }
            LoopRange::Call => {
                let factor = size.map_or(1, unroll_factor);
                let shift = factor.ilog2();
                self.repeat(stmt, counter, Trips::Call { shift }, factor, body)?;
                if shift > 0 {
                    self.repeat(stmt, counter, Trips::CallRemainder { shift }, 1, body)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// The stream whose value is the end of a loop.
    fn end(&mut self, clip: &CounterSum) -> u32 {
        let (terms, offset) = self.affine(clip.offset, &clip.terms);
        self.unit.stream(Stream { base: Base::Zero, offset, terms })
    }

    /// Lowers the body once for each value of its counter.
    fn copies(
        &mut self,
        counter: Counter,
        values: std::ops::Range<u64>,
        body: &[VectorStmt],
    ) -> Result<(), VectorCompileError> {
        let (before, parts) = (self.parts_before, self.most_parts(body));
        for value in values {
            self.counters[counter.0 as usize] = CounterValue::Fixed(value as i64);
            self.statements(body)?;
            self.parts_before += parts;
        }
        self.parts_before = before;
        Ok(())
    }

    /// Lowers a loop over `factor` copies of the body.
    fn repeat(
        &mut self,
        stmt: &VectorStmt,
        counter: Counter,
        trips: Trips,
        factor: u64,
        body: &[VectorStmt],
    ) -> Result<(), VectorCompileError> {
        self.flush();
        let outside = std::mem::take(&mut self.nodes);
        let before = std::mem::replace(&mut self.parts_before, 0);
        let mut carried = self.carry(stmt, trips);
        let parts = self.most_parts(body);
        for copy in 0..factor {
            self.counters[counter.0 as usize] = CounterValue::Plus(copy as i64);
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

    /// Adds a phi for each part of a variable that the loop sets, if the value is read in a later iteration
    /// or after the loop.
    fn carry(&mut self, stmt: &VectorStmt, trips: Trips) -> Vec<(usize, usize, Phi)> {
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
                // A first iteration that certainly runs overwrites the variable before reading it, so the
                // value on entry is dead.
                let start = if read || !matches!(trips, Trips::Constant(_)) { start } else { Reg::NONE };
                carried.push((v, part, Phi { phi, start, next: phi }));
            }
        }
        carried
    }

    /// An estimate of a body's number of instructions; `None` if it contains a loop.
    fn size(&self, body: &[VectorStmt]) -> Option<u64> {
        let mut size = 0;
        for stmt in body {
            size += match stmt {
                VectorStmt::Loop { .. } => return None,
                VectorStmt::Let {
                    op: VectorOp::Constant(_) | VectorOp::Get { .. } | VectorOp::Bitcast(_),
                    ..
                }
                | VectorStmt::Set { .. } => 0,
                VectorStmt::Let { value, .. } | VectorStmt::Store { value, .. } => {
                    self.parts(self.program.values[value.0 as usize]) as u64
                }
                VectorStmt::Prefetch(_) => 1,
            };
        }
        Some(size)
    }

    /// The most parts of any value of a body.
    fn most_parts(&self, body: &[VectorStmt]) -> u32 {
        let of = |stmt: &VectorStmt| match stmt {
            VectorStmt::Let { value, .. } => self.parts(self.program.values[value.0 as usize]) as u32,
            _ => 1,
        };
        body.iter().map(of).max().unwrap_or(1)
    }

    // Values.

    fn ty(&self, value: Value) -> VectorType {
        self.program.values[value.0 as usize]
    }

    /// The register of a part. All parts of a broadcast value have the same register.
    fn part_of(&self, value: Value, part: usize) -> Reg {
        let parts = &self.values[value.0 as usize].parts;
        if parts.len() == 1 { parts[0] } else { parts[part] }
    }

    fn define(&mut self, value: Value, op: &VectorOp) -> Result<(), VectorCompileError> {
        let ty = self.ty(value);
        if self.tables.unused.contains(&value) {
            return Ok(());
        }
        if let Some((index, table)) = self.tables.lookups.get(&value).copied() {
            self.values[value.0 as usize] = self.look_up(index, table, ty);
            return Ok(());
        }
        let mut lanes = match op {
            VectorOp::Constant(bits) => {
                let constant = self.constant_of(ty, *bits);
                LoweredValue { parts: SmallVec::from_elem(constant, self.parts(ty)), broadcast: true }
            }
            VectorOp::Load(place) => self.load(place, ty, self.wanted[value.0 as usize])?,
            VectorOp::LoadIf { condition, place, otherwise } => {
                self.load_if(*condition, place, *otherwise, ty)?
            }
            VectorOp::Get { variable, start } => {
                let of = LoweredValue { parts: self.variables[variable.0 as usize].clone(), broadcast: true };
                let lanes = self.program.variables[variable.0 as usize].lanes;
                self.lanes_from(&of, lanes, *start, ty)
            }
            VectorOp::Slice { of, start } => {
                let from = self.values[of.0 as usize].clone();
                self.lanes_from(&from, self.ty(*of).lanes, *start, ty)
            }
            VectorOp::Index { offset, terms, step } => self.index(*offset, terms, *step, ty),
            VectorOp::Bitcast(a) => {
                let mut lanes = self.values[a.0 as usize].clone();
                if lanes.parts.len() == 1 {
                    lanes.parts = SmallVec::from_elem(lanes.parts[0], self.parts(ty));
                }
                lanes
            }
            VectorOp::Convert(a) => self.convert(*a, ty)?,
            _ => self.elementwise(op, ty)?,
        };
        if ty.lanes == 1 && !lanes.broadcast && self.wanted[value.0 as usize] {
            let all = if ty.element.bits() == 32 { Op::All32 } else { Op::All64 };
            lanes = LoweredValue {
                parts: SmallVec::from_elem(self.emit(all, &[lanes.parts[0]]), 1),
                broadcast: true,
            };
        }
        self.values[value.0 as usize] = lanes;
        Ok(())
    }

    /// Selects an entry of a table in each lane, by the low bits of an integer.
    fn look_up(&mut self, index: Value, table: [u32; WORDS], ty: VectorType) -> LoweredValue {
        let table = self.constant(table);
        let mut lanes = LoweredValue::default();
        for part in 0..self.parts(ty) {
            self.part = part as u32;
            let index = self.part_of(index, part);
            let selected = self.emit(Op::Permute, &[index, table]);
            lanes.parts.push(selected);
        }
        lanes
    }

    /// Lowers an operation part by part. Parts with the same operands share a register.
    fn elementwise(&mut self, op: &VectorOp, ty: VectorType) -> Result<LoweredValue, VectorCompileError> {
        let mut lanes = LoweredValue { parts: SmallVec::new(), broadcast: true };
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
        lanes.broadcast = operands(op).all(|operand| self.values[operand.0 as usize].broadcast);
        Ok(lanes)
    }

    /// `offset + Σ coefficient · index + step · lane`.
    fn index(&mut self, offset: i64, terms: &[(Index, i64)], step: i64, ty: VectorType) -> LoweredValue {
        let (terms, offset) = self.affine(offset, terms);
        let (lanes, count) = (self.lanes_of(ty), self.words());
        let first = (!terms.is_empty()).then(|| {
            let stream = self.unit.stream(Stream { base: Base::Zero, terms, offset: 0 });
            let address = Address { stream, offset: 0, bytes: 0 };
            let integer = self.instruction(Op::Integer, &[], 0, Some(address), Access::None);
            self.emit(if ty.element.bits() == 32 { Op::All32 } else { Op::All64 }, &[integer])
        });
        let mut result = LoweredValue { parts: SmallVec::new(), broadcast: ty.lanes == 1 };
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
                    let add = if ty.element.bits() == 32 { Op::AddI32 } else { Op::AddI64 };
                    self.emit(add, &[first, constant])
                }
            });
        }
        result
    }

    /// Splits an affine expression into terms that vary with machine loops, and an offset that includes the
    /// constant counters.
    fn affine(&self, mut offset: i64, terms: &[(Index, i64)]) -> (Vec<(Index, i64)>, i64) {
        let mut left = Vec::with_capacity(terms.len());
        for &(index, coefficient) in terms {
            if let Index::Counter(Counter(c)) = index {
                let (CounterValue::Fixed(add) | CounterValue::Plus(add)) = self.counters[c as usize];
                offset = offset.wrapping_add(coefficient.wrapping_mul(add));
                if matches!(self.counters[c as usize], CounterValue::Fixed(_)) {
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

/// The number of copies of a body with `size` instructions in an unrolled loop.
fn unroll_factor(size: u64) -> u64 {
    match size {
        0..=8 => 4,
        9..=32 => 2,
        _ => 1,
    }
}
