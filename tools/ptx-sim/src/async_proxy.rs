//! Accesses of shared memory through the async proxy, by TMA and `wgmma`.
//!
//! A TMA load may write at any time until the phase of its mbarrier is complete. A TMA store and a `wgmma`
//! may read at any time until a thread waits for them. An access that conflicts with one in flight is a
//! fault. A completed access gets a timestamp, which threads acquire by waiting. The async proxy sees a
//! thread's writes only after a fence of the writer ([`ptx_asm::Inst::FenceProxyAsync`]).

use smallvec::SmallVec;

use super::fault::{AccessKind, Accessor};
use super::vector_clocks::{SEVERAL_THREADS, ThreadRef, Timestamp, VectorClocks};

/// The async-proxy state of a block's shared memory. Most of it is kept per chunk of 16 bytes, since every
/// access through the async proxy covers whole chunks.
#[derive(Debug, Default)]
pub(super) struct AsyncProxy {
    chunks: Vec<ProxyChunk>,
    /// For each byte, the last thread that wrote it without a later fence, plus one. [`WARP`] plus the warp
    /// stands for several lanes of a warp, and 0 for no such write.
    unfenced: Vec<u16>,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct ProxyChunk {
    /// The thread whose TMA load may be writing the chunk, plus one.
    writing: u32,
    /// Accesses that may be reading the chunk.
    reading: SmallVec<[Accessor; 2]>,
    /// The last completed write, and the completed reads since.
    wrote: Option<(Timestamp, Accessor)>,
    read: SmallVec<[(Timestamp, Accessor); 2]>,
}

/// Why an access conflicts with the async proxy, and the first byte of the conflict.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProxyConflict {
    /// A TMA load may be writing the byte.
    Written { at: usize, thread: u32 },
    /// The byte may still be read.
    Read { at: usize, by: Accessor },
    /// No wait orders a completed access before this one.
    Race { at: usize, other: Accessor, other_access: AccessKind },
    /// A thread wrote the byte and has executed no fence since.
    Unfenced { at: usize, writer: Accessor },
}

const CHUNK: usize = 16;

const WARP: u16 = 1 << 15;

impl AsyncProxy {
    /// The state of `bytes` bytes of shared memory that nothing has accessed.
    pub(super) fn new(bytes: usize) -> AsyncProxy {
        AsyncProxy { bytes, ..AsyncProxy::default() }
    }

    /// Resets the state for another block.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.unfenced.clear();
    }

    /// Checks that a thread may access a range now.
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

    /// Checks that every write of a thread to the range has been fenced.
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

    /// Records a write by a thread, or by several lanes of a warp.
    pub(super) fn written(&mut self, at: usize, bytes: usize, who: &ThreadRef) {
        self.unfenced.resize(self.bytes, 0);
        let code = if who.thread == SEVERAL_THREADS { WARP | who.warp as u16 } else { who.thread + 1 };
        self.unfenced[at..at + bytes].fill(code);
    }

    /// Fences the writes of some lanes; with `whole`, also the bytes that several lanes of the warp wrote.
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

    /// Begins the write of a TMA load.
    pub(super) fn begin_write(&mut self, at: usize, bytes: usize, thread: u16) {
        self.chunks(at, bytes).iter_mut().for_each(|chunk| chunk.writing = u32::from(thread) + 1);
    }

    /// Completes the write at a timestamp that waiting threads acquire.
    pub(super) fn end_write(&mut self, at: usize, bytes: usize, when: Timestamp) {
        for chunk in self.chunks(at, bytes) {
            let thread = std::mem::take(&mut chunk.writing).saturating_sub(1);
            chunk.wrote = Some((when, Accessor::Tma(thread)));
            chunk.read.clear();
        }
    }

    /// Begins a read by TMA or `wgmma`.
    pub(super) fn begin_read(&mut self, at: usize, bytes: usize, by: Accessor) {
        self.chunks(at, bytes).iter_mut().for_each(|chunk| chunk.reading.push(by));
    }

    /// Completes the read at a timestamp that waiting threads acquire.
    pub(super) fn end_read(&mut self, at: usize, bytes: usize, by: Accessor, when: Timestamp) {
        for chunk in self.chunks(at, bytes) {
            if let Some(i) = chunk.reading.iter().position(|reader| *reader == by) {
                chunk.reading.swap_remove(i);
            }
            // A thread that knows a later timestamp of a component knows the earlier ones.
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
