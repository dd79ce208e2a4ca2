//! Register allocation: live ranges, coalescing of loop-carried registers, linear scan, and spilling.
//!
//! Instructions are numbered linearly, with an item for each start and end of a loop. A register is live from
//! its definition to its last use; a use inside a loop that does not contain the definition extends the range
//! to the loop's end. A phi is live from the loop's start to its last use in the body, and again from the end
//! of the body. The registers of a phi share a machine register if their ranges do not overlap; otherwise
//! they are copied. If machine registers run out, the cheapest ones are spilled to the stack frame, and
//! allocation restarts. Constants that an instruction cannot take from memory are copied to a register before
//! the use; at the end, machine registers that are free throughout a loop hold its most used constants.

use smallvec::SmallVec;

use crate::code::VectorCompileError;
use crate::machine::{Access, Address, Inst, Loop, MachineProgram, NOT_CONSTANT, Node, Phi, Reg, Trips};
use crate::op::Op;
use crate::program::Counter;

/// An item of the linear code.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Inst(Inst),
    /// The start of a loop, by its index in [`LinearCode::loops`].
    Start(usize),
    /// The end of the loop's body.
    End(usize),
}

/// A loop of the linear code. The first entry stands for the whole function.
#[derive(Clone, Debug)]
pub(crate) struct LoopInfo {
    pub(crate) parent: usize,
    pub(crate) depth: u32,
    pub(crate) counter: Counter,
    pub(crate) trips: Trips,
    pub(crate) step: i64,
    pub(crate) phis: Vec<Phi>,
    start: u32,
    end: u32,
    /// Constants in machine registers throughout the loop.
    pub(crate) constants: Vec<(Reg, u8)>,
}

/// The linear code with its register assignment.
#[derive(Debug)]
pub(crate) struct LinearCode {
    pub(crate) items: Vec<Item>,
    pub(crate) loops: Vec<LoopInfo>,
    /// The machine register of each register, or [`NOWHERE`].
    pub(crate) machine: Vec<u8>,
    /// The stack slot of each spilled register; [`NO_SLOT`] for the others.
    pub(crate) slots: Vec<u32>,
    /// The number of stack slots.
    pub(crate) frame: u32,
}

/// Marks a register without a machine register.
pub(crate) const NOWHERE: u8 = u8::MAX;
/// Marks a register without a stack slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// The most restarts after spilling.
const ROUNDS: usize = 64;

/// Assigns a machine register or a stack slot to every register.
pub(crate) fn allocate(unit: &mut MachineProgram) -> Result<LinearCode, VectorCompileError> {
    let mut line = LinearCode::of(std::mem::take(&mut unit.nodes));
    settle_constants(unit, &mut line);
    line.slots = vec![NO_SLOT; unit.registers.len()];
    for _ in 0..ROUNDS {
        let spilled = assign(unit, &mut line);
        if spilled.is_empty() {
            promote_constants(unit, &mut line);
            return Ok(line);
        }
        spill(unit, &mut line, &spilled);
    }
    Err(VectorCompileError::Registers)
}

impl LinearCode {
    fn of(nodes: Vec<Node>) -> LinearCode {
        let whole = LoopInfo {
            parent: 0,
            depth: 0,
            counter: Counter(u32::MAX),
            trips: Trips::Constant(1),
            step: 0,
            phis: Vec::new(),
            start: 0,
            end: 0,
            constants: Vec::new(),
        };
        let mut line = LinearCode {
            items: Vec::new(),
            loops: vec![whole],
            machine: Vec::new(),
            slots: Vec::new(),
            frame: 0,
        };
        line.put(nodes, 0);
        line
    }

