//! Capabilities of an adapter, derived from its limits and features.

use codegen_core::{Caps, DTypeSet, Workgroups};
use tnode::DType;
use wgpu::{Features, Limits};

/// Maximum number of threads per workgroup for codegens: more threads make none of the kernels faster, and
/// browsers have this as their default limit.
const MAX_THREADS: u32 = 256;

/// Minimum alignment of buffers and nodes, in bytes: on every device, multiples of it are valid dynamic
/// offsets.
const MIN_ALIGNMENT: usize = 256;

/// The size of the largest buffer whose bytes `i32` can number, so that computed indices fit.
const MAX_INDEXABLE_BYTES: u64 = (1 << 31) - MIN_ALIGNMENT as u64;

pub(crate) fn caps(limits: &Limits, features: Features) -> Caps {
    let workgroups = Workgroups::new(
        limits
            .max_compute_invocations_per_workgroup
            .min(limits.max_compute_workgroup_size_x)
            .min(MAX_THREADS),
        limits.max_compute_workgroup_storage_size as usize,
    );
    Caps { arithmetic: arithmetic(features), alignment: alignment(limits), ..Caps::gpu("wgpu", workgroups) }
}

/// The types with native arithmetic.
fn arithmetic(features: Features) -> DTypeSet {
    let always = [DType::Bool, DType::I32, DType::U32, DType::F32, DType::U32x4];
    let with = [
        (Features::SHADER_F16, DType::F16),
        (Features::SHADER_INT64, DType::I64),
        (Features::SHADER_INT64, DType::U64),
        (Features::SHADER_F64, DType::F64),
    ];
    let there = with.into_iter().filter(|(feature, _)| features.contains(*feature));
    always.into_iter().chain(there.map(|(_, dtype)| dtype)).collect()
}

/// Alignment of pools and of nodes in them, in bytes.
pub(crate) fn alignment(limits: &Limits) -> usize {
    (limits.min_storage_buffer_offset_alignment as usize).max(MIN_ALIGNMENT)
}

/// Size of the largest pool, in bytes: the size of the largest binding, rounded down to the alignment.
pub(crate) fn largest_pool(limits: &Limits) -> usize {
    let bytes = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(MAX_INDEXABLE_BYTES);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    bytes - bytes % alignment(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_features_and_workgroups_follow_limits() {
        let small = caps(&Limits::downlevel_defaults(), Features::empty());
        assert!(small.storage.contains(DType::F64) && !small.arithmetic.contains(DType::F64));
        assert!(!small.arithmetic.contains(DType::F16) && !small.arithmetic.contains(DType::U8));
        let limits = Limits {
            max_compute_invocations_per_workgroup: 1024,
            max_compute_workgroup_size_x: 128,
            min_storage_buffer_offset_alignment: 512,
            ..Limits::default()
        };
        let large = caps(&limits, Features::SHADER_F16 | Features::SHADER_INT64);
        let types = [DType::F16, DType::I64, DType::U64];
        assert!(types.iter().all(|dtype| large.arithmetic.contains(*dtype)));
        assert_eq!(large.workgroups.map(|groups| groups.threads), Some(128));
        assert_eq!((large.alignment, large.index), (512, DType::I32));
    }

    #[test]
    fn the_largest_pool_is_what_a_binding_reaches() {
        let limits = Limits { max_storage_buffer_binding_size: (1 << 20) + 7, ..Limits::default() };
        assert_eq!(largest_pool(&limits), 1 << 20);
        let limits = Limits { max_storage_buffer_binding_size: 1 << 40, max_buffer_size: 1 << 40, ..limits };
        assert_eq!(largest_pool(&limits), (1 << 31) - 256);
    }
}
