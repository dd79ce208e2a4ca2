//! Loading: from the messages of a file to a checked model.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    array,
    budget::{Budget, bytes_of},
    dequantized::Replacing,
    error::{OnnxError, Result, UnsupportedNode},
    external::ModelFiles,
    fold::Folding,
    functions::{self, Functions, Opsets, PlacedNode},
    host::HostValue,
    ir::{Attribute, Dim, ModelGraph, ModelNode, ValueInfo},
    narrow::Narrow,
    operators,
    proto::{
        AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto,
    },
    requantized::Rejoining,
    texts,
};

/// The versions of `ai.onnx` that this crate reads.
pub(crate) const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;

/// The deepest nesting of subgraphs.
const DEEPEST: usize = 32;

/// Checks a model and resolves its names and operators.
pub(crate) fn graph(model: &ModelProto, files: Option<&ModelFiles>, budget: Budget) -> Result<ModelGraph> {
    let opsets = functions::opsets(&model.opset_import, "opset_import")?;
    let proto = model.graph.as_ref().ok_or_else(|| OnnxError::invalid("model", "it has no graph"))?;
    let functions = Functions::of(model)?;
    // The first array that is too large may come after many that are not.
    let of_functions = model.functions.iter().flat_map(|function| &function.node);
    let of_functions = of_functions.map(sparse_bytes_of_node).fold(0, u64::saturating_add);
    let sparse = sparse_bytes(proto).saturating_add(of_functions);
    budget.check(sparse).map_err(OnnxError::at("sparse tensors"))?;
    let (unsupported, narrow) = Default::default();
    let mut loader = Loader { opsets, functions, files, budget, unsupported, nodes: 0, narrow };
    let graph = loader.graph(proto, &[], 0)?;
    match loader.unsupported.is_empty() {
        true => Ok(graph),
        false => Err(OnnxError::Unsupported { nodes: loader.unsupported }),
    }
}

/// The domain, where `ai.onnx` is the empty one.
pub(crate) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

struct Loader<'a> {
    /// The operator sets of the graph or function whose nodes are loaded.
    opsets: Arc<Opsets>,
    functions: Functions<'a>,
    files: Option<&'a ModelFiles>,
    /// What the load took so far.
    budget: Budget,
    unsupported: Vec<UnsupportedNode>,
    /// The number of nodes so far, which numbers them.
    nodes: usize,
    /// The types of inputs and constants that have fewer than 8 bits. Their arrays do not say them.
    narrow: HashMap<String, Narrow>,
}

