//! The gradient of every operation against differences in f64.

use arrayjit_tensor::{ConvOptions, DType, Graph, HostArray, PoolOptions, Tensor, TensorError};

use arrayjit::autodiff::{CheckOptions, check};

type Operation = fn(&Tensor) -> Result<Tensor, TensorError>;

/// Checks the gradient of the sum of an operation's elements, each weighted differently, by its operand. The
/// elements of the operand are distinct and not near a kink.
fn is_right(name: &str, shape: &[usize], operation: Operation) {
    let graph = Graph::new();
    let built = graph.input("x", shape.iter().copied(), DType::F32).and_then(|x| {
        let y = operation(&x)?.reshape(&[-1])?;
        let weights = (graph.arange(y.num_elements())?.to_dtype(DType::F32)? * 0.37)?.cos()?;
        Ok((x, (y * weights)?.sum(..)?))
    });
    let (x, loss) = built.unwrap_or_else(|error| panic!("{name}: {error}"));
    let count = x.num_elements();
    // Multiples of an irrational number modulo 1 are spread evenly; no two are near each other.
    let values: Vec<f32> = (0..count).map(|at| (0.17 + at as f32 * 0.618_034) % 1.0 * 2.0 - 0.9).collect();
    let checked = HostArray::from_slice(&values, shape.iter().copied())
        .map_err(|error| error.to_string())
        .and_then(|values| {
            let inputs = [(x.node(), values)];
            check(&graph.program(), loss.node(), &[x.node()], &inputs, &CheckOptions::default())
                .map_err(|error| error.to_string())
        });
    if let Err(error) = checked {
        panic!("{name}: {error}\n{graph:?}");
    }
}

fn are_right(shape: &[usize], operations: &[(&str, Operation)]) {
    for (name, operation) in operations {
        is_right(name, shape, *operation);
    }
}

#[test]
fn functions_of_elements() {
    are_right(
        &[7],
        &[
            ("neg", Tensor::neg),
            ("abs", Tensor::abs),
            ("exp", Tensor::exp),
            ("log", |x| (x + 1.0)?.log()),
            ("log2", |x| (x + 1.0)?.log2()),
            ("sin", Tensor::sin),
            ("cos", Tensor::cos),
            ("tanh", Tensor::tanh),
            ("sqrt", |x| (x + 1.0)?.sqrt()),
            ("rsqrt", |x| (x + 1.0)?.rsqrt()),
            ("reciprocal", Tensor::reciprocal),
            ("square", Tensor::square),
            ("relu", Tensor::relu),
            ("sigmoid", Tensor::sigmoid),
            ("silu", Tensor::silu),
            ("erf", Tensor::erf),
            ("gelu", Tensor::gelu),
            ("gelu_tanh", Tensor::gelu_tanh),
            ("softplus", Tensor::softplus),
            ("clamp", |x| x.clamp(-0.55, 0.52)),
            ("leaky_relu", |x| x.leaky_relu(0.1)),
            ("sub", |x| 1.5 - x),
            ("div", |x| 1.5 / x),
            ("fmod", |x| x.fmod(0.6)),
            ("pow", |x| (x + 1.0)?.pow(1.7)),
            ("maximum", |x| x.maximum((x.sin()? * 1.5)?)),
            ("minimum", |x| x.minimum((x.sin()? * 1.5)?)),
            ("where", |x| x.gt(0.05)?.where_(x.log()?, x.exp()?)),
            ("masked_fill", |x| x.masked_fill(&x.gt(0.05)?, 2.0)),
        ],
    );
}

#[test]
fn reductions() {
    are_right(
        &[3, 4],
        &[
            ("sum", |x| x.sum(1)?.square()),
            ("mean", |x| x.mean_keepdim(0)?.square()),
            ("prod", |x| x.prod(1)),
            ("max", |x| x.max(0)),
            ("min", |x| x.min(1)),
            ("var", |x| x.var(1)),
            ("var_population", |x| x.var_population(0)),
            ("std", |x| x.std(..)),
            ("logsumexp", |x| x.logsumexp(1)),
            ("cumsum", |x| x.cumsum(1)?.square()),
            ("broadcast", |x| x * x.sum_keepdim(0)?),
        ],
    );
    is_right("cumsum of a long axis", &[40], |x| x.cumsum(0)?.square());
}

