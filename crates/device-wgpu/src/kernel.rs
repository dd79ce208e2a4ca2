//! Kernels: compiling their text to pipelines, and binding pipelines to memory.
//!
//! The text of a kernel is made when the kernel is bound, for the slabs of its parameters
//! ([`codegen_core::ShaderModule`]). Equal texts share one pipeline. wgpu's bounds checks and loop bounds
//! stay on, because any implementation of `ShaderModule` may have written the text; for a verified kernel the
//! platform's compiler removes most of them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    num::NonZero,
    sync::{Arc, Mutex},
};

use codegen_core::{KernelAbi, Shader, ShaderModule};
use device_runtime::{DriverError, check};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor,
    BindGroupLayoutEntry, BindingResource, BindingType, BufferBinding, BufferBindingType, ComputePipeline,
    ComputePipelineDescriptor, PipelineLayout, PipelineLayoutDescriptor, ShaderModuleDescriptor,
    ShaderSource, ShaderStages,
};

use crate::{
    encode::TABLES_BYTES,
    gpu::{Gpu, GpuError, lock, lost_error},
    grid,
    packing::{PackedRegion, pack},
    slab::{MemoryRegion, SlabAllocator},
};

/// The cache drops unused pipelines once it has this many.
const MIN_CACHED: usize = 512;

/// The pipelines of a device by their text, and the binding layouts by the number of slabs.
#[derive(Default)]
pub(crate) struct PipelineCache {
    layouts: Mutex<BTreeMap<usize, Arc<BindingLayout>>>,
    pipelines: Mutex<HashMap<String, Arc<ComputePipeline>>>,
}

/// The layout of bindings for kernels with a given number of slabs.
struct BindingLayout {
    group: BindGroupLayout,
    pipeline: PipelineLayout,
}

impl PipelineCache {
    /// The pipeline of a text for kernels with `slabs` slabs.
    fn get(&self, gpu: &Gpu, name: &str, wgsl: &str, slabs: usize) -> Result<Arc<ComputePipeline>, GpuError> {
        if let Some(pipeline) = lock(&self.pipelines).get(wgsl) {
            return Ok(Arc::clone(pipeline));
        }
        // The pipeline is compiled outside of the lock, so that other kernels need not wait.
        let layout = self.layout(gpu, slabs)?;
        let pipeline = Arc::new(gpu.checked(|| Ok(compile(gpu, name, wgsl, &layout.pipeline)))?);
        let mut pipelines = lock(&self.pipelines);
        if pipelines.len() >= MIN_CACHED {
            pipelines.retain(|_, pipeline| Arc::strong_count(pipeline) > 1);
        }
        Ok(Arc::clone(pipelines.entry(wgsl.to_owned()).or_insert(pipeline)))
    }

    /// The number of cached pipelines.
    pub(crate) fn len(&self) -> usize {
        lock(&self.pipelines).len()
    }

    fn layout(&self, gpu: &Gpu, slabs: usize) -> Result<Arc<BindingLayout>, GpuError> {
        let mut layouts = lock(&self.layouts);
        if let Some(layout) = layouts.get(&slabs) {
            return Ok(Arc::clone(layout));
        }
        let layout = Arc::new(gpu.checked(|| Ok(BindingLayout::new(gpu, slabs)))?);
        layouts.insert(slabs, Arc::clone(&layout));
        Ok(layout)
    }

    /// A pipeline with its buffers bound: the parameter table in `tables`, then the slabs.
    pub(crate) fn assemble(
        &self,
        gpu: &Gpu,
        tables: &wgpu::Buffer,
        text: &KernelText<'_>,
        slabs: &[&wgpu::Buffer],
    ) -> Result<PreparedPipeline, GpuError> {
        let pipeline = self.get(gpu, text.name, text.wgsl, slabs.len())?;
        let layout = self.layout(gpu, slabs.len())?;
        let table_bytes = table_bytes(text.words);
        let table = BufferBinding { buffer: tables, offset: 0, size: NonZero::new(table_bytes as u64) };
        let mut entries = vec![BindGroupEntry { binding: 0, resource: BindingResource::Buffer(table) }];
        entries.extend(
            (1u32..)
                .zip(slabs)
                .map(|(binding, buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() }),
        );
        let descriptor =
            BindGroupDescriptor { label: Some(text.name), layout: &layout.group, entries: &entries };
        let group = gpu.checked(|| Ok(gpu.device.create_bind_group(&descriptor)))?;
        Ok(PreparedPipeline { pipeline, group, table_bytes })
    }
}

impl fmt::Debug for PipelineCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pipelines", self.len())
    }
}

/// The text of a kernel.
pub(crate) struct KernelText<'a> {
    pub(crate) name: &'a str,
    pub(crate) wgsl: &'a str,
    /// Size of the kernel's parameter table, in words.
    pub(crate) words: usize,
}

/// A pipeline with its buffers bound; a launch only sets the offset of the parameter table.
#[derive(Debug)]
pub(crate) struct PreparedPipeline {
    pub(crate) pipeline: Arc<ComputePipeline>,
    pub(crate) group: BindGroup,
    pub(crate) table_bytes: usize,
}

/// Size in bytes of a parameter table of `words` words: whole vectors of four words, at least one.
fn table_bytes(words: usize) -> usize {
    words.max(1).next_multiple_of(4) * 4
}

