//! Race detector: finds accesses of one byte by two threads, one of them writing, that no barrier orders.
//!
//! Only barriers order threads of a block or cluster, and nothing orders the blocks of a launch. The detector
//! does not understand fences and synchronization through atomics, and reports kernels that rely on them.
//! Atomic operations never race with each other.
//!
//! An access has the time of its warp ([`VectorClocks`]). It is ordered before a later access of another
//! thread if that thread's clock includes the time, or includes a later arrival of the first thread at an
//! mbarrier. Between threads of one warp the same rule holds: the warp's own component must have advanced
//! since the first access.

use std::collections::HashMap;

use super::fault::{AccessKind, Accessor};
use super::vector_clocks::{SEVERAL_THREADS, ThreadRef, VectorClocks};

/// Accesses of a byte at one time, by threads of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AccessSet {
    time: u32,
    /// Mask of the warps; 0 if there was no access.
    warps: u32,
    /// Index of the thread, or [`SEVERAL_THREADS`].
    thread: u16,
    /// Number of the thread's arrivals at mbarriers, without the other lanes of its warp, before the access.
    turn: u16,
}

impl AccessSet {
    pub(super) fn one(who: &ThreadRef, clocks: &VectorClocks) -> AccessSet {
        AccessSet { time: clocks.now(who), warps: 1 << who.warp, thread: who.thread, turn: clocks.turn(who) }
    }

    /// Whether this thread alone made the accesses.
    pub(super) fn is_of(&self, who: &ThreadRef) -> bool {
        self.warps == 1 << who.warp && self.thread == who.thread
    }

    /// An access from block `rank` of the cluster that is unordered with the next access of `who`.
    #[inline]
    pub(super) fn unordered(&self, rank: u32, who: &ThreadRef, clocks: &VectorClocks) -> Option<Accessor> {
        let same = self.thread == who.thread && who.thread != SEVERAL_THREADS && who.rank == rank;
        if self.warps == 0 || same {
            return None;
        }
        let mut warps = self.warps;
        while warps != 0 {
            let warp = warps.trailing_zeros();
            if self.time > clocks.over(clocks.row(rank, warp), who) {
                let one = self.thread != SEVERAL_THREADS;
                if one && clocks.knows_turn(who, rank, self.thread, self.turn) {
                    return None;
                }
                return Some(if one {
                    Accessor::Thread(u32::from(self.thread))
                } else {
                    Accessor::Warp(warp)
                });
            }
            warps &= warps - 1;
        }
        None
    }
}

/// Indices of [`ShadowCell::sets`], and bit numbers of [`ShadowCell::former`].
const READ: usize = 0;
const WRITE: usize = 1;
const ATOMIC: usize = 2;

/// The access history of one byte or of several bytes that are accessed together.
#[derive(Clone, Copy, Debug, Default)]
struct ShadowCell {
    /// The block whose accesses `sets` holds, plus one.
    block: u32,
    /// The last earlier block that accessed the byte, plus one.
    former_block: u32,
    /// Mask of the kinds of access by earlier blocks.
    former: u8,
    /// Whether a thread read the byte as constant.
    constant: bool,
    /// Whether [`ShadowMemory::more`] has further accesses.
    more: bool,
    /// The latest reads, writes and atomic updates.
    sets: [AccessSet; 3],
}

/// Two unordered accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct RaceConflict {
    /// Offset of the byte.
    pub(super) at: usize,
    pub(super) other: Accessor,
    /// Kind of the other access; `None` if one of the two accesses is a constant read, and the other one
    /// writes.
    pub(super) access: Option<AccessKind>,
}

/// The access history of a buffer, or of a block's shared memory.
#[derive(Debug)]
pub(super) struct ShadowMemory {
    /// Pages of cells; `None` for pages without accesses.
    pages: Vec<Option<ShadowPage>>,
    /// Accesses that are unordered with later ones of the same kind, by the offset of the cell's first byte;
    /// rare.
    more: HashMap<usize, Vec<(usize, AccessSet)>>,
    /// The block that owns the memory, and its rank in its cluster; `None` for global memory.
    of: Option<(u32, u32)>,
}

