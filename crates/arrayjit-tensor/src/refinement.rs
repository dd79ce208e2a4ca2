//! Reshapes as copies with affine indices.

use std::ops::Range;

use crate::{
    error::{Result, TensorError},
    shape::{access, clause, letter},
};

/// The shape that `to` means, with its open size replaced.
pub(crate) fn closed(from: &[usize], to: &[isize]) -> Result<Vec<usize>> {
    let fail = || TensorError::Elements { from: from.to_vec(), to: to.to_vec() };
    let elements: usize = from.iter().product();
    let known = to
        .iter()
        .filter(|&&size| size != -1)
        .try_fold(1usize, |product, &size| product.checked_mul(usize::try_from(size).ok()?));
    let known = known.ok_or_else(fail)?;
    let open = to.iter().filter(|&&size| size == -1).count();
    let size = match (open, known) {
        (0, known) if known == elements => 1,
        (1, known) if known > 0 && elements.is_multiple_of(known) => elements / known,
        _ => return Err(fail()),
    };
    Ok(to.iter().map(|&given| usize::try_from(given).unwrap_or(size)).collect())
}

/// The common refinement of the two shapes of a reshape: each axis of either shape joins neighboring fine
/// axes. With a letter for each fine axis, both accesses are affine, and no element is copied twice.
pub(crate) struct Refinement {
    /// The sizes of the fine axes.
    fine: Vec<usize>,
    /// For each axis of the first and of the second shape, its fine axes.
    axes: [Vec<Range<usize>>; 2],
}

impl Refinement {
    /// The refinement of two shapes of as many elements, at least one; none if the shapes have no common
    /// refinement, as 4×6 and 3×8.
    pub(crate) fn of(from: &[usize], to: &[usize]) -> Option<Refinement> {
        let borders = |shape: &[usize]| -> Vec<usize> {
            let products = shape.iter().rev().scan(1, |product, size| {
                *product *= size;
                Some(*product)
            });
            products.collect()
        };
        let mut all = [vec![1], borders(from), borders(to)].concat();
        all.sort_unstable();
        all.dedup();
        if all.windows(2).any(|pair| !pair[1].is_multiple_of(pair[0])) {
            return None;
        }
        let fine: Vec<usize> = all.windows(2).rev().map(|pair| pair[1] / pair[0]).collect();
        let position = |border: usize| all.len() - 1 - all.binary_search(&border).unwrap_or(0);
        let ranges = |shape: &[usize]| -> Vec<Range<usize>> {
            let borders = borders(shape);
            let inner = borders.iter().rev().skip(1).copied().chain([1]);
            borders.iter().rev().zip(inner).map(|(&outer, inner)| position(outer)..position(inner)).collect()
        };
        Some(Refinement { axes: [ranges(from), ranges(to)], fine })
    }

    /// The statement that copies `x` into `y`.
    pub(crate) fn copy(&self, y: &str) -> String {
        self.copy_between("x", y)
    }

    /// The statement that copies one node into another.
    pub(crate) fn copy_between(&self, from: &str, to: &str) -> String {
        let [read, write] = [(from, 0), (to, 1)]
            .map(|(name, side)| access(name, self.axes[side].iter().map(|range| self.index(range))));
        format!("{write} := {read}{}", clause(&self.fine))
    }

    /// The index of an axis that is made of fine ones.
    fn index(&self, range: &Range<usize>) -> String {
        let terms = range.clone().map(|at| match self.fine[at + 1..range.end].iter().product::<usize>() {
            1 => letter(at),
            stride => format!("{stride}*{}", letter(at)),
        });
        let terms: Vec<String> = terms.collect();
        if terms.is_empty() { "0".into() } else { terms.join(" + ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_are_affine_where_they_can_be() {
        let text = |from: &[usize], to: &[usize]| Refinement::of(from, to).map(|refined| refined.copy("y"));
        assert_eq!(
            text(&[4, 6], &[2, 12]).unwrap(),
            "y[i0,6*i1 + i2] := x[2*i0 + i1,i2] where i0 < 2, i1 < 2, i2 < 6"
        );
        assert_eq!(text(&[2, 3], &[1, 6]).unwrap(), "y[0,3*i0 + i1] := x[i0,i1] where i0 < 2, i1 < 3");
        assert_eq!(text(&[1], &[]).unwrap(), "y[] := x[0]");
        assert_eq!(text(&[4, 6], &[3, 8]), None);
    }

    #[test]
    fn an_open_size_follows_from_the_others() {
        assert_eq!(closed(&[4, 6], &[-1, 8]).unwrap(), [3, 8]);
        assert_eq!(closed(&[], &[-1]).unwrap(), [1]);
        assert!(closed(&[4, 6], &[-1, -1]).is_err());
        assert!(closed(&[4, 6], &[-1, 7]).is_err());
        assert!(closed(&[0], &[-1, 0]).is_err());
        assert!(closed(&[4], &[-2, 2]).is_err());
    }
}
