//! Tests the archive on this machine: unpacked elsewhere, with the repository hidden if the system allows it.

use std::{
    ffi::{OsStr, OsString},
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
    call(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder.path()))?;
    let root = folder.path().join(NAME);
    let hidden =
        if can_hide() { "out of sight" } else { "in sight, as the system does not let it be hidden" };
    println!("running the archive in {}, the repository {hidden}", root.display());
    expect_one_line(&root, &folder.path().join("empty"))?;

    let driver = folder.path().join("driver");
    fs::create_dir(&driver)?;
    fs::copy(root.join("examples/libfake_cuda.so"), driver.join("libcuda.so"))?;
    // Both names are of one library, so that NCCL knows the devices of the driver.
    fs::hard_link(driver.join("libcuda.so"), driver.join("libnccl.so"))?;
    let out = folder.path().join("out");
    expect_success(&run(&root, &driver, &out, ["driver", "nccl"])?, &out)?;
    let programs = fs::read_dir(root.join("tests"))?.map(|entry| Ok(entry?.file_name()));
    let programs: Vec<OsString> = programs.collect::<Result<_>>()?;
    let of_driver = programs.iter().filter(|name| name.to_string_lossy().starts_with("device-cuda-"));
    for step in of_driver.cloned().chain(["nccl".into()]) {
        let text = fs::read_to_string(out.join(&step).with_extension("txt"))?;
        ensure!(text.contains("test result: ok") && text.contains(" 0 ignored"), "{step:?} said:\n{text}");
    }
    expect_continuation(&root, &driver, &out)?;
    expect_failure(&root, &driver, &folder.path().join("more"))
}

fn expect_success(output: &Output, out: &Path) -> Result<()> {
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "steps failed: {said}{}", texts(out)?);
    Ok(())
}

/// A part without time runs no step and reports that; with time it runs, without the steps that have passed.
fn expect_continuation(root: &Path, driver: &Path, out: &Path) -> Result<()> {
    let cpu = |limit: &str| {
        let mut command = command(root, driver, out, ["driver", "cpu"]);
        command.env("LIMIT", limit).env("CASES", "axpy_relu_16k,sum_16k").output().context("starting run.sh")
    };
    let output = cpu("0")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains("not run or not finished: cpu-1"), "{said}");
    let output = cpu("180")?;
    expect_success(&output, out)?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        said.contains("device-cuda-driver: has passed before") && said.contains("cpu-1: passed"),
        "{said}"
    );
    let table = fs::read_to_string(out.join("cpu.txt"))?;
    ensure!(table.contains("sum_16k") && table.contains("waiting threads use"), "{table}");
    ensure!(out.join("results.tar.gz").is_file(), "the results are not packed");
    Ok(())
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

/// The replacement driver cannot run compiled kernels, and has neither torch nor Vulkan: the script must
/// report the steps that fail or cannot run, and continue to the last.
fn expect_failure(root: &Path, driver: &Path, out: &Path) -> Result<()> {
    let output = run(root, driver, out, ["backend", "approximate", "kernels", "models", "wgpu", "digits"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let steps =
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("FAILED")).count();
    let failed = "failed: arrayjit-cuda approximate kernels digits;";
    let named = said.contains(failed) && said.contains("not run or not finished: models wgpu\n");
    ensure!(!output.status.success() && named && steps >= 4, "{said}{}", texts(out)?);
    print!("what cannot run there fails: {said}");
    Ok(())
}

/// Runs parts of the script with `libraries` as the only folder of libraries.
fn run<const N: usize>(root: &Path, libraries: &Path, out: &Path, parts: [&str; N]) -> Result<Output> {
    command(root, libraries, out, parts).output().context("starting run.sh")
}

fn command<const N: usize>(root: &Path, libraries: &Path, out: &Path, parts: [&str; N]) -> Command {
    let script = root.join("run.sh");
    let mut command = match can_hide() {
        true => hiding(script.as_os_str()),
        false => Command::new(&script),
    };
    command.args(parts).current_dir(root).env("OUT", out).env("LD_LIBRARY_PATH", libraries);
    command.env("NCCL", libraries.join("libnccl.so"));
    // Variables that are set for other tests here must not affect these.
    for variable in ["FAKE_CUDA", "FAKE_CUDA_LOG", "FILETESTS_FILES", "DEVICE_CUDA_TEST_CHILD"] {
        command.env_remove(variable);
    }
    command
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
