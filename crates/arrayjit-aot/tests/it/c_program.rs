//! A C program calls a routine through the header: with the C library, and without any library.

use std::fs;
use std::path::Path;
use std::process::Command;

use arrayjit::HostArray;
use arrayjit_aot::Library;
use arrayjit_rt::ProcessorLevel;

use crate::programs::reference_of_text;

const PROGRAM: &str = r#"
#include "tone.h"

static _Alignas(64) float x[24];
static _Alignas(64) float y[16];
static _Alignas(64) unsigned char arena[TONE_ARENA_BYTES + 1];

static int check(void) {
    int level = tone_level();
    if (level < 0) return 10;
    if (level != LEVEL) return 9; /* that of Rust */
    for (int i = 0; i < 24; i++) x[i] = (float)i;
    if (tone_step(level, x, y, 8, arena, 0) != 0) return 11;
    for (int row = 0; row < 8; row++) {
        for (int o = 0; o < 2; o++) {
            float sum = 0;
            for (int k = 0; k < 3; k++) sum += x[3 * row + k] * (float)(3 * o + k + 1);
            if (y[2 * row + o] != sum) return 12;
        }
    }
    if (tone_step(level, x, y, 9, arena, 0) != 1) return 13;
    if (tone_step(level, x, y + 1, 8, arena, 0) != -1) return 14;
    if (tone_step(level, x, y, 8, arena + 1, 0) != -1) return 15;
    if (tone_step(level, 0, y, 8, arena, 0) != -1) return 17;
    return tone_step(7, x, y, 8, arena, 0) == -2 ? 0 : 16;
}
"#;

/// A program whose routine runs on threads of the system.
const THREADED: &str = r#"
#include <pthread.h>
#include <string.h>

static _Alignas(64) float in[2048 * 512], once[2048], divided[2048];
static _Alignas(64) unsigned char scratch[3 * TONE_THREAD_BYTES + 1];

struct call { void (*task)(void *data); void *data; };

static void *run_call(void *call) {
    ((struct call *)call)->task(((struct call *)call)->data);
    return 0;
}

/* Calls a task on threads, and counts the tasks. */
static void run(void *context, uint64_t count, void (*task)(void *data), void *data) {
    pthread_t threads[3];
    struct call call = {task, data};
    for (uint64_t i = 0; i < count - 1; i++) pthread_create(&threads[i], 0, run_call, &call);
    task(data);
    for (uint64_t i = 0; i < count - 1; i++) pthread_join(threads[i], 0);
    ++*(int *)context;
}

int main(void) {
    int tasks = 0;
    struct tone_threads threads = {run, &tasks, 4, scratch};
    for (int i = 0; i < 2048 * 512; i++) in[i] = (float)(i % 1013) / 7;
    if (tone_rows(tone_level(), in, once, arena, 0) != 0) return 20;
    if (tone_rows(tone_level(), in, divided, arena, &threads) != 0) return 21;
    if (memcmp(once, divided, sizeof once) != 0 || once[2047] == 0) return 22;
    threads.scratch = scratch + 1;
    if (TONE_THREAD_BYTES > 0 && tone_rows(tone_level(), in, divided, arena, &threads) != -1) return 23;
    return tasks > 0 ? check() : 24;
}
"#;

/// The levels of the library. C and Rust choose the same.
const LEVELS: &[ProcessorLevel] =
    &[ProcessorLevel::X86V4, ProcessorLevel::X86V4Mixed, ProcessorLevel::X86V3, ProcessorLevel::X86V2];

/// Compiles the program with this main function, runs it, and checks its status.
fn check(folder: &Path, name: &str, main: &str, flags: &[&str]) {
    let source = folder.join(format!("{name}.c"));
    fs::write(&source, format!("{PROGRAM}\n{main}")).expect("a writable folder");
    let program = folder.join(name);
    let level = arrayjit_rt::select(LEVELS).expect("this processor has a level");
    let compiler = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", &format!("-DLEVEL={level}"), "-o"])
        .args([&program, &source, &folder.join("tone.o")])
        .args(flags)
        .output()
        .expect("a C compiler, which links Rust programs too");
    assert!(compiler.status.success(), "{}", String::from_utf8_lossy(&compiler.stderr));
    let status = Command::new(program).status().expect("the program runs");
    assert_eq!(status.code(), Some(0), "{name}");
}

