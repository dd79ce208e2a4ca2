//! Rectangles around lines of text.

/// Four corners with their coordinates in pixels: top left, top right, bottom right, bottom left.
pub type Corners = [[f32; 2]; 4];

/// The corners of a rectangle in the order of [`Corners`]: of the two on the left, the upper one is the
/// first.
pub(crate) fn ordered(mut corners: Corners) -> Corners {
    corners.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let [mut left, mut right] = [[corners[0], corners[1]], [corners[2], corners[3]]];
    left.sort_by(|a, b| a[1].total_cmp(&b[1]));
    right.sort_by(|a, b| a[1].total_cmp(&b[1]));
    [left[0], right[0], right[1], left[1]]
}

/// The distance of two points.
pub(crate) fn distance([a, b]: [f32; 2], [c, d]: [f32; 2]) -> f32 {
    (a - c).hypot(b - d)
}

/// The length of the upper and of the left side.
pub(crate) fn sides(corners: &Corners) -> (f32, f32) {
    (distance(corners[0], corners[1]), distance(corners[0], corners[3]))
}

/// The rectangle with all sides moved outwards by `ratio` times its area over its circumference.
pub(crate) fn grown(corners: &Corners, ratio: f32) -> Corners {
    let (width, height) = sides(corners);
    let by = width * height * ratio / (2.0 * (width + height)).max(f32::MIN_POSITIVE);
    let along = |from: [f32; 2], to: [f32; 2], length: f32| {
        let scale = if length > 0.0 { by / length } else { 0.0 };
        [(to[0] - from[0]) * scale, (to[1] - from[1]) * scale]
    };
    let right = along(corners[0], corners[1], width);
    let down = along(corners[0], corners[3], height);
    let moved = |at: [f32; 2], x: f32, y: f32| {
        [at[0] + x * right[0] + y * down[0], at[1] + x * right[1] + y * down[1]]
    };
    [
        moved(corners[0], -1.0, -1.0),
        moved(corners[1], 1.0, -1.0),
        moved(corners[2], 1.0, 1.0),
        moved(corners[3], -1.0, 1.0),
    ]
}

/// Whether a point lies within a rectangle.
pub(crate) fn contains(corners: &Corners, [x, y]: [f32; 2]) -> bool {
    (0..4).all(|at| {
        let ([a, b], [c, d]) = (corners[at], corners[(at + 1) % 4]);
        (c - a) * (y - b) - (d - b) * (x - a) >= 0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: Corners = [[1.0, 1.0], [3.0, 1.0], [3.0, 3.0], [1.0, 3.0]];

    #[test]
    fn corners_are_ordered_from_the_top_left() {
        let [a, b, c, d] = SQUARE;
        assert_eq!(ordered([c, a, d, b]), SQUARE);
        let turned = [[0.0, 2.0], [4.0, 0.0], [5.0, 2.0], [1.0, 4.0]];
        assert_eq!(ordered([turned[2], turned[0], turned[3], turned[1]]), turned);
    }

    #[test]
    fn rectangles_grow_on_all_sides() {
        // The area is 4 and the circumference 8.
        assert_eq!(grown(&SQUARE, 2.0), [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]]);
        assert_eq!(sides(&SQUARE), (2.0, 2.0));
    }

    #[test]
    fn points_are_inside_or_not() {
        assert!(contains(&SQUARE, [2.0, 2.0]) && contains(&SQUARE, [1.0, 3.0]));
        assert!(!contains(&SQUARE, [0.9, 2.0]) && !contains(&SQUARE, [2.0, 3.1]));
    }
}
