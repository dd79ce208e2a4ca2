//! A cache of machine code on disk: a later process finds the output of `ptxas` for a text.
//!
//! The cache causes no failure: if there is no assembler, or if the assembler or the disk reports an error,
//! the driver compiles the PTX text and reports the errors in it. A file of the cache begins with a digest of
//! the machine code, because the driver determines the end of an image by parsing it: a truncated image must
//! not reach the driver. Every user who can write to the folder can run code on the device.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// Size in bytes of the digest in front of the machine code: hexadecimal digits and a line end.
const DIGEST_BYTES: usize = 33;

/// A folder of machine code, and the assembler that makes it.
#[derive(Clone, Debug)]
pub(crate) struct CubinCache {
    folder: PathBuf,
    assembler: PathBuf,
}

impl CubinCache {
    /// A cache in a folder, with the given assembler or the `ptxas` of `PATH`; `None` if there is no
    /// assembler.
    pub(crate) fn new(folder: &Path, assembler: Option<&Path>) -> Option<CubinCache> {
        let assembler = assembler.map(Path::to_path_buf).or_else(on_path)?;
        Some(CubinCache { folder: folder.to_path_buf(), assembler })
    }

    /// The machine code of a text for an architecture, such as `sm_90a`. `driver` is the CUDA version of the
    /// driver that will load it.
    pub(crate) fn get(&self, text: &str, processor: &str, driver: (u32, u32)) -> Option<Vec<u8>> {
        let path = self.path(text, processor, driver);
        if let Some(cubin) = fs::read(&path).ok().and_then(verified) {
            return Some(cubin);
        }
        let made = self.assemble(text, processor, &path);
        made.inspect_err(|error| {
            let (assembler, path) = (self.assembler.display(), path.display());
            tracing::warn!(%assembler, %path, %error, "machine code is not cached; the driver compiles the text");
        })
        .ok()
    }

    /// Removes the machine code of a text, because the driver rejected it.
    pub(crate) fn forget(&self, text: &str, processor: &str, driver: (u32, u32)) {
        // An error is harmless: the file may be gone already.
        let _ = fs::remove_file(self.path(text, processor, driver));
    }

    fn path(&self, text: &str, processor: &str, driver: (u32, u32)) -> PathBuf {
        let key = digest(&(text, processor, driver, &self.assembler, env!("CARGO_PKG_VERSION")));
        self.folder.join(format!("{key}.cubin"))
    }

    fn assemble(&self, text: &str, processor: &str, path: &Path) -> io::Result<Vec<u8>> {
        fs::create_dir_all(&self.folder)?;
        let files = TempFiles::beside(path);
        fs::write(&files.source, text)?;
        let mut command = Command::new(&self.assembler);
        command.arg(format!("-arch={processor}")).arg(&files.source).arg("-o").arg(&files.made);
        let output = command.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("{}: {}", output.status, said.trim())));
        }
        let cubin = fs::read(&files.made)?;
        let digest = digest(&cubin[..]);
        fs::write(&files.made, [digest.as_bytes(), b"\n", &cubin].concat())?;
        // A rename is atomic, so concurrent processes see no partial file.
        fs::rename(&files.made, path)?;
        Ok(cubin)
    }
}

/// Temporary files, removed on drop.
struct TempFiles {
    source: PathBuf,
    made: PathBuf,
}

impl TempFiles {
    fn beside(path: &Path) -> TempFiles {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        TempFiles {
            source: path.with_extension(format!("{own}.ptx")),
            made: path.with_extension(format!("{own}.part")),
        }
    }
}

impl Drop for TempFiles {
    fn drop(&mut self) {
        // Errors are harmless: a file may have been renamed or never created.
        let _ = fs::remove_file(&self.source);
        let _ = fs::remove_file(&self.made);
    }
}

/// The machine code of a file; `None` if its digest does not match.
fn verified(file: Vec<u8>) -> Option<Vec<u8>> {
    let (found, cubin) = file.split_at_checked(DIGEST_BYTES)?;
    (found[..DIGEST_BYTES - 1] == *digest(cubin).as_bytes()).then(|| cubin.to_vec())
}

/// A 128-bit digest of a value, in hexadecimal.
fn digest<T: Hash + ?Sized>(value: &T) -> String {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

fn on_path() -> Option<PathBuf> {
    let name = format!("ptxas{}", env::consts::EXE_SUFFIX);
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(&name)).find(|file| file.is_file())
}
