//! Artifacts: compiled kernels, and how a device calls them.

use std::{any::Any, fmt, sync::Arc};

use lowered_ir::ir::{Bound, LoopKind, Stmt, Var};
use lowered_ir::log::LogLine;

use crate::host::HostModule;
use crate::log::Logging;
use crate::ptx::PtxModule;
use crate::shader::ShaderModule;
use crate::{form, kernel};

/// Compiled kernels that a device can load. Cheap to clone.
///
/// Code that runs in this process, or accesses its memory, is made together with ABIs that its maker vouches
/// for ([`HostModule::native`], [`PtxModule::new`]), and cannot be combined with others.
#[derive(Clone, Debug)]
pub struct Artifact {
    payload: Payload,
    kernels: Arc<[KernelAbi]>,
    logging: Option<Logging>,
}

/// The forms of compiled code.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Payload {
    /// Functions in this process.
    Host(HostModule),
    /// Text in a shading language.
    Shader(Arc<dyn ShaderModule>),
    /// PTX, for NVIDIA's GPUs.
    Ptx(Arc<PtxModule>),
    /// A form that a codegen and a device outside of this project agree on. A device that takes it vouches
    /// for the kernels, as every device does. Code whose ABI the device cannot check must have a type that
    /// only `unsafe` code can make.
    Other(Arc<dyn Any + Send + Sync>),
}

/// How a kernel is called. [`crate::abi`] is the specification.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelAbi {
    /// The name of the entry point.
    pub name: String,
    /// Positional parameters: memory first (one per node of the kernel's IR), then static indices (one per
    /// symbol).
    pub params: Vec<Param>,
    /// The range that a call may split.
    pub launch: Launch,
    /// Bytes of scratch memory per thread, aligned to [`crate::Caps::alignment`].
    pub scratch_bytes: usize,
    /// The lines that the kernel logs, by number. A kernel that logs takes one more argument.
    pub log: Arc<[LogLine]>,
    /// The cost of one whole call.
    pub cost: Cost,
}

impl Artifact {
    /// Kernels that run in this process, without a log.
    pub fn host(module: HostModule) -> Artifact {
        let kernels = module.shared_abis();
        Artifact { payload: Payload::Host(module), kernels, logging: None }
    }

    /// Shaders without a log, one per kernel. Devices check the accesses of shaders: a shader that does not
    /// follow the ABI gives wrong values in memory of the device, and nothing worse.
    pub fn shaders(module: Arc<dyn ShaderModule>, kernels: Vec<KernelAbi>) -> Artifact {
        Artifact { payload: Payload::Shader(module), kernels: kernels.into(), logging: None }
    }

    /// PTX kernels without a log.
    pub fn ptx(module: PtxModule) -> Artifact {
        let kernels = module.abis().into();
        Artifact { payload: Payload::Ptx(Arc::new(module)), kernels, logging: None }
    }

    /// Kernels in a form that a codegen and a device outside of this project agree on, and how they are
    /// called.
    pub fn other(payload: Arc<dyn Any + Send + Sync>, kernels: Vec<KernelAbi>) -> Artifact {
        Artifact { payload: Payload::Other(payload), kernels: kernels.into(), logging: None }
    }

    /// The compiled code in the form that its device loads.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// How the kernels are called, in the order of the scheduled routine.
    pub fn kernels(&self) -> &[KernelAbi] {
        &self.kernels
    }

    /// The destination of logged lines, if the kernels log. The device that loads the code sends them there.
    pub fn logging(&self) -> Option<&Logging> {
        self.logging.as_ref()
    }

    /// The same code with another destination for logged lines.
    #[must_use]
    pub fn logging_to(mut self, logging: Logging) -> Artifact {
        self.logging = Some(logging);
        self
    }

    /// The kernels with their log, if they run in this process.
    pub fn host_module(&self) -> Option<HostModule> {
        match &self.payload {
            Payload::Host(module) => Some(module.clone().logging_to(self.logging.clone())),
            _ => None,
        }
    }
}

impl KernelAbi {
    /// The access and the size in bytes of each memory parameter, in order. Merge buffers are read.
    pub fn memory(&self) -> impl Iterator<Item = (Access, usize)> {
        self.params.iter().filter_map(|param| match *param {
            Param::Node { access, bytes } => Some((access, bytes)),
            Param::MergeBuffer { bytes } => Some((Access::Read, bytes)),
            Param::StaticIndex { .. } => None,
        })
    }

