//! Files that appear whole or not at all.
//!
//! A file is written under another name in the same folder, and gets its own name once it is on disk. A
//! process that is killed leaves the file with the other name behind. The next writer of the same file
//! removes it: each writer keeps its file locked, and the system releases the lock of a process that ended,
//! so a file whose lock is free has no writer. Where the file system has no locks, nothing is removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The end of the names of files that are being written.
const EXTENSION: &str = "partial";

/// A file that is being written. Dropping it removes the file, unless [`PartialFile::finish`] has named it.
///
/// ```
/// use std::io::Write;
/// use tnode::PartialFile;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("weights");
/// let mut file = PartialFile::create(&path)?;
/// file.file().write_all(b"all of it")?;
/// assert!(!path.exists());
/// file.finish()?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PartialFile {
    /// The file under its present name; locked.
    file: File,
    present: PathBuf,
    target: PathBuf,
}

impl PartialFile {
    /// Creates a file that is to have the name `target`, in the folder of `target`. Removes the files that
    /// killed writers of `target` have left there.
    ///
    /// # Errors
    /// `target` has no file name, or no file can be created in its folder.
    pub fn create(target: &Path) -> io::Result<PartialFile> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_stale(target);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let present = named(target, &format!("{}-{number}", std::process::id()))?;
            let file = match OpenOptions::new().write(true).read(true).create_new(true).open(&present) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            // Before the lock is taken, another writer may take the file for a stale one and remove it.
            let is_locked = file.lock().is_ok();
            if !is_locked || present.exists() {
                return Ok(PartialFile { file, present, target: target.to_owned() });
            }
        }
    }

    /// The file, to be written to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Waits until the file is on disk and gives it its name, in place of any file of that name. On Unix the
    /// name is on disk afterwards too.
    ///
    /// # Errors
    /// The disk is full, or the file cannot be renamed. The old file is unchanged then.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.present, &self.target)?;
        if cfg!(unix) {
            File::open(folder(&self.target))?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After a renaming, there is no such file.
        let _ = fs::remove_file(&self.present);
    }
}

/// The name under which a writer writes the file.
fn named(target: &Path, writer: &str) -> io::Result<PathBuf> {
    let Some(name) = target.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{writer}.{EXTENSION}"));
    Ok(folder(target).join(hidden))
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Removes the files of writers that have ended. Errors are harmless: the files stay.
fn remove_stale(target: &Path) {
    let Some(name) = target.file_name().map(|name| format!(".{}.", name.display())) else { return };
    let Ok(entries) = fs::read_dir(folder(target)) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        let writer = found.to_str().and_then(|found| found.strip_prefix(&name)?.strip_suffix(EXTENSION));
        // The name of a writer is `PROCESS-NUMBER.`, so that of another file, such as `a.b` for `a`, differs.
        let is_writer =
            |writer: &str| writer.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte));
        if writer.is_some_and(is_writer) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let stale = OpenOptions::new().write(true).open(entry.path());
            if let Ok(stale) = stale
                && stale.try_lock().is_ok()
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_files_of_ended_writers_are_removed_and_those_of_live_writers_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("w");
        // What a killed process leaves, and files that are none of these.
        for name in [".w.4000000-0.partial", ".w.x.4000000-0.partial", ".w.4000000-0.txt", "w.partial"] {
            fs::write(folder.path().join(name), "half").expect("room");
        }
        let live = PartialFile::create(&target).expect("a file");
        let mut next = PartialFile::create(&target).expect("another file");
        assert!(live.present.exists() && next.present.exists(), "both are being written");
        next.file().write_all(b"whole").expect("room");
        next.finish().expect("a name");
        assert!(live.present.exists());
        drop(live);
        let others = [".w.4000000-0.txt", ".w.x.4000000-0.partial", "w", "w.partial"];
        assert_eq!(names(folder.path()), others);
        assert_eq!(fs::read(&target).expect("the file"), b"whole");
    }

    #[test]
    fn many_writers_of_one_file_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("w");
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let target = &target;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let mut file = PartialFile::create(target).expect("a file");
                        file.file().write_all(&[writer; 100]).expect("room");
                        file.finish().expect("a name");
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["w"]);
        let bytes = fs::read(&target).expect("the file");
        assert!(bytes.len() == 100 && bytes.iter().all(|byte| *byte == bytes[0]));
    }
}
