//! How fast the inner loop of a function is on ARM64 processors, by LLVM's models of them: a model, not a
//! measurement.
//!
//! `llvm-mca` gets the loop with the most multiply-adds as a disassembler shows it, so what is modeled is
//! what is shipped. The same multiply-adds without the rest of the loop give the peak.

use std::{cmp::Reverse, io::Write as _, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use xtask::arm64_root;

/// Options of `cargo xtask arm64-model`.
#[derive(clap::Args)]
pub(crate) struct Arm64ModelArgs {
    /// The program or library, as `cargo xtask arm64 -- build` writes it to `target/arm64`.
    program: String,
    /// A part of the function's name.
    function: String,
}

/// The processors, by LLVM's names. It models all of Apple's alike, but the M1 lacks products of matrices.
const CORES: [&str; 3] = ["neoverse-v2", "neoverse-n1", "apple-m2"];

/// What counts as a multiply-add.
const MULTIPLY_ADDS: [&str; 8] = ["fmla", "fmadd", "sdot", "udot", "smmla", "ummla", "sadalp", "uadalp"];

/// Iterations of a loop that are modeled.
const ITERATIONS: u32 = 200;

/// An innermost loop, as instructions whose branches have no targets.
#[derive(Clone, Debug, Default, PartialEq)]
struct InnerLoop {
    function: String,
    instructions: Vec<String>,
}

impl InnerLoop {
    fn multiply_adds(&self) -> impl Iterator<Item = &String> {
        let is_one = |line: &&String| MULTIPLY_ADDS.contains(&line.split_whitespace().next().unwrap_or(""));
        self.instructions.iter().filter(is_one)
    }
}

/// Prints the cycles for each multiply-add in the loop with most of them, among the functions of a program
/// whose names contain a text.
pub(crate) fn run(args: &Arm64ModelArgs) -> Result<()> {
    let Arm64ModelArgs { program, function } = args;
    arm64_root::ensure_package("llvm-22")?;
    let listing = pipe(&["aarch64-linux-gnu-objdump", "-dC", "--no-show-raw-insn", program], "")?;
    let loops = inner_loops(&listing, function).into_iter();
    let size = |of: &InnerLoop| (of.multiply_adds().count(), Reverse(of.instructions.len()));
    let most = loops.max_by_key(size).unwrap_or_default();
    let count = most.multiply_adds().count();
    ensure!(
        count > 0,
        "no function of `{program}` with `{function}` in its name has a loop of multiply-adds"
    );
    println!("{}: {} instructions, {count} of them multiply-adds", most.function, most.instructions.len());
    let alone: Vec<String> = most.multiply_adds().cloned().collect();
    for core in CORES.into_iter().filter(|core| has_all(core, &most.instructions)) {
        let [cycles, least] = [cycles(core, &most.instructions)?, cycles(core, &alone)?];
        let share = 100.0 * least / cycles;
        println!("{core:>12}  {:.3} cycles for each, {share:.1} % of the peak", cycles / count as f64);
    }
    Ok(())
}

/// Whether a processor has the instructions of a loop.
fn has_all(core: &str, instructions: &[String]) -> bool {
    let is_product_of_matrices = |line: &String| ["smmla", "ummla"].iter().any(|name| line.starts_with(name));
    core != "neoverse-n1" || !instructions.iter().any(is_product_of_matrices)
}

/// The innermost loops of functions.
fn inner_loops(listing: &str, function: &str) -> Vec<InnerLoop> {
    let (mut loops, mut name) = (Vec::new(), "");
    let mut body: Vec<(u64, String)> = Vec::new();
    for line in listing.lines() {
        if let Some((_, title)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            (name, body) = (title, Vec::new());
        }
        let Some((address, text)) = line.split_once(":\t").filter(|_| name.contains(function)) else {
            continue;
        };
        let (text, target) = without_target(text.split("//").next().unwrap_or("").trim());
        body.push((u64::from_str_radix(address.trim(), 16).unwrap_or(0), text));
        // Behind a loop, only what is outside of it is left for the loop around it.
        if let Some(start) = body.iter().position(|(at, _)| Some(*at) == target) {
            let instructions = body.drain(start..).map(|(_, text)| text).collect();
            loops.push(InnerLoop { function: name.to_owned(), instructions });
        }
    }
    loops
}

/// An instruction without the address that it names (`b.ne\t40074c <main+0x2c>`), and this address.
fn without_target(text: &str) -> (String, Option<u64>) {
    let parts = text.split_once(" <").and_then(|(text, _)| text.rsplit_once(['\t', ' ']));
    match parts {
        Some((text, address)) => (format!("{text} #0"), u64::from_str_radix(address, 16).ok()),
        None => (text.to_owned(), None),
    }
}

/// The cycles of one iteration.
fn cycles(core: &str, instructions: &[String]) -> Result<f64> {
    let (core, iterations) = (format!("-mcpu={core}"), format!("-iterations={ITERATIONS}"));
    let report = pipe(&["llvm-mca-22", "-mtriple=aarch64", &core, &iterations], &instructions.join("\n"))?;
    let total = report.lines().find_map(|line| line.strip_prefix("Total Cycles:"));
    let total: f64 = total.context("a report of `llvm-mca` without cycles")?.trim().parse()?;
    Ok(total / f64::from(ITERATIONS))
}

/// What a program of the system writes, given its input.
fn pipe(words: &[&str], input: &str) -> Result<String> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let mut command = arm64_root::command(&words)?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("a pipe to a program")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "`{}` ended with {}", words.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_loops_are_found() {
        let listing = "\
0000000000400720 <other>:
  400720:\tb.ne\t400720 <other>
0000000000400730 <product<f32>>:
  400730:\tmov\tx2, #0x7
  400734:\tldr\ts0, [x1], #4
  400738:\tfmla\tv1.4s, v2.4s, v0.s[0]
  40073c:\tb.ne\t400734 <product<f32>+0x4>  // b.any
  400740:\tadrp\tx0, 458000 <table>
  400744:\tcbnz\tx3, 400730 <product<f32>>
  400748:\tret
";
        let found: Vec<_> = inner_loops(listing, "product").into_iter().map(|of| of.instructions).collect();
        let inner = ["ldr\ts0, [x1], #4", "fmla\tv1.4s, v2.4s, v0.s[0]", "b.ne #0"];
        let outer = ["mov\tx2, #0x7", "adrp\tx0, #0", "cbnz\tx3, #0"];
        assert_eq!(found, [inner.map(str::to_owned), outer.map(str::to_owned)]);
    }
}
