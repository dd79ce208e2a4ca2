//! Reads the text in a picture with the models of PP-OCR: one finds lines of text, one says which lines stand
//! on their heads, and one reads each line.

mod detect;
mod geometry;
mod recognize;
mod tensor;

use std::path::Path;

use anyhow::{Context, Result};
use arrayjit_onnx::{Backend, InferenceSession, Model};
use image::RgbImage;

pub use geometry::Corners;

/// The files of the models in a folder.
const FILES: [&str; 3] =
    ["ch_PP-OCRv4_det_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"];

/// Lines with a lower mean probability of their characters are left out.
const LEAST_SCORE: f32 = 0.5;

/// A line of text in a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The corners in pixels: top left, top right, bottom right, bottom left of the text.
    pub corners: Corners,
    /// The text.
    pub text: String,
    /// The mean probability of the characters, in 0 to 1.
    pub score: f32,
}

/// The three models on a backend.
pub struct Reader {
    detection: InferenceSession,
    classification: InferenceSession,
    recognition: InferenceSession,
    characters: Vec<String>,
}

impl Reader {
    /// Loads the models from a folder with the files of the Python package `rapidocr-onnxruntime`.
    ///
    /// # Errors
    /// A file that is missing or is no such model; an error of the device.
    pub fn load(folder: &Path, backend: &Backend) -> Result<Reader> {
        let load = |file: &str| {
            let path = folder.join(file);
            Model::load(&path).with_context(|| path.display().to_string())
        };
        let [detection, classification, recognition] = FILES.map(load);
        let recognition = recognition?;
        let characters = recognize::characters(&recognition)?;
        Ok(Reader {
            detection: detection?.session(backend)?,
            classification: classification?.session(backend)?,
            recognition: recognition.session(backend)?,
            characters,
        })
    }

    /// The lines of text of a picture, from top to bottom and from left to right.
    ///
    /// # Errors
    /// An error of a model or of the device.
    pub fn read(&self, picture: &RgbImage) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for corners in detect::lines(&self.detection, picture)? {
            let mut strip = detect::strip(picture, &corners);
            let mut corners = corners;
            if recognize::is_upside_down(&self.classification, &strip)? {
                strip = image::imageops::rotate180(&strip);
                corners.rotate_left(2);
            }
            let (text, score) = recognize::text(&self.recognition, &strip, &self.characters)?;
            if score >= LEAST_SCORE {
                lines.push(Line { corners, text, score });
            }
        }
        Ok(lines)
    }
}
