//! Two-dimensional convolution and max-pooling with stride, dilation and padding, compared with loops.

use arrayjit::DType::F32;

use crate::worked_programs::program::{WorkedProgram, expect, numbers};

/// A geometry: the size of a window, the stride between windows, and the dilation of their elements.
#[derive(Clone, Copy)]
struct Window {
    size: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
}

const WINDOWS: [Window; 6] = [
    Window { size: 3, stride: 1, dilation: 1, padding: 0 },
    Window { size: 3, stride: 1, dilation: 1, padding: 1 },
    Window { size: 3, stride: 2, dilation: 1, padding: 1 },
    Window { size: 3, stride: 1, dilation: 2, padding: 2 },
    Window { size: 2, stride: 3, dilation: 2, padding: 1 },
    Window { size: 5, stride: 2, dilation: 1, padding: 4 },
];
const BATCH: usize = 2;
const CHANNELS: usize = 3;
const FILTERS: usize = 4;
const ROWS: usize = 9;
const COLUMNS: usize = 11;

impl Window {
    fn outputs(self, inputs: usize) -> usize {
        (inputs + 2 * self.padding - self.dilation * (self.size - 1) - 1) / self.stride + 1
    }

    /// The position of element `k` of window `i`, if it is not in the padding.
    fn source(self, i: usize, k: usize, inputs: usize) -> Option<usize> {
        (self.stride * i + self.dilation * k).checked_sub(self.padding).filter(|&at| at < inputs)
    }

    /// The index in the text; `i` and `k` are letters.
    fn index(self, i: &str, k: &str) -> String {
        format!("{}*{i} + {}*{k} - {}", self.stride, self.dilation, self.padding)
    }
}

/// Computes a value for every output row and column by folding over the elements of its window that are
/// inside the image.
fn windows<'a>(
    window: Window,
    fold: impl Fn(&mut dyn Iterator<Item = [usize; 4]>) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    let [rows, columns] = [ROWS, COLUMNS].map(|n| window.outputs(n));
    (0..rows * columns).map(move |at| {
        let elements = (0..window.size * window.size).filter_map(|k| {
            let (kh, kw) = (k / window.size, k % window.size);
            let row = window.source(at / columns, kh, ROWS)?;
            Some([row, window.source(at % columns, kw, COLUMNS)?, kh, kw])
        });
        fold(&mut elements.into_iter())
    })
}

#[test]
fn convolutions() {
    let x = numbers(3, BATCH * CHANNELS * ROWS * COLUMNS);
    for window in WINDOWS {
        let k = window.size;
        let w = numbers(4, FILTERS * CHANNELS * k * k);
        let mut expected = Vec::new();
        for (b, f) in (0..BATCH).flat_map(|b| (0..FILTERS).map(move |f| (b, f))) {
            let (x, w) = (&x, &w);
            let term = move |[row, column, kh, kw]: [usize; 4], c: usize| {
                x[((b * CHANNELS + c) * ROWS + row) * COLUMNS + column]
                    * w[((f * CHANNELS + c) * k + kh) * k + kw]
            };
            expected.extend(windows(window, move |elements| {
                elements.map(|e| (0..CHANNELS).map(|c| term(e, c)).sum::<f64>()).sum()
            }));
        }
        let [rows, columns] = [ROWS, COLUMNS].map(|n| window.outputs(n));
        let text = format!(
            "y[b,f,i,j] :+= pad(x, 0)[b, c, {}, {}] * w[f,c,kh,kw]",
            window.index("i", "kh"),
            window.index("j", "kw")
        );
        let program = WorkedProgram::new(text)
            .given("x", F32, &[BATCH, CHANNELS, ROWS, COLUMNS], &x)
            .given("w", F32, &[FILTERS, CHANNELS, k, k], &w)
            .kept("y", F32, &[BATCH, FILTERS, rows, columns]);
        expect(&program, "y", &expected, 1e-5);
    }
}

#[test]
fn maximum_pooling() {
    let x = numbers(5, BATCH * ROWS * COLUMNS);
    for window in WINDOWS {
        let expected: Vec<f64> = (0..BATCH)
            .flat_map(|b| {
                let x = &x;
                windows(window, move |elements| {
                    elements
                        .map(|[row, column, ..]| x[(b * ROWS + row) * COLUMNS + column])
                        .fold(-1e3, f64::max)
                })
            })
            .collect();
        let [rows, columns] = [ROWS, COLUMNS].map(|n| window.outputs(n));
        // The padding is less than all elements, so it is never the maximum.
        let text = format!(
            "y[b,i,j] :max= pad(x, -1000)[b, {}, {}] where kh < {k}, kw < {k}",
            window.index("i", "kh"),
            window.index("j", "kw"),
            k = window.size
        );
        let program = WorkedProgram::new(text).given("x", F32, &[BATCH, ROWS, COLUMNS], &x).kept(
            "y",
            F32,
            &[BATCH, rows, columns],
        );
        expect(&program, "y", &expected, 0.0);
    }
}

/// A one-dimensional pooling by hand: windows of two elements with stride two; the first begins one element
/// before the array.
#[test]
fn a_pooling_by_hand() {
    let program = WorkedProgram::new("y[i] :max= pad(x, -inf)[2*i + k - 1] where k < 2")
        .given("x", F32, &[5], &[-3.0, -1.0, -4.0, -1.5, -9.0])
        .kept("y", F32, &[3]);
    expect(&program, "y", &[-3.0, -1.0, -1.5], 0.0);
}
