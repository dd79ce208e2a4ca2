//! Instruction order within a block: how many registers of a value are computed side by side.
//!
//! Lowering emits a statement's instructions for all parts of its value, then those of the next statement.
//! Computing many parts side by side hides latency, but needs many registers. This pass divides the parts
//! into the largest groups whose register pressure fits; within a group the order of the statements stays the
//! same. A load moves to just before its first use, and a load with one use becomes a memory operand if the
//! instruction takes one. Instructions without a use are dropped.

use std::collections::HashMap;

use crate::machine::{Access, Address, Base, Inst, MachineProgram, Node, Reg};

/// Orders the instructions of all blocks.
pub(crate) fn order(unit: &mut MachineProgram) {
    let mut nodes = std::mem::take(&mut unit.nodes);
    let mut uses = vec![0; unit.registers.len()];
    count_uses(&nodes, &mut uses);
    let mut work = BlockScheduler {
        unit,
        uses,
        position: Vec::new(),
        left: Vec::new(),
        outside: Vec::new(),
        carried: Vec::new(),
    };
    work.position = vec![u32::MAX; work.uses.len()];
    work.left = vec![0; work.uses.len()];
    work.carried = vec![false; work.uses.len()];
    work.outside = vec![false; work.uses.len()];
    work.nodes(&mut nodes, false);
    unit.nodes = nodes;
}

fn count_uses(nodes: &[Node], uses: &mut [u32]) {
    let mut count = |reg: Reg| {
        if reg.is_register() {
            uses[reg.index()] += 1;
        }
    };
    for node in nodes {
        match node {
            Node::Block(block) => block.iter().flat_map(|inst| inst.srcs).for_each(&mut count),
            Node::Loop(inner) => {
                inner.phis.iter().for_each(|phi| count(phi.start));
                inner.phis.iter().for_each(|phi| count(phi.next));
                // The loop itself uses its phis.
                inner.phis.iter().for_each(|phi| count(phi.phi));
            }
        }
    }
    for node in nodes {
        if let Node::Loop(inner) = node {
            count_uses(&inner.body, uses);
        }
    }
}

struct BlockScheduler<'a> {
    unit: &'a MachineProgram,
    /// The number of uses of each register in the program.
    uses: Vec<u32>,
    /// The position of each register's definition in the block.
    position: Vec<u32>,
    /// The number of uses in the block, counted down during the pressure estimate.
    left: Vec<u32>,
    /// Whether a register defined in the block is used outside of it.
    outside: Vec<bool>,
    /// Whether the enclosing loop carries a register.
    carried: Vec<bool>,
}

