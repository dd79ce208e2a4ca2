//! Measures calls of one model from several threads: runs per second, latencies, memory, and how long calls
//! wait while another thread calls with new shapes.
//!
//! `cargo run --release -p arrayjit-onnx --example threads -- [backend] [rows] [seconds]`
#![allow(clippy::print_stdout, reason = "it reports what it measured")]

use std::{
    error::Error,
    fs, process, thread,
    time::{Duration, Instant},
};

use arrayjit_onnx::{Backend, HostArray, InferenceSession, Model, OnnxError, array_to_proto, proto::*};

const LAYERS: usize = 8;
const WIDTH: usize = 512;

/// Layers of a matrix product and a relu.
fn model() -> Result<Model, Box<dyn Error>> {
    let mut graph = GraphProto::default();
    let value = |name: String| ValueInfoProto { name, ..ValueInfoProto::default() };
    let node = |op_type: &str, input: &[String], output: String| NodeProto {
        op_type: op_type.into(),
        input: input.to_vec(),
        output: vec![output],
        ..NodeProto::default()
    };
    for layer in 0..LAYERS {
        let weights: Vec<f32> =
            (0..WIDTH * WIDTH).map(|at| ((at * 7919 + layer) % 1000) as f32 * 1e-4).collect();
        let weights = HostArray::from_slice(&weights, [WIDTH, WIDTH])?;
        graph.initializer.push(array_to_proto(&format!("w{layer}"), &weights).ok_or("no type of ONNX")?);
        let names = [format!("x{layer}"), format!("w{layer}")];
        graph.node.push(node("MatMul", &names, format!("p{layer}")));
        graph.node.push(node("Relu", &[format!("p{layer}")], format!("x{}", layer + 1)));
    }
    graph.input.push(value("x0".into()));
    graph.output.push(value(format!("x{LAYERS}")));
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let model = ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..ModelProto::default() };
    Ok(Model::from_proto(&model)?)
}

fn input(rows: usize) -> Result<HostArray, Box<dyn Error>> {
    Ok(HostArray::from_slice(&vec![0.5f32; rows * WIDTH], [rows, WIDTH])?)
}

/// The time of each call until the deadline.
fn calls(session: &InferenceSession, x: &HostArray, deadline: Instant) -> Result<Vec<Duration>, OnnxError> {
    let mut times = Vec::new();
    while Instant::now() < deadline {
        let start = Instant::now();
        session.run(&[("x0", x)])?;
        times.push(start.elapsed());
    }
    Ok(times)
}

fn report(what: &str, mut times: Vec<Duration>, seconds: f64) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let (rate, most) = (times.len() as f64 / seconds, at(1.0));
    println!("{what}: {rate:.1} runs/s, p50 {:.1} ms, p99 {:.1} ms, most {most:.1} ms", at(0.5), at(0.99));
}

/// The memory of this process, in MiB.
fn memory() -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process::id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let mut args = std::env::args().skip(1);
    let backend = Backend::open(&args.next().unwrap_or_else(|| "multicore".into()))?;
    let rows = args.next().map_or(Ok(64), |text| text.parse())?;
    let seconds: f64 = args.next().map_or(Ok(4.0), |text| text.parse())?;
    let (model, x) = (model()?, input(rows)?);
    let session = model.session(&backend)?;
    session.run(&[("x0", &x)])?;
    let during = |threads: usize, sessions: &[&InferenceSession]| -> Result<Vec<Duration>, OnnxError> {
        let deadline = Instant::now() + Duration::from_secs_f64(seconds);
        thread::scope(|scope| {
            let x = &x;
            let spawn = |at: usize| {
                let session = sessions[at % sessions.len()];
                scope.spawn(move || calls(session, x, deadline))
            };
            let threads: Vec<_> = (0..threads).map(spawn).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("no call panics"));
            Ok(joined.collect::<Result<Vec<_>, _>>()?.concat())
        })
    };
    for threads in [1, 2, 4, 8] {
        report(&format!("{threads} threads"), during(threads, &[&session])?, seconds);
        println!("  {} MiB", memory().unwrap_or_default());
    }
    let done = Instant::now() + Duration::from_secs_f64(seconds);
    let times = thread::scope(|scope| {
        let compiling = scope.spawn(|| -> Result<usize, OnnxError> {
            let mut shapes = 0;
            while Instant::now() < done {
                shapes += 1;
                let x = HostArray::from_slice(&vec![0.5f32; shapes * WIDTH], [shapes, WIDTH])?;
                session.run(&[("x0", &x)])?;
                thread::sleep(Duration::from_millis(200));
            }
            Ok(shapes)
        });
        let times = during(2, &[&session])?;
        println!("{} new shapes beside", compiling.join().expect("no call panics")?);
        Ok::<_, OnnxError>(times)
    })?;
    report("2 threads beside new shapes", times, seconds);
    let others = (0..8).map(|_| model.session(&backend)).collect::<Result<Vec<_>, _>>()?;
    let others: Vec<&InferenceSession> = others.iter().collect();
    others.iter().try_for_each(|session| session.run(&[("x0", &x)]).map(drop))?;
    report("8 threads, 8 sessions", during(8, &others)?, seconds);
    println!("  {} MiB", memory().unwrap_or_default());
    Ok(())
}
