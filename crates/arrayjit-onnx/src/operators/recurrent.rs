//! Recurrent layers: the steps are statements one after the other.

use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    layout::concatenated,
    operator::{Operator, op},
};
use crate::{error::NodeProblem, host::float, value::Value};

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
    fn of(cx: &NodeContext<'_, '_>, cell: Cell) -> Result<Layer, NodeProblem> {
        let (x, w, r) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
        let is_batch_first = cx.int_or("layout", 0)? != 0;
        let (&[a, b, width], &[directions, rows, columns], &[_, recurrent_rows, hidden]) =
            (x.shape(), w.shape(), r.shape())
        else {
            return Err(NodeProblem::operand(0, "expected three axes"));
        };
        let (steps, batch) = if is_batch_first { (b, a) } else { (a, b) };
        let fits = columns == width
            && rows == cell.gates() * hidden
            && recurrent_rows == rows
            && (1..=2).contains(&directions)
            && hidden > 0;
        if !fits {
            let problem = format!("{:?} and {:?} do not fit {:?}", w.shape(), r.shape(), x.shape());
            return Err(NodeProblem::operand(1, problem));
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
fn activations(cx: &NodeContext<'_, '_>, cell: Cell, directions: usize) -> Result<Vec<String>, NodeProblem> {
    let names = cx.texts("activations")?.unwrap_or_else(|| {
        (0..directions).flat_map(|_| cell.activations().iter().map(|&name| name.to_owned())).collect()
    });
    if names.len() != directions * cell.activations().len() {
        return Err(NodeProblem::attribute("activations", "as many names as the cell has"));
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
            _ => return Err(NodeProblem::Unsupported(format!("activation {name}"))),
        })
    };
    names.iter().map(text).collect()
}

fn layer(cx: &mut NodeContext<'_, '_>, cell: Cell) -> Lowered {
    let layer = Layer::of(cx, cell)?;
    let is_reverse = match cx.text_or("direction", "forward")? {
        "forward" => [false, false],
        "reverse" => [true, true],
        "bidirectional" => [false, true],
        _ => return Err(NodeProblem::attribute("direction", "forward, reverse or bidirectional")),
    };
    let mut sequences = Vec::new();
    let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
    for (direction, is_reverse) in is_reverse.into_iter().enumerate().take(layer.directions) {
        let outcome = direction_steps(cx, &layer, direction, is_reverse)?;
        sequences.push(outcome.sequence);
        last_h.push(outcome.h);
        last_c.extend(outcome.c);
    }
    // Steps, directions, batch, hidden; or with the batch in front.
    let y = concatenated(cx, &sequences, 1)?;
    let mut results = vec![y, concatenated(cx, &last_h, 0)?];
    if cell == Cell::Lstm {
        results.push(concatenated(cx, &last_c, 0)?);
    }
    if layer.is_batch_first {
        results[0] = cx.permuted(&results[0].clone(), &[2, 0, 1, 3])?;
        for result in results.iter_mut().skip(1) {
            *result = cx.permuted(&result.clone(), &[1, 0, 2])?;
        }
    }
    Ok(results)
}

/// The results of one direction.
struct Outcome {
    /// The states of all steps: `[steps, 1, batch, hidden]`.
    sequence: Value,
    h: Value,
    c: Option<Value>,
}

/// The initial state of a direction, zeros if none is given: `[batch, hidden]`.
fn initial(
    cx: &mut NodeContext<'_, '_>,
    layer: &Layer,
    direction: usize,
    at: usize,
) -> Result<Value, NodeProblem> {
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
        return Err(NodeProblem::operand(at, format!("expected the shape {expected:?}")));
    }
    let row = cx.taken(&given, axis, &[direction])?;
    cx.reshaped(&row, &shape)
}

