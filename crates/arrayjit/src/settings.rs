//! Settings: arguments over environment over `arrayjit.toml` over defaults, with the origin of each value kept.
//!
//! * **Arguments**: `--arrayjit-KEY=VALUE` (dashes and underscores are the same); other arguments are left alone.
//! * **Environment**: `ARRAYJIT_KEY`.
//! * **File**: `arrayjit.toml` in the current folder or the nearest folder above it; a key given twice is an error.
//! * **Defaults**: [`Settings::default`], written out with comments in `crates/arrayjit/arrayjit.reference.toml`.
//!
//! A key nobody knows is reported ([`Loaded::unknown`]) and otherwise ignored, so that one file can serve several versions.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use config::{Config, ConfigError, File, FileFormat, Map, Source, Value};
use device_runtime::StreamStrategy;
use serde::{Deserialize, Serialize};

use crate::{
    debug::{pass_names, unknown_pass},
    error::OpenError,
};

/// The most devices of a backend.
const MAX_DEVICES: usize = 1024;

/// Everything that can be chosen without changing a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Settings {
    /// The backend of [`crate::Backend::from_settings`]: `multicore`, `inline`, `interpreter`, `wgpu` or `cuda`.
    pub backend: String,
    /// The adapter of the backend `wgpu`: its position, part of its name or its driver's, or nothing for the best there is.
    pub wgpu_adapter: String,
    /// The device of the backend `cuda`, or the first of them: its position.
    pub cuda_device: u32,
    /// The folder where the backend `cuda` keeps machine code from process to process, if there is an assembler; empty for none.
    pub cuda_code_folder: String,
    /// Which tensor cores the backend `cuda` uses for products of 16-bit floats in routines of class `fast`: they add in an order of their own.
    pub tensor_cores: TensorCores,
    /// Whether these take products of `f32` as well, cut off to `tf32`, which has 10 bits of mantissa.
    pub tf32: bool,
    /// Whether the backend `cuda` takes `exp`, `log`, `sin`, `cos`, `tanh` and their like of `f32` for the processor's approximations in routines of class
    /// `fast`; `codegen_ptx::PtxOptions` has their accuracy.
    pub approximate_functions: bool,
    /// Where kernels run that the backend's code generator refuses: `auto`, a backend of the CPU by name, or `none`.
    pub fallback: FallbackTo,
    /// Threads that compute: stream workers and their helpers together; 0 means one per core, and 1024 are the most.
    pub threads: usize,
    /// How many devices a backend of the CPU has, each with its own memory and threads; or how many the backend `cuda` takes.
    /// 1024 are the most.
    pub num_devices: usize,
    /// Whether runs upload the host arrays that lag, and reading a host array downloads what devices have computed.
    pub automatic_host_transfers: bool,
    /// Whether devices that can read host memory in place do so for constant nodes.
    pub use_host_memory: bool,
    /// How many streams a device suggests: `only_devices_parallel`, `for_parallel_copying` or `most_parallel_streams`.
    pub streams: Streams,
    /// The numeric class of routines: `fast` (fma, fixed reduction trees) or `strict` (as written).
    pub numerics: Class,
    /// Which `a * b + c` of floats are rounded once: `never`, `by_class` (those of class `fast`) or `always`.
    pub fma: Fma,
    /// The largest `n` for which float powers `x^n` and `x^-n` become products in class `fast`; 0 for none.
    pub integer_pow: u32,
    /// Simplify class `fast` by the equations of real numbers, whatever rounding, NaN and infinities make of that.
    pub fast_math: bool,
    /// The magnitude from which on a finite 16- or 8-bit float constant is refused (`bf16` aside); 0 for none.
    pub half_constant_cutoff: f64,
    /// The widest vectors of CPU code: `auto`, `none`, `128` (bits), `avx2` or `avx512`.
    pub vector: Vector,
    /// How much to tell on standard error, 0 to 7; see `docs/debugging.md`.
    pub debug: u8,
    /// Which intermediate forms to print on standard error: `PASS`, `PASS@ROUTINE` or `*@ROUTINE`; empty for none.
    pub dump: String,
    /// The folder for dumps as files `ROUTINE/NN-PASS.lir`, instead of standard error; empty for none. Without `dump`, every form
    /// is written.
    pub dump_folder: String,
    /// The file that a timeline of the process is written to, unless it has a `tracing` subscriber; empty for none. See
    /// [`crate::trace`].
    pub trace: String,
    /// Whether routines log what they compute, each to a file of its own, unscheduled; see `docs/debugging.md`.
    pub log_values: bool,
    /// The folder of these files.
    pub log_folder: String,
    /// Whether to remove the logs of earlier processes from the folder.
    pub log_clean: bool,
    /// Whether logs round floats to five digits, so that those of different targets can be compared.
    pub log_rounded: bool,
    /// The most bytes of device memory that one run of a routine logs to on the backend `cuda`; what has no room is counted.
    pub log_buffer_bytes: u32,
    /// An intermediate node read more often than this at one position is computed once and kept.
    pub virtualize_max_visits: u64,
    /// Count those reads by running at most one more than this number of iterations of each loop, as the seed of this project did;
    /// 0 for the exact count.
    pub virtualize_max_tracing_dim: u32,
    /// Inline nodes that are scalar constant expressions.
    pub inline_scalar_constexprs: bool,
    /// Inline nodes whose elements cost about one memory read, however often they are read.
    pub inline_simple_computations: bool,
    /// Inline nodes computed by a reduction too, where `virtualize_max_visits` allows.
    pub inline_complex_computations: bool,
    /// Whether undecided intermediates may live on the device alone.
    pub enable_device_only: bool,
    /// Undecided intermediates above this size stay on the device after a run; below, or with 0, they live during the run alone, and
    /// have no memory where loops run in step.
    pub stack_threshold_in_bytes: usize,
    /// How many compiled routines a backend keeps, found again by content: the most recently used. 0 for none. What is not kept is
    /// freed with the last routine that was linked from it, and is compiled again when it is asked for again.
    pub code_cache_entries: usize,
    /// The most bytes that these take: machine code in whole pages, how kernels are called, and the text by which they are found. 0 for
    /// no cache.
    pub code_cache_bytes: usize,
}

