//! Functions of a model: the nodes of a function take the place of each call.
//!
//! Within a call, the parameters and results of the function have the names of the operands and results of
//! the node that calls it. Every other name gets a prefix that no other call has, so that calls do not share
//! values.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use prost::Message;

use crate::{
    budget::Budget,
    error::{OnnxError, Result},
    load::{OPSETS, domain},
    proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto},
};

/// The deepest nesting of calls, which ends recursion.
const DEEPEST: usize = 32;

/// The version of each operator set, by domain.
pub(crate) type Opsets = HashMap<String, i64>;

/// Operator sets by domain; the version of `ai.onnx` has to be supported.
pub(crate) fn opsets(imports: &[OperatorSetIdProto], place: &str) -> Result<Arc<Opsets>> {
    let all: Opsets = imports.iter().map(|set| (domain(&set.domain).to_owned(), set.version)).collect();
    match all.get("") {
        Some(version) if !OPSETS.contains(version) => {
            let (first, last) = (OPSETS.start(), OPSETS.end());
            let problem =
                format!("version {version} of ai.onnx is not supported; versions {first} to {last} are");
            Err(OnnxError::invalid(place, problem))
        }
        _ => Ok(Arc::new(all)),
    }
}

/// A node with the operator sets of the graph or function that has it.
pub(crate) struct PlacedNode<'a> {
    pub(crate) node: Cow<'a, NodeProto>,
    pub(crate) opsets: Arc<Opsets>,
}

struct Function<'a> {
    proto: &'a FunctionProto,
    opsets: Arc<Opsets>,
    /// The bytes of the nodes, and the number of names in them.
    size: Size,
}

/// The functions of a model.
pub(crate) struct Functions<'a> {
    /// By domain, name and overload.
    all: HashMap<(&'a str, &'a str, &'a str), Function<'a>>,
    /// The number of calls so far.
    calls: usize,
}

impl<'a> Functions<'a> {
    pub(crate) fn of(model: &'a ModelProto) -> Result<Functions<'a>> {
        let mut all = HashMap::new();
        for proto in &model.functions {
            let opsets = opsets(&proto.opset_import, &format!("function `{}`", proto.name))?;
            let function = Function { proto, opsets, size: Size::of(&proto.node, proto.encoded_len()) };
            let key = (domain(&proto.domain), proto.name.as_str(), proto.overload.as_str());
            if all.insert(key, function).is_some() {
                return Err(OnnxError::invalid(format!("function `{}`", proto.name), "it is there twice"));
            }
        }
        Ok(Functions { all, calls: 0 })
    }

    /// The nodes, with those of functions instead of calls.
    pub(crate) fn expanded<'n>(
        &mut self,
        nodes: &'n [NodeProto],
        opsets: &Arc<Opsets>,
        budget: &mut Budget,
    ) -> Result<Vec<PlacedNode<'n>>> {
        let mut placed = Vec::new();
        for node in nodes {
            self.expand(Cow::Borrowed(node), opsets, 0, &mut placed, budget)?;
        }
        Ok(placed)
    }

    fn expand<'n>(
        &mut self,
        node: Cow<'n, NodeProto>,
        opsets: &Arc<Opsets>,
        depth: usize,
        placed: &mut Vec<PlacedNode<'n>>,
        budget: &mut Budget,
    ) -> Result<()> {
        let key = (domain(&node.domain), node.op_type.as_str(), node.overload.as_str());
        let Some(function) = self.all.get(&key) else {
            placed.push(PlacedNode { node, opsets: opsets.clone() });
            return Ok(());
        };
        let place = || format!("node `{}`, function `{}`", node.name, node.op_type);
        let fail = |problem: &str| Err(OnnxError::invalid(place(), problem));
        self.calls += 1;
        if depth == DEEPEST {
            return fail("calls are nested too deeply");
        }
        if node.input.len() > function.proto.input.len() || node.output.len() > function.proto.output.len() {
            return fail("the call has more operands or results than the function");
        }
        let (proto, inner) = (function.proto, function.opsets.clone());
        let call = Call::new(proto, &node, self.calls);
        let steps = 1 + proto.node.len() as u64;
        let taken = budget.step(steps).and_then(|()| budget.take(call.bytes(function.size)));
        taken.map_err(OnnxError::at(place()))?;
        for own in &proto.node {
            self.expand(Cow::Owned(call.node(own)), &inner, depth + 1, placed, budget)?;
        }
        Ok(())
    }
}