#[test]
fn c_programs_call_routines() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut library = Library::new("tone", "x86_64-unknown-linux-gnu").expect("a target");
    let w = HostArray::from_slice(&[1f32, 2., 3., 4., 5., 6.], [2, 3]).expect("a small array");
    let text = "size n <= 8; input x f32[n, 3], w f32[2, 3]; y[i,o] :+= x[i,k] * w[o,k]; keep y";
    library.add_text("step", text, &[("w", &w)]).expect("a valid text");
    let rows = "input x f32[2048, 512]; y[i] :+= tanh(x[i,k]); keep y";
    library.add_text("rows", rows, &[]).expect("a valid text");
    // Names that compilers know, of C++ too, and one whose letters they do not know.
    let words = "input asm f32[3], linux f32[3], int64_t i64[3], new u8[3], class f32[3], é f32[3]
                 unix[i] := asm[i] + linux[i] + f32(int64_t[i]) + f32(new[i]) + class[i] + é[i]
                 keep unix";
    library.add_text("words", words, &[]).expect("a valid text");
    let header = library.write(folder.path()).expect("a writable folder").c_header;
    check(folder.path(), "with_library", THREADED, &["-pthread"]);
    match Command::new("c++").args(["-fsyntax-only", "-x", "c++"]).arg(header).output() {
        Ok(cpp) => assert!(cpp.status.success(), "{}", String::from_utf8_lossy(&cpp.stderr)),
        Err(error) => eprintln!("the header is not compiled as C++: {error}"),
    }
    let start = r#"
__attribute__((force_align_arg_pointer, noreturn)) void _start(void) {
    __builtin_cpu_init();
    __asm__ volatile("syscall" : : "a"(60), "D"(check()));
    __builtin_unreachable();
}"#;
    check(
        folder.path(),
        "without_library",
        start,
        &["-static", "-nostdlib", "-lgcc", "-fno-stack-protector"],
    );
}

/// A program that writes a product of the matrices that other tests have too.
const PRODUCT: &str = r#"
#include "tone.h"
#include <stdio.h>

static _Alignas(64) float a[300 * 200], b[200 * 260], c[300 * 260];
static _Alignas(64) unsigned char arena[TONE_ARENA_BYTES + 1];

int main(void) {
    for (int i = 0; i < 300 * 200; i++) a[i] = (float)(i * 37 % 1013 / 145.0 - 3);
    for (int i = 0; i < 200 * 260; i++) b[i] = (float)((i * 37 + 11) % 1013 / 145.0 - 3);
    if (tone_product(tone_level(), a, b, c, arena, 0) != 0) return 1;
    return fwrite(c, sizeof c, 1, stdout) != 1;
}
"#;

#[test]
#[ignore = "it builds a library for a minute"]
fn c_programs_link_the_library_with_products() {
    let (folder, root) =
        (tempfile::tempdir().expect("a folder"), Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("static-library");
    let build = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--release", "-p", "arrayjit-rt", "--features", "products"])
        .args(["--crate-type", "staticlib"])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", &target)
        .status();
    assert!(build.expect("cargo runs").success());

    let mut library = Library::new("tone", "x86_64-unknown-linux-gnu").expect("a target").with_products();
    let text = "input a f32[300, 200], b f32[200, 260]; c[i,j] :+= a[i,k] * b[k,j]; keep c";
    assert!(library.add_text("product", text, &[]).expect("a valid text").calls_products());
    library.write(folder.path()).expect("a writable folder");
    let (source, program) = (folder.path().join("product.c"), folder.path().join("product"));
    fs::write(&source, PRODUCT).expect("a writable folder");
    let compiler = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source, &folder.path().join("tone.o"), &target.join("release/libarrayjit_rt.a")])
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .expect("a C compiler, which links Rust programs too");
    assert!(compiler.status.success(), "{}", String::from_utf8_lossy(&compiler.stderr));
    let found = Command::new(&program).output().expect("the program runs");
    assert_eq!(found.status.code(), Some(0));

    let expected = reference_of_text(text, &library.routines()[0], &[]);
    assert!(expected[2].bytes() == found.stdout, "the bits differ");
    println!("{} bytes", fs::metadata(&program).expect("the program").len());
}
