//! The benchmarks with the backend `c`: `c-bench --backend c`.

use codegen_c_backend as _;

fn main() -> std::process::ExitCode {
    benches::main()
}
