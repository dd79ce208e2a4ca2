//! Pictures as arrays of the models.

use anyhow::{Context, Result};
use arrayjit_onnx::{HostArray, InferenceSession};
use image::{RgbImage, imageops};

/// The array `[1, 3, height, width]` of a picture, with values from -1 to 1 in the order blue, green, red.
/// Columns to the right of the picture are 0.
fn array(picture: &RgbImage, width: u32) -> Result<HostArray> {
    let height = picture.height();
    let (rows, columns) = (height as usize, width as usize);
    let mut values = vec![0.0f32; 3 * rows * columns];
    for (x, y, pixel) in picture.enumerate_pixels().filter(|(x, ..)| *x < width) {
        for channel in 0..3 {
            let at = ((2 - channel) * rows + y as usize) * columns + x as usize;
            values[at] = f32::from(pixel[channel]) / 127.5 - 1.0;
        }
    }
    Ok(HostArray::from_slice(&values, [1, 3, rows, columns])?)
}

/// The output of a model that reads one picture.
pub(crate) fn run(session: &InferenceSession, picture: &RgbImage, width: u32) -> Result<HostArray> {
    let input = array(picture, width)?;
    let name = session.model().inputs().first().map(|input| input.name.clone()).context("no input")?;
    session.run(&[(name.as_str(), &input)])?.into_iter().next().context("no output")
}

/// The picture in another size.
pub(crate) fn resized(picture: &RgbImage, width: u32, height: u32) -> RgbImage {
    imageops::resize(picture, width, height, imageops::FilterType::Triangle)
}

/// A strip scaled to this height, and at most this wide.
pub(crate) fn of_height(strip: &RgbImage, height: u32, most: u32) -> RgbImage {
    let width = (f64::from(strip.width()) * f64::from(height) / f64::from(strip.height().max(1))).ceil();
    resized(strip, (width as u32).clamp(1, most), height)
}
