//! `cargo xtask gpu-archive`: packs the tests that need an NVIDIA GPU, the benchmarks with their peers in
//! Python, and the example `digits`, with all files that they read, the loader of Vulkan and a script that
//! runs them, for a machine with a GPU and without Rust.

mod build;
mod check;
mod needs;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

/// Options of `cargo xtask gpu-archive`.
#[derive(clap::Args)]
pub(crate) struct GpuArchiveArgs {
    /// Where to write the archive
    #[arg(long, default_value = "target/gpu-archive.tar.xz")]
    out: PathBuf,
    /// Unpack the archive elsewhere and test it here: without a driver, and with the one made for tests
    #[arg(long)]
    check: bool,
}

/// The folder in the archive.
const NAME: &str = "arrayjit-gpu";
/// The most bytes of the archive.
const MOST: u64 = 60 << 20;
/// The script that runs the programs, and its description.
const SCRIPT: &str = include_str!("gpu_archive/run.sh");
const README: &str = include_str!("gpu_archive/README.md");

/// Packs the archive, lists it, and checks it on request.
pub(crate) fn run(args: &GpuArchiveArgs) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder for the archive")?;
    let root = folder.path().join(NAME);
    fill(&root)?;
    pack(folder.path(), &args.out)?;
    list(&root)?;
    let bytes = fs::metadata(&args.out)?.len();
    println!("{}: {:.1} MiB", args.out.display(), bytes as f64 / 1048576.0);
    ensure!(bytes <= MOST, "the archive has more than {} MiB", MOST >> 20);
    println!(
        "on a machine with an NVIDIA GPU: tar -xf {}; {NAME}/run.sh",
        args.out.file_name().unwrap_or_default().display()
    );
    if args.check { check::check(&args.out) } else { Ok(()) }
}

/// Puts everything into the folder to be packed.
fn fill(root: &Path) -> Result<()> {
    for (folder, programs) in [
        ("tests", build::tests()?),
        ("bin", build::programs()?),
        // The library lies beside the folder of the tests, which look for it there.
        ("examples", build::driver()?),
    ] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder)?;
        for (name, path) in programs {
            fs::copy(&path, folder.join(name)).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    for files in ["tools/filetests/lir", "data"] {
        copy(&xtask::root().join(files), &root.join("files").join(files))?;
    }
    copy(&xtask::root().join("benches/peers"), &root.join("peers"))?;
    xtask::gpu_tools::unpack_vulkan_loader(&root.join("vulkan"))?;
    let script = root.join("run.sh");
    fs::write(&script, SCRIPT)?;
    fs::write(root.join("README.md"), README)?;
    fs::write(root.join("COMMIT"), commit()? + "\n")?;
    make_executable(&script)
}

#[cfg(unix)]
fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    bail!("the archive is made on Linux, for Linux")
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy(&from, &to)?,
            false => fs::copy(&from, &to).map(|_| ())?,
        }
    }
    Ok(())
}

/// The commit of the repository, and whether any file differs from it.
fn commit() -> Result<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .current_dir(xtask::root())
        .output()
        .context("starting git")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Packs a folder; the same files give the same archive. With gzip it would be half as large again.
fn pack(folder: &Path, out: &Path) -> Result<()> {
    if let Some(parent) = out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=2020-01-01 00:00Z"];
    call(
        Command::new("tar")
            .args(same)
            .arg("-C")
            .arg(folder)
            .arg("-cJf")
            .arg(out)
            .arg(NAME)
            .env("XZ_OPT", "-T0"),
    )
}

/// Lists every program with its size and requirements, and counts the other files.
fn list(root: &Path) -> Result<()> {
    for folder in ["bin", "examples", "tests", "vulkan"] {
        let mut programs: Vec<PathBuf> =
            fs::read_dir(root.join(folder))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        programs.sort();
        for program in programs {
            let bytes = fs::read(&program)?;
            println!(
                "{:>8} KiB  {}  {}",
                bytes.len() >> 10,
                program.strip_prefix(root)?.display(),
                needs::of(&bytes)
            );
        }
    }
    let commit = fs::read_to_string(root.join("COMMIT"))?;
    println!("and run.sh, README.md, COMMIT ({}), files/, peers/", commit.trim());
    Ok(())
}

/// Runs a command that must succeed.
fn call(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
