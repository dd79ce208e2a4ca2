//! Classifies handwritten digits by a network that `build.rs` trained and compiled. The program has no
//! compiler, and maps no executable memory: kernels and weights are in its file like any other code and data.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use arrayjit_rt::{Aligned, Arena};

#[allow(unsafe_code, reason = "the module calls functions of an object file")]
mod network {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

use network::Digits;

static IMAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/images"));
static LABELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/labels"));
static EXPECTED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/expected"));

const PIXELS: usize = 64;
const CLASSES: usize = 10;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "this is what the program does")]
fn run() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let digits = Digits::new()?;
    let mut arena = Arena::new();
    let mut image = Aligned([0f32; PIXELS]);
    let mut scores = Aligned([0f32; CLASSES]);
    let (mut correct, mut first) = (0, None);
    for (at, &label) in LABELS.iter().enumerate() {
        image.0 = floats(IMAGES, at);
        digits.classify(&image, &mut scores, &mut arena)?;
        first.get_or_insert_with(|| start.elapsed());
        let expected: [f32; CLASSES] = floats(EXPECTED, at);
        if scores.map(f32::to_bits) != expected.map(f32::to_bits) {
            return Err(format!("image {at}: {:?}, expected {expected:?}", scores.0).into());
        }
        correct += usize::from(best(&scores) == usize::from(label));
    }
    let (count, first) = (LABELS.len(), first.unwrap_or_default().as_micros());
    println!("{correct} of {count} images are classified correctly, the first {first} µs after the start");
    Ok(())
}

/// The numbers of an item in a file.
fn floats<const N: usize>(file: &[u8], item: usize) -> [f32; N] {
    let mut numbers =
        file.chunks_exact(4).skip(item * N).map(|bytes| bytes.try_into().map_or(0., f32::from_le_bytes));
    std::array::from_fn(|_| numbers.next().unwrap_or_default())
}

/// The class with the greatest score.
fn best(scores: &[f32; CLASSES]) -> usize {
    (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or_default()
}
