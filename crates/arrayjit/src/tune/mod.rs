//! A search for faster code that keeps every bit, and the file that remembers its results.
//!
//! Where several forms of a kernel's code give the same bits, heuristics of the code generator choose one:
//! the packing and block sizes of a matmul, or whether stores bypass the caches. With the setting
//! `tune = "FILE"`, the file decides for the kernels that it lists. Any other kernel is measured when it is
//! compiled, and the result is added to the file. Without the setting nothing is measured, and code is
//! the same in every process.
//!
//! **The search** starts from the heuristics and goes to the fastest of the forms near the current one,
//! until none is faster. Each form runs on scratch memory of the right shape, on the thread that compiles;
//! all forms of one step take turns. The last form is then compared with the heuristics and is remembered
//! only if it takes at least 3 % less time. A kernel takes some tens of milliseconds, or some twenty times
//! its running time for each step if that is longer. A kernel that runs for longer than 0.2 seconds, has
//! more than 1 GiB of nodes, reads a merge buffer or logs is not measured.
//!
//! **The file** is text that can be committed:
//!
//! ```text
//! arrayjit tune 1
//! # kernel                         machine                                        choice
//! 6fd0c6b0…f2 cranelift-0.1.0/Some-CPU/avx2/32K+512K+32768K/8t gemm0=whole-a:kc=256,nc=64 # y.k0, 1.09
//! 83a1774e…09 cranelift-0.1.0/Some-CPU/avx2/32K+512K+32768K/8t heuristics # y.k1
//! ```
//!
//! The first word is a hash of the scheduled kernel without names; the second names the code generator, its
//! version, the processor, its caches and threads. A kernel on another machine, or of another schedule, is
//! another line, so one file can serve several machines, and lines of older versions do no harm. A choice is
//! checked like that of the heuristics when the kernel is compiled; one that does not fit is an error that
//! names the file and the line.
//!
//! Processes may share a file. Each addition locks `FILE.lock`, reads the file again, keeps lines that others
//! added meanwhile, writes a temporary file, and renames it. With `tune_search = false`, the file is only
//! read, and kernels that it lacks are left to the heuristics.

mod error; // why a file cannot be used
mod file; // the text of the file
mod scratch; // a kernel with memory of its own
mod search; // the measurements

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use codegen_core::{Codegen, CodegenError, Kernel, KernelChoice, ScheduledRoutine};

pub use error::TuneError;
use file::{KernelKey, TuneEntry, TuneFile};
pub(crate) use search::TuneResult;

use crate::settings::TuneSettings;

/// The choices of a file, and the search for others.
#[derive(Debug)]
pub(crate) struct Tuner {
    path: PathBuf,
    /// Whether kernels that the file lacks are measured.
    searches: bool,
    known: Mutex<TuneFile>,
}

impl Tuner {
    /// Reads the file that the settings name; `None` if they name none. A file that does not exist is empty.
    ///
    /// # Errors
    ///
    /// [`TuneError`] if the file cannot be read.
    pub(crate) fn open(settings: &TuneSettings) -> Result<Option<Arc<Tuner>>, TuneError> {
        if settings.file.is_empty() {
            return Ok(None);
        }
        let path = PathBuf::from(&settings.file);
        let known = Mutex::new(read(&path)?);
        Ok(Some(Arc::new(Tuner { path, searches: settings.search, known })))
    }

    /// The routine with a choice for each kernel that has one, from the file or from a search. `on_result`
    /// gets the name of each kernel that was searched for, with the result.
    ///
    /// # Errors
    ///
    /// [`TuneError::Choice`] if a choice of the file does not fit, and an error of writing the file.
    pub(crate) fn tuned(
        &self,
        codegen: &dyn Codegen,
        schedule: ScheduledRoutine,
        on_result: &dyn Fn(&str, &TuneResult),
    ) -> Result<ScheduledRoutine, TuneError> {
        let Some(target) = codegen.tuning_target() else { return Ok(schedule) };
        let (mut choices, mut found) = (Vec::new(), TuneFile::default());
        for kernel in schedule.kernels() {
            let key = KernelKey::new(&target, kernel);
            let known = self.known().get(&key).or_else(|| found.get(&key)).cloned();
            choices.push(match known {
                Some(entry) => self.checked(codegen, kernel, entry)?,
                None if self.searches => {
                    let entry = entry_for(codegen, kernel, on_result);
                    let choice = entry.as_ref().and_then(|entry| entry.choice.clone());
                    entry.into_iter().for_each(|entry| found.insert(key.clone(), entry));
                    choice
                }
                None => None,
            });
        }
        if !found.is_empty() {
            *self.known() = add(&self.path, found)?;
        }
        Ok(if choices.iter().all(Option::is_none) { schedule } else { schedule.with_choices(choices) })
    }

