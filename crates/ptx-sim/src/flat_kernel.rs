//! Kernels as one list of steps, so that a warp can stop anywhere and go on later.
//!
//! A warp has a mask of active lanes and a stack. A branch pushes a frame, runs one side with the lanes that take it, then the other, then
//! pops; sides that no lane takes are jumped over. A loop pushes a frame and takes lanes out of the mask until none is left. Lanes that
//! parted meet at the end of the statement: the tree says where that is.

use std::cell::Cell;

use super::array_layout::ArrayLayout;
use super::fault::{CheckResult, malformed};
use ptx_asm::Inst;
use ptx_asm::{GuardPredicate, PtxKernel, PtxStmt, Reg, RegClass, StateSpace, StmtList};

/// A step of a warp.
#[derive(Debug)]
pub(super) enum FlatStep<'k> {
    /// An instruction of the active lanes for which the guard, if there is one, holds.
    Inst { guard: Option<GuardPredicate>, inst: &'k Inst, number: usize },
    /// Pushes; goes on with the lanes for which the guard holds, or if there are none, at `otherwise`.
    Split { guard: GuardPredicate, otherwise: usize },
    /// Goes on with the other lanes, or if there are none, at `end`.
    Otherwise { end: usize },
    /// Pops; all lanes that were active before are again.
    Join,
    /// Pushes.
    Enter,
    /// Keeps the lanes for which the guard holds and goes back to `body`; if there are none, pops.
    Again { guard: GuardPredicate, body: usize },
}

/// A kernel that can be run.
#[derive(Debug)]
pub(super) struct FlatKernel<'k> {
    pub(super) kernel: &'k PtxKernel,
    pub(super) steps: Vec<FlatStep<'k>>,
    /// All instructions, in order.
    pub(super) insts: Vec<&'k Inst>,
    /// Where registers of each class start, and where the last class ends.
    first: [u32; 7],
    pub(super) shared: ArrayLayout,
    pub(super) local: ArrayLayout,
    /// Whether copies of tiles or products touch shared memory.
    pub(super) is_asynchronous: bool,
    /// Whether there are products of warpgroups.
    pub(super) has_products: bool,
}

/// What a thread has room for here; far more than on any processor.
const MOST_REGISTERS: u64 = 1 << 16;

/// The most threads a block has on any processor.
const MOST_THREADS: u32 = 1024;

impl<'k> FlatKernel<'k> {
    /// # Errors
    ///
    /// [`super::Cause::Malformed`] for too many threads, registers or bytes.
    pub(super) fn new(kernel: &'k PtxKernel) -> CheckResult<FlatKernel<'k>> {
        if !(1..=MOST_THREADS).contains(&kernel.threads) {
            return malformed(format!("a block has {} threads", kernel.threads));
        }
        let mut program = FlatKernel {
            kernel,
            steps: Vec::new(),
            insts: Vec::new(),
            first: [0; 7],
            shared: ArrayLayout::new(StateSpace::Shared, &kernel.shared)?,
            local: ArrayLayout::new(StateSpace::Local, &kernel.local)?,
            is_asynchronous: false,
            has_products: false,
        };
        program.block(&kernel.body);
        let has = |found: fn(&Inst) -> bool| program.insts.iter().any(|inst| found(inst));
        let has_tiles = has(|inst| matches!(inst, Inst::TmaLoad { .. } | Inst::TmaStore { .. }));
        program.has_products = has(|inst| matches!(inst, Inst::Wgmma { .. }));
        program.is_asynchronous = has_tiles || program.has_products;
        program.number_registers()?;
        Ok(program)
    }

    /// How many registers a thread has.
    pub(super) fn registers(&self) -> usize {
        self.first[RegClass::ALL.len()] as usize
    }

    /// Registers of a multiprocessor that a block has, and how many of them each thread has at first.
    pub(super) fn register_pool(&self) -> u32 {
        (64 << 10) / self.kernel.min_blocks_per_sm.unwrap_or(1).max(1)
    }

    pub(super) fn allowance(&self) -> u32 {
        (self.register_pool() / self.kernel.threads).min(255) / 8 * 8
    }

    /// A register's place among all of a thread.
    pub(super) fn register(&self, reg: Reg) -> usize {
        (self.first[reg.class as usize] + reg.number) as usize
    }

    fn block(&mut self, block: &'k StmtList) {
        for stmt in block {
            match stmt {
                PtxStmt::Inst(inst) => self.inst(None, inst),
                PtxStmt::Predicated(guard, inst) => self.inst(Some(*guard), inst),
                PtxStmt::If { guard, then, otherwise } => self.branch(*guard, then, otherwise),
                PtxStmt::Loop { body, repeat_while } => {
                    self.steps.push(FlatStep::Enter);
                    let start = self.steps.len();
                    self.block(body);
                    self.steps.push(FlatStep::Again { guard: *repeat_while, body: start });
                }
                PtxStmt::Comment(_) => {}
            }
        }
    }

    fn inst(&mut self, guard: Option<GuardPredicate>, inst: &'k Inst) {
        self.steps.push(FlatStep::Inst { guard, inst, number: self.insts.len() });
        self.insts.push(inst);
    }

    fn branch(&mut self, guard: GuardPredicate, then: &'k StmtList, otherwise: &'k StmtList) {
        let split = self.steps.len();
        self.steps.push(FlatStep::Split { guard, otherwise: 0 });
        self.block(then);
        let middle = self.steps.len();
        self.steps.push(FlatStep::Otherwise { end: 0 });
        self.block(otherwise);
        let end = self.steps.len();
        self.steps.push(FlatStep::Join);
        self.steps[split] = FlatStep::Split { guard, otherwise: middle };
        self.steps[middle] = FlatStep::Otherwise { end };
    }

    /// Finds how many registers of each class there are.
    fn number_registers(&mut self) -> CheckResult<()> {
        let counts: [Cell<u64>; 6] = Default::default();
        let see = |reg: Reg| {
            let count = &counts[reg.class as usize];
            count.set(count.get().max(u64::from(reg.number) + 1));
        };
        for step in &self.steps {
            match step {
                FlatStep::Inst { guard, inst, .. } => {
                    inst.registers(&mut |reg| see(reg), &mut |reg| see(reg));
                    guard.iter().for_each(|guard| see(guard.pred));
                }
                FlatStep::Split { guard, .. } | FlatStep::Again { guard, .. } => see(guard.pred),
                FlatStep::Otherwise { .. } | FlatStep::Join | FlatStep::Enter => {}
            }
        }
        let mut sum = 0;
        for (i, count) in counts.iter().enumerate() {
            self.first[i] = sum as u32;
            sum += count.get();
            if sum > MOST_REGISTERS {
                return malformed(format!("a thread has more than {MOST_REGISTERS} registers"));
            }
        }
        self.first[counts.len()] = sum as u32;
        Ok(())
    }
}
