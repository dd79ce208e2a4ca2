//! Lines of text in a picture: the model gives the probability of text for each pixel, and each connected
//! region of likely pixels is a line, within the smallest rectangle.

use anyhow::Result;
use arrayjit_onnx::InferenceSession;
use image::{GrayImage, Luma, Rgb, RgbImage, imageops};
use imageproc::{
    contours::find_contours,
    geometric_transformations::{Interpolation, Projection, warp_into},
    geometry::min_area_rect,
};

use crate::{
    geometry::{Corners, contains, grown, ordered, sides},
    tensor,
};

/// The shorter side of a picture that the model reads, at least.
const LEAST_SIDE: f64 = 736.0;
/// The longer side, at most.
const MOST_SIDE: f64 = 2000.0;
/// The sizes that the model reads are multiples of this number.
const STEP: f64 = 32.0;
/// The probability of text from which on a pixel is part of a line.
const LIKELY: f32 = 0.3;
/// The mean probability within a line, at least.
const LEAST_SCORE: f32 = 0.5;
/// The shorter side of a line, at least, before it grows.
const LEAST_HEIGHT: f32 = 3.0;
/// The model finds the core of a line: it grows by this part of area over circumference.
const GROWTH: f32 = 1.6;
/// Lines whose upper corners differ by less are in one row.
const ROW: f32 = 10.0;

/// The corners of the lines of text, from top to bottom and from left to right.
pub(crate) fn lines(session: &InferenceSession, picture: &RgbImage) -> Result<Vec<Corners>> {
    let (width, height) = size(picture);
    let probabilities = tensor::run(session, &tensor::resized(picture, width, height), width)?;
    let map =
        Map { values: probabilities.as_slice::<f32>()?, width: width as usize, height: height as usize };
    let scale = [picture.width() as f32 / width as f32, picture.height() as f32 / height as f32];
    let most = [picture.width() as f32 - 1.0, picture.height() as f32 - 1.0];
    let placed = |corners: Corners| {
        corners.map(|at| [0, 1].map(|axis| (at[axis] * scale[axis]).round().clamp(0.0, most[axis])))
    };
    let mut lines: Vec<Corners> = map.rectangles().into_iter().map(placed).collect();
    lines.retain(|line| sides(line).0 >= 1.0 && sides(line).1 >= 1.0);
    lines.sort_by(|a, b| a[0][1].total_cmp(&b[0][1]));
    in_rows(&mut lines);
    Ok(lines)
}

/// The size in which the model reads a picture.
fn size(picture: &RgbImage) -> (u32, u32) {
    let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
    let scale =
        (LEAST_SIDE / width.min(height).max(1.0)).max(1.0).min(MOST_SIDE / width.max(height).max(1.0));
    let side = |length: f64| ((length * scale / STEP).round().max(1.0) * STEP) as u32;
    (side(width), side(height))
}

/// Sorts each run of lines that begin at about the same height from left to right.
fn in_rows(lines: &mut [Corners]) {
    let mut start = 0;
    for end in 1..=lines.len() {
        if end == lines.len() || lines[end][0][1] - lines[end - 1][0][1] >= ROW {
            lines[start..end].sort_by(|a, b| a[0][0].total_cmp(&b[0][0]));
            start = end;
        }
    }
}

/// The probabilities of text of all pixels.
struct Map<'a> {
    values: &'a [f32],
    width: usize,
    height: usize,
}

impl Map<'_> {
    fn at(&self, x: usize, y: usize) -> f32 {
        self.values.get(y * self.width + x).copied().unwrap_or(0.0)
    }

    /// The rectangles around regions of likely pixels.
    fn rectangles(&self) -> Vec<Corners> {
        let is_likely = |x: u32, y: u32| {
            // A pixel next to a likely one connects regions.
            let near = [(0, 0), (1, 0), (0, 1), (1, 1)];
            near.iter().any(|&(dx, dy)| {
                let at = x.checked_sub(dx).zip(y.checked_sub(dy));
                at.is_some_and(|(x, y)| self.at(x as usize, y as usize) > LIKELY)
            })
        };
        let mask = GrayImage::from_fn(self.width as u32, self.height as u32, |x, y| {
            Luma([if is_likely(x, y) { 255 } else { 0 }])
        });
        let contours = find_contours::<i32>(&mask);
        let rectangle = |points: &[imageproc::point::Point<i32>]| {
            let corners = min_area_rect(points).map(|point| [point.x as f32, point.y as f32]);
            let core = ordered(corners);
            let (width, height) = sides(&core);
            let is_line = width.min(height) >= LEAST_HEIGHT && self.score(&core) >= LEAST_SCORE;
            is_line.then(|| grown(&core, GROWTH))
        };
        contours
            .iter()
            .filter(|contour| contour.points.len() > 2)
            .filter_map(|c| rectangle(&c.points))
            .collect()
    }

    /// The mean probability within a rectangle.
    fn score(&self, corners: &Corners) -> f32 {
        let range = |axis: usize, size: usize| {
            let ends = corners.map(|at| at[axis].max(0.0) as usize);
            let [first, last] = [ends.iter().min(), ends.iter().max()].map(|end| end.copied().unwrap_or(0));
            first..(last + 1).min(size)
        };
        let (mut sum, mut count) = (0.0, 0);
        for y in range(1, self.height) {
            for x in range(0, self.width).filter(|&x| contains(corners, [x as f32, y as f32])) {
                sum += self.at(x, y);
                count += 1;
            }
        }
        sum / count.max(1) as f32
    }
}

/// The part of a picture within corners, upright. Text that runs downwards is turned.
pub(crate) fn strip(picture: &RgbImage, corners: &Corners) -> RgbImage {
    let (width, height) = sides(corners);
    let (width, height) = (width.round().max(1.0), height.round().max(1.0));
    let target = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)];
    let mut strip = RgbImage::new(width as u32, height as u32);
    if let Some(projection) = Projection::from_control_points(corners.map(|[x, y]| (x, y)), target) {
        let outside = Rgb([0, 0, 0]);
        warp_into(picture, &projection, Interpolation::Bilinear, outside, &mut strip);
    }
    if height >= 1.5 * width { imageops::rotate270(&strip) } else { strip }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_likely_pixels_are_lines() {
        let (width, height) = (64, 48);
        let mut values = vec![0.0f32; width * height];
        for y in 10..20 {
            values[y * width + 8..y * width + 40].fill(0.9);
        }
        // An unlikely region, and one that is too small.
        values[30 * width + 5..30 * width + 8].fill(0.9);
        values[40 * width..40 * width + 60].fill(0.2);
        let found = Map { values: &values, width, height }.rectangles();
        let [corners] = found.as_slice() else { panic!("{found:?}") };
        let core = grown(corners, 0.0);
        assert!(core[0][0] < 8.0 && core[0][1] < 10.0 && core[2][0] > 40.0 && core[2][1] > 20.0, "{core:?}");
    }

    #[test]
    fn lines_of_a_row_are_ordered_from_left_to_right() {
        let line = |x: f32, y: f32| [[x, y], [x + 5.0, y], [x + 5.0, y + 2.0], [x, y + 2.0]];
        let mut lines = [line(50.0, 0.0), line(3.0, 2.0), line(9.0, 40.0)];
        in_rows(&mut lines);
        assert_eq!(lines, [line(3.0, 2.0), line(50.0, 0.0), line(9.0, 40.0)]);
    }
}
