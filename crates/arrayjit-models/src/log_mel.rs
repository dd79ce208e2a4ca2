//! Log-mel features of sound: the energy in bands of frequencies, which are as wide as they sound.

use std::f64::consts::{LN_10, PI};

use arrayjit_tensor::{DType, Executable, Graph, HostArray, ModelState, Parameter, TensorOperand};

use crate::{
    config::Config,
    error::{ModelError, Result},
    loader::Loader,
};

/// The sizes of windows and frames, in samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogMelConfig {
    /// Samples in a second.
    pub(crate) rate: usize,
    /// Samples of a window of sound that features are computed of.
    pub(crate) window: usize,
    /// Samples of a frame.
    frame: usize,
    /// Samples from a frame to the next one.
    pub(crate) hop: usize,
    /// Bands of frequencies.
    pub(crate) bands: usize,
}

impl LogMelConfig {
    /// Reads `preprocessor_config.json`; missing keys have the values of the first Whisper models.
    pub(crate) fn read(config: &Config) -> Result<LogMelConfig> {
        let size = |key: &str, default: usize| Ok::<_, ModelError>(config.size(key)?.unwrap_or(default));
        let (rate, seconds) = (size("sampling_rate", 16_000)?, size("chunk_length", 30)?);
        let (frame, hop) = (size("n_fft", 400)?, size("hop_length", 160)?);
        let window = rate.saturating_mul(seconds);
        if window > MAX_WINDOW {
            return Err(config.misfit("chunk_length", format!("a window of at most {MAX_WINDOW} samples")));
        }
        if frame < 2 || frame > window || frame > MAX_FRAME {
            let expected = format!("from 2 to the {window} samples of a window, at most {MAX_FRAME}");
            return Err(config.misfit("n_fft", expected));
        }
        Ok(LogMelConfig { rate, window, frame, hop, bands: size("feature_size", 80)? })
    }

    /// The number of frames of a window.
    pub(crate) fn frames(&self) -> usize {
        self.window / self.hop
    }

    /// The number of frequencies of a frame.
    fn frequencies(&self) -> usize {
        self.frame / 2 + 1
    }
}

/// The most samples of a window.
const MAX_WINDOW: usize = 1 << 24;
/// The most samples of a frame: tables have a row of that length for each frequency.
const MAX_FRAME: usize = 4096;

/// The greatest frequency of a band, in Hz.
const MAX_FREQUENCY: f64 = 8000.0;

/// The compiled computation of features.
pub(crate) struct LogMel {
    config: LogMelConfig,
    routine: Executable,
}

/// The tables that features are computed with.
pub(crate) struct LogMelTables {
    config: LogMelConfig,
    /// Waves times the window of Hann, `[frequencies, frame]`.
    cosines: Parameter,
    sines: Parameter,
    /// The weight of each frequency in a band, `[bands, frequencies]`.
    filters: Parameter,
}

impl LogMelTables {
    pub(crate) fn new(loader: &Loader<'_>, config: LogMelConfig) -> Result<LogMelTables> {
        let loader = loader.sub("log_mel");
        let (frame, frequencies) = (config.frame, config.frequencies());
        let hann = |at: usize| 0.5 - 0.5 * (2.0 * PI * at as f64 / frame as f64).cos();
        let waves = |name: &str, wave: fn(f64) -> f64| {
            // The product is reduced first, since it is exact as an integer.
            let angle = |k: usize, at: usize| 2.0 * PI * (k * at % frame) as f64 / frame as f64;
            let values = table(frequencies, frame, |k, at| hann(at) * wave(angle(k, at)));
            loader.constant(name, values?)
        };
        let points = band_edges(config.bands);
        let step = config.rate as f64 / 2.0 / (frequencies - 1) as f64;
        let filters = table(config.bands, frequencies, |band, k| {
            let [low, center, high] = [points[band], points[band + 1], points[band + 2]];
            let frequency = step * k as f64;
            let rising = (frequency - low) / (center - low);
            let falling = (high - frequency) / (high - center);
            rising.min(falling).max(0.0) * 2.0 / (high - low)
        });
        Ok(LogMelTables {
            config,
            cosines: waves("cosines", f64::cos)?,
            sines: waves("sines", f64::sin)?,
            filters: loader.constant("filters", filters?)?,
        })
    }

