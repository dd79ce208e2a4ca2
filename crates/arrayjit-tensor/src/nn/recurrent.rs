//! Recurrent networks, as scans over time.

use std::marker::PhantomData;

use crate::{
    error::{Call, Result, misfit},
    nn::{Dropout, Module, ModuleTypes, check_axis, check_rank, linear::uniform},
    operand::Argument,
    options::options,
    parameter::{Parameter, Params},
    tensor::Tensor,
};

/// The parameters of one direction of a layer of a recurrent network. The rows of all gates follow each
/// other. The names of a backward direction end with `_reverse`.
pub struct RecurrentLayer {
    /// `weight_ih_l0` and so on, of shape `[gates · hidden, inputs]`.
    pub weight_ih: Parameter,
    /// `weight_hh_l0` and so on, of shape `[gates · hidden, hidden]`.
    pub weight_hh: Parameter,
    /// `bias_ih_l0` and so on, of shape `[gates · hidden]`.
    pub bias_ih: Option<Parameter>,
    /// `bias_hh_l0` and so on, of shape `[gates · hidden]`.
    pub bias_hh: Option<Parameter>,
}

/// A long short-term memory network, as torch's `LSTM`. The gates are input, forget, cell
/// and output, in this order.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params, nn::Lstm};
///
/// let lstm = Lstm::builder(&Params::new(42), 8, 16).layers(2).batch_first(true).build()?;
/// let x = Graph::new().input("x", [4, 10, 8], DType::F32)?; // 4 sequences of 10 steps
/// let (outputs, state) = lstm.forward_from(&x, None)?;
/// assert_eq!(outputs.shape(), [4, 10, 16]);
/// assert_eq!(state.cell.shape(), [2, 4, 16]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
///
/// Source: Hochreiter and Schmidhuber, Long short-term memory, 1997; Gers, Schmidhuber and Cummins, 2000.
pub type Lstm = Recurrent<LstmCell>;

/// A network of gated recurrent units, as torch's `GRU`. The gates are reset, update and new, in this order.
///
/// Source: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.
pub type Gru = Recurrent<GruCell>;

/// An Elman network with tanh, as torch's `RNN`.
///
/// Source: Elman, Finding structure in time, 1990.
pub type Rnn = Recurrent<RnnCell>;

/// A recurrent network: an [`Lstm`], a [`Gru`] or an [`Rnn`]. The number of steps in time is that of the
/// input; the time to compile does not depend on it. Names and shapes of parameters are torch's.
pub struct Recurrent<C> {
    /// The parameters of each layer; of a bidirectional network, of each layer forwards and then backwards.
    pub layers: Vec<RecurrentLayer>,
    /// Whether inputs and outputs are `[batch, time, …]`.
    pub batch_first: bool,
    /// Whether the layers run in both directions.
    pub bidirectional: bool,
    /// Dropout of the outputs of each layer but the last, in graphs for training.
    pub dropout: Dropout,
    cell: PhantomData<C>,
}

/// The cell of a recurrent network: [`LstmCell`], [`GruCell`] or [`RnnCell`].
pub trait RecurrentCell {
    /// The state between two steps.
    type State;

    #[doc(hidden)]
    const KIND: Cell;
    #[doc(hidden)]
    const MODULE: &'static str;
    #[doc(hidden)]
    const OPERATION: &'static str;

    /// The tensors of a state, as [`Cell::states`] names them.
    #[doc(hidden)]
    fn tensors(state: &Self::State) -> Vec<&Tensor>;

    /// The state of these tensors.
    #[doc(hidden)]
    fn state(tensors: Vec<Tensor>) -> Option<Self::State>;
}

/// The cell of an [`Lstm`], with an [`LstmState`].
pub struct LstmCell;

/// The cell of a [`Gru`]. Its state is the last outputs of all layers, of shape `[layers, batch, hidden]`, or
/// `[2 · layers, batch, hidden]` in both directions.
pub struct GruCell;

/// The cell of an [`Rnn`], with the state of a [`GruCell`].
pub struct RnnCell;

/// The state of an [`Lstm`] between two steps.
#[derive(Clone, Debug)]
pub struct LstmState {
    /// The outputs of all layers, of shape `[layers, batch, hidden]`, or `[2 · layers, batch, hidden]` in
    /// both directions.
    pub hidden: Tensor,
    /// The cells of all layers, of the same shape.
    pub cell: Tensor,
}

/// The options of a recurrent network whose parameters are not made yet.
pub struct RecurrentBuilder<C> {
    params: Params,
    inputs: usize,
    hidden: usize,
    layers: usize,
    bias: bool,
    batch_first: bool,
    dropout: f64,
    bidirectional: bool,
    cell: PhantomData<C>,
}