/// The cells of [`PAGE`] bytes.
#[derive(Clone, Debug)]
struct ShadowPage {
    /// Bytes per cell, always accessed together.
    grain: usize,
    cells: Vec<ShadowCell>,
}

/// Bytes of a page, a multiple of [`MAX_ACCESS`].
const PAGE: usize = 128;

/// The largest access in bytes.
const MAX_ACCESS: usize = 16;

/// The kinds of access that race with this one.
fn conflicting(access: AccessKind) -> &'static [usize] {
    match access {
        AccessKind::Read | AccessKind::Constant => &[WRITE, ATOMIC],
        AccessKind::Write => &[WRITE, READ, ATOMIC],
        AccessKind::Atomic => &[WRITE, READ],
    }
}

fn kind(access: AccessKind) -> usize {
    match access {
        AccessKind::Read | AccessKind::Constant => READ,
        AccessKind::Write => WRITE,
        AccessKind::Atomic => ATOMIC,
    }
}

fn access_of(kind: usize) -> AccessKind {
    [AccessKind::Read, AccessKind::Write, AccessKind::Atomic][kind]
}

impl ShadowMemory {
    pub(super) fn new(bytes: usize, of: Option<(u32, u32)>) -> ShadowMemory {
        ShadowMemory { pages: vec![None; bytes.div_ceil(PAGE)], more: HashMap::new(), of }
    }

    /// Makes another block the owner of the memory. Accesses of earlier owners are ignored from then on.
    pub(super) fn pass_to(&mut self, block: u32, rank: u32) {
        self.of = Some((block, rank));
    }

    /// A block and its rank in its cluster: the owner of the memory, or the block of `who` if the memory is
    /// global.
    fn home(&self, who: &ThreadRef) -> (u32, u32) {
        self.of.unwrap_or((who.block, who.rank))
    }

    /// Checks that an access of `who` races with no earlier one.
    pub(super) fn check(
        &mut self,
        at: usize,
        bytes: usize,
        access: AccessKind,
        who: &ThreadRef,
        clocks: &VectorClocks,
    ) -> Result<(), RaceConflict> {
        let (grain, (block, rank)) = (self.refine(at, bytes), self.home(who));
        for at in (at..at + bytes).step_by(grain) {
            let cell = *self.cell(at, block);
            let more = if cell.more { self.more.get(&at).map_or(&[][..], |more| more) } else { &[] };
            if let Some((other, access)) = cell.conflict(more, access, (who, rank), clocks) {
                return Err(RaceConflict { at, other, access });
            }
        }
        Ok(())
    }

    /// Records an access that passed [`Self::check`].
    pub(super) fn record_access(
        &mut self,
        at: usize,
        bytes: usize,
        access: AccessKind,
        who: &ThreadRef,
        clocks: &VectorClocks,
    ) {
        let new = AccessSet::one(who, clocks);
        let grain = self.refine(at, bytes);
        for at in (at..at + bytes).step_by(grain) {
            // Only threads of the owning block access shared memory, so `who.block` is the owner.
            let cell = self.cell(at, who.block);
            cell.constant |= access == AccessKind::Constant;
            if access == AccessKind::Write {
                // Earlier accesses are ordered before this write, and so before everything that follows the
                // write.
                cell.sets = [AccessSet::default(), new, AccessSet::default()];
                if std::mem::take(&mut cell.more) {
                    self.more.remove(&at);
                }
                continue;
            }
            let set = &mut cell.sets[kind(access)];
            if *set == new || set.unordered(who.rank, who, clocks).is_none() {
                *set = new;
            } else if set.time == new.time {
                set.warps |= new.warps;
                set.thread = if set.thread == new.thread { new.thread } else { SEVERAL_THREADS };
                set.turn = new.turn.max(set.turn);
            } else {
                let old = std::mem::replace(set, new);
                cell.more = true;
                self.more.entry(at).or_default().push((kind(access), old));
            }
        }
    }

