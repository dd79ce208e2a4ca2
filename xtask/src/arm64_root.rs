//! A system for ARM64 builds on an x86-64 machine: Debian's testing release in a folder, with a Rust compiler
//! whose standard library is also there for ARM64, a linker, and QEMU, which runs ARM64 programs.
//!
//! Rust's own distribution of the standard library for ARM64 would need a download from elsewhere, and the
//! machine's release has no QEMU that is new enough. The folder takes about 2 GB and is made once, in a
//! minute.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::gpu_tools::apt::{self, output};

/// The release. Its name is not that of the machine's release.
const RELEASE: &str = "forky";

/// The packages beside those of a minimal system.
const PACKAGES: [&str; 6] = [
    "rustc",
    "cargo",
    "libstd-rust-dev:arm64",
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "qemu-user",
];

/// The file that says that the folder is complete.
const MARK: &str = ".complete";

/// Where the folder is: `ARM64_ROOT` in the environment, or `target/arm64-root`.
pub fn folder() -> PathBuf {
    std::env::var_os("ARM64_ROOT").map_or_else(|| crate::root().join("target/arm64-root"), PathBuf::from)
}

/// Makes the system if it is missing, and returns its folder.
///
/// # Errors
///
/// Users other than root, machines without Debian's packages, and unreachable archives.
pub fn ensure_root() -> Result<PathBuf> {
    let user = output(Command::new("id").arg("-u"))?;
    ensure!(user.trim() == "0", "builds for ARM64 run in a folder with `chroot`, which needs root");
    let root = folder();
    if root.join(MARK).exists() {
        return Ok(root);
    }
    eprintln!("making a system for ARM64 builds in {}", root.display());
    bootstrap(&root).with_context(|| format!("making a system in {}", root.display()))?;
    install(&root).with_context(|| format!("installing packages in {}", root.display()))?;
    std::fs::write(root.join(MARK), "")?;
    Ok(root)
}

/// Makes a minimal system, with a script that describes its release to `debootstrap`.
fn bootstrap(root: &Path) -> Result<()> {
    if output(Command::new("debootstrap").arg("--version")).is_err() {
        apt::release()?;
        apt::install(&["debootstrap".to_owned()])?;
    }
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    std::fs::create_dir_all(root)?;
    // The script of the unstable release serves every later one.
    let script = "/usr/share/debootstrap/scripts/sid";
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", "--arch=amd64", RELEASE]).arg(root).arg(mirror()?).arg(script);
    output(&mut command).map(drop)
}

/// The archive from which this machine takes Debian's packages.
fn mirror() -> Result<String> {
    let sources =
        output(Command::new("apt-get").args(["indextargets", "--format", "$(ORIGIN) $(REPO_URI)"]))?;
    let of_debian = sources.lines().filter_map(|line| line.strip_prefix("Debian "));
    let mirror = of_debian.map(str::trim).find(|uri| !uri.contains("security"));
    mirror.map(str::to_owned).context("no source in /etc/apt is of Debian, or `apt-get update` never ran")
}

/// Installs the compiler, the linker and QEMU.
fn install(root: &Path) -> Result<()> {
    // An archive that keeps the state of a day has lists whose time is over.
    let options = "APT::Install-Recommends \"false\";\nAcquire::Check-Valid-Until \"false\";\n";
    std::fs::write(root.join("etc/apt/apt.conf.d/90arm64"), options)?;
    let without = ["doc", "man", "locale"].map(|folder| format!("path-exclude=/usr/share/{folder}/*\n"));
    std::fs::write(root.join("etc/dpkg/dpkg.cfg.d/90arm64"), without.concat())?;
    std::fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf")).context("copying /etc/resolv.conf")?;
    let inside = |command: &[&str]| as_root(root, command);
    inside(&["dpkg", "--add-architecture", "arm64"])?;
    inside(&["apt-get", "-qq", "update"])?;
    let install = ["apt-get", "-qq", "-y", "install"];
    if inside(&[&install[..], &PACKAGES].concat()).is_err() {
        // Dependencies of two architectures may need a second attempt.
        inside(&["apt-get", "-qq", "-y", "-f", "install"])?;
        inside(&[&install[..], &PACKAGES].concat())?;
    }
    inside(&["apt-get", "clean"]).map(drop)
}

