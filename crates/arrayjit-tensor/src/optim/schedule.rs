//! Factors of the learning rate.

use std::panic::Location;

use arrayjit::Program;

use crate::{
    error::{Call, Result, misfit},
    operand::number,
    sample::STEP,
};

/// A factor of the learning rate that depends on the step, which counts from 0. It is computed within the
/// compiled step.
#[derive(Clone, Debug)]
pub struct Schedule {
    text: String,
    /// The expressions of the user, with their lines.
    expressions: Vec<(String, &'static Location<'static>)>,
}

impl Schedule {
    /// The factor 1.
    pub fn constant() -> Schedule {
        Schedule::of("1.0".into())
    }

    /// (step + 1) / `steps`, and 1 from step `steps` - 1 on.
    pub fn warm_up(steps: u32) -> Schedule {
        Schedule::of(format!("warm_up(@step, {})", steps.max(1)))
    }

    /// Falls from 1 to `low` within `steps` steps along a cosine, and stays there.
    ///
    /// Source: Loshchilov and Hutter, SGDR: Stochastic gradient descent with warm restarts, 2016.
    pub fn cosine_decay(steps: u32, low: f64) -> Schedule {
        Schedule::of(format!("cosine_decay(@step, {}, {})", steps.max(1), number(low)))
    }

    /// An expression of assignment text, in which `@step` is the step.
    ///
    /// ```
    /// use arrayjit_tensor::optim::Schedule;
    ///
    /// let inverse_root = Schedule::expression("recip_sqrt(f32(@step) + 1)");
    /// # let _ = inverse_root;
    /// ```
    #[track_caller]
    pub fn expression(text: &str) -> Schedule {
        let expressions = vec![(text.to_owned(), Location::caller())];
        Schedule { text: text.to_owned(), expressions }
    }

    /// The product of two factors.
    #[must_use]
    pub fn times(self, other: Schedule) -> Schedule {
        let text = format!("({}) * ({})", self.text, other.text);
        Schedule { text, expressions: [self.expressions, other.expressions].concat() }
    }

    fn of(text: String) -> Schedule {
        Schedule { text, expressions: Vec::new() }
    }

    /// The factor as an expression of assignment text.
    pub(crate) fn text(&self) -> String {
        format!("({})", self.text)
    }

    /// Checks each expression of the user alone, so that an error shows what the user wrote, and where.
    pub(crate) fn check(&self) -> Result<()> {
        for (text, at) in &self.expressions {
            let statement = format!("factor := f32({text}) where {STEP}");
            let checked =
                Program::parse(&statement).and_then(|program| program.keep("factor").assignments(&[]));
            if let Err(error) = checked {
                let expected = format!("a number that depends on `@step`: {}", error.kind());
                let call = Call { at, ..Call::new("Schedule::expression") };
                return Err(call.error("", misfit("the expression", format!("`{text}`"), expected)));
            }
        }
        Ok(())
    }
}
