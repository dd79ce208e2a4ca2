//! Starts a test program under `mpirun`, and runs its tests: processes of MPI need a `main` of their own.
#![allow(clippy::print_stdout, reason = "this is a test runner")]

use std::process::{Command, ExitCode};

/// Starts this program on several processes of this machine, with further variables.
pub(crate) fn command(ranks: usize, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    command.arg(std::env::current_exe().expect("the program has a path"));
    command.envs([
        // Containers run programs as root, and allow no access to the memory of other processes.
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        ("OMPI_MCA_btl", "self,vader,tcp"),
        ("OMPI_MCA_btl_tcp_if_include", "lo"),
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ]);
    command.envs(variables.iter().copied());
    command
}

/// Runs tests, which panic if they fail, and prints what test runners print.
pub(crate) fn run_tests(tests: &[(&str, fn())]) -> ExitCode {
    println!("running {} tests", tests.len());
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed", tests.len());
    ExitCode::SUCCESS
}
