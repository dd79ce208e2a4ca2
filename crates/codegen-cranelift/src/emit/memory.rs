//! Elements of nodes and of stack locals: loads and stores of one value or of lanes.
//!
//! Memory is little-endian, and elements are aligned to their type only. Values that were loaded or stored
//! since the last loop boundary are remembered, so that straight-line code does not load an element twice; a
//! store to the same array forgets them.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Opcode, Type, Value, types};
use lowered_ir::ir::{Affine, Indices, LocalId, NodeRef, SymbolId};
use tnode::DType;

use super::Emitter;
use super::address::Address;
use super::repr::{self, LANES, Val};

/// An array in memory. Arrays do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Array {
    Node(NodeRef),
    Local(LocalId),
}

/// Values in memory that are also in registers.
#[derive(Default)]
pub(super) struct Loads {
    known: HashMap<Array, HashMap<(Value, i32, Type), Value>>,
}

impl Loads {
    /// Forgets all values, because control flow joins here.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// Forgets the values of an array, because they may have changed.
    pub(super) fn forget_array(&mut self, array: Array) {
        self.known.remove(&array);
    }
}

/// An element in memory, and the distance from lane to lane in the current vector loop.
pub(super) struct Element {
    pub(super) array: Array,
    dtype: DType,
    pub(super) base: Value,
    /// Bytes from the base.
    pub(super) bytes: Affine,
    /// Bytes from lane to lane.
    stride: i64,
}

impl Element {
    /// Whether the lanes access different elements.
    pub(super) fn is_spread(&self) -> bool {
        self.stride != 0
    }

    /// Whether the lanes access contiguous elements in order.
    pub(super) fn is_contiguous(&self) -> bool {
        self.stride == self.dtype.size_bytes() as i64
    }
}

