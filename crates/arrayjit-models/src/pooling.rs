//! From the vectors of the tokens of a text to one, as the files of `sentence-transformers` say.

use std::{fs, path::Path};

use arrayjit_tensor::Tensor;
use serde::Deserialize;

use crate::{
    config::Config,
    error::{InFile, ModelError, Result},
};

/// How the vectors of tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    Mean,
    First,
    Max,
    /// The sum, divided by the square root of the number of tokens.
    MeanSqrt,
}

/// The last steps of an embedding model.
pub(crate) struct SentencePooling {
    pooling: Pooling,
    normalizes: bool,
}

/// An entry of `modules.json`.
#[derive(Deserialize)]
struct SentenceModule {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

impl SentencePooling {
    /// Reads `modules.json` and the configuration that it names. Without it, vectors are averaged. With
    /// `has_prompt`, texts follow a prompt, whose tokens count.
    pub(crate) fn read(folder: &Path, has_prompt: bool) -> Result<SentencePooling> {
        let mut read = SentencePooling { pooling: Pooling::Mean, normalizes: false };
        let path = folder.join("modules.json");
        if !path.exists() {
            return Ok(read);
        }
        let modules: Vec<SentenceModule> =
            serde_json::from_slice(&fs::read(&path).in_file(&path)?).in_file(&path)?;
        for module in modules {
            match module.kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" if module.path.is_empty() => {}
                "Normalize" => read.normalizes = true,
                "Pooling" if !module.path.contains(['/', '\\', ':', '.']) => {
                    let path = folder.join(&module.path).join("config.json");
                    let config = Config::read(&path)?;
                    read.pooling = Pooling::read(&config).in_file(&path)?;
                    if has_prompt {
                        config.only("include_prompt", true).in_file(&path)?;
                    }
                }
                _ => {
                    let found = format!("`{}` at `{}`", module.kind, module.path);
                    let expected =
                        "Transformer in this folder, Pooling in one within it, or Normalize".into();
                    return Err(ModelError::Config { key: "type".into(), found, expected }.in_file(&path));
                }
            }
        }
        Ok(read)
    }

    /// Computes the vectors `[batch, size]` of texts from the vectors of their tokens.
    pub(crate) fn forward(&self, x: &Tensor, lengths: &Tensor) -> Result<Tensor> {
        let pooled = match self.pooling {
            Pooling::Mean => "y[b,c] :+= where(i < lengths[b], x[b,i,c] / f32(lengths[b]), 0)",
            Pooling::MeanSqrt => {
                "y[b,c] :+= where(i < lengths[b], x[b,i,c] * recip_sqrt(f32(lengths[b])), 0)"
            }
            Pooling::Max => "y[b,c] :max= where(i < lengths[b], x[b,i,c], -inf)",
            Pooling::First => "y[b,c] := x[b,0,c]",
        };
        let inputs: [(&str, &dyn arrayjit_tensor::TensorOperand); 2] = [("x", x), ("lengths", lengths)];
        let y = x.graph().apply(pooled, &inputs)?;
        if !self.normalizes {
            return Ok(y);
        }
        let text = "square[b] :+= x[b,c] * x[b,c]
                    y[b,c] := x[b,c] / max(sqrt(square[b]), 1e-12)";
        Ok(x.graph().apply(text, &[("x", &y)])?)
    }
}

impl Pooling {
    fn read(config: &Config) -> Result<Pooling> {
        let modes = [
            ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
            ("pooling_mode_cls_token", "cls", Pooling::First),
            ("pooling_mode_max_tokens", "max", Pooling::Max),
            ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::MeanSqrt),
        ];
        if let Some(pooling) = config.choice("pooling_mode", &modes.map(|(_, name, mode)| (name, mode)))? {
            return Ok(pooling);
        }
        for key in ["pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"] {
            config.only(key, false)?;
        }
        let mut found = None;
        for (key, _, mode) in modes {
            if config.flag(key)?.unwrap_or(false) && found.replace(mode).is_some() {
                return Err(config.misfit(key, "false, since another mode is true"));
            }
        }
        found.ok_or_else(|| config.misfit("pooling_mode_mean_tokens", "one of four modes that is true"))
    }
}
