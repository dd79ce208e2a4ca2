//! Files found by their keys, within a number of bytes.
//!
//! A file is a word, the key, a checksum, and the content. It is written under a temporary name and renamed
//! when it is whole, so no reader sees a part of it, and of several writers of one file the last one wins.
//! Its name is its key.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};

/// The first word of each file, with the version of the format.
const MAGIC: &[u8] = b"arrayjit-code-1\n";
/// Bytes before the content: the word, the key and the checksum.
const HEADER: usize = MAGIC.len() + 32 + 32;
const EXTENSION: &str = "code";
const TEMPORARY: &str = "temporary";
/// The hash of everything that a file depends on.
pub(super) type Key = [u8; 32];

/// What was found under a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A file that another user owns or can write, that is damaged, or that is of another key.
    Rejected,
    /// The content.
    Content(Vec<u8>),
}

/// The age of temporary files that no process writes any more.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder that belongs to the user of this process, and to which no other user can write.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    /// The most bytes of all files together.
    limit: u64,
    /// The owner of the files that this process makes.
    owner: Owner,
    temporary: AtomicU64,
}

impl Files {
    /// Opens a folder, and makes it if it does not exist. None if this process cannot write to it, or if it
    /// is not safe from others.
    pub(super) fn open(folder: &Path, limit: usize) -> Option<Files> {
        create(folder).ok()?;
        let mut files = Files {
            folder: folder.to_owned(),
            limit: limit as u64,
            owner: Owner::default(),
            temporary: AtomicU64::new(0),
        };
        let (probe, file) = files.create_temporary()?;
        files.owner = Owner::of(&file.metadata().ok()?);
        let _ = fs::remove_file(probe);
        files.is_safe(&fs::metadata(folder).ok()?).then_some(files)
    }

    /// Reads the file with this key.
    pub(super) fn read(&self, key: &Key) -> Found {
        let Ok(mut file) = File::open(self.path(key)) else { return Found::Nothing };
        match self.checked(&mut file, key) {
            Some(content) => {
                // Used files go last. If the time cannot be set, they go earlier.
                let _ = file.set_modified(SystemTime::now());
                Found::Content(content)
            }
            None => Found::Rejected,
        }
    }

    /// The content of an open file, if the file is safe and whole.
    fn checked(&self, file: &mut File, key: &Key) -> Option<Vec<u8>> {
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > self.limit || !self.is_safe(&metadata) {
            return None;
        }
        let mut found = [0; HEADER];
        file.read_exact(&mut found).ok()?;
        let mut content = Vec::with_capacity(metadata.len() as usize);
        // A file may grow while it is read.
        file.take(self.limit).read_to_end(&mut content).ok()?;
        (found == header(key, &content)).then_some(content)
    }

    /// Writes the file with this key, and removes the oldest files that exceed the limit. Returns whether the
    /// file was written.
    pub(super) fn write(&self, key: &Key, content: &[u8]) -> bool {
        if (HEADER + content.len()) as u64 > self.limit {
            return false;
        }
        let Some((temporary, mut file)) = self.create_temporary() else { return false };
        let written = file
            .write_all(&header(key, content))
            .and_then(|()| file.write_all(content))
            .and_then(|()| fs::rename(&temporary, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.trim();
        written.is_ok()
    }

    /// A new file of this process alone.
    fn create_temporary(&self) -> Option<(PathBuf, File)> {
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        let path = self.folder.join(format!("{}-{now:x}-{number}.{TEMPORARY}", process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).ok().map(|file| (path, file))
    }

    fn path(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.{EXTENSION}"))
    }

    /// Removes abandoned files, and the oldest ones until the rest is within the limit. Other processes may
    /// remove files at the same time.
    fn trim(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            let has = |extension: &str| path.extension().is_some_and(|found| found == extension);
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let Ok(modified) = metadata.modified() else { continue };
            if has(EXTENSION) {
                kept.push((modified, metadata.len(), path));
            } else if has(TEMPORARY) && modified.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(&path);
            }
        }
        kept.sort();
        let mut bytes: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, length, path) in kept {
            if bytes <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            bytes -= length;
        }
    }

    /// Whether the user of this process owns a file or folder, and no other user can write to it.
    fn is_safe(&self, metadata: &Metadata) -> bool {
        Owner::of(metadata) == self.owner && !writable_by_others(metadata)
    }
}

/// The user who owns a file. On systems without numbers of users, all files have one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner(u32);

