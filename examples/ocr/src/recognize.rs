//! The text of a line, and whether it stands on its head.

use anyhow::{Context, Result};
use arrayjit_onnx::{InferenceSession, Model};
use image::RgbImage;

use crate::tensor;

/// The height of the strips that the models read.
const HEIGHT: u32 = 48;
/// The width of the strips for the direction of text.
const DIRECTION_WIDTH: u32 = 192;
/// The probability from which on a line is turned.
const SURE: f32 = 0.9;
/// Strips to read are at least this wide.
const LEAST_WIDTH: u32 = 320;
/// Strips to read are at most this wide.
const MOST_WIDTH: u32 = 3200;
/// Widths are multiples of this number, so that many strips have the shape for which the model is compiled.
const STEP: u32 = 64;

/// The characters by their class: no character, those of the model's metadata, and the space.
pub(crate) fn characters(model: &Model) -> Result<Vec<String>> {
    let listed = model.metadata().get("character").context("the model has no list of characters")?;
    let listed = listed.lines().map(str::to_owned);
    Ok([String::new()].into_iter().chain(listed).chain([" ".to_owned()]).collect())
}

/// Whether a strip of text has to be turned by 180°.
pub(crate) fn is_upside_down(session: &InferenceSession, strip: &RgbImage) -> Result<bool> {
    let strip = tensor::of_height(strip, HEIGHT, DIRECTION_WIDTH);
    let probabilities = tensor::run(session, &strip, DIRECTION_WIDTH)?.values();
    Ok(probabilities.get(1).is_some_and(|&turned| turned as f32 > SURE))
}

/// The text of a strip, and the mean probability of its characters.
pub(crate) fn text(
    session: &InferenceSession,
    strip: &RgbImage,
    characters: &[String],
) -> Result<(String, f32)> {
    let strip = tensor::of_height(strip, HEIGHT, MOST_WIDTH);
    let width = strip.width().next_multiple_of(STEP).max(LEAST_WIDTH);
    let output = tensor::run(session, &strip, width)?;
    let classes = output.dims().last().copied().unwrap_or(1).max(1);
    Ok(decoded(output.as_slice::<f32>()?, classes, characters))
}

/// The text of the most likely classes of all positions: a class that repeats is one character, and class 0
/// is none, as in connectionist temporal classification.
///
/// Source: Graves, Fernández, Gomez and Schmidhuber, Connectionist temporal classification, 2006
fn decoded(probabilities: &[f32], classes: usize, characters: &[String]) -> (String, f32) {
    let (mut text, mut sum, mut count, mut last) = (String::new(), 0.0, 0, 0);
    for position in probabilities.chunks_exact(classes) {
        let best = position.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let Some((class, probability)) = best else { continue };
        if class != 0 && class != last {
            text.push_str(characters.get(class).map_or("", String::as_str));
            sum += probability;
            count += 1;
        }
        last = class;
    }
    (text, sum / count.max(1) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_classes_are_one_character() {
        let characters = ["", "a", "b"].map(str::to_owned);
        let classes = [0, 1, 1, 0, 1, 2, 2, 0];
        let row = |&class: &usize| (0..3).map(move |at| if at == class { 0.5 } else { 0.25 });
        let probabilities: Vec<f32> = classes.iter().flat_map(row).collect();
        assert_eq!(decoded(&probabilities, 3, &characters), ("aab".to_owned(), 0.5));
        assert_eq!(decoded(&[], 3, &characters), (String::new(), 0.0));
    }
}
