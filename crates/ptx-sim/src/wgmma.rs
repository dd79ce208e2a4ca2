//! What four warps do together: products that go on behind their backs, and registers that they exchange.
//!
//! Each warp computes its 16 rows when it comes to the product, which nobody can tell from later: until the warp has waited, nobody may write the factors or
//! touch the sums. The factors count as read by the whole warpgroup until each of its warps has waited.

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

/// Products of a warp that are under way, and what is known of its registers.
#[derive(Debug, Default)]
pub(super) struct PendingWgmma {
    /// Those in no group yet.
    open: Vec<WgmmaOp>,
    groups: VecDeque<Vec<WgmmaOp>>,
    /// Of each register, whether the threads touched it since the last fence.
    touched: Vec<bool>,
    /// Counts waits.
    waits: Option<Timestamp>,
}

#[derive(Debug)]
struct WgmmaOp {
    factors: Rc<WgmmaInputs>,
    d: Regs,
}

/// What a product multiplies.
#[derive(Debug)]
pub(super) struct WgmmaInputs {
    /// Where they are.
    chunks: Vec<usize>,
    depth: usize,
    /// Row by row.
    left: Vec<f64>,
    /// Column by column.
    right: Vec<f64>,
}

/// What the warps of a warpgroup did together, as far as not all of them have.
#[derive(Debug, Default)]
pub(super) struct WarpgroupProgress {
    steps: VecDeque<JointStep>,
    /// How many steps are no longer in there.
    gone: usize,
    /// How many each warp has done.
    done: [usize; 4],
}

#[derive(Debug)]
struct JointStep {
    inst: usize,
    operands: [u64; 3],
    factors: Option<Rc<WgmmaInputs>>,
}

/// An instruction of products, without the registers.
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
            other => malformed(format!("products of {other:?}, transposed {:?}", self.transposed)),
        }
    }
}

