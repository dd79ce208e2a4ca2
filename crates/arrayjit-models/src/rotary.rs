//! Rotary positions: cosines and sines of all positions, and the rotation of heads by them.

use std::f64::consts::PI;

use arrayjit_tensor::{HostArray, Parameter, Tensor, TensorOperand};

use serde_json::Value;

use crate::{
    config::Config,
    decoder::TokenPlaces,
    error::{ModelError, Result},
    loader::Loader,
};

/// How the angles of rotary positions follow from the configuration.
#[derive(Clone, Debug)]
pub(crate) struct RotaryConfig {
    base: f64,
    scaling: Scaling,
    /// A divisor of the angle of each pair of elements, as Llama 3 has them in files of llama.cpp.
    divisors: Option<Vec<f64>>,
    /// A factor of cosines and sines beside that of the scaling.
    amplitude: f64,
}

/// The change of the angles that extends the context a model was trained with.
#[derive(Clone, Debug)]
enum Scaling {
    None,
    Linear {
        factor: f64,
    },
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        context: f64,
    },
    Yarn {
        factor: f64,
        fast: f64,
        slow: f64,
        context: f64,
        amplitude: f64,
        /// Whether the range of changed pairs is rounded to whole ones.
        is_rounded: bool,
    },
}

impl RotaryConfig {
    /// Unscaled angles of layers with a window, beside these of the others.
    pub(crate) fn local(&self, base: f64) -> RotaryConfig {
        RotaryConfig { base, scaling: Scaling::None, divisors: None, amplitude: self.amplitude }
    }

    /// Reads `rope_parameters`, or `rope_theta` and `rope_scaling` in older configurations.
    pub(crate) fn read(config: &Config) -> Result<RotaryConfig> {
        let parameters = config.object("rope_parameters")?;
        RotaryConfig::of_keys(&parameters, config)
    }

    /// Reads the object of one kind of layers, with the configuration around it.
    pub(crate) fn of_keys(parameters: &Config, config: &Config) -> Result<RotaryConfig> {
        let base = parameters.number("rope_theta")?.or(config.number("rope_theta")?).unwrap_or(10_000.0);
        if base <= 0.0 {
            return Err(ModelError::Config {
                key: "rope_theta".to_owned(),
                found: base.to_string(),
                expected: "a positive number".to_owned(),
            });
        }
        let parameters = match parameters.0.is_empty() {
            true => &config.object("rope_scaling")?,
            false => parameters,
        };
        let needed = |key: &str| parameters.number(key)?.ok_or_else(|| parameters.misfit(key, "a number"));
        let key = if parameters.get("rope_type").is_some() { "rope_type" } else { "type" };
        let scaling = match parameters.text(key)?.unwrap_or("default") {
            "default" => Scaling::None,
            "linear" => Scaling::Linear { factor: needed("factor")? },
            "llama3" => Scaling::Llama3 {
                factor: needed("factor")?,
                low: needed("low_freq_factor")?,
                high: needed("high_freq_factor")?,
                context: needed("original_max_position_embeddings")?,
            },
            "yarn" => {
                let factor = needed("factor")?;
                let amplitude = |scale: f64| 0.1 * scale * factor.max(1.0).ln() + 1.0;
                let [scale, all] = ["mscale", "mscale_all_dim"].map(|key| parameters.number(key));
                let default = match (scale?.unwrap_or(0.0), all?.unwrap_or(0.0)) {
                    (0.0, _) | (_, 0.0) => amplitude(1.0),
                    (scale, all) => amplitude(scale) / amplitude(all),
                };
                Scaling::Yarn {
                    factor,
                    fast: parameters.number("beta_fast")?.unwrap_or(32.0),
                    slow: parameters.number("beta_slow")?.unwrap_or(1.0),
                    context: needed("original_max_position_embeddings")?,
                    amplitude: parameters.number("attention_factor")?.unwrap_or(default),
                    is_rounded: parameters.flag("truncate")?.unwrap_or(true),
                }
            }
            _ => return Err(parameters.misfit(key, "one of default, linear, llama3, yarn")),
        };
        let divisors = parameters.get("divisors").map(|list| {
            let list = list.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
            list.ok_or_else(|| parameters.misfit("divisors", "a list of numbers"))
        });
        let amplitude = parameters.number("amplitude")?.unwrap_or(1.0);
        Ok(RotaryConfig { base, scaling, divisors: divisors.transpose()?, amplitude })
    }

