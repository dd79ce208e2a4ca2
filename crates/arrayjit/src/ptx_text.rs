//! The PTX of assignment text, without a GPU.

use std::{borrow::Borrow, sync::Arc};

use codegen_core::Payload;
use device_runtime::{Device, NullDevice};
use tnode::TensorNode;

pub use codegen_ptx::Target as PtxTarget;

use crate::{
    backend::Backend,
    error::CompileError,
    parts::BackendParts,
    settings::{FallbackSetting, Settings},
};

/// The PTX that the backend `cuda` makes of assignment text for a target: one text with all kernels of the
/// routine. It needs no GPU and no software of NVIDIA. For launches, arguments and options, compile for a
/// [`Backend`] and read [`Compiled::codes`](crate::Compiled::codes).
///
/// ```
/// use arrayjit::{DType, PtxTarget, TensorNode, ptx};
///
/// let node = |name, dims: [usize; 2]| {
///     TensorNode::builder(name).dims(dims).dtype(DType::F32).build()
/// };
/// let nodes = [node("a", [64, 32])?, node("b", [32, 16])?, node("c", [64, 16])?];
/// let text = ptx("c[m,n] :+= a[m,k] * b[k,n]", &nodes, PtxTarget::Sm80)?;
/// assert!(text.contains(".target sm_80") && text.contains("fma.rn.f32"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Fails like [`Backend::compile`], also for a statement that the backend `cuda` leaves to another backend.
pub fn ptx<N: Borrow<TensorNode>>(
    text: &str,
    nodes: impl IntoIterator<Item = N>,
    target: PtxTarget,
) -> Result<String, CompileError> {
    let codegen = codegen_ptx::ptx(target, codegen_ptx::PtxOptions::default());
    let parts = BackendParts::new(Arc::new(codegen), Device::new(Arc::new(NullDevice::new()), 0));
    let settings = Settings { fallback: FallbackSetting::None, ..Settings::default() };
    let optimizer = settings.optimizer();
    let backend = Backend::assembled("ptx".into(), parts, settings, optimizer, None);
    let compiled = backend.compile(text, nodes)?;
    let modules = compiled.codes().filter_map(|code| match code.artifact().payload() {
        Payload::Ptx(module) => Some(module.text().to_string()),
        _ => None,
    });
    Ok(modules.collect())
}
