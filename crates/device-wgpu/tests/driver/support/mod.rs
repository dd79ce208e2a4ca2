//! Devices, nodes and hand-written kernels for the tests.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    thread,
};

use codegen_core::{Access, Artifact, Code, CodegenError, KernelAbi, Shader, ShaderModule};
use codegen_testkit::gpu::or_skip;
pub use codegen_testkit::gpu_runtime::hand_made::*;
use codegen_testkit::gpu_runtime::{self, Gpu, Store, Word};
use device_runtime::{Device, DirectDriver, Driver};
use device_wgpu::{WgpuConfig, WgpuDevice, WgpuOpenError};
use lowered_ir::ir::Symbol;
use tnode::TensorNode;

/// Opens a device to call without the runtime, or skips the test if the machine has none.
pub fn open(config: &WgpuConfig) -> Option<DirectDriver<WgpuDevice>> {
    match WgpuDevice::open(config) {
        Err(error @ WgpuOpenError::NoAdapter { .. }) => or_skip(&test(), Err(error)),
        opened => Some(DirectDriver::new(Arc::new(opened.unwrap()))),
    }
}

/// Reports that a test is skipped.
pub fn skip(test: &str, why: &str) {
    let _: Option<()> = or_skip(test, Err(why));
}

/// The name of the test that runs on this thread.
fn test() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// A device that the tests of one program share, because opening one is slow. Tests that check a device's
/// memory open their own.
pub fn shared() -> Option<Device> {
    static SHARED: OnceLock<Option<Device>> = OnceLock::new();
    let device = SHARED.get_or_init(|| open(&WgpuConfig::default()).map(|driver| device(&driver)));
    or_skip(&test(), device.clone().ok_or("no adapter"))
}

pub fn device(driver: &DirectDriver<WgpuDevice>) -> Device {
    Device::with_pool_cap(Arc::clone(driver.driver()) as Arc<_>, 0, driver.pool_cap())
}

/// A kernel in WGSL: `threads` threads run `body`, and `t` is the number of the thread. `r0(i)` reads word
/// `i` of parameter 0, `w0(i, value)` writes it, and `i0` is static index 0; other parameters and indices
/// likewise.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub params: Vec<(Access, usize)>,
    pub symbols: usize,
    pub threads: u32,
    pub body: String,
}

impl Kernel {
    pub fn new(name: &str, params: &[(Access, usize)], threads: u32, body: &str) -> Kernel {
        let (name, params, body) = (name.to_owned(), params.to_vec(), body.to_owned());
        Kernel { name, params, symbols: 0, threads, body }
    }

    pub fn with_symbols(self, symbols: usize) -> Kernel {
        Kernel { symbols, ..self }
    }

    pub fn abi(&self) -> KernelAbi {
        abi(&self.name, &self.params, self.symbols, self.threads)
    }

    fn shader(&self, slabs: &[u32]) -> Shader {
        let words = slabs.len() + self.symbols;
        let word = |at: usize| format!("table[{}][{}]", at / 4, at % 4);
        let mut wgsl = format!(
            "@group(0) @binding(0) var<uniform> table: array<vec4<u32>, {}>;\n",
            words.div_ceil(4).max(1)
        );
        for slab in 0..slabs.iter().map(|slab| slab + 1).max().unwrap_or(0) {
            wgsl +=
                &format!("@group(0) @binding({}) var<storage, read_write> s{slab}: array<u32>;\n", slab + 1);
        }
        for (at, slab) in slabs.iter().enumerate() {
            let place = format!("s{slab}[{} + i]", word(at));
            wgsl += &format!("fn r{at}(i: u32) -> u32 {{ return {place}; }}\n");
            wgsl += &format!("fn w{at}(i: u32, value: u32) {{ {place} = value; }}\n");
        }
        wgsl += "@compute @workgroup_size(64)\nfn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) l: u32) {\n";
        for symbol in 0..self.symbols {
            wgsl += &format!("    let i{symbol} = {};\n", word(slabs.len() + symbol));
        }
        wgsl += "    let t = (g.x + n.x * (g.y + n.y * g.z)) * 64u + l;\n";
        wgsl += &format!("    if t >= {}u {{ return; }}\n    {}\n}}\n", self.threads, self.body);
        Shader { wgsl, groups: self.threads.div_ceil(64).into(), table_words: words }
    }
}

/// Hand-written kernels as the output of a codegen.
#[derive(Debug)]
pub struct Kernels(pub Vec<Kernel>);

impl ShaderModule for Kernels {
    fn shader(&self, kernel: usize, slabs: &[u32]) -> Result<Shader, CodegenError> {
        Ok(self.0[kernel].shader(slabs))
    }
}

/// Kernels whose texts a function returns.
pub struct Texts<F>(pub F);

impl<F> fmt::Debug for Texts<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("texts")
    }
}

impl<F: Fn(&[u32]) -> Result<Shader, CodegenError> + Send + Sync> ShaderModule for Texts<F> {
    fn shader(&self, _: usize, slabs: &[u32]) -> Result<Shader, CodegenError> {
        (self.0)(slabs)
    }
}

pub fn artifact(kernels: Vec<Kernel>) -> Artifact {
    let abis = kernels.iter().map(Kernel::abi).collect();
    Artifact::shaders(Arc::new(Kernels(kernels)), abis)
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
    one_kernel(uses, symbols, artifact(vec![kernel]))
}

/// The machine's adapter, for the test suite.
pub struct Wgpu;

impl Gpu for Wgpu {
    fn open(&self, memory_limit: Option<usize>) -> Option<(Arc<dyn Driver>, Device)> {
        let driver = open(&WgpuConfig { memory_limit, ..WgpuConfig::default() })?;
        let device = device(&driver);
        Some((Arc::clone(driver.driver()) as Arc<_>, device))
    }

    fn device(&self) -> Option<Device> {
        shared()
    }

    fn artifact(&self, kernels: &[gpu_runtime::StoreKernel]) -> Artifact {
        artifact(kernels.iter().map(written).collect())
    }
}

/// A kernel of the test suite in WGSL.
fn written(kernel: &gpu_runtime::StoreKernel) -> Kernel {
    let store =
        |store: &Store| format!("w{}({}, {}); ", store.param, computed(&store.index), computed(&store.value));
    let body: String = kernel.stores.iter().map(store).collect();
    Kernel::new(&kernel.name, &kernel.params, kernel.threads, &body).with_symbols(kernel.symbols)
}

fn computed(word: &Word) -> String {
    match word {
        Word::Const(number) => format!("{number}u"),
        Word::Thread => "t".to_owned(),
        Word::Index(symbol) => format!("i{symbol}"),
        Word::Read(param, index) => format!("r{param}({})", computed(index)),
        Word::Add(a, b) => format!("({} + {})", computed(a), computed(b)),
        Word::Mul(a, b) => format!("({} * {})", computed(a), computed(b)),
        Word::Xor(a, b) => format!("({} ^ {})", computed(a), computed(b)),
    }
}

/// Static properties of a device by name.
pub fn properties(driver: &WgpuDevice) -> BTreeMap<&'static str, String> {
    device_runtime::Driver::static_properties(driver).iter().cloned().collect()
}
