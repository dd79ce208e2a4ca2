//! Keys of settings that are gone, each with what replaces it.

/// What replaces settings of numerics.
const NUMERICS: &str = "`numerics` is `strict`, `fast` or `real`, and decides this too";
/// What replaces knobs of the optimizer.
const OPTIMIZER: &str =
    "programs that choose how the optimizer works call `Backend::with_optimizer`, with `OptimizeSettings`";
/// What replaces settings of the backend's host arrays.
const HOST: &str = "contexts with `HostOptions` of their own are made by `Context::with_host`";
/// What replaces settings of logs.
const LOGS: &str = "`logs` is the folder for logs, which is cleaned";

/// What replaces settings of the folder of schedules.
const CODE: &str = "`code_folder` keeps compiled code, and `code_folder_bytes` bounds it";

/// The keys, with what replaces them.
const REMOVED: [(&str, &str); 20] = [
    ("automatic_host_transfers", HOST),
    ("code_cache_entries", "`code_cache_bytes` bounds the cache"),
    ("enable_device_only", OPTIMIZER),
    ("fast_math", NUMERICS),
    ("fma", NUMERICS),
    ("inline_complex_computations", OPTIMIZER),
    ("inline_scalar_constexprs", OPTIMIZER),
    ("inline_simple_computations", OPTIMIZER),
    ("integer_pow", OPTIMIZER),
    ("log_buffer_bytes", "`PtxOptions::log_bytes` is the size for programs that make the code generator"),
    ("log_clean", LOGS),
    ("log_folder", LOGS),
    ("log_rounded", "`Compiled::link_logging` takes the style of a log"),
    ("log_values", LOGS),
    ("schedule_folder", CODE),
    ("schedule_folder_bytes", CODE),
    ("stack_threshold_in_bytes", OPTIMIZER),
    ("use_host_memory", HOST),
    ("virtualize_max_tracing_dim", "reads are counted exactly"),
    ("virtualize_max_visits", OPTIMIZER),
];

/// What replaces the setting with this key, if there was one.
pub(super) fn replacement(key: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(removed, _)| *removed == key).map(|(_, replacement)| *replacement)
}