impl BlockScheduler<'_> {
    fn nodes(&mut self, nodes: &mut [Node], in_loop: bool) {
        for node in nodes {
            match node {
                Node::Block(block) => *block = self.block(std::mem::take(block), in_loop),
                Node::Loop(inner) => {
                    inner.phis.iter().for_each(|phi| self.carried[phi.phi.index()] = true);
                    self.nodes(&mut inner.body, true);
                    inner.phis.iter().for_each(|phi| self.carried[phi.phi.index()] = false);
                }
            }
        }
    }

    fn block(&mut self, mut block: Vec<Inst>, in_loop: bool) -> Vec<Inst> {
        self.fold_loads(&mut block);
        let graph = self.graph(&block);
        let parts = block.iter().map(|inst| inst.part + 1).max().unwrap_or(1);
        let mut best = (u32::MAX, Vec::new());
        let mut group = parts;
        loop {
            let order = order_in_groups(&block, &graph, group);
            let pressure = self.pressure(&block, &order, in_loop);
            if pressure < best.0 {
                best = (pressure, order);
            }
            if group == 1 || best.0 < self.unit.isa.registers() as u32 {
                break;
            }
            group = group.div_ceil(2);
        }
        for inst in &block {
            if inst.dst.is_register() {
                self.position[inst.dst.index()] = u32::MAX;
            }
        }
        let mut slots: Vec<Option<Inst>> = block.into_iter().map(Some).collect();
        best.1.into_iter().filter_map(|i| slots[i as usize].take()).collect()
    }

    fn fold_loads(&mut self, block: &mut [Inst]) {
        for (i, inst) in block.iter().enumerate() {
            if inst.dst.is_register() {
                self.position[inst.dst.index()] = i as u32;
            }
        }
        let stores: Vec<(usize, Address)> = block
            .iter()
            .enumerate()
            .filter(|(_, inst)| inst.access == Access::Write)
            .filter_map(|(i, inst)| Some((i, inst.address?)))
            .collect();
        for j in 0..block.len() {
            let Some((source, i)) = self.foldable(block, j) else { continue };
            let address = block[i].address.expect("loads have addresses");
            if stores.iter().any(|&(at, store)| i < at && at < j && self.unit.overlap(address, store)) {
                continue;
            }
            let loaded = std::mem::replace(&mut block[j].srcs[source], Reg::MEMORY);
            if self.unit.isa.memory_sources(block[j].op) >> source & 1 == 0 {
                block[j].srcs.swap(0, 1);
            }
            (block[j].address, block[j].access) = (Some(address), Access::Read);
            // The rest of the load has no use, so it is dropped.
            (block[i].address, block[i].access) = (None, Access::None);
            self.uses[loaded.index()] = 0;
        }
    }

    /// Finds an operand of the instruction at `j` that a load produces, that has no other use, and that can
    /// be the instruction's memory operand. Returns the operand's number and the position of the load.
    fn foldable(&self, block: &[Inst], j: usize) -> Option<(usize, usize)> {
        let inst = &block[j];
        let places = self.unit.isa.memory_sources(inst.op);
        if places == 0 || inst.address.is_some() {
            return None;
        }
        let load = self.unit.isa.operand_load(inst.op)?;
        let fits = |source: usize| places >> source & 1 == 1 || (inst.op.commutes() && source < 2);
        (0..3).rev().filter(|source| fits(*source)).find_map(|source| {
            let reg = inst.srcs[source];
            if !reg.is_register() || self.uses[reg.index()] != 1 {
                return None;
            }
            let i = self.position[reg.index()] as usize;
            (i < j && block[i].op == load).then_some((source, i))
        })
    }

    /// The bases that a block writes, each with an empty list of accesses.
    fn written(&self, block: &[Inst]) -> HashMap<Base, Vec<usize>> {
        let writes = block.iter().filter(|inst| inst.access == Access::Write);
        let addresses = writes.filter_map(|inst| inst.address);
        addresses.map(|address| (self.unit.streams[address.stream as usize].base, Vec::new())).collect()
    }

    fn graph(&mut self, block: &[Inst]) -> DependenceGraph {
        let mut graph =
            DependenceGraph { first: vec![0], after: Vec::with_capacity(block.len() * 2), roots: Vec::new() };
        let mut memory = self.written(block);
        for (i, inst) in block.iter().enumerate() {
            for src in inst.srcs.iter().filter(|src| src.is_register()) {
                self.left[src.index()] += 1;
                let at = self.position[src.index()];
                if at != u32::MAX {
                    graph.after.push(at);
                }
            }
            if let (Some(address), Access::Read | Access::Write) = (inst.address, inst.access)
                && let Some(accesses) = memory.get_mut(&self.unit.streams[address.stream as usize].base)
            {
                for &other in accesses.iter() {
                    let write = inst.access == Access::Write || block[other].access == Access::Write;
                    if write && block[other].address.is_some_and(|other| self.unit.overlap(address, other)) {
                        graph.after.push(other as u32);
                    }
                }
                accesses.push(i);
            }
            graph.first.push(graph.after.len() as u32);
        }
        for (i, inst) in block.iter().enumerate() {
            let wanted = match inst.access {
                Access::Write | Access::Hint => true,
                _ => self.uses[inst.dst.index()] > self.left[inst.dst.index()],
            };
            if wanted {
                graph.roots.push(i as u32);
            }
        }
        for (i, inst) in block.iter().enumerate() {
            for src in inst.srcs.iter().filter(|src| src.is_register()) {
                self.left[src.index()] = 0;
            }
            if inst.dst.is_register() {
                self.outside[inst.dst.index()] = graph.roots.binary_search(&(i as u32)).is_ok();
            }
        }
        graph
    }

    /// The maximum number of live registers. A register from outside of the block stays live throughout a
    /// loop, unless the loop carries it.
    fn pressure(&mut self, block: &[Inst], order: &[u32], in_loop: bool) -> u32 {
        let mut alive = 0;
        let sources = |i: u32| block[i as usize].srcs.into_iter().filter(|src| src.is_register());
        for src in order.iter().flat_map(|&i| sources(i)) {
            let outside = self.position[src.index()] == u32::MAX && self.unit.constant(src).is_none();
            if self.left[src.index()] == 0 && outside {
                alive += 1;
            }
            self.left[src.index()] += 1;
        }
        let mut most = alive;
        for &i in order {
            for src in sources(i) {
                let left = &mut self.left[src.index()];
                *left -= 1;
                if *left > 0 || self.unit.constant(src).is_some() {
                    continue;
                }
                let inside = self.position[src.index()] != u32::MAX;
                let dies =
                    if inside { !self.outside[src.index()] } else { !in_loop || self.carried[src.index()] };
                alive -= u32::from(dies);
            }
            alive += u32::from(block[i as usize].dst.is_register());
            most = most.max(alive);
        }
        most
    }
}