impl Loader<'_> {
    /// A graph within graphs that have the names `outer`.
    fn graph(&mut self, proto: &GraphProto, outer: &[&HashSet<String>], depth: usize) -> Result<ModelGraph> {
        if depth > DEEPEST {
            return Err(OnnxError::invalid(&proto.name, "subgraphs are nested too deeply"));
        }
        let mut initializers = HashMap::new();
        for (at, tensor) in proto.initializer.iter().enumerate() {
            let files = self.files.filter(|_| depth == 0 && tensor.data_location != 1);
            let own = files.map(|files| files.own_array(at, tensor)).transpose()?;
            let value = match own.flatten() {
                Some(array) => HostValue::new(array, true),
                None => self.tensor(tensor)?,
            };
            initializers.insert(tensor.name.clone(), value);
            self.narrow.extend(Narrow::of(tensor.data_type).map(|narrow| (tensor.name.clone(), narrow)));
        }
        for tensor in &proto.sparse_initializer {
            let (name, value) = sparse(tensor, &mut self.budget)?;
            initializers.insert(name, value);
        }
        let inputs: Vec<ValueInfo> = proto.input.iter().map(value_info).collect();
        let types = proto.input.iter().filter_map(|info| {
            let tensor = info.r#type.as_ref()?.tensor_type.as_ref()?;
            Some((info.name.clone(), Narrow::of(tensor.elem_type)?))
        });
        self.narrow.extend(types);
        let mut names: HashSet<String> = initializers.keys().cloned().collect();
        names.extend(inputs.iter().map(|input| input.name.clone()));
        let placed = self.functions.expanded(&proto.node, &self.opsets, &mut self.budget)?;
        let made: HashSet<String> = placed
            .iter()
            .flat_map(|placed| &placed.node.output)
            .filter(|name| !name.is_empty())
            .cloned()
            .collect();
        let all: HashSet<String> = names.union(&made).cloned().collect();
        let scopes: Vec<&HashSet<String>> = outer.iter().copied().chain([&all]).collect();
        let mut nodes = Vec::new();
        for PlacedNode { node, opsets } in placed {
            let outer = std::mem::replace(&mut self.opsets, opsets);
            nodes.extend(self.node(&node, &scopes, depth)?);
            self.opsets = outer;
        }
        // Constants of nodes are as good as initializers, and a walk has fewer nodes.
        for node in nodes.extract_if(.., |node| constant(node).is_some()) {
            let Some((name, value)) = constant(&node) else { continue };
            if !names.insert(name.clone()) {
                let problem = format!("node `{}` makes it again", node.name);
                return Err(OnnxError::invalid(format!("value `{name}`"), problem));
            }
            initializers.insert(name.clone(), value.clone());
        }
        // Without the nodes that are not supported, the order cannot be checked.
        if self.unsupported.is_empty() {
            nodes = sorted(nodes, &names, outer)?;
        }
        let labels = texts::labels(&nodes)?;
        let outputs: Vec<ValueInfo> = proto.output.iter().map(value_info).collect();
        if let Some(output) = outputs.iter().find(|output| depth > 0 && labels.contains_key(&output.name)) {
            let problem = "results of subgraphs that are texts are not supported";
            return Err(OnnxError::invalid(format!("output `{}`", output.name), problem));
        }
        for output in &outputs {
            if !scopes.iter().any(|scope| scope.contains(&output.name)) {
                return Err(OnnxError::invalid(format!("output `{}`", output.name), "no node makes it"));
            }
        }
        // An initializer with the name of an input is its default value.
        let given: HashSet<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let (constants, before) = (&mut initializers, uses(&nodes, &outputs));
        Folding { nodes: &mut nodes, constants, inputs: &given, uses: before, budget: &mut self.budget }
            .run()?;
        let before = uses(&nodes, &outputs);
        Rejoining { nodes: &mut nodes, constants: &initializers, inputs: &given, uses: &before }.run();
        let outputs_read = outputs.iter().map(|info| info.name.as_str()).collect();
        Replacing { nodes: &mut nodes, constants: &initializers, inputs: &given, outputs: outputs_read }
            .run();
        let uses = uses(&nodes, &outputs);
        initializers.retain(|name, _| uses.contains_key(name) || given.contains(name.as_str()));
        Ok(ModelGraph { inputs, outputs, initializers, nodes, uses, labels })
    }

    fn tensor(&mut self, tensor: &TensorProto) -> Result<Arc<HostValue>> {
        let array = match (tensor.data_location, self.files) {
            (1, Some(files)) => files.array(tensor, &mut self.budget)?,
            (1, None) => {
                let problem = "its elements are in another file, and the model is no file";
                return Err(OnnxError::invalid(format!("tensor `{}`", tensor.name), problem));
            }
            _ => array::from_proto(tensor)?,
        };
        Ok(HostValue::new(array, true))
    }

    /// A node; none if its operator is not supported.
    fn node(
        &mut self,
        proto: &NodeProto,
        scopes: &[&HashSet<String>],
        depth: usize,
    ) -> Result<Option<ModelNode>> {
        let first = proto.output.iter().find(|name| !name.is_empty());
        let name = match proto.name.is_empty() {
            true => first.cloned().unwrap_or_default(),
            false => proto.name.clone(),
        };
        for input in proto.input.iter().filter(|name| !name.is_empty()) {
            if !scopes.iter().any(|scope| scope.contains(input)) {
                let place = format!("node `{name}`, {}", proto.op_type);
                return Err(OnnxError::invalid(place, format!("no node makes its operand `{input}`")));
            }
        }
        let domain = domain(&proto.domain);
        let opset = self.opsets.get(domain).copied();
        let found = opset.map_or_else(
            || Err("the model does not say the version of its domain".to_owned()),
            |opset| operators::find(domain, &proto.op_type, opset).map(|operator| (operator, opset)),
        );
        let mut attributes = BTreeMap::new();
        let mut captures = HashSet::new();
        for attribute in &proto.attribute {
            let narrow = attribute.t.as_ref().and_then(|tensor| Narrow::of(tensor.data_type));
            if let (Some(narrow), Some(output)) = (narrow, proto.output.first()) {
                self.narrow.insert(output.clone(), narrow);
            }
            match self.attribute(attribute, scopes, depth)? {
                Ok(value) => {
                    if let Attribute::Graph(graph) = &value {
                        captures.extend(free_names(graph));
                    }
                    attributes.insert(attribute.name.clone(), value);
                }
                Err(missing) => self.report(proto, &name, opset, missing),
            }
        }
        let (operator, opset) = match found {
            Ok(found) => found,
            Err(missing) => {
                self.report(proto, &name, opset, missing);
                return Ok(None);
            }
        };
        let mut captures: Vec<String> = captures.into_iter().collect();
        captures.sort();
        self.nodes += 1;
        let (inputs, outputs) = (proto.input.clone(), proto.output.clone());
        let narrow = inputs.iter().map(|name| self.narrow.get(name).copied()).collect();
        Ok(Some(ModelNode {
            id: self.nodes,
            name,
            operator,
            opset,
            inputs,
            narrow,
            outputs,
            attributes,
            captures,
        }))
    }

    fn report(&mut self, proto: &NodeProto, name: &str, opset: Option<i64>, missing: String) {
        self.unsupported.push(UnsupportedNode {
            node: name.into(),
            operator: proto.op_type.clone(),
            domain: domain(&proto.domain).into(),
            opset: opset.unwrap_or_default(),
            missing,
        });
    }

    /// The value of an attribute, or the part of it that is not supported.
    fn attribute(
        &mut self,
        proto: &AttributeProto,
        scopes: &[&HashSet<String>],
        depth: usize,
    ) -> Result<Result<Attribute, String>> {
        let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ok(match (proto.r#type, &proto.t, &proto.g) {
            (1, ..) => Attribute::Float(proto.f),
            (2, ..) => Attribute::Int(proto.i),
            (3, ..) => Attribute::Text(text(&proto.s)),
            (4, Some(tensor), _) => match array::dtype(tensor.data_type) {
                Some(_) => Attribute::Tensor(self.tensor(tensor)?),
                None => return Ok(Err(format!("elements of type {}", array::dtype_name(tensor.data_type)))),
            },
            (5, _, Some(graph)) => Attribute::Graph(Arc::new(self.graph(graph, scopes, depth + 1)?)),
            (6, ..) => Attribute::Floats(proto.floats.clone()),
            (7, ..) => Attribute::Ints(proto.ints.clone()),
            (8, ..) => Attribute::Texts(proto.strings.iter().map(text).collect()),
            (11, ..) if proto.sparse_tensor.is_some() => match &proto.sparse_tensor {
                Some(tensor) => Attribute::Tensor(sparse(tensor, &mut self.budget)?.1),
                None => return Ok(Err("a sparse tensor".into())),
            },
            (number, ..) => return Ok(Err(format!("attribute `{}` of type {number}", proto.name))),
        }))
    }
}