/// The numeric class by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// [`lowered_ir::ir::Numerics::Fast`].
    #[default]
    Fast,
    /// [`lowered_ir::ir::Numerics::Strict`].
    Strict,
}

/// When products are fused with the sums they are part of, by name: [`scheduling::FmaPolicy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fma {
    /// Never.
    Never,
    /// In class `fast`.
    #[default]
    ByClass,
    /// Always.
    Always,
}

/// Where kernels run that a code generator refuses. A backend does not fall back to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackTo {
    /// From GPUs to the backend `multicore`, or to `interpreter` in builds without native code; from CPUs nowhere.
    #[default]
    Auto,
    /// The backend `multicore`.
    Multicore,
    /// The backend `inline`.
    Inline,
    /// The backend `interpreter`.
    Interpreter,
    /// Nowhere: what is refused is not compiled.
    None,
}

impl FallbackTo {
    /// The name of the backend that refused kernels of the backend `from` go to, if they go anywhere.
    pub(crate) fn backend(self, from: &str, from_gpu: bool) -> Option<&'static str> {
        let to = match self {
            FallbackTo::Auto if from_gpu && cfg!(feature = "cranelift") => "multicore",
            FallbackTo::Auto if from_gpu => "interpreter",
            FallbackTo::Multicore => "multicore",
            FallbackTo::Inline => "inline",
            FallbackTo::Interpreter => "interpreter",
            FallbackTo::Auto | FallbackTo::None => return None,
        };
        (to != from).then_some(to)
    }
}

/// Which instructions of tensor cores are used, of those that a device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorCores {
    /// None.
    Off,
    /// Those of single warps (`mma`), from compute capability 8.0 on.
    Warps,
    /// The fastest: those of four warps together (`wgmma`) on Hopper.
    #[default]
    Auto,
}

/// How many streams a device suggests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Streams {
    /// One.
    OnlyDevicesParallel,
    /// Enough that copies overlap with computation.
    ForParallelCopying,
    /// As many as can compute at once.
    #[default]
    MostParallelStreams,
}

