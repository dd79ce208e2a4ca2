//! Distributes workgroups over three dimensions of limited extent.

use device_runtime::DriverError;

/// The number of workgroups in each dimension; `None` if `groups` is 0. Their product is at least `groups`,
/// and exceeds it by less than the product of the second and the third dimension. A kernel computes the
/// linear number of its workgroup, and does nothing if that is `groups` or more.
///
/// # Errors
///
/// [`DriverError::TooManyGroups`].
pub(crate) fn split(kernel: &str, groups: u64, limit: u32) -> Result<Option<[u32; 3]>, DriverError> {
    if groups == 0 {
        return Ok(None);
    }
    // Kernels number workgroups in 32 bits, including the surplus ones.
    let side = u64::from(limit);
    let most = side.saturating_mul(side).saturating_mul(side).min(u64::from(u32::MAX) - 2 * side);
    if groups > most {
        return Err(DriverError::TooManyGroups { kernel: kernel.to_owned(), groups, limit: most });
    }
    let z = groups.div_ceil(side * side);
    let y = groups.div_ceil(side * z);
    let x = groups.div_ceil(y * z);
    Ok(Some([x, y, z].map(|n| n as u32)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_groups_are_one_row() {
        assert_eq!(split("k", 0, 100), Ok(None));
        assert_eq!(split("k", 1, 100), Ok(Some([1, 1, 1])));
        assert_eq!(split("k", 100, 100), Ok(Some([100, 1, 1])));
        assert_eq!(split("k", 101, 100), Ok(Some([51, 2, 1])));
        assert_eq!(split("k", 65_536, 65_535), Ok(Some([32_768, 2, 1])));
        let error = split("big", 1_000_001, 100).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel `big`: 1000001 workgroups, the device runs 1000000 in one launch"
        );
    }

    proptest! {
        #[test]
        fn all_groups_run_and_few_more(groups in 1u64..4_000_000_000, limit in 1700u32..70_000) {
            let [x, y, z] = split("k", groups, limit).unwrap().unwrap();
            let whole = u64::from(x) * u64::from(y) * u64::from(z);
            prop_assert!(x <= limit && y <= limit && z <= limit);
            prop_assert!(whole >= groups && whole - groups < u64::from(y) * u64::from(z));
            prop_assert!(u32::try_from(whole).is_ok());
        }
    }
}
