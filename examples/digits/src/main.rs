//! Trains a 64–128–10 network on 1,797 handwritten digits: forward, backward and update are one compiled
//! routine.
//!
//! `cargo run --release -p digits -- --backend multicore --epochs 40 --seed 5`
//!
//! With `--streams 4` training is divided among four streams, each of which computes the gradient of a shard
//! of every mini-batch.

use std::process::ExitCode;

fn main() -> ExitCode {
    digits::command_line::main()
}
