//! The backends that can be opened by name: those of this crate, and those that other crates register.
//!
//! A crate registers a backend for every program that links it, with [`register_backend!`], or a program
//! registers one while it runs, with [`Backend::register`]. Nothing of a registered backend is run before it
//! is opened.
//!
//! [`register_backend!`]: crate::register_backend

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use assignments::spelling::similar;

use super::{
    auto,
    available::DeviceListing,
    built_in::{BUILT_IN, BuiltIn},
    name::{NameFault, name_fault, reserved_names},
};
use crate::{
    backend::Backend,
    error::{NAME_FORM, OpenError},
    parts::{BackendParts, OpenResult},
    settings::Settings,
};

/// A backend that can be opened by name.
#[derive(Clone)]
pub(super) struct BackendEntry {
    pub(super) name: Cow<'static, str>,
    pub(super) about: Cow<'static, str>,
    pub(super) open: Arc<OpenFn<BackendParts>>,
    pub(super) list: Arc<OpenFn<Vec<DeviceListing>>>,
}

type OpenFn<T> = dyn Fn(&Settings) -> Result<T, OpenError> + Send + Sync;

/// The backends that this process has registered, by name.
static REGISTERED: RwLock<BTreeMap<String, BackendEntry>> = RwLock::new(BTreeMap::new());

inventory::collect!(LinkedBackend);

/// A backend that a crate registers with [`register_backend!`](crate::register_backend).
pub struct LinkedBackend {
    name: &'static str,
    about: &'static str,
    open: fn(&Settings) -> OpenResult,
}

impl LinkedBackend {
    /// The backend `name`.
    ///
    /// # Panics
    ///
    /// If the name is not well-formed or reserved, as for [`Backend::register`]. In the macro this is a
    /// compile error.
    pub const fn new(name: &'static str, about: &'static str, open: fn(&Settings) -> OpenResult) -> Self {
        match name_fault(name) {
            None => {}
            // A constant function prints constants alone, so the compiler shows the name and this the reason.
            Some(NameFault::Malformed) => panic!("{}", NAME_FORM),
            Some(NameFault::Reserved) => panic!("the name is one of arrayjit's own"),
        }
        LinkedBackend { name, about, open }
    }
}

/// Registers a backend in every program that the calling crate is linked into. In such a program,
/// [`Backend::open`] and the setting `backend` know its name, and errors list it. Takes the name, a few words
/// about the backend, and a function `fn(&Settings) -> OpenResult` that opens it. The call must stand outside
/// of functions.
///
/// ```
/// use std::sync::Arc;
/// use arrayjit::{Backend, BackendParts, Device, OpenResult, Settings};
/// use codegen_core::Interpreted;
/// use device_runtime::NullDevice;
///
/// arrayjit::register_backend!("abacus", "computes nothing, in wood", open);
///
/// fn open(_: &Settings) -> OpenResult {
///     let device = Device::new(Arc::new(NullDevice::new()), 0);
///     Ok(BackendParts::new(Arc::new(Interpreted::new()), device))
/// }
///
/// fn main() {
///     assert_eq!(Backend::open("abacus").unwrap().name(), "abacus");
/// }
/// ```
///
/// **The crate must be linked.** Rust links a dependency only if the program mentions it: `use abacus as _;`
/// in any file of the program is enough. On WebAssembly, a host that calls several exports of a module has to
/// call `__wasm_call_ctors` first.
///
/// A name that is reserved or malformed is a compile error:
///
/// ```compile_fail,E0080
/// # fn open(settings: &arrayjit::Settings) -> arrayjit::OpenResult { open(settings) }
/// arrayjit::register_backend!("cuda", "not NVIDIA's", open);
/// # fn main() {}
/// ```
///
/// ```compile_fail,E0080
/// # fn open(settings: &arrayjit::Settings) -> arrayjit::OpenResult { open(settings) }
/// arrayjit::register_backend!("My Backend", "with a space", open);
/// # fn main() {}
/// ```
///
/// If two crates of a program register the same name, opening it is [`OpenError::Ambiguous`].
#[macro_export]
macro_rules! register_backend {
    ($name:expr, $about:expr, $open:expr $(,)?) => {
        $crate::inventory::submit! { $crate::LinkedBackend::new($name, $about, $open) }
    };
}

