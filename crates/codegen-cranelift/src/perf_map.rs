//! A symbol map of the generated code, so that `perf` shows kernels by name.
//!
//! `ARRAYJIT_PERF_MAP=1` appends to `/tmp/perf-<process id>.map`, where `perf report` looks; any other value is the path of
//! the file to append to. Unset or empty writes nothing. Each line is `<address> <bytes> <kernel>`, numbers in hex. Lines stay
//! when their code is freed, so a later kernel may reuse an address: the last line for it holds.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Adds a kernel to the map, if one is wanted.
pub(crate) fn record(kernel: &str, address: usize, bytes: usize) {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| path(&std::env::var("ARRAYJIT_PERF_MAP").ok()?));
    let Some(file) = file else { return };
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut map| map.write_all(line(kernel, address, bytes).as_bytes()));
    if let Err(error) = written {
        tracing::warn!(file = %file.display(), %error, "the symbol map of kernels was not written");
    }
}

fn path(setting: &str) -> Option<PathBuf> {
    match setting {
        "" => None,
        "1" => Some(format!("/tmp/perf-{}.map", std::process::id()).into()),
        path => Some(path.into()),
    }
}

fn line(kernel: &str, address: usize, bytes: usize) -> String {
    format!("{address:x} {bytes:x} {kernel}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_names_the_file() {
        assert_eq!(path(""), None);
        assert_eq!(path("here.map"), Some("here.map".into()));
        assert!(path("1").is_some_and(|p| p.ends_with(format!("perf-{}.map", std::process::id()))));
    }

    #[test]
    fn lines_are_hexadecimal() {
        assert_eq!(line("step.k0", 0x7f00_0010, 300), "7f000010 12c step.k0\n");
    }
}
