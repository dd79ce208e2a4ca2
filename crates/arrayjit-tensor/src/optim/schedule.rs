//! Factors of the learning rate.

use crate::operand::number;

/// A factor of the learning rate that depends on the step, which counts from 0. It is computed within the
/// compiled step.
#[derive(Clone, Debug)]
pub struct Schedule(String);

impl Schedule {
    /// The factor 1.
    pub fn constant() -> Schedule {
        Schedule("1.0".into())
    }

    /// (step + 1) / `steps`, and 1 from step `steps` - 1 on.
    pub fn warm_up(steps: u32) -> Schedule {
        Schedule(format!("warm_up(@step, {})", steps.max(1)))
    }

    /// Falls from 1 to `low` within `steps` steps along a cosine, and stays there.
    ///
    /// Source: Loshchilov and Hutter, SGDR: Stochastic gradient descent with warm restarts, 2016.
    pub fn cosine_decay(steps: u32, low: f64) -> Schedule {
        Schedule(format!("cosine_decay(@step, {}, {})", steps.max(1), number(low)))
    }

    /// An expression of assignment text, in which `@step` is the step.
    ///
    /// ```
    /// use arrayjit_tensor::optim::Schedule;
    ///
    /// let inverse_root = Schedule::expression("recip_sqrt(f32(@step) + 1)");
    /// # let _ = inverse_root;
    /// ```
    pub fn expression(text: &str) -> Schedule {
        Schedule(text.to_owned())
    }

    /// The product of two factors.
    #[must_use]
    pub fn times(self, other: Schedule) -> Schedule {
        Schedule(format!("({}) * ({})", self.0, other.0))
    }

    /// The factor as an expression of assignment text.
    pub(crate) fn text(&self) -> String {
        format!("({})", self.0)
    }
}
