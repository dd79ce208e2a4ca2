//! Schedules that one process keeps in a folder and another one reads.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{fs, path::Path, process::Command, thread};

use arrayjit::{Backend, Nodes, Settings, settings::VectorSetting};
use codegen_core::Code;
use codegen_testkit::{is_in_own_process, run_in_own_process};
use lowered_ir::text::print;

/// Programs of products, rows, windows, sums, computed indices and mirrored reads.
const PROGRAMS: [&str; 6] = [
    "input x f32[40, 24]; input w f32[24, 33]; s[b,j] :+= x[b,i] * w[i,j]; y[b,j] := relu(s[b,j]); keep y",
    "input x f32[40, 24]; y[b,i] := softmax(x[b,i]); keep y",
    "input x f32[4, 40]; input k f32[3]; y[b,i] :+= x[b,i+j] * k[j]; keep y",
    "input x f32[100]; y[i] := x[i] * sin(x[i]); z :+= y[i]; keep y; keep z",
    "input x f32[9]; input at i32[9]; y[i] := x[at[i]] + x[8-i]; keep y",
    "input x f32[16, 8]; z[t,i] := x[t,i] * 2; mirrored[t,i] := z[t,i] + x[t,7-i]; keep mirrored",
];

/// The folder that a process of [`two_processes_write_one_folder`] uses.
const FOLDER: &str = "SCHEDULE_FOLDER";

fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.schedule_folder = folder.display().to_string();
    settings
}

fn open(folder: &Path) -> Backend {
    Backend::open_with("multicore", &settings(folder)).unwrap()
}

/// Compiles the programs, and returns the text of all their kernels, and the counts of the folder.
fn compile(backend: &Backend) -> (Vec<String>, (u64, u64)) {
    let compiled = |text: &&str| {
        let compiled = backend.compile(text, &Nodes::default()).unwrap();
        compiled.codes().map(|code| kernels(code)).collect()
    };
    let code = PROGRAMS.iter().map(compiled).collect();
    let usage = backend.schedule_folder().unwrap();
    (code, (usage.found, usage.added))
}

fn kernels(code: &Code) -> String {
    code.schedule()
        .kernels()
        .iter()
        .map(|kernel| print(kernel.ir()) + &format!("{:?}", kernel.abi()))
        .collect()
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn damaged_files_are_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let (code, (found, added)) = compile(&open(folder.path()));
    assert_eq!((found, added as usize), (0, code.len()));
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
fn other_processors_have_other_schedules() {
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
    assert_eq!(backend.schedule_folder(), None);
    assert!(backend.compile(PROGRAMS[0], &Nodes::default()).is_ok());
}

/// Two processes with two threads each compile the same programs; afterwards a third one finds all of them.
#[test]
fn two_processes_write_one_folder() {
    const NAME: &str = "schedule_folder::two_processes_write_one_folder";
    if is_in_own_process(NAME) {
        let folder = std::env::var_os(FOLDER).unwrap();
        let folder = Path::new(&folder);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let (code, (found, added)) = compile(&open(folder));
                    assert_eq!(code.len(), (found + added) as usize);
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
    assert_eq!(usage, (code.len() as u64, 0));
    assert_eq!(files(folder.path()).len(), code.len(), "no temporary files are left");
}
