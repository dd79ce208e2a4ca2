//! Counts the instructions that programs for ARM64 execute, from QEMU's log.
//!
//! QEMU translates blocks of code. Its log shows the instructions of every block when it is translated, and
//! has a line for every execution of a block. The log goes to standard error, among the lines of the program,
//! so each of these lines ends a count. The lines of several processes would be mixed.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use xtask::arm64_root;

/// What QEMU logs: blocks when they are translated, and their executions, with none left out.
const LOG: &str = "QEMU_LOG=in_asm,exec,nochain";

/// Runs a command in the system, and prints its lines on standard error with the number of instructions that
/// programs for ARM64 executed since the line before.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let words: Vec<String> = [LOG.to_owned()].into_iter().chain(words.iter().cloned()).collect();
    let mut child =
        arm64_root::command(&words)?.stderr(Stdio::piped()).spawn().context("starting `unshare`")?;
    let mut log = BufReader::with_capacity(1 << 20, child.stderr.take().context("a pipe of standard error")?);
    let (mut counter, mut line) = (InstructionCounter::default(), Vec::new());
    while log.read_until(b'\n', &mut line)? > 0 {
        if let Some(count) = counter.read(line.trim_ascii_end()) {
            eprintln!("{count:>15}  {}", String::from_utf8_lossy(&line).trim_end());
        }
        line.clear();
    }
    eprintln!("{:>15}  (end)", counter.count);
    let status = child.wait()?;
    ensure!(status.success(), "`{}` for ARM64 ended with {status}", words[1..].join(" "));
    Ok(())
}

/// Reads QEMU's log.
#[derive(Default)]
struct InstructionCounter {
    /// The numbers of instructions of blocks, by address. Code that is replaced has a new block.
    lengths: HashMap<u64, u64>,
    /// The block whose instructions follow.
    block: Option<u64>,
    /// Instructions since the program's last line.
    count: u64,
}

impl InstructionCounter {
    /// Reads a line. If it is the program's, returns the number of instructions since the one before.
    fn read(&mut self, line: &[u8]) -> Option<u64> {
        if let Some(trace) = line.strip_prefix(b"Trace ") {
            // `0: HOST [BASE/ADDRESS/FLAGS/...] SYMBOL`
            let address = trace.split(|&byte| byte == b'/').nth(1).and_then(hexadecimal);
            self.count += address.and_then(|address| self.lengths.get(&address)).unwrap_or(&0);
            return None;
        }
        if let Some(instruction) = line.strip_prefix(b"0x") {
            // `0xADDRESS:  CODE  INSTRUCTION`
            let address = instruction.split(|&byte| byte == b':').next().and_then(hexadecimal)?;
            let block = *self.block.get_or_insert_with(|| {
                self.lengths.insert(address, 0);
                address
            });
            *self.lengths.entry(block).or_default() += 1;
            return None;
        }
        self.block = None;
        if line.is_empty()
            || [&b"----"[..], b"IN:", b"Stopped execution"].iter().any(|of| line.starts_with(of))
        {
            return None;
        }
        Some(std::mem::take(&mut self.count))
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Compiling program
----------------
IN: main
0x00400000:  d503245f  bti      c
0x00400004:  d280001d  mov      x29, #0

Trace 0: 0x7f3e3c000100 [80081009231/0000000000400000/00000001/00000200] main
Trace 0: 0x7f3e3c000100 [80081009231/0000000000400000/00000001/00000200] main
----------------
IN: next
0x00400008:  d65f03c0  ret

Trace 0: 0x7f3e3c000200 [80081009231/0000000000400008/00000001/00000200] next
run 1
Trace 0: 0x7f3e3c000100 [80081009231/0000000000400000/00000001/00000200] main
----------------
IN: main
0x00400000:  d503245f  bti      c

Trace 0: 0x7f3e3c000300 [80081009231/0000000000400000/00000001/00000200] main
run 2";

    #[test]
    fn lines_of_the_program_end_counts() {
        let mut counter = InstructionCounter::default();
        let found: Vec<_> =
            TEXT.lines().filter_map(|line| Some((counter.read(line.as_bytes())?, line))).collect();
        assert_eq!(found, [(0, "Compiling program"), (5, "run 1"), (3, "run 2")]);
    }
}