impl BindingLayout {
    fn new(gpu: &Gpu, slabs: usize) -> BindingLayout {
        let entry = |binding, ty, has_dynamic_offset| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![entry(0, BufferBindingType::Uniform, true)];
        let storage = BufferBindingType::Storage { read_only: false };
        entries.extend((0..slabs).map(|slab| entry(slab as u32 + 1, storage, false)));
        let descriptor = BindGroupLayoutDescriptor { label: Some("table and slabs"), entries: &entries };
        let group = gpu.device.create_bind_group_layout(&descriptor);
        let pipeline = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: Some("table and slabs"),
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        BindingLayout { group, pipeline }
    }
}

fn compile(gpu: &Gpu, name: &str, wgsl: &str, layout: &PipelineLayout) -> ComputePipeline {
    let source = ShaderSource::Wgsl(wgsl.into());
    // With all of wgpu's run-time checks, the shader accesses only the bound slabs and terminates, whatever
    // the text.
    let module = gpu.device.create_shader_module(ShaderModuleDescriptor { label: Some(name), source });
    gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
        label: Some(name),
        layout: Some(layout),
        module: &module,
        entry_point: Some("main"),
        // The default options zero workgroup memory, as WGSL requires.
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    })
}

/// One kernel of a loaded artifact.
#[derive(Debug)]
pub(crate) struct LoadedKernel {
    pub(crate) code: Arc<dyn ShaderModule>,
    pub(crate) index: usize,
    pub(crate) abi: KernelAbi,
}

/// A kernel bound to its memory.
#[derive(Debug)]
pub(crate) struct BoundPipeline {
    pub(crate) name: String,
    pub(crate) assembled: PreparedPipeline,
    /// The offset of each memory parameter in its slab, in words.
    pub(crate) offsets: Vec<u32>,
    /// The number of workgroups in each dimension; `None` if the kernel has nothing to do.
    pub(crate) grid: Option<[u32; 3]>,
    /// The regions that launches copy, because the kernel cannot bind the slabs that they are in.
    pub(crate) packed: Vec<PackedRegion>,
    /// Keeps alive the memory that the bindings refer to.
    _regions: Vec<MemoryRegion>,
}

impl BoundPipeline {
    /// Binds a kernel to one region per memory parameter.
    ///
    /// # Errors
    ///
    /// [`DriverError::TooManyBuffers`], [`DriverError::TooManyGroups`], and errors of the codegen or of the
    /// platform's compiler.
    pub(crate) fn new(
        gpu: &Gpu,
        pipelines: &PipelineCache,
        tables: &wgpu::Buffer,
        slabs: &Arc<SlabAllocator>,
        kernel: &LoadedKernel,
        mut regions: Vec<MemoryRegion>,
    ) -> Result<BoundPipeline, DriverError> {
        let abi = &kernel.abi;
        let limit = gpu.limits.max_storage_buffers_per_shader_stage as usize;
        let accesses = abi.memory().map(|(access, _)| access);
        let packed = pack(&abi.name, slabs, limit, accesses, &mut regions)?;
        let (numbers, slabs) = number_slabs(&regions);
        let shader = kernel.code.shader(kernel.index, &numbers)?;
        check_table(abi, &shader, &gpu.limits)?;
        let grid = grid::split(&abi.name, shader.groups, gpu.limits.max_compute_workgroups_per_dimension)?;
        let text = KernelText { name: &abi.name, wgsl: &shader.wgsl, words: shader.table_words };
        let assembled = pipelines.assemble(gpu, tables, &text, &slabs);
        Ok(BoundPipeline {
            name: abi.name.clone(),
            assembled: assembled.map_err(|error| rejected(&abi.name, error))?,
            offsets: regions.iter().map(|region| (region.begin() / 4) as u32).collect(),
            grid,
            packed,
            _regions: regions,
        })
    }
}

/// The error for a kernel text that the platform rejects.
fn rejected(kernel: &str, error: GpuError) -> DriverError {
    match error {
        GpuError::Lost(why) => lost_error(&why),
        GpuError::Rejected(message) => DriverError::CodeRejected { kernel: kernel.to_owned(), message },
        GpuError::OutOfMemory => DriverError::Platform {
            what: "compiling a kernel",
            message: format!("no memory for the code of `{kernel}`"),
        },
    }
}

/// The number of each region's slab, numbered in order of first use, and the slabs in that order.
fn number_slabs(regions: &[MemoryRegion]) -> (Vec<u32>, Vec<&wgpu::Buffer>) {
    let (mut ids, mut slabs) = (Vec::new(), Vec::new());
    let numbers = regions.iter().map(|region| {
        let slab = region.slab();
        let known = ids.iter().position(|id| *id == slab.id);
        known.unwrap_or_else(|| {
            ids.push(slab.id);
            slabs.push(&slab.buffer);
            ids.len() - 1
        }) as u32
    });
    (numbers.collect(), slabs)
}

/// Checks that the shader's parameter table has the size that launches fill in, and that the device can bind
/// it.
fn check_table(abi: &KernelAbi, shader: &Shader, limits: &wgpu::Limits) -> Result<(), DriverError> {
    let words = shader.table_words;
    check::count(&abi.name, "words in the table of its text", abi.params.len(), words)?;
    let limit = limits.max_uniform_buffer_binding_size.min(TABLES_BYTES as u64);
    let bytes = table_bytes(words);
    if bytes as u64 > limit {
        let message = format!("kernel `{}`: {bytes} bytes, the device binds {limit}", abi.name);
        return Err(DriverError::Platform { what: "binding a table of parameters", message });
    }
    Ok(())
}
