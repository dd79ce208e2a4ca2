//! The bandwidth of products of a few rows with weights of several types: the bytes of the weights that a run
//! reads in a second, and their share of the bandwidth of a plain sum over as many threads.
//!
//! `cargo run --release -p arrayjit-tensor --example product_bandwidth [--threads N] [NAME…]`, where a name
//! is a part of a type or of a shape, such as `Q4_0` or `2048x2048`. A run multiplies by several matrices
//! that no cache holds together. Runs take turns with the sum; shares are medians of ratios.
#![allow(clippy::print_stdout, reason = "the program prints its result")]

use std::{error::Error, sync::LazyLock, time::Instant};

use arrayjit_tensor::{
    Backend, BlockFormat, DType, Graph, HostArray, Init, ModelState, Parameter, Params, QuantizedFormat,
    Settings, Tensor, TensorError, nn::Linear, nn::Module,
};

/// Bytes that are read in a run, at least.
const FOOTPRINT: usize = 160 << 20;
const ROUNDS: usize = 9;
/// Outputs and inputs.
const SHAPES: [[usize; 2]; 5] = [[1536, 576], [2048, 2048], [4096, 4096], [2048, 8192], [49152, 576]];
const ROWS: [usize; 4] = [1, 2, 4, 8];

/// A type of weights.
#[derive(Clone, Copy, Debug)]
enum Storage {
    Floats(DType),
    Blocks(BlockFormat),
}

const STORAGES: [Storage; 6] = [
    Storage::Floats(DType::F32),
    Storage::Floats(DType::Bf16),
    Storage::Floats(DType::F16),
    Storage::Blocks(BlockFormat::Q8_0),
    Storage::Blocks(BlockFormat::Q4_0),
    Storage::Blocks(BlockFormat::Q4K),
];

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let mut names = Vec::new();
    let mut threads = 1;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = arguments.next().unwrap_or_default().parse()?,
            _ => names.push(argument),
        }
    }
    let mut settings = Settings::load()?.settings;
    settings.threads = threads;
    let backend = Backend::open_with(if threads == 1 { "inline" } else { "multicore" }, &settings)?;
    let memory = vec![1u64; FOOTPRINT / 8];
    println!("{threads} threads; weights in GB/s, and in % of the bandwidth of a sum, for {ROWS:?} rows");
    for storage in STORAGES {
        for [outputs, inputs] in SHAPES {
            let name = format!("{storage:?} {outputs}x{inputs}");
            if !names.is_empty() && !names.iter().any(|part| name.contains(part)) {
                continue;
            }
            if matches!(storage, Storage::Blocks(BlockFormat::Q4K)) && !inputs.is_multiple_of(256) {
                continue;
            }
            print!("{name:<28}");
            for rows in ROWS {
                let [rate, share] = measure(&backend, storage, [rows, outputs, inputs], &memory, threads)?;
                print!(" {rate:6.1} {share:4.0} %");
            }
            println!();
        }
    }
    Ok(())
}

/// GB/s and the percentage of the bandwidth of a sum.
fn measure(
    backend: &Backend,
    storage: Storage,
    [rows, outputs, inputs]: [usize; 3],
    memory: &[u64],
    threads: usize,
) -> Result<[f64; 2], Box<dyn Error>> {
    let params = Params::new(1);
    let mut matrices = Vec::new();
    let mut bytes = 0;
    while bytes < FOOTPRINT {
        let matrix = weights(&params.sub(matrices.len()), storage, [outputs, inputs])?;
        bytes += matrix.iter().map(bytes_of).sum::<usize>();
        matrices.push(matrix);
    }
    let state = ModelState::new(backend, &params)?;
    let graph = Graph::new();
    let products = matrices.iter().enumerate().map(|(at, matrix)| -> Result<Tensor, TensorError> {
        let x = graph.input(&format!("x{at}"), [rows, inputs], DType::F32)?;
        match storage {
            Storage::Floats(_) => Linear { weight: matrix[0].clone(), bias: None }.forward(&x),
            Storage::Blocks(blocks) => {
                x.quantized_linear(QuantizedFormat::of_blocks(blocks, [outputs, inputs])?, matrix)
            }
        }
    });
    let products: Vec<Tensor> = products.collect::<Result<_, _>>()?;
    let model = graph.compile(&state, &products.iter().collect::<Vec<_>>())?;
    let x = HostArray::zeros(DType::F32, [rows, inputs])?;
    let names: Vec<String> = (0..matrices.len()).map(|at| format!("x{at}")).collect();
    let given: Vec<(&str, &HostArray)> = names.iter().map(|name| (name.as_str(), &x)).collect();
    model.run(&given)?;
    let (mut rates, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = time(threads);
        std::hint::black_box(model.start(&given, &[])?.result(0)?);
        let rate = bytes as f64 / (time(threads) - start) / 1e9;
        let start = time(threads);
        std::hint::black_box(sum(memory, threads));
        let plain = size_of_val(memory) as f64 / (time(threads) - start) / 1e9;
        rates.push(rate);
        shares.push(100.0 * rate / plain);
    }
    Ok([median(rates), median(shares)])
}

fn weights(params: &Params, storage: Storage, sizes: [usize; 2]) -> Result<Vec<Parameter>, TensorError> {
    match storage {
        Storage::Floats(dtype) => Ok(vec![params.with_dtype(dtype).buffer("weight", sizes, Init::ONES)?]),
        Storage::Blocks(blocks) => {
            let arrays = QuantizedFormat::of_blocks(blocks, sizes)?.arrays().into_iter();
            arrays
                .map(|array| params.with_dtype(array.dtype).buffer(array.name, array.shape, Init::ONES))
                .collect()
        }
    }
}

fn bytes_of(parameter: &Parameter) -> usize {
    parameter.shape().iter().product::<usize>() * parameter.dtype().size_bytes()
}

/// The sum of an array by some threads.
fn sum(memory: &[u64], threads: usize) -> u64 {
    let sum = |part: &[u64]| part.iter().fold(0, |sum: u64, &value| sum.wrapping_add(value));
    std::thread::scope(|scope| {
        let parts = memory.chunks(memory.len().div_ceil(threads));
        let sums: Vec<_> = parts.map(|part| scope.spawn(move || sum(part))).collect();
        sums.into_iter().map(|sum| sum.join().unwrap_or_default()).fold(0, u64::wrapping_add)
    })
}

/// Seconds: of the processor for one thread, which other programs disturb little, or of the clock for
/// several.
fn time(threads: usize) -> f64 {
    #[cfg(unix)]
    if threads == 1
        && let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
    {
        let time = usage.user_time() + usage.system_time();
        return time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    }
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