    /// The choice of an entry, if it fits the kernel.
    fn checked(
        &self,
        codegen: &dyn Codegen,
        kernel: &Kernel,
        entry: TuneEntry,
    ) -> Result<Option<KernelChoice>, TuneError> {
        let Some(choice) = entry.choice else { return Ok(None) };
        let chosen = kernel.clone().with_choice(Some(choice.clone()));
        match codegen.alternatives(&chosen) {
            Err(source @ CodegenError::Choice { .. }) => {
                Err(TuneError::Choice { path: self.path.clone(), line: entry.line, source: source.into() })
            }
            // Any other error is that of compiling the kernel, which reports it.
            _ => Ok(Some(choice)),
        }
    }

    fn known(&self) -> MutexGuard<'_, TuneFile> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches for the fastest form of a kernel; `None` if it has one form alone or cannot be measured.
fn entry_for(
    codegen: &dyn Codegen,
    kernel: &Kernel,
    on_result: &dyn Fn(&str, &TuneResult),
) -> Option<TuneEntry> {
    let _span = tracing::debug_span!("tune", kernel = kernel.abi().name).entered();
    let found = search::search(codegen, kernel)?;
    let name: String = kernel.abi().name.chars().filter(|c| !c.is_control()).collect();
    on_result(&name, &found);
    let note = match &found.choice {
        Some(_) => format!("{name}, {:.2}", found.gain),
        None => name,
    };
    Some(TuneEntry { choice: found.choice, note, line: 0 })
}

fn read(path: &Path) -> Result<TuneFile, TuneError> {
    match fs::read(path) {
        Ok(bytes) => TuneFile::parse(path, &bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TuneFile::default()),
        Err(source) => Err(TuneError::Read { path: path.to_owned(), source }),
    }
}

/// Adds entries to a file and returns all of its entries. Entries that are already there stay.
fn add(path: &Path, found: TuneFile) -> Result<TuneFile, TuneError> {
    let failed = |source| TuneError::Write { path: path.to_owned(), source };
    let lock = File::options().create(true).truncate(false).write(true).open(beside(path, "lock"));
    let lock = lock.map_err(failed)?;
    lock.lock().map_err(failed)?;
    let text = read(path)?.merged(found).to_string();
    write(path, &text).map_err(failed)?;
    // The lock ends with the file.
    drop(lock);
    TuneFile::parse(path, text.as_bytes())
}

/// Replaces the file as a whole, so that a reader sees the old text or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let temporary = beside(path, "tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// Appends an extension to a path, which keeps its own.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".");
    beside.push(extension);
    beside.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &[&str]) -> TuneFile {
        let text = format!("arrayjit tune 1\n{}\n", lines.join("\n"));
        TuneFile::parse(Path::new("test"), text.as_bytes()).expect("a valid file")
    }

    /// Many threads add to one file, as processes do. No entry is lost, and a reader never sees half a file.
    #[test]
    fn concurrent_additions_are_all_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("choices.tune");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for nth in 0..8 {
                        let hash = format!("{:032x}", thread * 100 + nth);
                        let line = format!("{hash} machine gemm0=x # of {thread}");
                        let known = add(path, file(&[&line])).expect("it can be written");
                        assert!(known.to_string().contains(&line));
                        read(path).expect("a whole file");
                    }
                });
            }
        });
        assert_eq!(read(&path).expect("a whole file").len(), 32);
        assert!(!beside(&path, "tmp").exists());
    }

    #[test]
    fn entries_of_the_file_win() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("choices.tune");
        let hash = format!("{:032x}", 5);
        fs::write(&path, format!("arrayjit tune 1\n# by hand\n{hash} machine a\n")).expect("written");
        let known = add(&path, file(&[&format!("{hash} machine b # later")])).expect("written");
        assert_eq!(known.to_string(), fs::read_to_string(&path).expect("a file"));
        assert!(known.to_string().contains("# by hand\n") && known.to_string().contains(" a\n"));
        assert_eq!(known.len(), 1);
    }
}
