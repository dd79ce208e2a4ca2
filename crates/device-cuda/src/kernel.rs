//! Kernels: loading PTX as functions of the device, and binding functions to memory.

use std::sync::Arc;

use codegen_core::{Artifact, KernelAbi, Logging, PtxLaunch, PtxModule, TensorMap, log_buffer};
use cudarc::driver::sys::CUfunction_attribute as Attribute;
use device_runtime::{DriverError, LaunchSize, check};

use crate::{
    Result,
    api::{CallError, CodeError, Function, Grid, MemoryRegion, Module, Params},
    caps::{self, DeviceAttributes},
    cubin::CubinCache,
    maps::{self, EncodedMap, check_capability, mismatch},
    ptx::{self, EntryPoint},
    shared_state::{DRIVER_NAME, SharedState, is_out_of_memory},
    stream::logs::LogBuffer,
};

/// The hardware rounds the number of registers per thread up to a multiple of this number, and allocates
/// registers for whole warps.
const REGISTER_UNIT: usize = 8;
const WARP: u32 = 32;

/// Maximum number of blocks per cluster that every GPU with clusters supports.
const MAX_CLUSTER: u32 = 8;

/// The device state that loading code depends on.
pub(crate) struct CodeLoader<'a> {
    pub(crate) shared: &'a SharedState,
    pub(crate) attributes: &'a DeviceAttributes,
    /// The CUDA version of the driver.
    pub(crate) cuda: (u32, u32),
    pub(crate) cache: Option<&'a CubinCache>,
}

/// One kernel of a loaded artifact.
#[derive(Debug)]
pub(crate) struct LoadedKernel {
    pub(crate) abi: KernelAbi,
    function: Function,
    grid: Grid,
    /// The grid and the resources of the compiled code.
    pub(crate) size: LaunchSize,
    maps: Vec<TensorMap>,
    /// Size in bytes of the kernel's log buffer; 0 if it logs nothing.
    pub(crate) log_bytes: usize,
    /// The sink of the kernel's log.
    pub(crate) logging: Option<Logging>,
}