impl WarpgroupProgress {
    /// A warp does its next step: whether it is that of the others.
    fn step(&mut self, warp: u32, inst: usize, operands: [u64; 3]) -> Result<&mut JointStep, String> {
        let done = &mut self.done[warp as usize % 4];
        let at = *done - self.gone;
        *done += 1;
        if at == self.steps.len() {
            self.steps.push_back(JointStep { inst, operands, factors: None });
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

    /// Whether all warps did the same.
    pub(super) fn is_even(&self) -> bool {
        self.done.iter().all(|&done| done == self.done[0])
    }
}

impl PendingWgmma {
    fn under_way(&self) -> impl Iterator<Item = &WgmmaOp> {
        self.groups.iter().flatten().chain(&self.open)
    }

    /// Whether all products have been waited for; what is missing, in words.
    pub(super) fn may_end(&self) -> Result<(), String> {
        match self.under_way().next() {
            Some(_) => Err("the warp waits for its products".into()),
            None => Ok(()),
        }
    }

    /// A warp comes to an instruction that is none of products: whether no register of it is a sum under way.
    pub(super) fn touch(&mut self, program: &FlatKernel<'_>, inst: &Inst) -> CheckResult<()> {
        let mut regs = Regs::new();
        match inst {
            Inst::Wgmma { .. } => {}
            _ => inst.each_register(&mut |reg| regs.push(reg)),
        }
        self.touched.resize(program.registers(), true);
        for reg in regs {
            self.touched[program.register(reg)] = true;
            if reg.class == ptx_asm::RegClass::F32 && self.under_way().any(|product| product.d.contains(&reg))
            {
                let what = "a sum of products that were not waited for";
                return Err(Box::new(FaultCause::Accumulator { reg, what }));
            }
        }
        Ok(())
    }

    /// Whether products may compute these registers now.
    fn may_compute(&self, program: &FlatKernel<'_>, d: &Regs) -> CheckResult<()> {
        let touched = d.iter().find(|&&reg| self.touched.get(program.register(reg)) != Some(&false));
        if let Some(&reg) = touched {
            let what = "a sum that threads touched since the last WgmmaFence";
            return Err(Box::new(FaultCause::Accumulator { reg, what }));
        }
        let other = self.under_way().filter(|product| product.d != *d);
        match other.flat_map(|product| &product.d).find(|reg| d.contains(reg)) {
            Some(&reg) => {
                let what = "a sum of products of another shape that were not waited for";
                Err(Box::new(FaultCause::Accumulator { reg, what }))
            }
            None => Ok(()),
        }
    }
}

impl LaunchState<'_> {
    /// The warp takes a step that all four of its warpgroup take.
    fn joint<'s>(
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

    /// [`Inst::WgmmaFence`], [`Inst::WgmmaCommit`], [`Inst::WgmmaWait`].
    pub(super) fn order_products(
        &self,
        warp: &mut Warp,
        shared: &mut ClusterState,
        at: (usize, u32),
        inst: &Inst,
    ) -> StepResult<()> {
        self.joint(warp, shared, at, [0; 3])?;
        match inst {
            Inst::WgmmaFence => warp.products.touched = vec![false; self.program.registers()],
            Inst::WgmmaCommit => {
                let group = std::mem::take(&mut warp.products.open);
                warp.products.groups.push_back(group);
            }
            Inst::WgmmaWait { pending } => self.wait_for_products(warp, shared, *pending),
            _ => return malformed(format!("{inst:?} orders no products")).in_lane(0),
        }
        Ok(())
    }

    fn wait_for_products(&self, warp: &mut Warp, shared: &mut ClusterState, left: u32) {
        let over = warp.products.groups.len().saturating_sub(left as usize);
        let done: Vec<WgmmaOp> = warp.products.groups.drain(..over).flatten().collect();
        if done.is_empty() {
            return;
        }
        let clocks = &mut shared.clocks;
        let moment =
            warp.products.waits.get_or_insert_with(|| Timestamp { column: clocks.column(), time: 0 });
        moment.time += 1;
        let moment = *moment;
        let mut who = warp.thread_ref(0);
        who.thread = SEVERAL_THREADS;
        clocks.note(&who, moment);
        let proxy = &mut shared.block_states[warp.rank as usize].proxy;
        for &at in done.iter().flat_map(|product| &product.factors.chunks) {
            proxy.end_read(at, 1, Accessor::Wgmma(warp.number), moment);
        }
    }

    /// [`Inst::Wgmma`]. Products are exact; they are added in `f64`, and rounded once for each instruction.
    pub(super) fn multiply(
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
        warp.products.may_compute(self.program, d).in_lane(0)?;
        let known = self.joint(warp, shared, at, values)?.factors.clone();
        let factors = match known {
            Some(factors) => factors,
            None => {
                let factors = Rc::new(self.factors(warp, shared, shape, [values[0], values[1]]).in_lane(0)?);
                // The step is the one that was just taken.
                let group = &mut shared.block_states[warp.rank as usize].warpgroups[warp.number as usize / 4];
                if let Some(joint) = group.steps.back_mut() {
                    joint.factors = Some(Rc::clone(&factors));
                }
                factors
            }
        };
        self.read_factors(warp, shared, &factors).in_lane(0)?;
        self.sums(warp, d, &factors, values[2] != 0)?;
        warp.products.open.push(WgmmaOp { factors, d: d.clone() });
        Ok(())
    }

    /// Reads both factors.
    fn factors(
        &self,
        warp: &Warp,
        shared: &ClusterState,
        shape: WgmmaShape,
        descriptors: [u64; 2],
    ) -> CheckResult<WgmmaInputs> {
        let (format, size) = shape.format()?;
        let depth = 32 / size;
        let (mut chunks, mut matrices) = (Vec::new(), [const { Vec::new() }; 2]);
        for (i, lines) in [64, shape.columns as usize].into_iter().enumerate() {
            let descriptor = MatrixDescriptor::decode(descriptors[i])
                .map_err(|what| Box::new(FaultCause::InvalidTile(what)))?;
            let found = descriptor.chunks(lines, shape.transposed[i]);
            let matrix = &mut matrices[i];
            matrix.resize(lines * depth, 0.0);
            for (at, &address) in found.iter().enumerate() {
                let who = warp.thread_ref(0);
                let located = self.locate(StateSpace::Shared, &who, address as u64, 16, 16)?;
                let data = self.peek(shared, &who, located, 16);
                for (element, bytes) in data.chunks(size).enumerate() {
                    let place = if shape.transposed[i] {
                        (at % (lines / 8) * 8 + element) * depth + at / (lines / 8)
                    } else {
                        at / 2 * depth + at % 2 * (depth / 2) + element
                    };
                    let bits = super::access::little_endian(bytes);
                    // The last 13 bits of an `f32` are none of `tf32`.
                    matrix[place] = format.decode(if size == 4 { bits & !0x1fff } else { bits });
                }
            }
            chunks.extend(found);
        }
        let [left, right] = matrices;
        Ok(WgmmaInputs { chunks, depth, left, right })
    }

    /// The warp may be reading the factors from now on.
    fn read_factors(
        &mut self,
        warp: &Warp,
        shared: &mut ClusterState,
        factors: &WgmmaInputs,
    ) -> CheckResult<()> {
        let mut who = warp.thread_ref(0);
        who.thread = SEVERAL_THREADS;
        for &at in &factors.chunks {
            let located = ResolvedAddress { space: StateSpace::Shared, of: warp.rank as usize, at };
            self.allowed_behind(shared, &who, located, AccessKind::Read)?;
            shared.block_states[located.of].proxy.begin_read(at, 1, Accessor::Wgmma(warp.number));
        }
        Ok(())
    }

    /// Computes the rows of a warp.
    fn sums(&self, warp: &mut Warp, d: &Regs, factors: &WgmmaInputs, accumulate: bool) -> StepResult<()> {
        let first = warp.number as usize % 4 * 16;
        for (i, &reg) in d.iter().enumerate() {
            let before: LaneValues =
                if accumulate { *warp.registers.get(self.program, reg, u32::MAX)? } else { [0; 32] };
            let values = std::array::from_fn(|lane| {
                let row = first + lane / 4 + i % 4 / 2 * 8;
                let column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                let left = &factors.left[row * factors.depth..][..factors.depth];
                let right = &factors.right[column * factors.depth..][..factors.depth];
                let products = left.iter().zip(right);
                let sum = products.fold(F32.decode(before[lane]), |sum, (a, b)| sum + a * b) as f32;
                if sum.is_nan() { F32.nan() } else { u64::from(sum.to_bits()) }
            });
            warp.registers.set(self.program, reg, u32::MAX, &values);
        }
        Ok(())
    }

    /// [`Inst::SetMaxRegisters`]: the scheduler lets the warp go on once there are as many.
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
        self.joint(warp, shared, at, [0; 3])?;
        let found = warp.allowance;
        if increase && count < found || !increase && count > found {
            return Err(Box::new(FaultCause::RegisterCount { found, count, increase })).in_lane(0);
        }
        Ok(StepEvent::WantsRegisters(count))
    }
}