impl Owner {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Owner {
        Owner(std::os::unix::fs::MetadataExt::uid(metadata))
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Owner {
        Owner::default()
    }
}

#[cfg(unix)]
fn writable_by_others(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(metadata) & 0o022 != 0
}

#[cfg(not(unix))]
fn writable_by_others(_: &Metadata) -> bool {
    false
}

fn create(folder: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The header of a file: its checksum is of the word, the key and the content.
fn header(key: &Key, content: &[u8]) -> [u8; HEADER] {
    let checksum = Sha256::new().chain_update(MAGIC).chain_update(key).chain_update(content).finalize();
    let mut header = [0; HEADER];
    let (word, rest) = header.split_at_mut(MAGIC.len());
    word.copy_from_slice(MAGIC);
    rest[..32].copy_from_slice(key);
    rest[32..].copy_from_slice(&checksum);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Sha256::digest(name).into()
    }

    fn is_read(files: &Files, name: &str) -> bool {
        matches!(files.read(&key(name)), Found::Content(_))
    }

    fn open(folder: &Path) -> Files {
        Files::open(folder, 1 << 20).expect("the folder is ours")
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = open(&folder.path().join("made/here"));
        assert_eq!(files.read(&key("key")), Found::Nothing);
        assert!(files.write(&key("key"), b"content\nof lines"));
        assert!(files.write(&key("key"), b"other content"), "again");
        assert!(files.write(&key(""), b""));
        assert_eq!(files.read(&key("key")), Found::Content(b"other content".to_vec()));
        assert_eq!(files.read(&key("")), Found::Content(b"".to_vec()));
        assert_eq!(files.read(&key("keys")), Found::Nothing);
    }

    /// Each prefix of a file, each file with a byte changed or added, and files of other keys.
    #[test]
    fn damaged_files_are_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = open(folder.path());
        assert!(files.write(&key("key"), b"content") && files.write(&key("other"), b"content"));
        let path = files.path(&key("key"));
        let whole = fs::read(&path).expect("it was written");
        let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
        for at in 0..whole.len() {
            for bit in [1, 0x20, 0x80] {
                let mut copy = whole.clone();
                copy[at] ^= bit;
                damaged.push(copy);
            }
        }
        damaged.push([&whole[..], b"x"].concat());
        damaged.push(fs::read(files.path(&key("other"))).expect("it was written"));
        for bytes in damaged {
            fs::write(&path, &bytes).expect("the file is ours");
            assert_eq!(files.read(&key("key")), Found::Rejected, "{}", String::from_utf8_lossy(&bytes));
        }
        fs::write(&path, &whole).expect("the file is ours");
        assert_eq!(files.read(&key("key")), Found::Content(b"content".to_vec()));
    }

    #[cfg(unix)]
    #[test]
    fn files_that_others_can_write_are_absent() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let files = open(folder.path());
        assert!(files.write(&key("key"), b"content"));
        let allow = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the file is ours");
        };
        for (mode, expected) in [(0o620, false), (0o602, false), (0o644, true)] {
            allow(&files.path(&key("key")), mode);
            assert_eq!(is_read(&files, "key"), expected, "{mode:o}");
        }
        assert!(files.write(&key("key"), b"content"), "a file is replaced, whatever its mode");
        for (mode, opens) in [(0o770, false), (0o707, false), (0o755, true)] {
            allow(folder.path(), mode);
            assert_eq!(Files::open(folder.path(), 1 << 20).is_some(), opens, "{mode:o}");
        }
    }

    #[test]
    fn a_folder_that_is_a_file_does_not_open() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(Files::open(file.path(), 1 << 20).is_none());
    }

    #[test]
    fn the_oldest_files_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::open(folder.path(), 2000).expect("the folder is ours");
        let content = "x".repeat(500);
        let write = |name: &str, age: u64| {
            assert!(files.write(&key(name), content.as_bytes()));
            let file = File::options().write(true).open(files.path(&key(name))).expect("it was written");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("the file is ours");
        };
        write("first", 30);
        write("second", 20);
        write("third", 10);
        assert!(is_read(&files, "first"), "used now");
        write("fourth", 0);
        let kept = ["first", "second", "third", "fourth"].map(|name| is_read(&files, name));
        assert_eq!(kept, [true, false, true, true]);
        assert!(!files.write(&key("large"), &[0; 2000]), "it alone exceeds the limit");
        let bytes = |entry: fs::DirEntry| entry.metadata().map_or(0, |metadata| metadata.len());
        let entries = fs::read_dir(folder.path()).expect("the folder is ours");
        assert!(entries.filter_map(Result::ok).map(bytes).sum::<u64>() <= 2000);
    }

    #[test]
    fn temporary_files_of_dead_processes_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = open(folder.path());
        let (old, file) = files.create_temporary().expect("the folder is ours");
        file.set_modified(SystemTime::now() - 2 * ABANDONED).expect("the file is ours");
        let (new, _) = files.create_temporary().expect("the folder is ours");
        assert!(files.write(&key("key"), b"content"));
        assert_eq!((old.exists(), new.exists()), (false, true));
    }
}