impl<C: RecurrentCell> RecurrentBuilder<C> {
    options! {
        /// The number of layers; 1 by default. The inputs of a layer are the outputs of the layer before.
        layers: usize => layers;
        /// Whether the gates have biases; true by default.
        bias: bool => bias;
        /// Whether inputs and outputs are `[batch, time, …]` instead of `[time, batch, …]`; false by default.
        batch_first: bool => batch_first;
        /// The rate of dropout of the outputs of each layer but the last, at least 0 and less than 1; 0 by
        /// default.
        dropout: f64 => dropout;
        /// Whether each layer also runs from the last step to the first, with parameters of its own; false by
        /// default. The outputs of the two directions follow each other on the last axis.
        bidirectional: bool => bidirectional;
    }

    /// Makes the parameters.
    ///
    /// # Errors
    /// No layers, a rate of dropout outside 0..1, a name that exists already, or a size that overflows.
    #[track_caller]
    pub fn build(self) -> Result<Recurrent<C>> {
        let call = Call::new(C::MODULE);
        let dropout = Dropout::of_module(call, &self.params, self.dropout)?;
        let (layers, batch_first, bidirectional) =
            (self.new_layers(call)?, self.batch_first, self.bidirectional);
        Ok(Recurrent { layers, batch_first, bidirectional, dropout, cell: PhantomData })
    }

    #[track_caller]
    fn new_layers(&self, call: Call) -> Result<Vec<RecurrentLayer>> {
        let (params, hidden) = (&self.params, self.hidden);
        if self.layers == 0 {
            return Err(call.error(params.path(), misfit("layers", 0, "1 or more")));
        }
        // A size that overflows becomes one that no array has.
        let rows = C::KIND.gates().saturating_mul(hidden);
        let mut layers = Vec::new();
        let directions: &[&str] = if self.bidirectional { &["", "_reverse"] } else { &[""] };
        for (at, direction) in (0..self.layers).flat_map(|at| directions.iter().map(move |name| (at, name))) {
            let size = if at == 0 { self.inputs } else { directions.len().saturating_mul(hidden) };
            let name = |what: &str| format!("{what}_l{at}{direction}");
            let weight_ih = params.parameter(&name("weight_ih"), [rows, size], uniform(hidden))?;
            let weight_hh = params.parameter(&name("weight_hh"), [rows, hidden], uniform(hidden))?;
            let (mut bias_ih, mut bias_hh) = (None, None);
            if self.bias {
                bias_ih = Some(params.parameter(&name("bias_ih"), [rows], uniform(hidden))?);
                bias_hh = Some(params.parameter(&name("bias_hh"), [rows], uniform(hidden))?);
            }
            layers.push(RecurrentLayer { weight_ih, weight_hh, bias_ih, bias_hh });
        }
        Ok(layers)
    }
}