#[test]
fn layouts() {
    are_right(
        &[4, 6],
        &[
            ("reshape", |x| x.reshape(&[2, 12])),
            ("reshape without a common refinement", |x| x.reshape(&[3, 8])?.square()),
            ("permute", |x| x.permute(&[1, 0])?.square()),
            ("slice", |x| x.slice(1, 1..4)),
            ("slice_step", |x| x.slice_step(1, 0..6, 2)),
            ("select", |x| x.select(0, 2)),
            ("pad", |x| x.pad(&[(1, 2)], 0.5)?.square()),
            ("flip", |x| x.flip(1)),
            ("broadcast_to", |x| x.broadcast_to(&[2, 4, 6])?.square()),
            ("concat", |x| Tensor::concat(&[x, &x.square()?, x], 1)),
            ("stack", |x| Tensor::stack(&[x, &x.exp()?], 0)),
            ("split", |x| Tensor::concat(&x.split(&[1, 5], 1)?.iter().rev().collect::<Vec<_>>(), 1)),
            ("unfold", |x| x.unfold(1, 3, 2)?.square()),
            ("tril", |x| x.tril(1)),
            ("triu", |x| x.triu(1)),
        ],
    );
}

#[test]
fn choices_of_elements() {
    are_right(
        &[4, 3],
        &[
            ("take with repeated positions", |x| x.take(0, &positions(x)?)?.square()),
            ("gather", |x| x.gather(0, &positions(x)?.reshape(&[2, 3])?)?.square()),
            ("scatter_add", |x| {
                x.scatter_add(0, &positions(x)?.reshape(&[2, 3])?, &x.slice(0, 0..2)?)?.square()
            }),
            ("scatter_add of a part", |x| {
                x.scatter_add(1, &x.graph().arange(3)?.unsqueeze(0)?, &x.slice(0, 1..2)?)?.square()
            }),
            ("scatter", |x| x.scatter(1, &x.graph().arange(3)?.unsqueeze(0)?, &x.slice(0, 1..2)?)?.square()),
            ("sort", |x| x.sort(0, true)?.0.square()),
            ("topk", |x| x.topk(2, 1)?.0.square()),
        ],
    );
}

/// The positions 0, 2, 0, 2, 0, 2.
fn positions(x: &Tensor) -> Result<Tensor, TensorError> {
    x.graph().apply("p[i] := 2 * (i % 2) where i < 6", &[])
}

#[test]
fn products_and_normalization() {
    are_right(
        &[3, 4],
        &[
            ("matmul", |x| x.matmul(x.transpose(0, 1)?)),
            ("matmul of a row", |x| x.select(1, 0)?.matmul(x)),
            ("einsum", |x| x.einsum("i k, j k -> k i", x)),
            ("rearrange", |x| x.rearrange("i j -> j")?.square()),
            ("softmax", |x| x.softmax(1)),
            ("softmax of the first axis", |x| x.softmax(0)),
            ("log_softmax", |x| x.log_softmax(-1)),
            ("layer_norm", |x| x.layer_norm(x.select(0, 0)?, x.select(0, 1)?, 1e-3)),
            ("rms_norm", |x| x.rms_norm(x.select(0, 0)?, 1e-3)),
            ("cross_entropy", |x| x.cross_entropy(&x.graph().arange(3)?)),
            ("mse_loss", |x| x.mse_loss(&x.exp()?)),
            ("l1_loss", |x| x.l1_loss(&x.exp()?)),
            ("binary_cross_entropy", |x| x.binary_cross_entropy_with_logits(&x.sigmoid()?)),
        ],
    );
}

#[test]
fn windows() {
    are_right(
        &[2, 2, 5, 5],
        &[
            ("conv2d", |x| x.conv2d(filters(x)?, options().stride(2).padding(1))),
            ("dilated conv2d", |x| x.conv2d(filters(x)?, options().dilation(2))),
            ("grouped conv2d", |x| {
                let filters = filters(x)?.slice(1, 0..1)?;
                x.conv2d(filters, options().groups(2).padding(1))
            }),
            ("conv_transpose2d", |x| {
                x.conv_transpose2d(filters(x)?, options().stride(2).padding(1).output_padding(1))
            }),
            ("max_pool2d", |x| x.max_pool2d(PoolOptions::new(3).stride(2).padding(1))),
            ("avg_pool2d", |x| x.avg_pool2d(2)),
            ("adaptive_avg_pool2d", |x| x.adaptive_avg_pool2d(1, 5)?.square()),
        ],
    );
    is_right("conv1d", &[2, 2, 7], |x| x.conv1d(x.slice(2, 0..3)?, options()));
    is_right("depthwise conv1d", &[2, 2, 5], |x| {
        x.conv1d(x.slice(1, 0..1)?.slice(2, 0..2)?, options().groups(2).padding(1))
    });
    is_right("conv3d", &[1, 1, 2, 3, 2], |x| x.conv3d(x.slice(3, 0..2)?, options().padding(1)));
}

fn options() -> ConvOptions {
    ConvOptions::new()
}

/// Two filters of two channels, three rows and three columns, of elements of an image.
fn filters(image: &Tensor) -> Result<Tensor, TensorError> {
    image.slice(2, 0..3)?.slice(3, 1..4)?.sin()
}