    fn put(&mut self, nodes: Vec<Node>, parent: usize) {
        for node in nodes {
            match node {
                Node::Block(block) => self.items.extend(block.into_iter().map(Item::Inst)),
                Node::Loop(Loop { counter, trips, step, phis, body }) => {
                    let depth = self.loops[parent].depth + 1;
                    let constants = Vec::new();
                    let number = self.loops.len();
                    self.loops.push(LoopInfo {
                        parent,
                        depth,
                        counter,
                        trips,
                        step,
                        phis,
                        start: 0,
                        end: 0,
                        constants,
                    });
                    self.items.push(Item::Start(number));
                    self.put(body, number);
                    self.items.push(Item::End(number));
                }
            }
        }
    }

    /// The machine register in which this loop or an enclosing one holds a constant.
    pub(crate) fn constant_register(&self, inside: usize, reg: Reg) -> Option<u8> {
        let mut at = inside;
        while at != 0 {
            if let Some((_, register)) = self.loops[at].constants.iter().find(|(r, _)| *r == reg) {
                return Some(*register);
            }
            at = self.loops[at].parent;
        }
        None
    }

    /// Whether the moves at a loop's start or end form a cycle, which needs one more stack slot to resolve.
    pub(crate) fn has_move_cycles(&self) -> bool {
        let place = |reg: Reg| (self.machine[reg.index()], self.slots[reg.index()]);
        let has_cycle = |pairs: Vec<(Reg, Reg)>| {
            let mut moves: Vec<_> = pairs.into_iter().map(|(to, from)| (place(to), place(from))).collect();
            moves.retain(|(to, from)| to != from);
            while let Some(free) = moves.iter().position(|(to, _)| !moves.iter().any(|(_, from)| from == to))
            {
                moves.swap_remove(free);
            }
            !moves.is_empty()
        };
        let pairs = |info: &LoopInfo, from: fn(&Phi) -> Reg| -> Vec<(Reg, Reg)> {
            let pairs = info.phis.iter().map(|phi| (phi.phi, from(phi)));
            pairs.filter(|(_, from)| from.is_register()).collect()
        };
        self.loops
            .iter()
            .any(|info| has_cycle(pairs(info, |phi| phi.start)) || has_cycle(pairs(info, |phi| phi.next)))
    }

    /// Records the positions of the starts and ends of loops.
    fn number(&mut self) {
        for (position, item) in self.items.iter().enumerate() {
            match item {
                Item::Start(number) => self.loops[*number].start = position as u32,
                Item::End(number) => self.loops[*number].end = position as u32,
                Item::Inst(_) => {}
            }
        }
        self.loops[0].end = self.items.len() as u32;
    }
}

/// Inserts copies of the constants that an instruction cannot take from memory.
fn settle_constants(unit: &mut MachineProgram, line: &mut LinearCode) {
    let items = std::mem::take(&mut line.items);
    for item in items {
        let Item::Inst(mut inst) = item else {
            line.items.push(item);
            continue;
        };
        let is_constant = |unit: &MachineProgram, reg: Reg| unit.constant(reg).is_some();
        let [a, b, _] = inst.srcs;
        if inst.op.commutes() && is_constant(unit, a) && !is_constant(unit, b) && b != Reg::MEMORY {
            inst.srcs.swap(0, 1);
        }
        let mut room = inst.address.is_none();
        for source in (0..3).rev() {
            let reg = inst.srcs[source];
            if !is_constant(unit, reg) {
                continue;
            }
            let fits = unit.isa.memory_sources(inst.op) >> source & 1 == 1;
            if fits && std::mem::take(&mut room) {
                continue;
            }
            let copy = unit.register();
            line.items.push(Item::Inst(copy_of(reg, copy)));
            inst.srcs.iter_mut().filter(|src| **src == reg).for_each(|src| *src = copy);
        }
        line.items.push(Item::Inst(inst));
    }
}

fn copy_of(from: Reg, to: Reg) -> Inst {
    Inst {
        op: Op::Copy,
        dst: to,
        srcs: [from, Reg::NONE, Reg::NONE],
        imm: 0,
        address: None,
        access: Access::None,
        part: 0,
    }
}

/// Live ranges as half-open intervals of positions.
type Ranges = SmallVec<[(u32, u32); 2]>;