fn direction_steps(
    cx: &mut NodeContext<'_, '_>,
    layer: &Layer,
    direction: usize,
    is_reverse: bool,
) -> Result<Outcome, NodeProblem> {
    let (steps, batch, hidden) = (layer.steps, layer.batch, layer.hidden);
    let projected = projected(cx, layer, direction)?;
    let mut h = initial(cx, layer, direction, 5)?;
    let mut c = if layer.cell == Cell::Lstm { Some(initial(cx, layer, direction, 6)?) } else { None };
    let mut rows: Vec<Value> = Vec::new();
    for at in 0..steps {
        cx.steps(1)?;
        let step = if is_reverse { steps - 1 - at } else { at };
        let text = step_text(cx, layer, direction, step, [&projected, &h], c.as_ref())?;
        let shape = [batch, hidden];
        let row = match &mut c {
            Some(c) => {
                let results = [
                    ("y", layer.dtype, &shape[..]),
                    ("c1", layer.dtype, &shape),
                    ("row", layer.dtype, &shape),
                ];
                let [new_h, new_c, row] = cx.emit_all(results, &text)?;
                h = new_h;
                *c = new_c;
                row
            }
            None => {
                let results = [("y", layer.dtype, &shape[..]), ("row", layer.dtype, &shape)];
                let [new_h, row] = cx.emit_all(results, &text)?;
                h = new_h;
                row
            }
        };
        rows.push(cx.reshaped(&row, &[1, 1, batch, hidden])?);
    }
    if is_reverse {
        rows.reverse();
    }
    let sequence = match rows.is_empty() {
        true => cx.empty(layer.dtype, &[0, 1, batch, hidden])?,
        false => concatenated(cx, &rows, 0)?,
    };
    let shape = [1, batch, hidden];
    let c = match c {
        Some(c) => Some(cx.reshaped(&c, &shape)?),
        None => None,
    };
    Ok(Outcome { sequence, h: cx.reshaped(&h, &shape)?, c })
}

