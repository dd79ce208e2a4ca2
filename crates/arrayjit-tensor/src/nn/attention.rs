//! Attention with several heads.

use crate::{
    error::{Call, Result, misfit},
    nn::{Dropout, Linear, Module, ModuleTypes, check_divisor, check_rank, linear},
    operand::{Argument, number},
    options::options,
    parameter::{Init, Parameter, Params},
    sample::STEP,
    shape::{access, letter},
    tensor::Tensor,
};

/// Attention with several heads, as torch's `MultiheadAttention` with `batch_first`: projects queries, keys
/// and values, computes softmax(q · kᵀ / √c) · v for each part of c elements, a head, and projects the heads.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params};
/// use arrayjit_tensor::nn::{Module, MultiHeadAttention};
///
/// let attention = MultiHeadAttention::builder(&Params::new(42), 64, 4).causal(true).dropout(0.1).build()?;
/// let x = Graph::new().input("x", [8, 16, 64], DType::F32)?;
/// assert_eq!(attention.forward(&x)?.shape(), [8, 16, 64]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
///
/// Source: Vaswani et al., Attention is all you need, 2017.
pub struct MultiHeadAttention {
    /// `in_proj_weight`, of shape `[3 · size, size]`: the projections of queries, keys and values.
    pub in_proj_weight: Parameter,
    /// `in_proj_bias`, of shape `[3 · size]`.
    pub in_proj_bias: Option<Parameter>,
    /// The projection of the heads.
    pub out_proj: Linear,
    /// The number of heads, which divides the size.
    pub heads: usize,
    /// Whether each position sees only itself and the positions before it.
    pub causal: bool,
    /// Dropout of the softmax, in graphs for training.
    pub dropout: Dropout,
}

/// The options of a [`MultiHeadAttention`] whose parameters are not made yet.
pub struct MultiHeadAttentionBuilder {
    params: Params,
    size: usize,
    heads: usize,
    causal: bool,
    bias: bool,
    dropout: f64,
}

impl MultiHeadAttentionBuilder {
    options! {
        /// Whether each position sees only itself and the positions before it; false by default.
        causal: bool => causal;
        /// Whether the projections have biases; true by default.
        bias: bool => bias;
        /// The rate of dropout of the softmax, at least 0 and less than 1; 0 by default.
        dropout: f64 => dropout;
    }

    /// Makes the parameters.
    ///
    /// # Errors
    /// A number of heads that does not divide the size, a rate of dropout outside 0..1, a name that exists
    /// already, or a size that overflows.
    #[track_caller]
    pub fn build(self) -> Result<MultiHeadAttention> {
        let MultiHeadAttentionBuilder { params, size, heads, causal, bias, dropout } = self;
        let call = Call::new("MultiHeadAttention");
        if heads == 0 || !size.is_multiple_of(heads) {
            let expected = format!("a divisor of {size}, the size of a vector");
            return Err(call.error(params.path(), misfit("heads", heads, expected)));
        }
        let dropout = Dropout::of_module(call, &params, dropout)?;
        let rows = size.saturating_mul(3); // if it overflows, a size that no array has
        let init = Init::xavier_uniform(size, rows);
        let in_proj_weight = params.parameter("in_proj_weight", [rows, size], init)?;
        let out = params.sub("out_proj");
        let mut out_proj = Linear::builder(&out, size, size).bias(false).build()?;
        let mut in_proj_bias = None;
        if bias {
            in_proj_bias = Some(params.parameter("in_proj_bias", [rows], Init::ZEROS)?);
            out_proj.bias = Some(out.parameter("bias", [size], Init::ZEROS)?);
        }
        Ok(MultiHeadAttention { in_proj_weight, in_proj_bias, out_proj, heads, causal, dropout })
    }
}

