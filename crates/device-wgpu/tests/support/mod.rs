//! Devices, nodes and hand-written kernels for the tests.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    thread,
};

use codegen_core::{
    Access, Artifact, Code, CodegenError, Cost, KernelAbi, KernelCall, Launch, Param, Payload,
    ScheduledRoutine, Shader, ShaderModule, Slot, Temp,
};
use codegen_testkit::gpu::or_skip;
use device_runtime::{Context, Device, Location, PoolId};
use device_wgpu::{Config, OpenError, WgpuDevice};
use lowered_ir::ir::{NodeDecl, NodeRef, Symbol, SymbolId};
use tnode::{DType, HostArray, TensorNode};

/// Opens a device, or skips the test where the machine has none.
pub fn open(config: &Config) -> Option<Arc<WgpuDevice>> {
    match WgpuDevice::open(config) {
        Err(error @ OpenError::NoAdapter { .. }) => or_skip(&test(), Err(error)),
        opened => Some(Arc::new(opened.unwrap())),
    }
}

/// Skips a test.
pub fn skip(test: &str, why: &str) {
    let _: Option<()> = or_skip(test, Err(why));
}

/// The test that runs on this thread.
fn test() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// The device that the tests of one program share, for those that do not look at its memory: making one takes a while.
pub fn shared() -> Option<Device> {
    static SHARED: OnceLock<Option<Device>> = OnceLock::new();
    let device = SHARED.get_or_init(|| open(&Config::default()).map(|driver| device(&driver)));
    or_skip(&test(), device.clone().ok_or("no adapter"))
}

pub fn device(driver: &Arc<WgpuDevice>) -> Device {
    Device::with_pool_cap(Arc::clone(driver) as Arc<_>, 0, driver.pool_cap())
}

pub fn context(device: &Device) -> Context {
    Context::new(&device.new_stream().unwrap())
}

/// A node of `i32` elements.
pub fn node(name: &str, len: usize) -> TensorNode {
    TensorNode::builder(name).dims([len]).dtype(DType::I32).build().unwrap()
}

pub fn array(values: &[i32]) -> HostArray {
    HostArray::from_slice(values, [values.len()]).unwrap()
}

pub fn values(context: &Context, node: &TensorNode) -> Vec<i32> {
    context.to_host(node).unwrap().as_slice().unwrap().to_vec()
}

pub fn at(pool: u32, offset: usize) -> Location {
    Location { pool: PoolId(pool), offset }
}

pub fn symbol(name: &str, range: i64) -> Symbol {
    Symbol { name: name.to_owned(), range }
}

/// A kernel in WGSL: `threads` threads, numbered `t`, run `body`. Parameter `p` is read by `rP(i)` and written by `wP(i, value)`, with
/// words for elements; static index `s` is `iS`.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub params: Vec<(Access, usize)>,
    pub symbols: usize,
    pub threads: u64,
    pub body: String,
}

impl Kernel {
    pub fn new(name: &str, params: &[(Access, usize)], threads: u64, body: &str) -> Kernel {
        let (name, params, body) = (name.to_owned(), params.to_vec(), body.to_owned());
        Kernel { name, params, symbols: 0, threads, body }
    }

    pub fn with_symbols(self, symbols: usize) -> Kernel {
        Kernel { symbols, ..self }
    }

    pub fn abi(&self) -> KernelAbi {
        let memory = self.params.iter().map(|&(access, bytes)| Param::Node { access, bytes });
        let params = memory.chain((0..self.symbols).map(|_| Param::StaticIndex { range: 1 << 20 })).collect();
        KernelAbi {
            name: self.name.clone(),
            params,
            launch: Launch { extent: self.threads, grain: 1, threads: 1 },
            scratch_bytes: 0,
            log: [].into(),
            cost: Cost::default(),
        }
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
        Shader { wgsl, groups: self.threads.div_ceil(64), table_words: words }
    }
}

/// Hand-written kernels as a codegen's.
#[derive(Debug)]
pub struct Kernels(pub Vec<Kernel>);

impl ShaderModule for Kernels {
    fn shader(&self, kernel: usize, slabs: &[u32]) -> Result<Shader, CodegenError> {
        Ok(self.0[kernel].shader(slabs))
    }
}

/// Kernels as texts that somebody else made.
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
    Artifact::new(Payload::Shader(Arc::new(Kernels(kernels))), abis)
}

/// Code of one kernel on `uses`, whose positions are the nodes', and with all `symbols`.
pub fn code(
    name: &str,
    uses: &[(&TensorNode, Access)],
    symbols: &[Symbol],
    threads: u64,
    body: &str,
) -> Arc<Code> {
    let params: Vec<_> = uses.iter().map(|(node, access)| (*access, node.size_bytes().unwrap())).collect();
    let kernel = Kernel::new(name, &params, threads, body).with_symbols(symbols.len());
    let call = KernelCall {
        kernel: 0,
        args: (0..uses.len()).map(|at| Slot::Node(NodeRef(at as u32))).collect(),
        bindings: (0..symbols.len()).map(|at| SymbolId(at as u32)).collect(),
    };
    let nodes: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    many_kernels(name, &nodes, symbols, artifact(vec![kernel]), vec![call], vec![])
}

/// Code of anything.
pub fn many_kernels(
    name: &str,
    nodes: &[TensorNode],
    symbols: &[Symbol],
    artifact: Artifact,
    calls: Vec<KernelCall>,
    temps: Vec<Temp>,
) -> Arc<Code> {
    let decl = |node: &TensorNode| NodeDecl {
        name: node.name(),
        dtype: node.dtype(),
        dims: node.dims().unwrap(),
        mode: node.mode(),
    };
    let schedule = ScheduledRoutine {
        name: name.to_owned(),
        symbols: symbols.to_vec(),
        nodes: nodes.iter().map(decl).collect(),
        kernels: vec![],
        calls,
        temps,
        overwritten: vec![],
    };
    Arc::new(Code { schedule, artifact })
}

/// Facts of a device by name.
pub fn properties(driver: &WgpuDevice) -> BTreeMap<&'static str, String> {
    device_runtime::Driver::static_properties(driver).into_iter().collect()
}

/// A small generator of numbers, the same in every run.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}
