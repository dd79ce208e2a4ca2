//! Random numbers as what assignments fill nodes with and as operands. [`lowered_ir::random`] defines their
//! bits.

use tnode::TensorNode;

use lowered_ir::ir::SymbolId;
use lowered_ir::random::{Distribution, Scheme};

/// Which random numbers: a distribution and the key of the draws.
///
/// ```
/// use assignments::{Random, builder};
/// use tnode::TensorNode;
///
/// let w = TensorNode::builder("w").dims([64, 100]).build()?;
/// let noise = Random::normal(42).number(w.id().get());
/// let program = builder::random(&w, noise);
/// assert_eq!(program.steps.len(), 1);
/// # Ok::<(), tnode::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Random {
    /// What the numbers are like.
    pub distribution: Distribution,
    /// How they are made.
    pub scheme: Scheme,
    /// The seed.
    pub seed: u64,
    /// What else the key is made of, in order.
    pub key: Vec<KeyPart>,
}

/// A number that a key is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// A constant, such as the number of a node.
    Number(u64),
    /// The value of a static symbol, by its position in
    /// [`Assignments::symbols`](super::Assignments::symbols).
    Symbol(SymbolId),
}

impl Random {
    /// Numbers of that distribution, with the key of the seed alone.
    pub fn new(distribution: Distribution, seed: u64) -> Random {
        Random { distribution, scheme: Scheme::Standard, seed, key: Vec::new() }
    }

    /// Uniform in [0, 1); all values of other types than floats.
    pub fn uniform(seed: u64) -> Random {
        Random::new(Distribution::Uniform, seed)
    }

    /// Normally distributed with mean 0 and variance 1.
    pub fn normal(seed: u64) -> Random {
        Random::new(Distribution::Normal, seed)
    }

    /// Bit patterns.
    pub fn bits(seed: u64) -> Random {
        Random::new(Distribution::Bits, seed)
    }

    /// From another scheme.
    #[must_use]
    pub fn with_scheme(self, scheme: Scheme) -> Random {
        Random { scheme, ..self }
    }

    /// With one more constant in the key.
    #[must_use]
    pub fn number(self, number: u64) -> Random {
        self.part(KeyPart::Number(number))
    }

    /// With one more part in the key.
    #[must_use]
    pub fn part(mut self, part: KeyPart) -> Random {
        self.key.push(part);
        self
    }
}

/// What the values of draws that a node of `u32x4` holds are made to.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleValues {
    /// What the numbers are like.
    pub distribution: Distribution,
    /// Which uniforms.
    pub scheme: Scheme,
    /// The node with the draws: one for each chunk of the last axis of the node filled, of
    /// [`Distribution::values_per_sample`] elements.
    pub of: TensorNode,
}
