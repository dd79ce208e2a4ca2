//! What a codegen hands to a device: compiled kernels and how to call them.

use std::{any::Any, fmt, sync::Arc};

use lowered_ir::ir::Stmt;
use lowered_ir::log::LogLine;

use crate::form;
use crate::host::HostModule;
use crate::log::Logging;
use crate::ptx::PtxModule;
use crate::shader::ShaderModule;

/// Compiled kernels, ready for a device to load. Cheap to clone.
///
/// Code that runs in this process, or reaches its memory, comes with the ABIs that its maker vouched for
/// ([`HostModule::native`], [`PtxModule::new`]); nothing pairs it with others.
#[derive(Clone, Debug)]
pub struct Artifact {
    payload: Payload,
    kernels: Arc<[KernelAbi]>,
    logging: Option<Logging>,
}

/// The forms of code that devices load.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Payload {
    /// Functions in this process.
    Host(HostModule),
    /// Text in a shading language.
    Shader(Arc<dyn ShaderModule>),
    /// Text for NVIDIA's processors.
    Ptx(Arc<PtxModule>),
    /// Anything a codegen and a device outside this project agree on. A device that takes it vouches for the
    /// kernels, as every device does for what it runs; code whose ABI it cannot check has to come in a type
    /// that only `unsafe` code makes.
    Other(Arc<dyn Any + Send + Sync>),
}

/// How a kernel is called. `docs/abi.md` is the specification.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelAbi {
    /// The entry point's name.
    pub name: String,
    /// Positional parameters: memory first (one per node of the kernel's IR), then static indices (one per symbol).
    pub params: Vec<Param>,
    /// The range that may be split.
    pub launch: Launch,
    /// Bytes of scratch memory per thread, aligned to [`crate::Caps::alignment`].
    pub scratch_bytes: usize,
    /// The lines it logs, by number; none for nearly every kernel. One that logs takes one more argument.
    pub log: Arc<[LogLine]>,
    /// What one whole call costs.
    pub cost: Cost,
}

impl Artifact {
    /// Kernels of this process, which log nowhere.
    pub fn host(module: HostModule) -> Artifact {
        let kernels = module.shared_abis();
        Artifact { payload: Payload::Host(module), kernels, logging: None }
    }

    /// Shaders that log nowhere, one for each of the kernels. Devices check what shaders touch: a shader that
    /// does not follow the ABI gives wrong values in memory of the device, and nothing worse.
    pub fn shaders(module: Arc<dyn ShaderModule>, kernels: Vec<KernelAbi>) -> Artifact {
        Artifact { payload: Payload::Shader(module), kernels: kernels.into(), logging: None }
    }

    /// Kernels for NVIDIA's processors, which log nowhere.
    pub fn ptx(module: PtxModule) -> Artifact {
        let kernels = module.abis().into();
        Artifact { payload: Payload::Ptx(Arc::new(module)), kernels, logging: None }
    }

    /// What a codegen and a device outside this project agree on, with how its kernels are called.
    pub fn other(payload: Arc<dyn Any + Send + Sync>, kernels: Vec<KernelAbi>) -> Artifact {
        Artifact { payload: Payload::Other(payload), kernels: kernels.into(), logging: None }
    }

    /// The code in the form that its devices load.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// How the kernels are called, in the order of the scheduled routine.
    pub fn kernels(&self) -> &[KernelAbi] {
        &self.kernels
    }

    /// Where the kernels log to that do. Whoever loads the code sees to it, in whatever way its kernels tell
    /// what they log.
    pub fn logging(&self) -> Option<&Logging> {
        self.logging.as_ref()
    }

    /// The same code, whose kernels log to there.
    #[must_use]
    pub fn logging_to(mut self, logging: Logging) -> Artifact {
        self.logging = Some(logging);
        self
    }

    /// The kernels, if they run in this process, logging to where the artifact says.
    pub fn host_module(&self) -> Option<HostModule> {
        match &self.payload {
            Payload::Host(module) => Some(module.clone().logging_to(self.logging.clone())),
            _ => None,
        }
    }
}

impl KernelAbi {
    /// Access and size in bytes of each memory parameter, in order; merge buffers are read.
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

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Param {
    /// The base address of a node or temporary.
    Node {
        /// What the kernel does with it.
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

/// What a kernel does with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Reads only.
    Read,
    /// Surely writes every element, without ever reading what was there before the kernel.
    Write,
    /// May write some elements, without ever reading what was there before the kernel; the others keep that.
    WritePart,
    /// May read what was there before, and writes.
    ReadWrite,
}

/// The range over which a kernel may be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// The kernel covers `0..extent` of its parallel loop, for targets with workgroups of all its parallel loops together; 1 where
    /// it has none.
    pub extent: u64,
    /// A part should have at least this many iterations to be worth a thread.
    pub grain: u64,
    /// Threads that run one iteration together: the greatest product of the extents of nested workgroup loops; 1 where there are
    /// none, so that iterations are threads.
    pub threads: u32,
}

impl Launch {
    /// That of a kernel with this body, called whole.
    pub fn whole(body: &[Stmt]) -> Launch {
        let threads = form::threads(body).min(u64::from(u32::MAX)) as u32;
        Launch { extent: 1, grain: 1, threads }
    }
}

/// Symbolic counts of a kernel's work, for the roofline.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations; fma counts 2.
    pub flops: f64,
    /// Operations on integers and booleans; the arithmetic of indices is not among them.
    pub integer_ops: f64,
    /// Bytes of the distinct elements read plus those written.
    pub bytes: f64,
}

/// Only the operations that there are, and the bytes.
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
