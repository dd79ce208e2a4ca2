//! Kernels: a text to functions of the device, and functions bound to memory.

use std::sync::Arc;

use codegen_core::{Artifact, KernelAbi, Logging, PtxLaunch, PtxModule, TensorMap, log_buffer};
use cudarc::driver::sys::CUfunction_attribute as Attribute;
use device_runtime::{DriverError, check};

use crate::{
    api::{CallError, Function, Grid, Module, Refusal, Region},
    caps::{self, Attributes},
    core::{Core, NAME, is_out_of_memory},
    cubin::Cache,
    maps::{self, Encoded, check_capability, mismatch},
    ptx::{self, Entry},
    stream::logs::LogBuffer,
};

/// A block's registers are given out in units of so many for each of its threads, and to whole warps.
const REGISTER_UNIT: usize = 8;
const WARP: u32 = 32;

/// The most blocks of a cluster that every processor with clusters runs.
const MOST_CLUSTER: u32 = 8;

/// Words of a kernel's parameters; maps begin at multiples of so many.
pub(crate) type Params = smallvec::SmallVec<[u64; 16]>;
const MAP_ALIGNMENT: usize = 8;

/// What loading code depends on.
pub(crate) struct Loader<'a> {
    pub(crate) core: &'a Core,
    pub(crate) attributes: &'a Attributes,
    /// The CUDA version of the driver.
    pub(crate) cuda: (u32, u32),
    pub(crate) cache: Option<&'a Cache>,
}

/// A kernel of a loaded artifact.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) abi: KernelAbi,
    function: Function,
    grid: Grid,
    maps: Vec<TensorMap>,
    /// Bytes of the buffer that it logs to; 0 if it logs nothing.
    pub(crate) log_bytes: usize,
    /// Where what it logs goes.
    pub(crate) logging: Option<Logging>,
}

impl Loader<'_> {
    /// The kernels of an artifact.
    ///
    /// # Errors
    ///
    /// Code for other devices or a newer driver, code that contradicts the artifact, code that the driver refuses, and kernels that
    /// take more than the device gives a block.
    pub(crate) fn load(
        &self,
        artifact: &Artifact,
        code: &PtxModule,
    ) -> Result<Vec<Arc<Kernel>>, DriverError> {
        self.core.alive()?;
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

    fn check_target(&self, code: &PtxModule) -> Result<(), DriverError> {
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
        Err(DriverError::UnsupportedPayload { driver: NAME.to_owned(), payload })
    }

    /// The code, as machine code that is kept on disk or as text.
    fn module(
        &self,
        artifact: &Artifact,
        code: &PtxModule,
        entries: &[Entry],
    ) -> Result<Module, DriverError> {
        let _span = tracing::debug_span!("load", target = %code.target(), kernels = entries.len()).entered();
        let context = &self.core.context;
        if let Some(cache) = self.cache {
            let processor = self.processor(code.target());
            let cubin = cache.get(code.text(), &processor, self.cuda);
            match cubin.map(|cubin| Module::from_cubin(context, &cubin)) {
                Some(Ok(module)) => return Ok(module),
                Some(Err(refusal)) => {
                    tracing::warn!(error = %refusal.error, "machine code refused; the driver compiles the text");
                    cache.forget(code.text(), &processor, self.cuda);
                }
                None => {}
            }
        }
        Module::from_text(context, code.text())
            .map_err(|refusal| self.refused(artifact, code, entries, refusal))
    }

    /// The processor that machine code is for: this one, with what the target adds.
    fn processor(&self, target: &str) -> String {
        let (major, minor) = self.attributes.capability;
        let suffix = target.chars().last().filter(char::is_ascii_lowercase);
        format!("sm_{major}{minor}{}", suffix.map(String::from).unwrap_or_default())
    }

    /// A refusal with the kernel and the line that the driver's compiler names.
    fn refused(
        &self,
        artifact: &Artifact,
        code: &PtxModule,
        entries: &[Entry],
        refusal: Refusal,
    ) -> DriverError {
        let Refusal { error, log } = refusal;
        if let Some(lost) = self.core.loss(&error, String::new) {
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
        DriverError::CodeRefused { kernel, message }
    }

    fn kernel(
        &self,
        module: &Arc<Module>,
        abi: &KernelAbi,
        launch: &PtxLaunch,
        logging: Option<&Logging>,
    ) -> Result<Kernel, DriverError> {
        let refused = |error: CallError| {
            self.core.loss(&error, String::new).unwrap_or_else(|| DriverError::CodeRefused {
                kernel: abi.name.clone(),
                message: error.to_string(),
            })
        };
        let function = Function::new(module, &launch.entry).map_err(refused)?;
        let declared = function.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES).map_err(refused)?;
        let shared_bytes = launch.dynamic_shared_bytes;
        let shared_total = declared.saturating_add(shared_bytes) as usize;
        self.check_size(&function, abi, launch, shared_total, refused)?;
        self.check_cluster(&function, abi, launch, refused)?;
        if shared_total > self.attributes.shared {
            function.allow_shared(shared_bytes).map_err(refused)?;
        }
        let grid = Grid { blocks: launch.blocks, threads: launch.threads, shared_bytes };
        let (abi, maps, log_bytes) = (abi.clone(), launch.maps.clone(), launch.log_bytes as usize);
        Ok(Kernel { abi, function, grid, maps, log_bytes, logging: logging.cloned() })
    }

    /// Whether the blocks come in the clusters that the text asks for. A text that says how large they are needs nothing else in a
    /// launch, and one that does not is launched without.
    fn check_cluster(
        &self,
        function: &Function,
        abi: &KernelAbi,
        launch: &PtxLaunch,
        refused: impl Fn(CallError) -> DriverError,
    ) -> Result<(), DriverError> {
        let PtxLaunch { cluster, blocks, .. } = *launch;
        let expect = |holds: bool, what: &str, expected: String, found: u32| match holds {
            true => Ok(()),
            false => Err(mismatch(&abi.name, what, expected, found)),
        };
        let within = (1..=MOST_CLUSTER).contains(&cluster);
        expect(within, "blocks of a cluster", format!("1 to {MOST_CLUSTER}"), cluster)?;
        if cluster > 1 {
            check_capability(&abi.name, "clusters", self.attributes.capability)?;
        }
        expect(blocks % cluster == 0, "blocks", format!("a multiple of the {cluster} of a cluster"), blocks)?;
        if self.attributes.capability < maps::LEAST {
            return Ok(());
        }
        // 0 where the text says nothing.
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
        let required = function.attribute(attribute).map_err(refused)?.max(1);
        expect(required == cluster, "blocks of a cluster", format!("{required}, as its PTX says"), cluster)
    }

    /// Whether the device has a block of that size, and as many of them.
    fn check_size(
        &self,
        function: &Function,
        abi: &KernelAbi,
        launch: &PtxLaunch,
        shared_total: usize,
        refused: impl Fn(CallError) -> DriverError + Copy,
    ) -> Result<(), DriverError> {
        let Attributes { registers: most, blocks, most_shared, .. } = *self.attributes;
        if launch.blocks as usize > blocks {
            let (kernel, groups, limit) = (abi.name.clone(), u64::from(launch.blocks), blocks as u64);
            return Err(DriverError::TooManyGroups { kernel, groups, limit });
        }
        let attribute = |attribute| function.attribute(attribute).map_err(refused);
        let registers = attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)? as usize;
        let threads = attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as usize;
        let in_warps = launch.threads.next_multiple_of(WARP) as usize;
        let taken = registers.next_multiple_of(REGISTER_UNIT) * in_warps;
        let sizes = [
            ("registers", taken, most),
            ("threads", launch.threads as usize, threads),
            ("bytes of shared memory", shared_total, most_shared),
        ];
        match sizes.into_iter().find(|(_, needed, limit)| needed > limit) {
            Some((what, needed, limit)) => {
                Err(DriverError::TooLarge { kernel: abi.name.clone(), what, needed, limit })
            }
            None => Ok(()),
        }
    }
}

