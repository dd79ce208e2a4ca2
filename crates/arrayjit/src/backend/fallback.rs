//! The fallback backend of a backend.

use std::sync::{Arc, OnceLock};

use super::Backend;
use crate::{
    error::OpenError,
    fallback::{FallbackCount, FallbackRuns},
    settings::{FallbackSetting, Settings},
};

/// The fallback backend of a backend, and counts of its use.
#[derive(Debug, Default)]
pub(crate) struct FallbackState {
    /// Opened when first needed.
    backend: OnceLock<Backend>,
    pub(crate) runs: Arc<FallbackRuns>,
}

impl Backend {
    /// How many kernels were compiled and runs made with the fallback.
    /// [`Compiled::fallbacks`](crate::Compiled::fallbacks) lists the statements of a routine that fall back,
    /// with reasons.
    pub fn fallback_count(&self) -> FallbackCount {
        self.fallback_state().runs.count()
    }

    /// A new backend with the same code generator and device, and `other` as its fallback instead of the one
    /// that the settings name. Settings that forbid fallback still forbid it. Statements that `other` rejects
    /// too are an error, even if `other` has a fallback of its own.
    ///
    /// ```
    /// use arrayjit::Backend;
    ///
    /// let backend = Backend::open("inline")?.falling_back_to(&Backend::open("interpreter")?);
    /// assert_eq!(backend.fallback()?.map(|other| other.name()), Some("interpreter"));
    /// # Ok::<(), arrayjit::OpenError>(())
    /// ```
    #[must_use]
    pub fn falling_back_to(&self, other: &Backend) -> Backend {
        let backend = self.reopened();
        backend.fallback_state().backend.get_or_init(|| other.clone());
        backend
    }

    /// The backend that runs rejected kernels, if the settings allow one: [`Settings::fallback`].
    ///
    /// # Errors
    ///
    /// The error of opening it.
    pub fn fallback(&self) -> Result<Option<&Backend>, OpenError> {
        let opened = &self.fallback_state().backend;
        if let (Some(backend), true) = (opened.get(), self.settings().fallback != FallbackSetting::None) {
            return Ok(Some(backend));
        }
        let from_gpu = self.codegen().caps().workgroups.is_some();
        let Some(name) = self.settings().fallback.backend(self.name(), from_gpu) else { return Ok(None) };
        let settings =
            Settings { backend: name.into(), fallback: FallbackSetting::None, ..self.settings().clone() };
        let backend = Backend::open_with(name, &settings)?;
        Ok(Some(opened.get_or_init(|| backend)))
    }
}
