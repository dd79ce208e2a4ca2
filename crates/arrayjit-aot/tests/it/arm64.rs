//! Objects for ARM64 that this machine compiles, in programs under QEMU: they compute the bits of this
//! process.
//!
//! `cargo test -p arrayjit-aot --features cross --test it -- --ignored arm64::` runs these tests as root, and
//! makes the system that has QEMU (`cargo xtask arm64`). The first one needs Rust's target
//! `aarch64-unknown-none` too.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrayjit::{Backend, HostArray, Nodes};
use arrayjit_aot::{Library, LibraryRoutine, ObjectLevel};
use arrayjit_onnx::{DimensionSize, Model};
use digits::data::{Digits, FILE, load, split};
use digits::network::{BATCH, CLASSES, PIXELS};
use digits::state::Network;
use digits::train::Training;
use random_programs::effort;

use crate::example::{input, model_of_file};
use crate::onnx::{attention, classifier_graph, quantized, run_in_session, sizes};
use crate::onnx_builder::load as load_model;
use crate::programs::{PROGRAMS, reference_of_text, symbol, values};
use crate::random::{RandomRun, add_product, add_random, agrees};

/// The scores of one image, whose pixels are 0 to 16.
const CLASSIFY: &str = "
    input x u8[64], w1 f32[64, 128], b1 f32[128], w2 f32[128, 10], b2 f32[10]
    v[i]   := f32(x[i]) / 16
    h[j]  :+= v[i] * w1[i,j]
    a[j]   := max(h[j] + b1[j], 0)
    z[k]  :+= a[j] * w2[j,k]
    y[k]   := z[k] + b2[k]
    keep y
";