/// The products of the input with the matrices of all gates, with the biases that are added to them:
/// `[steps, batch, gates, hidden]`.
fn projected(cx: &mut NodeContext<'_, '_>, layer: &Layer, direction: usize) -> Result<Value, NodeProblem> {
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

/// The statements of one step: `y` is the new state, `c1` the new cell, `row` the output, which is 0 behind
/// the end of a sequence.
fn step_text(
    cx: &mut NodeContext<'_, '_>,
    layer: &Layer,
    direction: usize,
    step: usize,
    [projected, h]: [&Value; 2],
    c: Option<&Value>,
) -> Result<String, NodeProblem> {
    let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let p = cx.bind_array(projected)?;
    let gate = |at: usize| p.at(&[step.to_string(), "b".into(), at.to_string(), "u".into()]);
    let state = cx.bind_array(h)?;
    let (old, other) = (state.at(&own(&["b", "u"])), state.at(&own(&["b", "j"])));
    let recurrent = cx.value(2)?;
    let r = cx.bind_array(&recurrent)?;
    let hidden = layer.hidden;
    let weight = |gate: usize| {
        let row = format!("u + {}", gate * hidden).replace(" + 0", "");
        r.at(&[direction.to_string(), row, "j".into()])
    };
    let sum = |at: usize| format!("r{at}[b,u] :+= {other} * {} where u < {hidden}\n", weight(at));
    let f = |at: usize, value: &str| layer.activation(direction, at, value);
    let text = match layer.cell {
        Cell::Rnn => {
            let value = f(0, &format!("{} + r0[b,u]", gate(0)));
            format!("{}h1[b,u] := {value}\n", sum(0))
        }
        Cell::Gru => {
            let z = f(0, &format!("{} + r0[b,u]", gate(0)));
            let r = f(0, &format!("{} + r1[b,u]", gate(1)));
            let mut text = format!("{}{}z[b,u] := {z}\nr[b,u] := {r}\n", sum(0), sum(1));
            if layer.linear_before_reset {
                let bias = match cx.optional(3) {
                    Some(bias) => {
                        let bias = cx.bind_array(&bias)?;
                        format!(" + {}", bias.at(&[direction.to_string(), format!("u + {}", 5 * hidden)]))
                    }
                    None => String::new(),
                };
                let value = f(1, &format!("{} + r[b,u] * (r2[b,u]{bias})", gate(2)));
                text.push_str(&format!("{}n[b,u] := {value} where u < {hidden}\n", sum(2)));
            } else {
                let value = f(1, &format!("{} + r2[b,u]", gate(2)));
                let product = format!(
                    "q[b,j] := r[b,j] * {other}\nr2[b,u] :+= q[b,j] * {} where u < {hidden}\n",
                    weight(2)
                );
                text.push_str(&format!("{product}n[b,u] := {value}\n"));
            }
            format!("{text}h1[b,u] := (1 - z[b,u]) * n[b,u] + z[b,u] * {old}\n")
        }
        Cell::Lstm => lstm_text(cx, layer, direction, c, (&gate, &sum))?,
    };
    finished(cx, layer, step, &text, &old, c)
}

fn lstm_text(
    cx: &mut NodeContext<'_, '_>,
    layer: &Layer,
    direction: usize,
    c: Option<&Value>,
    (gate, sum): (&dyn Fn(usize) -> String, &dyn Fn(usize) -> String),
) -> Result<String, NodeProblem> {
    let cell = c.ok_or_else(|| NodeProblem::Other("a cell is missing".into()))?;
    let cell = cx.bind_array(cell)?.at(&["b".into(), "u".into()]);
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
    let i = f(0, &format!("{} + r0[b,u]{}", gate(0), peephole(0, &cell)));
    let o = f(0, &format!("{} + r1[b,u]{}", gate(1), peephole(1, "n1[b,u]")));
    let forget = match layer.input_forget {
        true => "1 - i[b,u]".to_owned(),
        false => f(0, &format!("{} + r2[b,u]{}", gate(2), peephole(2, &cell))),
    };
    let new = f(1, &format!("{} + r3[b,u]", gate(3)));
    let sums: String = (0..4).filter(|&at| at != 2 || !layer.input_forget).map(sum).collect();
    let units = format!(" where u < {hidden}");
    let out = f(2, "n1[b,u]");
    let out = match &layer.clip {
        Some(_) => {
            layer.activations.get(direction * 3 + 2).map_or("{}", String::as_str).replace("{}", "n1[b,u]")
        }
        None => out,
    };
    Ok(format!(
        "{sums}i[b,u] := {i}{units}\nf[b,u] := {forget}{units}\ng[b,u] := {new}\n\
         n1[b,u] := f[b,u] * {cell} + i[b,u] * g[b,u]\no[b,u] := {o}{units}\nh1[b,u] := o[b,u] * {out}\n"
    ))
}

/// Keeps the state behind the end of a sequence, where the output is 0.
fn finished(
    cx: &mut NodeContext<'_, '_>,
    layer: &Layer,
    step: usize,
    text: &str,
    old: &str,
    c: Option<&Value>,
) -> Result<String, NodeProblem> {
    let Some(lengths) = cx.optional(4) else {
        let cell = if c.is_some() { "c1[b,u] := n1[b,u]\n" } else { "" };
        return Ok(format!("{text}y[b,u] := h1[b,u]\n{cell}row[b,u] := h1[b,u]"));
    };
    if lengths.shape() != [layer.batch] {
        return Err(NodeProblem::operand(4, "expected a length for each sequence"));
    }
    let length = cx.bind_array(&lengths)?.at(&["b".into()]);
    let cell = match c {
        Some(c) => {
            let cell = cx.bind_array(c)?.at(&["b".into(), "u".into()]);
            format!("c1[b,u] := where({length} > {step}, n1[b,u], {cell})\n")
        }
        None => String::new(),
    };
    Ok(format!(
        "{text}y[b,u] := where({length} > {step}, h1[b,u], {old})\n{cell}\
         row[b,u] := where({length} > {step}, h1[b,u], 0)"
    ))
}
