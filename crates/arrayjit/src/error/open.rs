//! Why a backend was not opened or registered.

use lowered_ir::stack::NoStack;

use crate::{settings::SettingsError, tune::TuneError};

/// The form of a name that can stand in settings and on command lines.
pub(crate) const NAME_FORM: &str = "1 to 64 lower-case ASCII letters, digits, `-` or `_`, the first a letter";

/// Why a backend could not be opened or registered.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OpenError {
    /// No backend has that name.
    #[error(
        "there is no backend `{name}`{}; there are: {known}. A program knows a backend of another crate once it links the crate (`use CRATE as _;`) or calls `Backend::register`",
        suggestion(near.as_deref())
    )]
    Unknown { name: String, near: Option<String>, known: String },
    /// Two crates of the program register a backend of that name.
    #[error(
        "two crates of this program register a backend `{name}`: `{first}` and `{second}`; link one of them"
    )]
    Ambiguous { name: String, first: String, second: String },
    /// A backend to be registered has a name that cannot stand in settings and on command lines.
    #[error("`{name}` cannot be the name of a backend: expected {NAME_FORM}")]
    MalformedName { name: String },
    /// A backend to be registered has the name of a backend of this crate, or one that means something in the
    /// settings.
    #[error("a backend cannot be registered as `{name}`: the name is one of arrayjit's own ({reserved})")]
    ReservedName { name: String, reserved: String },
    /// A backend of the name to be registered exists.
    #[error("a backend is already registered as `{name}` ({about}): choose another name")]
    TakenName { name: String, about: String },
    /// A registered backend does not open.
    #[error("the registered backend `{name}` does not open: {source}")]
    Registered { name: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// None of the backends that `auto` may choose opens.
    #[error("no backend that `auto` may choose opens: {}", reasons(tried))]
    NoneOpens { tried: Vec<(&'static str, OpenError)> },
    /// The adapter emulates a GPU on the CPU, which is slower than native code.
    #[error(
        "adapter {adapter} emulates a GPU on the CPU, and `auto` chooses GPUs only; the name `wgpu` opens it"
    )]
    SoftwareAdapter { adapter: String },
    /// The backend exists, but not in this build.
    #[error("this build has no {what}: it was built without the feature `{feature}` of `arrayjit`")]
    NotBuilt { what: &'static str, feature: &'static str },
    /// There is no memory for the stack on which backends are opened.
    #[error(transparent)]
    Stack(#[from] NoStack),
    /// The settings do not load.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A setting is a number that no backend can use.
    #[error("setting `{key}` is {found}, expected at most {most}")]
    OutOfRange { key: &'static str, found: usize, most: usize },
    /// The file of the setting `tune` cannot be read.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The code generator does not know this processor.
    #[error(transparent)]
    Codegen(#[from] codegen_core::CodegenError),
    /// The code generator claims capabilities that contradict one another.
    #[error(transparent)]
    Caps(#[from] codegen_core::CapsError),
    /// The device did not start.
    #[error(transparent)]
    Device(#[from] device_runtime::RunError),
    /// NVIDIA's driver or one of its devices is missing or too old.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] device_cuda::CudaOpenError),
    /// No GPU adapter fits; the message lists all adapters.
    #[cfg(feature = "wgpu")]
    #[error(transparent)]
    Adapter(#[from] device_wgpu::WgpuOpenError),
}

fn suggestion(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// The reasons why backends do not open, each after the name.
fn reasons(tried: &[(&'static str, OpenError)]) -> String {
    tried.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; ")
}