/// Registers that share a machine register, with their live ranges and spill weight.
#[derive(Clone, Debug, Default)]
struct AllocationClass {
    ranges: Ranges,
    weight: f32,
}

/// The state of one allocation attempt.
struct LinearScan<'a> {
    unit: &'a MachineProgram,
    line: &'a mut LinearCode,
    /// The loop that contains each register's definition.
    home: Vec<u32>,
    /// The loop of which each register is a phi; `u32::MAX` if it is not a phi.
    phi_of: Vec<u32>,
    /// The parent of each register in the union-find forest of classes.
    class: Vec<u32>,
    classes: Vec<AllocationClass>,
    /// Registers that must not be spilled: copies of spilled registers and of constants.
    short: Vec<bool>,
}

/// Assigns machine registers. Returns the registers to spill, each with its class; registers of one class
/// share a stack slot.
fn assign(unit: &MachineProgram, line: &mut LinearCode) -> Vec<(Reg, usize)> {
    line.number();
    line.slots.resize(unit.registers.len(), NO_SLOT);
    let mut scan = LinearScan::new(unit, line);
    scan.ranges();
    scan.coalesce();
    scan.scan()
}

impl<'a> LinearScan<'a> {
    /// A scan that knows no live ranges yet.
    fn new(unit: &'a MachineProgram, line: &'a mut LinearCode) -> LinearScan<'a> {
        let count = unit.registers.len();
        LinearScan {
            unit,
            line,
            home: vec![0; count],
            phi_of: vec![u32::MAX; count],
            class: (0..count as u32).collect(),
            classes: vec![AllocationClass::default(); count],
            short: vec![false; count],
        }
    }

    /// Whether a register needs a machine register.
    fn counts(&self, reg: Reg) -> bool {
        reg.is_register()
            && self.unit.registers[reg.index()] == NOT_CONSTANT
            && self.line.slots[reg.index()] == NO_SLOT
    }

    fn define(&mut self, reg: Reg, position: u32, inside: usize) {
        if self.counts(reg) {
            self.home[reg.index()] = inside as u32;
            let class = &mut self.classes[reg.index()];
            class.ranges.push((position, position + 1));
            class.weight += weight(&self.line.loops[inside]);
        }
    }

    fn used(&mut self, reg: Reg, position: u32, inside: usize) {
        if !self.counts(reg) {
            return;
        }
        let mut home = self.home[reg.index()] as usize;
        let mut range = 0;
        let phi_of = self.phi_of[reg.index()];
        if phi_of != u32::MAX && position > self.line.loops[phi_of as usize].end {
            home = self.line.loops[phi_of as usize].parent;
            range = 1;
        }
        let (mut end, mut at) = (position, inside);
        while at != home {
            end = self.line.loops[at].end + 1;
            at = self.line.loops[at].parent;
        }
        let class = &mut self.classes[reg.index()];
        class.ranges[range].1 = class.ranges[range].1.max(end);
        class.weight += weight(&self.line.loops[inside]);
    }

    fn ranges(&mut self) {
        let items = std::mem::take(&mut self.line.items);
        let mut inside = 0;
        for (position, item) in items.iter().enumerate() {
            let position = position as u32;
            match item {
                Item::Inst(inst) => {
                    let shared = self.unit.isa.result_sources(inst.op);
                    for (source, src) in inst.srcs.iter().enumerate() {
                        // A source that the result must not replace lives until after the instruction.
                        let outlives = shared != 0 && shared >> source & 1 == 0;
                        self.used(*src, position + u32::from(outlives), inside);
                    }
                    self.define(inst.dst, position, inside);
                    let frame = inst.address.is_some_and(|address| address.stream == Address::FRAME);
                    if frame && inst.dst.is_register() {
                        self.short[inst.dst.index()] = true;
                    }
                    if frame && inst.access == Access::Write {
                        self.short[inst.srcs[0].index()] = true;
                    }
                    if inst.op == Op::Copy && self.unit.constant(inst.srcs[0]).is_some() {
                        self.short[inst.dst.index()] = true;
                    }
                }
                Item::Start(number) => {
                    let phis = self.line.loops[*number].phis.clone();
                    phis.iter().for_each(|phi| self.used(phi.start, position, inside));
                    inside = *number;
                    let end = self.line.loops[inside].end;
                    for phi in &phis {
                        self.define(phi.phi, position, inside);
                        if self.counts(phi.phi) {
                            self.phi_of[phi.phi.index()] = inside as u32;
                            self.classes[phi.phi.index()].ranges.push((end, end + 1));
                        }
                    }
                }
                Item::End(number) => {
                    let phis = self.line.loops[*number].phis.clone();
                    phis.iter().for_each(|phi| self.used(phi.next, position, inside));
                    inside = self.line.loops[*number].parent;
                }
            }
        }
        self.line.items = items;
    }

    fn class_of(&self, reg: Reg) -> usize {
        let mut at = reg.index();
        while self.class[at] as usize != at {
            at = self.class[at] as usize;
        }
        at
    }

    fn coalesce(&mut self) {
        for number in (1..self.line.loops.len()).rev() {
            for i in 0..self.line.loops[number].phis.len() {
                let phi = self.line.loops[number].phis[i];
                self.coalesce_pair(phi.phi, phi.next);
                self.coalesce_pair(phi.phi, phi.start);
            }
        }
    }

    /// Merges the classes of two registers if their live ranges do not overlap.
    fn coalesce_pair(&mut self, a: Reg, b: Reg) {
        if !self.counts(a) || !self.counts(b) {
            return;
        }
        let (a, b) = (self.class_of(a), self.class_of(b));
        if a == b || overlap(&self.classes[a].ranges, &self.classes[b].ranges) {
            return;
        }
        self.class[b] = a as u32;
        let other = std::mem::take(&mut self.classes[b]);
        let class = &mut self.classes[a];
        class.ranges.extend(other.ranges);
        class.ranges.sort_unstable();
        class.weight += other.weight;
    }

    fn scan(&mut self) -> Vec<(Reg, usize)> {
        let mut classes: Vec<usize> = (0..self.classes.len())
            .filter(|&class| self.class[class] as usize == class && !self.classes[class].ranges.is_empty())
            .collect();
        classes.sort_by_key(|&class| self.classes[class].ranges[0].0);
        let mut short = vec![false; self.classes.len()];
        for reg in 0..self.short.len() {
            if self.short[reg] {
                short[self.class_of(Reg(reg as u32))] = true;
            }
        }
        let registers = self.unit.isa.registers();
        let mut taken: Vec<Vec<usize>> = vec![Vec::new(); registers];
        let mut machine = vec![NOWHERE; self.classes.len()];
        let mut spilled = Vec::new();
        for class in classes {
            let start = self.classes[class].ranges[0].0;
            for register in &mut taken {
                register
                    .retain(|&other| self.classes[other].ranges.last().is_some_and(|range| range.1 > start));
            }
            let ranges = &self.classes[class].ranges;
            let free = |register: &[usize]| {
                !register.iter().any(|&other| overlap(&self.classes[other].ranges, ranges))
            };
            let preferred = self.preferred(start, &machine).find(|&register| free(&taken[register as usize]));
            let found =
                preferred.or_else(|| (0..registers as u8).find(|&register| free(&taken[register as usize])));
            if let Some(register) = found {
                taken[register as usize].push(class);
                machine[class] = register;
                continue;
            }
            let cost = |class: usize| {
                let ranges = &self.classes[class].ranges;
                let length: u32 = ranges.iter().map(|range| range.1 - range.0).sum();
                if short[class] { f32::INFINITY } else { self.classes[class].weight / (length + 1) as f32 }
            };
            let in_the_way = |register: &[usize]| -> Vec<usize> {
                let clash = |other: &&usize| overlap(&self.classes[**other].ranges, ranges);
                register.iter().filter(clash).copied().collect()
            };
            let costs = taken.iter().map(|register| in_the_way(register).into_iter().map(cost).sum::<f32>());
            let cheapest = costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            let (register, least) = cheapest.expect("there are registers");
            if least >= cost(class) && !short[class] {
                spilled.push(class);
                continue;
            }
            let evicted = in_the_way(&taken[register]);
            taken[register].retain(|other| !evicted.contains(other));
            taken[register].push(class);
            machine[class] = register as u8;
            spilled.extend(evicted);
        }
        self.line.machine =
            (0..self.class.len()).map(|reg| machine[self.class_of(Reg(reg as u32))]).collect();
        let members = (0..self.class.len() as u32).map(|reg| (Reg(reg), self.class_of(Reg(reg))));
        members.filter(|(_, class)| spilled.contains(class)).collect()
    }

    /// If a class starts at an instruction that updates its result: the machine registers of the operands
    /// that the result may replace. A class that gets one of them needs no copy there.
    fn preferred(&self, start: u32, machine: &[u8]) -> impl Iterator<Item = u8> {
        let mut registers: SmallVec<[u8; 3]> = SmallVec::new();
        if let Item::Inst(inst) = &self.line.items[start as usize] {
            let shared = self.unit.isa.result_sources(inst.op);
            for source in [2, 0, 1] {
                if shared >> source & 1 == 1 && self.counts(inst.srcs[source]) {
                    registers.push(machine[self.class_of(inst.srcs[source])]);
                }
            }
        }
        registers.into_iter().filter(|register| *register != NOWHERE)
    }
}

