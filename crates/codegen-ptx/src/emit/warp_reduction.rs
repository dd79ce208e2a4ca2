//! Emits reductions by warp shuffles, which [`crate::warp_reductions`] finds.

use std::collections::HashMap;

use codegen_core::emit::LoopIndex;
use codegen_core::ir::{Affine, Indices, LocalId, Stmt};
use codegen_core::{Checked, DType};
use ptx_asm::{CmpOp, Inst, PtxBinaryOp, PtxOperand, Reg, RegClass, RoundingMode, ShuffleMode, Ty};

use super::{Emitter, Value, carrier};
use crate::warp_reductions::{LANES, ReductionInput, ReductionStep, WarpReduction};

/// The results of a step, each in its lane.
#[derive(Clone, Debug)]
pub(super) struct StepResults<'k> {
    local: LocalId,
    value: Value,
    /// Results per group.
    each: i64,
    /// The step that reads the results.
    step: ReductionStep<'k>,
    /// Values that were read from other lanes, by distance.
    read: HashMap<i64, Value>,
}

impl<'k> Emitter<'k> {
    /// The warp reduction that begins with a statement.
    pub(super) fn warp_reduction_at(&self, stmt: &Stmt) -> Option<WarpReduction<'k>> {
        self.warp_reductions.by_stmt.get(&std::ptr::from_ref(stmt)).cloned()
    }

    /// Emits a warp reduction, in the warps whose threads have values.
    pub(super) fn warp_reduction(&mut self, warp_reduction: &WarpReduction<'k>) -> Checked {
        self.within = true;
        let threads = warp_reduction.first.threads.max(LANES) as u32;
        if threads == self.block_threads {
            self.warps(warp_reduction)?;
        } else {
            let takes_part = self.b.index_compare(CmpOp::Lt, Ty::U32, self.thread, threads);
            self.when(takes_part, |e| e.warps(warp_reduction))?;
        }
        self.within = false;
        Ok(())
    }

    fn warps(&mut self, warp_reduction: &WarpReduction<'k>) -> Checked {
        let Some(last) = warp_reduction.steps.last() else { return Ok(()) };
        let mut value = self.first(&warp_reduction.first)?;
        let (mut local, mut each) = (warp_reduction.first.to, warp_reduction.first.threads / last.groups);
        for &step in &warp_reduction.steps {
            self.step_results = Some(StepResults { local, value, each, step, read: HashMap::new() });
            let (result, _) = self.expr(step.value)?;
            value = self.kept(result);
            (local, each) = (step.to, step.left);
        }
        self.step_results = None;
        self.results(last, value)
    }

    /// The value that a thread contributes to the first step. Threads without an index contribute any value.
    fn first(&mut self, first: &ReductionInput<'k>) -> Checked<Value> {
        let extents: Vec<u32> = first.axes.iter().map(|&(_, extent)| extent).collect();
        let digits = self.digits(self.thread, &extents);
        for (&(var, extent), digit) in first.axes.iter().zip(digits) {
            let index =
                digit.map_or(LoopIndex::Known(0), |d| LoopIndex::Computed(d, (0, i64::from(extent) - 1)));
            self.enter(var, index);
        }
        let (value, _) = self.expr(first.value)?;
        first.axes.iter().for_each(|_| self.leave());
        Ok(self.kept(value))
    }

    /// Stores the results of the last step, by the first lanes of each warp.
    fn results(&mut self, last: &ReductionStep<'k>, value: Value) -> Checked {
        let (mut lane, mut group) = (self.thread, None);
        if last.groups > 1 {
            lane = self.b.index(PtxBinaryOp::And, Ty::B32, self.thread, (LANES - 1) as u32);
            group = Some(self.b.index(PtxBinaryOp::ShiftRight, Ty::U32, self.thread, LANES.ilog2()));
        }
        let mut entered = 1;
        if let (Some(var), Some(warp)) = (last.group, group) {
            self.enter(var, LoopIndex::Computed(warp, (0, last.groups - 1)));
            entered += 1;
        } else if let Some(var) = last.group {
            self.enter(var, LoopIndex::Known(0));
            entered += 1;
        }
        let at =
            if last.left == 1 { LoopIndex::Known(0) } else { LoopIndex::Computed(lane, (0, last.left - 1)) };
        self.enter(last.at, at);
        let stores = self.b.index_compare(CmpOp::Lt, Ty::U32, lane, last.left as u32);
        let index =
            last.group.map_or(last.at.into(), |group| Affine::term(group, last.left).plus(&last.at.into()));
        self.when(stores, |e| e.set_local(last.to, &Indices::from([index]), value, None))?;
        (0..entered).for_each(|_| self.leave());
        Ok(())
    }

    /// An element of the step before, read from its lane.
    pub(super) fn shuffled_element(&mut self, local: LocalId, index: &Indices) -> Option<Value> {
        let step_results = self.step_results.as_ref().filter(|step_results| step_results.local == local)?;
        let distance = step_results.step.distance(step_results.each, index.first()?)?;
        if let Some(&known) = step_results.read.get(&distance) {
            return Some(known);
        }
        let (value, dtype) = (step_results.value, self.locals[&local].dtype);
        let value = match distance {
            0 => value,
            distance => Value::In(self.shuffled(dtype, value, distance as u32)),
        };
        self.step_results.as_mut()?.read.insert(distance, value);
        Some(value)
    }

    /// The value of the lane `distance` further.
    fn shuffled(&mut self, dtype: DType, value: Value, distance: u32) -> Reg {
        let reg = self.reg(value);
        let class = carrier(dtype).class();
        match class {
            RegClass::B32 | RegClass::F32 => self.shuffle(reg, distance),
            RegClass::B64 | RegClass::F64 => {
                let whole = self.b.recast(RegClass::B64, reg);
                let halves = self.b.unpack(RegClass::B32, whole).map(|half| self.shuffle(half, distance));
                let whole = self.b.pack(RegClass::B64, halves[0], halves[1]);
                self.b.recast(class, whole)
            }
            RegClass::B16 => {
                let word = self.b.convert(Ty::U32, Ty::U16, RoundingMode::None, reg);
                let word = self.shuffle(word, distance);
                self.b.convert(Ty::U16, Ty::U32, RoundingMode::None, word)
            }
            RegClass::Pred => {
                let word = self.b.select(Ty::U32, reg, 1u32, 0u32);
                let word = self.shuffle(word, distance);
                self.b.compare(CmpOp::Ne, Ty::U32, word, 0u32)
            }
        }
    }

    fn shuffle(&mut self, src: Reg, distance: u32) -> Reg {
        let (mode, lane, width) = (ShuffleMode::Down, PtxOperand::from(distance), LANES as u32);
        self.b.value(src.class, |dst| Inst::Shuffle { mode, dst, src, lane, width })
    }
}
