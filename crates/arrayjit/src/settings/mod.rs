//! Settings: arguments over environment over `arrayjit.toml` over defaults, with the origin of each value
//! kept.
//!
//! * **Arguments**: `--arrayjit-KEY=VALUE` (dashes and underscores are the same); other arguments are
//!   ignored.
//! * **Environment**: `ARRAYJIT_KEY`.
//! * **File**: `arrayjit.toml` in the current folder or the nearest folder above it; a repeated key is an
//!   error.
//! * **Defaults**: [`Settings::default`], written out with comments in
//!   `crates/arrayjit/arrayjit.reference.toml`.
//!
//! Keys have no groups: the key of `settings.debugging.dump` is `dump`. An unknown key is reported
//! ([`LoadedSettings::unknown`]) and otherwise ignored, so that one file can serve several versions. The key
//! of a setting that is gone is an error, which says what replaces it.

use device_runtime::DEFAULT_POOL_CAP;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

mod dump; // the filter of dumps
mod load; // arguments, environment and file
mod removed; // keys of former settings
mod stages; // options of the stages of compilation
mod values; // the values of settings that are names

pub(crate) use dump::{DumpFilter, routine_of};
pub use load::{LoadedSettings, SettingsError};
pub use values::{FallbackSetting, NumericClass, SuggestedStreams, TensorCoreSetting, VectorSetting};

/// The choices that need no change of a program: the common ones, then the others by group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Settings {
    /// The backend that a program opens unless it chooses one itself: `multicore`, `inline`, `interpreter`,
    /// `wgpu`, `cuda`, `auto` for the first that opens of `cuda`, `wgpu` on a GPU and `multicore`, or a
    /// [registered](crate::register_backend) backend.
    pub backend: String,
    /// Threads that compute, workers of streams included: 1 to 1024, or 0 for one per core.
    pub threads: usize,
    /// Devices of the backend, 1 to 1024: CPU devices, each with its own memory and threads, or NVIDIA GPUs.
    pub num_devices: usize,
    /// The numeric class of routines: `strict` (as written), `fast` (fma, fixed reduction trees) or `real`
    /// (also the equations of real numbers).
    pub numerics: NumericClass,
    /// The widest vectors of CPU code: `auto`, `none`, `128` (bits), `neon`, `avx2`, `mixed`
    /// (256, and 512 for convolutions) or `avx512`.
    pub vector: VectorSetting,
    /// The magnitude from which on a finite 16- or 8-bit float constant is rejected (`bf16` excepted); 0 for
    /// none.
    pub half_constant_cutoff: f64,
    /// Which backend runs kernels that the backend's code generator rejects: `auto`, a CPU backend by name,
    /// or `none`.
    pub fallback: FallbackSetting,
    /// The most bytes in which the gradient of a program stores values of the steps of one scan, counted for
    /// the bounds of sizes; 0 for no limit. A scan that needs more gets the checkpoints that need least.
    pub scan_gradient_bytes: u64,
    /// Whether gradients round where a program rounds to f16 or bf16, so that they take half the memory and
    /// their products run on tensor cores. Without it, gradients are in f32 from operation to operation.
    pub narrow_gradients: bool,
    /// The search for faster code with the same bits.
    #[serde(flatten)]
    pub tuning: TuneSettings,
    /// How many streams a device suggests: `only_devices_parallel`, `for_parallel_copying` or
    /// `most_parallel_streams`.
    pub streams: SuggestedStreams,
    /// The most bytes of one pool of device memory, and so of one node. A GPU behind `wgpu` may have a lower
    /// limit.
    pub pool_bytes: usize,
    /// Whether a run fails that reads a node which nothing has written, such as the result of a routine that
    /// has not run. Otherwise the node counts as zeros, with a warning for `tracing`.
    pub reject_unwritten_reads: bool,
    /// The choice of a GPU, and its arithmetic.
    #[serde(flatten)]
    pub gpu: GpuSettings,
    /// Reports on standard error, dumps, logs and timelines.
    #[serde(flatten)]
    pub debugging: DebugSettings,
    /// The most bytes that the cache of compiled routines takes: machine code in whole pages, call
    /// descriptions, and the texts that are the keys of the cache; 0 for no cache. It finds routines by
    /// content and keeps the most recently used ones. Evicted code is freed with the last routine that was
    /// linked from it, and compiled again on the next request. A second cache, of at most 64 compiled texts,
    /// has the same limit.
    pub code_cache_bytes: usize,
    /// The folder where compiled routines are kept from process to process; empty for none. A routine
    /// that is found there is not compiled again. The folder must belong to the user of the process, and
    /// others must not be able to write to it; otherwise it is not used. A folder that does not exist is
    /// made.
    pub code_folder: String,
    /// The most bytes of the files in `code_folder`, of which the least recently used are removed.
    pub code_folder_bytes: usize,
}

