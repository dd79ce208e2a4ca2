//! Runs the benchmark cases: `cargo xtask bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    benches::main()
}
