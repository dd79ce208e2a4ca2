//! Concatenated axes: an axis `i^j` is that of `i`, followed by that of `j`, and one of the two letters runs
//! at a time.
//!
//! A statement with such axes is several plain ones, its *components*. Each picks one letter of each
//! concatenated axis; letters that were passed over do not run. A letter of two axes is picked in both or in
//! neither. What a component reads and writes is [indexed](super::Projections) as in any other statement,
//! with the extents of the letters before the picked one as offset, so nothing behind this file knows of
//! concatenation.

/// The most components of one statement: each becomes a loop nest.
pub(crate) const MAX_COMPONENTS: usize = 256;

/// One way to pick letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    /// Whether each letter runs; one that is in no concatenated axis always does.
    pub(crate) live: Vec<bool>,
    /// Per concatenated axis, the letter picked and the sum of the extents before it.
    pub(crate) picked: Vec<(usize, i64)>,
}

impl Component {
    /// The letters picked, without repetition.
    pub(crate) fn letters(&self) -> Vec<usize> {
        let mut letters: Vec<usize> = self.picked.iter().map(|&(letter, _)| letter).collect();
        letters.sort_unstable();
        letters.dedup();
        letters
    }
}

/// The components for letters of extents `sizes`, where `axes` are the letters of each concatenated axis; the
/// first axis varies slowest. `None` if there are more than [`MAX_COMPONENTS`].
pub(crate) fn components(sizes: &[i64], axes: &[Vec<usize>]) -> Option<Vec<Component>> {
    let mut partial: Vec<Vec<(usize, i64)>> = vec![Vec::new()];
    for (at, axis) in axes.iter().enumerate() {
        let mut longer = Vec::new();
        for picked in &partial {
            let mut before = 0i64;
            for &letter in axis {
                if agrees(letter, axis, picked, &axes[..at]) {
                    longer.push([picked.as_slice(), &[(letter, before)]].concat());
                }
                before = before.saturating_add(sizes[letter]);
            }
        }
        if longer.len() > MAX_COMPONENTS {
            return None;
        }
        partial = longer;
    }
    let mut always = vec![true; sizes.len()];
    axes.iter().flatten().for_each(|&letter| always[letter] = false);
    let live = |picked: &[(usize, i64)]| {
        let mut live = always.clone();
        picked.iter().for_each(|&(letter, _)| live[letter] = true);
        live
    };
    Some(partial.into_iter().map(|picked| Component { live: live(&picked), picked }).collect())
}

/// Whether picking `letter` in `axis` goes with what was picked in earlier axes: every letter that both have
/// is picked in both or in neither.
fn agrees(letter: usize, axis: &[usize], picked: &[(usize, i64)], earlier: &[Vec<usize>]) -> bool {
    earlier
        .iter()
        .zip(picked)
        .all(|(other, &(there, _))| (there == letter) || (!other.contains(&letter) && !axis.contains(&there)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(sizes: &[i64], axes: &[&[usize]]) -> Vec<Vec<(usize, i64)>> {
        let axes: Vec<Vec<usize>> = axes.iter().map(|axis| axis.to_vec()).collect();
        components(sizes, &axes).unwrap().into_iter().map(|component| component.picked).collect()
    }

    #[test]
    fn offsets_are_cumulative() {
        assert_eq!(picked(&[2, 3, 4], &[&[0, 1, 2]]), [[(0, 0)], [(1, 2)], [(2, 5)]]);
        assert_eq!(picked(&[2], &[]), [[]]);
        // A letter may come twice: its axis is repeated.
        assert_eq!(picked(&[2], &[&[0, 0]]), [[(0, 0)], [(0, 2)]]);
    }

    #[test]
    fn independent_axes_multiply_and_shared_letters_go_together() {
        let found = picked(&[1, 2, 3, 4], &[&[0, 1], &[2, 3]]);
        assert_eq!(found, [[(0, 0), (2, 0)], [(0, 0), (3, 3)], [(1, 1), (2, 0)], [(1, 1), (3, 3)]]);
        // The same letters in another order: what one axis has first, the other has last.
        assert_eq!(picked(&[2, 3], &[&[0, 1], &[1, 0]]), [[(0, 0), (0, 3)], [(1, 2), (1, 0)]]);
        // A block diagonal: `(i, i)` and `(j, k)`, but not `(i, k)`.
        assert_eq!(picked(&[2, 3, 4], &[&[0, 1], &[0, 2]]), [[(0, 0), (0, 0)], [(1, 2), (2, 2)]]);
    }

    #[test]
    fn letters_passed_over_do_not_run() {
        let found = components(&[1, 1, 1], &[vec![0, 1]]).unwrap();
        assert_eq!(found[0].live, [true, false, true]);
        assert_eq!((found[1].live.as_slice(), found[1].letters()), (&[false, true, true][..], vec![1]));
        assert_eq!(components(&[1; 17], &[(0..17).collect(), (0..17).collect()]).map(|c| c.len()), Some(17));
        let pairs: Vec<Vec<usize>> = (0..9).map(|k| vec![2 * k, 2 * k + 1]).collect();
        assert_eq!(components(&[1; 18], &pairs), None);
    }
}
