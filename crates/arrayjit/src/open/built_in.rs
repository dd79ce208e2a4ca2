//! The backends of this crate: how each is opened, and the devices that this machine has for it.

use std::sync::Arc;

use codegen_core::{Codegen, interpreted::Interpreted};
use device_runtime::{Device, Driver};
use scheduler_multicore::Cpu;

use super::available::DeviceListing;
use crate::{error::OpenError, parts::BackendParts, settings::Settings};

/// A backend of this crate.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Opens the code generator and the devices that the settings select.
    pub(super) open: fn(&Settings) -> Result<BackendParts, OpenError>,
    /// Lists all devices of this machine for the backend, without opening them.
    pub(super) list: fn(&Settings) -> Result<Vec<DeviceListing>, OpenError>,
}

/// Every backend of this crate, one entry each. Other crates register theirs.
pub(super) const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "multicore",
        about: "native code, a worker thread per stream",
        open: multicore,
        list: native_listing,
    },
    BuiltIn {
        name: "inline",
        about: "native code on the caller's thread",
        open: inline,
        list: native_listing,
    },
    BuiltIn {
        name: "interpreter",
        about: "the definition of the IR, slow, on the caller's thread",
        open: interpreter,
        list: |settings| Ok(processor(settings)),
    },
    BuiltIn { name: "wgpu", about: "a GPU through Vulkan, Metal or Direct3D 12", open: wgpu, list: adapters },
    BuiltIn { name: "cuda", about: "NVIDIA's GPUs", open: cuda, list: cuda_devices },
];

pub(super) fn multicore(settings: &Settings) -> Result<BackendParts, OpenError> {
    Ok(cpu(settings, native(settings)?, || Cpu::multicore(cpu_config(settings))))
}

fn inline(settings: &Settings) -> Result<BackendParts, OpenError> {
    Ok(cpu(settings, native(settings)?, || Cpu::inline(cpu_config(settings))))
}

fn interpreter(settings: &Settings) -> Result<BackendParts, OpenError> {
    Ok(cpu(settings, Arc::new(Interpreted::new()), || Cpu::inline(cpu_config(settings))))
}

/// A code generator with `num_devices` devices, at least one.
fn cpu<D: Driver + 'static>(
    settings: &Settings,
    codegen: Arc<dyn Codegen>,
    make: impl Fn() -> D,
) -> BackendParts {
    let device = |ordinal| Device::with_pool_cap(Arc::new(make()), ordinal, settings.pool_bytes);
    let first = BackendParts::new(codegen, device(0));
    (1..settings.num_devices).fold(first, |parts, ordinal| parts.with_device(device(ordinal)))
}

/// The processor of this machine, if native code can be generated for it.
fn native_listing(settings: &Settings) -> Result<Vec<DeviceListing>, OpenError> {
    native(settings).map(|_| processor(settings))
}

fn processor(settings: &Settings) -> Vec<DeviceListing> {
    let threads = cpu_config(settings).threads;
    let text = format!("this machine's processor ({}, {threads} threads)", std::env::consts::ARCH);
    vec![DeviceListing { ordinal: 0, text, is_software: false }]
}

/// The CPU device that the settings describe.
fn cpu_config(settings: &Settings) -> scheduler_multicore::CpuConfig {
    let default = scheduler_multicore::CpuConfig::default();
    let threads = if settings.threads == 0 { default.threads } else { settings.threads };
    scheduler_multicore::CpuConfig { threads, ..default }
}

/// The widest vectors of native code.
#[cfg(feature = "cranelift")]
fn vector_width(settings: &Settings) -> codegen_cranelift::VectorWidth {
    use crate::settings::VectorSetting;
    use codegen_cranelift::VectorWidth;
    match settings.vector {
        VectorSetting::Auto => VectorWidth::default(),
        VectorSetting::None => VectorWidth::None,
        VectorSetting::Bits128 => VectorWidth::Bits128,
        VectorSetting::Neon => VectorWidth::Neon,
        VectorSetting::Avx2 => VectorWidth::Avx2,
        VectorSetting::Mixed => VectorWidth::Mixed,
        VectorSetting::Avx512 => VectorWidth::Avx512,
    }
}

/// The code generator for this processor.
#[cfg(feature = "cranelift")]
fn native(settings: &Settings) -> Result<Arc<dyn Codegen>, OpenError> {
    let options =
        codegen_cranelift::CraneliftOptions { vector: vector_width(settings), ..Default::default() };
    Ok(Arc::new(codegen_cranelift::cranelift(options)?))
}

#[cfg(not(feature = "cranelift"))]
fn native(_: &Settings) -> Result<Arc<dyn Codegen>, OpenError> {
    Err(OpenError::NotBuilt { what: "native code generator", feature: "cranelift" })
}

#[cfg(feature = "wgpu")]
fn open_adapter(settings: &Settings) -> Result<device_wgpu::WgpuDevice, OpenError> {
    let adapter = settings.gpu.wgpu_adapter.parse().unwrap_or_default();
    Ok(device_wgpu::WgpuDevice::open(&device_wgpu::WgpuConfig { adapter, ..Default::default() })?)
}

/// Shaders and a GPU. A pool is as large as one buffer binding can be, so a larger node is an error that
/// names it.
#[cfg(feature = "wgpu")]
fn shaders(driver: device_wgpu::WgpuDevice, settings: &Settings) -> BackendParts {
    let codegen = codegen_wgsl::wgsl(driver.caps().clone(), codegen_wgsl::WgslOptions::default());
    let cap = driver.pool_cap().min(settings.pool_bytes);
    BackendParts::new(Arc::new(codegen), Device::with_pool_cap(Arc::new(driver), 0, cap))
}