impl CodeLoader<'_> {
    /// Loads the kernels of an artifact.
    ///
    /// # Errors
    ///
    /// [`DriverError::UnsupportedPayload`] for code that needs another device or a newer driver. Other errors
    /// report code that contradicts the artifact, code that the driver rejects, and kernels that exceed the
    /// device's limits per block.
    pub(crate) fn load(&self, artifact: &Artifact, code: &PtxModule) -> Result<Vec<Arc<LoadedKernel>>> {
        self.shared.check_alive()?;
        self.check_target(code)?;
        if artifact.kernels().is_empty() {
            return Ok(Vec::new());
        }
        let entries = ptx::entries(code.text());
        for (abi, launch) in artifact.kernels().iter().zip(code.launches()) {
            check_entry(abi, launch, &entries)?;
            maps::check_all(abi, launch, self.attributes.capability)?;
        }
        let module = Arc::new(self.module(artifact, code, &entries)?);
        let kernels = artifact.kernels().iter().zip(code.launches());
        let logging = artifact.logging();
        kernels.map(|(abi, launch)| self.kernel(&module, abi, launch, logging).map(Arc::new)).collect()
    }

    fn check_target(&self, code: &PtxModule) -> Result<()> {
        let capability = self.attributes.capability;
        let newest = caps::language(self.cuda);
        let payload = match ptx::version(code.text()) {
            _ if !caps::runs(capability, code.target()) => {
                format!("{} (compute capability {}.{})", code.target(), capability.0, capability.1)
            }
            Some((major, minor)) if (major, minor) > newest => {
                let (cuda, newest) =
                    (format!("{}.{}", self.cuda.0, self.cuda.1), format!("{}.{}", newest.0, newest.1));
                format!("PTX {major}.{minor} (its driver, for CUDA {cuda}, takes {newest})")
            }
            _ => return Ok(()),
        };
        Err(DriverError::UnsupportedPayload { driver: DRIVER_NAME.to_owned(), payload })
    }

    /// Loads the code: cached machine code if there is any, else the text.
    fn module(&self, artifact: &Artifact, code: &PtxModule, entries: &[EntryPoint]) -> Result<Module> {
        let _span = tracing::debug_span!("load", target = %code.target(), kernels = entries.len()).entered();
        let context = &self.shared.context;
        if let Some(cache) = self.cache {
            let processor = self.processor(code.target());
            let cubin = cache.get(code.text(), &processor, self.cuda);
            match cubin.map(|cubin| Module::from_cubin(context, &cubin)) {
                Some(Ok(module)) => return Ok(module),
                Some(Err(code_error)) => {
                    tracing::warn!(error = %code_error.error, "machine code rejected; the driver compiles the text");
                    cache.forget(code.text(), &processor, self.cuda);
                }
                None => {}
            }
        }
        Module::from_text(context, code.text())
            .map_err(|code_error| self.rejected(artifact, code, entries, code_error))
    }

    /// The architecture for which machine code is made: this device's, with the suffix of the target.
    fn processor(&self, target: &str) -> String {
        let (major, minor) = self.attributes.capability;
        let suffix = target.chars().last().filter(char::is_ascii_lowercase);
        format!("sm_{major}{minor}{}", suffix.map(String::from).unwrap_or_default())
    }

    /// The error for rejected code, with the kernel and the line that the driver's compiler names.
    fn rejected(
        &self,
        artifact: &Artifact,
        code: &PtxModule,
        entries: &[EntryPoint],
        code_error: CodeError,
    ) -> DriverError {
        let CodeError { error, log } = code_error;
        if let Some(lost) = self.shared.lost_by(&error, String::new) {
            return lost;
        }
        let line = ptx::line_in(&log);
        let place = line.and_then(|line| {
            let text = code.text().lines().nth(line.checked_sub(1)?)?;
            Some(format!("; line {line}: `{}`", text.trim()))
        });
        let entry = line.and_then(|line| ptx::entry_at(entries, line));
        let at = entry.and_then(|entry| code.launches().iter().position(|launch| launch.entry == entry.name));
        let kernel = match at.and_then(|at| artifact.kernels().get(at)) {
            Some(abi) => abi.name.clone(),
            None => artifact.kernels().iter().map(|abi| abi.name.as_str()).collect::<Vec<_>>().join("`, `"),
        };
        let said = if log.is_empty() { String::new() } else { format!("; {log}") };
        let message = format!("{error}{}{said}", place.unwrap_or_default());
        if is_out_of_memory(&error) {
            return DriverError::Platform {
                what: "compiling kernels",
                message: format!("`{kernel}`: {message}"),
            };
        }
        DriverError::CodeRejected { kernel, message }
    }

    fn kernel(
        &self,
        module: &Arc<Module>,
        abi: &KernelAbi,
        launch: &PtxLaunch,
        logging: Option<&Logging>,
    ) -> Result<LoadedKernel> {
        let rejected = |error: CallError| {
            self.shared.lost_by(&error, String::new).unwrap_or_else(|| DriverError::CodeRejected {
                kernel: abi.name.clone(),
                message: error.to_string(),
            })
        };
        let function = Function::new(module, &launch.entry).map_err(rejected)?;
        let declared =
            function.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES).map_err(rejected)?;
        let shared_bytes = launch.dynamic_shared_bytes;
        let registers = function.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS).map_err(rejected)?;
        let local_bytes =
            function.attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES).map_err(rejected)?;
        let size = LaunchSize {
            blocks: launch.blocks,
            threads: launch.threads,
            registers,
            shared_bytes: declared.saturating_add(shared_bytes),
            local_bytes,
        };
        self.check_size(&function, abi, &size, rejected)?;
        self.check_cluster(&function, abi, launch, rejected)?;
        if size.shared_bytes as usize > self.attributes.shared {
            function.allow_shared(shared_bytes).map_err(rejected)?;
        }
        let grid = Grid { blocks: launch.blocks, threads: launch.threads, shared_bytes };
        let (abi, maps, log_bytes) = (abi.clone(), launch.maps.clone(), launch.log_bytes as usize);
        Ok(LoadedKernel { abi, function, grid, size, maps, log_bytes, logging: logging.cloned() })
    }

    /// Checks that the launch has the cluster size that the text requires. A text that states its cluster
    /// size needs no launch attribute, and a text that does not is launched without clusters.
    fn check_cluster(
        &self,
        function: &Function,
        abi: &KernelAbi,
        launch: &PtxLaunch,
        rejected: impl Fn(CallError) -> DriverError,
    ) -> Result<()> {
        let PtxLaunch { cluster, blocks, .. } = *launch;
        let expect = |holds: bool, what: &str, expected: String, found: u32| match holds {
            true => Ok(()),
            false => Err(mismatch(&abi.name, what, expected, found)),
        };
        let within = (1..=MAX_CLUSTER).contains(&cluster);
        expect(within, "blocks of a cluster", format!("1 to {MAX_CLUSTER}"), cluster)?;
        if cluster > 1 {
            check_capability(&abi.name, "clusters", self.attributes.capability)?;
        }
        expect(blocks % cluster == 0, "blocks", format!("a multiple of the {cluster} of a cluster"), blocks)?;
        if self.attributes.capability < maps::MIN_CAPABILITY {
            return Ok(());
        }
        // The attribute is 0 if the text states no cluster size.
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
        let required = function.attribute(attribute).map_err(rejected)?.max(1);
        expect(required == cluster, "blocks of a cluster", format!("{required}, as its PTX says"), cluster)
    }

    /// Checks the launch against the device's limits on blocks and their sizes.
    fn check_size(
        &self,
        function: &Function,
        abi: &KernelAbi,
        size: &LaunchSize,
        rejected: impl Fn(CallError) -> DriverError + Copy,
    ) -> Result<()> {
        let DeviceAttributes { registers: most, blocks, max_shared, .. } = *self.attributes;
        if size.blocks as usize > blocks {
            let (kernel, groups, limit) = (abi.name.clone(), u64::from(size.blocks), blocks as u64);
            return Err(DriverError::TooManyGroups { kernel, groups, limit });
        }
        let threads =
            function.attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK).map_err(rejected)?;
        let in_warps = size.threads.next_multiple_of(WARP) as usize;
        let taken = (size.registers as usize).next_multiple_of(REGISTER_UNIT) * in_warps;
        let sizes = [
            ("registers", taken, most),
            ("threads", size.threads as usize, threads as usize),
            ("bytes of shared memory", size.shared_bytes as usize, max_shared),
        ];
        match sizes.into_iter().find(|(_, needed, limit)| needed > limit) {
            Some((what, needed, limit)) => {
                Err(DriverError::TooLarge { kernel: abi.name.clone(), what, needed, limit })
            }
            None => Ok(()),
        }
    }
}

