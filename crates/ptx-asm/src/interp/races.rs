//! Races: accesses of one byte by two threads, one of them writing, that no barrier orders.
//!
//! Barriers are the only order between threads of a block, and nothing orders blocks of one launch; fences and what atomic operations
//! pass on are not understood, so a kernel that relies on them is reported. Atomic operations never race with each other.
//!
//! Every warp has a clock, which barriers advance, and knows how far the other clocks were when it last met them, directly or through
//! others. An access bears the time of its warp; it is ordered before a later one of another thread if that thread's warp knows a later
//! time of the first warp. Threads of one warp are ordered by barriers too: the warp's own clock has to have advanced.

use std::collections::HashMap;

use super::fault::{Access, Party};

/// Who does something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub(super) block: u32,
    /// The thread's number in the block, or [`SEVERAL`].
    pub(super) thread: u16,
    pub(super) warp: u32,
}

/// Threads of a warp that do something together.
pub(super) const SEVERAL: u16 = u16::MAX;

/// What the warps of a block know of each other.
#[derive(Debug)]
pub(super) struct Clocks {
    warps: usize,
    /// Row by row: the last time of a warp (column) that this one (row) knows to be over.
    over: Vec<u32>,
}

impl Clocks {
    pub(super) fn new(warps: u32) -> Clocks {
        let warps = warps as usize;
        Clocks { warps, over: vec![0; warps * warps] }
    }

    fn over(&self, of: u32, known_to: u32) -> u32 {
        self.over[known_to as usize * self.warps + of as usize]
    }

    /// The time that a warp's accesses bear.
    fn now(&self, warp: u32) -> u32 {
        self.over(warp, warp) + 1
    }

    /// These warps meet: what one did before, all know to be over.
    pub(super) fn meet(&mut self, warps: &[u32]) {
        let rows: Vec<usize> = warps.iter().map(|&warp| warp as usize * self.warps).collect();
        for (row, &warp) in rows.iter().zip(warps) {
            self.over[row + warp as usize] += 1;
        }
        for column in 0..self.warps {
            let most = rows.iter().map(|row| self.over[row + column]).max().unwrap_or(0);
            rows.iter().for_each(|row| self.over[row + column] = most);
        }
    }
}

/// Accesses of a byte at one time by threads of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set {
    time: u32,
    /// The warps, bit by bit; 0 if there was no access.
    warps: u32,
    /// The thread, or [`SEVERAL`].
    thread: u16,
}

impl Set {
    fn one(who: &Who, clocks: &Clocks) -> Set {
        Set { time: clocks.now(who.warp), warps: 1 << who.warp, thread: who.thread }
    }

    /// One that nothing orders before an access of `who` now.
    #[inline]
    fn unordered(&self, who: &Who, clocks: &Clocks) -> Option<Party> {
        if self.warps == 0 || self.thread == who.thread && who.thread != SEVERAL {
            return None;
        }
        let mut warps = self.warps;
        while warps != 0 {
            let warp = warps.trailing_zeros();
            if self.time > clocks.over(warp, who.warp) {
                let one = self.thread != SEVERAL;
                return Some(if one { Party::Thread(u32::from(self.thread)) } else { Party::Warp(warp) });
            }
            warps &= warps - 1;
        }
        None
    }
}

/// Positions of [`Cell::sets`], and bits of [`Cell::former`].
const READ: usize = 0;
const WRITE: usize = 1;
const ATOMIC: usize = 2;

/// What was done to a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// One more than the block whose accesses `sets` are.
    block: u32,
    /// One more than the last block before it that accessed the byte.
    former_block: u32,
    /// What former blocks did.
    former: u8,
    /// Whether any thread read it as constant.
    constant: bool,
    /// Whether there are more sets than these, in [`Shadow::more`].
    more: bool,
    /// The latest reads, writes and atomic updates.
    sets: [Set; 3],
}

/// Two accesses that nothing orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    /// The byte.
    pub(super) at: usize,
    pub(super) other: Party,
    /// What the other did; nothing, if the only thing wrong is that one of the two reads a constant.
    pub(super) access: Option<Access>,
}

/// What was done to each byte of some memory, as far as it matters.
#[derive(Debug)]
pub(super) struct Shadow {
    /// Bytes in groups; groups that nobody accessed have nothing.
    pages: Vec<Option<Page>>,
    /// Earlier accesses that are not ordered before the latest, of the bytes of the cell that begins there; rare.
    more: HashMap<usize, Vec<(usize, Set)>>,
    /// Whether each block has memory of its own, so that it does not matter what blocks before did.
    per_block: bool,
}

/// What was done to some bytes beside each other.
#[derive(Clone, Debug)]
struct Page {
    /// Bytes that one cell stands for: they were always accessed together.
    grain: usize,
    cells: Vec<Cell>,
}

/// Bytes of a page, a multiple of [`MOST`].
const PAGE: usize = 128;

/// The most bytes that are accessed together.
const MOST: usize = 16;

