//! Skips tests on machines that lack an adapter, a driver or a browser.
//!
//! A skipped test prints a line on standard error, past the capture of test output, with the number of skips
//! in the process so far. With `REQUIRE_GPU_TOOLS=1` in the environment, as in continuous integration, the
//! test fails instead.

use std::{
    fmt::Display,
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The environment variable that makes a missing tool a failure.
pub const REQUIRE_GPU_TOOLS: &str = "REQUIRE_GPU_TOOLS";

/// The number of skips in this process.
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Whether a missing tool is a failure: [`REQUIRE_GPU_TOOLS`] is set to a value other than `0` or the empty
/// text.
pub fn required() -> bool {
    std::env::var(REQUIRE_GPU_TOOLS).is_ok_and(|value| !matches!(value.as_str(), "" | "0"))
}

/// Returns the tool, or prints a line `skip(test): why` and returns `None`.
///
/// # Panics
///
/// If the tool is missing and [`required`].
#[track_caller]
pub fn or_skip<T, E: Display>(test: &str, tool: Result<T, E>) -> Option<T> {
    match settle(test, tool, required()) {
        Ok(tool) => Some(tool),
        Err(Missing::Skipped(line)) => {
            // The line is for people; a failure to print it is no reason to fail the test.
            let _ = writeln!(std::io::stderr(), "{line}");
            None
        }
        Err(Missing::Required(message)) => panic!("{message}"),
    }
}

/// The consequence of a missing tool.
#[derive(Debug, PartialEq, Eq)]
enum Missing {
    Skipped(String),
    Required(String),
}

fn settle<T, E: Display>(test: &str, tool: Result<T, E>, required: bool) -> Result<T, Missing> {
    tool.map_err(|why| match required {
        true => Missing::Required(format!("{test} cannot run, and {REQUIRE_GPU_TOOLS} is set: {why}")),
        false => {
            let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
            Missing::Skipped(format!("skip({test}): {why} ({count} skipped in this process)"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_skipped_or_fails() {
        assert_eq!(settle("t", Ok::<i32, String>(3), true), Ok(3));
        let skipped = settle("t", Err::<i32, &str>("no adapter"), false).unwrap_err();
        assert_eq!(skipped, Missing::Skipped("skip(t): no adapter (1 skipped in this process)".into()));
        let required = settle("t", Err::<i32, &str>("no adapter"), true).unwrap_err();
        assert_eq!(
            required,
            Missing::Required("t cannot run, and REQUIRE_GPU_TOOLS is set: no adapter".into())
        );
    }
}
