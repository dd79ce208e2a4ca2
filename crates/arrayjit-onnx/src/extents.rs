//! Sizes of axes, some of which each run gives.

use std::sync::Arc;

use arrayjit_tensor::low_level;
use tnode::{RunSize, RunSizes, SizeSum};

use crate::error::{OnnxError, Result};

/// The number of elements of an axis, which for a size of the run is the size's bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    pub(crate) dim: usize,
    /// A size that each run gives, from 1 to `dim`.
    pub(crate) size: Option<RunSize>,
}

impl Extent {
    fn text(&self) -> String {
        match &self.size {
            Some(size) => size.name().to_owned(),
            None => self.dim.to_string(),
        }
    }
}

/// The sizes of the axes of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Extents(pub(crate) Vec<Extent>);

impl From<usize> for Extent {
    fn from(dim: usize) -> Extent {
        Extent { dim, size: None }
    }
}

impl From<RunSize> for Extent {
    fn from(size: RunSize) -> Extent {
        Extent { dim: size.bound(), size: Some(size) }
    }
}

impl From<&Extent> for SizeSum {
    fn from(Extent { dim, size }: &Extent) -> SizeSum {
        size.as_ref().map_or_else(|| (*dim as i64).into(), SizeSum::from)
    }
}

impl From<&[usize]> for Extents {
    fn from(dims: &[usize]) -> Extents {
        Extents(dims.iter().map(|&dim| dim.into()).collect())
    }
}

impl From<&Vec<usize>> for Extents {
    fn from(dims: &Vec<usize>) -> Extents {
        dims.as_slice().into()
    }
}

impl<const N: usize> From<&[usize; N]> for Extents {
    fn from(dims: &[usize; N]) -> Extents {
        dims.as_slice().into()
    }
}

impl From<&Extents> for Extents {
    fn from(extents: &Extents) -> Extents {
        extents.clone()
    }
}

impl Extents {
    /// Axes whose sizes have these names.
    pub(crate) fn named(dims: &[usize], names: &[Option<RunSize>]) -> Extents {
        let name = |at: usize| names.get(at).cloned().flatten();
        Extents(dims.iter().enumerate().map(|(at, &dim)| Extent { dim, size: name(at) }).collect())
    }

    /// The numbers of elements, and the bounds of sizes.
    pub(crate) fn dims(&self) -> Vec<usize> {
        self.0.iter().map(|extent| extent.dim).collect()
    }

    /// The names of the sizes; empty if there are none.
    pub(crate) fn names(&self) -> RunSizes {
        match self.has_sizes() {
            true => self.0.iter().map(|extent| extent.size.clone()).collect(),
            false => RunSizes::new(),
        }
    }

    pub(crate) fn has_sizes(&self) -> bool {
        self.0.iter().any(|extent| extent.size.is_some())
    }

    /// The names of the sizes that a run gives and that decide the axes.
    pub(crate) fn given(&self) -> Vec<Arc<str>> {
        self.0.iter().flat_map(|extent| given(&extent.into())).collect()
    }

    /// The axes to which two arrays broadcast. A text rejects axes of one bound that have different sizes.
    pub(crate) fn broadcast(&self, other: &Extents) -> Result<Extents> {
        let rank = self.0.len().max(other.0.len());
        let own = |extents: &Extents, at: usize| {
            let at = (at + extents.0.len()).checked_sub(rank)?;
            extents.0.get(at).cloned().filter(|extent| extent.dim != 1)
        };
        let both = |at: usize| Some([own(self, at)?, own(other, at)?]);
        let differs = |[a, b]: &[Extent; 2]| a.dim != b.dim && (a.size.is_some() || b.size.is_some());
        if let Some(pair) = (0..rank).filter_map(both).find(differs) {
            let names = pair.iter().flat_map(|extent| given(&extent.into()));
            let [a, b] = pair.each_ref().map(Extent::text);
            return Err(needs_extents(names, format!("axes of {a} and {b} elements do not broadcast")));
        }
        let dims = crate::shape::broadcast(&self.dims(), &other.dims())?;
        let sized = |at: usize| {
            let both = [own(self, at), own(other, at)].into_iter().flatten();
            both.max_by_key(|extent| extent.size.is_some())
        };
        Ok(Extents(dims.iter().enumerate().map(|(at, &dim)| sized(at).unwrap_or(dim.into())).collect()))
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(Extent::text)
    }

    /// The dimensions of a declared node, as text.
    pub(crate) fn text(&self) -> String {
        self.texts().collect::<Vec<_>>().join(",")
    }

    /// The ranges of the letters of these axes, as a clause of a statement.
    pub(crate) fn clause(&self) -> String {
        self.clause_of(&low_level::letters(self.0.len()))
    }

    /// The ranges of letters, one for each of these axes, as a clause of a statement.
    pub(crate) fn clause_of(&self, letters: &[String]) -> String {
        let ranges = letters.iter().zip(self.texts()).map(|(letter, size)| format!("{letter} < {size}"));
        let ranges: Vec<String> = ranges.collect();
        if ranges.is_empty() { String::new() } else { format!(" where {}", ranges.join(", ")) }
    }

    /// The sizes in order, each with the number of elements behind its axis. A reshape keeps them.
    pub(crate) fn outline(&self) -> Vec<(&RunSize, usize)> {
        let behind = |at: usize| self.0.iter().skip(at + 1).map(|extent| extent.dim).product();
        self.0
            .iter()
            .enumerate()
            .filter_map(|(at, extent)| Some((extent.size.as_ref()?, behind(at))))
            .collect()
    }
}

/// The sum as the size of an axis.
pub(crate) fn extent(sum: &SizeSum) -> Result<Extent> {
    if let Some(constant) = sum.constant() {
        let negative = |_| OnnxError::Invalid(format!("the size {constant} is negative"));
        return Ok(usize::try_from(constant).map_err(negative)?.into());
    }
    let size = sum.size();
    size.map(Extent::from).ok_or_else(|| needs_extents(given(sum), "an axis has a size of 0 or less"))
}

/// The names of the sizes that decide a sum.
pub(crate) fn given(sum: &SizeSum) -> Vec<Arc<str>> {
    let mut names = Vec::new();
    for (size, _) in sum.terms() {
        size.each_source(&mut |size| {
            if size.quotient().is_none() {
                names.push(size.name().into());
            }
        });
    }
    names
}

/// The error of what needs the numbers in place of sizes that each run gives.
pub(crate) fn needs_extents(
    sizes: impl IntoIterator<Item = Arc<str>>,
    problem: impl Into<String>,
) -> OnnxError {
    let mut sizes: Vec<String> = sizes.into_iter().map(|size| size.to_string()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    OnnxError::NeedsExtents { sizes, problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_a_number_or_a_size() {
        let n = RunSize::given("n", 8);
        assert_eq!(extent(&(&n).into()).unwrap(), Extent { dim: 8, size: Some(n.clone()) });
        assert_eq!(extent(&SizeSum::from(3)).unwrap(), 3.into());
        assert!(extent(&SizeSum::from(-1)).is_err());
        let more = SizeSum::from(&n).plus(&1.into()).unwrap();
        assert_eq!(extent(&more).unwrap().dim, 9);
        assert!(extent(&more.negated().unwrap()).is_err());
        let to = Extents::named(&[8, 1], &[Some(n)]);
        assert_eq!(Extents::from(&[1, 3]).broadcast(&to).unwrap().text(), "n,3");
        assert_eq!(to.outline().len(), 1);
    }
}
