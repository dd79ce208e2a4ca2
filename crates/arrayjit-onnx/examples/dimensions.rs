//! Measures one compilation for all values of the dimensions that a model leaves open: what many shapes cost,
//! and what a run costs beside code for its shape alone.
//!
//! `cargo run --release -p arrayjit-onnx --example dimensions -- model.onnx shapes 500 b=4 t=128` runs random
//! shapes within the bounds, `… compare 1x16 1x128 b=8 t=128` times shapes of the first dimensions, and
//! `… cold symbolic 1x128 500 60 b=8 t=128` (or `exact`) measures the time and the memory from the file to
//! the first result, and then 500 random shapes for at most 60 seconds.
#![allow(clippy::print_stdout, reason = "it reports what it measured")]

use std::{
    collections::BTreeMap,
    error::Error,
    fs, process,
    time::{Duration, Instant},
};

use arrayjit_onnx::{
    Backend, Dim, HostArray, InferenceSession, Model, OnnxError, SessionOptions, ShapePolicy,
};

type Sizes = BTreeMap<String, usize>;

/// The inputs of a run: truth values, integers from 0 to 7, or floats.
fn inputs(model: &Model, sizes: &Sizes) -> Result<Vec<(String, HostArray)>, Box<dyn Error>> {
    let array = |info: &arrayjit_onnx::ValueInfo| {
        let size = |dim: &Dim| match dim {
            Dim::Known(size) => Some(*size),
            Dim::Named(name) => sizes.get(name).copied(),
            Dim::Unknown => None,
        };
        let dims: Option<Vec<usize>> = info.dims.as_ref().and_then(|dims| dims.iter().map(size).collect());
        let (dtype, dims) =
            (info.dtype.ok_or("a type is open")?, dims.ok_or("give NAME=BOUND for each size")?);
        let mut array = HostArray::zeros(dtype, dims)?;
        let values: Vec<f64> = (0..array.num_values()).map(|at| ((at * 37) % 8) as f64).collect();
        array.set_values(&values)?;
        Ok((info.name.clone(), array))
    };
    model.inputs().iter().map(array).collect()
}

fn timed(session: &InferenceSession, inputs: &[(String, HostArray)]) -> Result<Duration, OnnxError> {
    let named: Vec<(&str, &HostArray)> = inputs.iter().map(|(name, array)| (name.as_str(), array)).collect();
    let start = Instant::now();
    session.run(&named)?;
    Ok(start.elapsed())
}

/// The memory of this process, in MiB: `VmRSS` now, `VmHWM` at most.
fn memory(field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process::id())).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// Measures from the file to the first result, and ten later runs.
fn cold(
    file: &str,
    backend: &Backend,
    options: SessionOptions,
    sizes: &Sizes,
) -> Result<InferenceSession, Box<dyn Error>> {
    let start = Instant::now();
    let model = Model::load(file)?;
    let session = model.session_with(backend, options)?;
    let inputs = inputs(&model, sizes)?;
    timed(&session, &inputs)?;
    let first = start.elapsed().as_secs_f64() * 1e3;
    let peak = memory("VmHWM").unwrap_or_default();
    let mut later = (0..10).map(|_| timed(&session, &inputs)).collect::<Result<Vec<_>, _>>()?;
    later.sort();
    let later = later[later.len() / 2].as_secs_f64() * 1e3;
    println!("first result {first:.1} ms, later runs {later:.2} ms, peak {peak} MiB");
    Ok(session)
}

/// Runs each of many random shapes twice: the first run compiles, if any does. Begins no shape after `limit`.
fn many_shapes(
    session: &InferenceSession,
    count: usize,
    limit: Duration,
    bounds: &Sizes,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut random = 1usize;
    let mut next = |below: usize| {
        random = (random * 1_103_515_245 + 12345) % (1 << 31);
        (random >> 8) % below
    };
    let (mut compiling, mut compilations) = (Duration::ZERO, 0);
    for at in 1..=count {
        let sizes = bounds.iter().map(|(name, bound)| (name.clone(), 1 + next(*bound))).collect();
        let inputs = inputs(session.model(), &sizes)?;
        let (first, second) = (timed(session, &inputs)?, timed(session, &inputs)?);
        let more = first.saturating_sub(second);
        compilations += usize::from(more > Duration::from_millis(15));
        compiling += more;
        let is_last = at == count || start.elapsed() > limit;
        if at.is_power_of_two() || is_last {
            println!(
                "{at} shapes: {:.3} s beyond second runs, {compilations} compilations, {} MiB",
                compiling.as_secs_f64(),
                memory("VmRSS").unwrap_or_default()
            );
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

/// Times shapes in turns with sessions for exact shapes and for all.
fn compare(
    model: &Model,
    backend: &Backend,
    shapes: &[Sizes],
    options: SessionOptions,
) -> Result<(), Box<dyn Error>> {
    let exact = model.session(backend)?;
    let symbolic = model.session_with(backend, options)?;
    for sizes in shapes {
        let inputs = inputs(model, sizes)?;
        let mut times = [Vec::new(), Vec::new()];
        let once = timed(&exact, &inputs)?.max(timed(&symbolic, &inputs)?).min(timed(&exact, &inputs)?);
        let rounds = (1.5 / once.as_secs_f64()).clamp(5.0, 2000.0) as usize;
        for _ in 0..rounds {
            times[0].push(timed(&exact, &inputs)?);
            times[1].push(timed(&symbolic, &inputs)?);
        }
        let [exact, all] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1e3
        });
        println!("{sizes:?}: exact {exact:.3} ms, symbolic {all:.3} ms, {:.3} times", all / exact);
    }
    println!("{:?}", symbolic.exact_dimensions()?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (bounds, args): (Vec<String>, Vec<String>) = args.into_iter().partition(|arg| arg.contains('='));
    let bounds = bounds.iter().filter_map(|text| text.split_once('='));
    let bounds: Sizes = bounds
        .map(|(name, bound)| Ok((name.into(), bound.parse()?)))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let [file, what, rest @ ..] = args.as_slice() else {
        return Err("give a model and shapes, compare or cold".into());
    };
    let backend = Backend::open("multicore")?;
    let symbolic = SessionOptions::new().shapes(ShapePolicy::Symbolic);
    let shape = |text: &String| -> Result<Sizes, Box<dyn Error>> {
        bounds.keys().zip(text.split('x')).map(|(name, size)| Ok((name.clone(), size.parse()?))).collect()
    };
    match (what.as_str(), rest) {
        ("shapes", _) => {
            let session = Model::load(file)?.session_with(&backend, symbolic)?;
            let count = rest.first().map_or(Ok(500), |count| count.parse())?;
            many_shapes(&session, count, Duration::MAX, &bounds)
        }
        ("compare", _) => {
            let shapes = rest.iter().map(shape).collect::<Result<Vec<_>, _>>()?;
            let given = bounds.iter().fold(symbolic, |options, (name, &bound)| options.bound(name, bound));
            compare(&Model::load(file)?, &backend, &shapes, given)
        }
        ("cold", [policy, first, count, seconds]) => {
            let options = if policy == "exact" { SessionOptions::new() } else { symbolic };
            let session = cold(file, &backend, options, &shape(first)?)?;
            many_shapes(&session, count.parse()?, Duration::from_secs(seconds.parse()?), &bounds)
        }
        (other, _) => Err(format!("{other} is none of shapes, compare and cold with four arguments").into()),
    }
}
