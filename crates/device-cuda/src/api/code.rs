//! Modules of code, and their functions.

use std::{
    ffi::{CString, c_void},
    fmt, ptr,
    sync::Arc,
};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUmodule};

use super::{CallError, Context};

/// Bytes of the log in which the driver's compiler says what it refuses.
const LOG_BYTES: usize = 16 << 10;

/// Code of a context.
pub(crate) struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: the driver takes calls from any thread, and the fields do not change.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// Code that the driver refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) error: CallError,
    /// What its compiler said.
    pub(crate) log: String,
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Refusal {
        Refusal { error, log: String::new() }
    }
}

impl Module {
    /// Loads a text in PTX, which the driver compiles.
    pub(crate) fn from_text(context: &Arc<Context>, text: &str) -> Result<Module, Refusal> {
        // A zero would end the text: what comes after it is refused here rather than left out there.
        let text = CString::new(text).map_err(|error| Refusal {
            error: CallError {
                call: "cuModuleLoadDataEx",
                code: 218,
                name: "CUDA_ERROR_INVALID_PTX".to_owned(),
                text: format!("a zero at byte {}", error.nul_position()),
            },
            log: String::new(),
        })?;
        Module::load(context, text.as_bytes_with_nul())
    }

    /// Loads machine code, which is whole.
    pub(crate) fn from_cubin(context: &Arc<Context>, cubin: &[u8]) -> Result<Module, Refusal> {
        Module::load(context, cubin)
    }

    /// The image is a text that ends in a zero, or a whole file of machine code: the driver finds its end by itself.
    fn load(context: &Arc<Context>, image: &[u8]) -> Result<Module, Refusal> {
        context.enter()?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options =
            [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The driver overwrites the size with how much it wrote.
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut raw = ptr::null_mut();
        let image = image.as_ptr().cast();
        // SAFETY: an image with an end; two options with a value each, of which one is a buffer of the size that the other says; a
        // place for the handle; the context is current.
        let loaded = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            context.api.cuModuleLoadDataEx(&raw mut raw, image, 2, options, values)
        };
        match loaded {
            Ok(()) => Ok(Module { context: Arc::clone(context), raw }),
            Err(error) => {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                Err(Refusal { error, log: String::from_utf8_lossy(&log[..end]).trim().to_owned() })
            }
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: loaded by `load`; each of its functions and each task that runs one had a share of this value.
        let _ = unsafe { self.context.api.cuModuleUnload(self.raw) };
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code for device {}", self.context.gpu.ordinal)
    }
}

/// An entry point of a module.
#[derive(Debug)]
pub(crate) struct Function {
    module: Arc<Module>,
    raw: CUfunction,
}

// SAFETY: the driver takes calls from any thread, and the fields do not change.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// How a function is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    /// Bytes of shared memory besides what the code declares.
    pub(crate) shared_bytes: u32,
}

impl Function {
    /// The entry point of that name.
    pub(crate) fn new(module: &Arc<Module>, entry: &str) -> Result<Function, CallError> {
        module.context.enter()?;
        // No entry point has a zero in its name: the driver will not find what is left.
        let name = CString::new(entry.split('\0').next().unwrap_or_default()).unwrap_or_default();
        let mut raw = ptr::null_mut();
        // SAFETY: a name that ends in a zero, a place for the handle; the module lives as long as this value.
        unsafe { module.context.api.cuModuleGetFunction(&raw mut raw, module.raw, name.as_ptr())? };
        Ok(Function { module: Arc::clone(module), raw })
    }

    pub(super) fn raw(&self) -> CUfunction {
        self.raw
    }

    pub(crate) fn attribute(&self, attribute: CUfunction_attribute) -> Result<u32, CallError> {
        let context = &self.module.context;
        context.enter()?;
        let read = |api: &super::Api, value: *mut i32| {
            // SAFETY: a place for the number; the function lives as long as its module.
            unsafe { api.cuFuncGetAttribute(value, attribute, self.raw) }
        };
        context.api.number(read).map(|value| u32::try_from(value).unwrap_or(0))
    }

    /// Lets launches take so many bytes of shared memory besides what the code declares.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<(), CallError> {
        let context = &self.module.context;
        context.enter()?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function lives as long as its module; the driver checks the number.
        unsafe { context.api.cuFuncSetAttribute(self.raw, attribute, bytes) }
    }
}

/// Tells the driver where a launch's parameters are.
pub(super) type List = *mut *mut c_void;

/// Keys of such a list.
const BUFFER_POINTER: usize = cudarc::driver::sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize;
const BUFFER_SIZE: usize = cudarc::driver::sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize;

/// Makes a call with a list of parameters, laid out as the code has them. The list lasts as long as the call.
pub(super) fn listed<R>(params: &[u64], call: impl FnOnce(List) -> R) -> R {
    let mut bytes = size_of_val(params);
    let mut list: [*mut c_void; 5] = [
        ptr::without_provenance_mut(BUFFER_POINTER),
        params.as_ptr().cast_mut().cast(),
        ptr::without_provenance_mut(BUFFER_SIZE),
        (&raw mut bytes).cast(),
        ptr::null_mut(),
    ];
    call(list.as_mut_ptr())
}
