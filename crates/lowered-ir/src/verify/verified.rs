//! A routine together with the fact that the verifier accepted it.

use std::ops::Deref;

use super::{VerifyError, verify};
use crate::ir::LoweredRoutine;

/// A value that the verifier accepted, within the [limits](super::limits). It cannot be changed: a
/// pass that rewrites it takes it out with [`into_inner`](Verified::into_inner), and the result is verified
/// again.
///
/// Code generators take nothing else, so safe code cannot make them write outside of arrays:
///
/// ```compile_fail,E0423
/// let routine = lowered_ir::text::parse("routine @r {}").unwrap();
/// let _ = lowered_ir::verify::Verified(routine); // only the verifier makes one
/// ```
///
/// ```compile_fail,E0596
/// use lowered_ir::verify::Verified;
/// let mut verified = Verified::new(lowered_ir::text::parse("routine @r {}").unwrap()).unwrap();
/// verified.body.clear();
/// ```
#[derive(Clone, Debug)]
pub struct Verified<T>(T);

impl Verified<LoweredRoutine> {
    /// Verifies a routine.
    ///
    /// # Errors
    ///
    /// [`VerifyError`](super::VerifyError), in the cases of [`verify`].
    pub fn new(routine: LoweredRoutine) -> Result<Self, VerifyError> {
        verify(&routine)?;
        Ok(Verified(routine))
    }
}

impl<T> Verified<T> {
    /// The value, to be changed and verified again.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Violation;

    fn parsed(text: &str) -> LoweredRoutine {
        crate::text::parse(text).expect("the text is valid")
    }

    #[test]
    fn only_what_the_verifier_accepts_is_verified() {
        let good = parsed("routine @r { node %0 \"x\" f32[4] %0[3] := 1.0f32 }");
        let verified = Verified::new(good).expect("it is valid");
        assert_eq!(verified.nodes.len(), 1);
        let mut altered = verified.clone().into_inner();
        altered.nodes[0].dims[0] = 3;
        let error = Verified::new(altered).expect_err("the index leaves the node");
        assert!(matches!(*error.violation, Violation::OutOfBounds { .. }), "{error}");
    }
}
