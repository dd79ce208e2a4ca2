//! Runs one of the examples by its name, as in `cargo run --release -p models heat`.

use std::process::ExitCode;

fn main() -> ExitCode {
    models::command_line::main()
}