/// The most bytes of a program with a small network.
const MOST_BYTES: u64 = 300_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a program of the system for ARM64, which has this repository and the folder of temporary files.
fn in_system(options: &[&str], words: &[&OsStr], model: &Path) -> Output {
    let output = Command::new(env!("CARGO"))
        .args(["xtask", "arm64"])
        .args(options)
        .arg("--")
        .args(words)
        .current_dir(root())
        .env("MODEL_FOLDER", model)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A network that was trained for some passes over the images, and images that it has not seen.
fn trained(backend: &Backend) -> (Vec<(&'static str, HostArray)>, Digits) {
    let mut random = fastrand::Rng::with_seed(7);
    let (train, test) = split(&load(Path::new(FILE)).expect("the images"), &mut random);
    let network = Network::new(train.count(), test.count()).expect("small dimensions");
    let training =
        Training::prepare(backend, &network, &train, &test, &mut random).expect("the network compiles");
    let batches: Vec<i64> = (0..(train.count() / BATCH) as i64).collect();
    for _ in 0..10 {
        training.epoch(&batches).expect("it trains");
    }
    let values = |name| (name, training.read(name).expect("a parameter"));
    (["w1", "b1", "w2", "b2"].map(values).to_vec(), test)
}

/// The line of the program for each image, of scores that code of this process computes.
fn expected(backend: &Backend, weights: &[(&str, HostArray)], images: &[[u8; PIXELS]]) -> Vec<String> {
    let compiled = backend.compile(CLASSIFY, &Nodes::default()).expect("a valid text");
    let node = |name| compiled.node(name).expect("a node").clone();
    let mut context = backend.context().expect("a context");
    for (name, values) in weights {
        context = context.init_from_host(&node(name), values.clone()).expect("memory");
    }
    let x = |image: &[u8; PIXELS]| HostArray::from_slice(image, [PIXELS]).expect("a small array");
    let context = context.init_from_host(&node("x"), x(&images[0])).expect("memory");
    let linked = compiled.link(&context).expect("all nodes have values");
    let line = |image| {
        let _ = linked.context().from_host(&node("x"), x(image)).expect("memory");
        linked.run(&[]).expect("no bindings").sync().expect("it runs");
        let scores = linked.context().to_host(&node("y")).expect("the scores");
        let scores: Vec<f32> =
            scores.bytes().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let digit = (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).expect("classes");
        scores.iter().fold(format!("{digit}:"), |line, score| line + &format!(" {:08x}", score.to_bits()))
    };
    images.iter().map(line).collect()
}

#[test]
#[ignore = "needs Rust's target `aarch64-unknown-none`, and makes a system with QEMU"]
fn firmware_classifies_digits() {
    let backend = Backend::open("inline").expect("a backend");
    let (weights, test) = trained(&backend);
    let pixels: Vec<u8> = test.images.iter().map(|&pixel| (pixel * 16.0) as u8).collect();
    let images = pixels.as_chunks().0;
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("images.bin"), &pixels).expect("a writable folder");
    let mut library = Library::new("digits", "aarch64-unknown-none").expect("a target");
    let constants: Vec<_> = weights.iter().map(|(name, values)| (*name, values)).collect();
    library.add_text("classify", CLASSIFY, &constants).expect("a valid text");
    library.write(folder.path()).expect("a writable folder");

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aot-firmware");
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--target", "aarch64-unknown-none"])
        .current_dir(root().join("examples/aot-firmware"))
        .env("MODEL_FOLDER", folder.path())
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo runs");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let program = target.join("aarch64-unknown-none/release/aot-firmware");
    let bytes = fs::metadata(&program).expect("the program").len();
    println!("{bytes} bytes, of which {} are images", pixels.len());
    assert!(bytes < MOST_BYTES, "{bytes} bytes");

    let machine = "qemu-system-aarch64 -M virt -cpu cortex-a53 -m 64M -nographic -semihosting -kernel";
    let words: Vec<&OsStr> = machine.split(' ').map(OsStr::new).chain([program.as_os_str()]).collect();
    let output = in_system(&["--package", "qemu-system-arm", "--run"], &words, folder.path());
    let found = String::from_utf8(output.stdout).expect("text");
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, expected(&backend, &weights, images));
    let right = found.iter().zip(&test.labels).filter(|(line, label)| line.starts_with(&label.to_string()));
    let (right, all) = (right.count(), found.len());
    println!("{right} of {all} images");
    assert!(right * 100 > all * 93, "{right} of {all} images");
}

/// A run of an entry, and the arrays that it must give.
struct ExpectedRun {
    routine: String,
    given: Vec<HostArray>,
    bindings: Vec<i64>,
    expected: Vec<HostArray>,
    /// The program, if NaN may have any bits.
    random: Option<String>,
}

