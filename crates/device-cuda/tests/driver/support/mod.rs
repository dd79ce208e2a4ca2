//! Support for the tests: runs each test in a process of its own, with a fake driver, and builds nodes and
//! hand-written kernels.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
};

use codegen_core::{Access, Artifact, Code, KernelAbi, Param, PtxLaunch, PtxModule, TensorMap};
pub use codegen_testkit::gpu_runtime::hand_made::*;
use codegen_testkit::gpu_runtime::{self, Gpu, Store, Word};
use device_cuda::{CudaConfig, CudaDevice};
use device_runtime::{Device, DirectDriver, Driver};
use lowered_ir::{ir::Symbol, log::LogLine};
use tnode::TensorNode;

/// The variable is set in child processes that run tests. Its value is the settings of the part of the test
/// that the process runs.
const CHILD: &str = "DEVICE_CUDA_TEST_CHILD";

/// Set if tests that need no injected failures shall run on the machine's own driver.
const REAL: &str = "DEVICE_CUDA_TEST_REAL";

/// Runs a test on the fake driver with default settings, and returns the notes of that driver. Returns `None`
/// inside of the child process, and if the test runs on the machine's own driver.
pub fn on_device(test: impl FnOnce()) -> Option<Notes> {
    if env::var_os(REAL).is_some() {
        test();
        return None;
    }
    on_fake("", test)
}

/// Runs a test on the fake driver with settings. The first comment of `examples/fake_cuda/main.rs` explains
/// them.
pub fn on_fake(settings: &str, test: impl FnOnce()) -> Option<Notes> {
    on_library(&fake(), settings, test)
}

