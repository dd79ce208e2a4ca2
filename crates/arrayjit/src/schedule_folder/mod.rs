//! Schedules that outlive the process: a folder with one file for each routine, named by the user.
//!
//! A file has the text of a routine's kernels, calls and temporaries, and of all that they depend on: the
//! routine as optimized, the target, the code generator, the version. It has no machine code. A kernel that
//! is read is parsed and verified like any other, so no content of a file can make a process run code that
//! the code generator would not generate, or access memory outside of its nodes
//! (`docs/adr/0036-schedules-on-disk.md`).
//!
//! A file that is damaged, foreign, or of another key counts as absent, and is written again. Nothing about
//! the folder is an error: without it, routines are scheduled as usual.

mod files; // reading, writing, the limit
mod text; // schedules as text

use std::{
    fmt::Write,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use codegen_core::{Codegen, ScheduledRoutine};
use lowered_ir::{ir::LoweredRoutine, text::print};

use self::files::Files;
use crate::settings::Settings;

/// The folder of the settings `schedule_folder` and `schedule_folder_bytes`.
#[derive(Debug)]
pub(crate) struct ScheduleFolder {
    files: Files,
    found: AtomicU64,
    added: AtomicU64,
}

/// The use of a backend's folder of schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleFolderUse {
    /// How many routines were found in the folder, and not scheduled again.
    pub found: u64,
    /// How many were added to it.
    pub added: u64,
}

impl ScheduleFolder {
    /// Opens the folder that the settings name, and makes it if it does not exist. None if this process may
    /// not write to it, or others may.
    pub(crate) fn of(settings: &Settings) -> Option<ScheduleFolder> {
        let path = Some(&settings.schedule_folder).filter(|path| !path.is_empty())?;
        let files = Files::open(Path::new(path), settings.schedule_folder_bytes)?;
        Some(ScheduleFolder { files, found: AtomicU64::new(0), added: AtomicU64::new(0) })
    }

    /// The schedule of a routine: read, or made and written.
    pub(crate) fn schedule<E>(
        &self,
        codegen: &dyn Codegen,
        routine: &LoweredRoutine,
        make: impl FnOnce() -> Result<ScheduledRoutine, E>,
    ) -> Result<ScheduledRoutine, E> {
        let key = key(codegen, routine);
        let known = self.files.read(&key).and_then(|content| text::read(&content, routine));
        if let Some(schedule) = known {
            self.found.fetch_add(1, Ordering::Relaxed);
            return Ok(schedule);
        }
        let schedule = make()?;
        if self.files.write(&key, &text::write(&schedule)) {
            self.added.fetch_add(1, Ordering::Relaxed);
        }
        Ok(schedule)
    }

    pub(crate) fn usage(&self) -> ScheduleFolderUse {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ScheduleFolderUse { found: load(&self.found), added: load(&self.added) }
    }
}

/// All that a schedule depends on. A program that was built again has other keys, since its scheduler may be
/// another one of the same version.
fn key(codegen: &dyn Codegen, routine: &LoweredRoutine) -> String {
    let mut key = format!("arrayjit {}", env!("CARGO_PKG_VERSION"));
    let program = std::env::current_exe().and_then(std::fs::metadata);
    if let Ok((length, Ok(modified))) = program.map(|program| (program.len(), program.modified())) {
        // Writing to a string cannot fail.
        let _ = write!(key, " {length} {modified:?}");
    }
    let _ = write!(key, "\n{} {:016x}\n{:?}\n", codegen.name(), codegen.fingerprint(), codegen.caps());
    key + &print(routine)
}
