//! Warpgroup instructions: asynchronous `wgmma` and `setmaxnreg`.
//!
//! Each warp computes its 16 rows when it executes the `wgmma`. A program cannot observe the early result:
//! until the warp has waited, a write to the operands and an access of the accumulators are faults. The
//! operands count as being read by the warpgroup until each of its warps has waited.

use std::collections::VecDeque;
use std::rc::Rc;

use super::access::ResolvedAddress;
use super::collective::whole;
use super::fault::{AccessKind, Accessor, CheckResult, FaultCause, InLane, StepResult, malformed};
use super::flat_kernel::FlatKernel;
use super::float::{BF16, F16, F32, FloatFormat};
use super::matrix_descriptor::MatrixDescriptor;
use super::registers::LaneValues;
use super::scheduler::{ClusterState, LaunchState};
use super::vector_clocks::{SEVERAL_THREADS, Timestamp};
use super::warp::{StepEvent, Warp};
use ptx_asm::{Inst, Ty};
use ptx_asm::{Reg, Regs, StateSpace};

/// The `wgmma` operations of a warp that are in flight, and the state of its registers.
#[derive(Debug, Default)]
pub(super) struct PendingWgmma {
    /// Operations since the last commit.
    open: Vec<WgmmaOp>,
    groups: VecDeque<Vec<WgmmaOp>>,
    /// For each register, whether the warp has accessed it since the last `wgmma.fence`.
    touched: Vec<bool>,
    /// Timestamp of the latest wait, in a vector-clock component of its own.
    waits: Option<Timestamp>,
}

#[derive(Debug)]
struct WgmmaOp {
    inputs: Rc<WgmmaInputs>,
    d: Regs,
}

/// The operand matrices of a `wgmma`, read from shared memory.
#[derive(Debug)]
pub(super) struct WgmmaInputs {
    /// Offsets in shared memory of the 16-byte chunks that were read.
    chunks: Vec<usize>,
    k: usize,
    /// A, row-major: M × K.
    a: Vec<f64>,
    /// B, column-major: N × K.
    b: Vec<f64>,
}

/// Instructions that some but not all warps of a warpgroup have executed.
#[derive(Debug, Default)]
pub(super) struct WarpgroupProgress {
    steps: VecDeque<JointStep>,
    /// Number of instructions that all warps have executed, which are dropped from `steps`.
    gone: usize,
    /// Number of instructions that each warp has executed.
    done: [usize; 4],
}

#[derive(Debug)]
struct JointStep {
    inst: usize,
    operands: [u64; 3],
    inputs: Option<Rc<WgmmaInputs>>,
}

/// Element type, N and layouts of a `wgmma`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WgmmaShape {
    pub(super) element: Ty,
    pub(super) columns: u32,
    pub(super) transposed: [bool; 2],
}

impl WgmmaShape {
    fn format(self) -> CheckResult<(FloatFormat, usize)> {
        match self.element {
            Ty::F16 => Ok((F16, 2)),
            Ty::Bf16 => Ok((BF16, 2)),
            Ty::F32 if self.transposed == [false; 2] => Ok((F32, 4)),
            other => malformed(format!("wgmma of {other:?}, transposed {:?}", self.transposed)),
        }
    }
}

impl WarpgroupProgress {
    /// Records that a warp executes its next instruction of the warpgroup. If another warp executed a
    /// different one at this point, or the same one with other operands, that is an error.
    fn step(&mut self, warp: u32, inst: usize, operands: [u64; 3]) -> Result<&mut JointStep, String> {
        let done = &mut self.done[warp as usize % 4];
        let at = *done - self.gone;
        *done += 1;
        if at == self.steps.len() {
            self.steps.push_back(JointStep { inst, operands, inputs: None });
        }
        let joint = &self.steps[at];
        if joint.inst != inst || joint.operands != operands {
            return Err(format!("warp {warp} is at another instruction, or has other operands"));
        }
        let drop = self.done.iter().min().map_or(0, |&least| least - self.gone).min(at);
        self.steps.drain(..drop);
        self.gone += drop;
        Ok(&mut self.steps[at - drop])
    }

    /// Whether all warps have executed the same number of instructions.
    pub(super) fn is_even(&self) -> bool {
        self.done.iter().all(|&done| done == self.done[0])
    }
}

impl PendingWgmma {
    fn in_flight(&self) -> impl Iterator<Item = &WgmmaOp> {
        self.groups.iter().flatten().chain(&self.open)
    }

    /// Checks that all operations have been waited for; the error is a phrase that follows "the end comes
    /// before".
    pub(super) fn may_end(&self) -> Result<(), String> {
        match self.in_flight().next() {
            Some(_) => Err("the warp waits for its wgmma operations".into()),
            None => Ok(()),
        }
    }