/// Runs a test with any library in place of the driver's.
pub fn on_library(library: &Path, settings: &str, test: impl FnOnce()) -> Option<Notes> {
    if let Some(chosen) = env::var_os(CHILD) {
        // A test may have several parts, each of which is a process.
        if chosen == settings {
            test();
        }
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    if library.exists() {
        for name in ["libcuda.so", "libnccl.so"] {
            std::os::unix::fs::symlink(library, folder.path().join(name)).unwrap();
        }
    } else {
        // The loader stops at files that are not libraries, so it does not find the machine's own driver.
        for name in ["libcuda.so", "libcuda.so.1"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
    }
    let notes = folder.path().join("notes");
    let test = thread::current().name().unwrap().to_owned();
    assert_ne!(test, "main", "tests on one thread do not know their names: use two (--test-threads=2)");
    let paths = env::var_os("PATH").unwrap_or_default();
    let paths = [folder.path().to_path_buf()].into_iter().chain(env::split_paths(&paths));
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(CHILD, settings)
        .env("LD_LIBRARY_PATH", folder.path())
        .env("PATH", env::join_paths(paths).unwrap())
        .env("FAKE_CUDA", settings)
        .env("FAKE_CUDA_LOG", &notes)
        .env("DEVICE_CUDA_TEST_FOLDER", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{test} on `{settings}`: {said}{}",
        String::from_utf8_lossy(&child.stderr)
    );
    let notes = Notes(fs::read_to_string(notes).unwrap_or_default().lines().map(str::to_owned).collect());
    notes.check();
    Some(notes)
}

/// A folder of the test, in the child process. It is the first folder of `PATH`.
pub fn folder() -> PathBuf {
    PathBuf::from(env::var_os("DEVICE_CUDA_TEST_FOLDER").unwrap())
}

/// The path of the fake driver. `cargo test` builds it with the other examples, but not if it builds only
/// some of the test programs; the check of its age reports that. In an archive of compiled programs the
/// library is as new as the tests, even where the sources lie on the same machine.
fn fake() -> PathBuf {
    let test = env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let fake = folder.parent().unwrap().join("examples/libfake_cuda.so");
    let is_built_by_cargo = folder.ends_with("deps");
    let sources = is_built_by_cargo
        .then(|| fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/fake_cuda")).ok())
        .flatten();
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let newest = sources.into_iter().flatten().filter_map(|source| changed(&source.unwrap().path())).max();
    assert!(
        fake.is_file() && changed(&fake) >= newest,
        "{} is missing or old: `cargo build -p device-cuda --example fake_cuda`",
        fake.display()
    );
    fake
}

/// The notes of the fake driver, one per line.
pub struct Notes(Vec<String>);

impl Notes {
    /// The number of notes that begin with these words.
    pub fn count(&self, words: &str) -> usize {
        self.0.iter().filter(|note| note.starts_with(words)).count()
    }

    /// The notes before the first one that begins with these words.
    pub fn until(&self, words: &str) -> Notes {
        Notes(self.0.iter().take_while(|note| !note.starts_with(words)).cloned().collect())
    }

    /// Checks that every created object was freed, unless the device was lost.
    fn check(&self) {
        assert_eq!(self.count("pin "), self.count("unpin "), "{:?}", self.0);
        let left = "left 0 allocations 0 streams 0 events 0 modules 0 pools 0 graphs";
        let is_clean = self.count("left") == self.count(left)
            && (self.count("context") == 0) == (self.count("left") == 0);
        assert!(is_clean || self.count("lost") > 0, "{:?}", self.0);
    }
}

/// A device that is called without the runtime.
pub type Direct = DirectDriver<CudaDevice>;

pub fn open(config: &CudaConfig) -> Direct {
    DirectDriver::new(Arc::new(CudaDevice::open(config).unwrap()))
}

pub fn device(driver: &Direct) -> Device {
    Device::new(Arc::clone(driver.driver()) as Arc<_>, 0)
}

/// A kernel in PTX: `threads` threads run `body`, and `%r3` is the number of the thread. The addresses of its
/// memory parameters are in `%d0` and so on, followed by the address of its log; its static indices are in
/// `%r10` and so on. The body may use `%r4` to `%r9`, `%r16` to `%r29` and `%p1` to `%p3`. Its tensor maps
/// are the parameters `map0` and so on.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub params: Vec<(Access, usize)>,
    /// Whether the last parameter is the merge buffer.
    pub merges: bool,
    pub symbols: usize,
    pub threads: u32,
    /// Size in bytes of declared shared memory, and of the launch's dynamic shared memory.
    pub shared: (u32, u32),
    /// Blocks per cluster in its text, and in its launch.
    pub cluster: (u32, u32),
    pub maps: Vec<TensorMap>,
    /// The lines that it logs, and the size of its log in bytes.
    pub log: (Vec<LogLine>, u32),
    pub body: String,
}

/// Threads per block.
pub const BLOCK: u32 = 64;

impl Kernel {
    pub fn new(name: &str, params: &[(Access, usize)], threads: u32, body: &str) -> Kernel {
        let (name, params, body) = (name.to_owned(), params.to_vec(), body.to_owned());
        let (shared, cluster, maps, log) = ((0, 0), (1, 1), Vec::new(), (Vec::new(), 0));
        Kernel { name, params, merges: false, symbols: 0, threads, shared, cluster, maps, log, body }
    }

    pub fn with_symbols(self, symbols: usize) -> Kernel {
        Kernel { symbols, ..self }
    }

    pub fn with_merge(self) -> Kernel {
        Kernel { merges: true, ..self }
    }

    pub fn with_shared(self, declared: u32, taken: u32) -> Kernel {
        Kernel { shared: (declared, taken), ..self }
    }

    pub fn with_cluster(self, declared: u32, launched: u32) -> Kernel {
        Kernel { cluster: (declared, launched), ..self }
    }

    pub fn with_map(mut self, map: TensorMap) -> Kernel {
        self.maps.push(map);
        self
    }

    pub fn with_log(self, lines: Vec<LogLine>, bytes: u32) -> Kernel {
        Kernel { log: (lines, bytes), ..self }
    }

    pub fn abi(&self) -> KernelAbi {
        let mut abi = abi(&self.name, &self.params, self.symbols, self.threads);
        if self.merges {
            let last = self.params.len() - 1;
            abi.params[last] = Param::MergeBuffer { bytes: self.params[last].1 };
        }
        KernelAbi { log: self.log.0.clone().into(), ..abi }
    }

    fn entry(&self) -> String {
        format!("k_{}", self.name)
    }

    fn launch(&self) -> PtxLaunch {
        let blocks = self.threads.div_ceil(BLOCK).max(1);
        PtxLaunch {
            entry: self.entry(),
            blocks,
            threads: BLOCK,
            dynamic_shared_bytes: self.shared.1 - self.shared.0,
            cluster: self.cluster.1,
            log_bytes: self.log.1,
            maps: self.maps.clone(),
        }
    }

    fn ptx(&self) -> String {
        let memory = self.params.len() + usize::from(self.log.1 > 0);
        let words = (0..memory + self.symbols).map(|param| format!("    .param .u64 p{param}"));
        let maps = (0..self.maps.len()).map(|map| format!("    .param .align 64 .b8 map{map}[128]"));
        let params: Vec<String> = words.chain(maps).collect();
        let mut text = format!(".visible .entry {}(\n{}\n)\n", self.entry(), params.join(",\n"));
        if self.cluster.0 > 1 {
            text += &format!(".reqnctapercluster {}\n", self.cluster.0);
        }
        text += "{\n";
        text += "    .reg .pred %p<4>;\n    .reg .b32 %r<32>;\n    .reg .b64 %d<32>;\n";
        if self.shared.0 > 0 {
            text += &format!("    .shared .align 4 .b8 room[{}];\n", self.shared.0);
        }
        for param in 0..memory + self.symbols {
            text += &format!("    ld.param.u64 %d{param}, [p{param}];\n");
        }
        for symbol in 0..self.symbols {
            text += &format!("    cvt.u32.u64 %r{}, %d{};\n", 10 + symbol, memory + symbol);
        }
        text += "    mov.u32 %r0, %ctaid.x;\n    mov.u32 %r1, %ntid.x;\n    mov.u32 %r2, %tid.x;\n";
        text += "    mad.lo.u32 %r3, %r0, %r1, %r2;\n";
        text += &format!("    setp.ge.u32 %p0, %r3, {};\n    @%p0 ret;\n", self.threads);
        text + &self.body.lines().map(|line| format!("    {}\n", line.trim())).collect::<String>()
            + "    ret;\n}\n"
    }
}

/// Loads an element into a register.
pub fn read(to: &str, param: usize, index: &str) -> String {
    format!("{}ld.global.u32 {to}, [%d31];\n", place(param, index))
}

/// Stores a register into an element.
pub fn write(param: usize, index: &str, from: &str) -> String {
    format!("{}st.global.u32 [%d31], {from};\n", place(param, index))
}

fn place(param: usize, index: &str) -> String {
    format!("mov.u32 %r31, {index};\nmul.wide.u32 %d30, %r31, 4;\nadd.u64 %d31, %d{param}, %d30;\n")
}

/// A kernel that adds one to its only element.
pub fn count(name: &str) -> Kernel {
    let body = read("%r4", 0, "0") + "add.u32 %r4, %r4, 1;\n" + &write(0, "0", "%r4");
    Kernel::new(name, &[(Access::ReadWrite, 4)], 1, &body)
}

/// A kernel that multiplies its only element and adds one.
pub fn step(name: &str, factor: u32) -> Kernel {
    let body = read("%r4", 0, "0") + &format!("mad.lo.u32 %r4, %r4, {factor}, 1;\n") + &write(0, "0", "%r4");
    Kernel::new(name, &[(Access::ReadWrite, 4)], 1, &body)
}

/// A kernel that writes to an invalid address, which makes the device lost.
pub fn stray(name: &str) -> Kernel {
    let body = "mov.u32 %r4, 7;\nmul.wide.u32 %d31, %r4, 4;\nst.global.u32 [%d31], %r4;";
    Kernel::new(name, &[(Access::ReadWrite, 4)], 1, body)
}

/// The PTX text of kernels.
pub fn text(kernels: &[Kernel]) -> String {
    let target = if kernels.iter().any(|kernel| kernel.cluster.0 > 1) {
        "8.0\n.target sm_90"
    } else {
        "7.0\n.target sm_70"
    };
    let kernels: Vec<String> = kernels.iter().map(Kernel::ptx).collect();
    format!(".version {target}\n.address_size 64\n{}", kernels.join(""))
}

/// The parts of a [`PtxModule`], which tests may corrupt.
pub struct Module {
    pub text: String,
    pub target: String,
    pub launches: Vec<PtxLaunch>,
}

pub fn module(kernels: &[Kernel]) -> Module {
    let launches = kernels.iter().map(Kernel::launch).collect();
    Module { text: text(kernels), target: "sm_70".to_owned(), launches }
}

pub fn artifact(kernels: &[Kernel]) -> Artifact {
    artifact_of(kernels, module(kernels))
}

#[allow(unsafe_code, reason = "programs written by hand are vouched for")]
pub fn artifact_of(kernels: &[Kernel], module: Module) -> Artifact {
    let Module { text, target, launches } = module;
    let launched = launches.into_iter().zip(kernels.iter().map(Kernel::abi)).collect();
    // SAFETY: the programs of the tests access the elements of their parameters. Programs that do not
    // (`stray`) run on the fake driver, which detects that, and corrupted modules are not loaded.
    Artifact::ptx(unsafe { PtxModule::new(text.into(), target, launched) })
}

/// Code of one kernel on the nodes of `uses`, in their order, and with all `symbols`.
pub fn code(
    name: &str,
    uses: &[(&TensorNode, Access)],
    symbols: &[Symbol],
    threads: u32,
    body: &str,
) -> Arc<Code> {
    let kernel = Kernel::new(name, &params(uses), threads, body).with_symbols(symbols.len());
    one_kernel(uses, symbols, artifact(&[kernel]))
}

/// The machine's driver or the fake one, for the test suite.
pub struct Cuda;

impl Gpu for Cuda {
    fn open(&self, memory_limit: Option<usize>) -> Option<(Arc<dyn Driver>, Device)> {
        let driver = open(&CudaConfig { memory_limit, ..CudaConfig::default() });
        let device = device(&driver);
        Some((Arc::clone(driver.driver()) as Arc<_>, device))
    }

    fn artifact(&self, kernels: &[gpu_runtime::StoreKernel]) -> Artifact {
        let kernels: Vec<Kernel> = kernels.iter().map(written).collect();
        artifact(&kernels)
    }
}

/// A kernel of the test suite in PTX.
fn written(kernel: &gpu_runtime::StoreKernel) -> Kernel {
    let store = |store: &Store| {
        let value = compute(&store.value, 16);
        let index = compute(&store.index, 17);
        format!("{value}{index}{}", write(store.param, "%r17", "%r16"))
    };
    let body: String = kernel.stores.iter().map(store).collect();
    Kernel::new(&kernel.name, &kernel.params, kernel.threads, &body).with_symbols(kernel.symbols)
}

/// Computes a word into register `to`, using the registers after it.
fn compute(word: &Word, to: usize) -> String {
    let both = |op: &str, a: &Word, b: &Word| {
        let (first, second) = (compute(a, to), compute(b, to + 1));
        format!("{first}{second}{op} %r{to}, %r{to}, %r{};\n", to + 1)
    };
    match word {
        Word::Const(number) => format!("mov.u32 %r{to}, {number};\n"),
        Word::Thread => format!("mov.u32 %r{to}, %r3;\n"),
        Word::Index(symbol) => format!("mov.u32 %r{to}, %r{};\n", 10 + symbol),
        Word::Read(param, index) => {
            compute(index, to) + &read(&format!("%r{to}"), *param, &format!("%r{to}"))
        }
        Word::Add(a, b) => both("add.u32", a, b),
        Word::Mul(a, b) => both("mul.lo.u32", a, b),
        Word::Xor(a, b) => both("xor.b32", a, b),
    }
}

/// Checks that an assembler accepts the kernels, if `PTXAS` names one.
pub fn assembles(kernels: &[Kernel]) {
    let Some(assembler) = env::var_os("PTXAS") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (text_path, made) = (folder.path().join("text.ptx"), folder.path().join("text.cubin"));
    fs::write(&text_path, text(kernels)).unwrap();
    let mut command = Command::new(assembler);
    let said = command.arg("-arch=sm_90").arg(&text_path).arg("-o").arg(&made).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

/// Static properties of a device by name.
pub fn properties(driver: &CudaDevice) -> BTreeMap<&'static str, String> {
    driver.static_properties().iter().cloned().collect()
}
