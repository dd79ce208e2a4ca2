//! What a test does on a machine that lacks what it needs: an adapter, a driver, a browser.
//!
//! It is skipped, which is said on standard error, where a test's captured output does not hide it, with how many were skipped
//! in the process so far. With `REQUIRE_GPU_TOOLS=1` in the environment, as continuous integration has it, it fails.

use std::{
    fmt::Display,
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The variable of the environment under which a missing tool fails.
pub const REQUIRE_GPU_TOOLS: &str = "REQUIRE_GPU_TOOLS";

/// Skips of this process, for the count on the line.
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Whether a missing tool must fail: [`REQUIRE_GPU_TOOLS`] is set to something other than nothing or `0`.
pub fn required() -> bool {
    std::env::var(REQUIRE_GPU_TOOLS).is_ok_and(|value| !matches!(value.as_str(), "" | "0"))
}

/// The tool, or nothing on a machine that lacks it, which is said in a `skip(test): why` line.
///
/// # Panics
///
/// If the tool is missing and [`required`].
#[track_caller]
pub fn or_skip<T, E: Display>(test: &str, tool: Result<T, E>) -> Option<T> {
    match settle(test, tool, required()) {
        Ok(tool) => Some(tool),
        Err(Missing::Skipped(line)) => {
            // The line is for people; that it cannot be written is no reason to fail.
            let _ = writeln!(std::io::stderr(), "{line}");
            None
        }
        Err(Missing::Required(message)) => panic!("{message}"),
    }
}

/// What a missing tool means.
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
