//! The digits example with the backend `c`: `c-digits --backend c`.

use codegen_c_backend as _;

fn main() -> std::process::ExitCode {
    digits::command_line::main()
}