/// The widest vectors of CPU code. Results have the same bits with all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Vector {
    /// The widest that the machine has, of those with 256 bits at most.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Scalar code.
    #[serde(rename = "none")]
    None,
    /// 128-bit vectors.
    #[serde(rename = "128")]
    Bits128,
    /// 256-bit vectors. An error on machines without AVX2.
    #[serde(rename = "avx2")]
    Avx2,
    /// 512-bit vectors. An error on machines without AVX-512.
    #[serde(rename = "avx512")]
    Avx512,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            backend: "multicore".into(),
            wgpu_adapter: String::new(),
            cuda_device: 0,
            cuda_code_folder: String::new(),
            tensor_cores: TensorCores::Auto,
            tf32: false,
            approximate_functions: false,
            fallback: FallbackTo::Auto,
            threads: 0,
            num_devices: 1,
            automatic_host_transfers: true,
            use_host_memory: false,
            streams: Streams::MostParallelStreams,
            numerics: Class::Fast,
            fma: Fma::ByClass,
            integer_pow: 4,
            fast_math: false,
            half_constant_cutoff: 16384.0,
            vector: Vector::Auto,
            debug: 0,
            dump: String::new(),
            dump_folder: String::new(),
            trace: String::new(),
            log_values: false,
            log_folder: "arrayjit_logs".into(),
            log_clean: true,
            log_rounded: false,
            log_buffer_bytes: 16 << 20,
            virtualize_max_visits: 1,
            virtualize_max_tracing_dim: 0,
            inline_scalar_constexprs: true,
            inline_simple_computations: true,
            inline_complex_computations: false,
            enable_device_only: true,
            stack_threshold_in_bytes: 0,
            code_cache_entries: 4096,
            code_cache_bytes: 256 << 20,
        }
    }
}

/// Settings with what loading them found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The values.
    pub settings: Settings,
    /// `KEY (from ORIGIN)` for each key that no setting has, and the same of a pass in `dump` that does not exist.
    pub unknown: Vec<String>,
    /// `(key, origin)` of each value that is not a default.
    pub origins: Vec<(String, String)>,
}

/// Why settings could not be loaded.
#[derive(thiserror::Error)]
#[error("settings: {0}")]
pub struct SettingsError(#[from] ConfigError);

impl Settings {
    /// Loads from the process's arguments and environment and the nearest `arrayjit.toml`.
    ///
    /// # Errors
    ///
    /// A file that does not parse, a value of the wrong type, or a setting that is not UTF-8; the message names key, origin and
    /// what was expected. Arguments and variables that are no settings may be anything.
    pub fn load() -> Result<Loaded, SettingsError> {
        let here = std::env::current_dir().unwrap_or_default();
        let args = own_arguments(std::env::args_os().skip(1))?;
        let env = own_variables(std::env::vars_os())?;
        Settings::load_from(args, env, &here)
    }

    /// Loads from the given arguments, environment and folder.
    ///
    /// # Errors
    ///
    /// As [`Settings::load`].
    pub fn load_from(
        args: impl IntoIterator<Item = String>,
        env: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Loaded, SettingsError> {
        let file = nearest_file(folder);
        let mut layers: Vec<Map<String, Value>> = Vec::new();
        if let Some(path) = file {
            layers.push(File::from(path).format(FileFormat::Toml).collect()?);
        }
        layers.push(env.into_iter().filter_map(from_environment).collect());
        layers.push(args.into_iter().filter_map(|arg| from_argument(&arg)).collect());
        merge(layers)
    }

    /// Whether a command-line argument is a setting, for programs that parse the others strictly.
    pub fn is_argument(arg: &str) -> bool {
        arg.starts_with("--arrayjit-")
    }

    /// Refuses numbers of threads and devices that would exhaust the machine before anything is computed.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let most = [
            ("threads", self.threads, scheduler_multicore::MAX_THREADS),
            ("num_devices", self.num_devices, MAX_DEVICES),
        ];
        match most.into_iter().find(|(_, found, most)| found > most) {
            Some((key, found, most)) => Err(OpenError::OutOfRange { key, found, most }),
            None => Ok(()),
        }
    }

    /// The CPU device these settings describe.
    pub(crate) fn cpu(&self) -> scheduler_multicore::Config {
        let default = scheduler_multicore::Config::default();
        let threads = if self.threads == 0 { default.threads } else { self.threads };
        scheduler_multicore::Config { threads, ..default }
    }

    /// How many streams devices should suggest.
    pub(crate) fn stream_strategy(&self) -> StreamStrategy {
        match self.streams {
            Streams::OnlyDevicesParallel => StreamStrategy::OnlyDevicesParallel,
            Streams::ForParallelCopying => StreamStrategy::ForParallelCopying,
            Streams::MostParallelStreams => StreamStrategy::MostParallelStreams,
        }
    }

    /// The widest vectors of native code.
    #[cfg(feature = "cranelift")]
    pub(crate) fn vector_width(&self) -> codegen_cranelift::VectorWidth {
        use codegen_cranelift::VectorWidth;
        match self.vector {
            Vector::Auto => VectorWidth::default(),
            Vector::None => VectorWidth::None,
            Vector::Bits128 => VectorWidth::Bits128,
            Vector::Avx2 => VectorWidth::Avx2,
            Vector::Avx512 => VectorWidth::Avx512,
        }
    }

    /// The keys of all settings, in declaration order.
    pub fn keys() -> Vec<String> {
        let defaults = serde_json::to_value(Settings::default()).unwrap_or_default();
        defaults.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    }
}

