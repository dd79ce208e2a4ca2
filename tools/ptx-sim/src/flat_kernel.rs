//! Kernels flattened into a list of steps, so that a warp can stop and resume at any of them.
//!
//! A warp has a mask of active lanes and a stack of frames. A branch pushes a frame, executes one side with
//! the lanes that take it, then the other side, then pops the frame; it skips a side that no lane takes. A
//! loop pushes a frame and removes lanes from the mask until none is left. Diverged lanes reconverge at the
//! end of the statement.

use std::cell::Cell;

use super::array_layout::ArrayLayout;
use super::fault::{CheckResult, malformed};
use ptx_asm::Inst;
use ptx_asm::{GuardPredicate, PtxKernel, PtxStmt, Reg, RegClass, StateSpace, StmtList};

/// A step of a warp.
#[derive(Debug)]
pub(super) enum FlatStep<'k> {
    /// Executes an instruction for the active lanes whose guard is true.
    Inst { guard: Option<GuardPredicate>, inst: &'k Inst, number: usize },
    /// Pushes a frame. Continues with the lanes whose guard is true; if there are none, at `otherwise`.
    Split { guard: GuardPredicate, otherwise: usize },
    /// Continues with the other lanes of the frame; if there are none, at `end`.
    Otherwise { end: usize },
    /// Pops the frame and reactivates its lanes.
    Join,
    /// Pushes a frame for a loop.
    Enter,
    /// Keeps the lanes whose guard is true and jumps to `body`; if there are none, pops the frame.
    Again { guard: GuardPredicate, body: usize },
}

/// A kernel in the form that the simulator executes.
#[derive(Debug)]
pub(super) struct FlatKernel<'k> {
    pub(super) kernel: &'k PtxKernel,
    pub(super) steps: Vec<FlatStep<'k>>,
    /// All instructions, in program order.
    pub(super) insts: Vec<&'k Inst>,
    /// Index of the first register of each class, and the total.
    first: [u32; 7],
    pub(super) shared: ArrayLayout,
    pub(super) local: ArrayLayout,
    /// Whether TMA or `wgmma` accesses shared memory.
    pub(super) is_asynchronous: bool,
    /// Whether the kernel has `wgmma` instructions.
    pub(super) has_wgmma: bool,
}

/// Maximum number of registers of a thread; far more than any GPU has.
const MAX_REGISTERS: u64 = 1 << 16;

/// Maximum number of threads of a block on any GPU.
const MAX_THREADS: u32 = 1024;

impl<'k> FlatKernel<'k> {
    /// # Errors
    ///
    /// [`super::FaultCause::Malformed`] for too many threads, registers or bytes of arrays.
    pub(super) fn new(kernel: &'k PtxKernel) -> CheckResult<FlatKernel<'k>> {
        if !(1..=MAX_THREADS).contains(&kernel.threads) {
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
            has_wgmma: false,
        };
        program.block(&kernel.body);
        let has = |found: fn(&Inst) -> bool| program.insts.iter().any(|inst| found(inst));
        let has_tiles = has(|inst| matches!(inst, Inst::TmaLoad { .. } | Inst::TmaStore { .. }));
        program.has_wgmma = has(|inst| matches!(inst, Inst::Wgmma { .. }));
        program.is_asynchronous = has_tiles || program.has_wgmma;
        program.number_registers()?;
        Ok(program)
    }

    /// Number of registers of a thread.
    pub(super) fn registers(&self) -> usize {
        self.first[RegClass::ALL.len()] as usize
    }

    /// Number of the SM's registers that a block has.
    pub(super) fn register_pool(&self) -> u32 {
        (64 << 10) / self.kernel.min_blocks_per_sm.unwrap_or(1).max(1)
    }

    pub(super) fn allowance(&self) -> u32 {
        (self.register_pool() / self.kernel.threads).min(255) / 8 * 8
    }

    /// Index of a register among all registers of a thread.
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

    /// Counts the registers of each class and assigns their indices.
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
            if sum > MAX_REGISTERS {
                return malformed(format!("a thread has more than {MAX_REGISTERS} registers"));
            }
        }
        self.first[counts.len()] = sum as u32;
        Ok(())
    }
}