/// Whether the text has the entry point, with a parameter for each of the artifact's, for the log and for each map.
fn check_entry(abi: &KernelAbi, launch: &PtxLaunch, entries: &[Entry]) -> Result<(), DriverError> {
    let Some(entry) = entries.iter().find(|entry| entry.name == launch.entry) else {
        let message = format!("its PTX has no entry point `{}`", launch.entry);
        return Err(DriverError::CodeRefused { kernel: abi.name.clone(), message });
    };
    check_log(abi, launch)?;
    let expected = abi.params.len() + usize::from(launch.log_bytes > 0) + launch.maps.len();
    check::count(&abi.name, "parameters in its PTX", expected, entry.params)
}

/// Whether there is a buffer for the log if the kernel logs, and only then.
fn check_log(abi: &KernelAbi, launch: &PtxLaunch) -> Result<(), DriverError> {
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

/// A kernel with its memory fixed.
#[derive(Debug)]
pub(crate) struct Bound {
    kernel: Arc<Kernel>,
    /// One region per memory parameter; they keep it alive.
    regions: Vec<Region>,
    /// What the kernel's maps are for these regions.
    maps: Vec<Encoded>,
    static_indices: usize,
    log: Option<LogBuffer>,
}

impl Bound {
    /// Binds a kernel to one region per memory parameter, and to one for its log if it logs.
    ///
    /// # Errors
    ///
    /// The driver's refusal of a map.
    pub(crate) fn new(
        core: &Core,
        kernel: Arc<Kernel>,
        regions: Vec<Region>,
        log: Option<Region>,
    ) -> Result<Bound, DriverError> {
        let name = &kernel.abi.name;
        let refused = |error: CallError| {
            core.loss(&error, String::new).unwrap_or_else(|| DriverError::Platform {
                what: "encoding a tensor map",
                message: format!("`{name}`: {error}"),
            })
        };
        let maps = maps::encoded(&core.context, name, &kernel.maps, &regions, refused)?;
        let static_indices = kernel.abi.params.len() - regions.len();
        Ok(Bound { kernel, regions, maps, static_indices, log: log.map(LogBuffer::new) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.kernel.abi.name
    }

    pub(crate) fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Where it logs to, if it does.
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

    /// What a launch hands over: addresses, that of the log behind them, then the values of static indices, then maps.
    pub(crate) fn params(&self, bindings: &[i64]) -> Params {
        let bindings = bindings.iter().map(|value| value.cast_unsigned());
        let addresses = self.regions.iter().map(Region::address);
        let addresses = addresses.chain(self.log.as_ref().map(LogBuffer::address));
        let mut params: Params = addresses.chain(bindings).collect();
        if !self.maps.is_empty() {
            params.resize(params.len().next_multiple_of(MAP_ALIGNMENT), 0);
            self.maps.iter().for_each(|map| params.extend_from_slice(map));
        }
        params
    }
}
