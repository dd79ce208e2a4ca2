//! Divides arrays into equal parts along their first axis, and concatenates them again.

use tnode::HostArray;

use crate::error::{Error, ParallelError};

/// Divides an array into equal parts of consecutive slices along its first axis; each has the sizes `[dims[0]
/// / shards, ..]`, without margins.
///
/// ```
/// use arrayjit::{HostArray, parallel::{gather, shard}};
///
/// let array = HostArray::from_slice(&[1, 2, 3, 4, 5, 6, 7, 8], [4, 2])?;
/// let shards = shard(&array, 2)?;
/// assert_eq!(shards[1].values(), [5., 6., 7., 8.]);
/// assert_eq!(gather(&shards)?.values(), array.values());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// An array of rank 0, or one whose first size is not a multiple of `shards`.
pub fn shard(array: &HostArray, shards: usize) -> Result<Vec<HostArray>, Error> {
    let dims = array.dims_without_padding();
    let Some(&rows) = dims.first() else {
        return Err(ParallelError::NoAxis { what: "an array".to_owned() }.into());
    };
    if shards == 0 || rows % shards != 0 {
        return Err(ParallelError::Uneven { dims: dims.to_vec(), shards }.into());
    }
    let part = rows / shards;
    (0..shards).map(|n| Ok(array.slice(0, n * part..(n + 1) * part)?)).collect()
}

/// Concatenates arrays along their first axis, in order. Their first sizes may differ. Margins are left out.
///
/// # Errors
///
/// No arrays, arrays of rank 0, or arrays that differ from the first one in type or in another size.
pub fn gather(shards: &[HostArray]) -> Result<HostArray, Error> {
    let first = shards.first().ok_or(ParallelError::NoShards)?;
    shards.iter().enumerate().try_for_each(|(at, shard)| check_like(first, shard, at))?;
    Ok(HostArray::concat(&shards.iter().collect::<Vec<_>>(), 0)?)
}

/// Checks that the type and the sizes of a shard but the first one equal those of the first shard.
fn check_like(first: &HostArray, shard: &HostArray, at: usize) -> Result<(), ParallelError> {
    let (expected, found) = (first.dims_without_padding(), shard.dims_without_padding());
    if found.is_empty() {
        return Err(ParallelError::NoAxis { what: format!("shard {at}") });
    }
    if first.dtype() != shard.dtype() || expected.get(1..) != found.get(1..) {
        return Err(ParallelError::ShardMismatch {
            at,
            expected_type: first.dtype(),
            expected: expected.to_vec(),
            found_type: shard.dtype(),
            found: found.to_vec(),
        });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing step fails the test")]
mod tests {
    use proptest::prelude::*;
    use tnode::{AxisPadding, Padding};

    use super::*;

    fn counted(dims: &[usize]) -> HostArray {
        let values: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
        HostArray::from_slice(&values, dims.iter().copied()).unwrap()
    }

    #[test]
    fn three_shards_of_six_rows() {
        let shards = shard(&counted(&[6, 2]), 3).unwrap();
        let values: Vec<_> = shards.iter().map(|shard| (shard.dims().to_vec(), shard.values())).collect();
        let expected = [[0., 1., 2., 3.], [4., 5., 6., 7.], [8., 9., 10., 11.]];
        assert_eq!(values, expected.map(|values| (vec![2, 2], values.to_vec())));
    }

    #[test]
    fn what_does_not_divide_is_rejected_with_its_sizes() {
        let message = |array: &HostArray, shards| shard(array, shards).unwrap_err().to_string();
        let uneven = message(&counted(&[7, 3]), 2);
        assert_eq!(
            uneven,
            "an array of sizes [7, 3] has no 2 equal shards: its first axis does not divide by 2"
        );
        assert!(message(&counted(&[7]), 0).contains("no 0 equal shards"));
        assert_eq!(message(&counted(&[]), 1), "an array of rank 0 has no first axis");
    }

    #[test]
    fn arrays_that_do_not_fit_are_not_gathered() {
        let message = |shards: &[HostArray]| gather(shards).unwrap_err().to_string();
        assert_eq!(message(&[]), "no shards to gather");
        assert!(message(&[counted(&[])]).contains("shard 0 of rank 0"));
        let sizes = message(&[counted(&[2, 3]), counted(&[2, 4])]);
        assert!(sizes.contains("shard 1") && sizes.contains("[2, 4]") && sizes.contains("[2, 3]"), "{sizes}");
        let float = HostArray::from_slice(&[1f32, 2., 3.], [1, 3]).unwrap();
        assert!(message(&[counted(&[2, 3]), float]).contains("i32"));
    }

    #[test]
    fn margins_are_left_out() {
        let axes = [AxisPadding { left: 1, right: 0 }, AxisPadding { left: 0, right: 2 }];
        let padding = Padding { axes: axes.into_iter().collect(), neutral: Some(-1.0) };
        let padded = counted(&[4, 3]).with_reshape([4, 3], Some(padding)).unwrap();
        let shards = shard(&padded, 2).unwrap();
        assert_eq!(shards[1].values(), [6., 7., 8., 9., 10., 11.]);
        assert_eq!(gather(&[padded]).unwrap().values(), counted(&[4, 3]).values());
    }

    proptest! {
        #[test]
        fn gathering_shards_gives_the_array_back(rows in 0usize..6, shards in 1usize..6, rest in 0usize..4) {
            let array = counted(&[rows * shards, rest, 2]);
            let back = gather(&shard(&array, shards).unwrap()).unwrap();
            prop_assert_eq!(back.dims(), array.dims());
            prop_assert_eq!(back.bytes(), array.bytes());
        }
    }
}
