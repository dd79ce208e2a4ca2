//! What is done to shared memory behind the threads' backs: copies of tiles, and products of warpgroups.
//!
//! A copy that writes may do so at any time until its barrier's phase is complete, one that reads, and a product, until they are waited for. So whoever
//! touches what is written meanwhile is told, and whoever writes what is read. Afterwards it counts as done at a moment that
//! those know who waited. They work through another path to memory than threads: what threads wrote, they see only behind a fence of the writer
//! ([`ptx_asm::Inst::FenceProxyAsync`]).

use smallvec::SmallVec;

use super::fault::{AccessKind, Accessor};
use super::vector_clocks::{SEVERAL_THREADS, ThreadRef, Timestamp, VectorClocks};

/// What of the memory of a block is touched by copies and products. It is kept for chunks of 16 bytes, of which none touches a part.
#[derive(Debug, Default)]
pub(super) struct AsyncProxy {
    chunks: Vec<ProxyChunk>,
    /// Of each byte, one more than the thread that wrote it and has not fenced since, or [`WARP`] and its warp if several did; else 0.
    unfenced: Vec<u16>,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct ProxyChunk {
    /// One more than the thread whose copy may be writing it.
    writing: u32,
    /// Who may be reading it.
    reading: SmallVec<[Accessor; 2]>,
    /// The last write, and the reads since, that are over.
    wrote: Option<(Timestamp, Accessor)>,
    read: SmallVec<[(Timestamp, Accessor); 2]>,
}

/// Why something may not be touched, and the first byte that forbids it.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProxyConflict {
    /// A copy may be writing it.
    Written { at: usize, thread: u32 },
    /// It may still be read.
    Read { at: usize, by: Accessor },
    /// Nothing orders the two.
    Race { at: usize, other: Accessor, other_access: AccessKind },
    /// A thread wrote it and did not fence.
    Unfenced { at: usize, writer: Accessor },
}

const CHUNK: usize = 16;

const WARP: u16 = 1 << 15;

impl AsyncProxy {
    /// Of so many bytes.
    pub(super) fn new(bytes: usize) -> AsyncProxy {
        AsyncProxy { bytes, ..AsyncProxy::default() }
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
        who: &ThreadRef,
        clocks: &VectorClocks,
    ) -> Result<(), ProxyConflict> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        for i in at / CHUNK..(at + bytes).div_ceil(CHUNK) {
            self.chunks[i].check(at.max(i * CHUNK), writes, who, clocks)?;
        }
        Ok(())
    }

    /// Whether no thread wrote these bytes without a fence since.
    pub(super) fn fenced(&self, at: usize, bytes: usize) -> Result<(), ProxyConflict> {
        let Some(unfenced) = self.unfenced.get(at..at + bytes) else { return Ok(()) };
        match unfenced.iter().position(|&writer| writer != 0) {
            None => Ok(()),
            Some(i) => {
                let (at, code) = (at + i, u32::from(unfenced[i]));
                let is_warp = unfenced[i] >= WARP;
                let writer =
                    if is_warp { Accessor::Warp(code - u32::from(WARP)) } else { Accessor::Thread(code - 1) };
                Err(ProxyConflict::Unfenced { at, writer })
            }
        }
    }

    /// A thread, or several of a warp, wrote these bytes themselves.
    pub(super) fn written(&mut self, at: usize, bytes: usize, who: &ThreadRef) {
        self.unfenced.resize(self.bytes, 0);
        let code = if who.thread == SEVERAL_THREADS { WARP | who.warp as u16 } else { who.thread + 1 };
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

    fn chunks(&mut self, at: usize, bytes: usize) -> &mut [ProxyChunk] {
        self.chunks.resize(self.bytes.div_ceil(CHUNK), ProxyChunk::default());
        &mut self.chunks[at / CHUNK..(at + bytes).div_ceil(CHUNK)]
    }

    /// A copy of a thread may write these bytes from now on.
    pub(super) fn begin_write(&mut self, at: usize, bytes: usize, thread: u16) {
        self.chunks(at, bytes).iter_mut().for_each(|chunk| chunk.writing = u32::from(thread) + 1);
    }

    /// It has, at a moment that those know who waited.
    pub(super) fn end_write(&mut self, at: usize, bytes: usize, when: Timestamp) {
        for chunk in self.chunks(at, bytes) {
            let thread = std::mem::take(&mut chunk.writing).saturating_sub(1);
            chunk.wrote = Some((when, Accessor::Tma(thread)));
            chunk.read.clear();
        }
    }

    /// Somebody may read these bytes from now on.
    pub(super) fn begin_read(&mut self, at: usize, bytes: usize, by: Accessor) {
        self.chunks(at, bytes).iter_mut().for_each(|chunk| chunk.reading.push(by));
    }

    /// It has.
    pub(super) fn end_read(&mut self, at: usize, bytes: usize, by: Accessor, when: Timestamp) {
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

impl ProxyChunk {
    fn check(
        &self,
        at: usize,
        writes: bool,
        who: &ThreadRef,
        clocks: &VectorClocks,
    ) -> Result<(), ProxyConflict> {
        if self.writing != 0 {
            return Err(ProxyConflict::Written { at, thread: self.writing - 1 });
        }
        if let Some((when, other)) = self.wrote
            && !clocks.knows(who, when)
        {
            return Err(ProxyConflict::Race { at, other, other_access: AccessKind::Write });
        }
        if !writes {
            return Ok(());
        }
        if let Some(&by) = self.reading.first() {
            return Err(ProxyConflict::Read { at, by });
        }
        match self.read.iter().find(|(when, _)| !clocks.knows(who, *when)) {
            Some(&(_, other)) => Err(ProxyConflict::Race { at, other, other_access: AccessKind::Read }),
            None => Ok(()),
        }
    }
}