    /// The end of the range of each static index, in order.
    pub fn static_ranges(&self) -> impl Iterator<Item = i64> {
        self.params.iter().filter_map(|param| match *param {
            Param::StaticIndex { range } => Some(range),
            Param::Node { .. } | Param::MergeBuffer { .. } => None,
        })
    }
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Param {
    /// The base address of a node or temporary.
    Node {
        /// The access of the kernel to it.
        access: Access,
        /// Its size in bytes.
        bytes: usize,
    },
    /// The base address of the stream's merge buffer; read only.
    MergeBuffer {
        /// The size in bytes of the node whose copy it holds.
        bytes: usize,
    },
    /// The value of a static symbol.
    StaticIndex {
        /// Values are `0..range`.
        range: i64,
    },
}

/// The access of a kernel to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Reads only.
    Read,
    /// Writes every element, and never reads a value from before the kernel.
    Write,
    /// May write some elements, and never reads a value from before the kernel. The other elements keep
    /// theirs.
    WritePart,
    /// May read values from before the kernel, and writes.
    ReadWrite,
}

/// The range over which a kernel may be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// The kernel covers `0..extent` of its parallel loop; on targets with workgroups, of all its nested
    /// parallel loops together. 1 if it has none.
    pub extent: u64,
    /// The least number of iterations of a part that is worth a thread.
    pub grain: u64,
    /// Threads that run one iteration together: the greatest product of the extents of nested workgroup
    /// loops. 1 if there are none and iterations are threads.
    pub threads: u32,
    /// The end of the parallel loop, if it follows from a static index.
    pub end: Option<LaunchEnd>,
}

/// The end of a kernel's parallel loop: `factor · index + offset`, or the extent if that is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchEnd {
    /// The position among the kernel's static indices.
    pub index: u32,
    /// The factor of the static index.
    pub factor: i64,
    /// The summand.
    pub offset: i64,
}

impl LaunchEnd {
    /// The end of a loop that begins at 0; `None` if it does not follow from one symbol. The symbols of a
    /// kernel are its static indices.
    pub fn of(bound: &Bound) -> Option<LaunchEnd> {
        let [end] = bound.clips() else { return None };
        match *end.terms() {
            [(Var::Symbol(symbol), factor)] if bound.condition().is_none() => {
                Some(LaunchEnd { index: symbol.0, factor, offset: end.offset() })
            }
            _ => None,
        }
    }
}

impl Launch {
    /// The launch of a whole kernel with this body.
    pub fn whole(body: &[Stmt]) -> Launch {
        let threads = form::threads(body).min(u64::from(u32::MAX)) as u32;
        Launch { extent: 1, grain: 1, threads, end: None }
    }

    /// Returns the launch over the iterations of a parallel loop, if it is the whole body and calls can run
    /// parts of it; otherwise [`Launch::whole`].
    pub fn divided(body: &[Stmt]) -> Launch {
        let whole = Launch::whole(body);
        match body {
            [Stmt::For { lo, hi, kind: LoopKind::Parallel, .. }] if kernel::is_divisible(*lo, hi) => {
                let extent = hi.limit.saturating_sub(*lo).max(0).unsigned_abs();
                Launch { extent, end: LaunchEnd::of(hi), ..whole }
            }
            _ => whole,
        }
    }

    /// The iterations of a call with these static indices.
    pub fn extent_for(&self, indices: &[i64]) -> u64 {
        let Some(LaunchEnd { index, factor, offset }) = self.end else { return self.extent };
        let end =
            indices.get(index as usize).map(|index| factor.saturating_mul(*index).saturating_add(offset));
        end.map_or(self.extent, |end| self.extent.min(end.max(0) as u64))
    }
}

/// The work of a kernel, as counts of operations and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations; fma counts 2.
    pub flops: f64,
    /// Operations on integers and booleans, except the arithmetic of indices.
    pub integer_ops: f64,
    /// Bytes of the distinct elements read plus those written.
    pub bytes: f64,
}

/// Shows the bytes and those kinds of operations that occur.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.flops > 0.0 || self.integer_ops == 0.0 {
            write!(f, "{} flops, ", self.flops)?;
        }
        if self.integer_ops > 0.0 {
            write!(f, "{} integer operations, ", self.integer_ops)?;
        }
        write!(f, "{} bytes", self.bytes)
    }
}
