//! A program with its nodes, data and bindings. Failures print its text form, and regressions are files in
//! that form.
//!
//! ```text
//! node n0 f32[4, 5] input unit      ; role (input, output, inner) and the distribution of an input
//! node n1 f32[4] output margin 1    ; the width of the margins, if any
//! node n2 i32[2] input data 7 ffffffff margin 1 neutral 2    ; bits of elements, and the value of margins
//! bind step 2
//! n1[i] :+= n0[i, j] where i < 4, j < 5
//! ```

use std::fmt;

use assignment_text::{self as text, TextError};
use assignments::Assignments;
use random_programs::{NodeMode, ProgramNode, RandomProgram};
use tnode::{DType, MemoryMode, Padding, Scalar, Sharing, TensorNode};

/// A program and its inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Case {
    pub(crate) nodes: Vec<Node>,
    pub(crate) bindings: Vec<(String, i64)>,
    pub(crate) statements: Vec<String>,
}

/// A node of the program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// The sizes without margins.
    pub(crate) dims: Vec<usize>,
    /// The width of the margins of every axis, on both sides.
    pub(crate) margin: usize,
    /// The declared value of the margins.
    pub(crate) neutral: Option<f64>,
    pub(crate) role: NodeRole,
}

/// Whether a node has initial values, and whether it is compared after the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// The node has memory on the device. It is filled before the run and compared after it.
    Input(NodeFill),
    /// As `Input`, but with the bits of each element instead of a distribution.
    Data(Vec<u64>),
    /// The node has memory on the device. It is zero before the run and compared after it.
    Output,
    /// The node has no memory mode, and the optimiser decides.
    Inner,
}

/// The distribution of an input's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeFill {
    /// Small integers.
    Small,
    /// Fractions between -1 and 1, or the same values as `Small` if the node has an integer type.
    Unit,
    /// Any bits.
    Raw,
}

impl NodeFill {
    pub(crate) const ALL: [(&'static str, NodeFill); 3] =
        [("small", NodeFill::Small), ("unit", NodeFill::Unit), ("raw", NodeFill::Raw)];
}

impl Case {
    /// The first routine of a program, with the bindings of its first round.
    pub(crate) fn of_program(program: &RandomProgram) -> Case {
        let bindings = program.symbols.iter().zip(program.rounds.iter().flatten());
        Case {
            nodes: program.nodes.iter().map(Node::of_program).collect(),
            bindings: bindings.map(|(symbol, value)| (symbol.name.to_owned(), *value)).collect(),
            statements: program.text(0).lines().map(str::to_owned).collect(),
        }
    }

    /// The nodes as handles, in order.
    pub(crate) fn handles(&self) -> Vec<TensorNode> {
        self.nodes.iter().map(Node::handle).collect()
    }

    /// The statements over those handles.
    pub(crate) fn parse(&self, handles: &[TensorNode]) -> Result<Assignments, TextError> {
        text::parse(&self.statements.join("\n"), handles)
    }

    /// The initial bytes of each node.
    pub(crate) fn memory(&self) -> Vec<Vec<u8>> {
        self.nodes.iter().enumerate().map(|(at, node)| node.bytes(at as u64)).collect()
    }

    /// Parses a case.
    pub(crate) fn from_text(text: &str) -> Option<Case> {
        let mut case = Case::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(node) = line.strip_prefix("node ") {
                case.nodes.push(node_from(node)?);
            } else if let Some(binding) = line.strip_prefix("bind ") {
                let (name, value) = binding.split_once(' ')?;
                case.bindings.push((name.to_owned(), value.parse().ok()?));
            } else {
                case.statements.push(line.to_owned());
            }
        }
        Some(case)
    }
}

fn node_from(text: &str) -> Option<Node> {
    let (head, tail) = text.split_once(']')?;
    let (name, shape) = head.split_once(' ')?;
    let (dtype, dims) = shape.split_once('[')?;
    let dims = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims = dims.map(|dim| dim.parse().ok()).collect::<Option<_>>()?;
    let (role, margin) = tail.split_once(" margin ").unwrap_or((tail, "0"));
    let (margin, neutral) = match margin.split_once(" neutral ") {
        Some((margin, neutral)) => (margin, Some(neutral.trim().parse().ok()?)),
        None => (margin, None),
    };
    let margin = margin.trim().parse().ok()?;
    let role = match role.trim() {
        "output" => NodeRole::Output,
        "inner" => NodeRole::Inner,
        input if input.starts_with("input data") => {
            let words = input.trim_start_matches("input data").split_whitespace();
            NodeRole::Data(words.map(|word| u64::from_str_radix(word, 16).ok()).collect::<Option<_>>()?)
        }
        input => {
            let fill = input.strip_prefix("input ")?;
            NodeRole::Input(NodeFill::ALL.iter().find(|(name, _)| *name == fill)?.1)
        }
    };
    Some(Node { name: name.to_owned(), dtype: dtype.parse().ok()?, dims, margin, neutral, role })
}

impl Node {
    fn of_program(node: &ProgramNode) -> Node {
        let ProgramNode { name, dtype, dims, margin, neutral, mode, data } = node.clone();
        let role = match data {
            Some(data) => NodeRole::Data(data),
            None if mode == NodeMode::Materialized => NodeRole::Output,
            None => NodeRole::Inner,
        };
        Node { name, dtype, dims, margin, neutral, role }
    }