/// The search for faster code with the same bits; see [`crate::tune`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TuneSettings {
    /// The file with the choices between forms of native code that were measured as the fastest; empty for
    /// none.
    #[serde(rename = "tune")]
    pub file: String,
    /// Whether kernels that the file lacks are measured when they are compiled, and added to it.
    #[serde(rename = "tune_search")]
    pub search: bool,
}

/// The choice of a GPU, and its arithmetic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GpuSettings {
    /// The adapter of the backend `wgpu`: its position, part of its name or part of its driver's name; empty
    /// for the most capable one.
    pub wgpu_adapter: String,
    /// The (first) device of the backend `cuda`: its position or part of its name; empty for the device at
    /// position 0.
    pub cuda_device: String,
    /// The folder where the backend `cuda` keeps machine code from process to process, if there is an
    /// assembler; empty for none.
    pub cuda_code_folder: String,
    /// Which tensor cores the backend `cuda` uses for products of 16-bit floats in routines of class `fast`.
    /// Tensor cores add in an order of their own.
    pub tensor_cores: TensorCoreSetting,
    /// Whether tensor cores multiply `f32` as well, truncated to `tf32`, which has 10 bits of mantissa.
    pub tf32: bool,
    /// Whether the backend `cuda` approximates `exp`, `log`, `sin`, `cos`, `tanh` and related functions of
    /// `f32` by the GPU's instructions in routines of class `fast`; `codegen_ptx::PtxOptions` has their
    /// accuracy.
    pub approximate_functions: bool,
}

/// Reports on standard error, dumps, logs and timelines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DebugSettings {
    /// How much to print on standard error, 0 to 7; see `docs/debugging.md`.
    #[serde(rename = "debug")]
    #[serde(deserialize_with = "byte")]
    pub level: u8,
    /// Which intermediate forms to print on standard error: `PASS`, `PASS@ROUTINE` or `*@ROUTINE`; empty for
    /// none.
    pub dump: String,
    /// The folder for dumps as files `ROUTINE/NN-PASS.lir`, instead of standard error; empty for none.
    /// Without `dump`, every form is written.
    pub dump_folder: String,
    /// The folder for capsules: files with which a run is repeated elsewhere, written if a result is not
    /// finite or has other bits than it should; empty for none. Runs are then waited for. See
    /// [`crate::capsule`].
    pub capsules: String,
    /// The file for a timeline of the process; empty for none. A process that already has a `tracing`
    /// subscriber writes no timeline. See [`crate::trace`].
    pub trace: String,
    /// Whether routines time their kernel calls. A profile that the program does not take with
    /// [`Routine::profile`](crate::Routine::profile) is printed when the routine is dropped. See
    /// [`crate::profile`].
    pub profile: bool,
    /// The folder for such profiles, as files `ROUTINE.json` and `ROUTINE.html` instead of a table on
    /// standard error; empty for none.
    pub profile_folder: String,
    /// The folder for logs: routines log the values they compute, each to a file of its own; empty for none.
    /// They run unscheduled then; see `docs/debugging.md`.
    pub logs: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            backend: "multicore".into(),
            threads: 0,
            num_devices: 1,
            numerics: NumericClass::Fast,
            vector: VectorSetting::Auto,
            half_constant_cutoff: 16384.0,
            fallback: FallbackSetting::Auto,
            scan_gradient_bytes: 0,
            narrow_gradients: false,
            tuning: TuneSettings::default(),
            streams: SuggestedStreams::MostParallelStreams,
            pool_bytes: DEFAULT_POOL_CAP,
            reject_unwritten_reads: false,
            gpu: GpuSettings::default(),
            debugging: DebugSettings::default(),
            code_cache_bytes: 256 << 20,
            code_folder: String::new(),
            code_folder_bytes: 256 << 20,
        }
    }
}

impl Default for TuneSettings {
    fn default() -> Self {
        TuneSettings { file: String::new(), search: true }
    }
}

impl Settings {
    /// Whether a command-line argument is a setting, for programs that parse the others strictly.
    pub fn is_argument(arg: &str) -> bool {
        arg.starts_with("--arrayjit-")
    }

    /// The keys of all settings, in alphabetical order.
    pub fn keys() -> Vec<String> {
        let defaults = serde_json::to_value(Settings::default()).unwrap_or_default();
        defaults.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    }
}

/// Reads a number below 256; the deserializer of `config` would take it modulo 256.
fn byte<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let number = u64::deserialize(from)?;
    u8::try_from(number).map_err(|_| D::Error::custom(format!("{number} is not below 256")))
}