/// The spill weight of a use at this loop depth.
fn weight(inside: &LoopInfo) -> f32 {
    8.0_f32.powi(inside.depth as i32)
}

/// Whether two lists of live ranges, each in ascending order, overlap.
fn overlap(a: &[(u32, u32)], b: &[(u32, u32)]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.0 < y.1 && y.0 < x.1))
}

/// Spills registers: a store after each definition, a load before each use.
fn spill(unit: &mut MachineProgram, line: &mut LinearCode, classes: &[(Reg, usize)]) {
    for (i, &(reg, class)) in classes.iter().enumerate() {
        let same = classes[..i].iter().find(|(_, other)| *other == class);
        line.slots[reg.index()] = match same {
            Some((other, _)) => line.slots[other.index()],
            None => {
                line.frame += 1;
                line.frame - 1
            }
        };
    }
    let spilled: Vec<Reg> = classes.iter().map(|(reg, _)| *reg).collect();
    let items = std::mem::take(&mut line.items);
    let mut rewritten = Vec::with_capacity(items.len() * 2);
    for mut item in items {
        match &mut item {
            Item::Inst(inst) => {
                for source in 0..3 {
                    let reg = inst.srcs[source];
                    if reg.is_register() && spilled.contains(&reg) {
                        let loaded = unit.register();
                        line.slots.push(NO_SLOT);
                        rewritten.push(Item::Inst(frame_load(
                            loaded,
                            line.slots[reg.index()],
                            unit.isa.bytes(),
                        )));
                        inst.srcs.iter_mut().filter(|src| **src == reg).for_each(|src| *src = loaded);
                    }
                }
                if inst.dst.is_register() && spilled.contains(&inst.dst) {
                    let place = line.slots[inst.dst.index()];
                    inst.dst = unit.register();
                    line.slots.push(NO_SLOT);
                    let stored = inst.dst;
                    rewritten.push(item);
                    rewritten.push(Item::Inst(frame_store(stored, place, unit.isa.bytes())));
                    continue;
                }
            }
            // The moves of a loop access stack slots directly.
            Item::Start(_) | Item::End(_) => {}
        }
        rewritten.push(item);
    }
    line.items = rewritten;
}