    fn handle(&self) -> TensorNode {
        let builder =
            TensorNode::builder(self.name.as_str()).dims(self.dims.iter().copied()).dtype(self.dtype);
        let builder = match self.role {
            NodeRole::Input(_) | NodeRole::Data(_) | NodeRole::Output => {
                builder.mode(MemoryMode::OnDevice(Sharing::Unset))
            }
            NodeRole::Inner => builder,
        };
        let builder = match self.margin {
            0 => builder,
            margin => {
                let margins = self.dims.iter().map(|_| (margin, margin));
                builder.padding(Padding::new(margins, self.neutral))
            }
        };
        builder.build().expect("small nodes without conflicting decisions")
    }

    fn bytes(&self, seed: u64) -> Vec<u8> {
        let bytes =
            self.dtype.size_bytes() * self.dims.iter().map(|dim| dim + 2 * self.margin).product::<usize>();
        match &self.role {
            NodeRole::Input(fill) => filled(*fill, self.dtype, bytes, seed),
            NodeRole::Data(data) => {
                let mut bytes = filled(NodeFill::Unit, self.dtype, bytes, seed);
                for (offset, bits) in self.offsets().into_iter().zip(data) {
                    let element = &mut bytes[offset * self.dtype.size_bytes()..][..self.dtype.size_bytes()];
                    element.copy_from_slice(&bits.to_le_bytes()[..element.len()]);
                }
                bytes
            }
            NodeRole::Output | NodeRole::Inner => vec![0; bytes],
        }
    }

    /// The offset of each element within the array with margins, row-major.
    fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0];
        for &size in &self.dims {
            let whole = size + 2 * self.margin;
            let axis = |&start: &usize| (0..size).map(move |at| start * whole + self.margin + at);
            offsets = offsets.iter().flat_map(axis).collect();
        }
        offsets
    }
}

/// Fills `bytes` bytes with elements.
pub(crate) fn filled(fill: NodeFill, dtype: DType, bytes: usize, seed: u64) -> Vec<u8> {
    let mut filled = vec![0; bytes];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed;
    for element in filled.chunks_mut(dtype.size_bytes()) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value(fill, dtype, state >> 20).write(element).expect("a chunk holds an element");
    }
    filled
}

fn value(fill: NodeFill, dtype: DType, bits: u64) -> Scalar {
    match fill {
        _ if dtype == DType::Bool => Scalar::from_i64(dtype, (bits & 1) as i64),
        NodeFill::Raw => Scalar::new(dtype, u128::from(bits) | (u128::from(bits) << 44)),
        NodeFill::Unit if dtype.is_float() => {
            Scalar::from_f64(dtype, (bits % 65_536) as f64 / 32_768.0 - 1.0)
        }
        _ if dtype.is_float() => Scalar::from_f64(dtype, (bits % 9) as f64 - 4.0),
        _ => Scalar::from_i64(dtype, (bits % 7) as i64),
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Node { name, dtype, dims, margin, neutral, role } in &self.nodes {
            let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
            write!(f, "node {name} {dtype}[{}] ", dims.join(", "))?;
            match role {
                NodeRole::Output => write!(f, "output")?,
                NodeRole::Inner => write!(f, "inner")?,
                NodeRole::Data(data) => {
                    write!(f, "input data")?;
                    data.iter().try_for_each(|bits| write!(f, " {bits:x}"))?;
                }
                NodeRole::Input(fill) => {
                    let name =
                        NodeFill::ALL.iter().find(|(_, known)| known == fill).map_or("", |(name, _)| name);
                    write!(f, "input {name}")?;
                }
            }
            if *margin > 0 {
                write!(f, " margin {margin}")?;
            }
            match neutral {
                Some(neutral) if *margin > 0 => writeln!(f, " neutral {neutral}")?,
                _ => writeln!(f)?,
            }
        }
        for (name, value) in &self.bindings {
            writeln!(f, "bind {name} {value}")?;
        }
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement}"))
    }
}
