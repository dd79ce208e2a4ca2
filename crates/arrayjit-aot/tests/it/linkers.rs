//! Objects for Windows and macOS in the hands of linkers: a C program for Windows runs under Wine, and
//! computes the bits of this process. Objects for Apple's systems and for the linker of MSVC become shared
//! libraries.
//!
//! On Debian, the packages `gcc-mingw-w64-x86-64`, `wine64` and `lld` have the programs that these tests run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrayjit::HostArray;
use arrayjit_aot::{Library, ObjectLevel};
use object::{Object, ObjectSymbol};

use crate::programs::{reference_of_text, values};

/// A product, whose code calls itself on threads, and a size.
const TEXT: &str = "
    size n <= 8; input x f32[n, 3], w f32[2, 3], p f32[90, 70], q f32[70, 80]
    y[i,o] :+= x[i,k] * w[o,k]
    r[i,j] :+= p[i,k] * q[k,j]
    s[i] :max= tanh(r[i,j])
    keep y, r, s
";

/// A program that runs the routine at each level, checks errors, and writes all arrays of each run to a file.
const PROGRAM: &str = r#"
#include "tone.h"
#include <stdio.h>

static _Alignas(64) float x[24], w[6], y[16], p[90 * 70], q[70 * 80], r[90 * 80], s[90];
static _Alignas(64) unsigned char arena[TONE_ARENA_BYTES + 1], scratch[3 * TONE_THREAD_BYTES + 1];

static void fill(float *array, int at, int length) {
    for (int i = 0; i < length; i++) array[i] = (float)((i * 37 + at * 11) % 1013 / 145.0 - 3);
}

static int64_t call(int level, float *out, int64_t n, const struct tone_threads *threads) {
    return tone_run(level, x, w, out, p, q, r, s, n, arena, threads);
}

/* A call while registers that the convention preserves have values. */
static int64_t call_with_values(int level) {
    volatile double v[10];
    for (int i = 0; i < 10; i++) v[i] = i + 0.5;
    double a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7], i = v[8], j = v[9];
    int64_t status = call(level, y, 8, 0);
    int kept = a == v[0] && b == v[1] && c == v[2] && d == v[3] && e == v[4] && f == v[5] && g == v[6]
        && h == v[7] && i == v[8] && j == v[9];
    return kept ? status : -99;
}

static void run(void *context, uint64_t count, void (*task)(void *data), void *data) {
    for (uint64_t i = 0; i < count; i++) task(data);
    ++*(int *)context;
}

int main(void) {
    int tasks = 0;
    struct tone_threads threads = {run, &tasks, 4, scratch};
    FILE *file = fopen("out.bin", "wb");
    if (tone_level() < 0) return 10;
    for (int level = tone_level(); level < LEVELS; level++) {
        for (int divided = 0; divided < 2; divided++) {
            float *all[] = {x, w, y, p, q, r, s};
            int lengths[] = {24, 6, 16, 90 * 70, 70 * 80, 90 * 80, 90};
            for (int at = 0; at < 7; at++) fill(all[at], at, lengths[at]);
            if ((divided ? call(level, y, 8, &threads) : call_with_values(level)) != 0) return 11;
            for (int at = 0; at < 7; at++) fwrite(all[at], sizeof(float), lengths[at], file);
        }
        if (call(level, y, 9, 0) != 1) return 12;
        if (call(level, y + 1, 8, 0) != -1) return 13;
    }
    if (call(LEVELS, y, 8, 0) != -2) return 14;
    return fclose(file) != 0;
}
"#;

/// The program of a name, or of a name that ends in its version, in a folder of programs.
fn tool(name: &str, package: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders).chain([PathBuf::from("/usr/lib/wine")]);
    let names = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let is_named = |path: &PathBuf| {
        let file = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        file.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("-1") || rest.starts_with("-2"))
    };
    let found = names.map(|entry| entry.path()).find(is_named);
    found.unwrap_or_else(|| panic!("there is no program `{name}`: install the package `{package}`"))
}

/// Runs a program in a folder, which must succeed.
fn succeed(folder: &Path, program: &Path, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("WINEPREFIX", folder.join("wine"))
        .env("WINEDEBUG", "-all")
        .output()
        .expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {}: {message}", program.display(), output.status);
}

