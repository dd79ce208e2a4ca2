//! A backend: a code generator, the devices that run its code, and all that is known of the routines compiled
//! so far.

mod fallback; // the fallback backend

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use codegen_core::Codegen;
use device_runtime::{Context, Device, Stream};
use lowered_ir::pipeline::{Changes, OptimizeCtx, OptimizeSettings};
use tnode::{Pending, TensorNode};

use self::fallback::FallbackState;
use crate::{
    cache::CodeCacheUse,
    code_folder::{CodeFolder, CodeFolderUse},
    generate::Generator,
    observer::CompileObserver,
    settings::Settings,
    target::Target,
    text_cache::TextCache,
};

/// A code generator and its devices: compiles assignments and runs them on streams. Cheap to clone; usable
/// from any thread.
#[derive(Clone)]
pub struct Backend {
    state: Arc<BackendState>,
}

struct BackendState {
    generator: Generator,
    settings: Settings,
    /// How routines are optimized.
    optimizer: OptimizeSettings,
    texts: TextCache,
    /// The computations of virtual nodes, from all routines compiled so far.
    virtual_nodes: Mutex<Arc<OptimizeCtx>>,
    /// The fallback backend, which runs the kernels that the code generator rejects.
    fallback: FallbackState,
}

impl Backend {
    /// A backend that has compiled nothing.
    pub(crate) fn of(generator: Generator, settings: Settings, optimizer: OptimizeSettings) -> Backend {
        let texts = TextCache::new(settings.code_cache_bytes);
        let (virtual_nodes, fallback) = Default::default();
        let state = BackendState { generator, settings, optimizer, texts, virtual_nodes, fallback };
        Backend { state: Arc::new(state) }
    }

    /// The name that the backend was opened with or given.
    pub fn name(&self) -> &str {
        &self.target().name
    }

    /// The code generator of this backend's devices.
    pub fn codegen(&self) -> &dyn Codegen {
        &*self.target().codegen
    }

    /// The device with ordinal 0.
    pub fn device(&self) -> &Device {
        self.target().device()
    }

    /// The devices by ordinal, at least one; for CPU backends, as many as the setting `num_devices` says. Any
    /// of them runs the backend's code.
    pub fn devices(&self) -> &[Device] {
        &self.target().devices
    }

    /// The settings that the backend was opened with.
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// A context without nodes, on a new stream of the first device.
    ///
    /// # Errors
    ///
    /// The device's error, if it cannot have another stream.
    pub fn context(&self) -> Result<Context, device_runtime::RunError> {
        self.context_on(self.device())
    }

    /// [`Backend::context`] on a new stream of one of the backend's devices.
    ///
    /// ```
    /// use arrayjit::{Backend, Settings};
    ///
    /// let mut settings = Settings::default();
    /// settings.num_devices = 2;
    /// let backend = Backend::open_with("inline", &settings)?;
    /// let context = backend.context_on(&backend.devices()[1])?;
    /// assert_eq!(context.stream().device().name(), backend.devices()[1].name());
    /// # Ok::<(), arrayjit::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The device's error, if it cannot have another stream.
    pub fn context_on(&self, device: &Device) -> Result<Context, device_runtime::RunError> {
        self.target().context_on(device)
    }

    /// A new stream of the first device.
    ///
    /// # Errors
    ///
    /// The device's error, if it cannot have another stream.
    pub fn new_stream(&self) -> Result<Stream, device_runtime::RunError> {
        self.device().new_stream()
    }

    /// How routines are optimized.
    pub(crate) fn optimizer(&self) -> &OptimizeSettings {
        &self.state.optimizer
    }

    /// Schedules routines and generates their code.
    pub(crate) fn generator(&self) -> &Generator {
        &self.state.generator
    }

    pub(crate) fn target(&self) -> &Target {
        &self.state.generator.target
    }

    pub(crate) fn observer(&self) -> &dyn CompileObserver {
        &*self.state.generator.observer
    }

    /// The computations of virtual nodes, from all routines compiled so far.
    pub(crate) fn virtual_nodes(&self) -> Arc<OptimizeCtx> {
        Arc::clone(&self.state.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Commits compilations: memory modes, views, and the changes of each routine over its nodes to the
    /// computations of virtual nodes. All or nothing.
    pub(crate) fn commit<'a>(
        &self,
        decisions: Pending,
        changes: impl IntoIterator<Item = (&'a Changes, &'a [TensorNode])>,
    ) -> Result<(), tnode::TensorNodeError> {
        // The lock is held during the commit: a thread that sees the new modes must find the computations
        // too.
        let mut known = self.state.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.commit()?;
        let known = Arc::make_mut(&mut known);
        changes.into_iter().for_each(|(changes, nodes)| known.commit(changes, nodes));
        Ok(())
    }

    pub(crate) fn fallback_state(&self) -> &FallbackState {
        &self.state.fallback
    }

    pub(crate) fn texts(&self) -> &TextCache {
        &self.state.texts
    }

    /// The use of the code cache. If `evicted` grows while the same programs are compiled again and again,
    /// the cache is too small for them.
    ///
    /// ```
    /// # use arrayjit::{Backend, TensorNode};
    /// let backend = Backend::open("interpreter")?;
    /// let x = TensorNode::builder("x").dims([2]).build()?;
    /// for _ in 0..2 {
    ///     backend.compile("x[i] *= 2", [&x])?;
    /// }
    /// let cache = backend.code_cache();
    /// assert_eq!((cache.routines, cache.evicted), (1, 0));
    /// assert!(cache.bytes <= backend.settings().code_cache_bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn code_cache(&self) -> CodeCacheUse {
        self.generator().cache.usage()
    }

    /// The use of the folder of compiled code; none if the settings name no folder, or one that is not used.
    ///
    /// ```
    /// # use arrayjit::{Backend, Settings, TensorNode};
    /// # let folder = tempfile::tempdir()?;
    /// let mut settings = Settings::default();
    /// settings.code_folder = folder.path().join("code").display().to_string();
    /// for found in [0, 1] {
    ///     // As another process does.
    ///     let backend = Backend::open_with("inline", &settings)?;
    ///     let x = TensorNode::builder("x").dims([2]).build()?;
    ///     backend.compile("x[i] *= 2", [&x])?;
    ///     let folder = backend.code_folder().ok_or("the folder is not safe")?;
    ///     assert_eq!((folder.found, folder.added), (found, 1 - found));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn code_folder(&self) -> Option<CodeFolderUse> {
        self.generator().folder.as_ref().map(CodeFolder::usage)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("name", &self.name()).field("device", &self.device().name()).finish()
    }
}
