//! Convolution and pooling, from the text and from einsum text, against loops in Rust.

use crate::{program, window::Window};

use assignment_text::parse;
use assignments::{AccumOp, Assignments, builder};
use lowered_ir::ir::BinaryOp;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use program::{Machine, f32s, values};
use proptest::prelude::*;
use tnode::{DType, Padding, TensorNode};

/// One axis of a convolution.
#[derive(Clone, Copy, Debug)]
struct Axis {
    size: usize,
    window: Window,
    padded: bool,
}

impl Axis {
    fn positions(self) -> usize {
        if self.padded {
            self.window.padded_positions(self.size)
        } else {
            self.window.valid_positions(self.size)
        }
    }

    /// The number of elements by which the first window begins before the axis.
    fn left(self) -> usize {
        if self.padded { self.window.padding(self.size).0 } else { 0 }
    }

    /// The element of the axis under kernel element `k` of the window at position `o`; `None` outside of the
    /// axis.
    fn at(self, o: usize, k: usize) -> Option<usize> {
        let at = (o * self.window.stride + k * self.window.dilation).checked_sub(self.left())?;
        (at < self.size).then_some(at)
    }

    fn text(self, o: &str, k: &str) -> String {
        format!("{}*{o} + {}*{k} - {}", self.window.stride, self.window.dilation, self.left())
    }

    fn einsum(self, o: &str, k: &str) -> String {
        let mark = if self.padded { "=" } else { "<" };
        format!("{}*{o}{mark}+{}*{k}", self.window.stride, self.window.dilation)
    }
}

fn axis() -> impl Strategy<Value = Axis> {
    (1usize..8, 1usize..4, 1usize..4, 1usize..4, any::<bool>()).prop_map(
        |(size, kernel, dilation, stride, padded)| {
            let window = Window { kernel, dilation, stride };
            Axis { size: size.max(window.span()), window, padded }
        },
    )
}

/// Calls `f` for every position and kernel element of one channel: with the offset of the position, of the
/// kernel element, and of the image element if there is one.
fn each(h: Axis, w: Axis, mut f: impl FnMut(usize, usize, Option<usize>)) {
    for (oh, ow) in (0..h.positions()).flat_map(|oh| (0..w.positions()).map(move |ow| (oh, ow))) {
        for (kh, kw) in (0..h.window.kernel).flat_map(|kh| (0..w.window.kernel).map(move |kw| (kh, kw))) {
            let image = h.at(oh, kh).zip(w.at(ow, kw)).map(|(y, x)| y * w.size + x);
            f(oh * w.positions() + ow, kh * w.window.kernel + kw, image);
        }
    }
}

/// The values of a node after a run of the lowered and of the optimized routine, which agree.
fn run(program: &Assignments, inputs: &[(&TensorNode, &[f64])], node: &TensorNode) -> Vec<f64> {
    let results = [false, true].map(|optimized| {
        let mut machine = Machine::new(program);
        if optimized {
            let routine = optimize(machine.lowered.routine.clone(), &OptimizeSettings::default());
            machine.lowered.routine = routine.unwrap_or_else(|error| panic!("{error}")).routine;
        }
        inputs.iter().for_each(|(node, values)| machine.set(node, values));
        machine.run(&[]);
        machine.get(node)
    });
    assert_eq!(results[0], results[1]);
    results[0].clone()
}

