//! The element types that a program gives its nodes, as far as the steps so far determine them.

use std::collections::BTreeMap;

use tnode::{DType, DelayedDType, TensorNode};

use crate::tree::ExprType;
use crate::types::either_type;

/// What is known about the types of nodes.
#[derive(Default)]
pub(super) struct TypeTable {
    /// The nodes that hold numbers only, so that their types are open, with the kind of numbers.
    numbers: BTreeMap<TensorNode, ExprType>,
    /// The nodes with an inferred type, each with the byte position of the step that gave it.
    typed: BTreeMap<TensorNode, usize>,
    /// For a node of numbers whose type is open, the nodes of numbers that its values are made of. They get
    /// the type with it.
    made_of: BTreeMap<TensorNode, Vec<TensorNode>>,
}

impl TypeTable {
    /// The kind of the numbers in a node whose type is open.
    pub(super) fn numbers(&self, node: &TensorNode) -> Option<ExprType> {
        self.numbers.get(node).copied()
    }

    /// The byte position of the step that gave the node its type, if one did.
    pub(super) fn typed_at(&self, node: &TensorNode) -> Option<usize> {
        self.typed.get(node).copied()
    }

    /// Records that the values of `whole` are made of the numbers in `part`.
    pub(super) fn add_part(&mut self, whole: &TensorNode, part: TensorNode) {
        self.made_of.entry(whole.clone()).or_default().push(part);
    }

    /// Records the type of a value that a step writes to a node whose type is open.
    pub(super) fn write(&mut self, node: &TensorNode, value: ExprType, at: usize) {
        match value {
            ExprType::Known(_) | ExprType::Widened => self.settle(node, value.or(DType::F32), at),
            ExprType::Integer | ExprType::Fraction => {
                let earlier = self.numbers(node).unwrap_or(value);
                self.numbers.insert(node.clone(), either_type(earlier, value));
            }
        }
    }

    /// Gives a node of numbers only, whose type is open, that type.
    pub(super) fn settle_numbers(&mut self, node: &TensorNode, dtype: DType, at: usize) {
        if self.numbers(node).is_some() {
            self.settle(node, dtype, at);
        }
    }

    /// Gives a node that type, unless it has one.
    pub(super) fn settle_open(&mut self, node: &TensorNode, dtype: DType, at: usize) {
        if has_open_type(node) {
            self.settle(node, dtype, at);
        }
    }

    pub(super) fn settle(&mut self, node: &TensorNode, dtype: DType, at: usize) {
        self.numbers.remove(node);
        // The type may be settled by another thread meanwhile, which is then the node's type.
        if node.infer_dtype(move || dtype).is_ok() && node.dtype() == dtype {
            self.typed.insert(node.clone(), at);
        }
        for part in self.made_of.remove(node).unwrap_or_default() {
            self.settle_open(&part, ExprType::Fraction.or(dtype), at);
        }
    }

    /// Settles all types that are still open to the defaults of the nodes.
    pub(super) fn settle_rest(self) {
        self.numbers.keys().for_each(|node| {
            node.dtype();
        });
    }
}

/// Whether the type of a node is open, and neither specified nor inferred by a front end.
pub(super) fn has_open_type(node: &TensorNode) -> bool {
    !node.is_dtype_settled() && matches!(node.delayed_dtype(), DelayedDType::Default(_))
}
