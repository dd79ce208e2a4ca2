//! Random numbers that fill nodes or are operands. [`lowered_ir::random`] defines their bits.

use tnode::TensorNode;

use lowered_ir::ir::SymbolId;
use lowered_ir::random::{Distribution, Scheme};

/// A distribution of random numbers and the key of their samples.
///
/// ```
/// use assignments::{Random, builder};
/// use tnode::TensorNode;
///
/// let w = TensorNode::builder("w").dims([64, 100]).build()?;
/// let noise = Random::normal(42).number(w.id().get());
/// let program = builder::random(&w, noise);
/// assert_eq!(program.steps.len(), 1);
/// # Ok::<(), tnode::TensorNodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Random {
    /// The distribution of the numbers.
    pub distribution: Distribution,
    /// The generator and the rules for keys and counters.
    pub scheme: Scheme,
    /// The seed.
    pub seed: u64,
    /// The numbers folded into the key after the seed, in order.
    pub key: Vec<KeyPart>,
}

/// A number that is folded into a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// A constant, such as the number of a node.
    Number(u64),
    /// The value of a static symbol, by its position in
    /// [`Assignments::symbols`](super::Assignments::symbols).
    Symbol(SymbolId),
}

impl Random {
    /// Numbers of a distribution whose key is the seed alone.
    pub fn new(distribution: Distribution, seed: u64) -> Random {
        Random { distribution, scheme: Scheme::Standard, seed, key: Vec::new() }
    }

    /// Uniform numbers: in [0, 1) for floats, over all values for other types.
    pub fn uniform(seed: u64) -> Random {
        Random::new(Distribution::Uniform, seed)
    }

    /// Normally distributed numbers with mean 0 and variance 1.
    pub fn normal(seed: u64) -> Random {
        Random::new(Distribution::Normal, seed)
    }

    /// Uniform bit patterns.
    pub fn bits(seed: u64) -> Random {
        Random::new(Distribution::Bits, seed)
    }

    /// Replaces the scheme.
    #[must_use]
    pub fn with_scheme(self, scheme: Scheme) -> Random {
        Random { scheme, ..self }
    }

    /// Folds a constant into the key.
    #[must_use]
    pub fn number(self, number: u64) -> Random {
        self.part(KeyPart::Number(number))
    }

    /// Folds a part into the key.
    #[must_use]
    pub fn part(mut self, part: KeyPart) -> Random {
        self.key.push(part);
        self
    }
}

/// Random numbers made of samples that a node of type `u32x4` holds.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleValues {
    /// The distribution of the numbers.
    pub distribution: Distribution,
    /// The scheme, which decides how uniform numbers are made of bits.
    pub scheme: Scheme,
    /// The node with the samples: one for each chunk of [`Distribution::values_per_sample`] elements along
    /// the last axis of the node filled.
    pub of: TensorNode,
}
