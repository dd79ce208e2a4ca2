//! Versions of the libraries in this program.

/// The version of a package in the lock file that this program was built with; empty if it has none.
#[cfg_attr(
    not(any(feature = "gemm", feature = "matrixmultiply", feature = "ndarray", feature = "candle-core")),
    expect(dead_code, reason = "no library is built in")
)]
pub(super) fn of(package: &str) -> &'static str {
    let lock = include_str!("../../../Cargo.lock");
    let mut packages = lock.split("[[package]]");
    let name = format!("name = \"{package}\"");
    let found = packages.find(|text| text.lines().any(|line| line == name)).unwrap_or_default();
    let version = found.lines().find_map(|line| line.strip_prefix("version = "));
    version.map_or("", |version| version.trim_matches('"'))
}
