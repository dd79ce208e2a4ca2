//! Mesa's software Vulkan driver.
//!
//! Version 25.0 is known to work (in the backports of Debian 12, and in Debian 13). The fallback is version
//! 22.3 of Debian 12 itself: it works, but is ten times slower, and drops the upper half of `pack2x16float`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    Tool,
    apt::{self, Archive, Suites},
};

const PACKAGE: &str = "mesa-vulkan-drivers";
const LIBRARY: &str = "libvulkan_lvp.so";
const KNOWN_GOOD: u32 = 25;

/// The driver under `target/gpu-tools`, installed there if it is missing.
///
/// # Errors
///
/// Machines without Debian's packages, unreachable archives, and missing libraries that this user may not
/// install.
pub fn ensure_lavapipe() -> Result<Tool> {
    let folder = super::folder().join("lavapipe");
    if let Some(tool) = present(&folder) {
        return Ok(tool);
    }
    let release = apt::release()?;
    let unpacked = fetch(&folder, &release, Suites::Backports).or_else(|newer| {
        eprintln!("no driver from {release}-backports, taking the release's own: {newer:#}");
        fetch(&folder, &release, Suites::Release)
    });
    let unpacked = unpacked.context("no package of the software Vulkan driver")?;
    let library = keep_library(&unpacked, &folder)?;
    settle_libraries(&library, &unpacked.dependencies)?;
    write_manifest(&unpacked, &folder, &library)?;
    std::fs::write(folder.join("version"), &unpacked.version)?;
    std::fs::remove_dir_all(folder.join("apt")).context("removing what was downloaded")?;
    let tool = present(&folder).context("the driver that was just brought here is not there")?;
    if major(&tool.version) < KNOWN_GOOD {
        eprintln!("Mesa {} is older than the known good {KNOWN_GOOD}.0: expect it to be slow", tool.version);
    }
    Ok(tool)
}

/// The driver, if it is installed with all its libraries.
fn present(folder: &Path) -> Option<Tool> {
    // The version is written last.
    let version = std::fs::read_to_string(folder.join("version")).ok()?;
    let path = folder.join("lvp.json");
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
    let library = folder.join(LIBRARY);
    let points_here = manifest["ICD"]["library_path"].as_str() == library.to_str();
    let complete = points_here && missing_libraries(&library).ok()?.is_empty() && has_loader();
    complete.then_some(Tool { name: "Mesa lavapipe", version, path })
}

/// An unpacked package.
struct Unpacked {
    root: PathBuf,
    version: String,
    dependencies: Vec<String>,
}

fn fetch(folder: &Path, release: &str, suites: Suites) -> Result<Unpacked> {
    let apt = folder.join("apt").join(format!("{suites:?}").to_lowercase());
    if apt.exists() {
        std::fs::remove_dir_all(&apt).with_context(|| format!("removing {}", apt.display()))?;
    }
    let archive = Archive::open(apt.clone(), release, suites)?;
    let file = archive.download(PACKAGE, &apt.join("package"))?;
    let root = apt.join("root");
    apt::output(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&root))?;
    let field = |name: &str| apt::output(Command::new("dpkg-deb").arg("-f").arg(&file).arg(name));
    let version = field("Version")?.trim().to_owned();
    Ok(Unpacked { root, version, dependencies: packages(&field("Depends")?) })
}

/// The first alternative of each dependency, without versions. The dependencies of the package's scripts are
/// left out.
fn packages(depends: &str) -> Vec<String> {
    let first = depends
        .split(',')
        .filter_map(|dependency| dependency.split(['|', '(', ':', ' ']).find(|w| !w.is_empty()));
    first.map(|name| name.trim().to_owned()).filter(|name| !name.starts_with("python")).collect()
}

/// Moves the driver's library out of the package.
fn keep_library(unpacked: &Unpacked, folder: &Path) -> Result<PathBuf> {
    let found = find(&unpacked.root.join("usr/lib"), &|name| name == LIBRARY);
    let found = found.with_context(|| format!("{PACKAGE} {} holds no {LIBRARY}", unpacked.version))?;
    let library = folder.join(LIBRARY);
    std::fs::rename(&found, &library).with_context(|| format!("moving {}", found.display()))?;
    Ok(library)
}

/// The package's manifest, with the library's path on this machine.
fn write_manifest(unpacked: &Unpacked, folder: &Path, library: &Path) -> Result<()> {
    let is_manifest = |name: &str| name.starts_with("lvp_icd") && name.ends_with(".json");
    let found = find(&unpacked.root.join("usr/share/vulkan/icd.d"), &is_manifest);
    let found =
        found.with_context(|| format!("{PACKAGE} {} holds no manifest of lavapipe", unpacked.version))?;
    let mut manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(&found)?)?;
    let path = library.to_str().context("the repository lies in a folder whose name is not text")?;
    manifest["ICD"]["library_path"] = path.into();
    std::fs::write(folder.join("lvp.json"), serde_json::to_vec_pretty(&manifest)?)?;
    Ok(())
}

/// The first file below a folder whose name satisfies `wanted`.
fn find(folder: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort();
    let named = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(wanted);
    entries.iter().find(|path| path.is_file() && named(path)).cloned().or_else(|| {
        let mut folders = entries.iter().filter(|path| path.is_dir());
        folders.find_map(|folder| find(folder, wanted))
    })
}

/// Installs the libraries that the driver needs and this machine lacks.
fn settle_libraries(library: &Path, dependencies: &[String]) -> Result<()> {
    if !missing_libraries(library)?.is_empty() || !has_loader() {
        apt::install(dependencies)?;
    }
    let missing = missing_libraries(library)?;
    ensure!(missing.is_empty(), "the driver needs {}, which its packages do not bring", missing.join(", "));
    ensure!(has_loader(), "the Vulkan loader, libvulkan.so.1, is not among this machine's libraries");
    Ok(())
}

/// The shared libraries that the dynamic linker does not find.
fn missing_libraries(library: &Path) -> Result<Vec<String>> {
    let listed = apt::output(Command::new("ldd").arg(library))?;
    let missing = listed.lines().filter(|line| line.contains("not found"));
    Ok(missing.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect())
}

fn has_loader() -> bool {
    let cached = |program: &str| apt::output(Command::new(program).arg("-p"));
    let libraries = cached("ldconfig").or_else(|_| cached("/sbin/ldconfig"));
    libraries.is_ok_and(|libraries| libraries.contains("libvulkan.so.1"))
}

fn major(version: &str) -> u32 {
    let number = version.split(':').next_back().and_then(|version| version.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read() {
        let depends = "libvulkan1, python3:any, libc6 (>= 2.34), libllvm15 | libllvm16 (>= 1), libz3-4";
        assert_eq!(packages(depends), ["libvulkan1", "libc6", "libllvm15", "libz3-4"]);
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major("25.0.7-2~bpo12+1"), 25);
        assert_eq!(major("1:22.3.6-1"), 22);
        assert_eq!(major("what"), 0);
    }
}
