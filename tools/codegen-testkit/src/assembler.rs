//! Runs NVIDIA's assembler, which needs no GPU, on PTX, and reads the resources of each kernel from its
//! output.
//!
//! The number of registers, spilled bytes and machine instructions of a kernel are known without running it,
//! so they can be golden files. `cargo xtask gpu-tools` installs the programs; `CUDA_TOOLS` names their
//! folder.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// The environment variable with the folder of the programs.
pub const CUDA_TOOLS: &str = "CUDA_TOOLS";

/// The name of the output file.
const CODE: &str = "kernels.cubin";

/// The programs `ptxas` and `nvdisasm`.
#[derive(Clone, Debug)]
pub struct CudaTools {
    folder: PathBuf,
}

/// The resources of an assembled kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread: arrays and spilled registers.
    pub stack_bytes: u32,
    /// Bytes of spill stores and spill loads per thread.
    pub spilled_bytes: u32,
    /// The number of occurrences of each machine instruction, by its name with all modifiers.
    pub opcodes: BTreeMap<String, usize>,
}

impl Assembled {
    /// How many instructions begin with this name: `HMMA` counts `HMMA.16816.F32`.
    pub fn count(&self, name: &str) -> usize {
        let is = |opcode: &&String| {
            opcode.split('.').next() == Some(name) || opcode.starts_with(&format!("{name}."))
        };
        self.opcodes.iter().filter(|(opcode, _)| is(opcode)).map(|(_, count)| count).sum()
    }
}

impl CudaTools {
    /// Finds the programs of this machine.
    ///
    /// # Errors
    ///
    /// The missing program, and how to install it.
    pub fn find() -> Result<CudaTools, String> {
        let folder = std::env::var_os(CUDA_TOOLS)
            .ok_or_else(|| format!("no {CUDA_TOOLS}; `cargo xtask gpu-tools` brings NVIDIA's assembler"))?;
        let folder = PathBuf::from(folder);
        match folder.join("ptxas").is_file() {
            true => Ok(CudaTools { folder }),
            false => Err(format!("no ptxas in {}", folder.display())),
        }
    }

    /// Assembles a PTX file for a target such as `sm_80`, and returns the resources of each kernel by name.
    /// The disassembler does not support `sm_70`; its machine instructions are listed for `sm_75`.
    ///
    /// # Errors
    ///
    /// The assembler's errors and warnings, with the lines that they name.
    pub fn assemble(&self, ptx: &str, target: &str) -> Result<BTreeMap<String, Assembled>, String> {
        let folder = tempfile::tempdir().map_err(|e| format!("making a folder: {e}"))?;
        let mut kernels = resources(&self.run(folder.path(), ptx, target)?);
        if target == "sm_70" {
            self.run(folder.path(), ptx, "sm_75")?;
        }
        for (name, opcodes) in self.opcodes(&folder.path().join(CODE))? {
            kernels.entry(name).or_default().opcodes = opcodes;
        }
        Ok(kernels)
    }

    /// Checks that a PTX file assembles for a target.
    ///
    /// # Errors
    ///
    /// Fails like [`CudaTools::assemble`].
    pub fn accepts(&self, ptx: &str, target: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().map_err(|e| format!("making a folder: {e}"))?;
        self.run(folder.path(), ptx, target).map(|_| ())
    }

    /// Assembles a file in a folder and returns the messages of the assembler.
    fn run(&self, folder: &Path, ptx: &str, target: &str) -> Result<String, String> {
        let text = folder.join("kernels.ptx");
        std::fs::write(&text, ptx).map_err(|e| format!("writing {}: {e}", text.display()))?;
        // The current assembler no longer supports the oldest target.
        let assembler = if target == "sm_70" { "ptxas-sm70" } else { "ptxas" };
        let mut command = Command::new(self.folder.join(assembler));
        command.args(["-v", "-arch", target]).arg(&text).arg("-o").arg(folder.join(CODE));
        let said = output(&mut command).map_err(|said| format!("{said}\n{}", with_lines(&said, ptx)))?;
        match said.lines().find(|line| line.contains("warning")) {
            Some(warning) => Err(format!("{warning}\n{}", with_lines(warning, ptx))),
            None => Ok(said),
        }
    }