#[cfg(feature = "wgpu")]
fn wgpu(settings: &Settings) -> Result<BackendParts, OpenError> {
    Ok(shaders(open_adapter(settings)?, settings))
}

/// The backend `wgpu`, unless its adapter is a program on the CPU.
#[cfg(feature = "wgpu")]
pub(super) fn wgpu_on_hardware(settings: &Settings) -> Result<BackendParts, OpenError> {
    let driver = open_adapter(settings)?;
    if driver.is_software() {
        return Err(OpenError::SoftwareAdapter { adapter: driver.adapter().to_string() });
    }
    Ok(shaders(driver, settings))
}

#[cfg(feature = "wgpu")]
fn adapters(settings: &Settings) -> Result<Vec<DeviceListing>, OpenError> {
    let found = device_wgpu::adapters();
    if found.is_empty() {
        // Opening says which graphics interfaces it has looked for.
        open_adapter(settings)?;
    }
    let listing = |info: &device_wgpu::AdapterInfo| DeviceListing {
        ordinal: info.index,
        text: unnumbered(info.index, &info.to_string()),
        is_software: info.is_software(),
    };
    Ok(found.iter().map(listing).collect())
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(_: &Settings) -> Result<BackendParts, OpenError> {
    Err(OpenError::NotBuilt { what: "backend for GPUs", feature: "wgpu" })
}

#[cfg(not(feature = "wgpu"))]
pub(super) fn wgpu_on_hardware(settings: &Settings) -> Result<BackendParts, OpenError> {
    wgpu(settings)
}

#[cfg(not(feature = "wgpu"))]
fn adapters(settings: &Settings) -> Result<Vec<DeviceListing>, OpenError> {
    wgpu(settings).map(|_| Vec::new())
}

/// PTX and NVIDIA's GPUs: `num_devices` devices from the one of `cuda_device` on, and code for the least
/// compute capability among them.
#[cfg(feature = "cuda")]
pub(super) fn cuda(settings: &Settings) -> Result<BackendParts, OpenError> {
    let folder = Some(&settings.gpu.cuda_code_folder).filter(|folder| !folder.is_empty());
    let open = |ordinal| {
        let config =
            device_cuda::CudaConfig { ordinal, code_folder: folder.map(Into::into), ..Default::default() };
        Ok(device_cuda::CudaDevice::open(&config)?)
    };
    let choice: device_cuda::DeviceChoice = settings.gpu.cuda_device.parse().unwrap_or_default();
    let first = choice.ordinal()?;
    let driver = open(first)?;
    let others: Vec<device_cuda::CudaDevice> = (1..settings.num_devices.max(1) as u32)
        .map(|nth| open(first.saturating_add(nth)))
        .collect::<Result<_, OpenError>>()?;
    let capabilities = [&driver].into_iter().chain(&others).map(|driver| driver.info().capability);
    let codegen = codegen_ptx::ptx(ptx_target(capabilities), ptx_options(settings));
    let device = |driver, nth| Device::with_pool_cap(Arc::new(driver), nth, settings.pool_bytes);
    let parts = BackendParts::new(Arc::new(codegen), device(driver, 0));
    let devices = others.into_iter().zip(1..).map(|(driver, nth)| device(driver, nth));
    Ok(devices.fold(parts, BackendParts::with_device))
}

/// The target whose code runs on devices of all these compute capabilities.
#[cfg(feature = "cuda")]
fn ptx_target(capabilities: impl Iterator<Item = (u32, u32)> + Clone) -> codegen_ptx::Target {
    let least = capabilities.clone().min().unwrap_or_default();
    let same = capabilities.into_iter().all(|capability| capability == least);
    match codegen_ptx::Target::for_device(least.0, least.1) {
        // Code for `sm_90a` runs on that architecture only, so mixed devices get code for `sm_80`.
        Some(codegen_ptx::Target::Sm90a) if !same => codegen_ptx::Target::Sm80,
        Some(target) => target,
        None => codegen_ptx::Target::Sm70,
    }
}

#[cfg(feature = "cuda")]
fn ptx_options(settings: &Settings) -> codegen_ptx::PtxOptions {
    use crate::settings::TensorCoreSetting;
    let tensor_cores = match settings.gpu.tensor_cores {
        TensorCoreSetting::Off => codegen_ptx::TensorCoreInstructions::Off,
        TensorCoreSetting::Warps => codegen_ptx::TensorCoreInstructions::Mma,
        TensorCoreSetting::Auto => codegen_ptx::TensorCoreInstructions::Auto,
    };
    codegen_ptx::PtxOptions {
        tensor_cores,
        tf32: settings.gpu.tf32,
        approximate_functions: settings.gpu.approximate_functions,
        ..Default::default()
    }
}

#[cfg(feature = "cuda")]
fn cuda_devices(_: &Settings) -> Result<Vec<DeviceListing>, OpenError> {
    let listing = |info: &device_cuda::DeviceInfo| DeviceListing {
        ordinal: info.ordinal as usize,
        text: unnumbered(info.ordinal as usize, &info.to_string()),
        is_software: false,
    };
    Ok(device_cuda::devices()?.iter().map(listing).collect())
}

#[cfg(not(feature = "cuda"))]
pub(super) fn cuda(_: &Settings) -> Result<BackendParts, OpenError> {
    Err(OpenError::NotBuilt { what: "backend for NVIDIA's GPUs", feature: "cuda" })
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices(settings: &Settings) -> Result<Vec<DeviceListing>, OpenError> {
    cuda(settings).map(|_| Vec::new())
}

/// The text of a device without the position in front of it, which [`DeviceListing`] has as a number.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn unnumbered(ordinal: usize, text: &str) -> String {
    text.strip_prefix(&format!("{ordinal}: ")).unwrap_or(text).to_owned()
}
