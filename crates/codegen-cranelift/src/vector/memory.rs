//! Elements of nodes and of locals in scratch memory: loads, stores, guards and zeros.

use codegen_core::emit::{IndexSum, LinearValue, RangeTest};
use codegen_core::{Access, Kernel, Param};
use lowered_ir::ir::{Affine, Expr, Guard, Indices, LocalId, NodeRef, Var, walk};
use smallvec::SmallVec;
use tnode::DType;
use vector_asm::{
    Binary, Comparison, Index, LaneType, LoopRange, StoredType, Value, VectorAddress, VectorOp, VectorType,
};

use super::Translator;
use super::build::Array;
use super::locals::LocalStorage;
use super::reason::{BailoutReason, Result};
use super::repr;

/// An index in terms of the program's loops.
pub(super) struct Resolved {
    pub(super) offset: i64,
    pub(super) terms: Vec<(Index, i64)>,
    /// The increment from one lane of the current vector loop to the next.
    pub(super) step: i64,
}

/// Elements in memory: one, or one for each lane of the current vector loop.
struct Elements {
    array: Array,
    dtype: DType,
    ty: VectorType,
    place: VectorAddress,
}

/// Bytes that one iteration of a clearing loop stores.
const ZEROED_PER_ROUND: i64 = 128;

/// Whether the stores of each node may bypass the caches: the node is only written, and larger than half of
/// the last-level cache.
pub(super) fn streamed(kernel: &Kernel, cache_bytes: usize) -> Vec<bool> {
    let mut streamed: Vec<bool> = kernel
        .abi()
        .params
        .iter()
        .map(
            |param| matches!(param, Param::Node { access: Access::Write, bytes } if *bytes > cache_bytes / 2),
        )
        .take(kernel.ir().nodes.len())
        .collect();
    walk::parts_in(&kernel.ir().body).for_each(|e| {
        if let Expr::Get { node, .. } | Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } = e {
            streamed[node.index()] = false;
        }
    });
    streamed
}

