//! A matrix multiplication in f64, fast enough to check the largest cases completely, with other loops than
//! the measured ones.

/// Rows of a tile.
const ROWS: usize = 4;
/// Columns of a tile.
const COLUMNS: usize = 8;

/// `a b` of `[m, k]` and `[k, n]`, row-major.
pub(crate) fn product(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    let mut panel = vec![[0.0; COLUMNS]; k];
    for column in (0..n).step_by(COLUMNS) {
        let width = COLUMNS.min(n - column);
        for (packed, row) in panel.iter_mut().zip(b.chunks_exact(n)) {
            packed[..width].copy_from_slice(&row[column..column + width]);
        }
        for row in (0..m).step_by(ROWS) {
            let height = ROWS.min(m - row);
            // A tile at the end repeats the last row, and its results for the repetitions are dropped.
            let rows: [&[f64]; ROWS] = std::array::from_fn(|i| {
                let row = row + i.min(height - 1);
                &a[row * k..(row + 1) * k]
            });
            for (i, sums) in tile(rows, &panel).iter().take(height).enumerate() {
                c[(row + i) * n + column..][..width].copy_from_slice(&sums[..width]);
            }
        }
    }
    c
}

/// `x` of `[rows, columns]`, transposed.
pub(crate) fn transposed(x: &[f64], columns: usize) -> Vec<f64> {
    let rows = x.len() / columns;
    (0..x.len()).map(|i| x[(i % rows) * columns + i / rows]).collect()
}

#[cfg(target_arch = "x86_64")]
fn tile(rows: [&[f64]; ROWS], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
    #[target_feature(enable = "avx2,fma")]
    fn wide(rows: [&[f64]; ROWS], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
        sums(rows, panel, f64::mul_add)
    }
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: both features were just detected.
        unsafe { wide(rows, panel) }
    } else {
        sums(rows, panel, |x, y, sum| x * y + sum)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn tile(rows: [&[f64]; ROWS], panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; ROWS] {
    sums(rows, panel, f64::mul_add)
}

#[inline(always)]
fn sums(
    rows: [&[f64]; ROWS],
    panel: &[[f64; COLUMNS]],
    add: impl Fn(f64, f64, f64) -> f64,
) -> [[f64; COLUMNS]; ROWS] {
    let mut sums = [[0.0; COLUMNS]; ROWS];
    let rows = rows.map(|row| &row[..panel.len()]);
    for (k, packed) in panel.iter().enumerate() {
        for (row, sums) in rows.iter().zip(&mut sums) {
            for (sum, &y) in sums.iter_mut().zip(packed) {
                *sum = add(row[k], y, *sum);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_shapes_are_products() {
        let [m, k, n] = [7, 5, 11];
        let a: Vec<f64> = (0..m * k).map(|i| i as f64 - 9.0).collect();
        let b: Vec<f64> = (0..k * n).map(|i| 3.0 - i as f64).collect();
        let element = |i: usize| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum::<f64>();
        assert_eq!(product(&a, &b, [m, k, n]), (0..m * n).map(element).collect::<Vec<_>>());
        assert_eq!(transposed(&transposed(&a, k), m), a);
        assert_eq!(transposed(&a, k)[1], a[k]);
    }
}