/// The kinds of accesses that race with this one.
fn conflicting(access: Access) -> &'static [usize] {
    match access {
        Access::Read | Access::Constant => &[WRITE, ATOMIC],
        Access::Write => &[WRITE, READ, ATOMIC],
        Access::Atomic => &[WRITE, READ],
    }
}

fn kind(access: Access) -> usize {
    match access {
        Access::Read | Access::Constant => READ,
        Access::Write => WRITE,
        Access::Atomic => ATOMIC,
    }
}

fn access_of(kind: usize) -> Access {
    [Access::Read, Access::Write, Access::Atomic][kind]
}

impl Shadow {
    pub(super) fn new(bytes: usize, per_block: bool) -> Shadow {
        Shadow { pages: vec![None; bytes.div_ceil(PAGE)], more: HashMap::new(), per_block }
    }

    /// Whether `who` may do this to these bytes now.
    pub(super) fn check(
        &mut self,
        at: usize,
        bytes: usize,
        access: Access,
        who: &Who,
        clocks: &Clocks,
    ) -> Result<(), Conflict> {
        let grain = self.refine(at, bytes);
        for at in (at..at + bytes).step_by(grain) {
            let cell = *self.cell(at, who.block);
            let more = if cell.more { self.more.get(&at).map_or(&[][..], |more| more) } else { &[] };
            if let Some((other, access)) = cell.conflict(more, access, who, clocks) {
                return Err(Conflict { at, other, access });
            }
        }
        Ok(())
    }

    /// Remembers that `who` did this, after [`Self::check`].
    pub(super) fn mark(&mut self, at: usize, bytes: usize, access: Access, who: &Who, clocks: &Clocks) {
        let new = Set::one(who, clocks);
        let grain = self.refine(at, bytes);
        for at in (at..at + bytes).step_by(grain) {
            let cell = self.cell(at, who.block);
            cell.constant |= access == Access::Constant;
            if access == Access::Write {
                // All that was done before is ordered before this, and so before whatever this is ordered before.
                cell.sets = [Set::default(), new, Set::default()];
                if std::mem::take(&mut cell.more) {
                    self.more.remove(&at);
                }
                continue;
            }
            let set = &mut cell.sets[kind(access)];
            if *set == new || set.unordered(who, clocks).is_none() {
                *set = new;
            } else if set.time == new.time {
                set.warps |= new.warps;
                set.thread = if set.thread == new.thread { new.thread } else { SEVERAL };
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
        let page = self.pages[at / PAGE]
            .get_or_insert_with(|| Page { grain: wanted, cells: vec![Cell::default(); PAGE / wanted] });
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
    fn cell(&mut self, at: usize, block: u32) -> &mut Cell {
        let empty = || Page { grain: 1, cells: vec![Cell::default(); PAGE] };
        let page = self.pages[at / PAGE].get_or_insert_with(empty);
        let cell = &mut page.cells[at % PAGE / page.grain];
        if cell.block != block + 1 {
            if std::mem::take(&mut cell.more) {
                self.more.remove(&at);
            }
            if self.per_block {
                *cell = Cell::default();
            } else {
                cell.retire();
            }
            cell.block = block + 1;
        }
        cell
    }
}

impl Cell {
    /// Its block is over.
    fn retire(&mut self) {
        for (kind, set) in self.sets.iter_mut().enumerate() {
            if set.warps != 0 {
                self.former |= 1 << kind;
                self.former_block = self.block;
            }
            *set = Set::default();
        }
    }

    /// Who did something that races with this access, and what.
    #[inline]
    fn conflict(
        &self,
        more: &[(usize, Set)],
        access: Access,
        who: &Who,
        clocks: &Clocks,
    ) -> Option<(Party, Option<Access>)> {
        if let Some(other) = self.not_constant(access) {
            return Some((other, None));
        }
        for &kind in conflicting(access) {
            let found = if self.former >> kind & 1 == 1 {
                Some(Party::Block(self.former_block - 1))
            } else {
                self.sets[kind].unordered(who, clocks)
            };
            if let Some(other) = found {
                return Some((other, Some(access_of(kind))));
            }
        }
        more.iter().find_map(|(kind, set)| {
            let other = set.unordered(who, clocks).filter(|_| conflicting(access).contains(kind))?;
            Some((other, Some(access_of(*kind))))
        })
    }

    /// Who wrote what is now read as constant, or read as constant what is now written: in whatever order.
    fn not_constant(&self, access: Access) -> Option<Party> {
        let kinds: &[usize] = match access {
            Access::Constant => &[WRITE, ATOMIC],
            Access::Write | Access::Atomic if self.constant => &[READ],
            _ => return None,
        };
        kinds.iter().find_map(|&kind| {
            let set = self.sets[kind];
            if set.warps == 0 {
                return (self.former >> kind & 1 == 1).then(|| Party::Block(self.former_block - 1));
            }
            let one = set.thread != SEVERAL;
            Some(if one {
                Party::Thread(u32::from(set.thread))
            } else {
                Party::Warp(set.warps.trailing_zeros())
            })
        })
    }
}
