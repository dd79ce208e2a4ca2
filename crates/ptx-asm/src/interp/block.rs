//! A block: its warps, what they share, and in which order they take steps.

use super::Order;
use super::access::Global;
use super::arrays::Contents;
use super::copies::Copies;
use super::fault::{Cause, Check, Fault, Site, Stop};
use super::flat::{Program, Step};
use super::races::{Clocks, Shadow};
use super::stats::InstStats;
use super::warp::{Event, Warp};

/// What a launch has for all its blocks.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) program: &'a Program<'a>,
    pub(super) params: &'a [u64],
    pub(super) blocks: u32,
    pub(super) global: Global<'a>,
    pub(super) stats: Vec<InstStats>,
    /// Where choices come from, if they are to be made by chance.
    pub(super) chance: Option<fastrand::Rng>,
    /// Instructions of warps that may still run, and how many there were.
    pub(super) left: u64,
    pub(super) limit: u64,
}

/// What the threads of a block have together.
#[derive(Debug)]
pub(super) struct Shared {
    /// The block's number.
    pub(super) block: u32,
    pub(super) contents: Contents,
    pub(super) shadow: Shadow,
    pub(super) clocks: Clocks,
    pub(super) copies: Copies,
    /// Each thread's own memory.
    pub(super) local: Vec<Contents>,
}

/// A barrier that warps wait at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meeting {
    pub(super) id: u32,
    pub(super) threads: u32,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        program: &'a Program<'a>,
        launch: &super::Launch<'a>,
        global: Global<'a>,
        order: Order,
    ) -> Run<'a> {
        Run {
            program,
            params: launch.params,
            blocks: launch.blocks,
            global,
            stats: program.insts.iter().map(|inst| InstStats::new(inst)).collect(),
            chance: match order {
                Order::InTurn => None,
                Order::Random { seed } => Some(fastrand::Rng::with_seed(seed)),
            },
            left: launch.limit,
            limit: launch.limit,
        }
    }

    /// Runs every block.
    pub(super) fn blocks(&mut self) -> Result<(), Fault> {
        let mut order: Vec<u32> = (0..self.blocks).collect();
        if let Some(chance) = &mut self.chance {
            chance.shuffle(&mut order);
        }
        let mut shared = Shared::new(self.program);
        order.into_iter().try_for_each(|block| self.block(block, &mut shared))
    }

    fn block(&mut self, block: u32, shared: &mut Shared) -> Result<(), Fault> {
        let threads = self.program.kernel.threads;
        shared.reset(block, threads);
        let mut warps: Vec<Warp> =
            (0..threads.div_ceil(32)).map(|warp| Warp::new(self.program, warp, threads)).collect();
        loop {
            let ready: Vec<usize> = (0..warps.len()).filter(|&i| warps[i].is_ready()).collect();
            if ready.is_empty() {
                return self.at_rest(&warps, shared);
            }
            let (next, steps) = self.choose(&ready);
            self.steps(&mut warps, next, steps, shared)?;
        }
    }

    /// A warp, and how many steps it may take: all it can, or a few.
    fn choose(&mut self, ready: &[usize]) -> (usize, u32) {
        match &mut self.chance {
            None => (ready[0], u32::MAX),
            Some(chance) => (ready[chance.usize(..ready.len())], chance.u32(1..=3)),
        }
    }

    /// Lets a warp take steps until it waits or ends, or has taken so many.
    fn steps(&mut self, warps: &mut [Warp], at: usize, steps: u32, shared: &mut Shared) -> Result<(), Fault> {
        for _ in 0..steps {
            let warp = &mut warps[at];
            let event = self
                .step(warp, shared)
                .map_err(|stop| self.fault(warp.number, warp.pc, shared.block, stop))?;
            match event {
                Event::Goes => {}
                Event::Ends => break,
                Event::Meets(meeting) => {
                    let (number, pc) = (warp.number, warp.pc);
                    warp.waits = Some(meeting);
                    self.meet(warps, meeting, shared)
                        .map_err(|cause| self.fault(number, pc, shared.block, Stop { lane: 0, cause }))?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Lets the warps at a barrier go on, if they are as many as it is for.
    fn meet(&mut self, warps: &mut [Warp], meeting: Meeting, shared: &mut Shared) -> Check<()> {
        let (id, found) = (meeting.id, meeting.threads);
        let mut waiting = Vec::new();
        for warp in warps.iter() {
            match warp.waits {
                Some(other) if other.id == id && other.threads != found => {
                    let expected = other.threads;
                    return Err(Box::new(Cause::BarrierSize { id, expected, found }));
                }
                Some(other) if other.id == id => waiting.push(warp.number),
                _ => {}
            }
        }
        if waiting.len() as u32 * 32 == found {
            shared.clocks.meet(&waiting);
            for warp in &waiting {
                warps[*warp as usize].pass();
            }
        }
        Ok(())
    }

    /// No warp is ready: all should have ended.
    fn at_rest(&self, warps: &[Warp], shared: &Shared) -> Result<(), Fault> {
        let Some(first) = warps.iter().find(|warp| warp.waits.is_some()) else {
            return Ok(());
        };
        let mut text = String::new();
        for warp in warps {
            match warp.waits {
                Some(Meeting { id, threads }) => {
                    text += &format!("warp {} waits at barrier {id} of {threads} threads; ", warp.number);
                }
                None => text += &format!("warp {} has ended; ", warp.number),
            }
        }
        let cause = Box::new(Cause::Deadlock(text.trim_end_matches("; ").into()));
        Err(self.fault(first.number, first.pc, shared.block, Stop { lane: 0, cause }))
    }

    fn fault(&self, warp: u32, pc: usize, block: u32, stop: Stop) -> Fault {
        let instruction = match self.program.steps.get(pc) {
            Some(Step::Inst { inst, .. }) => format!("{inst:?}"),
            Some(Step::Split { guard, .. }) => format!("If {guard:?}"),
            Some(Step::Again { guard, .. }) => format!("Loop {guard:?}"),
            _ => "the end".into(),
        };
        let site = Site { block, thread: warp * 32 + stop.lane, instruction };
        Fault { kernel: self.program.kernel.name.clone(), site: Some(Box::new(site)), cause: stop.cause }
    }
}

impl Shared {
    fn new(program: &Program<'_>) -> Shared {
        let (size, threads) = (program.shared.size(), program.kernel.threads);
        Shared {
            block: 0,
            contents: Contents::new(size),
            shadow: Shadow::new(size, true),
            clocks: Clocks::new(threads.div_ceil(32)),
            copies: Copies::new(threads, size),
            local: (0..threads).map(|_| Contents::new(program.local.size())).collect(),
        }
    }

    /// Another block begins.
    fn reset(&mut self, block: u32, threads: u32) {
        self.block = block;
        self.contents.clear();
        self.clocks = Clocks::new(threads.div_ceil(32));
        self.copies.clear();
        self.local.iter_mut().for_each(Contents::clear);
    }
}
