//! The resident memory of a process while it compiles and runs a case, above that of the idle process with
//! the inputs in place.
//!
//! The pages of programs and libraries are loaded before: they are the file's, the system drops them when it
//! needs memory, and what a peer in Python loads when it is imported would otherwise count for us alone.
//!
//! Each measurement has a process of its own, ours and the peers', since allocators keep memory of earlier
//! cases.

use std::{
    fs,
    io::{Write as _, stdout},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use arrayjit::Backend;
use serde::{Deserialize, Serialize};

use crate::{
    case::{Case, Node},
    ours::LoadedCase,
};

/// The number of runs during which memory is observed.
const RUNS: usize = 3;

/// The line that the process of a measurement prints.
#[derive(Serialize, Deserialize)]
struct PeakLine {
    peak_bytes: f64,
}

/// Starts this program for one case, and returns the peak of its memory above the idle process, in bytes.
///
/// # Errors
///
/// A process that does not start or fails.
pub(crate) fn measure_in_process(backend: &Backend, threads: usize, case: &Case) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--backend", &backend.settings().backend, "--threads", &threads.to_string()]);
    command.args(["--memory-of", case.name]).stderr(Stdio::inherit());
    let output = command.output().context("starting this program again")?;
    ensure!(output.status.success(), "the memory of `{}` was not measured: {}", case.name, output.status);
    Ok(serde_json::from_slice::<PeakLine>(&output.stdout)?.peak_bytes)
}

/// Measures one case in this process, and prints the result for [`measure_in_process`].
///
/// # Errors
///
/// An unknown case, and any error of the backend or of the operating system.
pub(crate) fn print_peak(backend: &Backend, cases: &[Case], name: &str) -> Result<()> {
    let loaded = load(backend, cases, name)?;
    return_free_memory();
    load_code()?;
    let idle = status("VmRSS:")?;
    // Linux sets the peak to the current size: proc(5), /proc/pid/clear_refs.
    fs::write("/proc/self/clear_refs", "5").context("resetting the peak of resident memory")?;
    let linked = loaded.link()?;
    (0..RUNS).try_for_each(|_| linked.run_again().map(drop))?;
    let peak_bytes = status("VmHWM:")? - idle;
    Ok(writeln!(stdout(), "{}", serde_json::to_string(&PeakLine { peak_bytes })?)?)
}

/// Runs one case in this process, and writes a line on standard error after compilation and after each run.
///
/// # Errors
///
/// An unknown case, and any error of the backend.
pub(crate) fn mark_runs(backend: &Backend, cases: &[Case], name: &str) -> Result<()> {
    let linked = load(backend, cases, name)?.link()?;
    // In one write, since the log of an emulator comes between writes.
    let mark = |text: String| std::io::stderr().write_all(text.as_bytes());
    mark(format!("compiled {name}\n"))?;
    for run in 1..=RUNS {
        linked.run_again()?;
        mark(format!("run {run}\n"))?;
    }
    Ok(())
}

/// The case of a name, with its inputs on the device and nowhere else.
fn load<'b, 'a>(backend: &'b Backend, cases: &'a [Case], name: &str) -> Result<LoadedCase<'b, 'a>> {
    let Some(case) = cases.iter().find(|case| case.name == name) else { bail!("there is no case `{name}`") };
    let inputs: Vec<_> = case.nodes.iter().map(Node::array).collect::<Result<_>>()?;
    LoadedCase::new(backend, case, &inputs)
}

/// A field of this process's status, in bytes.
fn status(field: &str) -> Result<f64> {
    let text = fs::read_to_string("/proc/self/status").context("reading the status of this process")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes: f64 = line
        .and_then(|line| line.trim().strip_suffix("kB"))
        .with_context(|| format!("no field `{field}` in the status of this process"))?
        .trim()
        .parse()?;
    Ok(kilobytes * 1024.0)
}

/// Loads all pages of the files that are mapped, among them this program's code. Kernels before 5.14 do not.
fn load_code() -> Result<()> {
    let maps = fs::read_to_string("/proc/self/maps").context("reading the mappings of this process")?;
    for line in maps.lines().filter(|line| line.contains(" /")) {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        let (start, end) = range.with_context(|| format!("no range in `{line}`"))?;
        let (start, end) = (usize::from_str_radix(start, 16)?, usize::from_str_radix(end, 16)?);
        // SAFETY: reading the pages of a mapping in advance changes no contents; a failure changes nothing.
        unsafe {
            libc::madvise(std::ptr::without_provenance_mut(start), end - start, libc::MADV_POPULATE_READ)
        };
    }
    Ok(())
}

/// Returns memory to the operating system that this process has freed.
#[cfg(target_env = "gnu")]
fn return_free_memory() {
    // SAFETY: `malloc_trim` may be called at any time by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn return_free_memory() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_peak_includes_memory_that_was_freed() {
        let idle = status("VmRSS:").unwrap();
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        let peak = status("VmHWM:").unwrap();
        assert!(peak - idle > 32e6, "{idle} {peak}");
        assert!(status("VmNone:").unwrap_err().to_string().contains("VmNone"));
    }
}
