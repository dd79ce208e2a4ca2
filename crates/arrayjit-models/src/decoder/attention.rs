//! Attention of tokens to themselves and the tokens before, whose keys and values are in buffers.

use arrayjit_tensor::{Parameter, Tensor};

use crate::{decoder::CacheLength, error::ModelError, loader::Loader};

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

/// Attention with the keys and values of a layer.
pub(crate) struct CachedAttention {
    keys: Parameter,
    values: Parameter,
    heads: Heads,
    options: AttentionOptions,
}

impl CachedAttention {
    /// Makes the buffers, `[key heads, rows, size]`.
    pub(crate) fn new(
        loader: &Loader<'_>,
        heads: Heads,
        options: AttentionOptions,
        length: CacheLength,
    ) -> Result<CachedAttention, ModelError> {
        let buffer = |name: &str| loader.sub("cache").buffer(name, &[heads.keys, length.rows(), heads.size]);
        Ok(CachedAttention { keys: buffer("keys")?, values: buffer("values")?, heads, options })
    }

    /// Attention of the queries `[n, query heads, size]` of the tokens from `@pos` on, after their keys and
    /// values, `[n, key heads, size]`, are added to the buffers: `[n, query heads · size]`.
    pub(crate) fn attend(
        &self,
        queries: &Tensor,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<Tensor, ModelError> {
        let Heads { queries: count, keys: groups, size } = self.heads;
        let shared = count / groups; // query heads for each head of keys
        let capped = match self.options.softcap {
            Some(cap) => format!("tanh(product[h,g,i,t] / {cap:?}) * {cap:?}"),
            None => "product[h,g,i,t]".to_owned(),
        };
        let score = match self.options.window {
            Some(window) => format!("where(t + {window} > @pos + i, {capped}, -inf)"),
            None => capped,
        };
        let text = format!(
            "keys[h,@pos + i,c] := k[i,h,c]
             values[h,@pos + i,c] := v[i,h,c]
             scaled[h,g,i,c] := q[i,{shared}*h + g,c] * {scale:?} where h < {groups}, g < {shared}
             product[h,g,i,t] :+= scaled[h,g,i,c] * keys[h,t,c] where t <= @pos + i
             score[h,g,i,t] :+= {score} where t <= @pos + i
             most[h,g,i] :max= score[h,g,i,t] where t <= @pos + i
             weight[h,g,i,t] :+= exp(score[h,g,i,t] - most[h,g,i]) where t <= @pos + i
             total[h,g,i] :+= weight[h,g,i,t] where t <= @pos + i
             mixed[h,g,i,c] :+= weight[h,g,i,t] * values[h,t,c] where t <= @pos + i
             y[i,{row}*h + {size}*g + c] := mixed[h,g,i,c] / total[h,g,i]
                 where h < {groups}, g < {shared}, c < {size}",
            scale = self.options.scale,
            row = shared * size,
        );
        let inputs: [(&str, &dyn arrayjit_tensor::TensorOperand); 5] =
            [("q", queries), ("k", keys), ("v", values), ("keys", &self.keys), ("values", &self.values)];
        Ok(queries.graph().apply(&text, &inputs)?)
    }
}