/// Adds programs, random programs and ONNX models to a library, and runs them in this process.
fn add_runs(library: &mut Library) -> Vec<ExpectedRun> {
    let mut runs = Vec::new();
    for (name, text, bindings) in PROGRAMS {
        let routine = library.add_text(name, text, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = reference_of_text(text, routine, bindings);
        let (routine, given) = (routine.name().to_owned(), values(routine));
        runs.push(ExpectedRun { routine, given, bindings: bindings.to_vec(), expected, random: None });
    }
    let images = load_model(classifier_graph(&["y", "z"])).expect("a valid model");
    let (text, integers) = (attention(), quantized());
    let length = |size| sizes(&[("length", size)]);
    let models = [
        ("classify", &images, sizes(&[("batch", DimensionSize::Fixed(2))]), &[2, 3, 24, 20][..], None),
        ("attend", &text, length(DimensionSize::Fixed(48)), &[48, 32], None),
        ("attend_up_to", &text, length(DimensionSize::UpTo(50)), &[31, 32], Some(31)),
        ("quantized", &integers, sizes(&[("rows", DimensionSize::Fixed(30))]), &[30, 64], None),
    ];
    for (name, model, sizes, dims, size) in models {
        let routine = library.add_onnx(name, model, &sizes).expect("one graph");
        let (given, outputs) = run_in_session(routine, model, dims);
        let expected = given[..1].iter().cloned().chain(outputs).collect();
        let (routine, bindings) = (routine.name().to_owned(), Vec::from_iter(size));
        runs.push(ExpectedRun { routine, given, bindings, expected, random: None });
    }
    for seed in effort::seeds(20) {
        let name = format!("product_{seed}");
        let RandomRun { text, bindings, expected } = add_product(library, &name, seed);
        let given = values(library.routines().last().expect("it was added"));
        runs.push(ExpectedRun { routine: name, given, bindings, expected, random: Some(text) });
    }
    for seed in effort::seeds(100) {
        let name = format!("random_{seed}");
        if let Some(RandomRun { text, bindings, expected }) = add_random(library, &name, seed) {
            let routine = library.routines().last().expect("it was added");
            let (routine, given) = (routine.name().to_owned(), values(routine));
            runs.push(ExpectedRun { routine, given, bindings, expected, random: Some(text) });
        }
    }
    runs
}

/// Writes a program with all entries into a folder.
fn write_driver(folder: &Path, libraries: &[Library]) {
    let entries = |library: &Library| {
        let name = |routine: &LibraryRoutine| symbol(library.name(), routine.name(), ObjectLevel::Arm64);
        library.routines().iter().map(name).collect::<Vec<_>>()
    };
    let entries: Vec<String> = libraries.iter().flat_map(entries).collect();
    let declare = |name: &String| {
        format!(
            "    fn {name}(args: *const *mut u8, bindings: *const i64, arena: *mut u8, threads: *const arrayjit_rt::ObjectThreads) -> i64;\n"
        )
    };
    let declared: String = entries.iter().map(declare).collect();
    let count = entries.len();
    let text = format!(
        "unsafe extern \"C\" {{\n{declared}}}\nstatic ENTRIES: [Entry; {count}] = [{}];\n",
        entries.join(", ")
    );
    let link = |library: &Library| {
        let object = folder.join(format!("{}.o", library.name()));
        format!("    println!(\"cargo::rustc-link-arg={}\");\n", object.display())
    };
    let links: String = libraries.iter().map(link).collect();
    let runtime = root().join("crates/arrayjit-rt").canonicalize().expect("the crate");
    let manifest = format!(
        "[workspace]\n[package]\nname = \"driver\"\nedition = \"2024\"\n[dependencies]\narrayjit-rt = {{ path = {:?}, features = [\"products\"] }}\n",
        runtime.display().to_string()
    );
    fs::create_dir_all(folder.join("src")).expect("a writable folder");
    for (name, text) in [
        ("Cargo.toml", &*manifest),
        ("build.rs", &format!("fn main() {{\n{links}}}\n")),
        ("src/main.rs", include_str!("driver.rs")),
        ("src/entries.rs", &text),
    ] {
        fs::write(folder.join(name), text).expect("a writable folder");
    }
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("a writable folder");
}

/// What the driver reads for a run of an entry at a position.
fn request(position: usize, library: &Library, run: &ExpectedRun) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut word = |word: u64, more: &[u8]| {
        bytes.extend(word.to_le_bytes());
        bytes.extend(more);
    };
    word(position as u64, &[]);
    word(library.arena_bytes() as u64, &[]);
    word(run.given.len() as u64, &[]);
    run.given.iter().for_each(|array| word(array.bytes().len() as u64, array.bytes()));
    word(run.bindings.len() as u64, &[]);
    run.bindings.iter().for_each(|binding| word(binding.cast_unsigned(), &[]));
    bytes
}

fn library(name: &str) -> Library {
    Library::new(name, "aarch64-unknown-linux-gnu").expect("a target")
}