/// Checks that the text has the entry point, with one parameter for each of the artifact's parameters, for
/// the log and for each map, of the sizes that launches pass.
fn check_entry(abi: &KernelAbi, launch: &PtxLaunch, entries: &[EntryPoint]) -> Result<()> {
    let Some(entry) = entries.iter().find(|entry| entry.name == launch.entry) else {
        let message = format!("its PTX has no entry point `{}`", launch.entry);
        return Err(DriverError::CodeRejected { kernel: abi.name.clone(), message });
    };
    check_log(abi, launch)?;
    let words = abi.params.len() + usize::from(launch.log_bytes > 0);
    check::count(&abi.name, "parameters in its PTX", words + launch.maps.len(), entry.params.len())?;
    let expected = |at: usize| if at < words { size_of::<u64>() } else { size_of::<EncodedMap>() };
    match entry.params.iter().enumerate().find(|&(at, &bytes)| bytes != expected(at)) {
        Some((at, found)) => {
            Err(mismatch(&abi.name, format!("bytes of parameter {at} in its PTX"), expected(at), found))
        }
        None => Ok(()),
    }
}

/// Checks that the launch has a log buffer if and only if the kernel logs.
fn check_log(abi: &KernelAbi, launch: &PtxLaunch) -> Result<()> {
    let header = log_buffer::HEADER_BYTES as u32;
    match (abi.log.is_empty(), launch.log_bytes) {
        (true, 0) => Ok(()),
        (true, found) => Err(mismatch(&abi.name, "bytes of its log", "0, since it logs nothing", found)),
        (false, found) if found < header => {
            Err(mismatch(&abi.name, "bytes of its log", format!("{header} or more"), found))
        }
        (false, _) => Ok(()),
    }
}

/// A kernel bound to its memory.
#[derive(Debug)]
pub(crate) struct BoundFunction {
    kernel: Arc<LoadedKernel>,
    /// One region per memory parameter; they keep the memory alive.
    regions: Vec<MemoryRegion>,
    /// The kernel's tensor maps, encoded for these regions.
    maps: Vec<EncodedMap>,
    static_indices: usize,
    log: Option<LogBuffer>,
}

impl BoundFunction {
    /// Binds a kernel to one region per memory parameter, and to a region for its log if it logs.
    ///
    /// # Errors
    ///
    /// An error of the driver for a tensor map.
    pub(crate) fn new(
        shared: &SharedState,
        kernel: Arc<LoadedKernel>,
        regions: Vec<MemoryRegion>,
        log: Option<MemoryRegion>,
    ) -> Result<BoundFunction> {
        let name = &kernel.abi.name;
        let rejected = |error: CallError| {
            shared.lost_by(&error, String::new).unwrap_or_else(|| DriverError::Platform {
                what: "encoding a tensor map",
                message: format!("`{name}`: {error}"),
            })
        };
        let maps = maps::encoded(&shared.context, name, &kernel.maps, &regions, rejected)?;
        let static_indices = kernel.abi.params.len() - regions.len();
        Ok(BoundFunction { kernel, regions, maps, static_indices, log: log.map(LogBuffer::new) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.kernel.abi.name
    }

    pub(crate) fn kernel(&self) -> &Arc<LoadedKernel> {
        &self.kernel
    }

    /// The log buffer, if the kernel logs.
    pub(crate) fn log(&self) -> Option<&LogBuffer> {
        self.log.as_ref()
    }

    pub(crate) fn function(&self) -> &Function {
        &self.kernel.function
    }

    pub(crate) fn grid(&self) -> Grid {
        self.kernel.grid
    }

    pub(crate) fn static_indices(&self) -> usize {
        self.static_indices
    }

    /// The parameters of a launch: addresses, then the address of the log, then the values of static indices,
    /// then maps.
    pub(crate) fn params(&self, bindings: &[i64]) -> Params {
        let bindings = bindings.iter().map(|value| value.cast_unsigned());
        let addresses = self.regions.iter().map(MemoryRegion::address);
        let addresses = addresses.chain(self.log.as_ref().map(LogBuffer::address));
        Params::new(addresses.chain(bindings), &self.maps)
    }
}
