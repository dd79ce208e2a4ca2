//! Files found by their keys, within a number of bytes.
//!
//! A file is a line with the lengths of key and content and the checksum of both, then the key, then the
//! content. It is written under a temporary name and renamed when it is whole, so no reader sees a part of
//! it, and of several writers of one file the last one wins. Its name is the hash of its key, and a reader
//! compares the whole key.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use xxhash_rust::xxh3::xxh3_128;

/// The first word of each file, with the version of the format.
const MAGIC: &str = "arrayjit-schedule-1";
const EXTENSION: &str = "schedule";
const TEMPORARY: &str = "temporary";
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

    /// The content of the file with this key.
    pub(super) fn read(&self, key: &str) -> Option<String> {
        let mut file = File::open(self.path(key)).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > self.limit || !self.is_safe(&metadata) {
            return None;
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // A file may grow while it is read.
        (&mut file).take(self.limit).read_to_end(&mut bytes).ok()?;
        let content = content(&bytes, key)?.to_owned();
        // Used files go last. If the time cannot be set, they go earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(content)
    }

    /// Writes the file with this key, and removes the oldest files that exceed the limit. Returns whether the
    /// file was written.
    pub(super) fn write(&self, key: &str, content: &str) -> bool {
        let bytes = [header(key, content).as_bytes(), key.as_bytes(), content.as_bytes()].concat();
        if bytes.len() as u64 > self.limit {
            return false;
        }
        let Some((temporary, mut file)) = self.create_temporary() else { return false };
        let written = file.write_all(&bytes).and_then(|()| fs::rename(&temporary, self.path(key)));
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

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:032x}.{EXTENSION}", xxh3_128(key.as_bytes())))
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

fn header(key: &str, content: &str) -> String {
    let checksum = xxh3_128([key, content].concat().as_bytes());
    format!("{MAGIC} {} {} {checksum:032x}\n", key.len(), content.len())
}

/// The content in the bytes of a file with this key; none if anything is wrong with them.
fn content<'a>(bytes: &'a [u8], key: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, rest) = text.split_once('\n')?;
    let content = rest.strip_prefix(key)?;
    (text.len() - rest.len() == header(key, content).len() && text.starts_with(&header(key, content)))
        .then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Files {
        Files::open(folder, 1 << 20).expect("the folder is ours")
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = open(&folder.path().join("made/here"));
        assert_eq!(files.read("key"), None);
        assert!(files.write("key", "content\nof lines"));
        assert!(files.write("key", "other content"), "again");
        assert!(files.write("", ""));
        assert_eq!(files.read("key").as_deref(), Some("other content"));
        assert_eq!(files.read("").as_deref(), Some(""));
        assert_eq!(files.read("keys"), None);
    }

    /// Each prefix of a file, each file with a byte changed or added, and files of other keys.
    #[test]
    fn damaged_files_are_absent() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = open(folder.path());
        assert!(files.write("key", "content") && files.write("other", "content"));
        let path = files.path("key");
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
        damaged.push(fs::read(files.path("other")).expect("it was written"));
        for bytes in damaged {
            fs::write(&path, &bytes).expect("the file is ours");
            assert_eq!(files.read("key"), None, "{}", String::from_utf8_lossy(&bytes));
        }
        fs::write(&path, &whole).expect("the file is ours");
        assert_eq!(files.read("key").as_deref(), Some("content"));
    }

    #[cfg(unix)]
    #[test]
    fn files_that_others_can_write_are_absent() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let files = open(folder.path());
        assert!(files.write("key", "content"));
        let allow = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the file is ours");
        };
        for (mode, is_read) in [(0o620, false), (0o602, false), (0o644, true)] {
            allow(&files.path("key"), mode);
            assert_eq!(files.read("key").is_some(), is_read, "{mode:o}");
        }
        assert!(files.write("key", "content"), "a file is replaced, whatever its mode");
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
        let write = |key: &str, age: u64| {
            assert!(files.write(key, &content));
            let file = File::options().write(true).open(files.path(key)).expect("it was written");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("the file is ours");
        };
        write("first", 30);
        write("second", 20);
        write("third", 10);
        assert!(files.read("first").is_some(), "used now");
        write("fourth", 0);
        let kept = ["first", "second", "third", "fourth"].map(|key| files.read(key).is_some());
        assert_eq!(kept, [true, false, true, true]);
        assert!(!files.write("large", &"x".repeat(2000)), "it alone exceeds the limit");
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
        assert!(files.write("key", "content"));
        assert_eq!((old.exists(), new.exists()), (false, true));
    }
}
