//! Prints what is said in a WAV file, with times: `transcribe FOLDER FILE [LANGUAGE]`. The file has 16,000
//! samples in a second; several channels are averaged.
#![allow(clippy::print_stdout, reason = "the program prints its result")]

use std::{error::Error, path::Path};

use arrayjit_models::{SpeechModel, TranscribeOptions};
use hound::{SampleFormat, WavReader};

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, file, language @ ..] = &arguments[..] else {
        return Err("usage: transcribe FOLDER FILE [LANGUAGE]".into());
    };
    let (samples, sample_rate) = read_wav(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    let language = language.first().cloned();
    let options =
        TranscribeOptions { sample_rate, language, timestamps: true, ..TranscribeOptions::default() };
    let heard = SpeechModel::load(folder)?.transcribe(&samples, &options)?;
    for segment in heard.segments {
        println!("{:7.2} to {:7.2} s:{}", segment.start, segment.end, segment.text);
    }
    Ok(())
}

/// The samples of a file, from -1 to 1, and their number in a second.
pub(crate) fn read_wav(path: &Path) -> Result<(Vec<f32>, usize), hound::Error> {
    let mut file = WavReader::open(path)?;
    let spec = file.spec();
    let samples: Vec<f32> = match spec.sample_format {
        SampleFormat::Float => file.samples::<f32>().collect::<Result<_, _>>()?,
        SampleFormat::Int => {
            let scale = 2.0_f32.powi(1 - i32::from(spec.bits_per_sample));
            let samples = file.samples::<i32>().map(|sample| Ok(sample? as f32 * scale));
            samples.collect::<Result<_, hound::Error>>()?
        }
    };
    let channels = usize::from(spec.channels.max(1));
    let mean = |frame: &[f32]| frame.iter().sum::<f32>() / channels as f32;
    Ok((samples.chunks_exact(channels).map(mean).collect(), spec.sample_rate as usize))
}
