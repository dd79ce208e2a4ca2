//! Models after loading: every name is resolved, every operator is known.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tnode::DType;

use crate::{host::HostValue, narrow::Narrow};

/// A graph whose nodes are sorted: each value is made before it is read.
pub(crate) struct ModelGraph {
    pub(crate) inputs: Vec<ValueInfo>,
    pub(crate) outputs: Vec<ValueInfo>,
    pub(crate) initializers: HashMap<String, Arc<HostValue>>,
    pub(crate) nodes: Vec<ModelNode>,
    /// How often nodes of the graph, and nodes of their subgraphs, read each value; outputs count too.
    pub(crate) uses: HashMap<String, usize>,
    /// The texts that the integers of values number, and the names of the columns of maps.
    pub(crate) labels: HashMap<String, Vec<String>>,
}

/// The operator of a node.
#[derive(Clone, Copy)]
pub(crate) struct NodeOperator {
    /// The position in the list of all operators.
    pub(crate) number: usize,
    pub(crate) name: &'static str,
    /// Whether two evaluations may differ.
    pub(crate) is_random: bool,
    /// Whether operands or results may be sequences.
    pub(crate) has_sequences: bool,
}

/// The application of an operator.
#[derive(Clone)]
pub(crate) struct ModelNode {
    /// Unique in the model.
    pub(crate) id: usize,
    /// The name, or that of the first result.
    pub(crate) name: String,
    pub(crate) operator: NodeOperator,
    /// The version of the operator set that the model names.
    pub(crate) opset: i64,
    /// The operands; an empty name is one that is not given.
    pub(crate) inputs: Vec<String>,
    /// The types of operands that have fewer than 8 bits, where the file says them.
    pub(crate) narrow: Vec<Option<Narrow>>,
    /// The results; an empty name is one that nobody reads.
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: BTreeMap<String, Attribute>,
    /// The names that subgraphs read from enclosing graphs.
    pub(crate) captures: Vec<String>,
}

impl ModelNode {
    /// The name, the operator and the version of its set, for errors.
    pub(crate) fn place(&self) -> (&str, &'static str, i64) {
        (&self.name, self.operator.name, self.opset)
    }

    /// The names that the node reads, subgraphs included.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &String> {
        self.inputs.iter().filter(|name| !name.is_empty()).chain(&self.captures)
    }
}

/// The value of an attribute.
#[derive(Clone)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Tensor(Arc<HostValue>),
    Graph(Arc<ModelGraph>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// The name.
    pub name: String,
    /// The element type; none if the model does not say it or arrays cannot have it.
    pub dtype: Option<DType>,
    /// The axes; none if the rank is not known.
    pub dims: Option<Vec<Dim>>,
}

/// The size of an axis of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// The size is fixed.
    Known(usize),
    /// Each run decides the size. Axes with the same name should have the same size; others give a warning.
    Named(String),
    /// Each run decides the size.
    Unknown,
}
