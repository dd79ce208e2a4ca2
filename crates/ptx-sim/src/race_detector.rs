//! Races: accesses of one byte by two threads, one of them writing, that no barrier orders.
//!
//! Barriers are the only order between threads of a block or cluster, and nothing else orders blocks of one launch; fences and what atomic operations
//! pass on are not understood, so a kernel that relies on them is reported. Atomic operations never race with each other.
//!
//! An access bears the time of its warp ([`VectorClocks`]); it is ordered before a later one of another thread if that thread's warp, or it alone, knows that time to be over, or
//! knows that the thread arrived at a barrier in memory afterwards. Threads of one warp are ordered by barriers too: the warp's own clock has to have advanced.

use std::collections::HashMap;

use super::fault::{AccessKind, Accessor};
use super::vector_clocks::{SEVERAL_THREADS, ThreadRef, VectorClocks};

/// Accesses of a byte at one time by threads of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AccessSet {
    time: u32,
    /// The warps, bit by bit; 0 if there was no access.
    warps: u32,
    /// The thread, or [`SEVERAL_THREADS`].
    thread: u16,
    /// How often the thread had arrived alone.
    turn: u16,
}

impl AccessSet {
    pub(super) fn one(who: &ThreadRef, clocks: &VectorClocks) -> AccessSet {
        AccessSet { time: clocks.now(who), warps: 1 << who.warp, thread: who.thread, turn: clocks.turn(who) }
    }

    /// Whether it is what this thread did.
    pub(super) fn is_of(&self, who: &ThreadRef) -> bool {
        self.warps == 1 << who.warp && self.thread == who.thread
    }

    /// One of block `rank` of the cluster that nothing orders before an access of `who` now.
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

/// Positions of [`ShadowCell::sets`], and bits of [`ShadowCell::former`].
const READ: usize = 0;
const WRITE: usize = 1;
const ATOMIC: usize = 2;

/// What was done to a byte.
#[derive(Clone, Copy, Debug, Default)]
struct ShadowCell {
    /// One more than the block whose accesses `sets` are.
    block: u32,
    /// One more than the last block before it that accessed the byte.
    former_block: u32,
    /// What former blocks did.
    former: u8,
    /// Whether any thread read it as constant.
    constant: bool,
    /// Whether there are more sets than these, in [`ShadowMemory::more`].
    more: bool,
    /// The latest reads, writes and atomic updates.
    sets: [AccessSet; 3],
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct RaceConflict {
    /// The byte.
    pub(super) at: usize,
    pub(super) other: Accessor,
    /// What the other did; nothing, if the only thing wrong is that one of the two reads a constant.
    pub(super) access: Option<AccessKind>,
}

/// What was done to each byte of some memory, as far as it matters.
#[derive(Debug)]
pub(super) struct ShadowMemory {
    /// Bytes in groups; groups that nobody accessed have nothing.
    pages: Vec<Option<ShadowPage>>,
    /// Earlier accesses that are not ordered before the latest, of the bytes of the cell that begins there; rare.
    more: HashMap<usize, Vec<(usize, AccessSet)>>,
    /// The block whose memory it is and its number in its cluster; nothing of memory that all blocks have.
    of: Option<(u32, u32)>,
}

/// What was done to some bytes beside each other.
#[derive(Clone, Debug)]
struct ShadowPage {
    /// Bytes that one cell stands for: they were always accessed together.
    grain: usize,
    cells: Vec<ShadowCell>,
}

/// Bytes of a page, a multiple of [`MOST`].
const PAGE: usize = 128;

/// The most bytes that are accessed together.
const MOST: usize = 16;

/// The kinds of accesses that race with this one.
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

    /// Another block has the memory now, so that it does not matter what those before did.
    pub(super) fn pass_to(&mut self, block: u32, rank: u32) {
        self.of = Some((block, rank));
    }

    /// The block whose accesses matter, and its number in its cluster.
    fn home(&self, who: &ThreadRef) -> (u32, u32) {
        self.of.unwrap_or((who.block, who.rank))
    }

    /// Whether `who` may do this to these bytes now.
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

    /// Remembers that `who` did this, after [`Self::check`].
    pub(super) fn mark(
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
            // Of shared memory, `who` is one of the block that has it.
            let cell = self.cell(at, who.block);
            cell.constant |= access == AccessKind::Constant;
            if access == AccessKind::Write {
                // All that was done before is ordered before this, and so before whatever this is ordered before.
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

    /// Makes cells so small that these bytes are some of them; how small. The bytes lie in one page, since they are aligned to the next
    /// power of two, which is 16 at most.
    fn refine(&mut self, at: usize, bytes: usize) -> usize {
        let wanted = 1 << (at | bytes | MOST).trailing_zeros();
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

    /// What is known of the bytes of a cell, after [`Self::refine`]; what other blocks did is then what former ones did.
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
    /// Its block is over.
    fn retire(&mut self) {
        for (kind, set) in self.sets.iter_mut().enumerate() {
            if set.warps != 0 {
                self.former |= 1 << kind;
                self.former_block = self.block;
            }
            *set = AccessSet::default();
        }
    }

    /// Who did something that races with this access, and what.
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

    /// Who wrote what is now read as constant, or read as constant what is now written: in whatever order.
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
