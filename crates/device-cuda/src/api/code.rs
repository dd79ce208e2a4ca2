//! Modules of code, and their functions.

use std::{
    ffi::{CString, c_void},
    fmt, ptr,
    sync::Arc,
};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUjit_option, CUmodule};
use smallvec::SmallVec;

use super::{CallError, Context};

/// Size in bytes of the buffer for messages of the driver's compiler.
const LOG_BYTES: usize = 16 << 10;

/// A module of code in a context.
pub(crate) struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: the driver accepts calls from any thread, and the fields do not change.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// The error for code that the driver rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeError {
    pub(crate) error: CallError,
    /// The message of the driver's compiler.
    pub(crate) log: String,
}

impl From<CallError> for CodeError {
    fn from(error: CallError) -> CodeError {
        CodeError { error, log: String::new() }
    }
}

impl Module {
    /// Loads PTX, which the driver compiles.
    pub(crate) fn from_text(context: &Arc<Context>, text: &str) -> Result<Module, CodeError> {
        // A zero byte would end the text for the driver. The text is rejected instead of being truncated.
        let text = CString::new(text).map_err(|error| CodeError {
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

    /// Loads a complete image of machine code.
    pub(crate) fn from_cubin(context: &Arc<Context>, cubin: &[u8]) -> Result<Module, CodeError> {
        Module::load(context, cubin)
    }

    /// Loads an image: PTX text that ends in a zero byte, or a complete file of machine code. The driver
    /// finds the end of either by itself.
    fn load(context: &Arc<Context>, image: &[u8]) -> Result<Module, CodeError> {
        context.enter()?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options =
            [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // The driver overwrites the size with the number of bytes that it wrote.
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES - 1)];
        let mut raw = ptr::null_mut();
        let image = image.as_ptr().cast();
        // SAFETY: the image has an end; there are two options with a value each, a buffer and its size; the
        // place for the handle is valid; the context is current.
        let loaded = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            context.api.cuModuleLoadDataEx(&raw mut raw, image, 2, options, values)
        };
        match loaded {
            Ok(()) => Ok(Module { context: Arc::clone(context), raw }),
            Err(error) => {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                Err(CodeError { error, log: String::from_utf8_lossy(&log[..end]).trim().to_owned() })
            }
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = self.context.enter();
        // SAFETY: `load` loaded the module, and nothing uses it any more: each of its functions, and each
        // task that runs one, held a reference to this value.
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

// SAFETY: the driver accepts calls from any thread, and the fields do not change.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The size of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    /// Size in bytes of dynamic shared memory per block.
    pub(crate) shared_bytes: u32,
}

impl Function {
    /// The entry point with the given name.
    pub(crate) fn new(module: &Arc<Module>, entry: &str) -> Result<Function, CallError> {
        module.context.enter()?;
        // No entry point has a zero byte in its name: the driver will not find the truncated name.
        let name = CString::new(entry.split('\0').next().unwrap_or_default()).unwrap_or_default();
        let mut raw = ptr::null_mut();
        // SAFETY: the name ends in a zero, and the place for the handle is valid; the module exists as long
        // as this value.
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
            // SAFETY: a valid place for the number; the function exists as long as its module.
            unsafe { api.cuFuncGetAttribute(value, attribute, self.raw) }
        };
        context.api.number(read).map(|value| u32::try_from(value).unwrap_or(0))
    }

    /// Raises the limit of dynamic shared memory for launches of this function to `bytes` bytes.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<(), CallError> {
        let context = &self.module.context;
        context.enter()?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function exists as long as its module; the driver checks the number.
        unsafe { context.api.cuFuncSetAttribute(self.raw, attribute, bytes) }
    }
}

/// The parameters of a launch: numbers and addresses of one word each, then tensor maps.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    words: SmallVec<[u64; 16]>,
    /// The number of parameters of one word.
    numbers: usize,
}

/// The words of a tensor map.
const MAP_WORDS: usize = 16;

impl Params {
    pub(crate) fn new<'a>(
        numbers: impl Iterator<Item = u64>,
        maps: impl IntoIterator<Item = &'a [u64; MAP_WORDS]>,
    ) -> Params {
        let mut words: SmallVec<[u64; 16]> = numbers.collect();
        let numbers = words.len();
        maps.into_iter().for_each(|map| words.extend_from_slice(map));
        Params { words, numbers }
    }

    /// Calls `call` with a list of the parameters' addresses, which exists only during the call. The driver
    /// reads as many bytes at each address as the code declares.
    ///
    /// Only the driver knows where parameters are in the constant memory of a kernel: assemblers align maps
    /// by their addresses there, which begin at 528 on Hopper, and not by their distance from the first
    /// parameter. So parameters are not passed as one buffer.
    pub(super) fn with_list<R>(&self, call: impl FnOnce(*mut *mut c_void) -> R) -> R {
        let (numbers, maps) = self.words.split_at(self.numbers);
        let address = |word: *const u64| word.cast_mut().cast::<c_void>();
        let numbers = numbers.iter().map(|word| address(word));
        let maps = maps.chunks_exact(MAP_WORDS).map(|map| address(map.as_ptr()));
        let mut list: SmallVec<[*mut c_void; 16]> = numbers.chain(maps).collect();
        call(list.as_mut_ptr())
    }
}
