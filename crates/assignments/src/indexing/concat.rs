//! Concatenated axes: the axis `i^j` is the axis of `i` followed by the axis of `j`.
//!
//! A statement with concatenated axes is split into *components*, statements without such axes. A component
//! picks one letter of each concatenated axis. The picked letters are active in the component, the other
//! letters of these axes are not. A letter on two axes is picked on both or on neither. A component indexes
//! arrays by [projections](super::Projections) as any other statement does; the offset of an index is the sum
//! of the extents of the letters before the picked one. So no other module handles concatenation.

/// The largest number of components of a statement. Each becomes a loop nest.
pub const MAX_COMPONENTS: usize = 256;

/// One combination of letters, one for each concatenated axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Whether each letter is active. A letter on no concatenated axis is active in every component.
    pub live: Vec<bool>,
    /// For each concatenated axis, the picked letter and the sum of the extents of the letters before it.
    pub picked: Vec<(usize, i64)>,
}

impl Component {
    /// The picked letters, each once.
    pub fn letters(&self) -> Vec<usize> {
        let mut letters: Vec<usize> = self.picked.iter().map(|&(letter, _)| letter).collect();
        letters.sort_unstable();
        letters.dedup();
        letters
    }
}

/// All components, for letters of extents `sizes` and the letters of each concatenated axis. The choice on
/// the first axis varies slowest. `None` if there are more than [`MAX_COMPONENTS`].
pub fn components(sizes: &[i64], axes: &[Vec<usize>]) -> Option<Vec<Component>> {
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

/// Whether picking `letter` on `axis` is consistent with the choices on earlier axes: a letter on two axes is
/// picked on both or on neither.
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
        // A letter may occur twice on an axis.
        assert_eq!(picked(&[2], &[&[0, 0]]), [[(0, 0)], [(0, 2)]]);
    }

    #[test]
    fn independent_axes_multiply_and_shared_letters_go_together() {
        let found = picked(&[1, 2, 3, 4], &[&[0, 1], &[2, 3]]);
        assert_eq!(found, [[(0, 0), (2, 0)], [(0, 0), (3, 3)], [(1, 1), (2, 0)], [(1, 1), (3, 3)]]);
        // Two axes with the same letters in opposite order.
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
