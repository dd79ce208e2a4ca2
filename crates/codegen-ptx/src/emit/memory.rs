//! Memory accesses: addresses, loads and stores of nodes and of shared and local arrays.
//!
//! An address is a register plus a constant. Elements whose indices differ by a constant share the register.
//! Equal accesses are thus found by comparison, and adjacent ones are combined into vectors: loads if the
//! loop along the elements is unrolled, stores if they are [pending](super::pending_stores) together.

use std::collections::{BTreeMap, HashMap};

use codegen_core::DType;
use codegen_core::emit::fits_i32;
use codegen_core::ir::{Affine, NodeRef};
use ptx_asm::{
    AddressBase, AddressOperand, CmpOp, GuardPredicate, Inst, PtxOperand, Reg, RegClass, Regs, RoundingMode,
    StateSpace, Ty,
};
use smallvec::smallvec;

use super::{Emitter, Value, carrier, constant};

/// The least alignment of nodes and arrays in bytes.
const ALIGNMENT: u32 = 16;

/// Widths of vector accesses in elements.
pub(super) const WIDTHS: [i64; 3] = [8, 4, 2];

/// Whether a vector access of `width` elements of `size` bytes exists: at most 16 bytes and four registers,
/// which hold one element each, or two of 16 bits.
pub(super) fn has_width(width: i64, size: i64) -> bool {
    width * size <= 16 && (width <= 4 || size == 2)
}

/// A node or array, which overlaps no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum MemoryObject {
    Node(NodeRef),
    /// A shared array.
    Shared(u32),
    /// A local array of the thread.
    Private(u32),
}

impl MemoryObject {
    fn space(self) -> StateSpace {
        match self {
            MemoryObject::Node(_) => StateSpace::Global,
            MemoryObject::Shared(_) => StateSpace::Shared,
            MemoryObject::Private(_) => StateSpace::Local,
        }
    }
}

/// The address of an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementAddress {
    pub(super) memory: MemoryObject,
    pub(super) base: AddressBase,
    /// Offset from the base in bytes.
    pub(super) offset: i32,
    /// Alignment of the base in bytes, a power of two.
    pub(super) align: u32,
}

impl ElementAddress {
    pub(super) fn place(self) -> AddressOperand {
        AddressOperand { base: self.base, offset: self.offset }
    }
}

/// Elements whose values are in registers, and which no other thread changes.
#[derive(Debug, Default)]
pub(super) struct KnownElements {
    known: BTreeMap<MemoryObject, HashMap<(AddressBase, i32), Value>>,
    /// For each open block, the elements that became known in it.
    blocks: Vec<Vec<(MemoryObject, (AddressBase, i32))>>,
}

impl KnownElements {
    pub(super) fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        for (memory, key) in self.blocks.pop().unwrap_or_default() {
            if let Some(known) = self.known.get_mut(&memory) {
                known.remove(&key);
            }
        }
    }

    fn get(&self, element: ElementAddress) -> Option<Value> {
        self.known.get(&element.memory)?.get(&(element.base, element.offset)).copied()
    }

    pub(super) fn insert(&mut self, memory: MemoryObject, base: AddressBase, offset: i32, value: Value) {
        self.known.entry(memory).or_default().insert((base, offset), value);
        if let Some(block) = self.blocks.last_mut() {
            block.push((memory, (base, offset)));
        }
    }

    /// Forgets the elements that a store to `element` may change.
    pub(super) fn forget(&mut self, element: ElementAddress) {
        if let Some(known) = self.known.get_mut(&element.memory) {
            known.retain(|&(base, offset), _| base == element.base && offset != element.offset);
        }
    }

    fn forget_all(&mut self, memory: MemoryObject) {
        self.known.remove(&memory);
    }

    fn retain(&mut self, stays: impl Fn(MemoryObject) -> bool) {
        self.known.retain(|&memory, _| stays(memory));
    }
}

/// The PTX type of an element in memory.
pub(super) fn memory_type(dtype: DType) -> Ty {
    match dtype {
        DType::Bool | DType::U8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => Ty::U8,
        DType::I8 => Ty::S8,
        DType::U16 => Ty::U16,
        DType::F16 | DType::Bf16 => Ty::B16,
        DType::U32x4 => Ty::B32,
        _ => carrier(dtype),
    }
}