/// A call of a function.
struct Call<'a> {
    /// The names of the caller by the names of the function.
    names: HashMap<&'a str, &'a str>,
    /// The attributes of the call, and the defaults of those that it does not have.
    attributes: HashMap<&'a str, &'a AttributeProto>,
    prefix: String,
}

/// The size of the nodes of a function.
#[derive(Clone, Copy)]
struct Size {
    bytes: usize,
    /// How many names a copy changes.
    names: usize,
}

impl Size {
    fn of(nodes: &[NodeProto], bytes: usize) -> Size {
        Size { bytes, names: nodes.iter().map(names).sum() }
    }
}

/// The number of names of a node, subgraphs included.
fn names(node: &NodeProto) -> usize {
    let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_deref());
    let inner = graphs.map(|graph| {
        let own = [graph.input.len(), graph.output.len(), graph.initializer.len()];
        own.iter().sum::<usize>()
            + graph.sparse_initializer.len()
            + graph.node.iter().map(names).sum::<usize>()
    });
    1 + node.attribute.len() + node.input.len() + node.output.len() + inner.sum::<usize>()
}

impl<'a> Call<'a> {
    /// The most bytes of a copy of a function with nodes of this size: each name gets the prefix, or is a
    /// name of the caller, and attributes are those of the caller.
    fn bytes(&self, size: Size) -> u64 {
        /// What a name, or the message of a node, takes beside its text.
        const EACH: usize = 64;
        let longest =
            self.names.values().map(|name| name.len()).chain([self.prefix.len()]).max().unwrap_or(0);
        let given: usize =
            self.attributes.values().map(|attribute| attribute.encoded_len()).max().unwrap_or(0);
        let each = (longest + EACH).saturating_add(given);
        (size.bytes.saturating_add(size.names.saturating_mul(each))) as u64
    }

    fn new(function: &'a FunctionProto, node: &'a NodeProto, number: usize) -> Call<'a> {
        let missing = std::iter::repeat("");
        let given = node.input.iter().map(String::as_str).chain(missing);
        let mut names: HashMap<&str, &str> = function.input.iter().map(String::as_str).zip(given).collect();
        // A result that the caller does not name keeps a name of the function.
        let results = function.output.iter().zip(&node.output).filter(|(_, name)| !name.is_empty());
        names.extend(results.map(|(own, name)| (own.as_str(), name.as_str())));
        let all = function.attribute_proto.iter().chain(&node.attribute);
        let attributes = all.map(|attribute| (attribute.name.as_str(), attribute)).collect();
        let name = if node.name.is_empty() { &function.name } else { &node.name };
        Call { names, attributes, prefix: format!("{name}#{number}/") }
    }

    fn name(&self, own: &str) -> String {
        match self.names.get(own) {
            _ if own.is_empty() => String::new(),
            Some(name) => (*name).to_owned(),
            None => format!("{}{own}", self.prefix),
        }
    }

    fn node(&self, own: &NodeProto) -> NodeProto {
        let names = |names: &[String]| names.iter().map(|name| self.name(name)).collect();
        NodeProto {
            input: names(&own.input),
            output: names(&own.output),
            name: format!("{}{}", self.prefix, own.name),
            attribute: own.attribute.iter().filter_map(|attribute| self.attribute(attribute)).collect(),
            ..own.clone()
        }
    }

    /// The attribute with the value that it has in the call; none if it takes one that the call does not
    /// have.
    fn attribute(&self, own: &AttributeProto) -> Option<AttributeProto> {
        if !own.ref_attr_name.is_empty() {
            let value = self.attributes.get(own.ref_attr_name.as_str())?;
            return Some(AttributeProto { name: own.name.clone(), ..(*value).clone() });
        }
        let graph = own.g.as_ref().map(|graph| Box::new(self.graph(graph)));
        Some(AttributeProto { g: graph, ..own.clone() })
    }

    /// A subgraph, whose own names change too.
    fn graph(&self, own: &GraphProto) -> GraphProto {
        let mut graph = own.clone();
        graph.node = own.node.iter().map(|node| self.node(node)).collect();
        for info in graph.input.iter_mut().chain(&mut graph.output) {
            info.name = self.name(&info.name);
        }
        for tensor in &mut graph.initializer {
            tensor.name = self.name(&tensor.name);
        }
        for values in graph.sparse_initializer.iter_mut().filter_map(|tensor| tensor.values.as_mut()) {
            values.name = self.name(&values.name);
        }
        graph
    }
}
