//! Dumps of a routine after passes: the numbered files in `dump_folder`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use super::log::sanitized;
use crate::settings::routine_of;

/// A folder of dumps: each routine has a folder `ROUTINE` in it, or `ROUTINE-2` and so on when it is compiled
/// again, with files `NN-PASS.lir` in the order of the passes, and `NN-codegen.txt` for generated code.
#[derive(Debug)]
pub(crate) struct DumpFolder {
    path: PathBuf,
    routines: Mutex<BTreeMap<String, RoutineDumps>>,
}

/// The dumps of one compilation of a routine.
#[derive(Debug)]
struct RoutineDumps {
    folder: PathBuf,
    /// The number of the next file.
    next: usize,
}

impl DumpFolder {
    /// The folder of a setting; none if the setting is empty.
    pub(crate) fn open(path: &str) -> Option<DumpFolder> {
        (!path.is_empty()).then(|| DumpFolder { path: path.into(), routines: Mutex::default() })
    }

    /// Writes the text of a routine after a pass. The pass `lower` begins a new compilation.
    ///
    /// # Errors
    ///
    /// A folder or file cannot be created; the message names it.
    pub(crate) fn write(&self, pass: &str, name: &str, text: &str) -> io::Result<()> {
        let routine = routine_of(pass, name);
        let mut routines = self.routines.lock().unwrap_or_else(PoisonError::into_inner);
        if pass == "lower" || !routines.contains_key(routine) {
            let folder = new_folder(&self.path, &sanitized(routine))?;
            routines.insert(routine.to_owned(), RoutineDumps { folder, next: 0 });
        }
        let Some(dumps) = routines.get_mut(routine) else { return Ok(()) };
        let extension = if pass == "codegen" { "txt" } else { "lir" };
        let file = dumps.folder.join(format!("{:02}-{}.{extension}", dumps.next, sanitized(pass)));
        dumps.next += 1;
        fs::write(&file, text).map_err(|error| named(&file, &error))
    }
}

/// Makes the folder `NAME`, or `NAME-2` and so on if it exists.
fn new_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(parent).map_err(|error| named(parent, &error))?;
    let mut number = 1;
    loop {
        let folder = parent.join(if number == 1 { name.to_owned() } else { format!("{name}-{number}") });
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| folder.clone()).map_err(|error| named(&folder, &error)),
        }
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_and_folders_are_not_reused() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("dumps");
        let folder = DumpFolder::open(path.to_str().expect("a name in Unicode")).expect("a setting");
        for (pass, name) in [
            ("lower", "step"),
            ("optimize", "step"),
            ("schedule", "step_k0"),
            ("codegen", "step_k0"),
            ("lower", "step"),
        ] {
            folder.write(pass, name, pass).expect("room for a file");
        }
        let read = |file: &str| fs::read_to_string(path.join(file)).expect("it was written");
        assert_eq!(read("step/00-lower.lir"), "lower");
        assert_eq!(read("step/01-optimize.lir"), "optimize");
        assert_eq!(read("step/02-schedule.lir"), "schedule");
        assert_eq!(read("step/03-codegen.txt"), "codegen");
        assert_eq!(read("step-2/00-lower.lir"), "lower");
    }

    #[test]
    fn errors_name_the_file() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("taken");
        fs::write(&path, "").expect("room for a file");
        let folder = DumpFolder::open(path.to_str().expect("a name in Unicode")).expect("a setting");
        let error = folder.write("lower", "step", "").expect_err("a file is no folder");
        assert!(error.to_string().contains("taken"), "{error}");
    }
}
