//! Tests the archive on this machine: unpacked elsewhere, with the repository hidden if the system allows it.

use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context, Result, bail, ensure};

use super::{NAME, call};

/// Runs the parts of an archive that this machine can run: first without a driver, which must fail with one
/// line; then the tests of the driver, with the library that replaces NVIDIA's.
pub(super) fn check(archive: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder for the check")?;
    call(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()))?;
    let root = folder.path().join(NAME);
    let hidden =
        if can_hide() { "out of sight" } else { "in sight, as the system does not let it be hidden" };
    println!("running the archive in {}, the repository {hidden}", root.display());
    expect_one_line(&root, &folder.path().join("empty"))?;

    let driver = folder.path().join("driver");
    fs::create_dir(&driver)?;
    fs::copy(root.join("examples/libfake_cuda.so"), driver.join("libcuda.so"))?;
    let out = folder.path().join("out");
    let output = run(&root, &driver, &out, ["driver"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    ensure!(
        output.status.success(),
        "the tests of the driver failed: {}{}",
        String::from_utf8_lossy(&output.stderr),
        texts(&out)?
    );
    for test in ["open", "driver", "code", "sequence", "suite", "peers", "logging", "lost"] {
        let text = fs::read_to_string(out.join(test).with_extension("txt"))?;
        ensure!(text.contains("test result: ok") && text.contains(" 0 ignored"), "{test} said:\n{text}");
    }
    expect_failure(&root, &driver, &folder.path().join("more"))
}

/// Without a driver the script ends at once, with the reason in one line.
fn expect_one_line(root: &Path, out: &Path) -> Result<()> {
    let output = run(root, Path::new(""), out, [])?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.stdout.starts_with(b"cuda:") {
        println!("this machine has a driver: that the archive says so where there is none was not tried");
        return Ok(());
    }
    let is_clear =
        said.starts_with("run.sh: REQUIRE_CUDA=1, and found no NVIDIA driver") && said.lines().count() == 1;
    ensure!(!output.status.success() && is_clear && output.stdout.is_empty(), "without a driver: {said}");
    print!("without a driver: {said}");
    Ok(())
}

/// The replacement driver cannot run compiled kernels: the script must report the failed steps and continue
/// to the last.
fn expect_failure(root: &Path, driver: &Path, out: &Path) -> Result<()> {
    let output = run(root, driver, out, ["backend", "digits"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let steps =
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("FAILED")).count();
    let named = said.starts_with("run.sh: failed: cuda_backend cuda digits;");
    ensure!(!output.status.success() && named && steps == 3, "{said}{}", texts(out)?);
    print!("what cannot run there fails: {said}");
    Ok(())
}

/// Runs the script with `libraries` as the only folder of libraries.
fn run<const N: usize>(root: &Path, libraries: &Path, out: &Path, parts: [&str; N]) -> Result<Output> {
    let script = root.join("run.sh");
    let mut command = match can_hide() {
        true => hiding(script.as_os_str()),
        false => Command::new(&script),
    };
    command.args(parts).current_dir(root).env("OUT", out).env("LD_LIBRARY_PATH", libraries);
    // Variables that are set for other tests here must not affect these.
    for variable in ["FAKE_CUDA", "FAKE_CUDA_LOG", "FILETESTS_FILES", "DEVICE_CUDA_TEST_CHILD"] {
        command.env_remove(variable);
    }
    command.output().context("starting run.sh")
}

/// A command that sees an empty folder in place of the repository.
fn hiding(program: &OsStr) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs tmpfs \"$0\" && exec \"$@\"").arg(xtask::root()).arg(program);
    command
}

fn can_hide() -> bool {
    hiding("true".as_ref()).output().is_ok_and(|output| output.status.success())
}

/// The output of all steps.
fn texts(out: &Path) -> Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        if path.extension() == Some("txt".as_ref()) {
            text += &format!("\n== {}\n{}", path.display(), fs::read_to_string(&path)?);
        }
    }
    if text.is_empty() { bail!("nothing was said in {}", out.display()) } else { Ok(text) }
}
