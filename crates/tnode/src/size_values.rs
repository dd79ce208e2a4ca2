//! The values that sizes have in a run.

use std::collections::BTreeMap;

use crate::node::TensorNode;
use crate::run_size::RunSize;

/// The values of sizes in a run, each with the name of the place that gave it.
#[derive(Clone, Debug, Default)]
pub struct SizeValues {
    given: BTreeMap<String, (usize, String)>,
    /// The values that arrays give to sizes that follow from others.
    derived: BTreeMap<RunSize, (usize, String)>,
}

/// A size whose values in a run do not fit.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeMismatch {
    /// Two places give a size different values.
    #[error("size `{size}` is {first} by `{by}`, but {second} by `{and}`")]
    Differ {
        /// The size, a name or an expression.
        size: String,
        /// Its value by the first place.
        first: i64,
        /// The first place.
        by: String,
        /// Its value by the second place.
        second: usize,
        /// The second place.
        and: String,
    },
    /// An array gives a size that follows from another one a value that it never has.
    #[error("size `{size}` is {value} by `{by}`, which no value of `{of}` gives")]
    NoSource {
        /// The size, an expression.
        size: String,
        /// Its value.
        value: usize,
        /// The place.
        by: String,
        /// The size from which it follows.
        of: String,
    },
    /// A size that follows from others is out of its range.
    #[error("size `{size}` is {value} by `{by}`, expected 1 to {bound}")]
    Range {
        /// The size, an expression.
        size: String,
        /// Its value.
        value: i64,
        /// The places that give the sizes from which it follows.
        by: String,
        /// Its bound.
        bound: usize,
    },
}

impl SizeValues {
    /// Enters the sizes that an array of these dimensions gives to the axes of a node. A multiple of a size,
    /// plus a constant, gives that size its value.
    ///
    /// # Errors
    /// A size that has another value.
    pub fn enter(&mut self, node: &TensorNode, dims: &[usize], by: &str) -> Result<(), SizeMismatch> {
        let axes = node.run_sizes().iter().zip(dims);
        axes.filter_map(|(size, value)| Some((size.as_ref()?, *value))).try_for_each(|(size, value)| {
            let Some(quotient) = size.quotient() else {
                return give(&mut self.given, size.name().to_owned(), value, by);
            };
            if let Some((source, factor)) = quotient.only_source() {
                let elements = i64::try_from(value).unwrap_or(i64::MAX) - quotient.dividend.offset();
                let solved = usize::try_from(elements / factor).unwrap_or(0);
                if solved == 0 || elements % factor != 0 {
                    let (size, of, by) = (size.to_string(), source.name().to_owned(), by.to_owned());
                    return Err(SizeMismatch::NoSource { size, value, by, of });
                }
                give(&mut self.given, source.name().to_owned(), solved, by)?;
            }
            give(&mut self.derived, size.clone(), value, by)
        })
    }

    /// Gives the size of that name a value.
    ///
    /// # Errors
    /// The size has another value.
    pub fn give(&mut self, size: &str, value: usize, by: &str) -> Result<(), SizeMismatch> {
        give(&mut self.given, size.to_owned(), value, by)
    }

    /// The value of the given size of that name.
    pub fn given(&self, size: &str) -> Option<usize> {
        self.given.get(size).map(|(value, _)| *value)
    }

    /// The value of a size; none if a size from which it follows has no value, or if it is none of 1 to its
    /// bound.
    pub fn get(&self, size: &RunSize) -> Option<usize> {
        let value = usize::try_from(self.value(size)?).ok()?;
        (1..=size.bound()).contains(&value).then_some(value)
    }

    fn value(&self, size: &RunSize) -> Option<i64> {
        size.value(&|name| i64::try_from(self.given(name)?).ok())
    }

    /// Checks the derived sizes of the nodes, and the derived sizes to which arrays gave values.
    ///
    /// # Errors
    /// The first one that is out of its range, or not the number of elements of an array.
    pub fn check<'a>(&self, nodes: impl IntoIterator<Item = &'a TensorNode>) -> Result<(), SizeMismatch> {
        let of_nodes = nodes.into_iter().flat_map(|node| node.run_sizes().iter().flatten());
        for size in of_nodes.chain(self.derived.keys()).filter(|size| size.quotient().is_some()) {
            let Some(first) = self.value(size) else { continue };
            let (size_text, by, bound) = (size.to_string(), self.places(size), size.bound());
            if !(1..=bound).contains(&usize::try_from(first).unwrap_or(0)) {
                return Err(SizeMismatch::Range { size: size_text, value: first, by, bound });
            }
            if let Some((second, and)) = self.derived.get(size)
                && i64::try_from(*second) != Ok(first)
            {
                let (second, and) = (*second, and.clone());
                return Err(SizeMismatch::Differ { size: size_text, first, by, second, and });
            }
        }
        Ok(())
    }

    /// The places that give the sizes from which a size follows.
    fn places(&self, size: &RunSize) -> String {
        let mut places: Vec<&str> = Vec::new();
        size.each_source(&mut |size| {
            let by = self.given.get(size.name()).map(|(_, by)| by.as_str());
            places.extend(by.filter(|by| size.quotient().is_none() && !places.contains(by)));
        });
        places.join("` and `")
    }
}

fn give<K: Ord + ToString>(
    values: &mut BTreeMap<K, (usize, String)>,
    size: K,
    second: usize,
    and: &str,
) -> Result<(), SizeMismatch> {
    let name = size.to_string();
    let (first, by) = values.entry(size).or_insert_with(|| (second, and.to_owned()));
    if *first == second {
        return Ok(());
    }
    let (first, by, and) = (i64::try_from(*first).unwrap_or(i64::MAX), by.clone(), and.to_owned());
    Err(SizeMismatch::Differ { size: name, first, by, second, and })
}
