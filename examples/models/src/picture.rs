//! Writes arrays as PNG files.

use std::{fs::File, io::BufWriter, path::Path};

use anyhow::{Context, Result, ensure};

/// The colors of a scale from 0 to 1, at equal distances: black, blue, red, yellow, white.
const SCALE: [[f32; 3]; 5] = [[0., 0., 0.], [0.1, 0.1, 0.6], [0.8, 0.15, 0.2], [1., 0.8, 0.2], [1., 1., 1.]];

/// The color of a value. Values outside of 0 to 1 have the color of the nearest end.
pub fn color(value: f64) -> [u8; 3] {
    let position = value.clamp(0., 1.) as f32 * (SCALE.len() - 1) as f32;
    let below = (position as usize).min(SCALE.len() - 2);
    let part = position - below as f32;
    let mix = |channel: usize| SCALE[below][channel] * (1. - part) + SCALE[below + 1][channel] * part;
    [0, 1, 2].map(|channel| (mix(channel) * 255.).round() as u8)
}

/// Writes values of 0 to 1, `width` per row, as an image in colors.
///
/// # Errors
///
/// Rows of unequal length, or a file that cannot be written; the message has the path.
pub fn write_png(path: &Path, width: usize, values: &[f64]) -> Result<()> {
    ensure!(width > 0 && values.len().is_multiple_of(width), "{} values in rows of {width}", values.len());
    let place = || format!("writing `{}`", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(place)?;
    }
    let file = BufWriter::new(File::create(path).with_context(place)?);
    let mut encoder = png::Encoder::new(file, width as u32, (values.len() / width) as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let bytes: Vec<u8> = values.iter().flat_map(|&value| color(value)).collect();
    let mut writer = encoder.write_header().with_context(place)?;
    writer.write_image_data(&bytes).with_context(place)?;
    writer.finish().with_context(place)
}
