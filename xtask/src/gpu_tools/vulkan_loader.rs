//! The loader of Vulkan and the libraries of GLVND, which drivers of Vulkan load: for machines that have a
//! driver and neither.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::apt::{self, Archive, Suites};

const PACKAGES: [&str; 6] = ["libvulkan1", "libglvnd0", "libegl1", "libglx0", "libgl1", "libgles2"];

/// Puts the libraries of the packages into a folder, which is made.
///
/// # Errors
///
/// Machines without Debian's packages, and unreachable archives.
pub fn unpack_vulkan_loader(folder: &Path) -> Result<()> {
    let release = apt::release()?;
    let work = tempfile::tempdir().context("making a folder for packages")?;
    let archive = Archive::open(work.path().join("apt"), &release, Suites::Release)?;
    let root = work.path().join("root");
    for package in PACKAGES {
        let file = archive.download(package, &work.path().join(package))?;
        apt::output(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&root))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let libraries = root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    for entry in fs::read_dir(&libraries).with_context(|| format!("reading {}", libraries.display()))? {
        let path = entry?.path();
        // A link becomes a copy of its file under its own name, by which programs look for the library.
        if path.is_file() {
            let name = path.file_name().context("a file without a name")?;
            fs::copy(&path, folder.join(name)).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    ensure!(folder.join("libvulkan.so.1").is_file(), "the packages have no libvulkan.so.1");
    Ok(())
}
