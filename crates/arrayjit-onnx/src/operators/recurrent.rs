//! Recurrent layers: scans over time.

use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    layout::concatenated,
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    host::float,
    shape::dims,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("GRU", 7, |cx| layer(cx, Cell::Gru)),
    op("LSTM", 7, |cx| layer(cx, Cell::Lstm)),
    op("RNN", 7, |cx| layer(cx, Cell::Rnn)),
];

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Rnn,
    Gru,
    Lstm,
}

impl Cell {
    /// The number of products of the input with a matrix.
    fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    /// The names of the states: the outputs, and the cells.
    fn states(self) -> &'static [&'static str] {
        if self == Cell::Lstm { &["h", "c"] } else { &["h"] }
    }

    fn activations(self) -> &'static [&'static str] {
        match self {
            Cell::Rnn => &["Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// The sizes and options of a layer.
struct Layer {
    cell: Cell,
    dtype: DType,
    steps: usize,
    batch: usize,
    hidden: usize,
    directions: usize,
    /// Whether the batch is the first axis.
    is_batch_first: bool,
    clip: Option<String>,
    /// The activations of each direction, as expressions of `{}`.
    activations: Vec<String>,
    input_forget: bool,
    linear_before_reset: bool,
}

impl Layer {
    fn of(cx: &NodeContext<'_>, cell: Cell) -> Result<Layer> {
        let (x, w, r) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
        let is_batch_first = cx.int_or("layout", 0)? != 0;
        let (&[a, b, width], &[directions, rows, columns], &[_, recurrent_rows, hidden]) =
            (x.shape(), w.shape(), r.shape())
        else {
            return Err(OnnxError::operand(0, "expected three axes"));
        };
        let (steps, batch) = if is_batch_first { (b, a) } else { (a, b) };
        let fits = columns == width
            && rows == cell.gates() * hidden
            && recurrent_rows == rows
            && (1..=2).contains(&directions)
            && hidden > 0;
        if !fits {
            let problem = format!("{:?} and {:?} do not fit {:?}", w.shape(), r.shape(), x.shape());
            return Err(OnnxError::operand(1, problem));
        }
        let clip = match cx.attribute("clip") {
            Some(_) => Some(float(DType::F32, f64::from(cx.float_or("clip", 0.0)?))),
            None => None,
        };
        Ok(Layer {
            cell,
            dtype: x.dtype(),
            steps,
            batch,
            hidden,
            directions,
            is_batch_first,
            clip,
            activations: activations(cx, cell, directions)?,
            input_forget: cx.int_or("input_forget", 0)? != 0,
            linear_before_reset: cx.int_or("linear_before_reset", 0)? != 0,
        })
    }

    /// The activation `at` of a direction, applied to an expression.
    fn activation(&self, direction: usize, at: usize, value: &str) -> String {
        let count = self.cell.activations().len();
        let clipped = match &self.clip {
            Some(clip) => format!("min(max({value}, -{clip}), {clip})"),
            None => value.to_owned(),
        };
        let text = self.activations.get(direction * count + at).map_or("{}", String::as_str);
        text.replace("{}", &format!("({clipped})"))
    }
}

/// The activations of all directions, as expressions of `{}`.
fn activations(cx: &NodeContext<'_>, cell: Cell, directions: usize) -> Result<Vec<String>> {
    let names = cx.texts("activations")?.unwrap_or_else(|| {
        (0..directions).flat_map(|_| cell.activations().iter().map(|&name| name.to_owned())).collect()
    });
    if names.len() != directions * cell.activations().len() {
        return Err(OnnxError::attribute("activations", "as many names as the cell has"));
    }
    let mut alphas = cx.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = cx.floats("activation_beta")?.unwrap_or_default().into_iter();
    let number = |value: f32| float(DType::F32, f64::from(value));
    // Writers of models disagree on capitals.
    let text = |name: &String| {
        Ok(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => "sigmoid({})".to_owned(),
            "tanh" => "tanh({})".to_owned(),
            "relu" => "max({}, 0)".to_owned(),
            "softsign" => "({} / (1 + abs({})))".to_owned(),
            "softplus" => "softplus({})".to_owned(),
            "affine" => {
                let (alpha, beta) = (alphas.next().unwrap_or(1.0), betas.next().unwrap_or(0.0));
                format!("({{}} * {} + {})", number(alpha), number(beta))
            }
            "leakyrelu" => format!("where({{}} < 0, {{}} * {}, {{}})", number(alphas.next().unwrap_or(0.01))),
            "thresholdedrelu" => format!("where({{}} > {}, {{}}, 0)", number(alphas.next().unwrap_or(1.0))),
            "scaledtanh" => {
                let (alpha, beta) = (alphas.next().unwrap_or(1.0), betas.next().unwrap_or(1.0));
                format!("({} * tanh({} * {{}}))", number(alpha), number(beta))
            }
            "hardsigmoid" => {
                let (alpha, beta) = (alphas.next().unwrap_or(0.2), betas.next().unwrap_or(0.5));
                format!("min(1, max(0, {{}} * {} + {}))", number(alpha), number(beta))
            }
            "elu" => format!("elu({{}}, {})", number(alphas.next().unwrap_or(1.0))),
            _ => return Err(OnnxError::Case(format!("activation {name}"))),
        })
    };
    names.iter().map(text).collect()
}

fn layer(cx: &mut NodeContext<'_>, cell: Cell) -> Lowered {
    let layer = Layer::of(cx, cell)?;
    let is_reverse = match cx.text_or("direction", "forward")? {
        "forward" => [false, false],
        "reverse" => [true, true],
        "bidirectional" => [false, true],
        _ => return Err(OnnxError::attribute("direction", "forward, reverse or bidirectional")),
    };
    let mut outcomes = Vec::new();
    for (direction, is_reverse) in is_reverse.into_iter().enumerate().take(layer.directions) {
        outcomes.push(direction_steps(cx, &layer, direction, is_reverse)?);
    }
    // Steps, directions, batch, hidden; or with the batch in front.
    let mut results = Vec::new();
    for at in 0..=cell.states().len() {
        let parts: Vec<Value> = outcomes.iter().filter_map(|outcome| outcome.get(at).cloned()).collect();
        results.push(concatenated(cx, &parts, usize::from(at == 0))?);
    }
    if layer.is_batch_first {
        results[0] = cx.permuted(&results[0].clone(), &[2, 0, 1, 3])?;
        for result in results.iter_mut().skip(1) {
            *result = cx.permuted(&result.clone(), &[1, 0, 2])?;
        }
    }
    Ok(results)
}

/// The initial state of a direction, zeros if none is given: `[batch, hidden]`.
fn initial(cx: &mut NodeContext<'_>, layer: &Layer, direction: usize, at: usize) -> Result<Value> {
    let shape = [layer.batch, layer.hidden];
    let Some(given) = cx.optional(at) else {
        return cx.filled(layer.dtype, &shape, &format!("{}(0)", layer.dtype));
    };
    let axis = if layer.is_batch_first { 1 } else { 0 };
    let expected = match layer.is_batch_first {
        true => [layer.batch, layer.directions, layer.hidden],
        false => [layer.directions, layer.batch, layer.hidden],
    };
    if given.shape() != expected {
        return Err(OnnxError::operand(at, format!("expected the shape {expected:?}")));
    }
    let row = cx.taken(&given, axis, &[direction])?;
    cx.reshaped(&row, &shape)
}

/// The results of one direction: the outputs of all steps `[steps, 1, batch, hidden]`, and the last states.
fn direction_steps(cx: &mut NodeContext<'_>, layer: &Layer, direction: usize, is_reverse: bool) -> Lowered {
    let Layer { cell, dtype, steps, batch, hidden, .. } = *layer;
    cx.steps(steps)?;
    let (projected, shape) = (projected(cx, layer, direction)?, [batch, hidden]);
    let mut states = Vec::new();
    for at in 0..cell.states().len() {
        states.push(initial(cx, layer, direction, 5 + at)?);
    }
    let mut values = match steps {
        0 => [vec![cx.empty(dtype, &[0, batch, hidden])?], states].concat(),
        _ => {
            let text = steps_text(cx, layer, (direction, is_reverse), &projected, &states)?;
            let all = [steps, batch, hidden];
            let (y, h) = (("y", dtype, &all[..]), ("h1", dtype, &shape[..]));
            match cell {
                Cell::Lstm => cx.emit_all([y, h, ("c1", dtype, &shape)], &text)?.to_vec(),
                _ => cx.emit_all([y, h], &text)?.to_vec(),
            }
        }
    };
    for (at, value) in values.iter_mut().enumerate() {
        let shape = if at == 0 { vec![steps, 1, batch, hidden] } else { vec![1, batch, hidden] };
        *value = cx.reshaped(&value.clone(), &shape)?;
    }
    Ok(values)
}

/// The statements of all steps of a direction: `y` has the outputs, which are 0 behind the end of a sequence,
/// and `h1` and `c1` the last states.
fn steps_text(
    cx: &mut NodeContext<'_>,
    layer: &Layer,
    (direction, is_reverse): (usize, bool),
    projected: &Value,
    states: &[Value],
) -> Result<String> {
    let Layer { cell, dtype, steps, batch, hidden, .. } = *layer;
    // The position in time of step n, and the place of the state behind time t.
    let (time, place) = match is_reverse {
        true => (format!("{} - n", steps - 1), format!("{steps} - t")),
        false => ("n".into(), "t + 1".into()),
    };
    let (mut text, mut last) = (String::new(), String::new());
    for (name, state) in cell.states().iter().zip(states) {
        let state = cx.bind_array(state)?.at(&["b".into(), "u".into()]);
        let shape = dims(&[steps + 1, batch, hidden]);
        text += &format!("node {name} {dtype}[{shape}]\n{name}[0,b,u] := {state}\n");
        last += &format!("{name}1[b,u] := {name}[{steps},b,u]\n");
    }
    let projected = cx.bind_array(projected)?;
    let gate = |at: usize| projected.at(&[time.clone(), "b".into(), at.to_string(), "u".into()]);
    let mut step = step_text(cx, layer, direction, &gate)?;
    let length = match cx.optional(4) {
        Some(lengths) if lengths.shape() == [batch] => Some(cx.bind_array(&lengths)?.at(&["b".into()])),
        Some(_) => return Err(OnnxError::operand(4, "expected a length for each sequence")),
        None => None,
    };
    // The states stay behind the end of a sequence.
    let within = |time: &str, value: String, other: String| match &length {
        Some(length) => format!("where({length} > {time}, {value}, {other})"),
        None => value,
    };
    for name in cell.states() {
        let new = within(&time, format!("{name}2[b,u]"), format!("{name}[n,b,u]"));
        step += &format!("{name}[n + 1,b,u] := {new}\n");
    }
    let row = within("t", format!("h[{place},b,u]"), "0".into());
    Ok(format!("{text}scan n in 0..{steps} {{\n{step}}}\ny[t,b,u] := {row} where t < {steps}\n{last}"))
}

/// The products of the input with the matrices of all gates, with the biases that are added to them:
/// `[steps, batch, gates, hidden]`.
fn projected(cx: &mut NodeContext<'_>, layer: &Layer, direction: usize) -> Result<Value> {
    let Layer { cell, dtype, steps, batch, hidden, .. } = layer;
    let gates = cell.gates();
    let (x, w) = (cx.value(0)?, cx.value(1)?);
    let element = cx.bind_array(&x)?;
    let index = if layer.is_batch_first { ["b", "t", "i"] } else { ["t", "b", "i"] };
    let element = element.at(&index.map(str::to_owned));
    let row =
        |offset: usize| [direction.to_string(), format!("{hidden}*g + u + {offset}").replace(" + 0", "")];
    let [d, gate] = row(0);
    let weight = cx.bind_array(&w)?.at(&[d, gate, "i".into()]);
    let mut text = format!("p[t,b,g,u] :+= {element} * {weight} where g < {gates}, u < {hidden}\n");
    let mut value = "p[t,b,g,u]".to_owned();
    if let Some(bias) = cx.optional(3) {
        let bias = cx.bind_array(&bias)?;
        let recurrent = bias.at(&row(gates * hidden));
        // With `linear_before_reset`, the recurrent bias of the last gate is added before the reset.
        let recurrent = match (layer.cell, layer.linear_before_reset) {
            (Cell::Gru, true) => format!("where(g < 2, {recurrent}, 0)"),
            _ => recurrent,
        };
        value = format!("{value} + {} + {recurrent}", bias.at(&row(0)));
    }
    text.push_str(&format!("y[t,b,g,u] := {value} where g < {gates}, u < {hidden}"));
    cx.emit(*dtype, &[*steps, *batch, gates, *hidden], &text)
}

/// The statements of one step: `h2` and `c2` are the new states. `gate` is the product of the input.
fn step_text(
    cx: &mut NodeContext<'_>,
    layer: &Layer,
    direction: usize,
    gate: &dyn Fn(usize) -> String,
) -> Result<String> {
    let recurrent = cx.value(2)?;
    let r = cx.bind_array(&recurrent)?;
    let hidden = layer.hidden;
    let weight = |gate: usize| {
        let row = format!("u + {}", gate * hidden).replace(" + 0", "");
        r.at(&[direction.to_string(), row, "j".into()])
    };
    let sum = |at: usize| format!("r{at}[b,u] :+= h[n,b,j] * {} where u < {hidden}\n", weight(at));
    let f = |at: usize, value: &str| layer.activation(direction, at, value);
    Ok(match layer.cell {
        Cell::Rnn => format!("{}h2[b,u] := {}\n", sum(0), f(0, &format!("{} + r0[b,u]", gate(0)))),
        Cell::Gru => {
            let z = f(0, &format!("{} + r0[b,u]", gate(0)));
            let r = f(0, &format!("{} + r1[b,u]", gate(1)));
            let new = if layer.linear_before_reset {
                let bias = match cx.optional(3) {
                    Some(bias) => {
                        let bias = cx.bind_array(&bias)?;
                        format!(" + {}", bias.at(&[direction.to_string(), format!("u + {}", 5 * hidden)]))
                    }
                    None => String::new(),
                };
                let value = f(1, &format!("{} + r[b,u] * (r2[b,u]{bias})", gate(2)));
                format!("{}new[b,u] := {value} where u < {hidden}\n", sum(2))
            } else {
                let value = f(1, &format!("{} + r2[b,u]", gate(2)));
                format!(
                    "q[b,j] := r[b,j] * h[n,b,j]\nr2[b,u] :+= q[b,j] * {} where u < {hidden}\n\
                     new[b,u] := {value}\n",
                    weight(2)
                )
            };
            format!(
                "{}{}z[b,u] := {z}\nr[b,u] := {r}\n{new}\
                 h2[b,u] := (1 - z[b,u]) * new[b,u] + z[b,u] * h[n,b,u]\n",
                sum(0),
                sum(1)
            )
        }
        Cell::Lstm => lstm_text(cx, layer, direction, (gate, &sum))?,
    })
}

fn lstm_text(
    cx: &mut NodeContext<'_>,
    layer: &Layer,
    direction: usize,
    (gate, sum): (&dyn Fn(usize) -> String, &dyn Fn(usize) -> String),
) -> Result<String> {
    let hidden = layer.hidden;
    // Peepholes of the gates input, output and forget.
    let peep = match cx.optional(7) {
        Some(value) => Some(cx.bind_array(&value)?),
        None => None,
    };
    let peephole = |at: usize, cell: &str| match &peep {
        Some(peep) => {
            let index = format!("u + {}", at * hidden).replace(" + 0", "");
            format!(" + {} * {cell}", peep.at(&[direction.to_string(), index]))
        }
        None => String::new(),
    };
    let f = |at: usize, value: &str| layer.activation(direction, at, value);
    let i = f(0, &format!("{} + r0[b,u]{}", gate(0), peephole(0, "c[n,b,u]")));
    let o = f(0, &format!("{} + r1[b,u]{}", gate(1), peephole(1, "c2[b,u]")));
    let forget = match layer.input_forget {
        true => "1 - i[b,u]".to_owned(),
        false => f(0, &format!("{} + r2[b,u]{}", gate(2), peephole(2, "c[n,b,u]"))),
    };
    let new = f(1, &format!("{} + r3[b,u]", gate(3)));
    let sums: String = (0..4).filter(|&at| at != 2 || !layer.input_forget).map(sum).collect();
    let units = format!(" where u < {hidden}");
    let out = match &layer.clip {
        Some(_) => {
            let activation = layer.activations.get(direction * 3 + 2);
            activation.map_or("{}", String::as_str).replace("{}", "c2[b,u]")
        }
        None => f(2, "c2[b,u]"),
    };
    Ok(format!(
        "{sums}i[b,u] := {i}{units}\nf[b,u] := {forget}{units}\ng[b,u] := {new}\n\
         c2[b,u] := f[b,u] * c[n,b,u] + i[b,u] * g[b,u]\no[b,u] := {o}{units}\n\
         h2[b,u] := o[b,u] * {out}\n"
    ))
}
