//! Attention of tokens to themselves and the tokens before, whose keys and values are in buffers.

use arrayjit_tensor::{Parameter, Tensor, TensorOperand};

use crate::{
    decoder::{CacheSize, TokenPlaces},
    error::Result,
    layers::Layer,
    loader::Loader,
};

/// The heads of an attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    /// Heads of queries, a multiple of those of keys.
    pub(crate) queries: usize,
    /// Heads of keys and values.
    pub(crate) keys: usize,
    /// The elements of a head.
    pub(crate) size: usize,
}

/// What distinguishes the attention of one layer from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionOptions {
    /// The factor of scores.
    pub(crate) scale: f64,
    /// Positions that a token sees, its own included; all if there is none.
    pub(crate) window: Option<usize>,
    /// Scores are bounded by cap · tanh(score / cap).
    pub(crate) softcap: Option<f64>,
}

/// Attention of a layer with the keys and values of all its repetitions.
pub(crate) struct CachedAttention {
    keys: Parameter,
    values: Parameter,
    heads: Heads,
    options: AttentionOptions,
}

impl CachedAttention {
    /// Makes the buffers, `[layers, slots, key heads, rows, size]`.
    pub(crate) fn new(
        loader: &Loader<'_>,
        heads: Heads,
        options: AttentionOptions,
        size: CacheSize,
    ) -> Result<CachedAttention> {
        let buffer =
            |name: &str| loader.sub("cache").buffer(name, &[size.slots, heads.keys, size.rows(), heads.size]);
        Ok(CachedAttention { keys: buffer("keys")?, values: buffer("values")?, heads, options })
    }

    /// Attention, in the loop of the layer, of the queries `[n, query heads, size]` of tokens, after their
    /// keys and values, `[n, key heads, size]`, are added to the buffers: `[n, query heads · size]`.
    pub(crate) fn attend(
        &self,
        queries: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        places: &TokenPlaces,
    ) -> Result<Tensor> {
        let Heads { queries: count, keys: groups, size } = self.heads;
        let shared = count / groups; // query heads for each head of keys
        let place = places.position();
        // The rows of scores, the sequence of keys and values, the last position that rows see, and the range
        // of rows where the buffers have further ones.
        let (row, slot, last, range) = match places {
            TokenPlaces::Chunk { slots: 1 } => ("h,g,i", "0", place, ""),
            TokenPlaces::Chunk { .. } => ("h,g,i", "@slot", place, ""),
            TokenPlaces::Step { .. } => ("i,h,g", "i", "@last", "i < size(positions, 0), "),
        };
        let slot = format!("{},{slot}", Layer::NUMBER);
        let capped = match self.options.softcap {
            Some(cap) => format!("tanh(product[{row},t] / {cap:?}) * {cap:?}"),
            None => format!("product[{row},t]"),
        };
        // Rows that a token does not see, such as those of an earlier text, may hold NaN or infinities, whose
        // products with a weight of 0 are NaN: conditions select them away from scores and from sums.
        let window = self.options.window.map(|window| format!("t + {window} > {place}"));
        let is_shorter = matches!(places, TokenPlaces::Step { .. }).then(|| format!("t <= {place}"));
        let seen: Vec<String> = window.into_iter().chain(is_shorter).collect();
        let select = |value: String, other: &str| {
            seen.iter().fold(value, |value, seen| format!("where({seen}, {value}, {other})"))
        };
        let score = select(capped, "-inf");
        let product = select(format!("weight[{row},t] * values[{slot},h,t,c]"), "0");
        let text = format!(
            "keys[{slot},h,{place},c] := k[i,h,c] where {range}h < {groups}
             values[{slot},h,{place},c] := v[i,h,c] where {range}h < {groups}
             scaled[{row},c] := q[i,{shared}*h + g,c] * {scale:?} where h < {groups}, g < {shared}
             product[{row},t] :+= scaled[{row},c] * keys[{slot},h,t,c] where {range}t <= {last}
             score[{row},t] :+= {score} where t <= {last}
             most[{row}] :max= score[{row},t] where t <= {last}
             weight[{row},t] :+= exp(score[{row},t] - most[{row}]) where t <= {last}
             total[{row}] :+= weight[{row},t] where t <= {last}
             mixed[{row},c] :+= {product} where {range}t <= {last}
             y[i,{all}*h + {size}*g + c] := mixed[{row},c] / total[{row}]
                 where h < {groups}, g < {shared}, c < {size}",
            scale = self.options.scale,
            all = shared * size,
        );
        let mut inputs: Vec<(&str, &dyn TensorOperand)> =
            vec![("q", queries), ("k", keys), ("v", values), ("keys", &self.keys), ("values", &self.values)];
        inputs.extend(places.operands());
        Ok(queries.graph().apply(&text, &inputs)?)
    }
}
