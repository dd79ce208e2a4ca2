//! Compiled routines that outlive the process: a folder with one file for each routine, named by the user.
//!
//! A file has what linking needs: the machine code of the routine's kernels, their ABIs, the calls and the
//! temporaries; and what compilation decides about nodes: memory modes, views, and the computations of
//! virtual nodes. Its key is the content of the assignments, with their gradients, and everything else on
//! which the code depends, so a routine that is found skips all stages behind the gradient.
//!
//! Machine code from a file is as trusted as the program itself: the folder and its files must belong to the
//! user of the process, nobody else may be able to write to them, and a checksum finds damage
//! (`docs/adr/0038-code-on-disk.md`).
//!
//! A file that is damaged, foreign, or of another key counts as absent, is reported through `tracing`, and is
//! written again. Nothing about the folder is an error: without it, routines are compiled as usual.
#![allow(unsafe_code, reason = "code from the folder is vouched for here")]

mod entry; // the content of a file
mod files; // reading, writing, the limit
mod text; // schedules as text

use std::{
    hash::{Hash, Hasher},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use assignments::{Assignments, ContentNodes, lower::LowerOptions};
use codegen_core::{Code, Codegen};
use lowered_ir::pipeline::OptimizeSettings;
use sha2::{Digest, Sha256};

pub(crate) use self::entry::{Decisions, FoundRoutine};
use self::{
    entry::StoredRoutine,
    files::{Files, Found, Key},
};
use crate::settings::Settings;

/// The folder of the settings `code_folder` and `code_folder_bytes`.
pub(crate) struct CodeFolder {
    files: Files,
    codegen: Arc<dyn Codegen>,
    /// The hash of the program, the code generator and the processor, which keys continue.
    target: Sha256,
    found: AtomicU64,
    added: AtomicU64,
    rejected: AtomicU64,
}

/// The use of a backend's folder of compiled code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeFolderUse {
    /// How many routines were found in the folder, and not compiled.
    pub found: u64,
    /// How many were added to it.
    pub added: u64,
    /// How many files were not used, because they are damaged or others can write them.
    pub rejected: u64,
}

/// The place of a routine in the folder.
#[derive(Clone, Debug)]
pub(crate) struct FolderKey {
    key: Key,
    pub(crate) nodes: Arc<ContentNodes>,
}

impl CodeFolder {
    /// Opens the folder that the settings name, and makes it if it does not exist. None if this process may
    /// not write to it, or others may.
    pub(crate) fn of(settings: &Settings, codegen: &Arc<dyn Codegen>) -> Option<CodeFolder> {
        let path = Some(&settings.code_folder).filter(|path| !path.is_empty())?;
        let Some(files) = Files::open(Path::new(path), settings.code_folder_bytes) else {
            tracing::warn!(folder = %path, "code_folder is not used: it must belong to this user alone");
            return None;
        };
        let (found, added, rejected) = Default::default();
        let (codegen, target) = (Arc::clone(codegen), target(&**codegen));
        Some(CodeFolder { files, codegen, target, found, added, rejected })
    }

    /// The place of a program, whose gradients are expanded. None for a program that is not kept.
    pub(crate) fn key(
        &self,
        assignments: &Assignments,
        lowering: &LowerOptions,
        optimizer: &OptimizeSettings,
    ) -> Option<FolderKey> {
        let mut state = KeyHasher(self.target.clone());
        format!("{lowering:?} {optimizer:?}").hash(&mut state);
        let nodes = Arc::new(assignments.hash_content(&mut state)?);
        Some(FolderKey { key: state.0.finalize().into(), nodes })
    }

    /// The routine at a place.
    pub(crate) fn find(&self, at: &FolderKey) -> Option<FoundRoutine> {
        let content = match self.files.read(&at.key) {
            Found::Nothing => return None,
            Found::Rejected => return self.reject("is damaged, or others can write it"),
            Found::Content(content) => content,
        };
        let stored = postcard::from_bytes::<StoredRoutine<'_>>(&content).ok();
        // SAFETY: the file belongs to the user of this process, who alone can write it, and is whole, so
        // `CodeFolder::add` of this very program wrote it: the key has the program, the code generator's
        // fingerprint, and the processor.
        let routine = stored.and_then(|stored| unsafe { stored.restore(&at.nodes, &*self.codegen) });
        if routine.is_none() {
            return self.reject("has other content than expected");
        }
        self.found.fetch_add(1, Ordering::Relaxed);
        routine
    }

    fn reject<T>(&self, why: &str) -> Option<T> {
        tracing::warn!("a file of compiled code is not used: it {why}");
        self.rejected.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Adds a compiled routine with its decisions, if its code generator can store it.
    pub(crate) fn add(&self, at: &FolderKey, decisions: &Decisions, code: &Code) {
        let Some(artifact) = self.codegen.store(code.artifact()) else { return };
        let schedule = text::write(code.schedule(), code.artifact().kernels());
        let stored = StoredRoutine::new(decisions, &schedule, &artifact);
        if postcard::to_extend(&stored, Vec::new())
            .is_ok_and(|content: Vec<u8>| self.files.write(&at.key, &content))
        {
            self.added.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn usage(&self) -> CodeFolderUse {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (found, added, rejected) = (load(&self.found), load(&self.added), load(&self.rejected));
        CodeFolderUse { found, added, rejected }
    }
}

/// Begins the hash of everything that code depends on beside the program text. A program that was built again
/// has other keys, since its compiler may be another one of the same version.
fn target(codegen: &dyn Codegen) -> Sha256 {
    let mut state = KeyHasher(Sha256::new());
    env!("CARGO_PKG_VERSION").hash(&mut state);
    let program = std::env::current_exe().and_then(std::fs::metadata);
    if let Ok((length, Ok(modified))) = program.map(|program| (program.len(), program.modified())) {
        format!("{length} {modified:?}").hash(&mut state);
    }
    (codegen.name(), codegen.fingerprint(), codegen.tuning_target()).hash(&mut state);
    format!("{:?}", codegen.caps()).hash(&mut state);
    state.0
}

/// Feeds hashed values to the hash of a key.
struct KeyHasher(Sha256);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash: [u8; 32] = self.0.clone().finalize().into();
        hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}