/// How often nodes, and nodes of their subgraphs, read each name; outputs count too.
fn uses(nodes: &[ModelNode], outputs: &[ValueInfo]) -> HashMap<String, usize> {
    let mut uses = HashMap::new();
    let reads = nodes.iter().flat_map(ModelNode::reads);
    for name in reads.chain(outputs.iter().map(|output| &output.name)) {
        *uses.entry(name.clone()).or_default() += 1;
    }
    uses
}

/// The name and the value of a node that is a constant array.
fn constant(node: &ModelNode) -> Option<(&String, &Arc<HostValue>)> {
    match (node.operator.name, node.attributes.get("value"), node.outputs.first()) {
        ("Constant", Some(Attribute::Tensor(value)), Some(name)) if !name.is_empty() => Some((name, value)),
        _ => None,
    }
}

/// The names that a graph reads from enclosing graphs.
fn free_names(graph: &ModelGraph) -> HashSet<String> {
    let made: HashSet<&String> = graph.nodes.iter().flat_map(|node| &node.outputs).collect();
    let is_own = |name: &String| {
        made.contains(name)
            || graph.initializers.contains_key(name)
            || graph.inputs.iter().any(|input| input.name == *name)
    };
    graph.uses.keys().filter(|name| !is_own(name)).cloned().collect()
}