impl<C: RecurrentCell> Recurrent<C> {
    /// A network of one layer with `hidden` outputs per step. All parameters are uniform in ±1/√`hidden`, as
    /// torch's.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, inputs: usize, hidden: usize) -> Result<Self> {
        Self::builder(params, inputs, hidden).build()
    }

    /// [`new`](Recurrent::new) with options.
    pub fn builder(params: &Params, inputs: usize, hidden: usize) -> RecurrentBuilder<C> {
        RecurrentBuilder {
            params: params.clone(),
            inputs,
            hidden,
            layers: 1,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            bidirectional: false,
            cell: PhantomData,
        }
    }

    /// The outputs of the last layer at all steps, and the state behind the last step. Starts from `state`,
    /// or from zeros.
    ///
    /// # Errors
    /// A tensor that is not `[time, batch, inputs]`, or a state of another shape.
    #[track_caller]
    pub fn forward_from(&self, x: &Tensor, state: Option<&C::State>) -> Result<(Tensor, C::State)> {
        let call = Call::new(C::OPERATION);
        let (y, states) = self.run(call, x, &state.map_or_else(Vec::new, C::tensors))?;
        let state = C::state(states);
        let state = state.ok_or_else(|| x.graph().fail(call, x.misshapen("[time, batch, inputs]")))?;
        Ok((y, state))
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// The outputs of the last layer, and the states of all layers behind the last step.
    #[track_caller]
    fn run(&self, call: Call, x: &Tensor, states: &[&Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
        let graph = x.graph();
        let _scope = self.layers.first().map(|layer| graph.enter(layer.weight_ih.module()));
        let order = if self.batch_first { "[batch, time, inputs]" } else { "[time, batch, inputs]" };
        if x.rank() != 3 || x.shape()[..2].contains(&0) {
            let expected = format!("{order}, with at least one step and one sequence");
            return Err(graph.fail(call, x.misshapen(expected)));
        }
        let (mut y, mut last) = (x.clone(), vec![Vec::new(); C::KIND.states().len()]);
        for first in (0..self.layers.len()).step_by(self.directions()) {
            if first > 0 {
                y = self.dropout.forward(&y)?;
            }
            let mut outputs = Vec::new();
            for at in first..self.layers.len().min(first + self.directions()) {
                self.check(call, &y, at, states)?;
                let mut results = self.layer(call, &y, at, states)?.into_iter();
                outputs.extend(results.next());
                last.iter_mut().zip(results).for_each(|(all, state)| all.push(state));
            }
            y = match outputs.as_slice() {
                [forward] => forward.clone(),
                both => Tensor::concat(&both.iter().collect::<Vec<_>>(), 2)?,
            };
        }
        let mut stacked = Vec::new();
        for layers in &last {
            stacked.push(Tensor::stack(&layers.iter().collect::<Vec<_>>(), 0)?);
        }
        Ok((y, stacked))
    }

    /// Checks that the input and the states fit the layer at this position.
    fn check(&self, call: Call, x: &Tensor, at: usize, states: &[&Tensor]) -> Result<()> {
        let layer = &self.layers[at];
        [&layer.weight_ih, &layer.weight_hh]
            .into_iter()
            .try_for_each(|weight| check_rank(call, x, weight, 2))?;
        check_axis(call, x, -1, layer.weight_ih.shape()[1], layer.weight_ih.name())?;
        let batch = x.shape()[if self.batch_first { 0 } else { 1 }];
        let expected = [self.layers.len(), batch, layer.weight_hh.shape()[1]];
        match states.iter().find(|state| state.shape() != expected) {
            None => Ok(()),
            Some(state) => {
                let expected = format!("{expected:?}, layers, batch and size of {}", layer.weight_hh.name());
                Err(x.graph().fail(call, state.misshapen(expected)))
            }
        }
    }

    /// The outputs of one direction of a layer, and its state behind the last step.
    fn layer(&self, call: Call, x: &Tensor, at: usize, states: &[&Tensor]) -> Result<Vec<Tensor>> {
        let layer = &self.layers[at];
        let hidden = layer.weight_hh.shape()[1];
        let types = ModuleTypes::new(x, &layer.weight_ih);
        let order = |node: &str, last: &str| match self.batch_first {
            true => format!("{node}[b,t,{last}]"),
            false => format!("{node}[t,b,{last}]"),
        };
        let (batch, steps) =
            if self.batch_first { (x.shape()[0], x.shape()[1]) } else { (x.shape()[1], x.shape()[0]) };
        let mut inputs = vec![
            ("x", Argument::Tensor(x)),
            ("wi", Argument::Parameter(&layer.weight_ih)),
            ("wh", Argument::Parameter(&layer.weight_hh)),
        ];
        let biases = [("bi", &layer.bias_ih), ("bh", &layer.bias_hh)];
        let biases = biases.into_iter().filter_map(|(name, bias)| Some((name, bias.as_ref()?)));
        inputs.extend(biases.map(|(name, bias)| (name, Argument::Parameter(bias))));
        let mut text = format!(
            "i[t,b,k] :+= {} * {}\n",
            types.widen(&order("x", "j"), x.dtype()),
            types.widen("wi[k,j]", layer.weight_ih.dtype())
        );
        for (place, state) in C::KIND.states().iter().enumerate() {
            let (initial, wide) = (["h0", "c0"][place], types.wide);
            let value = match states.get(place) {
                Some(tensor) => {
                    inputs.push((initial, Argument::Tensor(tensor)));
                    types.widen(&format!("{initial}[{at},b,u]"), tensor.dtype())
                }
                None => format!("{wide}(0)"),
            };
            text +=
                &format!("node {state} {wide}[{},{batch},{hidden}]\n{state}[0,b,u] := {value}\n", steps + 1);
        }
        let part = |node: &str, bias: (&str, &Option<Parameter>), gate: usize| {
            let row = format!("u + {}", gate * hidden);
            let sum = node.replace("{}", &row);
            match bias.1 {
                Some(parameter) => {
                    format!("({sum} + {})", types.widen(&format!("{}[{row}]", bias.0), parameter.dtype()))
                }
                None => sum,
            }
        };
        // The position in time of step n, and the place of the state behind time t.
        let (time, place) = match at % self.directions() {
            0 => ("n".to_owned(), "t + 1".to_owned()),
            _ => (format!("{} - n", steps - 1), format!("{steps} - t")),
        };
        let step = C::KIND.step(
            hidden,
            |gate| part(&format!("i[{time},b,{{}}]"), ("bi", &layer.bias_ih), gate),
            |gate| part("g[b,{}]", ("bh", &layer.bias_hh), gate),
        );
        let factor = types.widen("wh[k,j]", layer.weight_hh.dtype());
        text += &format!("scan n in 0..{steps} {{\ng[b,k] :+= h[n,b,j] * {factor}\n{step}}}\n");
        let graph = x.graph();
        let mut names = vec![graph.new_name(call.op)];
        let outputs = types.narrowed(&format!("h[{place},b,u]"));
        text += &format!("{} := {outputs} where t < {steps}\n", order(&names[0], "u"));
        for state in C::KIND.states() {
            let name = graph.new_name("state");
            text += &format!("{name}[b,u] := {}\n", types.narrowed(&format!("{state}[{steps},b,u]")));
            names.push(name);
        }
        graph.emit(call, &text, &inputs, &names.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

impl<C: RecurrentCell> Module for Recurrent<C> {
    /// `[time, batch, inputs]` to the outputs of the last layer, `[time, batch, hidden]`, or `[time, batch,
    /// 2 · hidden]` in both directions; from zeros.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.forward_from(x, None)?.0)
    }
}

impl RecurrentCell for LstmCell {
    type State = LstmState;
    const KIND: Cell = Cell::Lstm;
    const MODULE: &'static str = "Lstm";
    const OPERATION: &'static str = "lstm";

    fn tensors(state: &LstmState) -> Vec<&Tensor> {
        vec![&state.hidden, &state.cell]
    }

    fn state(tensors: Vec<Tensor>) -> Option<LstmState> {
        let [hidden, cell] = <[Tensor; 2]>::try_from(tensors).ok()?;
        Some(LstmState { hidden, cell })
    }
}

/// Implements cells whose state is the outputs.
macro_rules! output_cells {
    ($($cell:ident: $kind:ident, $module:literal, $operation:literal;)*) => {$(
        impl RecurrentCell for $cell {
            type State = Tensor;
            const KIND: Cell = Cell::$kind;
            const MODULE: &'static str = $module;
            const OPERATION: &'static str = $operation;

            fn tensors(state: &Tensor) -> Vec<&Tensor> {
                vec![state]
            }

            fn state(mut tensors: Vec<Tensor>) -> Option<Tensor> {
                tensors.pop()
            }
        }
    )*};
}

output_cells! {
    GruCell: Gru, "Gru", "gru";
    RnnCell: Rnn, "Rnn", "rnn";
}

/// The kind of a recurrent network.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub enum Cell {
    Lstm,
    Gru,
    Rnn,
}

impl Cell {
    fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Rnn => 1,
        }
    }

    /// The nodes of a state: the outputs, and the cells.
    fn states(self) -> &'static [&'static str] {
        match self {
            Cell::Lstm => &["h", "c"],
            Cell::Gru | Cell::Rnn => &["h"],
        }
    }

    /// The statements that compute the state behind step `n`. `from_input(g)` and `from_hidden(g)` are the
    /// parts of the sum of gate g that come from the input and from the state before, at unit u of `hidden`.
    fn step(
        self,
        hidden: usize,
        from_input: impl Fn(usize) -> String,
        from_hidden: impl Fn(usize) -> String,
    ) -> String {
        let sum = |gate: usize| format!("{} + {}", from_input(gate), from_hidden(gate));
        match self {
            Cell::Lstm => format!(
                "gi[b,u] := sigmoid({}) where u < {hidden}\n\
                 gf[b,u] := sigmoid({}) where u < {hidden}\n\
                 gc[b,u] := tanh({}) where u < {hidden}\n\
                 go[b,u] := sigmoid({}) where u < {hidden}\n\
                 c[n + 1,b,u] := gf[b,u] * c[n,b,u] + gi[b,u] * gc[b,u]\n\
                 h[n + 1,b,u] := go[b,u] * tanh(c[n + 1,b,u])\n",
                sum(0),
                sum(1),
                sum(2),
                sum(3),
            ),
            Cell::Gru => format!(
                "o[b,u] := sigmoid({}) * ({}) where u < {hidden}\n\
                 z[b,u] := sigmoid({}) where u < {hidden}\n\
                 h[n + 1,b,u] := (1 - z[b,u]) * tanh({} + o[b,u]) + z[b,u] * h[n,b,u]\n",
                sum(0),
                from_hidden(2),
                sum(1),
                from_input(2),
            ),
            Cell::Rnn => format!("h[n + 1,b,u] := tanh({}) where u < {hidden}\n", sum(0)),
        }
    }
}