    /// Records the registers that an instruction accesses. Accessing an accumulator in flight is a fault,
    /// except by `wgmma`.
    pub(super) fn touch(&mut self, program: &FlatKernel<'_>, inst: &Inst) -> CheckResult<()> {
        let mut regs = Regs::new();
        match inst {
            Inst::Wgmma { .. } => {}
            _ => inst.each_register(&mut |reg| regs.push(reg)),
        }
        self.touched.resize(program.registers(), true);
        for reg in regs {
            self.touched[program.register(reg)] = true;
            if reg.class == ptx_asm::RegClass::F32 && self.in_flight().any(|op| op.d.contains(&reg)) {
                let what = "an accumulator of a wgmma that was not waited for";
                return Err(Box::new(FaultCause::Accumulator { reg, what }));
            }
        }
        Ok(())
    }

    /// Checks that a `wgmma` may write these accumulators now.
    fn may_compute(&self, program: &FlatKernel<'_>, d: &Regs) -> CheckResult<()> {
        let touched = d.iter().find(|&&reg| self.touched.get(program.register(reg)) != Some(&false));
        if let Some(&reg) = touched {
            let what = "an accumulator that threads accessed since the last WgmmaFence";
            return Err(Box::new(FaultCause::Accumulator { reg, what }));
        }
        let other = self.in_flight().filter(|op| op.d != *d);
        match other.flat_map(|op| &op.d).find(|reg| d.contains(reg)) {
            Some(&reg) => {
                let what = "an accumulator of a wgmma of another shape that was not waited for";
                Err(Box::new(FaultCause::Accumulator { reg, what }))
            }
            None => Ok(()),
        }
    }
}