fn frame_address(place: u32, bytes: u32) -> Address {
    Address { stream: Address::FRAME, offset: i64::from(place) * i64::from(bytes), bytes }
}

fn frame_load(dst: Reg, place: u32, bytes: u32) -> Inst {
    let none = [Reg::NONE; 3];
    let address = Some(frame_address(place, bytes));
    Inst { op: Op::Load, dst, srcs: none, imm: 0, address, access: Access::Read, part: 0 }
}

fn frame_store(src: Reg, place: u32, bytes: u32) -> Inst {
    let srcs = [src, Reg::NONE, Reg::NONE];
    let address = Some(frame_address(place, bytes));
    Inst { op: Op::Store, dst: Reg::NONE, srcs, imm: 0, address, access: Access::Write, part: 0 }
}

/// Assigns constants to machine registers that are free throughout a loop.
fn promote_constants(unit: &MachineProgram, line: &mut LinearCode) {
    line.number();
    let mut inside = 0;
    let mut uses: Vec<(Reg, usize, f32)> = Vec::new();
    let mut note = |reg: Reg, inside: usize, weight: f32| {
        if unit.constant(reg).is_some() && inside != 0 {
            match uses.iter_mut().find(|(r, i, _)| (*r, *i) == (reg, inside)) {
                Some(entry) => entry.2 += weight,
                None => uses.push((reg, inside, weight)),
            }
        }
    };
    for item in &line.items {
        match item {
            Item::Inst(inst) => {
                // A constant operand in memory costs little; a copy costs an instruction.
                let cost = if inst.op == Op::Copy { 4.0 } else { 1.0 };
                let weight = cost * weight(&line.loops[inside]);
                inst.srcs.iter().for_each(|src| note(*src, inside, weight));
            }
            Item::Start(number) => inside = *number,
            Item::End(number) => inside = line.loops[*number].parent,
        }
    }
    uses.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut busy = busy_ranges(unit, line);
    for (reg, inside, _) in uses {
        let mut around = vec![inside];
        while line.loops[around[around.len() - 1]].parent != 0 {
            around.push(line.loops[around[around.len() - 1]].parent);
        }
        if around.iter().any(|&l| line.loops[l].constants.iter().any(|(r, _)| *r == reg)) {
            continue;
        }
        let found = around.iter().rev().find_map(|&l| {
            let whole = (line.loops[l].start, line.loops[l].end + 1);
            let register = busy.iter().position(|ranges| !overlap(ranges, &[whole]))?;
            Some((l, register, whole))
        });
        if let Some((l, register, whole)) = found {
            busy[register].push(whole);
            line.loops[l].constants.push((reg, register as u8));
        }
    }
    drop_copies(unit, line);
}

