//! Runs a network that `arrayjit-aot` compiled: reads the values of the input from standard input, and writes
//! those of the output to standard output. The number of threads may be an argument. The program has no
//! compiler, and maps no executable memory: kernels and weights are in its file like any other code and data.

use std::env::args;
use std::error::Error;
use std::io::{Read, Write, stdin, stdout};
use std::process::ExitCode;
use std::time::Instant;

use arrayjit_rt::{Aligned, Arena, ThreadedArena, on_threads};

#[allow(unsafe_code, reason = "the module calls functions of an object file")]
mod model {
    include!(env!("MODEL_MODULE"));
}

/// More threads than any machine has use for; the system may have fewer than a caller asks for.
const MOST_THREADS: usize = 1024;

static mut ARENA: Arena<{ model::Model::ARENA_BYTES }> = Arena::new();

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let threads = args().nth(1).map_or(Ok(1), |count| count.parse())?;
    if !(1..=MOST_THREADS).contains(&threads) {
        return Err(format!("{threads} threads, expected 1 to {MOST_THREADS}").into());
    }
    let model = model::Model::new()?; // chooses the code for this processor
    // SAFETY: this function is called once, and nothing else names the arena.
    let arena = unsafe { &mut *(&raw mut ARENA) };
    let mut x = Aligned([0f32; _]);
    let mut y = Aligned([0f32; _]);
    let mut bytes = Vec::new();
    stdin().read_to_end(&mut bytes)?;
    let (values, rest) = bytes.as_chunks();
    if values.len() != x.len() || !rest.is_empty() {
        return Err(format!("{} bytes of input, expected {} numbers", bytes.len(), x.len()).into());
    }
    x.iter_mut().zip(values).for_each(|(x, value)| *x = f32::from_le_bytes(*value));
    let ready = start.elapsed();
    let mut scratch: Vec<_> = (1..threads).map(|_| Arena::new()).collect();
    on_threads(threads, |run| {
        let memory = &mut ThreadedArena { arena, scratch: &mut scratch, run };
        model.run(&x, &mut y, memory)
    })?;
    let done = start.elapsed();
    y.iter().try_for_each(|value| stdout().write_all(&value.to_le_bytes()))?;
    eprintln!("ready after {} µs, done after {} µs", ready.as_micros(), done.as_micros());
    Ok(())
}
