//! Parameters of models, with the state of their optimizer, and the text that updates them.

use crate::case::{Case, Init, Name, Node, Operation};

/// An optimizer of the prelude.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Optimizer {
    /// `momentum`, with the arrays `_v`.
    Momentum,
    /// `adamw` in its hundredth step, with the arrays `_m` and `_v`.
    AdamW,
}

/// The binding of `@step` with which [`Optimizer::AdamW`] runs.
pub(super) const EARLIER_STEPS: i64 = 99;

/// The number of steps, this one included.
pub(super) const STEPS: &str = "taken := f32(@step + 1) where @step < 1000000\n";

/// A parameter, or one for each layer: the family of this name.
struct Parameter {
    name: String,
    dims: Vec<usize>,
    init: Init,
    is_layered: bool,
}

/// The parameters of a model.
#[derive(Default)]
pub(super) struct Parameters {
    layers: usize,
    all: Vec<Parameter>,
}

impl Parameters {
    /// No parameters, of a model with this number of layers.
    pub(super) fn of_layers(layers: usize) -> Parameters {
        Parameters { layers, all: vec![] }
    }

    /// Adds a parameter.
    pub(super) fn add(&mut self, name: &str, dims: &[usize], init: Init) {
        self.push(name, dims, init, false);
    }

    /// Adds a parameter of each layer.
    pub(super) fn add_layered(&mut self, name: &str, dims: &[usize], init: Init) {
        self.push(name, dims, init, true);
    }

    fn push(&mut self, name: &str, dims: &[usize], init: Init, is_layered: bool) {
        self.all.push(Parameter { name: name.to_owned(), dims: dims.to_vec(), init, is_layered });
    }

    /// The number of elements of all parameters, those of every layer included.
    pub(super) fn count(&self) -> usize {
        self.nodes().iter().map(|node| node.dims.iter().product::<usize>()).sum()
    }

    /// The nodes of the parameters.
    pub(super) fn nodes(&self) -> Vec<Node> {
        self.suffixed("", |parameter| parameter.init)
    }

    /// The nodes of arrays with the dimensions of the parameters, and names with this suffix.
    fn suffixed(&self, suffix: &str, init: impl Fn(&Parameter) -> Init) -> Vec<Node> {
        let nodes = self.all.iter().flat_map(|parameter| {
            let name = format!("{}{suffix}", parameter.name);
            let names = match parameter.is_layered {
                true => (0..self.layers).map(|layer| format!("{name}.{layer}")).collect(),
                false => vec![name],
            };
            names
                .into_iter()
                .map(|name| Node::with(name, &parameter.dims, init(parameter)))
                .collect::<Vec<_>>()
        });
        nodes.collect()
    }

    /// The nodes that the optimizer updates: the parameters, then its own arrays.
    fn updated(&self, optimizer: Optimizer) -> Vec<Node> {
        [self.nodes(), self.state(optimizer)].concat()
    }

    /// The arrays in which the optimizer keeps its state.
    pub(super) fn state(&self, optimizer: Optimizer) -> Vec<Node> {
        let mut nodes = Vec::new();
        if optimizer == Optimizer::AdamW {
            nodes.extend(self.suffixed("_m", |_| Init::Zeros));
            // Updates of mean 0 and variance 1 would amplify differences between tiny gradients.
            nodes.extend(self.suffixed("_v", |_| Init::Positive));
        } else {
            nodes.extend(self.suffixed("_v", |_| Init::Zeros));
        }
        nodes
    }

    /// The names of the parameters, of families without their members.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|parameter| parameter.name.as_str())
    }

    /// The statement that computes the gradients of `loss`.
    pub(super) fn gradients(&self) -> String {
        format!("grad loss by {}\n", self.names().collect::<Vec<_>>().join(", "))
    }

    /// The names of the gradients, with those of all members of families.
    pub(super) fn names_of_gradients(&self) -> Vec<String> {
        self.suffixed(".grad", |_| Init::Zeros).into_iter().map(|node| node.name.into_owned()).collect()
    }

    /// The statements that keep the gradients.
    pub(super) fn keep_gradients(&self) -> String {
        let keep = |parameter: &Parameter| match parameter.is_layered {
            true => format!("repeat l in 0..{} {{ keep {}.grad[l] }}\n", self.layers, parameter.name),
            false => format!("keep {}.grad\n", parameter.name),
        };
        self.all.iter().map(keep).collect()
    }

    /// The statements that update the parameters.
    pub(super) fn steps(&self, optimizer: Optimizer) -> String {
        let mut text = String::new();
        for Parameter { name, dims, is_layered, .. } in &self.all {
            let letters = ["[]", "[i]", "[i,j]", "[i,j,k]", "[i,j,k,n]"][dims.len()];
            let at =
                |suffix: &str| format!("{name}{suffix}{}{letters}", if *is_layered { "[l]" } else { "" });
            let [w, g, m, v] = ["", ".grad", "_m", "_v"].map(at);
            let call = match optimizer {
                Optimizer::Momentum => format!("momentum({w}, {g}, {v}, 0.01)"),
                Optimizer::AdamW => format!("adamw({w}, {g}, {m}, {v}, taken)"),
            };
            text += &if *is_layered {
                format!("repeat l in 0..{} {{ {call} }}\n", self.layers)
            } else {
                call + "\n"
            };
        }
        text
    }

    /// The statements that compute the gradients of `loss` and update the parameters.
    fn update(&self, optimizer: Optimizer) -> String {
        let steps = if optimizer == Optimizer::AdamW { STEPS } else { "" };
        self.gradients() + steps + &self.steps(optimizer)
    }

    /// A training step: the statements of `forward` compute `loss` from the nodes of `data` and the
    /// parameters, and also update the nodes of `state`.
    pub(super) fn train(
        &self,
        name: &'static str,
        operation: Operation,
        forward: &str,
        optimizer: Optimizer,
        [data, state]: [Vec<Node>; 2],
    ) -> Case {
        let text = format!("{forward}\n{}", self.update(optimizer));
        let bindings = if optimizer == Optimizer::AdamW { vec![EARLIER_STEPS] } else { vec![] };
        let updated: Vec<Node> = self.updated(optimizer).into_iter().chain(state).collect();
        let names: Vec<Name> = updated.iter().map(|node| node.name.clone()).collect();
        let nodes = data.into_iter().chain(updated).chain([Node::written("loss", &[])]).collect();
        let case = Case::new(name, operation, &text, nodes).updating(&names);
        Case { bindings, ..case }
    }
}