impl Emitter<'_> {
    /// The base address of a node.
    pub(super) fn base(&mut self, node: NodeRef) -> Value {
        self.ssa.load_constant(types::I64, self.args, 8 * node.0 as i32)
    }

    /// The value of a static symbol.
    pub(super) fn binding(&mut self, symbol: SymbolId) -> Value {
        self.ssa.load_constant(types::I64, self.bindings, 8 * symbol.0 as i32)
    }

    pub(super) fn node_element(&mut self, node: NodeRef, index: &Indices) -> Element {
        let decl = self.routine.node(node);
        let (dtype, flat) = (decl.dtype, Affine::row_major(index, &decl.dims));
        let base = self.base(node);
        self.element(Array::Node(node), dtype, base, &flat, 0)
    }

    /// An element of an array that starts `start` bytes after `base`, by its flat index.
    pub(super) fn element(
        &self,
        array: Array,
        dtype: DType,
        base: Value,
        flat: &Affine,
        start: i64,
    ) -> Element {
        let bytes = flat.times(dtype.size_bytes() as i64).plus_constant(start);
        let stride = self.lane.map_or(0, |lane| bytes.coefficient(lane));
        Element { array, dtype, base, bytes, stride }
    }

    /// Loads an element, as lanes if they differ.
    pub(super) fn load(&mut self, element: &Element) -> Val {
        let address = self.address(element.base, &element.bytes);
        self.load_at(element, address)
    }

    /// Loads an element if `condition` (a `bool` value) holds, else the array's first element.
    pub(super) fn load_if(&mut self, element: &Element, condition: Value) -> Val {
        let address = self.address(element.base, &element.bytes);
        let at = self.displaced_value(address);
        let safe = self.ssa.ternary(Opcode::Select, condition, at, element.base);
        self.load_at(element, Address { base: safe, offset: 0 })
    }

    /// Loads the element of one lane if `condition` holds, else the array's first element.
    pub(super) fn load_lane_if(&mut self, element: &Element, lane: usize, condition: Value) -> Value {
        let address = self.address(element.base, &element.bytes);
        let address = self.displaced(address.base, i64::from(address.offset) + lane as i64 * element.stride);
        let at = self.displaced_value(address);
        let safe = self.ssa.ternary(Opcode::Select, condition, at, element.base);
        self.load_one(element, Address { base: safe, offset: 0 })
    }

    fn displaced_value(&mut self, address: Address) -> Value {
        if address.offset == 0 {
            return address.base;
        }
        let offset = self.ssa.int(types::I64, i64::from(address.offset));
        self.ssa.binary(Opcode::Iadd, address.base, offset)
    }

    /// Loads from an address in the element's array, as lanes if they differ.
    pub(super) fn load_at(&mut self, element: &Element, address: Address) -> Val {
        if self.lane.is_none() || element.stride == 0 {
            return Val::one(self.load_one(element, address));
        }
        if element.is_contiguous() {
            return self.load_lanes(element, address);
        }
        let lanes: Vec<Value> = (0..LANES as i64)
            .map(|lane| {
                let at = self.displaced(address.base, i64::from(address.offset) + lane * element.stride);
                self.load_one(element, at)
            })
            .collect();
        self.assemble(element.dtype, &lanes)
    }

    /// Loads one value from an address in the element's array.
    pub(super) fn load_one(&mut self, element: &Element, at: Address) -> Value {
        let value = self.load_register(element.array, repr::one(element.dtype), at);
        if element.dtype != DType::Bool {
            return value;
        }
        let zero = self.ssa.int(types::I8, 0);
        self.ssa.icmp(IntCC::NotEqual, value, zero)
    }

    fn load_lanes(&mut self, element: &Element, at: Address) -> Val {
        let Element { array, dtype, .. } = *element;
        let lanes = match dtype.size_bytes() {
            4 => Val::lanes([self.load_register(array, repr::wide(dtype), at)]),
            8 => Val::lanes([0, 16].map(|offset| {
                let at = Address { offset: at.offset + offset, ..at };
                self.load_register(array, repr::wide(dtype), at)
            })),
            size => {
                let ty = if size == 2 { types::I64 } else { types::I32 };
                let packed = self.load_register(array, ty, at);
                Val::lanes([self.unpack(dtype, packed)])
            }
        };
        if dtype != DType::Bool {
            return lanes;
        }
        let zero = self.splat_bits(types::I32X4, 0);
        Val::lanes([self.ssa.icmp(IntCC::NotEqual, lanes.first(), zero)])
    }

    /// Widens four packed elements of one or two bytes to lanes.
    fn unpack(&mut self, dtype: DType, packed: Value) -> Value {
        let signed = dtype == DType::I8;
        let opcode = if signed { Opcode::SwidenLow } else { Opcode::UwidenLow };
        if dtype.size_bytes() == 2 {
            let x = self.ssa.unary(Opcode::ScalarToVector, types::I64X2, packed);
            let x = self.ssa.bitcast(types::I16X8, x);
            return self.ssa.unary(opcode, types::I16X8, x);
        }
        let x = self.ssa.unary(Opcode::ScalarToVector, types::I32X4, packed);
        let x = self.ssa.bitcast(types::I8X16, x);
        let x = self.ssa.unary(opcode, types::I8X16, x);
        self.ssa.unary(opcode, types::I16X8, x)
    }

    /// Loads a register, unless another one holds the value.
    fn load_register(&mut self, array: Array, ty: Type, at: Address) -> Value {
        if matches!(array, Array::Node(node) if self.read_only[node.index()]) {
            return self.ssa.load_constant(ty, at.base, at.offset);
        }
        let key = (at.base, at.offset, ty);
        if let Some(&value) = self.loads.known.get(&array).and_then(|known| known.get(&key)) {
            return value;
        }
        let value = self.ssa.load(ty, at.base, at.offset);
        self.loads.known.entry(array).or_default().insert(key, value);
        value
    }

    /// Stores a value, or lanes, to an element.
    pub(super) fn store(&mut self, element: &Element, value: &Val) {
        let at = self.address(element.base, &element.bytes);
        self.store_at(element, value, at);
    }

    /// Stores a value, or lanes, to an address in the element's array.
    pub(super) fn store_at(&mut self, element: &Element, value: &Val, at: Address) {
        if self.lane.is_none() {
            return self.store_register(element.array, value.first(), at);
        }
        if element.is_contiguous() {
            let value = self.widened(element.dtype, value);
            return self.store_lanes(element, &value, at);
        }
        for lane in 0..LANES {
            let at = self.displaced(at.base, i64::from(at.offset) + lane as i64 * element.stride);
            let value = self.lane(element.dtype, value, lane);
            self.store_register(element.array, value, at);
        }
    }

    fn store_lanes(&mut self, element: &Element, value: &Val, at: Address) {
        let Element { array, dtype, .. } = *element;
        match dtype.size_bytes() {
            4 => self.store_register(array, value.first(), at),
            8 => {
                self.store_register(array, value.parts[0], at);
                self.store_register(array, value.parts[1], Address { offset: at.offset + 16, ..at });
            }
            _ => {
                let packed = self.pack(dtype, value.first());
                self.store_register(array, packed, at);
            }
        }
    }

    /// Packs lanes to four elements of one or two bytes.
    fn pack(&mut self, dtype: DType, lanes: Value) -> Value {
        let lanes = if dtype == DType::Bool {
            let one = self.splat_bits(types::I32X4, 1);
            self.ssa.binary(Opcode::Band, lanes, one)
        } else {
            lanes
        };
        let size = dtype.size_bytes();
        let bytes =
            std::array::from_fn(|i| if i < size * LANES { (i / size * 4 + i % size) as u8 } else { 0 });
        let packed = self.ssa.shuffle(lanes, lanes, bytes);
        let ty = if size == 2 { types::I64X2 } else { types::I32X4 };
        let packed = self.ssa.bitcast(ty, packed);
        self.ssa.extract(packed, 0)
    }

    pub(super) fn store_register(&mut self, array: Array, value: Value, at: Address) {
        self.ssa.store(value, at.base, at.offset);
        let known = self.loads.known.entry(array).or_default();
        known.clear();
        let ty = self.ssa.type_of(value);
        self.loads.known.entry(array).or_default().insert((at.base, at.offset, ty), value);
    }

    /// Sets `bytes` bytes of an array to zero.
    pub(super) fn clear(&mut self, array: Array, base: Value, bytes: usize) {
        self.loads.forget_array(array);
        let mut done = 0;
        if bytes > 2 * CLEARED_AT_ONCE {
            done = bytes / CLEARED_AT_ONCE * CLEARED_AT_ONCE;
            self.clear_loop(base, done);
        }
        for ty in [types::I8X16, types::I64, types::I32, types::I16, types::I8] {
            let size = ty.bytes() as usize;
            while bytes - done >= size {
                let zero = self.splat_bits(ty, 0);
                let at = self.displaced(base, done as i64);
                self.ssa.store(zero, at.base, at.offset);
                done += size;
            }
        }
        self.loads.forget_array(array);
    }

    /// Clears full chunks in a loop.
    fn clear_loop(&mut self, base: Value, bytes: usize) {
        let range = self.ssa.int(types::I64, 0)..self.ssa.int(types::I64, bytes as i64);
        let (open, at, _) = self.ssa.enter_loop(range, CLEARED_AT_ONCE as i64, true, &[]);
        let zero = self.splat_bits(types::I8X16, 0);
        let at = self.ssa.binary(Opcode::Iadd, base, at);
        for offset in (0..CLEARED_AT_ONCE).step_by(16) {
            self.ssa.store(zero, at, offset as i32);
        }
        self.ssa.leave_loop(open, &[]);
    }
}

const CLEARED_AT_ONCE: usize = 128;