const TRIPLE: &str = "x86_64-pc-windows-gnu";

#[test]
#[ignore = "needs a C compiler for Windows, and Wine"]
fn programs_for_windows_have_the_bits_of_this_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut library = Library::new("tone", TRIPLE).expect("a target");
    let routine = library.add_text("run", TEXT, &[]).expect("a valid text");
    let names: Vec<&str> = routine.arrays().iter().map(|array| &*array.name).collect();
    assert_eq!(names, ["x", "w", "y", "p", "q", "r", "s"]);
    let expected = reference_of_text(TEXT, routine, &[8]);
    assert_ne!(expected[6].bytes(), values(routine)[6].bytes());
    library.write(folder.path()).expect("a writable folder");
    fs::write(folder.path().join("program.c"), PROGRAM).expect("a writable folder");
    let compiler = tool("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64");
    let levels = ObjectLevel::of(TRIPLE).expect("a target").len();
    let arguments = format!("-O2 -Wall -Wextra -Werror -DLEVELS={levels} -o program.exe program.c tone.obj");
    succeed(folder.path(), &compiler, &arguments.split(' ').collect::<Vec<_>>());
    succeed(folder.path(), &tool("wine64", "wine64"), &["program.exe"]);
    let run: Vec<u8> = expected.iter().flat_map(HostArray::bytes).copied().collect();
    let found = fs::read(folder.path().join("out.bin")).expect("the arrays");
    assert!(!found.is_empty() && found.len().is_multiple_of(run.len()), "{} bytes", found.len());
    assert!(found.chunks(run.len()).all(|found| found == run), "the bits differ");
    println!("{} runs", found.len() / run.len());
}

/// A library with constants whose code calls a product of the runtime and, at one level, other functions.
fn library_with_products(triple: &str) -> Library {
    let mut library = Library::new("tone", triple).expect("a target").with_products();
    let w = HostArray::from_slice(&[0.5f32; 6], [2, 3]).expect("a small array");
    library.add_text("run", TEXT, &[("w", &w)]).expect("a valid text");
    let doubles = "input x f64[50]; y[i] := fma(x[i], 2, 1); keep y";
    library.add_text("doubles", doubles, &[]).expect("a valid text");
    assert!(library.calls_products());
    library
}

#[test]
#[ignore = "needs linkers"]
fn linkers_of_other_systems_make_libraries() {
    let systems = [
        ("x86_64-apple-darwin", "-arch x86_64 -platform_version macos 11.0 11.0"),
        ("aarch64-apple-darwin", "-arch arm64 -platform_version macos 11.0 11.0"),
        ("aarch64-apple-ios", "-arch arm64 -platform_version ios 14.0 14.0"),
        ("x86_64-pc-windows-msvc", "/dll /noentry /force:unresolved /out:tone.lib"),
    ];
    for (triple, arguments) in systems {
        let folder = tempfile::tempdir().expect("a folder");
        let library = library_with_products(triple);
        library.write(folder.path()).expect("a writable folder");
        let entry = match triple.starts_with("x86_64") {
            true => "tone_run_x86_64_v3",
            false => "tone_run_arm64",
        };
        let export = format!("/export:{entry}");
        let mut words: Vec<&str> = arguments.split(' ').collect();
        let linker = match triple.contains("windows") {
            true => {
                words.extend(["tone.obj", &export]);
                tool("lld-link", "lld")
            }
            false => {
                words.extend(["-dylib", "-undefined", "dynamic_lookup", "tone.o", "-o", "tone.lib"]);
                tool("ld64.lld", "lld")
            }
        };
        succeed(folder.path(), &linker, &words);
        let bytes = fs::read(folder.path().join("tone.lib")).expect("the shared library");
        let file = object::File::parse(&*bytes).expect("a shared library");
        // Entries are hidden in a shared library for Apple's systems, as in one of ELF.
        let exports = file.exports().expect("exported symbols");
        let exports = exports.iter().map(object::Export::name);
        let mut names = exports.chain(file.symbols().filter_map(|symbol| symbol.name_bytes().ok()));
        let is_entry = |name: &[u8]| String::from_utf8_lossy(name).trim_start_matches('_') == entry;
        assert!(names.any(is_entry), "{triple}");
        println!("{triple}: {} bytes", bytes.len());
    }
}