impl Emitter<'_> {
    /// The address of the element at a linear index.
    pub(super) fn element(&mut self, memory: MemoryObject, flat: &Affine, bytes: usize) -> ElementAddress {
        let (terms, offset) = self.scope.split(flat);
        let size = bytes as i64;
        let align = terms.terms().iter().fold(ALIGNMENT, |align, &(_, factor)| {
            align.min(1 << factor.wrapping_mul(size).trailing_zeros().min(ALIGNMENT.trailing_zeros()))
        });
        let is_near = fits_i32(offset.wrapping_mul(size));
        if is_near && (self.scope.fits(&terms) || !matches!(memory, MemoryObject::Node(_))) {
            let base = self.base(memory, &terms, 0, size);
            return ElementAddress { memory, base, offset: (offset * size) as i32, align };
        }
        // The sum fits 32 bits only with the constant part.
        let align = 1 << offset.wrapping_mul(size).trailing_zeros().min(align.trailing_zeros());
        ElementAddress { memory, base: self.base(memory, &terms, offset, size), offset: 0, align }
    }

    /// The base address for elements `terms + offset`.
    fn base(&mut self, memory: MemoryObject, terms: &Affine, offset: i64, size: i64) -> AddressBase {
        match memory {
            MemoryObject::Node(node) => {
                let start = self.bases[node.index()];
                if terms.terms().is_empty() && offset == 0 {
                    return AddressBase::Reg(start);
                }
                let whole = terms.plus_constant(offset);
                let address = if self.scope.fits(&whole) {
                    let index = self.index(&whole);
                    self.b.index_sum_wide(index, size as i32, start)
                } else {
                    let start = match offset.wrapping_mul(size) {
                        0 => start,
                        bytes => self.b.index(ptx_asm::PtxBinaryOp::Add, Ty::S64, start, bytes as u64),
                    };
                    let terms = self.scope.sum(terms).terms;
                    match self.wide_sum(&terms, size, start.into()) {
                        PtxOperand::Reg(reg) => reg,
                        PtxOperand::Const(_) => start,
                    }
                };
                AddressBase::Reg(address)
            }
            MemoryObject::Shared(array) | MemoryObject::Private(array) => {
                let whole = terms.plus_constant(offset);
                if whole.terms().is_empty() && offset == 0 {
                    return AddressBase::Array(array);
                }
                let index = self.index(&whole);
                let start = self.array_address(memory, array);
                AddressBase::Reg(self.b.index_sum(index, size as i32, start))
            }
        }
    }

    fn array_address(&mut self, memory: MemoryObject, array: u32) -> Reg {
        let space = memory.space();
        self.b.index_address(space, array)
    }

    /// The address `at` steps of `step` bytes further.
    pub(super) fn further(&mut self, element: ElementAddress, at: Reg, step: i64) -> ElementAddress {
        let base = match (element.base, i32::try_from(step)) {
            (AddressBase::Array(array), _) => {
                let start = self.array_address(element.memory, array);
                self.b.index_sum(at, step as i32, start)
            }
            (AddressBase::Reg(start), _) if start.class == RegClass::B32 => {
                self.b.index_sum(at, step as i32, start)
            }
            (AddressBase::Reg(start), Ok(step)) => self.b.index_sum_wide(at, step, start),
            (AddressBase::Reg(start), Err(_)) => {
                let wide = self.b.index_widened(at);
                let bytes = self.b.index(ptx_asm::PtxBinaryOp::Mul, Ty::S64, wide, step as u64);
                self.b.index(ptx_asm::PtxBinaryOp::Add, Ty::S64, start, bytes)
            }
        };
        ElementAddress { base: AddressBase::Reg(base), align: 1, ..element }
    }

    /// Like [`Emitter::further`], for a register that may change later.
    pub(super) fn gathered(&mut self, element: ElementAddress, at: Reg, step: i64) -> ElementAddress {
        let AddressBase::Reg(start) = element.base else { return self.further(element, at, step) };
        let wide = |e: &mut Self| e.b.convert(Ty::S64, Ty::S32, RoundingMode::None, at);
        let base = match i32::try_from(step) {
            Ok(step) => self.b.mul_add_wide(Ty::S32, at, step, start),
            Err(_) => {
                let at = wide(self);
                self.b.mul_add(Ty::S64, at, step as u64, start)
            }
        };
        ElementAddress { base: AddressBase::Reg(base), align: 1, ..element }
    }

    /// Number of elements to load at once: several along an unrolled loop if they start at an aligned
    /// address, otherwise 1.
    fn width(&self, flat: &Affine, size: i64) -> i64 {
        let fits = |along: &super::UnrolledLoop, width: i64| {
            let others = flat.terms().iter().filter(|(var, _)| *var != along.var.into());
            along.lo % width == 0
                && along.extent % width == 0
                && flat.offset() % width == 0
                && others.clone().all(|(_, factor)| factor % width == 0)
        };
        let along = self.unrolled.iter().rev().filter(|l| flat.coefficient(l.var) == 1);
        let widths =
            along.flat_map(|l| WIDTHS.into_iter().filter(move |&w| has_width(w, size) && fits(l, w)));
        widths.max().unwrap_or(1)
    }

    /// Loads an element, and its neighbors along an unrolled loop with it.
    pub(super) fn load(&mut self, memory: MemoryObject, dtype: DType, flat: &Affine) -> Value {
        let width = self.width(flat, dtype.size_bytes() as i64);
        self.load_among(memory, dtype, flat, width as i32)
    }

    /// Loads an element without its neighbors.
    pub(super) fn load_alone(&mut self, memory: MemoryObject, dtype: DType, flat: &Affine) -> Value {
        self.load_among(memory, dtype, flat, 1)
    }

    /// Loads an element, as part of a vector of `width` elements if the address allows it.
    fn load_among(&mut self, memory: MemoryObject, dtype: DType, flat: &Affine, mut width: i32) -> Value {
        let size = dtype.size_bytes();
        let element = self.element(memory, flat, size);
        if let Some(value) = self.pending.get(element).or_else(|| self.elements.get(element)) {
            return value;
        }
        if size == 16 {
            self.flush_for_read(element, 0, 0);
            return self.load_lanes(element);
        }
        let bytes = size as i32;
        if !element.align.is_multiple_of((width * bytes) as u32) {
            width = 1;
        }
        let first = element.offset - element.offset.rem_euclid(width * bytes);
        self.flush_for_read(element, first, width * bytes);
        let values = self.load_run(ElementAddress { offset: first, ..element }, dtype, width);
        for (offset, &value) in (first..).step_by(size).zip(&values) {
            self.remember(element, offset, value);
        }
        values[((element.offset - first) / bytes) as usize]
    }

    /// Remembers the value of an element.
    pub(super) fn remember(&mut self, element: ElementAddress, offset: i32, value: Value) {
        match value {
            Value::In(reg) => self.b.pin(reg),
            Value::Lanes(_) | Value::Known(_) => {}
        }
        self.elements.insert(element.memory, element.base, offset, value);
    }

    fn load_run(&mut self, element: ElementAddress, dtype: DType, width: i32) -> Vec<Value> {
        let ty = memory_type(dtype);
        if width > 4 {
            return self.load_words(element, dtype, width / 2);
        }
        let dsts = self.b.registers(ty.class(), width as usize);
        let inst = self.load_inst(element, ty, dsts.clone());
        self.b.push(inst);
        dsts.into_iter().map(|reg| self.loaded(dtype, reg)).collect()
    }

    /// Loads 16-bit elements, two per word.
    fn load_words(&mut self, element: ElementAddress, dtype: DType, words: i32) -> Vec<Value> {
        let words = self.b.registers(RegClass::B32, words as usize);
        let inst = self.load_inst(element, Ty::B32, words.clone());
        self.b.push(inst);
        let mut values = Vec::new();
        for src in words {
            let halves = self.b.unpack(RegClass::B16, src);
            values.extend(halves.map(|half| self.loaded(dtype, half)));
        }
        values
    }

    fn load_lanes(&mut self, element: ElementAddress) -> Value {
        let dsts = self.b.registers(RegClass::B32, 4);
        let inst = self.load_inst(element, Ty::B32, dsts.clone());
        self.b.push(inst);
        Value::Lanes([dsts[0], dsts[1], dsts[2], dsts[3]].map(PtxOperand::from))
    }

    fn load_inst(&self, element: ElementAddress, ty: Ty, dsts: Regs) -> Inst {
        let constant = self.is_constant(element.memory);
        Inst::Load { space: element.memory.space(), ty, constant, dsts, from: element.place() }
    }

    /// Whether no thread writes the memory during the launch.
    fn is_constant(&self, memory: MemoryObject) -> bool {
        matches!(memory, MemoryObject::Node(node) if !self.written.contains(&node))
    }

    /// The element if the predicate is true, else another value; memory is accessed only where the predicate
    /// is true.
    pub(super) fn load_when(
        &mut self,
        pred: Reg,
        element: ElementAddress,
        dtype: DType,
        other: Value,
    ) -> Value {
        self.flush_memory(element.memory);
        if dtype == DType::U32x4 {
            let others = self.lanes(other);
            let dsts: Regs = others.into_iter().map(|lane| self.b.mov(RegClass::B32, lane)).collect();
            let inst = self.load_inst(element, Ty::B32, dsts.clone());
            self.b.push_predicated(GuardPredicate::on(pred), inst);
            return Value::Lanes([dsts[0], dsts[1], dsts[2], dsts[3]].map(PtxOperand::from));
        }
        let ty = memory_type(dtype);
        let start = self.stored(dtype, other);
        let dst = self.b.mov(ty.class(), start);
        let inst = self.load_inst(element, ty, smallvec![dst]);
        self.b.push_predicated(GuardPredicate::on(pred), inst);
        self.loaded(dtype, dst)
    }

    /// Converts a loaded register to the carrier of its type.
    fn loaded(&mut self, dtype: DType, raw: Reg) -> Value {
        Value::In(match dtype {
            DType::Bool => self.b.compare(CmpOp::Ne, Ty::U16, raw, 0u32),
            DType::I8 => self.b.convert(Ty::S32, Ty::S16, RoundingMode::None, raw),
            DType::U8 | DType::U16 | DType::Fp8E5m2 | DType::Fp8E4m3fn => {
                self.b.convert(Ty::U32, Ty::U16, RoundingMode::None, raw)
            }
            _ => raw,
        })
    }

    /// Converts a value to the operand of a store; not for lanes.
    pub(super) fn stored(&mut self, dtype: DType, value: Value) -> PtxOperand {
        if let Value::Known(scalar) = value {
            return match dtype {
                DType::I8 => PtxOperand::Const((scalar.bits() as u8 as i8) as u16 as u64),
                _ => constant(scalar),
            };
        }
        let reg = self.reg(value);
        match dtype {
            DType::Bool => self.b.select(Ty::U16, reg, 1u32, 0u32).into(),
            DType::I8 => self.b.convert(Ty::S16, Ty::S32, RoundingMode::None, reg).into(),
            DType::U8 | DType::U16 | DType::Fp8E5m2 | DType::Fp8E4m3fn => {
                self.b.convert(Ty::U16, Ty::U32, RoundingMode::None, reg).into()
            }
            _ => reg.into(),
        }
    }

    /// Stores a value to an element.
    pub(super) fn store(&mut self, memory: MemoryObject, dtype: DType, flat: &Affine, value: Value) {
        if self.results.is_some() {
            return self.hand_over(dtype, value);
        }
        let element = self.element(memory, flat, dtype.size_bytes());
        if dtype == DType::U32x4 {
            self.flush_memory(memory);
            self.elements.forget_all(memory);
            let lanes = self.lanes(value);
            self.store_vector(element, Ty::B32, &lanes);
            return;
        }
        self.elements.forget(element);
        self.wait(element, dtype, value);
    }

    /// Adds the value of a store to `results` instead of storing it. The value is in a register that does not
    /// change any more.
    fn hand_over(&mut self, dtype: DType, value: Value) {
        let value = self.kept(value);
        let class = memory_type(dtype).class();
        let reg = match self.stored(dtype, value) {
            PtxOperand::Reg(reg) => reg,
            known => self.b.mov(class, known),
        };
        self.b.pin(reg);
        self.results.get_or_insert_default().push(reg);
    }

    /// Stores where a predicate is true.
    pub(super) fn store_when(&mut self, pred: Reg, element: ElementAddress, dtype: DType, value: Value) {
        self.flush_memory(element.memory);
        self.elements.forget_all(element.memory);
        let guard = GuardPredicate::on(pred);
        if dtype == DType::U32x4 {
            let lanes = self.lanes(value).map(|lane| self.in_register(Ty::B32, lane));
            let inst = store_inst(element, Ty::B32, lanes.into_iter().collect());
            self.b.push_predicated(guard, inst);
        } else {
            let src = self.stored(dtype, value);
            self.b.push_predicated(guard, store_inst(element, memory_type(dtype), smallvec![src]));
        }
    }

    /// Stores adjacent elements at once.
    pub(super) fn store_vector(&mut self, element: ElementAddress, ty: Ty, values: &[PtxOperand]) {
        let srcs = match values {
            &[one] => smallvec![one],
            halves if halves.len() > 4 => return self.store_words(element, ty, halves),
            several => several.iter().map(|&value| self.in_register(ty, value)).collect(),
        };
        self.b.push(store_inst(element, ty, srcs));
    }

    /// Stores 16-bit elements, two per word.
    fn store_words(&mut self, element: ElementAddress, ty: Ty, values: &[PtxOperand]) {
        let mut half = |value| match self.in_register(ty, value) {
            PtxOperand::Reg(reg) => reg,
            PtxOperand::Const(_) => self.b.mov(RegClass::B16, value),
        };
        let halves: Vec<Reg> = values.iter().map(|&value| half(value)).collect();
        let word = |pair: &[Reg]| self.b.pack(RegClass::B32, pair[0], pair[1]).into();
        let words = halves.chunks_exact(2).map(word).collect();
        self.b.push(store_inst(element, Ty::B32, words));
    }

    /// An operand of a vector store, which must be a register.
    fn in_register(&mut self, ty: Ty, operand: PtxOperand) -> PtxOperand {
        match operand {
            PtxOperand::Reg(_) => operand,
            PtxOperand::Const(_) => self.b.mov(ty.class(), operand).into(),
        }
    }

    /// Forgets the elements of shared memory, which other threads may have written.
    pub(super) fn forget_shared(&mut self) {
        let written = self.written.clone();
        self.elements.retain(|memory| match memory {
            MemoryObject::Node(node) => !written.contains(&node),
            MemoryObject::Shared(_) => false,
            MemoryObject::Private(_) => true,
        });
    }

    /// Forgets the elements that a loop body stores to, because its next iteration may read them.
    pub(super) fn forget_written(&mut self) {
        let written = self.written.clone();
        self.elements.retain(|memory| matches!(memory, MemoryObject::Node(node) if !written.contains(&node)));
    }

    /// Emits code that zeroes the first `bytes` bytes of `memory`, without the help of other threads.
    pub(super) fn zero(&mut self, memory: MemoryObject, bytes: u64) {
        self.flush_memory(memory);
        self.elements.forget_all(memory);
        let whole = (bytes / 16) as i64;
        let base = self.base(memory, &Affine::constant(0), 0, 1);
        let start = ElementAddress { memory, base, offset: 0, align: ALIGNMENT };
        let zero = self.b.mov(RegClass::B32, 0u32);
        if whole <= 8 {
            for at in 0..whole as i32 {
                self.store_vector(ElementAddress { offset: 16 * at, ..start }, Ty::B32, &[zero.into(); 4]);
            }
        } else {
            let first = self.b.mov(RegClass::B32, 0u32);
            self.counted(first, 1u32.into(), (whole as u32).into(), |e, at| {
                let element = e.further(start, at, 16);
                e.store_vector(element, Ty::B32, &[zero.into(); 4]);
            });
        }
        for at in whole as u64 * 16..bytes {
            let element = self.element(memory, &Affine::constant(at as i64), 1);
            self.store_vector(element, Ty::U8, &[PtxOperand::Const(0)]);
        }
    }
}

fn store_inst(element: ElementAddress, ty: Ty, srcs: smallvec::SmallVec<[PtxOperand; 4]>) -> Inst {
    Inst::Store { space: element.memory.space(), ty, to: element.place(), srcs }
}