/// Runs a command that changes the system, and returns what it writes.
fn as_root(root: &Path, command: &[&str]) -> Result<String> {
    output(Command::new("chroot").arg(root).args(command).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Installs a package that few commands need, if it is missing.
///
/// # Errors
///
/// An unreachable archive, and the errors of [`ensure_root`].
pub fn ensure_package(name: &str) -> Result<()> {
    let root = ensure_root()?;
    if as_root(&root, &["dpkg", "-s", name]).is_err() {
        as_root(&root, &["apt-get", "-qq", "update"])?;
        as_root(&root, &["apt-get", "-qq", "-y", "install", name])?;
    }
    Ok(())
}

/// A command that runs in the system, with this repository at its usual place and the machine's folder of
/// downloaded crates. The variables of the environment that concern tests are kept.
///
/// # Errors
///
/// Folders that cannot be made.
fn inside(root: &Path, words: &[String]) -> Result<Command> {
    let repository = crate::root().canonicalize()?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let crates = home.context("the environment has neither CARGO_HOME nor HOME")?.join("registry");
    std::fs::create_dir_all(&crates)?;
    let mounts = [(repository.as_path(), repository.as_path()), (&crates, Path::new("/cargo/registry"))];
    let own = ["/proc", "/dev", "/sys", "/tmp"].map(|folder| (Path::new(folder), Path::new(folder)));
    let mut script = String::from("set -e; mount --make-rprivate /; ");
    for (from, to) in mounts.into_iter().chain(own) {
        let to = root.join(to.strip_prefix("/")?);
        std::fs::create_dir_all(&to)?;
        script += &format!("mount --rbind '{}' '{}'; ", from.display(), to.display());
    }
    script += FORMATS;
    script += r#"exec chroot "$@""#;
    let mut command = Command::new("unshare");
    // The formats of programs belong to a namespace of users, so that those of the machine stay.
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(root);
    command.args(["/usr/bin/env", "-i", "-C"]).arg(&repository).args(environment(&repository));
    command.args(words);
    Ok(command)
}

/// Makes the kernel run programs for ARM64 by QEMU, for tests that start themselves; `$1` is the system.
/// Where the kernel is too old for it (before 6.7), these tests fail.
const FORMATS: &str = r#"
formats="$1/proc/sys/fs/binfmt_misc"
mount -t binfmt_misc binfmt_misc "$formats" &&
    sed 's/:[A-Z]*$/:/' "$1/usr/share/qemu/binfmt.d/qemu-aarch64.conf" >"$formats/register" ||
    echo 'programs for ARM64 cannot start others' >&2
"#;

/// The variables of a command in the system.
fn environment(repository: &Path) -> Vec<String> {
    let kept = |name: &str| {
        ["EFFORT", "RUSTFLAGS", "RUST_BACKTRACE", "RUST_LOG", "TERM", "CARGO_BUILD_JOBS", "CARGO_INCREMENTAL"]
            .contains(&name)
            || ["ARRAYJIT_", "CONFORMANCE_", "PROPTEST_", "QEMU_", "CARGO_PROFILE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    let mut variables: Vec<String> = std::env::vars()
        .filter(|(name, _)| kept(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let target = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU";
    variables.extend([
        "HOME=/tmp".to_owned(),
        "CARGO_HOME=/cargo".to_owned(),
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        "CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu".to_owned(),
        format!("CARGO_TARGET_DIR={}/target/arm64", repository.display()),
        format!("{target}_LINKER=aarch64-linux-gnu-gcc"),
        format!("{target}_RUNNER=qemu-aarch64 -L /usr/aarch64-linux-gnu"),
    ]);
    variables
}

/// A command that runs in the system. Words before the program may set variables.
///
/// # Errors
///
/// The errors of [`ensure_root`].
pub fn command(words: &[String]) -> Result<Command> {
    inside(&ensure_root()?, words)
}

/// Runs a command in the system, and fails if it fails.
///
/// # Errors
///
/// The command does not start or fails; and the errors of [`ensure_root`].
pub fn run(words: &[String]) -> Result<()> {
    let status = command(words)?.status().context("starting `unshare`")?;
    if !status.success() {
        bail!("`{}` for ARM64 ended with {status}", words.join(" "));
    }
    Ok(())
}
