//! Repeats and reduces runs of `.lir` files: `cargo xtask lir replay` and `cargo xtask lir reduce`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lir_replay::main()
}
