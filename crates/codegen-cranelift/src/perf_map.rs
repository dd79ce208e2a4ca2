//! A symbol map of the generated code, so that `perf` shows kernels by name.
//!
//! `ARRAYJIT_PERF_MAP=1` appends to `/tmp/perf-<process id>.map`, which `perf report` reads; any other value
//! is the path of the file to append to. An unset or empty variable writes nothing. Each line is `<address>
//! <bytes> <kernel>`, with numbers in hex. A line stays when its code is freed, so a later kernel may reuse
//! the address; the last line for an address is valid.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Appends a kernel to the map, if the variable is set.
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
