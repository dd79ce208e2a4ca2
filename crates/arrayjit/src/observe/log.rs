//! Log files: a folder with one file for each linked routine, see `docs/debugging.md`.
//!
//! A file is created when its routine first logs. The first error of a file is printed on standard error; no
//! error disturbs the computation.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use codegen_core::LogSink;

/// The suffix of every file name that this module creates or removes.
const SUFFIX: &str = ".values.log";

/// The names in use, by folder. The table is global, because several backends may log to one folder.
static NAMES: Mutex<BTreeMap<PathBuf, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// A folder of logs.
#[derive(Clone, Debug)]
pub(crate) struct LogFolder {
    path: Arc<Path>,
}

impl LogFolder {
    /// A folder of logs, created with the first log. Old logs, and nothing else, are removed when the process
    /// opens the folder first.
    pub(crate) fn open(path: &Path) -> LogFolder {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut names = lock(&NAMES);
        if !names.contains_key(&path) {
            names.insert(path.clone(), BTreeSet::new());
            report(&path, remove_logs(&path));
        }
        LogFolder { path: path.into() }
    }

    /// The log file of a routine that is being linked: `ROUTINE.values.log`, or `ROUTINE-2.values.log` and so
    /// on if the name is in use.
    pub(crate) fn file(&self, routine: &str) -> LogFile {
        let stem = sanitized(routine);
        let mut names = lock(&NAMES);
        let used = names.entry(self.path.to_path_buf()).or_default();
        let nth = |n: usize| if n == 1 { stem.clone() } else { format!("{stem}-{n}") };
        // Some file systems ignore case.
        let free = (1..).map(nth).find(|name| used.insert(name.to_lowercase())).unwrap_or(stem.clone());
        LogFile { path: self.path.join(free + SUFFIX), state: Mutex::new(LogFileState::Unopened) }
    }
}

/// Removes the logs in a folder, if the folder exists.
fn remove_logs(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(SUFFIX) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Turns a name into one that every file system accepts: ASCII letters, digits, `_`, `-` and inner dots, at
/// most 100 characters.
pub(crate) fn sanitized(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' };
    let name: String = name.chars().map(plain).take(100).collect();
    match name.trim_matches('.') {
        "" => "routine".to_owned(),
        name => name.to_owned(),
    }
}

/// The log of one routine.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    state: Mutex<LogFileState>,
}

#[derive(Debug)]
enum LogFileState {
    Unopened,
    Open(File),
    /// An error occurred and was printed.
    Failed,
}

impl LogFile {
    fn create(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(&self.path)
    }
}

impl LogSink for LogFile {
    fn write(&self, lines: &str) {
        let mut state = lock(&self.state);
        let written = match &mut *state {
            LogFileState::Failed => return,
            LogFileState::Open(file) => file.write_all(lines.as_bytes()),
            LogFileState::Unopened => self.create().and_then(|mut file| {
                let written = file.write_all(lines.as_bytes());
                *state = LogFileState::Open(file);
                written
            }),
        };
        if written.is_err() {
            *state = LogFileState::Failed;
        }
        report(&self.path, written);
    }
}

fn report(path: &Path, done: io::Result<()>) {
    if let Err(error) = done {
        eprintln!("arrayjit: log {}: {error}", path.display());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn names_are_plain_and_distinct_and_files_appear_when_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = LogFolder::open(&dir.path().join("logs"));
        let routines = ["step", "step", "Step", "../a b", "...", &"x".repeat(200)];
        let logs: Vec<LogFile> = routines.iter().map(|name| folder.file(name)).collect();
        assert!(!dir.path().join("logs").exists(), "nothing was written yet");
        logs.iter().for_each(|log| log.write("a line\n"));
        logs[0].write("another\n");
        let long = format!("{}.values.log", "x".repeat(100));
        let expected = [
            "Step-3.values.log",
            "_a_b.values.log",
            "routine.values.log",
            "step-2.values.log",
            "step.values.log",
            long.as_str(),
        ];
        assert_eq!(files(&dir.path().join("logs")), expected);
        let text = fs::read_to_string(dir.path().join("logs/step.values.log")).unwrap();
        assert_eq!(text, "a line\nanother\n");
    }

    #[test]
    fn a_folder_is_cleaned_of_logs_once() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["old.values.log", "mine.log", "notes.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let folder = LogFolder::open(dir.path());
        folder.file("new").write("a line\n");
        LogFolder::open(dir.path());
        assert_eq!(files(dir.path()), ["mine.log", "new.values.log", "notes.txt"]);
    }

    #[test]
    fn a_file_that_cannot_be_made_disturbs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let log = LogFolder::open(&dir.path().join("file")).file("r");
        log.write("a line\n");
        assert!(matches!(*lock(&log.state), LogFileState::Failed));
    }
}
