//! The C compiler, and its libraries in this process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{env, ffi::OsString, fs, io};

use codegen_core::host::{HostFn, HostModule, NativeCode};
use codegen_core::{
    Artifact, Caps, CodegenError, Compiler, Kernel, KernelAbi, Listing, RenderedKernel, Renderer,
};
use libloading::Library;
use tempfile::TempDir;

use crate::render::CRenderer;
use crate::wide;

/// The name of the code generator.
pub(crate) const CODEGEN: &str = "c";

/// The text before the functions.
const PRELUDE: &str = include_str!("prelude.h");

/// Flags that make code fast and keep every bit that the IR determines:
///
/// * no `a * b + c` with one rounding, except where the IR has `fma`;
/// * integers wrap, and memory has no type of its own;
/// * nobody reads `errno` or floating-point exceptions.
const FLAGS: &str = "-std=gnu11 -O3 -march=native -fPIC -shared -fdiagnostics-color=never \
    -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno -fno-trapping-math";

/// Runs the C compiler and loads its output.
#[derive(Clone, Copy, Debug, Hash)]
pub struct CCompiler;

/// The C compiler, its flags, and the place of its files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct COptions {
    /// The program; it takes the flags of GCC.
    pub program: OsString,
    /// Flags after those that this crate gives.
    pub flags: Vec<String>,
    /// The folder for temporary folders; each holds the files of one artifact.
    pub folder: PathBuf,
}

impl Default for COptions {
    fn default() -> COptions {
        COptions { program: "cc".into(), flags: Vec::new(), folder: env::temp_dir() }
    }
}

/// A kernel in C. Only [`CRenderer`] makes it, together with the ABI that its C follows.
#[derive(Clone, Debug)]
pub struct CSource {
    pub(crate) abi: KernelAbi,
    pub(crate) body: String,
}

/// A library in memory and the folder with its file. The fields are dropped in this order.
struct Loaded {
    library: Library,
    _folder: TempDir,
}

impl Compiler for CCompiler {
    type Source = CSource;
    type Options = COptions;

    fn compile(
        &self,
        _: &Caps,
        kernels: Vec<RenderedKernel<'_, CSource>>,
        options: &COptions,
    ) -> Result<Artifact, CodegenError> {
        let sources: Vec<CSource> = kernels.into_iter().map(|kernel| kernel.source).collect();
        let name = sources.first().map_or("none", |source| &source.abi.name);
        let failed = |stage, message: String| CodegenError::failed(CODEGEN, name, stage, message);
        let folder = TempDir::with_prefix_in("codegen-c-", &options.folder);
        let folder = folder.map_err(|e| failed("a temporary folder", e.to_string()))?;
        let path = folder.path().join("kernels.so");
        run_cc(folder.path(), &path, &text(&sources), options).map_err(|e| failed("cc", e))?;
        let bytes = fs::metadata(&path).map_or(0, |file| file.len() as usize);
        // SAFETY: the library's constructors are those of the C runtime; its source has none.
        let library = unsafe { Library::new(&path) }.map_err(|e| failed("loading", e.to_string()))?;
        let loaded = Arc::new(Loaded { library, _folder: folder });
        let functions = loaded.functions(sources.len()).map_err(|e| failed("loading", e.to_string()))?;
        let abis = sources.into_iter().map(|source| source.abi);
        let kernels = functions.into_iter().map(NativeCode::Function).zip(abis).collect();
        // SAFETY: each function is `CRenderer`'s for the verified kernel with the ABI beside it: it makes the
        // accesses of the kernel's IR and no others, calls nothing but functions of libm and of the log, and
        // has no state. `loaded` keeps the library mapped.
        let module = unsafe { HostModule::native(kernels, loaded) };
        Ok(Artifact::host(module.with_code_bytes(bytes)))
    }

    fn listing(&self, caps: &Caps, kernel: &Kernel, options: &COptions) -> Result<Listing, CodegenError> {
        let source = text(&[CRenderer.render(caps, kernel)?]);
        let failed = |message: String| CodegenError::failed(CODEGEN, &kernel.abi().name, "cc", message);
        let folder = TempDir::new().map_err(|e| failed(e.to_string()))?;
        let path = folder.path().join("kernels.s");
        let options =
            COptions { flags: [options.flags.clone(), vec!["-S".into()]].concat(), ..options.clone() };
        run_cc(folder.path(), &path, &source, &options).map_err(failed)?;
        let machine_code = fs::read_to_string(&path).map_err(|e| failed(e.to_string()))?;
        Ok(Listing { source, machine_code })
    }
}

impl Loaded {
    /// The functions of the kernels.
    fn functions(&self, count: usize) -> Result<Vec<HostFn>, libloading::Error> {
        wide::link(&self.library)?;
        // SAFETY: `text` defines `kernel_{at}` with this type.
        let function = |at| unsafe { self.library.get::<HostFn>(format!("kernel_{at}")) };
        (0..count).map(|at| function(at).map(|symbol| *symbol)).collect()
    }
}

/// The whole text of a library: function `kernel_0` is the first kernel, and so on.
fn text(sources: &[CSource]) -> String {
    let function = |(at, source): (usize, &CSource)| format!("\nKERNEL(kernel_{at}) {{\n{}}}\n", source.body);
    std::iter::once(PRELUDE.to_owned()).chain(sources.iter().enumerate().map(function)).collect()
}

/// Compiles a text in a folder; the error is a message.
fn run_cc(folder: &Path, output: &Path, text: &str, options: &COptions) -> Result<(), String> {
    let (path, program) = (folder.join("kernels.c"), options.program.display());
    fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    let mut command = Command::new(&options.program);
    command.args(FLAGS.split_ascii_whitespace()).args(&options.flags).arg("-o").args([output, &path]);
    let output = command.arg("-lm").output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            format!("no program `{program}` is installed; `COptions` can name another")
        }
        _ => format!("cannot run `{program}`: {e}"),
    })?;
    let error = || first_error(&String::from_utf8_lossy(&output.stderr), text);
    output.status.success().then_some(()).ok_or_else(|| format!("{}: {}", output.status, error()))
}

/// The first error in a compiler's output, with the line of C that it names.
fn first_error(output: &str, text: &str) -> String {
    let error = output.lines().find(|line| line.contains("error")).unwrap_or(output.trim());
    let number = error.split("kernels.c:").nth(1).and_then(|rest| rest.split(':').next());
    let number: Option<usize> = number.and_then(|number| number.parse().ok());
    let line = number.and_then(|number| text.lines().nth(number.saturating_sub(1))).unwrap_or_default();
    format!("{error}\n{line}")
}
