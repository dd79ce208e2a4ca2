//! Convolutions and their gradients have the bits of the interpreter, with the layouts, padded copies and
//! transposed products that their shapes get.

use arrayjit::settings::Settings;
use arrayjit::{Backend, HostArray, Nodes};

/// A convolution of square images.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    channels: [usize; 2],
    side: usize,
    window: usize,
    stride: usize,
    padding: usize,
}

const SHAPES: [Shape; 7] = [
    Shape { batch: 1, channels: [8, 16], side: 9, window: 3, stride: 1, padding: 1 },
    // As many channels as images, so that loops over either have equal lengths.
    Shape { batch: 8, channels: [8, 8], side: 5, window: 3, stride: 1, padding: 1 },
    Shape { batch: 10, channels: [3, 12], side: 8, window: 3, stride: 2, padding: 1 },
    // Few output channels, whose axis is not the last one in memory.
    Shape { batch: 2, channels: [1, 6], side: 10, window: 5, stride: 1, padding: 2 },
    Shape { batch: 1, channels: [6, 16], side: 9, window: 5, stride: 1, padding: 0 },
    Shape { batch: 2, channels: [4, 24], side: 7, window: 1, stride: 2, padding: 0 },
    Shape { batch: 2, channels: [5, 7], side: 6, window: 3, stride: 1, padding: 4 },
];

impl Shape {
    /// A loss of two convolutions in a row, and the gradients by images and filters.
    fn text(self) -> String {
        let Shape { batch, channels: [inputs, outputs], side, window, stride, padding } = self;
        format!(
            "input x f32[{batch}, {inputs}, {side}, {side}]
            param f f32[{outputs}, {inputs}, {window}, {window}], e f32[{inputs}, {outputs}, {window}, {window}]
            h[b,o,i,j] := relu(conv2d(x[b,c,h,w], f[o,c,p,q], stride = {stride}, padding = {padding})[b,o,i,j])
            y[b,o,i,j] := conv2d(h[b,c,h,w], e[o,c,p,q], stride = 1, padding = {})
            loss :+= y[b,o,i,j] * y[b,o,i,j]
            grad loss by x, f, e
            e[o,c,p,q] -= 0.01 * e.grad[o,c,p,q]
            keep y, x.grad, f.grad",
            window / 2
        )
    }
}

/// The bits of the outputs, the gradients and the updated filters.
fn results(backend: &str, threads: usize, shape: Shape) -> Vec<Vec<u64>> {
    let mut settings = Settings::default();
    settings.threads = threads;
    let backend = Backend::open_with(backend, &settings).expect("every backend of this build opens");
    let code = backend.compile(&shape.text(), &Nodes::default()).expect("a valid text");
    let mut context = backend.context().expect("a stream");
    for (seed, name) in ["x", "f", "e"].into_iter().enumerate() {
        let node = code.node(name).expect("it is in the text");
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let count = node.num_elems().expect("its dimensions are known");
        let values: Vec<f32> = (0..count).map(|_| random.f32() * 2.0 - 1.0).collect();
        let array = HostArray::from_slice(&values, node.dims().expect("known")).expect("as many");
        context = context.init_from_host(node, &array).expect("memory");
    }
    let routine = code.link(&context).expect("all nodes are there");
    routine.run(&[]).expect("scheduled").sync().expect("ran");
    let bits = |name| {
        let array = routine.context().to_host(code.node(name).expect("kept")).expect("in the context");
        array.values().into_iter().map(f64::to_bits).collect()
    };
    ["y", "x.grad", "f.grad", "e"].map(bits).to_vec()
}

#[test]
fn convolutions_and_their_gradients_have_the_bits_of_the_interpreter() {
    for shape in SHAPES {
        let expected = results("interpreter", 1, shape);
        assert!(expected.iter().flatten().any(|&bits| f64::from_bits(bits) != 0.0), "{shape:?}");
        for (backend, threads) in [("inline", 1), ("multicore", 2)] {
            assert!(results(backend, threads, shape) == expected, "{backend} differs for {shape:?}");
        }
    }
}