impl Backend {
    /// Registers a backend for the rest of the process: from then on [`Backend::open`] and the setting
    /// `backend` know its name, and errors list it. [`register_backend!`](crate::register_backend) registers
    /// one at compile time.
    ///
    /// `open` is called each time that the backend is opened; the settings say how many threads and devices
    /// to use.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrayjit::{Backend, BackendParts, Device, Settings};
    /// # use codegen_core::Interpreted;
    /// use scheduler_multicore::{Cpu, CpuConfig};
    ///
    /// Backend::register("slide-rule", "the interpreter, on the caller's thread", |_| {
    ///     let device = Device::new(Arc::new(Cpu::inline(CpuConfig::default())), 0);
    ///     Ok(BackendParts::new(Arc::new(Interpreted::new()), device))
    /// })?;
    /// let mut settings = Settings::default();
    /// settings.backend = "slide-rule".into();
    /// assert_eq!(Backend::open_with(&settings.backend, &settings)?.name(), "slide-rule");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenError::MalformedName`], [`OpenError::ReservedName`] and [`OpenError::TakenName`]; then nothing
    /// has changed.
    pub fn register(
        name: &str,
        about: &str,
        open: impl Fn(&Settings) -> OpenResult + Send + Sync + 'static,
    ) -> Result<(), OpenError> {
        let own = || name.to_owned();
        match name_fault(name) {
            None => {}
            Some(NameFault::Malformed) => return Err(OpenError::MalformedName { name: own() }),
            Some(NameFault::Reserved) => {
                return Err(OpenError::ReservedName { name: own(), reserved: reserved_names() });
            }
        }
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        let linked = linked().find(|entry| entry.name == name);
        if let Some(taken) = linked.or_else(|| registered.get(name).cloned()) {
            return Err(OpenError::TakenName { name: own(), about: taken.about.into_owned() });
        }
        registered.insert(own(), BackendEntry::registered(own().into(), about.to_owned().into(), open));
        Ok(())
    }
}

impl BackendEntry {
    fn built_in(backend: &'static BuiltIn) -> BackendEntry {
        BackendEntry {
            name: backend.name.into(),
            about: backend.about.into(),
            open: Arc::new(backend.open),
            list: Arc::new(backend.list),
        }
    }

    /// The entry of a backend that another crate opens. Its devices are known once it is open.
    fn registered(
        name: Cow<'static, str>,
        about: Cow<'static, str>,
        open: impl Fn(&Settings) -> OpenResult + Send + Sync + 'static,
    ) -> BackendEntry {
        let failed = name.to_string();
        let open: Arc<OpenFn<BackendParts>> = Arc::new(move |settings| {
            open(settings).map_err(|source| OpenError::Registered { name: failed.clone(), source })
        });
        let opened = Arc::clone(&open);
        let list = move |settings: &Settings| {
            let parts = opened(settings)?;
            let devices = parts.devices.iter().enumerate();
            Ok(devices.map(|(ordinal, device)| DeviceListing::of(ordinal, device)).collect())
        };
        BackendEntry { name, about, open, list: Arc::new(list) }
    }
}

/// Every backend that can be opened by name: those of this crate, then the others by name.
pub(super) fn entries() -> Vec<BackendEntry> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let mut others: Vec<BackendEntry> = linked().chain(registered.values().cloned()).collect();
    others.sort_by(|a, b| (&a.name, &a.about).cmp(&(&b.name, &b.about)));
    BUILT_IN.iter().map(BackendEntry::built_in).chain(others).collect()
}

/// The entry of a name.
///
/// # Errors
///
/// [`OpenError::Unknown`] and [`OpenError::Ambiguous`].
pub(super) fn find(name: &str) -> Result<BackendEntry, OpenError> {
    let entries = entries();
    let mut named = entries.iter().filter(|entry| entry.name == name);
    let Some(entry) = named.next() else {
        let names = entries.iter().map(|entry| entry.name.to_string()).chain([auto::NAME.to_owned()]);
        let near = similar(name, names).into_iter().next();
        return Err(OpenError::Unknown { name: name.into(), near, known: listed(&entries) });
    };
    match named.next() {
        None => Ok(entry.clone()),
        Some(second) => Err(OpenError::Ambiguous {
            name: name.into(),
            first: entry.about.to_string(),
            second: second.about.to_string(),
        }),
    }
}

/// The backends that the crates of this program register.
fn linked() -> impl Iterator<Item = BackendEntry> {
    inventory::iter::<LinkedBackend>()
        .map(|&LinkedBackend { name, about, open }| BackendEntry::registered(name.into(), about.into(), open))
}

/// The names, each with its description.
fn listed(entries: &[BackendEntry]) -> String {
    let auto = [(auto::NAME, auto::ABOUT)];
    let entries = entries.iter().map(|entry| (&*entry.name, &*entry.about));
    let lines = entries.chain(auto).map(|(name, about)| format!("{name} ({about})"));
    lines.collect::<Vec<_>>().join(", ")
}
