//! A Python environment with the libraries that the benchmarks compare with, under `target/peers-venv`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The peers that run in Python.
pub(crate) const PEERS: [&str; 3] = ["torch", "torch-compile", "jax"];

/// The Python of an environment with the libraries of these peers; the environment is created or completed as
/// needed.
///
/// # Errors
///
/// No Python, or packages that cannot be installed.
pub(crate) fn ensure(peers: &[&str]) -> Result<PathBuf> {
    let folder = xtask::root().join("target/peers-venv");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let file = xtask::root().join("benches/peers/requirements.txt");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let wanted = requirements(&text, peers);
    let marker = folder.join("installed.txt");
    let installed = std::fs::read_to_string(&marker).unwrap_or_default();
    let missing: Vec<&str> =
        wanted.into_iter().filter(|line| !installed.lines().any(|l| l == *line)).collect();
    if missing.is_empty() {
        return Ok(python);
    }
    println!("installing {} for peers in {}", missing.join(", "), folder.display());
    if !python.exists() {
        finish(Command::new("python3").args(["-m", "venv"]).arg(&folder), &folder)?;
    }
    finish(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(&missing), &folder)?;
    let lines = installed.lines().chain(missing).fold(String::new(), |text, line| text + line + "\n");
    std::fs::write(&marker, lines).with_context(|| format!("writing {}", marker.display()))?;
    Ok(python)
}

/// The lines of the requirements for these peers.
fn requirements<'a>(text: &'a str, peers: &[&str]) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_needed = |line: &&str| {
        let package = line.split("==").next().unwrap_or_default();
        match package {
            "torch" => peers.iter().any(|peer| peer.starts_with("torch")),
            "jax" | "jaxlib" => peers.contains(&"jax"),
            _ => true,
        }
    };
    lines.filter(is_needed).collect()
}

fn finish(command: &mut Command, folder: &Path) -> Result<()> {
    let status = command.status().with_context(|| format!("making {}", folder.display()))?;
    if !status.success() {
        bail!("making {} ended with {status}: {command:?}", folder.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_need_their_own_packages_only() {
        let text = "# why\njax==1\njaxlib==1\nnumpy==2\n\ntorch==3\n";
        assert_eq!(requirements(text, &["jax"]), ["jax==1", "jaxlib==1", "numpy==2"]);
        assert_eq!(requirements(text, &["torch-compile"]), ["numpy==2", "torch==3"]);
    }
}
