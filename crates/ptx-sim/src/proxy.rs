//! What is done to shared memory behind the threads' backs: copies of tiles, and products of warpgroups.
//!
//! A copy that writes may do so at any time until its barrier's phase is complete, one that reads, and a product, until they are waited for. So whoever
//! touches what is written meanwhile is told, and whoever writes what is read. Afterwards it counts as done at a moment that
//! those know who waited. They work through another path to memory than threads: what threads wrote, they see only behind a fence of the writer
//! ([`ptx_asm::Inst::FenceProxyAsync`]).

use smallvec::SmallVec;

use super::clocks::{Clocks, Moment, SEVERAL, Who};
use super::fault::{Access, Party};

/// What of the memory of a block is touched by copies and products. It is kept for chunks of 16 bytes, of which none touches a part.
#[derive(Debug, Default)]
pub(super) struct Proxy {
    chunks: Vec<Chunk>,
    /// Of each byte, one more than the thread that wrote it and has not fenced since, or [`WARP`] and its warp if several did; else 0.
    unfenced: Vec<u16>,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// One more than the thread whose copy may be writing it.
    writing: u32,
    /// Who may be reading it.
    reading: SmallVec<[Party; 2]>,
    /// The last write, and the reads since, that are over.
    wrote: Option<(Moment, Party)>,
    read: SmallVec<[(Moment, Party); 2]>,
}

/// Why something may not be touched, and the first byte that forbids it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clash {
    /// A copy may be writing it.
    Written { at: usize, thread: u32 },
    /// It may still be read.
    Read { at: usize, by: Party },
    /// Nothing orders the two.
    Race { at: usize, other: Party, other_access: Access },
    /// A thread wrote it and did not fence.
    Unfenced { at: usize, writer: Party },
}

const CHUNK: usize = 16;

const WARP: u16 = 1 << 15;

impl Proxy {
    /// Of so many bytes.
    pub(super) fn new(bytes: usize) -> Proxy {
        Proxy { bytes, ..Proxy::default() }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.unfenced.clear();
    }

    /// Whether somebody may touch these bytes now.
    #[inline]
    pub(super) fn check(
        &self,
        at: usize,
        bytes: usize,
        writes: bool,
        who: &Who,
        clocks: &Clocks,
    ) -> Result<(), Clash> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        for i in at / CHUNK..(at + bytes).div_ceil(CHUNK) {
            self.chunks[i].check(at.max(i * CHUNK), writes, who, clocks)?;
        }
        Ok(())
    }

    /// Whether no thread wrote these bytes without a fence since.
    pub(super) fn fenced(&self, at: usize, bytes: usize) -> Result<(), Clash> {
        let Some(unfenced) = self.unfenced.get(at..at + bytes) else { return Ok(()) };
        match unfenced.iter().position(|&writer| writer != 0) {
            None => Ok(()),
            Some(i) => {
                let (at, code) = (at + i, u32::from(unfenced[i]));
                let is_warp = unfenced[i] >= WARP;
                let writer =
                    if is_warp { Party::Warp(code - u32::from(WARP)) } else { Party::Thread(code - 1) };
                Err(Clash::Unfenced { at, writer })
            }
        }
    }

    /// A thread, or several of a warp, wrote these bytes themselves.
    pub(super) fn written(&mut self, at: usize, bytes: usize, who: &Who) {
        self.unfenced.resize(self.bytes, 0);
        let code = if who.thread == SEVERAL { WARP | who.warp as u16 } else { who.thread + 1 };
        self.unfenced[at..at + bytes].fill(code);
    }

    /// Lanes of a warp fence what they wrote; all of them what they wrote together.
    pub(super) fn fence(&mut self, warp: u32, mask: u32, whole: bool) {
        let (first, together) = (warp as u16 * 32 + 1, WARP | warp as u16);
        for code in self.unfenced.iter_mut().filter(|code| **code != 0) {
            let lane = code.wrapping_sub(first);
            if lane < 32 && mask >> lane & 1 == 1 || whole && *code == together {
                *code = 0;
            }
        }
    }

    fn chunks(&mut self, at: usize, bytes: usize) -> &mut [Chunk] {
        self.chunks.resize(self.bytes.div_ceil(CHUNK), Chunk::default());
        &mut self.chunks[at / CHUNK..(at + bytes).div_ceil(CHUNK)]
    }

    /// A copy of a thread may write these bytes from now on.
    pub(super) fn begin_write(&mut self, at: usize, bytes: usize, thread: u16) {
        self.chunks(at, bytes).iter_mut().for_each(|chunk| chunk.writing = u32::from(thread) + 1);
    }

    /// It has, at a moment that those know who waited.
    pub(super) fn end_write(&mut self, at: usize, bytes: usize, when: Moment) {
        for chunk in self.chunks(at, bytes) {
            let thread = std::mem::take(&mut chunk.writing).saturating_sub(1);
            chunk.wrote = Some((when, Party::Tile(thread)));
            chunk.read.clear();
        }
    }

    /// Somebody may read these bytes from now on.
    pub(super) fn begin_read(&mut self, at: usize, bytes: usize, by: Party) {
        self.chunks(at, bytes).iter_mut().for_each(|chunk| chunk.reading.push(by));
    }

    /// It has.
    pub(super) fn end_read(&mut self, at: usize, bytes: usize, by: Party, when: Moment) {
        for chunk in self.chunks(at, bytes) {
            if let Some(i) = chunk.reading.iter().position(|reader| *reader == by) {
                chunk.reading.swap_remove(i);
            }
            // Who knows of a later moment of the same kind knows of the earlier ones.
            chunk.read.retain(|(moment, _)| moment.column != when.column);
            chunk.read.push((when, by));
        }
    }
}

impl Chunk {
    fn check(&self, at: usize, writes: bool, who: &Who, clocks: &Clocks) -> Result<(), Clash> {
        if self.writing != 0 {
            return Err(Clash::Written { at, thread: self.writing - 1 });
        }
        if let Some((when, other)) = self.wrote
            && !clocks.knows(who, when)
        {
            return Err(Clash::Race { at, other, other_access: Access::Write });
        }
        if !writes {
            return Ok(());
        }
        if let Some(&by) = self.reading.first() {
            return Err(Clash::Read { at, by });
        }
        match self.read.iter().find(|(when, _)| !clocks.knows(who, *when)) {
            Some(&(_, other)) => Err(Clash::Race { at, other, other_access: Access::Read }),
            None => Ok(()),
        }
    }
}