impl LaunchState<'_> {
    /// Records that a warp executes an instruction of its warpgroup.
    fn joint_step<'s>(
        &self,
        warp: &Warp,
        shared: &'s mut ClusterState,
        (inst, mask): (usize, u32),
        operands: [u64; 3],
    ) -> StepResult<&'s mut JointStep> {
        whole(mask)?;
        if !self.program.kernel.threads.is_multiple_of(128) {
            return malformed("a warpgroup without four warps").in_lane(0);
        }
        let groups = &mut shared.block_states[warp.rank as usize].warpgroups;
        let group = warp.number as usize / 4;
        groups.resize_with(groups.len().max(group + 1), WarpgroupProgress::default);
        groups[group]
            .step(warp.number, inst, operands)
            .map_err(|what| Box::new(FaultCause::Warpgroup(what)))
            .in_lane(0)
    }

    /// Executes [`Inst::WgmmaFence`], [`Inst::WgmmaCommit`], [`Inst::WgmmaWait`].
    pub(super) fn order_wgmma(
        &self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        at: (usize, u32),
        inst: &Inst,
    ) -> StepResult<()> {
        self.joint_step(warp, shared, at, [0; 3])?;
        match inst {
            Inst::WgmmaFence => warp.wgmma.touched = vec![false; self.program.registers()],
            Inst::WgmmaCommit => {
                let group = std::mem::take(&mut warp.wgmma.open);
                warp.wgmma.groups.push_back(group);
            }
            Inst::WgmmaWait { pending } => self.wait_for_wgmma(warp, shared, *pending),
            _ => return malformed(format!("{inst:?} orders no wgmma")).in_lane(0),
        }
        Ok(())
    }

    fn wait_for_wgmma(&self, warp: &mut Warp, shared: &mut ClusterState, left: u32) {
        let over = warp.wgmma.groups.len().saturating_sub(left as usize);
        let done: Vec<WgmmaOp> = warp.wgmma.groups.drain(..over).flatten().collect();
        if done.is_empty() {
            return;
        }
        let clocks = &mut shared.clocks;
        let moment = warp.wgmma.waits.get_or_insert_with(|| Timestamp { column: clocks.column(), time: 0 });
        moment.time += 1;
        let moment = *moment;
        let mut who = warp.thread_ref(0);
        who.thread = SEVERAL_THREADS;
        clocks.note(&who, moment);
        let proxy = &mut shared.block_states[warp.rank as usize].proxy;
        for &at in done.iter().flat_map(|op| &op.inputs.chunks) {
            proxy.end_read(at, 1, Accessor::Wgmma(warp.number), moment);
        }
    }

    /// Executes [`Inst::Wgmma`]. Products are exact; they are added in `f64` and rounded once per
    /// instruction.
    pub(super) fn wgmma(
        &mut self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        at: (usize, u32),
        (shape, d): (WgmmaShape, &Regs),
        operands: [Reg; 3],
    ) -> StepResult<()> {
        if d.iter().any(|reg| reg.class != ptx_asm::RegClass::F32)
            || d.len() as u32 * 2 != shape.columns
            || !(8..=256).contains(&shape.columns)
            || shape.columns % 8 != 0
        {
            return malformed(format!("{} registers for {} columns", d.len(), shape.columns)).in_lane(0);
        }
        whole(at.1)?;
        let mut values = [0; 3];
        for (value, reg) in values.iter_mut().zip(operands) {
            let lanes = warp.registers.get(self.program, reg, at.1)?;
            *value = lanes[0];
            if let Some(lane) = (0..32).find(|&lane| lanes[lane] != *value) {
                let what = format!("{reg:?} differs between lanes");
                return Err(Box::new(FaultCause::Warpgroup(what))).in_lane(lane);
            }
        }
        warp.wgmma.may_compute(self.program, d).in_lane(0)?;
        let known = self.joint_step(warp, shared, at, values)?.inputs.clone();
        let inputs = match known {
            Some(inputs) => inputs,
            None => {
                let inputs =
                    Rc::new(self.read_inputs(warp, shared, shape, [values[0], values[1]]).in_lane(0)?);
                // This warp is the first one at the instruction, so the instruction is the last one in
                // `steps`.
                let group = &mut shared.block_states[warp.rank as usize].warpgroups[warp.number as usize / 4];
                if let Some(joint) = group.steps.back_mut() {
                    joint.inputs = Some(Rc::clone(&inputs));
                }
                inputs
            }
        };
        self.begin_reads(warp, shared, &inputs).in_lane(0)?;
        self.accumulate_rows(warp, d, &inputs, values[2] != 0)?;
        warp.wgmma.open.push(WgmmaOp { inputs, d: d.clone() });
        Ok(())
    }

    /// Reads both operands from shared memory.
    fn read_inputs(
        &self,
        warp: &Warp,
        shared: &ClusterState,
        shape: WgmmaShape,
        descriptors: [u64; 2],
    ) -> CheckResult<WgmmaInputs> {
        let (format, size) = shape.format()?;
        let k = 32 / size;
        let (mut chunks, mut matrices) = (Vec::new(), [const { Vec::new() }; 2]);
        for (i, lines) in [64, shape.columns as usize].into_iter().enumerate() {
            let descriptor = MatrixDescriptor::decode(descriptors[i])
                .map_err(|what| Box::new(FaultCause::InvalidTile(what)))?;
            let found = descriptor.chunks(lines, shape.transposed[i]);
            let matrix = &mut matrices[i];
            matrix.resize(lines * k, 0.0);
            for (at, &address) in found.iter().enumerate() {
                let who = warp.thread_ref(0);
                let address = super::cluster::in_cluster(who.rank, address as u64);
                let located = self.locate(StateSpace::Shared, &who, address, 16, 16)?;
                let data = self.peek(shared, &who, located, 16);
                for (element, bytes) in data.chunks(size).enumerate() {
                    let place = if shape.transposed[i] {
                        (at % (lines / 8) * 8 + element) * k + at / (lines / 8)
                    } else {
                        at / 2 * k + at % 2 * (k / 2) + element
                    };
                    let bits = super::access::little_endian(bytes);
                    // `tf32` ignores the low 13 bits of an `f32`.
                    matrix[place] = format.decode(if size == 4 { bits & !0x1fff } else { bits });
                }
            }
            chunks.extend(found);
        }
        let [a, b] = matrices;
        Ok(WgmmaInputs { chunks, k, a, b })
    }

    /// Marks the operands as being read from now on.
    fn begin_reads(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        inputs: &WgmmaInputs,
    ) -> CheckResult<()> {
        let mut who = warp.thread_ref(0);
        who.thread = SEVERAL_THREADS;
        for &at in &inputs.chunks {
            let located = ResolvedAddress { space: StateSpace::Shared, of: warp.rank as usize, at };
            self.check_async_proxy(shared, &who, located, AccessKind::Read)?;
            shared.block_states[located.of].proxy.begin_read(at, 1, Accessor::Wgmma(warp.number));
        }
        Ok(())
    }

    /// Computes the 16 rows of a warp.
    fn accumulate_rows(
        &self,
        warp: &mut Warp,
        d: &Regs,
        inputs: &WgmmaInputs,
        accumulate: bool,
    ) -> StepResult<()> {
        let first = warp.number as usize % 4 * 16;
        for (i, &reg) in d.iter().enumerate() {
            let before: LaneValues =
                if accumulate { *warp.registers.get(self.program, reg, u32::MAX)? } else { [0; 32] };
            let values = std::array::from_fn(|lane| {
                let row = first + lane / 4 + i % 4 / 2 * 8;
                let column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                let left = &inputs.a[row * inputs.k..][..inputs.k];
                let right = &inputs.b[column * inputs.k..][..inputs.k];
                let products = left.iter().zip(right);
                let sum = products.fold(F32.decode(before[lane]), |sum, (a, b)| sum + a * b) as f32;
                if sum.is_nan() { F32.nan() } else { u64::from(sum.to_bits()) }
            });
            warp.registers.set(self.program, reg, u32::MAX, &values);
        }
        Ok(())
    }

    /// Executes [`Inst::SetMaxRegisters`]. The scheduler blocks the warp until enough registers are free.
    pub(super) fn set_max_registers(
        &self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        at: (usize, u32),
        (count, increase): (u32, bool),
    ) -> StepResult<StepEvent> {
        if !(24..=256).contains(&count) || count % 8 != 0 {
            return malformed(format!("{count} registers")).in_lane(0);
        }
        self.joint_step(warp, shared, at, [0; 3])?;
        let found = warp.allowance;
        if increase && count < found || !increase && count > found {
            return Err(Box::new(FaultCause::RegisterCount { found, count, increase })).in_lane(0);
        }
        Ok(StepEvent::WantsRegisters(count))
    }
}