/// The nodes in an order in which each value is made before it is read.
fn sorted(
    nodes: Vec<ModelNode>,
    given: &HashSet<String>,
    outer: &[&HashSet<String>],
) -> Result<Vec<ModelNode>> {
    let mut own: HashSet<String> = HashSet::new();
    for node in &nodes {
        for output in node.outputs.iter().filter(|name| !name.is_empty()) {
            if given.contains(output) || !own.insert(output.clone()) {
                let place = format!("value `{output}`");
                return Err(OnnxError::invalid(place, format!("node `{}` makes it again", node.name)));
            }
        }
    }
    let is_outer = |name: &String| !own.contains(name) && outer.iter().any(|scope| scope.contains(name));
    // For each name, the nodes that wait for it; for each node, for how many reads it waits.
    let mut readers: HashMap<String, Vec<usize>> = HashMap::new();
    let mut missing = vec![0usize; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for name in node.reads().filter(|name| !given.contains(*name) && !is_outer(name)) {
            readers.entry(name.clone()).or_default().push(at);
            missing[at] += 1;
        }
    }
    let ready = |(at, &count): (usize, &usize)| (count == 0).then_some(Reverse(at));
    let mut ready: BinaryHeap<Reverse<usize>> = missing.iter().enumerate().filter_map(ready).collect();
    let mut waiting: Vec<Option<ModelNode>> = nodes.into_iter().map(Some).collect();
    let mut sorted = Vec::new();
    // Of several nodes that may come next, the first one of the file does.
    while let Some(Reverse(at)) = ready.pop() {
        let Some(node) = waiting[at].take() else { continue };
        for reader in node.outputs.iter().filter_map(|name| readers.remove(name)).flatten() {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
        sorted.push(node);
    }
    let mut left = waiting.iter().flatten().map(|node| node.name.as_str()).peekable();
    if left.peek().is_some() {
        let problem = format!("they depend on each other: {}", left.take(8).collect::<Vec<_>>().join(", "));
        return Err(OnnxError::invalid("nodes", problem));
    }
    Ok(sorted)
}

/// The bytes of all sparse arrays of a graph as dense ones.
fn sparse_bytes(graph: &GraphProto) -> u64 {
    let own = graph.sparse_initializer.iter().map(dense_bytes);
    own.chain(graph.node.iter().map(sparse_bytes_of_node)).fold(0, u64::saturating_add)
}

fn sparse_bytes_of_node(node: &NodeProto) -> u64 {
    let of = |attribute: &AttributeProto| {
        let own = attribute.sparse_tensor.as_ref().map_or(0, dense_bytes);
        attribute.g.as_deref().map_or(0, sparse_bytes).saturating_add(own)
    };
    node.attribute.iter().map(of).fold(0, u64::saturating_add)
}

fn dense_bytes(tensor: &SparseTensorProto) -> u64 {
    let dtype = tensor.values.as_ref().and_then(|values| array::dtype(values.data_type));
    let shape: Option<Vec<usize>> = tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
    dtype.zip(shape).map_or(0, |(dtype, shape)| bytes_of(dtype, &shape))
}

/// The name and the elements of a sparse array.
fn sparse(tensor: &SparseTensorProto, budget: &mut Budget) -> Result<(String, Arc<HostValue>)> {
    let fail = |problem: &str| OnnxError::invalid("sparse tensor", problem);
    let (Some(values), Some(indices)) = (&tensor.values, &tensor.indices) else {
        return Err(fail("it has no values or no indices"));
    };
    let shape: Option<Vec<usize>> = tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
    let shape = shape.ok_or_else(|| fail("a size is negative"))?;
    let place = format!("sparse tensor `{}`", values.name);
    budget.take(bytes_of(array::typed(values)?, &shape)).map_err(OnnxError::at(place))?;
    let (array, positions) = (array::from_proto(values)?, array::from_proto(indices)?);
    let size = array.dtype().size_bytes();
    let mut result = tnode::HostArray::zeros(array.dtype(), shape.iter().copied())?;
    let dense = result.bytes_mut();
    let positions = HostValue::new(positions, true);
    let rank = if positions.shape().len() == 2 { shape.len().max(1) } else { 1 };
    let flat = positions.ints();
    let mut flats = flat.chunks(rank).map(|index| match rank {
        1 => index.first().and_then(|&at| usize::try_from(at).ok()),
        _ => index.iter().zip(&shape).try_fold(0usize, |flat, (&at, &size)| {
            let at = usize::try_from(at).ok().filter(|&at| at < size)?;
            flat.checked_mul(size)?.checked_add(at)
        }),
    });
    for element in array.bytes().chunks(size) {
        let target =
            flats.next().flatten().and_then(|at| dense.get_mut(at.checked_mul(size)?..)?.get_mut(..size));
        target.ok_or_else(|| fail("an index is outside"))?.copy_from_slice(element);
    }
    Ok((values.name.clone(), HostValue::new(result, true)))
}

fn value_info(proto: &ValueInfoProto) -> ValueInfo {
    let tensor = proto.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
    let dims = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| {
        let dim = |dim: &crate::proto::DimensionProto| match (dim.dim_value, dim.dim_param.as_deref()) {
            (Some(size), _) if size > 0 => usize::try_from(size).map_or(Dim::Unknown, Dim::Known),
            (None, Some(name)) if !matches!(name, "" | "?") => Dim::Named(name.into()),
            _ => Dim::Unknown,
        };
        shape.dim.iter().map(dim).collect()
    });
    ValueInfo {
        name: proto.name.clone(),
        dtype: tensor.and_then(|tensor| array::dtype(tensor.elem_type)),
        dims,
    }
}