impl MultiHeadAttention {
    /// Attention between vectors of `size` elements. As torch's, `in_proj_weight` is uniform in
    /// ±√(6 / (4 · `size`)), `out_proj.weight` in ±1/√`size`, and the biases are 0.
    ///
    /// # Errors
    /// A number of heads that does not divide the size, a name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, size: usize, heads: usize) -> Result<MultiHeadAttention> {
        MultiHeadAttention::builder(params, size, heads).build()
    }

    /// [`new`](MultiHeadAttention::new) with options.
    pub fn builder(params: &Params, size: usize, heads: usize) -> MultiHeadAttentionBuilder {
        MultiHeadAttentionBuilder {
            params: params.clone(),
            size,
            heads,
            causal: false,
            bias: true,
            dropout: 0.0,
        }
    }

    /// Attention of the queries `[…, t, size]` to the keys and values `[…, s, size]`: `[…, t, size]`. With
    /// [`causal`](MultiHeadAttention::causal), query i sees the keys up to i.
    ///
    /// # Errors
    /// Vectors of another size, or shapes that do not fit each other.
    #[track_caller]
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
        let _scope = query.graph().enter(self.in_proj_weight.module());
        let call = Call::new("attention");
        self.check(call, query)?;
        let rank = query.rank();
        let is_fitting =
            |x: &Tensor| x.rank() == rank && rank >= 2 && x.shape()[..rank - 2] == query.shape()[..rank - 2];
        if let Some(wrong) = [query, key, value].into_iter().find(|x| !is_fitting(x)) {
            let expected = format!("[…, positions, size] with the first axes of {:?}", query.shape());
            return Err(query.graph().fail(call, wrong.misshapen(expected)));
        }
        if value.shape()[rank - 2] != key.shape()[rank - 2] {
            let expected = format!("{} positions, as the keys have", key.shape()[rank - 2]);
            return Err(query.graph().fail(call, value.misshapen(expected)));
        }
        let parts = [self.projected(query, 0..1)?, self.projected(key, 1..2)?, self.projected(value, 2..3)?];
        self.joined(call, [&parts[0], &parts[1], &parts[2]], [0, 0, 0])
    }

    /// Checks the fields, which may have changed since [`new`](MultiHeadAttention::new).
    fn check(&self, call: Call, x: &Tensor) -> Result<()> {
        [&self.in_proj_weight, &self.out_proj.weight]
            .into_iter()
            .try_for_each(|weight| check_rank(call, x, weight, 2))?;
        let size = self.out_proj.weight.shape()[1];
        check_divisor(call, x, ("heads", self.heads), size)
    }

    /// The projections with these numbers, of queries, keys and values, on one last axis.
    #[track_caller]
    fn projected(&self, x: &Tensor, parts: std::ops::Range<usize>) -> Result<Tensor> {
        let size = self.in_proj_weight.shape()[1];
        let rows = parts.start * size..parts.end * size;
        let bias = self.in_proj_bias.as_ref().map(Argument::Parameter);
        linear::apply(Call::new("in_proj"), x, Argument::Parameter(&self.in_proj_weight), bias, rows)
    }

    /// The attention between projected queries, keys and values, which start at these elements of the last
    /// axis, and the projection of the heads.
    #[track_caller]
    fn joined(&self, call: Call, parts: [&Tensor; 3], starts: [usize; 3]) -> Result<Tensor> {
        let [query, key, value] = parts;
        let width = self.out_proj.weight.shape()[1] / self.heads;
        let types = ModuleTypes::new(query, &self.in_proj_weight);
        let outer: Vec<String> = (0..query.rank() - 2).map(letter).collect();
        let at = |node: &str, inner: &[&str]| {
            access(node, outer.iter().cloned().chain(inner.iter().map(|&index| index.to_owned())))
        };
        let head = |node: &str, part: &str, position: &str, start: usize, dtype| {
            let source = at(part, &[position, &format!("{width}*h + c + {start}")]);
            let ranges = format!("where h < {}, c < {width}", self.heads);
            format!("{} := {} {ranges}\n", at(node, &["h", position, "c"]), types.widen(&source, dtype))
        };
        let statements = head("q", "x", "t", starts[0], query.dtype())
            + &head("k", "y", "s", starts[1], key.dtype())
            + &head("v", "z", "s", starts[2], value.dtype());
        let arguments = [at("q", &["h", "t", "c"]), at("k", &["h", "s", "c"]), at("v", &["h", "s", "c"])];
        let result = at("a", &["h", "t", "c"]);
        let attended = match self.dropout.next_seed(call, query.graph())? {
            Some(seed) => self.with_dropout(
                query.graph().seed_on_rank(seed),
                &query.shape()[..query.rank() - 2],
                &arguments,
                &at,
            ),
            None => {
                let function = if self.causal { "causal_attention" } else { "attention" };
                format!("{result} := {function}({})", arguments.join(", "))
            }
        };
        let inputs =
            [("x", Argument::Tensor(query)), ("y", Argument::Tensor(key)), ("z", Argument::Tensor(value))];
        let heads = query.graph().result(call, &inputs, |y| {
            format!(
                "{statements}{attended}\n{} := {}",
                at(y, &["t", &format!("{width}*h + c")]),
                types.narrowed(&result)
            )
        })?;
        self.out_proj.forward(&heads)
    }

    /// The statements of attention whose softmax has dropout. `outer` are the sizes of the axes in front of
    /// the positions.
    fn with_dropout(
        &self,
        seed: u32,
        outer: &[usize],
        [query, key, value]: &[String; 3],
        at: &impl Fn(&str, &[&str]) -> String,
    ) -> String {
        let [score, weight, dropped] = ["d", "p", "w"].map(|node| at(node, &["h", "t", "s"]));
        let [most, total] = ["m", "r"].map(|node| at(node, &["h", "t"]));
        let (scaled, result) = (at("n", &["h", "t", "c"]), at("a", &["h", "t", "c"]));
        // The elements that a causal attention does not write are 0.
        let (seen, step, set) = match self.causal {
            true => (" where s <= t", format!(" where s <= t, {STEP}"), ":+="),
            false => ("", format!(" where {STEP}"), ":="),
        };
        // Random numbers have at most four indices, so the axes in front share one.
        let row = outer.iter().enumerate().fold("0".to_owned(), |row, (axis, size)| match axis {
            0 => letter(axis),
            _ => format!("({row})*{size} + {}", letter(axis)),
        });
        let width = number((self.out_proj.weight.shape()[1] / self.heads) as f64);
        let rate = number(self.dropout.rate);
        format!(
            "{scaled} := {query} * recip_sqrt({width})\n\
             {score} :+= {scaled} * {key}{seen}\n\
             {most} :max= {score}{seen}\n\
             detach m\n\
             {weight} {set} exp({score} - {most}){seen}\n\
             {total} :+= {weight}{seen}\n\
             {dropped} {set} where(uniform({seed}, @step, {row}, h, t, s) < {rate}, 0, {weight} / (1 - {rate})){step}\n\
             {result} :+= {dropped} * {value} / {total}{seen}"
        )
    }
}

impl Module for MultiHeadAttention {
    /// Attention of the vectors of `[…, positions, size]` to each other; the shape remains.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.in_proj_weight.module());
        let call = Call::new("attention");
        self.check(call, x)?;
        if x.rank() < 2 {
            return Err(x.graph().fail(call, x.misshapen("[…, positions, size]")));
        }
        let size = self.in_proj_weight.shape()[1];
        let projected = self.projected(x, 0..3)?;
        self.joined(call, [&projected, &projected, &projected], [0, size, 2 * size])
    }
}