/// Lays later layers over earlier ones, setting aside the keys nobody knows.
fn merge(layers: Vec<Map<String, Value>>) -> Result<Loaded, SettingsError> {
    let known = Settings::keys();
    let mut builder = Config::builder();
    let (mut unknown, mut origins) = (Vec::new(), std::collections::BTreeMap::new());
    for (key, value) in layers.into_iter().flatten() {
        let origin = value.origin().unwrap_or("nowhere").to_string();
        if known.contains(&key) {
            origins.insert(key.clone(), origin);
            builder = builder.set_override(key, value)?;
        } else {
            unknown.push(format!("{key} (from {origin})"));
        }
    }
    let settings: Settings = builder.build()?.try_deserialize()?;
    if let Some(pass) = unknown_pass(&settings.dump) {
        let origin = origins.get("dump").map_or("nowhere", String::as_str);
        let known: Vec<_> = pass_names().collect();
        unknown.push(format!("pass `{pass}` in dump (from {origin}); there are {}", known.join(", ")));
    }
    unknown.sort();
    Ok(Loaded { settings, unknown, origins: origins.into_iter().collect() })
}

fn nearest_file(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().map(|dir| dir.join("arrayjit.toml")).find(|path| path.is_file())
}

/// The arguments that are settings.
fn own_arguments(args: impl IntoIterator<Item = OsString>) -> Result<Vec<String>, SettingsError> {
    let own = args.into_iter().filter(|arg| Settings::is_argument(&arg.to_string_lossy()));
    own.map(|arg| utf8(arg, |text| format!("argument {text}"))).collect()
}