    /// The angle between neighboring positions of each pair of a head with `size` elements, in radians, and
    /// the factor of cosines and sines.
    fn frequencies(&self, size: usize) -> (Vec<f64>, f64) {
        let exponent = |pair: usize| 2.0 * pair as f64 / size as f64;
        let divisor = |pair: usize| self.divisors.as_ref().map_or(1.0, |divisors| divisors[pair]);
        let plain = (0..size / 2).map(|pair| self.base.powf(-exponent(pair)) / divisor(pair));
        let (frequencies, factor) = match &self.scaling {
            Scaling::None => (plain.collect(), 1.0),
            &Scaling::Linear { factor } => (plain.map(|frequency| frequency / factor).collect(), 1.0),
            &Scaling::Llama3 { factor, low, high, context } => {
                let scaled = plain.map(|frequency| {
                    let turns = context * frequency / (2.0 * PI);
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    frequency * (kept + (1.0 - kept) / factor)
                });
                (scaled.collect(), 1.0)
            }
            &Scaling::Yarn { factor, fast, slow, context, amplitude, is_rounded } => {
                let last = size as f64 - 1.0;
                // The pair that turns `turns` times within the context.
                let pair =
                    |turns: f64| size as f64 * (context / (turns * 2.0 * PI)).ln() / (2.0 * self.base.ln());
                let (first, end) = match is_rounded {
                    true => (pair(fast).floor(), pair(slow).ceil()),
                    false => (pair(fast), pair(slow)),
                };
                let (first, end) = (first.max(0.0), end.min(last));
                let width = if first == end { 0.001 } else { end - first };
                let scaled = plain.enumerate().map(|(pair, frequency)| {
                    let kept = 1.0 - ((pair as f64 - first) / width).clamp(0.0, 1.0);
                    frequency * (kept + (1.0 - kept) / factor)
                });
                (scaled.collect(), amplitude)
            }
        };
        (frequencies, factor * self.amplitude)
    }
}

/// The cosines and sines of the angles, `[positions, size / 2]`.
pub(crate) struct Rotary {
    cos: Parameter,
    sin: Parameter,
}

impl Rotary {
    /// The tables for `positions` positions and heads of `size` elements, an even number.
    pub(crate) fn new(
        loader: &Loader<'_>,
        config: &RotaryConfig,
        positions: usize,
        size: usize,
    ) -> Result<Rotary> {
        if let Some(divisors) = config.divisors.as_ref().filter(|divisors| divisors.len() != size / 2) {
            let (key, found) = ("divisors".to_owned(), format!("{} numbers", divisors.len()));
            return Err(ModelError::Config { key, found, expected: format!("{} numbers", size / 2) });
        }
        let (frequencies, factor) = config.frequencies(size);
        let table = |name: &str, function: fn(f64) -> f64| {
            let mut values = HostArray::zeros(arrayjit_tensor::DType::F32, [positions, frequencies.len()])?;
            let rows = values.as_mut_slice::<f32>()?.chunks_mut(frequencies.len()).enumerate();
            for (position, row) in rows {
                for (value, frequency) in row.iter_mut().zip(&frequencies) {
                    *value = (function(position as f64 * frequency) * factor) as f32;
                }
            }
            loader.constant(name, values)
        };
        Ok(Rotary { cos: table("cos", f64::cos)?, sin: table("sin", f64::sin)? })
    }

    /// Rotates the heads `[tokens, heads, size]` by the positions of tokens: the pairs of elements i and
    /// i + size / 2.
    pub(crate) fn rotate(&self, heads: &Tensor, places: &TokenPlaces) -> Result<Tensor> {
        let half = heads.shape().last().copied().unwrap_or_default() / 2;
        let (half, place) = (half as i64, places.position());
        let text = format!(
            "y[i,h,a^b] := x[i,h,a] * cosines[{place}, a] - x[i,h,a + half] * sines[{place}, a],
                 x[i,h,b + half] * cosines[{place}, b] + x[i,h,b] * sines[{place}, b]
                 where a < half, b < half"
        );
        let mut inputs: Vec<(&str, &dyn TensorOperand)> =
            vec![("x", heads), ("cosines", &self.cos), ("sines", &self.sin), ("half", &half)];
        inputs.extend(places.operands());
        Ok(heads.graph().apply(&text, &inputs)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Compares with numbers that `transformers` computes.
    #[test]
    fn options_of_yarn() {
        for (key, value, frequency, amplitude) in [
            ("beta_fast", json!(32), 0.456_902_3, 1.138_629_436),
            ("truncate", json!(false), 0.431_178_7, 1.138_629_436),
            ("mscale", json!(0.5), 0.456_902_3, 1.138_629_436),
            ("mscale_all_dim", json!(0.707), 0.456_902_3, 1.036_992_730),
            // Of GGUF files: llama.cpp multiplies the amplitude, and divides the angles first.
            ("amplitude", json!(0.5), 0.456_902_3, 0.569_314_718),
            ("divisors", json!(vec![2.0; 8]), 0.228_451_15, 1.138_629_436),
        ] {
            let mut yarn = json!({
                "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "mscale": 1.0,
                "original_max_position_embeddings": 40
            });
            yarn[key] = value;
            let config = Config(yarn.as_object().unwrap().clone());
            let (frequencies, found) =
                RotaryConfig::of_keys(&config, &Config::default()).unwrap().frequencies(16);
            assert!((frequencies[1] - frequency).abs() < 1e-6, "{key}: {frequencies:?}");
            assert!((found - amplitude).abs() < 1e-6, "{key}: {found}");
        }
    }

    /// llama.cpp multiplies the cosines and sines of Gemma 3's layers with a window too.
    #[test]
    fn local_layers_have_the_amplitude_of_others() {
        let config =
            Config(json!({"amplitude": 0.5, "type": "linear", "factor": 4.0}).as_object().unwrap().clone());
        let local = RotaryConfig::of_keys(&config, &Config::default()).unwrap().local(100.0);
        assert_eq!(local.frequencies(4), (vec![1.0, 0.1], 0.5));
    }
}
