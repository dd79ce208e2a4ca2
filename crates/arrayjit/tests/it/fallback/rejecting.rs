//! Backends that reject kernels: native code, or the interpreter, behind a code generator that returns
//! `Unsupported` for chosen kernels.

use std::sync::Arc;

use arrayjit::settings::FallbackSetting;
use arrayjit::{
    Backend, BackendParts, Caps, Codegen, Context, DType, HostArray, MemoryMode, Routine, Settings,
    TensorNode,
};
use codegen_core::{Artifact, CodegenError, ScheduledRoutine};
use lowered_ir::ir::LoweredRoutine;

/// The rejected operation of a kernel, if any.
pub(crate) type Rejects = dyn Fn(&LoweredRoutine) -> Option<String> + Send + Sync;

/// A code generator that rejects some kernels.
struct Rejecting {
    inner: Arc<dyn Codegen>,
    caps: Caps,
    rejects: Box<Rejects>,
}

impl Codegen for Rejecting {
    fn name(&self) -> &str {
        "rejecting"
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn fingerprint(&self) -> u64 {
        self.inner.fingerprint() ^ 1
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        for kernel in routine.kernels() {
            if let Some(op) = (self.rejects)(kernel.ir()) {
                let (codegen, kernel) = ("rejecting".to_owned(), kernel.abi().name.clone());
                return Err(CodegenError::Unsupported {
                    codegen,
                    kernel,
                    op,
                    why: "the test says so".into(),
                });
            }
        }
        self.inner.compile(routine)
    }
}

/// The backend `name` with a code generator that rejects some kernels.
pub(crate) fn rejecting(
    name: &str,
    settings: Settings,
    rejects: impl Fn(&LoweredRoutine) -> Option<String> + Send + Sync + 'static,
) -> Backend {
    with_caps(name, settings, |_| {}, rejects)
}

/// Like [`rejecting`], with other capabilities.
pub(crate) fn with_caps(
    name: &str,
    settings: Settings,
    change: impl FnOnce(&mut Caps),
    rejects: impl Fn(&LoweredRoutine) -> Option<String> + Send + Sync + 'static,
) -> Backend {
    named("partial", name, settings, change, rejects)
}

/// Like [`with_caps`], under a name of its own.
pub(crate) fn named(
    own: &str,
    name: &str,
    settings: Settings,
    change: impl FnOnce(&mut Caps),
    rejects: impl Fn(&LoweredRoutine) -> Option<String> + Send + Sync + 'static,
) -> Backend {
    let inner = SharedCodegen(Backend::open_with(name, &settings).unwrap());
    let (device, mut caps) = (inner.0.device().clone(), inner.0.codegen().caps().clone());
    change(&mut caps);
    let codegen = Rejecting { inner: Arc::new(inner), caps, rejects: Box::new(rejects) };
    let parts = BackendParts::new(Arc::new(codegen), device);
    Backend::from_parts(own, parts, &settings).expect("consistent capabilities")
}

/// Makes the code generator of a backend available as a value.
struct SharedCodegen(Backend);

impl Codegen for SharedCodegen {
    fn name(&self) -> &str {
        self.0.codegen().name()
    }

    fn caps(&self) -> &Caps {
        self.0.codegen().caps()
    }

    fn fingerprint(&self) -> u64 {
        self.0.codegen().fingerprint()
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        self.0.codegen().compile(routine)
    }
}

/// Rejects kernels whose text contains `part`.
pub(crate) fn with_text(part: &'static str) -> impl Fn(&LoweredRoutine) -> Option<String> + Send + Sync {
    move |kernel| lowered_ir::text::print(kernel).contains(part).then(|| format!("`{part}`"))
}

pub(crate) fn settings(fallback: FallbackSetting) -> Settings {
    let mut settings = Settings::default();
    settings.threads = 2;
    settings.fallback = fallback;
    settings
}

pub(crate) fn kept(name: &str, dims: &[usize]) -> TensorNode {
    typed(name, DType::F32, dims)
}

pub(crate) fn typed(name: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
    node.mode(MemoryMode::Materialized).build().unwrap()
}

pub(crate) fn array(node: &TensorNode, values: &[f64]) -> HostArray {
    let mut array = HostArray::zeros(node.dtype(), node.dims().unwrap()).unwrap();
    array.set_values(values).unwrap();
    array
}

/// A context of the backend with these nodes' values.
pub(crate) fn context(backend: &Backend, given: &[(&TensorNode, &[f64])]) -> Context {
    given.iter().fold(backend.context().unwrap(), |context, (node, values)| {
        context.init_from_host(node, array(node, values)).unwrap()
    })
}

pub(crate) fn values(routine: &Routine, node: &TensorNode) -> Vec<f64> {
    routine.context().to_host(node).unwrap().values()
}
