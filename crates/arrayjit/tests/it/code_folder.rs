//! Compiled routines that one process keeps in a folder and another one reads.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{fs, path::Path, process::Command, thread};

use arrayjit::{Backend, Compiled, DType, HostArray, Nodes, Settings, settings::VectorSetting};
use codegen_testkit::{is_in_own_process, run_in_own_process};
use tnode::TensorNode;

/// Programs of products, rows, windows, sums, computed indices and mirrored reads.
const PROGRAMS: [&str; 8] = [
    "input x f32[40, 24]; input w f32[24, 33]; s[b,j] :+= x[b,i] * w[i,j]; y[b,j] := relu(s[b,j]); keep y",
    "input x f32[40, 24]; y[b,i] := softmax(x[b,i]); keep y",
    "input x f32[4, 40]; input k f32[3]; y[b,i] :+= x[b,i+j] * k[j]; keep y",
    "input x f32[100]; y[i] := x[i] * sin(x[i]); z :+= y[i]; keep y; keep z",
    "input x f32[9]; input at i32[9]; y[i] := x[at[i]] + x[8-i]; keep y",
    "input x f32[16, 8]; z[t,i] := x[t,i] * 2; mirrored[t,i] := z[t,i] + x[t,7-i]; keep mirrored",
    "input x f32[40, 24]; param w f32[24, 33] := normal(7); s[b,j] :+= x[b,i] * w[i,j]
     y[b,j] := tanh(s[b,j]); loss :+= y[b,j] * y[b,j]; grad loss by w; keep w.grad; keep loss",
    "size n <= 12; input x f32[n, 8]; y[b] :+= x[b,i]; z[b,i] := x[b,i] / y[b]; keep z",
];

/// The folder that a process of [`two_processes_write_one_folder`] uses.
const FOLDER: &str = "CODE_FOLDER";

fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.code_folder = folder.display().to_string();
    settings
}

fn open(folder: &Path) -> Backend {
    Backend::open_with("multicore", &settings(folder)).unwrap()
}

/// Compiles and runs the programs, and returns the bytes of all values that they keep, and the counts of the
/// folder.
fn compile(backend: &Backend) -> (Vec<Vec<u8>>, (u64, u64)) {
    let compiled = |text: &&str| run(backend, &backend.compile(text, &Nodes::default()).unwrap());
    let values = PROGRAMS.iter().map(compiled).collect();
    let usage = backend.code_folder().unwrap();
    (values, (usage.found, usage.added))
}

/// Runs a routine on inputs that count up, and returns the bytes of what it writes.
fn run(backend: &Backend, code: &Compiled) -> Vec<u8> {
    let mut context = backend.initialize(code, &backend.context().unwrap()).unwrap();
    for name in ["x", "w", "k", "at"] {
        let Ok(node) = code.node(name) else { continue };
        if context.contains(node) {
            continue;
        }
        context = context.init_from_host(node, counting(node)).unwrap();
    }
    let routine = code.link(&context).unwrap();
    let bindings: Vec<i64> = routine.bindings().iter().map(|symbol| symbol.interval().1).collect();
    routine.run(&bindings).unwrap();
    let mut bytes = Vec::new();
    for name in ["y", "z", "mirrored", "w.grad", "loss"] {
        let Ok(node) = code.node(name) else { continue };
        if let Ok(array) = routine.context().to_host(node) {
            bytes.extend_from_slice(array.bytes());
        }
    }
    bytes
}

