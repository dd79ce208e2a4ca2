//! Kernels whose memory lies in more slabs than the device binds.
//!
//! Slabs are few, but a kernel of many nodes may still reach more of them than an adapter binds: as few as
//! four. The slabs that hold the fewest bytes of the kernel are not bound then. Their regions are *packed*
//! into buffers of their own. Each launch copies the regions there and copies back what the kernel writes;
//! the copies and the dispatch are one command, so no launch on another stream comes between.

use std::{collections::BTreeMap, sync::Arc};

use codegen_core::Access;
use device_runtime::DriverError;

use crate::slab::{MemoryRegion, SlabAllocator};

/// Most regions of a kernel that are packed. The tables of their copies must fit a batch.
const MAX_PACKED: usize = 256;

/// A region of a kernel that is bound at another place.
#[derive(Debug)]
pub(crate) struct PackedRegion {
    /// The node's memory.
    pub(crate) home: MemoryRegion,
    /// The memory that the kernel binds instead.
    pub(crate) packed: MemoryRegion,
    /// Whether the kernel writes it.
    pub(crate) is_written: bool,
}

/// Packs regions of the kernel until it reaches at most `limit` slabs; `regions` then has the memory to bind.
///
/// # Errors
///
/// [`DriverError::TooManyBuffers`] if `limit` bindings of the largest size do not reach so much memory, or if
/// it is in too many pieces, and errors of allocating the packed memory.
pub(crate) fn pack(
    kernel: &str,
    slabs: &Arc<SlabAllocator>,
    limit: usize,
    accesses: impl Iterator<Item = Access>,
    regions: &mut [MemoryRegion],
) -> Result<Vec<PackedRegion>, DriverError> {
    let sizes: Vec<(u32, usize)> =
        regions.iter().map(|region| (region.slab().id, slabs.rounded(region.bytes))).collect();
    let mut by_slab: BTreeMap<u32, usize> = BTreeMap::new();
    sizes.iter().for_each(|&(slab, bytes)| *by_slab.entry(slab).or_default() += bytes);
    if by_slab.len() <= limit {
        return Ok(Vec::new());
    }
    let too_many = DriverError::TooManyBuffers { kernel: kernel.to_owned(), needed: by_slab.len(), limit };
    let mut lightest: Vec<u32> = by_slab.keys().copied().collect();
    lightest.sort_by_key(|slab| by_slab[slab]);
    let plan = (1..=limit).find_map(|buffers| {
        let packed = &lightest[..lightest.len() - (limit - buffers)];
        let bytes = |&(slab, bytes): &(u32, usize)| packed.contains(&slab).then_some(bytes);
        fit(&sizes.iter().map(bytes).collect::<Vec<_>>(), slabs.largest(), buffers)
    });
    let few = |plan: &Plan| plan.places.iter().flatten().count() <= MAX_PACKED;
    let Plan { places, buffers } = plan.filter(few).ok_or(too_many)?;
    let total: usize = buffers.iter().sum();
    tracing::warn!(
        kernel,
        slabs = by_slab.len(),
        limit,
        bytes = total,
        "each run copies the memory of a kernel"
    );
    let buffers =
        buffers.into_iter().map(|bytes| slabs.allocate_apart(bytes)).collect::<Result<Vec<_>, _>>()?;
    // Two parameters may be the same memory; they stay the same memory.
    let mut packed: Vec<PackedRegion> = Vec::new();
    for ((region, place), access) in regions.iter_mut().zip(places).zip(accesses) {
        let Some((buffer, offset)) = place else { continue };
        let is_written = access != Access::Read;
        let known = packed.iter_mut().find(|known| known.home.is_same(region));
        let bound = match known {
            Some(known) => {
                known.is_written |= is_written;
                known.packed.clone()
            }
            None => {
                let bound = MemoryRegion::within(&buffers[buffer], offset, region.bytes);
                packed.push(PackedRegion { home: region.clone(), packed: bound.clone(), is_written });
                bound
            }
        };
        *region = bound;
    }
    Ok(packed)
}

/// Where regions are packed.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The buffer and the offset in it of each region; `None` for regions that stay where they are.
    places: Vec<Option<(usize, usize)>>,
    /// The size of each buffer, in bytes.
    buffers: Vec<usize>,
}

/// Packs regions, each into the first buffer with room, if `most` buffers of `largest` bytes suffice.
fn fit(regions: &[Option<usize>], largest: usize, most: usize) -> Option<Plan> {
    let mut buffers: Vec<usize> = Vec::new();
    let place = |region: &Option<usize>| {
        let Some(bytes) = *region else { return Some(None) };
        let at = buffers.iter().position(|used| largest - used >= bytes).unwrap_or(buffers.len());
        if at == buffers.len() {
            buffers.push(0);
        }
        let offset = buffers[at];
        buffers[at] += bytes;
        (at < most && buffers[at] <= largest).then_some(Some((at, offset)))
    };
    let places = regions.iter().map(place).collect::<Option<Vec<_>>>()?;
    Some(Plan { places, buffers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_go_to_the_first_buffer_with_room() {
        let regions = [Some(6), None, Some(5), Some(4), Some(5)];
        let plan = fit(&regions, 10, 2).expect("two buffers suffice");
        assert_eq!(plan.places, [Some((0, 0)), None, Some((1, 0)), Some((0, 6)), Some((1, 5))]);
        assert_eq!(plan.buffers, [10, 10]);
        assert_eq!(fit(&regions, 10, 1), None);
        assert_eq!(fit(&[Some(11)], 10, 3), None);
        assert_eq!(fit(&[None], 10, 1), Some(Plan { places: vec![None], buffers: vec![] }));
    }
}
