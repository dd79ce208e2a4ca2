//! Reads the digits, scales the pixels to 0..1, and splits off a test set by a seeded shuffle.

use std::{fs::File, path::Path};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;

use crate::network::{CLASSES, PIXELS};

/// Path of the data file in this repository.
pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/digits.csv.gz");

/// Images and their labels.
pub struct Digits {
    /// `[count, 64]`, row-major, 0 to 1.
    pub images: Vec<f32>,
    /// `[count]`, 0 to 9.
    pub labels: Vec<u8>,
}

impl Digits {
    /// The number of images, which equals the number of labels.
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    fn select(&self, rows: &[usize]) -> Digits {
        let images = rows.iter().flat_map(|&r| &self.images[r * PIXELS..(r + 1) * PIXELS]).copied().collect();
        Digits { images, labels: rows.iter().map(|&r| self.labels[r]).collect() }
    }
}

/// Reads a gzipped table with a line per image: 64 intensities from 0 to 16, then the digit.
///
/// # Errors
///
/// The file cannot be read, or a line does not parse; the message names both.
pub fn load(path: &Path) -> Result<Digits> {
    let file = File::open(path).with_context(|| format!("opening the digits at `{}`", path.display()))?;
    let mut table = csv::ReaderBuilder::new().has_headers(false).from_reader(GzDecoder::new(file));
    let mut digits = Digits { images: Vec::new(), labels: Vec::new() };
    for (number, line) in table.deserialize::<Vec<u8>>().enumerate() {
        let line = line.with_context(|| format!("`{}`, line {}", path.display(), number + 1))?;
        ensure!(
            line.len() == PIXELS + 1 && usize::from(line[PIXELS]) < CLASSES,
            "`{}`, line {}: expected {PIXELS} intensities and a digit, found {} numbers",
            path.display(),
            number + 1,
            line.len()
        );
        digits.images.extend(line[..PIXELS].iter().map(|&v| f32::from(v) / 16.0));
        digits.labels.push(line[PIXELS]);
    }
    ensure!(digits.count() > 0, "`{}` holds no image", path.display());
    Ok(digits)
}

/// Shuffles the images and splits them: four fifths for training, a fifth for testing.
pub fn split(digits: &Digits, rng: &mut fastrand::Rng) -> (Digits, Digits) {
    let mut rows: Vec<usize> = (0..digits.count()).collect();
    rng.shuffle(&mut rows);
    let (train, test) = rows.split_at(rows.len() - rows.len() / 5);
    (digits.select(train), digits.select(test))
}