/// The image of `h` by `w` elements per channel, with margins that hold a number which must not reach any
/// result.
fn with_margins(h: Axis, w: Axis, channels: usize, values: &[f64]) -> (TensorNode, Vec<f64>) {
    let margin = |axis: Axis| if axis.padded { axis.window.padding(axis.size) } else { (0, 0) };
    let (mh, mw) = (margin(h), margin(w));
    let node = TensorNode::builder("x").dims([channels, h.size, w.size]).dtype(DType::F32);
    let node = node.padding(Padding::new([(0, 0), mh, mw], None)).build().expect("small");
    let (rows, width) = (mh.0 + h.size + mh.1, mw.0 + w.size + mw.1);
    let mut all = vec![999.0; channels * rows * width];
    for (at, &value) in values.iter().enumerate() {
        let (c, y, x) = (at / (h.size * w.size), at / w.size % h.size, at % w.size);
        all[(c * rows + y + mh.0) * width + x + mw.0] = value;
    }
    (node, all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn convolutions_are_those_of_nested_loops(h in axis(), w in axis(), channels in 1usize..3, outputs in 1usize..3) {
        let (image, kernel) = (h.size * w.size, h.window.kernel * w.window.kernel);
        let (xs, ws) = (values(channels * image, 3), values(outputs * channels * kernel, 5));
        let out = h.positions() * w.positions();
        let mut expected = vec![0.0; outputs * out];
        for (o, c) in (0..outputs).flat_map(|o| (0..channels).map(move |c| (o, c))) {
            each(h, w, |at, k, pixel| {
                let pixel = pixel.map_or(0.0, |pixel| xs[c * image + pixel]);
                expected[o * out + at] += pixel * ws[(o * channels + c) * kernel + k];
            });
        }

        let weights = f32s("w", &[outputs, channels, h.window.kernel, w.window.kernel]);
        let y = f32s("y", &[outputs, h.positions(), w.positions()]);
        let index = format!("[c, {}, {}]", h.text("i", "k"), w.text("j", "l"));
        // Guarded reads of a node without margins.
        let bare = f32s("x", &[channels, h.size, w.size]);
        let text = format!("y[o,i,j] :+= pad(x, 0){index} * w[o,c,k,l]");
        let guarded = parse(&text, &[bare.clone(), weights.clone(), y.clone()]).expect("fits");
        prop_assert_eq!(&run(&guarded, &[(&bare, &xs), (&weights, &ws)], &y), &expected);
        // Plain reads of a node with margins.
        let (x, padded) = with_margins(h, w, channels, &xs);
        let text = format!("y[o,i,j] :+= x{index} * w[o,c,k,l]");
        let plain = parse(&text, &[x.clone(), weights.clone(), y.clone()]).expect("fits");
        prop_assert_eq!(&run(&plain, &[(&x, &padded), (&weights, &ws)], &y), &expected);
        // The same convolution from einsum text.
        let spec = format!("c,{},{}; o,c,k,l => o,i,j", h.einsum("i", "k"), w.einsum("j", "l"));
        let einsum = builder::einsum(&spec, &y, AccumOp::Add, BinaryOp::Mul, [&x, &weights]).expect("fits");
        prop_assert_eq!(&run(&einsum, &[(&x, &padded), (&weights, &ws)], &y), &expected);
        // Without margins, windows read 0 outside.
        let operands = [&bare, &weights];
        let einsum = builder::einsum(&spec, &y, AccumOp::Add, BinaryOp::Mul, operands).expect("fits");
        prop_assert_eq!(&run(&einsum, &[(&bare, &xs), (&weights, &ws)], &y), &expected);
    }

    #[test]
    fn pools_are_those_of_nested_loops(h in axis(), w in axis()) {
        let xs = values(h.size * w.size, 7);
        let mut expected = vec![f64::NEG_INFINITY; h.positions() * w.positions()];
        each(h, w, |at, _, pixel| {
            let pixel = pixel.map_or(f64::NEG_INFINITY, |pixel| xs[pixel]);
            expected[at] = expected[at].max(pixel);
        });
        let y = f32s("y", &[h.positions(), w.positions()]);
        let (x, padded) = with_margins(h, w, 1, &xs);
        let (kh, kw) = (h.window.kernel, w.window.kernel);
        let text = format!("y[i,j] :max= x[0, {}, {}] where k < {kh}, l < {kw}", h.text("i", "k"), w.text("j", "l"));
        let pool = parse(&text, &[x.clone(), y.clone()]).expect("fits");
        prop_assert_eq!(run(&pool, &[(&x, &padded)], &y), expected);
    }
}

/// A maximum reads its neutral element where a window reaches beyond a node without margins.
#[test]
fn windows_of_a_maximum_read_nothing_outside() {
    let (x, y) = (f32s("x", &[4, 3]), f32s("y", &[4]));
    let diagonals = builder::permute("o=+k,k => o", &y, AccumOp::Max, &x).expect("fits");
    let xs: Vec<f64> = (1..=12).map(|i| -f64::from(i)).collect();
    // Column 0 is read one row above, column 2 one row below.
    assert_eq!(run(&diagonals, &[(&x, &xs)], &y), [-2.0, -1.0, -4.0, -7.0]);
}

#[test]
fn what_a_window_needs_is_what_einsum_text_says() {
    use assignments::indexing::einsum;
    use tnode::Dims;
    for (size, kernel, dilation, stride) in
        [(9, 3, 1, 1), (9, 3, 2, 1), (10, 4, 1, 2), (7, 2, 3, 3), (5, 1, 1, 2)]
    {
        let window = Window { kernel, dilation, stride };
        let (dims, out) = ([size, kernel].map(|d| Dims::from_slice(&[d])), window.padded_positions(size));
        let spec = format!("{stride}*o=+{dilation}*k; k => o");
        let resolved = einsum::resolve(&spec, &dims, &[out]).expect("fits");
        assert_eq!(resolved.padding[0], [window.padding(size)], "{window:?} {size}");
        let valid = format!("{stride}*o<+{dilation}*k; k => o");
        assert!(einsum::resolve(&valid, &dims, &[window.valid_positions(size)]).is_ok());
        let error =
            einsum::resolve(&valid, &dims, &[window.valid_positions(size) + 1]).expect_err("one too many");
        assert!(error.to_string().contains("the index takes values"), "{error}");
    }
}
