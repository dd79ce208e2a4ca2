//! Machine code kept on disk: what `ptxas` makes of a text is found again by the next process.
//!
//! Nothing here fails: where there is no assembler, or it or the disk refuses, the driver compiles the text itself, and says what is
//! wrong with it. A file holds a digest of the machine code in front of it, because the driver finds the end of an image by reading
//! it: one that was cut off must not reach it. Whoever can write to the folder decides what runs on the device.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// Bytes of the digest in front of the machine code, as hexadecimal digits and a line end.
const DIGEST_BYTES: usize = 33;

/// A folder of machine code, and what makes it.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    assembler: PathBuf,
}

impl Cache {
    /// Machine code in a folder, made by the assembler given, or by the `ptxas` of `PATH`; none if that has none.
    pub(crate) fn new(folder: &Path, assembler: Option<&Path>) -> Option<Cache> {
        let assembler = assembler.map(Path::to_path_buf).or_else(on_path)?;
        Some(Cache { folder: folder.to_path_buf(), assembler })
    }

    /// The machine code of a text for a processor, such as `sm_90a`. `driver` is what will load it.
    pub(crate) fn get(&self, text: &str, processor: &str, driver: (u32, u32)) -> Option<Vec<u8>> {
        let path = self.path(text, processor, driver);
        if let Some(cubin) = fs::read(&path).ok().and_then(whole) {
            return Some(cubin);
        }
        let made = self.assemble(text, processor, &path);
        made.inspect_err(|error| {
            let (assembler, path) = (self.assembler.display(), path.display());
            tracing::warn!(%assembler, %path, %error, "no machine code is kept; the driver compiles the text");
        })
        .ok()
    }

    /// Forgets the machine code of a text, which the driver refused.
    pub(crate) fn forget(&self, text: &str, processor: &str, driver: (u32, u32)) {
        // It may be gone already, which is as good.
        let _ = fs::remove_file(self.path(text, processor, driver));
    }

    fn path(&self, text: &str, processor: &str, driver: (u32, u32)) -> PathBuf {
        let key = digest(&(text, processor, driver, &self.assembler, env!("CARGO_PKG_VERSION")));
        self.folder.join(format!("{key}.cubin"))
    }

    fn assemble(&self, text: &str, processor: &str, path: &Path) -> io::Result<Vec<u8>> {
        fs::create_dir_all(&self.folder)?;
        let files = Scratch::beside(path);
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
        // Whole or not at all, whoever else does the same.
        fs::rename(&files.made, path)?;
        Ok(cubin)
    }
}

/// Files that nobody else uses, removed in the end.
struct Scratch {
    source: PathBuf,
    made: PathBuf,
}

impl Scratch {
    fn beside(path: &Path) -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Scratch {
            source: path.with_extension(format!("{own}.ptx")),
            made: path.with_extension(format!("{own}.part")),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What was moved or never made is not there.
        let _ = fs::remove_file(&self.source);
        let _ = fs::remove_file(&self.made);
    }
}

/// The machine code of a file, unless it is damaged.
fn whole(file: Vec<u8>) -> Option<Vec<u8>> {
    let (found, cubin) = file.split_at_checked(DIGEST_BYTES)?;
    (found[..DIGEST_BYTES - 1] == *digest(cubin).as_bytes()).then(|| cubin.to_vec())
}

/// A value's digest of 128 bits.
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