    /// Splits the cells of a page so that the range consists of whole cells, and returns the cell size. The
    /// range lies in one page, because it is aligned to the next power of two, at most 16.
    fn refine(&mut self, at: usize, bytes: usize) -> usize {
        let wanted = 1 << (at | bytes | MAX_ACCESS).trailing_zeros();
        let first = at / PAGE * PAGE;
        let page = self.pages[at / PAGE].get_or_insert_with(|| ShadowPage {
            grain: wanted,
            cells: vec![ShadowCell::default(); PAGE / wanted],
        });
        if page.grain <= wanted {
            return page.grain;
        }
        let parts = page.grain / wanted;
        for (i, _) in page.cells.iter().enumerate().filter(|(_, cell)| cell.more) {
            let start = first + i * page.grain;
            if let Some(more) = self.more.get(&start).cloned() {
                let others = (1..parts).map(|part| (start + part * wanted, more.clone()));
                self.more.extend(others);
            }
        }
        page.cells = page.cells.iter().flat_map(|&cell| std::iter::repeat_n(cell, parts)).collect();
        page.grain = wanted;
        wanted
    }

    /// The cell at an offset, after [`Self::refine`]. Accesses of other blocks move to the cell's history of
    /// earlier blocks.
    fn cell(&mut self, at: usize, block: u32) -> &mut ShadowCell {
        let empty = || ShadowPage { grain: 1, cells: vec![ShadowCell::default(); PAGE] };
        let page = self.pages[at / PAGE].get_or_insert_with(empty);
        let cell = &mut page.cells[at % PAGE / page.grain];
        if cell.block != block + 1 {
            if std::mem::take(&mut cell.more) {
                self.more.remove(&at);
            }
            if self.of.is_some() {
                *cell = ShadowCell::default();
            } else {
                cell.retire();
            }
            cell.block = block + 1;
        }
        cell
    }
}

impl ShadowCell {
    /// Moves the accesses of the current block to the history of earlier blocks.
    fn retire(&mut self) {
        for (kind, set) in self.sets.iter_mut().enumerate() {
            if set.warps != 0 {
                self.former |= 1 << kind;
                self.former_block = self.block;
            }
            *set = AccessSet::default();
        }
    }

    /// An earlier access that races with this one, and its kind.
    #[inline]
    fn conflict(
        &self,
        more: &[(usize, AccessSet)],
        access: AccessKind,
        (who, rank): (&ThreadRef, u32),
        clocks: &VectorClocks,
    ) -> Option<(Accessor, Option<AccessKind>)> {
        if let Some(other) = self.not_constant(access) {
            return Some((other, None));
        }
        for &kind in conflicting(access) {
            let found = if self.former >> kind & 1 == 1 {
                Some(Accessor::Block(self.former_block - 1))
            } else {
                self.sets[kind].unordered(rank, who, clocks)
            };
            if let Some(other) = found {
                return Some((other, Some(access_of(kind))));
            }
        }
        more.iter().find_map(|(kind, set)| {
            let other = set.unordered(rank, who, clocks).filter(|_| conflicting(access).contains(kind))?;
            Some((other, Some(access_of(*kind))))
        })
    }

    /// The accessor with which this access violates the rule that no thread writes constant data: an earlier
    /// writer for a constant read, or an earlier reader for a write of constant data.
    fn not_constant(&self, access: AccessKind) -> Option<Accessor> {
        let kinds: &[usize] = match access {
            AccessKind::Constant => &[WRITE, ATOMIC],
            AccessKind::Write | AccessKind::Atomic if self.constant => &[READ],
            _ => return None,
        };
        kinds.iter().find_map(|&kind| {
            let set = self.sets[kind];
            if set.warps == 0 {
                return (self.former >> kind & 1 == 1).then(|| Accessor::Block(self.former_block - 1));
            }
            let one = set.thread != SEVERAL_THREADS;
            Some(if one {
                Accessor::Thread(u32::from(set.thread))
            } else {
                Accessor::Warp(set.warps.trailing_zeros())
            })
        })
    }
}
