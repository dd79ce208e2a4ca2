//! Sizes of axes, some of which each run gives.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use arrayjit_tensor::low_level;
use tnode::RunSizes;

use crate::error::{OnnxError, Result};

/// The number of elements of an axis, which for a size of the run is the size's bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    pub(crate) dim: usize,
    /// The name of a size that each run gives, from 1 to `dim`.
    pub(crate) size: Option<Arc<str>>,
}

/// The sizes of the axes of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Extents(pub(crate) Vec<Extent>);

impl From<usize> for Extent {
    fn from(dim: usize) -> Extent {
        Extent { dim, size: None }
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
    pub(crate) fn named(dims: &[usize], names: &[Option<Arc<str>>]) -> Extents {
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

    /// The sizes, each with its bound.
    pub(crate) fn sizes(&self) -> BTreeMap<Arc<str>, usize> {
        self.0.iter().filter_map(|extent| Some((extent.size.clone()?, extent.dim))).collect()
    }

    /// The axes to which two arrays broadcast. A text rejects axes of one bound that have different sizes.
    pub(crate) fn broadcast(&self, other: &Extents) -> Result<Extents> {
        let dims = crate::shape::broadcast(&self.dims(), &other.dims())?;
        let own = |extents: &Extents, at: usize| {
            let at = (at + extents.0.len()).checked_sub(dims.len())?;
            extents.0.get(at).cloned().filter(|extent| extent.dim != 1)
        };
        let sized = |at: usize| {
            let both = [own(self, at), own(other, at)].into_iter().flatten();
            both.max_by_key(|extent| extent.size.is_some())
        };
        Ok(Extents(dims.iter().enumerate().map(|(at, &dim)| sized(at).unwrap_or(dim.into())).collect()))
    }

    /// Declarations of the sizes in a text.
    pub(crate) fn declared(&self) -> String {
        let sizes = self.sizes();
        let line = |(name, bound): (&Arc<str>, &usize)| format!("{name} <= {bound}");
        match sizes.is_empty() {
            true => String::new(),
            false => format!("size {}\n", sizes.iter().map(line).collect::<Vec<_>>().join(", ")),
        }
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|Extent { dim, size }| match size {
            Some(size) => size.to_string(),
            None => dim.to_string(),
        })
    }

    /// The dimensions of a declared node, as text.
    pub(crate) fn text(&self) -> String {
        self.texts().collect::<Vec<_>>().join(",")
    }

    /// The ranges of the letters of these axes, as a clause of a statement.
    pub(crate) fn clause(&self) -> String {
        let letters = low_level::letters(self.0.len());
        let ranges = letters.iter().zip(self.texts()).map(|(letter, size)| format!("{letter} < {size}"));
        let ranges: Vec<String> = ranges.collect();
        if ranges.is_empty() { String::new() } else { format!(" where {}", ranges.join(", ")) }
    }

    /// The sizes in order, each with the number of elements behind its axis. A reshape keeps them.
    pub(crate) fn outline(&self) -> Vec<(&str, usize)> {
        let behind = |at: usize| self.0.iter().skip(at + 1).map(|extent| extent.dim).product();
        self.0
            .iter()
            .enumerate()
            .filter_map(|(at, extent)| Some((extent.size.as_deref()?, behind(at))))
            .collect()
    }
}

/// An integer that a run knows: a constant plus multiples of sizes, each of which has a bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SizeSum {
    terms: BTreeMap<(Arc<str>, usize), i64>,
    constant: i64,
}

impl From<i64> for SizeSum {
    fn from(constant: i64) -> SizeSum {
        SizeSum { constant, ..SizeSum::default() }
    }
}

impl From<&Extent> for SizeSum {
    fn from(Extent { dim, size }: &Extent) -> SizeSum {
        match size {
            Some(name) => SizeSum { terms: BTreeMap::from([((name.clone(), *dim), 1)]), constant: 0 },
            None => (*dim as i64).into(),
        }
    }
}

impl SizeSum {
    /// The value, if no size decides it.
    pub(crate) fn constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = Arc<str>> {
        self.terms.keys().map(|(name, _)| name.clone())
    }

    fn map(&self, change: impl Fn(i64) -> Option<i64>) -> Option<SizeSum> {
        let terms = self.terms.iter().map(|(size, &factor)| Some((size.clone(), change(factor)?)));
        let terms: BTreeMap<_, _> = terms.collect::<Option<_>>()?;
        let terms = terms.into_iter().filter(|(_, factor)| *factor != 0).collect();
        Some(SizeSum { terms, constant: change(self.constant)? })
    }

    pub(crate) fn negated(&self) -> Option<SizeSum> {
        self.map(i64::checked_neg)
    }

