//! The files of the corpus.

use std::path::{Path, PathBuf};

use crate::{
    File, RunCase,
    run_line::{self, RunLine},
};

/// The folder of the corpus.
pub fn corpus_dir() -> PathBuf {
    repository().join("tools/filetests/lir")
}

/// The root of the repository, whose files tests read. If it is missing, the environment variable
/// `FILETESTS_FILES` names a folder with a copy of these files.
pub fn repository() -> PathBuf {
    match std::env::var_os("FILETESTS_FILES") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("")).into(),
    }
}

/// Every file of the corpus, sorted by path. Unreadable files are skipped.
pub fn corpus() -> impl Iterator<Item = File> {
    let mut paths = Vec::new();
    collect(&corpus_dir(), &mut paths);
    paths.sort();
    paths.into_iter().filter_map(|path| File::read(&path).ok())
}

fn collect(dir: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|e| e == "lir") {
            paths.push(path);
        }
    }
}

/// Every run of the corpus that is expected to succeed, from files with `test run`. Some need a merge buffer.
///
/// Lines that do not parse are skipped: the corpus's own tests report them.
pub fn run_cases() -> impl Iterator<Item = RunCase> {
    corpus()
        .filter(|file| file.tests.iter().any(|t| t.words().next() == Some("run")))
        .flat_map(|file| cases(&file))
}

fn cases(file: &File) -> Vec<RunCase> {
    let mut cases = Vec::new();
    for chunk in file.chunks() {
        let Ok(parsed) = chunk.parse() else { continue };
        for (line, text) in chunk.annotations("run") {
            if let Ok(RunLine::Runs(case)) = run_line::parse(text, &parsed.routine, &file.path, line) {
                cases.push(case);
            }
        }
    }
    cases
}