    /// Compiles the levels `[bands, frames]` of a window with margins. All values but the result are in f64,
    /// since logarithms show the rounding of small energies beside large ones.
    pub(crate) fn compile(self, state: &ModelState) -> Result<LogMel> {
        let config = self.config;
        let graph = Graph::new();
        let samples = graph.input("samples", [config.window + config.frame], DType::F64)?;
        let text = format!(
            "real[f,k] :+= x[{hop}*f + n] * cosines[k,n] where f < {frames}
             imaginary[f,k] :+= x[{hop}*f + n] * sines[k,n] where f < {frames}
             energy[f,k] := real[f,k] * real[f,k] + imaginary[f,k] * imaginary[f,k]
             mel[m,f] :+= filters[m,k] * energy[f,k]
             y[m,f] := f32(log(max(mel[m,f], 1e-10)) / {LN_10:?})",
            hop = config.hop,
            frames = config.frames(),
        );
        let inputs: [(&str, &dyn TensorOperand); 4] =
            [("x", &samples), ("cosines", &self.cosines), ("sines", &self.sines), ("filters", &self.filters)];
        let features = graph.apply(&text, &inputs)?;
        Ok(LogMel { config, routine: graph.compile_named("log_mel", state, &[&features])? })
    }
}

/// The levels of a recording, which features are made of.
pub(crate) struct Recording {
    bands: usize,
    /// The frames of a window.
    window: usize,
    /// `[bands, frames]` in rows.
    levels: Vec<f32>,
    most: f32,
}

impl LogMel {
    /// Computes the levels of samples, which zeros fill up to a window.
    pub(crate) fn recording(&self, samples: &[f32]) -> Result<Recording> {
        let LogMelConfig { window, frame, hop, bands, .. } = self.config;
        let total = samples.len().max(window);
        let (frames, of_window) = (total / hop, self.config.frames());
        // A frame is around its position, so there are samples before the first and behind the last one.
        let mirrored = |at: usize| match at.checked_sub(frame / 2) {
            Some(at) => at.min((2 * (total - 1)).saturating_sub(at)),
            None => frame / 2 - at,
        };
        let sample = |at: usize| samples.get(mirrored(at)).map_or(0.0, |&sample| f64::from(sample));
        let mut levels = vec![0.0; bands * frames];
        for first in (0..frames).step_by(of_window) {
            let start = first * hop;
            let padded: Vec<f64> = (start..start + window + frame).map(sample).collect();
            let padded = HostArray::from_slice(&padded, [padded.len()])?;
            let results = self.routine.run(&[("samples", &padded)])?;
            let count = of_window.min(frames - first);
            for (row, found) in levels.chunks_mut(frames).zip(results[0].as_slice::<f32>()?.chunks(of_window))
            {
                row[first..first + count].copy_from_slice(&found[..count]);
            }
        }
        let most = levels.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        Ok(Recording { bands, window: of_window, levels, most })
    }

    /// The features `[1, bands, frames]` of the first window of samples, which zeros fill up.
    pub(crate) fn features(&self, samples: &[f32]) -> Result<HostArray> {
        self.recording(&samples[..samples.len().min(self.config.window)])?.features(0)
    }
}

impl Recording {
    /// The features `[1, bands, frames]` of the window from a frame. Features behind the recording are 0.
    pub(crate) fn features(&self, start: usize) -> Result<HostArray> {
        let mut features = HostArray::zeros(DType::F32, [1, self.bands, self.window])?;
        let frames = self.levels.len() / self.bands;
        let rows = features.as_mut_slice::<f32>()?.chunks_mut(self.window);
        for (row, levels) in rows.zip(self.levels.chunks(frames)) {
            let levels = levels.get(start..).unwrap_or_default();
            row.iter_mut().zip(levels).for_each(|(feature, level)| {
                *feature = (level.max(self.most - 8.0) + 4.0) / 4.0;
            });
        }
        Ok(features)
    }
}

/// A matrix in f64.
fn table(rows: usize, columns: usize, value: impl Fn(usize, usize) -> f64) -> Result<HostArray> {
    let mut values = HostArray::zeros(DType::F64, [rows, columns])?;
    for (row, elements) in values.as_mut_slice::<f64>()?.chunks_mut(columns).enumerate() {
        elements.iter_mut().enumerate().for_each(|(column, element)| *element = value(row, column));
    }
    Ok(values)
}

/// The edges of bands in Hz: band `i` rises from edge `i` to edge `i + 1` and falls to edge `i + 2`. The
/// edges are evenly spaced on Slaney's mel scale, which is linear up to 1 kHz and logarithmic above.
fn band_edges(bands: usize) -> Vec<f64> {
    let (border, border_mel, step) = (1000.0, 15.0, 6.4_f64.ln() / 27.0);
    let most = border_mel + (MAX_FREQUENCY / border).ln() / step;
    let frequency = |mel: f64| match mel < border_mel {
        true => mel * border / border_mel,
        false => border * (step * (mel - border_mel)).exp(),
    };
    (0..bands + 2).map(|at| frequency(most * at as f64 / (bands + 1) as f64)).collect()
}