    pub(crate) fn plus(&self, other: &SizeSum) -> Option<SizeSum> {
        let mut sum = self.clone();
        for (size, factor) in &other.terms {
            let own = sum.terms.entry(size.clone()).or_default();
            *own = own.checked_add(*factor)?;
        }
        sum.terms.retain(|_, factor| *factor != 0);
        sum.constant = sum.constant.checked_add(other.constant)?;
        Some(sum)
    }

    /// The product, if one of both is a constant.
    pub(crate) fn times(&self, other: &SizeSum) -> Option<SizeSum> {
        match (self.constant(), other.constant()) {
            (_, Some(factor)) => self.map(|own| own.checked_mul(factor)),
            (Some(factor), None) => other.map(|own| own.checked_mul(factor)),
            (None, None) => None,
        }
    }

    /// The quotient, if it is a sum again for all sizes.
    pub(crate) fn over(&self, other: &SizeSum) -> Option<SizeSum> {
        let divisor = other.constant()?;
        match self.constant() {
            Some(own) => own.checked_div(divisor).map(SizeSum::from),
            None => self.map(|own| (own.checked_rem(divisor)? == 0).then(|| own / divisor)),
        }
    }

    /// The least and the greatest value for sizes from 1 to their bounds.
    fn range(&self) -> (i128, i128) {
        let constant = i128::from(self.constant);
        self.terms.iter().fold((constant, constant), |(least, most), ((_, bound), factor)| {
            let ends = [i128::from(*factor), i128::from(*factor) * *bound as i128];
            (least + ends[0].min(ends[1]), most + ends[0].max(ends[1]))
        })
    }

    pub(crate) fn is_never_negative(&self) -> bool {
        self.range().0 >= 0
    }

    /// How both compare, if they do in the same way for all sizes.
    pub(crate) fn compared(&self, other: &SizeSum) -> Option<Ordering> {
        let (least, most) = self.plus(&other.negated()?)?.range();
        match (least.cmp(&0), most.cmp(&0)) {
            (Ordering::Greater, _) => Some(Ordering::Greater),
            (_, Ordering::Less) => Some(Ordering::Less),
            (Ordering::Equal, Ordering::Equal) => Some(Ordering::Equal),
            _ => None,
        }
    }

    /// The sum as the size of an axis: a constant, or one size.
    pub(crate) fn extent(&self) -> Result<Extent> {
        if let Some(constant) = self.constant() {
            let negative = |_| OnnxError::Invalid(format!("the size {constant} is negative"));
            return Ok(usize::try_from(constant).map_err(negative)?.into());
        }
        match self.terms.first_key_value() {
            Some(((name, bound), 1)) if self.terms.len() == 1 && self.constant == 0 => {
                Ok(Extent { dim: *bound, size: Some(name.clone()) })
            }
            _ => Err(needs_extents(self.names(), "an axis has a sum of sizes")),
        }
    }
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

    fn size(name: &str, bound: usize) -> SizeSum {
        (&Extent { dim: bound, size: Some(name.into()) }).into()
    }

    #[test]
    fn sums_of_sizes_are_computed_as_far_as_they_are_affine() {
        let (n, m) = (size("n", 8), size("m", 4));
        let sum = n.times(&6.into()).unwrap().plus(&4.into()).unwrap();
        assert_eq!(sum.over(&2.into()), n.times(&3.into()).unwrap().plus(&2.into()));
        assert_eq!(sum.over(&4.into()), None);
        assert_eq!(sum.over(&0.into()), None);
        assert_eq!(n.times(&m), None);
        assert_eq!(n.plus(&n.negated().unwrap()).unwrap().constant(), Some(0));
        assert_eq!(SizeSum::from(7).over(&2.into()).unwrap().constant(), Some(3));
        assert_eq!(n.times(&i64::MAX.into()).unwrap().plus(&n), None);
    }

    #[test]
    fn comparisons_hold_for_all_sizes_or_are_open() {
        let (n, m) = (size("n", 8), size("m", 4));
        assert_eq!(n.compared(&(-1).into()), Some(Ordering::Greater));
        assert_eq!(n.compared(&1.into()), None);
        assert_eq!(n.compared(&9.into()), Some(Ordering::Less));
        assert_eq!(n.compared(&n), Some(Ordering::Equal));
        assert_eq!(n.compared(&m), None);
        assert_eq!(n.plus(&4.into()).unwrap().compared(&m), Some(Ordering::Greater));
    }

    #[test]
    fn an_axis_has_a_number_or_one_size() {
        let n = size("n", 8);
        assert_eq!(n.extent().unwrap(), Extent { dim: 8, size: Some("n".into()) });
        assert_eq!(SizeSum::from(3).extent().unwrap(), 3.into());
        assert!(SizeSum::from(-1).extent().is_err());
        assert!(n.plus(&1.into()).unwrap().extent().is_err());
        let to = Extents::named(&[8, 1], &[Some("n".into())]);
        assert_eq!(Extents::from(&[1, 3]).broadcast(&to).unwrap().text(), "n,3");
        assert_eq!(to.outline(), [("n", 1)]);
    }
}