impl Translator<'_> {
    /// Expresses an index in terms of the open loops.
    pub(super) fn resolve(&self, index: &Affine) -> Resolved {
        let IndexSum { terms, offset } = IndexSum::new(index, |var| match var {
            Var::Loop(id) => self.vars[&id],
            Var::Symbol(symbol) => LinearValue::computed(Index::Binding(symbol.0)),
        });
        let mut terms = terms.into_vec();
        terms.sort_unstable();
        let step = self.lane.map_or(0, |(lane, _)| index.coefficient(lane));
        Resolved { offset, terms, step }
    }

    fn elements(&self, array: Array, dtype: DType, flat: &Affine, start: i64) -> Result<Elements> {
        let element = repr::element(dtype).ok_or(BailoutReason::RandomBits)?;
        let size = dtype.size_bytes() as i64;
        let Resolved { offset, terms, step } = self.resolve(&flat.times(size));
        let lanes = self.lane.filter(|_| step != 0).map_or(1, |(_, lanes)| lanes);
        let place = VectorAddress {
            base: match array {
                Array::Node(node) => Some(node.0),
                Array::Local(_) => None,
            },
            offset: offset.wrapping_add(start),
            terms,
            // A single lane has no neighbor, so any step is correct.
            step: if lanes == 1 { size } else { step },
            memory: repr::memory(dtype),
        };
        Ok(Elements { array, dtype, ty: VectorType { element, lanes }, place })
    }

    fn node_elements(&self, node: NodeRef, index: &Indices) -> Result<Elements> {
        let decl = self.routine.node(node);
        self.elements(Array::Node(node), decl.dtype, &Affine::row_major(index, &decl.dims), 0)
    }

    /// Reads elements of a node.
    pub(super) fn get_node(&mut self, node: NodeRef, index: &Indices) -> Result<Value> {
        let at = self.node_elements(node, index)?;
        Ok(self.load(at))
    }

    /// Reads elements of a narrow float as `f32`; `None` if the expression is not such a read, or if the
    /// elements are in registers.
    pub(super) fn converted_read(&mut self, read: &Expr) -> Result<Option<Value>> {
        let at = match read {
            Expr::Get { node, index } | Expr::GetMerge { node, index } => self.node_elements(*node, index)?,
            Expr::GetLocal { local, index } => match self.scratch_elements(*local, index) {
                Some(at) => at?,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(memory) = repr::converted(at.dtype) else { return Ok(None) };
        let ty = VectorType { element: LaneType::F32, ..at.ty };
        let op = VectorOp::Load(VectorAddress { memory, ..at.place });
        let value = self.build.load(at.array, ty, op);
        // An instruction that converts makes NaN quiet; that of `bf16` only moves bits.
        let value = if memory == StoredType::BF16 { self.with_quiet_nan(value) } else { value };
        Ok(Some(self.with_plain_nan(value)))
    }

    fn load(&mut self, at: Elements) -> Value {
        let value = self.build.load(at.array, at.ty, VectorOp::Load(at.place));
        self.loaded(at.dtype, value)
    }

    /// Converts a loaded truth value to a mask.
    fn loaded(&mut self, dtype: DType, value: Value) -> Value {
        if dtype != DType::Bool {
            return value;
        }
        if let Some(&mask) = self.stored_masks.get(&value) {
            return mask;
        }
        let zero = self.build.constant(LaneType::I32, 1, 0);
        self.compare(Comparison::NotEqual, value, zero)
    }

    /// Stores to elements of a node.
    pub(super) fn set_node(&mut self, node: NodeRef, index: &Indices, value: &Expr) -> Result<()> {
        let mut at = self.node_elements(node, index)?;
        let value = self.stored_value(&mut at, value)?;
        let is_contiguous = at.place.step == at.dtype.size_bytes() as i64;
        let streaming = is_contiguous && self.streamed[node.index()];
        self.store(at, value, streaming)
    }

    /// Translates the value of a store. If the value is an `f32` that the expression converts to a narrow
    /// float, it stays an `f32`, and `at` becomes elements that round it.
    fn stored_value(&mut self, at: &mut Elements, value: &Expr) -> Result<Value> {
        if let (Expr::Convert { arg, .. }, Some(memory)) = (value, repr::converted(at.dtype))
            && self.routine.dtype_of(arg, &self.locals) == DType::F32
        {
            let (_, single) = self.expr(arg)?;
            (at.ty.element, at.place.memory) = (LaneType::F32, memory);
            let quiet = self.with_quiet_nan(single);
            return Ok(self.with_plain_nan(quiet));
        }
        Ok(self.expr(value)?.1)
    }

    fn store(&mut self, at: Elements, value: Value, streaming: bool) -> Result<()> {
        if self.lane.is_some_and(|(_, lanes)| lanes > at.ty.lanes) {
            return Err(BailoutReason::SharedStore);
        }
        let value = if at.dtype == DType::Bool { self.storable(value) } else { value };
        let value = self.broadcast(value, at.ty.lanes);
        self.build.store(at.array, at.place, value, streaming);
        Ok(())
    }

    /// Converts a mask to the number 0 or 1.
    fn storable(&mut self, mask: Value) -> Value {
        let mask = self.mask_as(mask, LaneType::I32);
        let one = self.build.constant(LaneType::I32, 1, 1);
        let number = self.op2(Binary::And, mask, one);
        self.stored_masks.insert(number, mask);
        number
    }

    /// The elements of a local, if it is in scratch memory.
    fn scratch_elements(&self, local: LocalId, index: &Indices) -> Option<Result<Elements>> {
        let Some(LocalStorage::Scratch(offset)) = self.homes.get(&local) else { return None };
        let decl = &self.locals[&local];
        Some(self.elements(Array::Local(local), decl.dtype, &Affine::row_major(index, &decl.dims), *offset))
    }

    /// Reads elements of a local.
    pub(super) fn get_local(&mut self, local: LocalId, index: &Indices) -> Result<Value> {
        match self.scratch_elements(local, index) {
            Some(at) => Ok(self.load(at?)),
            None => self.get_register(local, index),
        }
    }

    /// Stores to elements of a local.
    pub(super) fn set_local(&mut self, local: LocalId, index: &Indices, value: &Expr) -> Result<()> {
        match self.scratch_elements(local, index) {
            Some(at) => {
                let mut at = at?;
                let value = self.stored_value(&mut at, value)?;
                self.store(at, value, false)
            }
            None => {
                let (_, value) = self.expr(value)?;
                self.set_register(local, index, value)
            }
        }
    }

    /// Declares a local in scratch memory, uninitialized unless it needs zeros.
    pub(super) fn declare_scratch(&mut self, local: LocalId, needs_zeros: bool) -> Result<()> {
        let decl = &self.locals[&local];
        repr::element(decl.dtype).ok_or(BailoutReason::RandomBits)?;
        let bytes = decl.dims.iter().product::<usize>() * decl.dtype.size_bytes();
        let offset = self.scratch.offsets[&local] as i64;
        self.homes.insert(local, LocalStorage::Scratch(offset));
        self.build.forget(Array::Local(local));
        if needs_zeros {
            self.clear(Array::Local(local), offset, bytes as i64);
        }
        Ok(())
    }

    pub(super) fn zero(&mut self, node: NodeRef) {
        let decl = self.routine.node(node);
        let bytes = decl.dims.iter().product::<usize>() * decl.dtype.size_bytes();
        self.build.forget(Array::Node(node));
        self.clear(Array::Node(node), 0, bytes as i64);
    }

    fn clear(&mut self, array: Array, start: i64, bytes: i64) {
        let rounds = bytes / ZEROED_PER_ROUND;
        if rounds > 1 {
            let counter = self.build.open(LoopRange::Constant(rounds as u64), [array].into());
            let terms = vec![(Index::Counter(counter), ZEROED_PER_ROUND)];
            self.store_zeros(array, start, terms, ZEROED_PER_ROUND);
            self.build.close();
        }
        let done = if rounds > 1 { rounds * ZEROED_PER_ROUND } else { 0 };
        self.store_zeros(array, start + done, Vec::new(), bytes - done);
    }

    /// Stores zeros: as many 4-byte words as possible, then bytes.
    fn store_zeros(&mut self, array: Array, start: i64, terms: Vec<(Index, i64)>, bytes: i64) {
        let base = match array {
            Array::Node(node) => Some(node.0),
            Array::Local(_) => None,
        };
        for (at, size, lanes, memory) in
            [(0, 4, bytes / 4, StoredType::Same), (bytes / 4 * 4, 1, bytes % 4, StoredType::U8)]
        {
            if lanes > 0 {
                let zeros = self.build.constant(LaneType::I32, lanes as u32, 0);
                let place =
                    VectorAddress { base, offset: start + at, terms: terms.clone(), step: size, memory };
                self.build.store(array, place, zeros, false);
            }
        }
        // The stored words have another type than later loads, so they are not forwarded.
        self.build.forget(array);
    }

    /// A guarded read: only elements whose guard holds are accessed.
    pub(super) fn guarded(
        &mut self,
        guard: &Guard,
        node: NodeRef,
        index: &Indices,
        otherwise: Value,
    ) -> Result<Value> {
        let decl = self.routine.node(node);
        let Some(condition) = self.condition(guard)? else { return self.get_node(node, index) };
        if decl.dims.contains(&0) || self.build.as_constant(condition) == Some(0) {
            return Ok(otherwise);
        }
        let mut at = self.node_elements(node, index)?;
        let lanes_of = |s: &Self, v| s.build.type_of(v).lanes;
        let lanes = at.ty.lanes.max(lanes_of(self, condition)).max(lanes_of(self, otherwise));
        if at.ty.lanes < lanes {
            (at.ty.lanes, at.place.step) = (lanes, 0);
        }
        let condition = self.mask_as(condition, repr::mask_of(at.ty.element));
        // Truth values in memory are numbers.
        let otherwise = if at.dtype == DType::Bool { self.storable(otherwise) } else { otherwise };
        let op = VectorOp::LoadIf { condition, place: at.place, otherwise };
        let value = self.build.load(at.array, at.ty, op);
        Ok(self.loaded(at.dtype, value))
    }

    /// A 32-bit mask of the lanes in which a guard holds; `None` if it always holds.
    fn condition(&mut self, guard: &Guard) -> Result<Option<Value>> {
        let mut all: Option<Value> = None;
        for range in guard {
            let bounds = range.index.bounds(|var| self.bounds(var));
            let test = bounds.and_then(|bounds| RangeTest::new(range, bounds));
            let mut sides: SmallVec<[Value; 2]> = SmallVec::new();
            let test = test.ok_or(BailoutReason::WideGuard)?;
            if test == RangeTest::Known(false) {
                sides.push(self.build.constant(LaneType::I32, 1, 0));
            } else {
                let index = self.index(&range.index, LaneType::I32);
                if test.compares_lower() {
                    let below = self.build.constant(LaneType::I32, 1, (range.lo - 1) as u64);
                    sides.push(self.compare(Comparison::Less, below, index));
                }
                if test.compares_upper() {
                    let end = self.build.constant(LaneType::I32, 1, range.hi as u64);
                    sides.push(self.compare(Comparison::Less, index, end));
                }
            }
            for side in sides {
                all = Some(match all {
                    Some(others) => self.op2(Binary::And, others, side),
                    None => side,
                });
            }
        }
        Ok(all)
    }

    /// The least and the greatest value of a variable.
    fn bounds(&self, var: Var) -> (i64, i64) {
        match var {
            Var::Loop(id) => self.ranges[&id],
            Var::Symbol(symbol) => (0, self.routine.symbol(symbol).range - 1),
        }
    }

    pub(super) fn index(&mut self, index: &Affine, element: LaneType) -> Value {
        let Resolved { offset, terms, step } = self.resolve(index);
        let lanes = self.lane.filter(|_| step != 0).map_or(1, |(_, lanes)| lanes);
        if terms.is_empty() && (step == 0 || lanes == 1) {
            return self.build.constant(element, 1, offset as u64);
        }
        let step = if lanes == 1 { 0 } else { step };
        self.build.pure(VectorType { element, lanes }, VectorOp::Index { offset, terms, step })
    }
}
