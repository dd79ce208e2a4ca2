//! The place where a kernel keeps a codegen's plan between the scheduler's question about contractions and
//! compilation.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// At most one plan, of a type that only its codegen can name. It is never replaced, and clones share it.
#[derive(Clone, Default)]
pub(crate) struct PlanSlot(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl PlanSlot {
    /// The plan of type `P` in the slot, or a new one from `make`, which stays in the slot if that was empty.
    pub(crate) fn get_or_make<P: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<P, E>,
    ) -> Result<Arc<P>, E> {
        if let Some(kept) = self.0.get().and_then(|kept| Arc::clone(kept).downcast().ok()) {
            return Ok(kept);
        }
        let made = Arc::new(make()?);
        // If another thread was faster, its plan stays, and both are equal.
        let _ = self.0.set(Arc::<P>::clone(&made));
        Ok(made)
    }
}

impl fmt::Debug for PlanSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "planned" } else { "not planned" })
    }
}
