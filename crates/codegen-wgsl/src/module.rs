//! The codegen: compiles kernels to shader modules, whose texts are written when the slabs of the parameters
//! are known.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use codegen_core::{
    Artifact, Caps, Codegen, CodegenError, Kernel, Listing, ScheduledRoutine, Shader, ShaderModule,
    fingerprint,
};

use crate::emit;
use crate::options::WgslOptions;
use crate::text::{self, ValidModule};

/// The name of this codegen in errors and fingerprints.
pub(crate) const CODEGEN_NAME: &str = "wgsl";

/// The codegen for devices that accept WGSL.
#[derive(Clone, Debug)]
pub struct Wgsl {
    caps: Caps,
    options: WgslOptions,
}

/// The codegen for a target; [`crate::baseline_caps`] describes the least capable one.
pub fn wgsl(caps: Caps, options: WgslOptions) -> Wgsl {
    Wgsl { caps, options }
}

impl Codegen for Wgsl {
    fn name(&self) -> &str {
        CODEGEN_NAME
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn fingerprint(&self) -> u64 {
        fingerprint(CODEGEN_NAME, env!("CARGO_PKG_VERSION"), &self.caps, &self.options)
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        let shaders = RoutineShaders {
            kernels: routine.kernels().to_vec(),
            caps: self.caps.clone(),
            options: self.options.clone(),
            texts: Mutex::default(),
        };
        for (at, kernel) in routine.kernels().iter().enumerate() {
            let _span = tracing::debug_span!("compile", kernel = kernel.abi().name).entered();
            // Unsupported kernels are rejected here. The slabs of the parameters make no difference to that.
            shaders.shader(at, &in_one_slab(kernel))?;
        }
        let kernels = routine.kernels().iter().map(|k| k.abi().clone()).collect();
        Ok(Artifact::shaders(Arc::new(shaders), kernels))
    }

    fn listing(&self, kernel: &Kernel) -> Result<Listing, CodegenError> {
        let rendered = self.render(kernel, &in_one_slab(kernel))?;
        Ok(Listing { source: rendered.shader()?.wgsl, machine_code: words(&rendered)? })
    }
}

impl Wgsl {
    /// Renders one kernel as a validated module. Memory parameter `i` is in slab `slabs[i]`.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] for an operation that the target lacks, [`CodegenError::Failed`] if
    /// `slabs` has the wrong length or the module is invalid.
    pub fn render(&self, kernel: &Kernel, slabs: &[u32]) -> Result<NagaKernel, CodegenError> {
        render(kernel, slabs, &self.caps, &self.options)
    }
}

/// SPIR-V as hexadecimal words, eight per line.
#[cfg(feature = "spirv")]
fn words(rendered: &NagaKernel) -> Result<String, CodegenError> {
    let words = rendered.spirv()?;
    let line = |words: &[u32]| words.iter().map(|w| format!("{w:08x}")).collect::<Vec<_>>().join(" ");
    Ok(words.chunks(8).map(line).collect::<Vec<_>>().join("\n"))
}

/// Empty, since this build has no SPIR-V.
#[cfg(not(feature = "spirv"))]
fn words(_: &NagaKernel) -> Result<String, CodegenError> {
    Ok(String::new())
}

/// All parameters in the first slab.
fn in_one_slab(kernel: &Kernel) -> Vec<u32> {
    vec![0; kernel.ir().nodes.len()]
}

/// One kernel as a naga module that is valid for its target, from which WGSL and other shading languages are
/// written.
#[derive(Debug)]
pub struct NagaKernel {
    kernel: String,
    valid: ValidModule,
    groups: u64,
    table_words: usize,
}

impl NagaKernel {
    /// Writes the kernel as WGSL.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`] if naga cannot write the text.
    pub fn shader(&self) -> Result<Shader, CodegenError> {
        let wgsl = text::wgsl(&self.kernel, &self.valid)?;
        Ok(Shader { wgsl, groups: self.groups, table_words: self.table_words })
    }

    /// Writes the kernel as SPIR-V words. Bindings have the numbers of the WGSL text, in descriptor set 0.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Failed`] if naga cannot write the words.
    #[cfg(feature = "spirv")]
    pub fn spirv(&self) -> Result<Vec<u32>, CodegenError> {
        text::spirv(&self.kernel, &self.valid)
    }

    /// Writes the kernel in the Metal Shading Language. Bindings have placeholder numbers until a host maps
    /// them.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] for `f64`, [`CodegenError::Failed`] if naga cannot write the text.
    #[cfg(feature = "msl")]
    pub fn msl(&self) -> Result<String, CodegenError> {
        text::msl(&self.kernel, &self.valid)
    }

    /// Writes the kernel in HLSL. Registers have the numbers of the bindings.
    ///
    /// # Errors
    ///
    /// [`CodegenError::Unsupported`] for `f64`, [`CodegenError::Failed`] if naga cannot write the text.
    #[cfg(feature = "hlsl")]
    pub fn hlsl(&self) -> Result<String, CodegenError> {
        text::hlsl(&self.kernel, &self.valid)
    }

    /// The module, for devices that accept naga modules without text.
    pub fn module(&self) -> &naga::Module {
        &self.valid.module
    }
}

fn render(
    kernel: &Kernel,
    slabs: &[u32],
    caps: &Caps,
    options: &WgslOptions,
) -> Result<NagaKernel, CodegenError> {
    let name = &kernel.abi().name;
    if slabs.len() != kernel.ir().nodes.len() {
        let (found, expected) = (slabs.len(), kernel.ir().nodes.len());
        return Err(CodegenError::failed(
            CODEGEN_NAME,
            name,
            "binding",
            format!("{found} slabs for {expected} parameters"),
        ));
    }
    let emitted = emit::emit(kernel, slabs, caps, options)
        .map_err(|rejection| rejection.of_kernel(CODEGEN_NAME, name))?;
    let valid = text::validate(name, caps, emitted.module)?;
    Ok(NagaKernel { kernel: name.clone(), valid, groups: emitted.groups, table_words: emitted.table_words })
}

/// The kernels of a routine, and their texts by slab assignment.
struct RoutineShaders {
    kernels: Vec<Kernel>,
    caps: Caps,
    options: WgslOptions,
    texts: Mutex<HashMap<(usize, Vec<u32>), Shader>>,
}

impl fmt::Debug for RoutineShaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.kernels.iter().map(|k| k.abi().name.as_str()).collect();
        f.debug_struct("Shaders").field("target", &self.caps.target).field("kernels", &names).finish()
    }
}

impl ShaderModule for RoutineShaders {
    fn shader(&self, kernel: usize, slabs: &[u32]) -> Result<Shader, CodegenError> {
        let key = (kernel, slabs.to_vec());
        let texts = || self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = texts().get(&key) {
            return Ok(known.clone());
        }
        let Some(ir) = self.kernels.get(kernel) else {
            let message = format!("there are {} kernels, asked for number {kernel}", self.kernels.len());
            return Err(CodegenError::failed(CODEGEN_NAME, "", "binding", message));
        };
        let shader = render(ir, slabs, &self.caps, &self.options)?.shader()?;
        texts().insert(key, shader.clone());
        Ok(shader)
    }
}