    fn opcodes(&self, code: &Path) -> Result<BTreeMap<String, BTreeMap<String, usize>>, String> {
        let listing = output(Command::new(self.folder.join("nvdisasm")).arg("-c").arg(code))?;
        let (mut found, mut kernel) = (BTreeMap::<_, BTreeMap<_, _>>::new(), None);
        for line in listing.lines().map(str::trim) {
            if let Some(name) =
                line.strip_prefix(".section").and_then(|rest| rest.trim().strip_prefix(".text."))
            {
                kernel = name.split(',').next().map(str::to_owned);
            }
            let (Some(kernel), Some(opcode)) = (&kernel, opcode(line)) else { continue };
            *found.entry(kernel.clone()).or_default().entry(opcode).or_default() += 1;
        }
        Ok(found)
    }
}

/// Runs a program and returns its output on both streams, also as the error if it failed.
fn output(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|e| format!("starting {:?}: {e}", command.get_program()))?;
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if done.status.success() { Ok(said) } else { Err(said) }
}

/// The lines of `text` that messages name as `line N`.
fn with_lines(said: &str, text: &str) -> String {
    let numbers =
        said.split("line ").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let lines = numbers.filter_map(|number| number.parse::<usize>().ok()).filter_map(|number| {
        let line = text.lines().nth(number.checked_sub(1)?)?;
        Some(format!("{number}: {}\n", line.trim()))
    });
    lines.take(8).collect()
}

/// The resources that the assembler reports for each kernel.
fn resources(said: &str) -> BTreeMap<String, Assembled> {
    let mut found = BTreeMap::<String, Assembled>::new();
    let mut kernel = String::new();
    for line in said.lines() {
        if let Some(name) = line.split("Compiling entry function '").nth(1) {
            kernel = name.split('\'').next().unwrap_or_default().to_owned();
            continue;
        }
        let before = |what: &str| {
            let number = line.split(what).next()?.rsplit([' ', ',']).find(|word| !word.is_empty())?;
            line.contains(what).then(|| number.parse().ok())?
        };
        let entry = found.entry(kernel.clone()).or_default();
        if let Some(registers) = before(" registers") {
            entry.registers = registers;
        }
        if let Some(bytes) = before(" bytes stack frame") {
            entry.stack_bytes = bytes;
        }
        if let Some(bytes) = before(" bytes spill stores") {
            entry.spilled_bytes += bytes;
        }
        if let Some(bytes) = before(" bytes spill loads") {
            entry.spilled_bytes += bytes;
        }
    }
    found.remove("");
    found
}

/// The name of the instruction on a line of a listing: `/*0040*/  @!P0 LDG.E.128 R4, [R2.64] ;`.
fn opcode(line: &str) -> Option<String> {
    let (address, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    let is_address = address.len() >= 4 && address.chars().all(|c| c.is_ascii_hexdigit());
    let word = rest.split_whitespace().find(|word| !word.starts_with('@'))?;
    let word = word.trim_end_matches(';');
    (is_address && word.starts_with(|c: char| c.is_ascii_uppercase())).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_assembler_says_is_read() {
        let said = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 368 bytes cmem[0]
";
        let one = Assembled { registers: 10, stack_bytes: 16, spilled_bytes: 12, opcodes: BTreeMap::new() };
        assert_eq!(resources(said), BTreeMap::from([("one".to_owned(), one)]));
    }

    #[test]
    fn instructions_are_told_from_what_is_beside_them() {
        assert_eq!(opcode("/*0040*/  @!P0 LDG.E.128 R4, [R2.64] ;").as_deref(), Some("LDG.E.128"));
        assert_eq!(opcode("/*0050*/                   EXIT ;").as_deref(), Some("EXIT"));
        assert_eq!(opcode("/* 0x0000000000007918 */"), None);
        assert_eq!(opcode(".L_x_0:"), None);
    }
}
