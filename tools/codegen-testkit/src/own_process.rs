//! Child processes for tests that measure or limit their whole process, or that change its global state.
//! Their program has other tests too, because each program costs a link.

use std::{
    env,
    process::{Command, Output},
};

/// The variable that names the test for which a process was started.
const NAME: &str = "TEST_IN_OWN_PROCESS";

/// Returns whether this process was started for the test `name`, a path as the test harness prints it. If
/// not, runs the test in a new process.
///
/// ```no_run
/// # // A test begins like this:
/// fn memory_returns_to_zero() {
///     if !codegen_testkit::in_own_process("memory::memory_returns_to_zero") {
///         return;
///     }
///     // No other test allocates here.
/// }
/// ```
///
/// # Panics
///
/// If the test fails in the new process, or if the program has no test of this name.
#[must_use = "the caller returns if it is false"]
pub fn in_own_process(name: &str) -> bool {
    if !is_in_own_process(name) {
        run_in_own_process(name, |_| ());
        return false;
    }
    true
}

/// Returns whether this process was started for the test `name`.
pub fn is_in_own_process(name: &str) -> bool {
    env::var_os(NAME).is_some_and(|inside| inside == *name)
}

/// Runs the test `name` of this program in a new process and returns the output. `prepare` may add arguments
/// and variables to the command. In the new process, [`is_in_own_process`] returns true.
///
/// # Panics
///
/// If the test fails in the new process, or if the program has no test of this name.
pub fn run_in_own_process(name: &str, prepare: impl FnOnce(&mut Command)) -> Output {
    let program = env::current_exe().expect("the test's own program has a path");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--include-ignored", "--nocapture"]).env(NAME, name);
    prepare(&mut command);
    let output = command.output().expect("the test's own program starts");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let passed = output.status.success() && stdout.contains("1 passed");
    assert!(passed, "`{name}` in its own process: {}\n{stdout}\n{stderr}", output.status);
    output
}
