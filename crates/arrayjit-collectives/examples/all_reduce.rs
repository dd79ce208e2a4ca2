//! Times sums over ranks by size: the time of an operation, and the bytes of an array per second.
//!
//! `cargo run --release -p arrayjit-collectives --example all_reduce -- 2` uses two threads. Built with
//! `--features mpi`, `mpirun -n 2 target/release/examples/all_reduce` uses two processes.
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

use std::{error::Error, time::Instant};

use arrayjit::{Backend, HostArray, TensorNode};
use arrayjit_collectives::{Group, HostGroup, Reduction, Transport, local};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// The sizes of arrays in bytes.
const SIZES: [usize; 5] = [1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26];

fn main() -> Outcome {
    sigpipe::reset();
    match std::env::args().nth(1) {
        Some(count) => local::run(count.parse()?, measure).into_iter().collect(),
        None => on_processes(),
    }
}

#[cfg(feature = "mpi")]
fn on_processes() -> Outcome {
    Ok(arrayjit_collectives::mpi::run(measure)?)
}

#[cfg(not(feature = "mpi"))]
fn on_processes() -> Outcome {
    Err("expected a number of threads; this build has no MPI".into())
}

fn measure(transport: impl Transport) -> Outcome {
    let backend = Backend::open("multicore")?;
    let group = HostGroup::new(transport, backend.new_stream()?);
    if group.rank() == 0 {
        println!("| bytes | microseconds | GB/s |\n|--:|--:|--:|");
    }
    for bytes in SIZES {
        let x = TensorNode::builder("x").dims([bytes / 4]).build()?;
        let values = HostArray::from_slice(&vec![1f32; bytes / 4], [bytes / 4])?;
        let context = backend.context()?.init_from_host(&x, &values)?;
        let mut times = Vec::new();
        for _ in 0..21 {
            group.barrier()?;
            let start = Instant::now();
            group.all_reduce(&context, std::slice::from_ref(&x), Reduction::Max)?.sync()?;
            times.push(start.elapsed());
        }
        times.sort();
        let median = times[times.len() / 2].as_secs_f64();
        if group.rank() == 0 {
            println!("| {bytes} | {:.1} | {:.2} |", median * 1e6, bytes as f64 / median / 1e9);
        }
    }
    Ok(())
}