/// Drops copies of constants that the loop holds in a machine register, and uses that register.
fn drop_copies(unit: &MachineProgram, line: &mut LinearCode) {
    let mut inside = 0;
    let mut items = std::mem::take(&mut line.items);
    items.retain(|item| {
        match item {
            Item::Inst(inst) if inst.op == Op::Copy && unit.constant(inst.srcs[0]).is_some() => {
                if let Some(register) = line.constant_register(inside, inst.srcs[0]) {
                    line.machine[inst.dst.index()] = register;
                    return false;
                }
            }
            Item::Inst(_) => {}
            Item::Start(number) => inside = *number,
            Item::End(number) => inside = line.loops[*number].parent,
        }
        true
    });
    line.items = items;
}

/// The live ranges of each machine register.
fn busy_ranges(unit: &MachineProgram, line: &mut LinearCode) -> Vec<Vec<(u32, u32)>> {
    let machine = line.machine.clone();
    let mut scan = LinearScan::new(unit, line);
    scan.ranges();
    let mut busy = vec![Vec::new(); unit.isa.registers()];
    for (reg, class) in scan.classes.iter().enumerate() {
        if machine[reg] != NOWHERE {
            busy[machine[reg] as usize].extend(class.ranges.iter().copied());
        }
    }
    busy
}