/// The dependences of a block's instructions: operands, and earlier accesses of the same memory.
struct DependenceGraph {
    /// For each instruction, the start of its dependences in `after`.
    first: Vec<u32>,
    after: Vec<u32>,
    /// Instructions that are needed for themselves: stores, prefetches, and definitions used outside of the
    /// block.
    roots: Vec<u32>,
}

impl DependenceGraph {
    fn before(&self, i: u32) -> &[u32] {
        &self.after[self.first[i as usize] as usize..self.first[i as usize + 1] as usize]
    }
}

/// The order with `group` parts side by side.
fn order_in_groups(block: &[Inst], graph: &DependenceGraph, group: u32) -> Vec<u32> {
    let mut order = Vec::with_capacity(block.len());
    let mut state = vec![ScheduleState::Unwanted; block.len()];
    let mut roots = graph.roots.clone();
    roots.sort_by_key(|&root| block[root as usize].part / group);
    let mut wanted = Vec::new();
    for roots in roots.chunk_by(|a, b| block[*a as usize].part / group == block[*b as usize].part / group) {
        wanted.clear();
        let mut stack = roots.to_vec();
        while let Some(i) = stack.pop() {
            if state[i as usize] == ScheduleState::Unwanted {
                state[i as usize] = ScheduleState::Wanted;
                wanted.push(i);
                stack.extend(graph.before(i));
            }
        }
        wanted.sort_unstable();
        for &i in &wanted {
            // A load is placed with its first use.
            if !block[i as usize].op.is_load() || roots.contains(&i) {
                place(i, graph, &mut state, &mut order);
            }
        }
    }
    order
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScheduleState {
    Unwanted,
    Wanted,
    Placed,
}

/// Appends an instruction after all of its dependences.
fn place(i: u32, graph: &DependenceGraph, state: &mut [ScheduleState], order: &mut Vec<u32>) {
    if state[i as usize] == ScheduleState::Placed {
        return;
    }
    for &before in graph.before(i) {
        place(before, graph, state, order);
    }
    state[i as usize] = ScheduleState::Placed;
    order.push(i);
}