#[test]
#[ignore = "makes a system with QEMU"]
fn objects_have_the_bits_of_x86_64() {
    let mut libraries = [library("tiles"), library("products").with_products()];
    let runs = libraries.each_mut().map(add_runs);
    let called: Vec<&str> = libraries[1]
        .routines()
        .iter()
        .filter(|routine| routine.calls_products())
        .map(LibraryRoutine::name)
        .collect();
    println!("{} of {} routines call products", called.len(), runs[1].len());
    assert!(
        ["product", "deep", "batched", "dense", "convolution", "bytes", "rows", "attend"]
            .iter()
            .all(|name| called.contains(name))
    );
    check("aot-driver", &libraries, &runs);
}

#[test]
#[ignore = "makes a system with QEMU, and needs the file of the variable `AOT_MODEL`"]
fn the_model_of_a_file_has_the_bits_of_x86_64() {
    let (file, words) = model_of_file();
    let model = Model::load(file).expect("a model");
    let (_, dims) = input(&model);
    let fixed = |word: &String| {
        let (name, size) = word.rsplit_once('=').expect("NAME=SIZE");
        (name.to_owned(), DimensionSize::Fixed(size.parse().expect("a size")))
    };
    let mut libraries = [library("tiles"), library("products").with_products()];
    let runs = libraries.each_mut().map(|library| {
        let routine =
            library.add_onnx("file", &model, &words.iter().map(fixed).collect()).expect("one graph");
        let (given, outputs) = run_in_session(routine, &model, &dims);
        let expected = given[..1].iter().cloned().chain(outputs).collect();
        vec![ExpectedRun { routine: "file".to_owned(), given, bindings: Vec::new(), expected, random: None }]
    });
    check("aot-driver-of-file", &libraries, &runs);
}

/// Builds a program of libraries in a folder of this name, and compares its runs under QEMU.
fn check(name: &str, libraries: &[Library], runs: &[Vec<ExpectedRun>]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a writable folder");
    libraries.iter().for_each(|library| drop(library.write(&folder).expect("a writable folder")));
    write_driver(&folder, libraries);
    let manifest = folder.join("Cargo.toml");
    let build = ["build", "--quiet", "--release", "--offline", "--manifest-path"].map(OsStr::new);
    in_system(&[], &[&build[..], &[manifest.as_os_str()]].concat(), &folder);

    let input = folder.join("input");
    let all =
        libraries.iter().zip(runs).flat_map(|(library, runs)| runs.iter().map(move |run| (library, run)));
    let all: Vec<_> = all.collect();
    let bytes: Vec<u8> =
        all.iter().enumerate().flat_map(|(at, (library, run))| request(at, library, run)).collect();
    fs::write(&input, bytes).expect("a writable folder");
    let program = root().join("target/arm64/aarch64-unknown-linux-gnu/release/driver");
    let command = format!(
        "exec qemu-aarch64 -L /usr/aarch64-linux-gnu {} <{}",
        program.canonicalize().expect("the program").display(),
        input.display()
    );
    let output = in_system(&["--run"], &["sh", "-c", &command].map(OsStr::new), &folder);
    let mut rest = &*output.stdout;
    let mut take = |bytes: usize| {
        let (first, others) = rest.split_at(bytes);
        rest = others;
        first
    };
    for (library, run) in all {
        let name = format!("{} of {}", run.routine, library.name());
        let status = i64::from_le_bytes(*take(8).first_chunk().expect("8 bytes"));
        assert_eq!(status, 0, "{name}");
        let routine = library.routines().iter().find(|routine| routine.name() == run.routine);
        for (array, expected) in routine.expect("the routine").arrays().iter().zip(&run.expected) {
            let found = take(expected.bytes().len());
            let node = &array.node;
            match &run.random {
                None => assert!(expected.bytes() == found, "{name}: `{node}` differs"),
                Some(text) => assert!(agrees(array, expected, found), "{name}: `{node}` differs\n{text}"),
            }
        }
    }
    assert!(rest.is_empty(), "{} more bytes", rest.len());
    println!("{} runs have the same bits", runs.iter().map(Vec::len).sum::<usize>());
}