fn counting(node: &TensorNode) -> HostArray {
    let dims = node.dims().unwrap();
    let values: Vec<i32> = (0..dims.iter().product::<usize>() as i32).map(|at| at * 7 % 9).collect();
    if node.dtype() == DType::I32 {
        return HostArray::from_slice(&values, dims).unwrap();
    }
    let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
    HostArray::from_slice(&values, dims).unwrap()
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn damaged_files_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (code, (found, added)) = compile(&open(folder.path()));
    assert_eq!((found, added as usize), (0, code.len() + 1), "and initial values");
    for damage in [0, 1, 2] {
        for file in files(folder.path()) {
            let mut bytes = fs::read(&file).unwrap();
            let middle = bytes.len() / 2;
            match damage {
                0 => bytes.truncate(middle),
                1 => bytes[middle] ^= 1,
                _ => bytes.clear(),
            }
            fs::write(&file, bytes).unwrap();
        }
        assert_eq!(compile(&open(folder.path())), (code.clone(), (0, added)), "{damage}");
        assert_eq!(compile(&open(folder.path())), (code.clone(), (added, 0)), "{damage}");
    }
}

#[test]
fn other_processors_have_other_code() {
    let folder = tempfile::tempdir().unwrap();
    let (_, (_, added)) = compile(&open(folder.path()));
    let mut narrow = settings(folder.path());
    narrow.vector = VectorSetting::None;
    let narrow = Backend::open_with("multicore", &narrow).unwrap();
    let (_, usage) = compile(&narrow);
    assert_eq!(usage, (0, added));
}

#[test]
fn a_file_of_another_routine_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (code, (_, added)) = compile(&open(folder.path()));
    let all = files(folder.path());
    let first = fs::read(&all[0]).unwrap();
    all.iter().for_each(|file| fs::write(file, &first).unwrap());
    assert_eq!(compile(&open(folder.path())), (code, (1, added - 1)));
}

#[test]
fn a_folder_that_cannot_be_used_changes_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let backend = open(file.path());
    assert_eq!(backend.code_folder(), None);
    assert!(backend.compile(PROGRAMS[0], &Nodes::default()).is_ok());
}

/// Two processes with two threads each compile the same programs; afterwards a third one finds all of them.
#[test]
fn two_processes_write_one_folder() {
    const NAME: &str = "code_folder::two_processes_write_one_folder";
    if is_in_own_process(NAME) {
        let folder = std::env::var_os(FOLDER).unwrap();
        let folder = Path::new(&folder);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let (code, (found, added)) = compile(&open(folder));
                    assert_eq!(code.len() + 1, (found + added) as usize);
                });
            }
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                run_in_own_process(NAME, |command: &mut Command| {
                    command.env(FOLDER, folder.path());
                });
            });
        }
    });
    let (code, usage) = compile(&open(folder.path()));
    assert_eq!(usage, (code.len() as u64 + 1, 0));
    assert_eq!(files(folder.path()).len(), code.len() + 1, "no temporary files are left");
}

/// A virtual node of a routine that was found is computed by later routines, and modes are those of the first
/// compilation.
#[test]
fn routines_that_are_found_decide_as_those_that_are_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let mut results = Vec::new();
    for found in [0, 1] {
        let backend = open(folder.path());
        let [x, h, y, z] =
            ["x", "h", "y", "z"].map(|name| TensorNode::builder(name).dims([6]).build().unwrap());
        let text = "h[i] := x[i] + 2; y[i] := h[i] * 3; keep y";
        let first = backend.compile(text, [&x, &h, &y]).unwrap();
        assert_eq!(backend.code_folder().unwrap().found, found);
        let second = backend.compile("z[i] := h[i] + y[i]; keep z", [&h, &y, &z]).unwrap();
        let context = backend.context().unwrap().init_from_host(&x, counting(&x)).unwrap();
        let one = first.link(&context).unwrap();
        one.run(&[]).unwrap();
        let two = second.link(one.context()).unwrap();
        two.run(&[]).unwrap();
        let values = two.context().to_host(&z).unwrap().values();
        let modes = [&x, &h, &y, &z].map(|node| node.mode().outcomes());
        results.push((values, modes, first.explain(&h).unwrap().contains("virtual")));
    }
    assert_eq!(results[0], results[1]);
    assert!(results[0].2, "h is virtual");
}
