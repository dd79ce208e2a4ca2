//! Accesses at a computed index, without a branch. If the index is out of bounds, the address is that of the
//! dimension's first element; a load's result is not used, and a store writes back the old value.
//!
//! In a vector loop, the computed index is the same in all lanes
//! ([`scan::has_lanes`](super::scan::has_lanes)). So there is one address and one condition, and contiguous
//! lanes are loaded and stored together.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Opcode, Value, types};
use lowered_ir::ir::{Expr, Indices, NodeRef};
use tnode::DType;

use super::Emitter;
use super::address::Address;
use super::memory::Element;
use super::repr::Val;

/// An element of a node whose index along one dimension is computed.
pub(super) struct ComputedElement<'a> {
    pub(super) node: NodeRef,
    /// The index as written.
    pub(super) index: &'a Indices,
    /// The dimension whose index is computed.
    pub(super) axis: usize,
}

impl Emitter<'_> {
    /// Emits a read. Its value is `otherwise` if the index is out of bounds.
    pub(super) fn gather(
        &mut self,
        element: &ComputedElement<'_>,
        at: &Expr,
        otherwise: &Expr,
    ) -> (DType, Val) {
        let (dtype, other) = self.expr(otherwise);
        if self.is_empty(element.node) {
            return (dtype, other);
        }
        let (element, address, inside) = self.computed(element, at);
        let read = self.load_at(&element, address);
        (dtype, self.pick(dtype, inside, read, other))
    }

    /// Emits a store, which has no effect if the index is out of bounds.
    pub(super) fn scatter(&mut self, element: &ComputedElement<'_>, at: &Expr, value: &Expr) {
        if self.is_empty(element.node) {
            return;
        }
        let (dtype, new) = self.expr(value);
        let (element, address, inside) = self.computed(element, at);
        let old = self.load_at(&element, address);
        let stored = self.pick(dtype, inside, new, old);
        let stored = if self.lane.is_some() { self.widened(dtype, &stored) } else { stored };
        self.store_at(&element, &stored, address);
    }

    /// Selects one of two values for all lanes, by a condition that they share.
    fn pick(&mut self, dtype: DType, condition: Value, then: Val, otherwise: Val) -> Val {
        let args = [(DType::Bool, Val::one(condition)), (dtype, then), (dtype, otherwise)];
        let [condition, then, otherwise] = self.alike(args);
        self.select(dtype, &condition, &then, &otherwise)
    }

    fn is_empty(&self, node: NodeRef) -> bool {
        self.routine.node(node).dims.contains(&0)
    }

    /// The element, an address that is valid even if the index is out of bounds, and whether the index is in
    /// bounds, as a `bool`.
    fn computed(&mut self, element: &ComputedElement<'_>, at: &Expr) -> (Element, Address, Value) {
        let &ComputedElement { node, index, axis } = element;
        let (_, at) = self.expr(at);
        let decl = self.routine.node(node);
        let stride: usize = decl.dims[axis + 1..].iter().product::<usize>() * decl.dtype.size_bytes();
        let dim = self.ssa.int(types::I64, decl.dims[axis] as i64);
        let inside = self.ssa.icmp(IntCC::UnsignedLessThan, at.first(), dim);
        let zero = self.ssa.int(types::I64, 0);
        let safe = self.ssa.ternary(Opcode::Select, inside, at.first(), zero);
        let by = self.ssa.int(types::I64, stride as i64);
        let bytes = self.ssa.binary(Opcode::Imul, safe, by);
        let element = self.node_element(node, index);
        let first = self.address(element.base, &element.bytes);
        let base = self.ssa.binary(Opcode::Iadd, first.base, bytes);
        (element, Address { base, offset: first.offset }, inside)
    }

    /// Assembles a `u32x4` from four words.
    pub(super) fn lanes(&mut self, lanes: &[Expr; 4]) -> Val {
        let zero = self.ssa.vector(types::I32X4, [0; 16]);
        let vector = lanes.iter().enumerate().fold(zero, |vector, (lane, word)| {
            let (_, word) = self.expr(word);
            self.ssa.insert(vector, lane, word.first())
        });
        Val::one(vector)
    }
}