/// The environment variables that are settings.
fn own_variables(
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, SettingsError> {
    let own = env.into_iter().filter(|(name, _)| name.to_string_lossy().starts_with("ARRAYJIT_"));
    own.map(|(name, value)| {
        let name = utf8(name, |text| format!("environment variable {text}"))?;
        let value = utf8(value, |text| format!("environment variable {name}={text}"))?;
        Ok((name, value))
    })
    .collect()
}

fn utf8(text: OsString, origin: impl FnOnce(&str) -> String) -> Result<String, SettingsError> {
    text.into_string().map_err(|text| {
        let shown = origin(&text.to_string_lossy());
        ConfigError::Message(format!("{shown} is not UTF-8, as settings are")).into()
    })
}

fn from_environment((name, value): (String, String)) -> Option<(String, Value)> {
    // The perf map belongs to the codegen that writes it and is read there.
    let key = name.strip_prefix("ARRAYJIT_").filter(|key| *key != "PERF_MAP")?.to_lowercase();
    Some((key, Value::new(Some(&format!("environment variable {name}")), value)))
}

fn from_argument(arg: &str) -> Option<(String, Value)> {
    let (name, value) = arg.strip_prefix("--arrayjit-")?.split_once('=')?;
    let key = name.replace('-', "_").to_lowercase();
    Some((key, Value::new(Some(&format!("argument --arrayjit-{name}")), value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|s| (*s).to_string()).collect()
    }

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect()
    }

    fn folder_with(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("arrayjit.toml"), text).unwrap();
        dir
    }

    #[test]
    fn each_source_overrides_the_one_below() {
        let dir = folder_with("threads = 3\nbackend = \"inline\"\nvector = \"none\"\n");
        let below = dir.path().join("deeper");
        std::fs::create_dir(&below).unwrap();
        let loaded = Settings::load_from(
            strings(&["--arrayjit-threads=5", "--unrelated=1"]),
            env(&[("ARRAYJIT_THREADS", "4"), ("ARRAYJIT_BACKEND", "interpreter"), ("HOME", "x")]),
            &below,
        )
        .unwrap();
        assert_eq!(loaded.settings.threads, 5, "arguments win");
        assert_eq!(loaded.settings.backend, "interpreter", "then the environment");
        assert_eq!(loaded.settings.vector, Vector::None, "then the file");
        assert_eq!(loaded.settings.debug, 0, "then the defaults");
        assert!(loaded.unknown.is_empty());
        let (key, origin) = &loaded.origins[2];
        assert_eq!(key, "vector");
        assert!(origin.ends_with("arrayjit.toml"), "{origin}");
    }

    #[test]
    fn unknown_keys_are_reported_with_their_origin() {
        let dir = folder_with("thread = 3\n");
        let loaded =
            Settings::load_from(strings(&["--arrayjit-bakend=x"]), env(&[("ARRAYJIT_FOO", "1")]), dir.path())
                .unwrap();
        assert_eq!(loaded.settings, Settings::default());
        assert_eq!(loaded.unknown.len(), 3);
        assert!(loaded.unknown.contains(&"bakend (from argument --arrayjit-bakend)".to_string()));
        assert!(loaded.unknown.contains(&"foo (from environment variable ARRAYJIT_FOO)".to_string()));
    }

    /// What is no setting may be anything; what is one has to be text.
    #[cfg(unix)]
    #[test]
    fn only_settings_have_to_be_text() {
        use std::os::unix::ffi::OsStringExt;
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let args = own_arguments([os(b"\xff"), os(b"--other=\xff"), os(b"--arrayjit-threads=3")]).unwrap();
        assert_eq!(args, ["--arrayjit-threads=3"]);
        let variables =
            [(os(b"LANG\xff"), os(b"x")), (os(b"HOME"), os(b"\xff")), (os(b"ARRAYJIT_DEBUG"), os(b"1"))];
        assert_eq!(own_variables(variables).unwrap(), env(&[("ARRAYJIT_DEBUG", "1")]));
        let says = |error: SettingsError, what: &str| {
            let (text, what) = (error.to_string(), format!("{what} is not UTF-8, as settings are"));
            assert!(text.contains(&what), "{text}");
        };
        let refused = own_arguments([os(b"--arrayjit-trace=a\xff")]).unwrap_err();
        says(refused, "argument --arrayjit-trace=a\u{fffd}");
        let refused = own_variables([(os(b"ARRAYJIT_TRACE"), os(b"a\xff"))]).unwrap_err();
        says(refused, "environment variable ARRAYJIT_TRACE=a\u{fffd}");
        let refused = own_variables([(os(b"ARRAYJIT_\xff"), os(b"1"))]).unwrap_err();
        says(refused, "environment variable ARRAYJIT_\u{fffd}");
    }

    #[test]
    fn passes_in_dump_that_do_not_exist_are_reported() {
        let folder = folder_with("");
        let unknown = |dump: &str| {
            Settings::load_from([], env(&[("ARRAYJIT_DUMP", dump)]), folder.path()).unwrap().unknown
        };
        for dump in [
            "",
            "*",
            "*@step",
            "virtualize@step",
            "lower",
            "optimize",
            "schedule@step",
            "legalise@*",
            "divide",
        ] {
            assert_eq!(unknown(dump), [""; 0], "{dump}");
        }
        let [report] = &unknown("vritualize@step")[..] else { panic!("one report") };
        let start = "pass `vritualize` in dump (from environment variable ARRAYJIT_DUMP); there are lower, ";
        assert!(report.starts_with(start) && report.contains("virtualize"), "{report}");
        assert_eq!(unknown("step").len(), 1, "a routine without a pass");
    }

    #[test]
    fn a_key_given_twice_or_of_the_wrong_type_is_an_error() {
        let twice = folder_with("threads = 3\nthreads = 4\n");
        assert!(Settings::load_from([], [], twice.path()).is_err());
        let here = folder_with("");
        let error = Settings::load_from(strings(&["--arrayjit-threads=many"]), [], here.path()).unwrap_err();
        assert!(error.to_string().contains("threads"), "{error}");
        let error =
            Settings::load_from(strings(&["--arrayjit-numerics=sloppy"]), [], here.path()).unwrap_err();
        assert!(error.to_string().contains("sloppy"), "{error}");
    }

    #[test]
    fn the_reference_file_lists_every_key_with_its_default() {
        let reference = include_str!("../arrayjit.reference.toml");
        let dir = folder_with(reference);
        let loaded = Settings::load_from([], [], dir.path()).unwrap();
        assert_eq!(loaded.settings, Settings::default());
        assert!(loaded.unknown.is_empty(), "{:?}", loaded.unknown);
        let mut listed: Vec<String> = loaded.origins.into_iter().map(|(key, _)| key).collect();
        let mut keys = Settings::keys();
        listed.sort();
        keys.sort();
        assert_eq!(listed, keys);
    }
}
