//! Kernels: text to pipelines, and pipelines bound to memory.
//!
//! The text of a kernel is made when its memory is fixed, for the slabs that its parameters lie in ([`codegen_core::ShaderModule`]).
//! Equal texts are one pipeline. wgpu's bounds checks and loop bounds stay on: any implementation of `ShaderModule` may give the
//! text, and what a verified kernel does not need the platform's compiler mostly removes.

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
    gpu::{Gpu, Objection, lock, lost_error},
    grid,
    slab::Region,
};

/// So many pipelines are kept whether anybody uses them or not.
const KEPT: usize = 512;

/// The pipelines of a device by their text, and the layouts of bindings by the number of slabs.
#[derive(Default)]
pub(crate) struct Pipelines {
    layouts: Mutex<BTreeMap<usize, Arc<Layout>>>,
    pipelines: Mutex<HashMap<String, Arc<ComputePipeline>>>,
}

/// The bindings of kernels with a number of slabs.
struct Layout {
    group: BindGroupLayout,
    pipeline: PipelineLayout,
}

impl Pipelines {
    /// The pipeline of a text with so many slabs.
    fn get(
        &self,
        gpu: &Gpu,
        name: &str,
        wgsl: &str,
        slabs: usize,
    ) -> Result<Arc<ComputePipeline>, Objection> {
        if let Some(pipeline) = lock(&self.pipelines).get(wgsl) {
            return Ok(Arc::clone(pipeline));
        }
        // Compiled outside of the lock: other kernels need not wait for this one.
        let layout = self.layout(gpu, slabs)?;
        let pipeline = Arc::new(gpu.checked(|| Ok(compile(gpu, name, wgsl, &layout.pipeline)))?);
        let mut pipelines = lock(&self.pipelines);
        if pipelines.len() >= KEPT {
            pipelines.retain(|_, pipeline| Arc::strong_count(pipeline) > 1);
        }
        Ok(Arc::clone(pipelines.entry(wgsl.to_owned()).or_insert(pipeline)))
    }

    /// How many pipelines there are.
    pub(crate) fn len(&self) -> usize {
        lock(&self.pipelines).len()
    }

    fn layout(&self, gpu: &Gpu, slabs: usize) -> Result<Arc<Layout>, Objection> {
        let mut layouts = lock(&self.layouts);
        if let Some(layout) = layouts.get(&slabs) {
            return Ok(Arc::clone(layout));
        }
        let layout = Arc::new(gpu.checked(|| Ok(Layout::new(gpu, slabs)))?);
        layouts.insert(slabs, Arc::clone(&layout));
        Ok(layout)
    }

    /// A pipeline with the buffers that it uses: the table in `tables`, then slabs. Tables have `words` words.
    pub(crate) fn assemble(
        &self,
        gpu: &Gpu,
        tables: &wgpu::Buffer,
        text: &Text<'_>,
        slabs: &[&wgpu::Buffer],
    ) -> Result<Assembled, Objection> {
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
        Ok(Assembled { pipeline, group, table_bytes })
    }
}

impl fmt::Debug for Pipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pipelines", self.len())
    }
}

/// A kernel's text.
pub(crate) struct Text<'a> {
    pub(crate) name: &'a str,
    pub(crate) wgsl: &'a str,
    /// Words of its table.
    pub(crate) words: usize,
}

/// A pipeline with its buffers; only the place of its table is open.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) pipeline: Arc<ComputePipeline>,
    pub(crate) group: BindGroup,
    pub(crate) table_bytes: usize,
}

/// Bytes of a table: whole vectors of four words, and at least one.
fn table_bytes(words: usize) -> usize {
    words.max(1).next_multiple_of(4) * 4
}

impl Layout {
    fn new(gpu: &Gpu, slabs: usize) -> Layout {
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
        Layout { group, pipeline }
    }
}

fn compile(gpu: &Gpu, name: &str, wgsl: &str, layout: &PipelineLayout) -> ComputePipeline {
    let source = ShaderSource::Wgsl(wgsl.into());
    // Made with all of wgpu's checks at run time: whatever the text says, it stays inside of the slabs that are bound, and it ends.
    let module = gpu.device.create_shader_module(ShaderModuleDescriptor { label: Some(name), source });
    gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
        label: Some(name),
        layout: Some(layout),
        module: &module,
        entry_point: Some("main"),
        // WGSL means what it says: workgroup memory begins as zeros.
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    })
}

/// A kernel of a loaded artifact.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) code: Arc<dyn ShaderModule>,
    pub(crate) index: usize,
    pub(crate) abi: KernelAbi,
}

/// A kernel with its memory fixed.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) assembled: Assembled,
    /// Where each memory parameter begins in its slab, in words.
    pub(crate) offsets: Vec<u32>,
    /// Workgroups in each dimension; none at all where a kernel has nothing to do.
    pub(crate) grid: Option<[u32; 3]>,
    /// What the bindings point into.
    _regions: Vec<Region>,
}

impl Bound {
    /// Binds a kernel to one region per memory parameter.
    ///
    /// # Errors
    ///
    /// Too many slabs or workgroups, and whatever the codegen or the
    /// platform's compiler says of the text.
    pub(crate) fn new(
        gpu: &Gpu,
        pipelines: &Pipelines,
        tables: &wgpu::Buffer,
        kernel: &Kernel,
        regions: Vec<Region>,
    ) -> Result<Bound, DriverError> {
        let abi = &kernel.abi;
        let (numbers, slabs) = number_slabs(&regions);
        let limit = gpu.limits.max_storage_buffers_per_shader_stage as usize;
        if slabs.len() > limit {
            let (kernel, needed) = (abi.name.clone(), slabs.len());
            return Err(DriverError::TooManyBuffers { kernel, needed, limit });
        }
        let shader = kernel.code.shader(kernel.index, &numbers)?;
        check_table(abi, &shader, &gpu.limits)?;
        let grid = grid::split(&abi.name, shader.groups, gpu.limits.max_compute_workgroups_per_dimension)?;
        let text = Text { name: &abi.name, wgsl: &shader.wgsl, words: shader.table_words };
        let assembled = pipelines.assemble(gpu, tables, &text, &slabs);
        Ok(Bound {
            name: abi.name.clone(),
            assembled: assembled.map_err(|objection| refused(&abi.name, objection))?,
            offsets: regions.iter().map(|region| (region.begin() / 4) as u32).collect(),
            grid,
            _regions: regions,
        })
    }
}

/// What the platform said of a kernel's text.
fn refused(kernel: &str, objection: Objection) -> DriverError {
    match objection {
        Objection::Lost(why) => lost_error(&why),
        Objection::Refused(message) => DriverError::CodeRefused { kernel: kernel.to_owned(), message },
        Objection::OutOfMemory => DriverError::Platform {
            what: "compiling a kernel",
            message: format!("no memory for the code of `{kernel}`"),
        },
    }
}

/// Each region's slab, numbered in the order of first mention, and the slabs in that order.
fn number_slabs(regions: &[Region]) -> (Vec<u32>, Vec<&wgpu::Buffer>) {
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

/// The table that the text expects is the one that launches fill in, and a device can bind it.
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
