//! The process's chunks of executable memory, and the code that is loaded into them.

use std::{
    collections::BTreeMap,
    fmt, io,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{chunk::Chunk, free_ranges::FreeRanges};

/// Alignment of each loaded piece of code in bytes.
pub const ALIGNMENT: usize = 64;

/// Bytes of a chunk, unless one load needs more.
const CHUNK_BYTES: usize = 1 << 20;

static PROCESS: Mutex<Arena> = Mutex::new(Arena::new());

/// The chunks by number, in the order in which they were mapped.
struct Arena {
    chunks: BTreeMap<u64, ArenaChunk>,
    next: u64,
}

struct ArenaChunk {
    memory: Chunk,
    /// The free ranges, in pages.
    free: FreeRanges,
    used_pages: usize,
}

/// The executable memory of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeMemoryUsage {
    /// Bytes of the pages that hold loaded code.
    pub used_bytes: usize,
    /// Bytes that are mapped.
    pub mapped_bytes: usize,
    /// The number of chunks. While no code is being loaded or freed, the operating system keeps at most one
    /// mapping for each, and may merge adjacent ones.
    pub chunks: usize,
}

/// Returns the present use of executable memory by the process.
pub fn usage() -> CodeMemoryUsage {
    lock(&PROCESS).usage()
}

/// Loaded pieces of machine code, callable for as long as this object lives; dropping it frees them.
pub struct LoadedCode {
    arena: &'static Mutex<Arena>,
    pages: CodePages,
    /// The address and the length in bytes of each piece.
    pieces: Box<[(CodeAddress, usize)]>,
}

/// The pages of a chunk that one [`LoadedCode`] owns.
struct CodePages {
    chunk: u64,
    /// A byte range within the chunk; empty if the loaded code is empty.
    range: Range<usize>,
}

/// An address of loaded code.
#[derive(Clone, Copy)]
struct CodeAddress(*const u8);

#[allow(unsafe_code, reason = "an address of memory that is only read and run goes to any thread")]
// SAFETY: the bytes at the address do not change while the code is loaded, so any thread may read and run
// them.
unsafe impl Send for CodeAddress {}
#[allow(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for CodeAddress {}

impl LoadedCode {
    /// Loads pieces of code, which are position independent, side by side. Each begins at a multiple of
    /// [`ALIGNMENT`]; together they take whole pages.
    ///
    /// # Errors
    ///
    /// If the system provides no memory. An error of kind [`io::ErrorKind::PermissionDenied`] means that it
    /// forbids the process to execute memory that it has written.
    pub fn load(pieces: &[&[u8]]) -> io::Result<LoadedCode> {
        LoadedCode::load_into(&PROCESS, pieces)
    }

    fn load_into(arena: &'static Mutex<Arena>, pieces: &[&[u8]]) -> io::Result<LoadedCode> {
        let mut placed = Vec::with_capacity(pieces.len());
        let mut length = 0;
        for &piece in pieces {
            placed.push((length, piece));
            length += piece.len().next_multiple_of(ALIGNMENT);
        }
        let (pages, start) = lock(arena).load(length, &placed)?;
        let piece =
            |&(offset, bytes): &(usize, &[u8])| (CodeAddress(start.wrapping_add(offset)), bytes.len());
        Ok(LoadedCode { arena, pages, pieces: placed.iter().map(piece).collect() })
    }

    /// The number of pieces of code that were loaded together.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are no pieces.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The address of the first byte of a piece. The bytes of the piece stay there, unchanged, for as long as
    /// this object lives.
    ///
    /// # Panics
    ///
    /// If no piece has this position.
    pub fn address(&self, position: usize) -> *const u8 {
        self.pieces[position].0.0
    }

    /// The bytes of a piece, for disassemblers and tests.
    ///
    /// # Panics
    ///
    /// If no piece has this position.
    #[allow(unsafe_code, reason = "loaded code is memory of the arena")]
    pub fn code(&self, position: usize) -> &[u8] {
        let bytes = self.pieces[position].1;
        // SAFETY: `load_into` wrote this many bytes there. The pages are readable, and nothing writes them
        // while this object lives.
        unsafe { std::slice::from_raw_parts(self.address(position), bytes) }
    }

    /// Bytes of memory that the code takes, in whole pages.
    pub fn bytes(&self) -> usize {
        self.pages.range.len()
    }
}

impl Drop for LoadedCode {
    fn drop(&mut self) {
        let empty = lock(self.arena).free(&self.pages);
        // The chunk is unmapped after the lock is released.
        drop(empty);
    }
}

impl fmt::Debug for LoadedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedCode").field("pieces", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

impl Arena {
    const fn new() -> Arena {
        Arena { chunks: BTreeMap::new(), next: 0 }
    }

    /// Loads pieces of `length` bytes in total, each at its offset. Returns the pages that hold them, and the
    /// address of these pages.
    fn load(&mut self, length: usize, pieces: &[(usize, &[u8])]) -> io::Result<(CodePages, *const u8)> {
        if length == 0 {
            // Pieces without bytes are never read or run.
            return Ok((CodePages { chunk: 0, range: 0..0 }, std::ptr::without_provenance(ALIGNMENT)));
        }
        let page = region::page::size();
        let (number, first) = self.take(length.div_ceil(page))?;
        let pages =
            CodePages { chunk: number, range: first * page..first * page + length.next_multiple_of(page) };
        let Some(chunk) = self.chunks.get_mut(&number) else {
            return Err(io::Error::other("the chunk is gone"));
        };
        if let Err(error) = chunk.memory.write(pages.range.clone(), pieces) {
            drop(self.free(&pages));
            return Err(error);
        }
        let start = chunk.memory.address(pages.range.start);
        Ok((pages, start))
    }

    /// Allocates pages in the oldest chunk that has enough contiguous ones, or in a new chunk, so that
    /// younger chunks become empty first. Returns the number of the chunk and the first page.
    fn take(&mut self, count: usize) -> io::Result<(u64, usize)> {
        let page = region::page::size();
        let fits = |(number, chunk): (&u64, &ArenaChunk)| (chunk.free.longest() >= count).then_some(*number);
        let number = match self.chunks.iter().find_map(fits) {
            Some(number) => number,
            None => self.map(CHUNK_BYTES.max(count * page))?,
        };
        let taken = self.chunks.get_mut(&number).and_then(|chunk| {
            let first = chunk.free.take(count)?;
            chunk.used_pages += count;
            Some((number, first))
        });
        taken.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
    }

    /// Maps a chunk and returns its number.
    fn map(&mut self, bytes: usize) -> io::Result<u64> {
        let memory = Chunk::map(bytes)?;
        let free = FreeRanges::new(memory.bytes() / region::page::size());
        let number = self.next;
        self.next += 1;
        self.chunks.insert(number, ArenaChunk { memory, free, used_pages: 0 });
        Ok(number)
    }

    /// Frees pages. Returns the chunk if no code is left in it; the caller drops it.
    fn free(&mut self, pages: &CodePages) -> Option<ArenaChunk> {
        let page = region::page::size();
        let count = pages.range.len() / page;
        if count == 0 {
            return None;
        }
        let chunk = self.chunks.get_mut(&pages.chunk)?;
        chunk.free.give_back(pages.range.start / page, count);
        chunk.used_pages -= count;
        if chunk.used_pages > 0 { None } else { self.chunks.remove(&pages.chunk) }
    }

    fn usage(&self) -> CodeMemoryUsage {
        let page = region::page::size();
        let mut usage = CodeMemoryUsage { chunks: self.chunks.len(), ..CodeMemoryUsage::default() };
        for chunk in self.chunks.values() {
            usage.used_bytes += chunk.used_pages * page;
            usage.mapped_bytes += chunk.memory.bytes();
        }
        usage
    }
}

fn lock(arena: &Mutex<Arena>) -> MutexGuard<'_, Arena> {
    // A panic leaks pages at most.
    arena.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> &'static Mutex<Arena> {
        Box::leak(Box::new(Mutex::new(Arena::new())))
    }

    /// Code whose bytes depend on a number.
    fn code(number: usize, length: usize) -> Vec<u8> {
        (0..length).map(|at| (number * 31 + at) as u8).collect()
    }

    #[allow(unsafe_code, reason = "the test looks at loaded code")]
    fn loaded(code: &LoadedCode, position: usize, length: usize) -> Vec<u8> {
        // SAFETY: the tests load that many bytes at that position.
        unsafe { std::slice::from_raw_parts(code.address(position), length) }.to_vec()
    }

    #[test]
    fn pieces_lie_where_they_are_said_to_lie() {
        let arena = arena();
        let [a, b, none] = [code(1, 100), code(2, 64), Vec::new()];
        let both = LoadedCode::load_into(arena, &[&a, &b, &none]).unwrap();
        assert_eq!(loaded(&both, 0, 100), a);
        assert_eq!(loaded(&both, 1, 64), b);
        assert_eq!(both.len(), 3);
        let distance = both.address(1) as usize - both.address(0) as usize;
        assert_eq!(distance, 128, "aligned");
        assert_eq!(both.address(0) as usize % ALIGNMENT, 0);
    }

    #[test]
    fn freed_pages_are_used_again_and_neighbors_stay() {
        let arena = arena();
        let page = region::page::size();
        let bytes: Vec<_> = (0..6).map(|number| code(number, page - number)).collect();
        let mut codes: Vec<_> =
            bytes.iter().map(|bytes| Some(LoadedCode::load_into(arena, &[bytes]).unwrap())).collect();
        let gap = codes[2].take().map(|code| code.address(0));
        let again = LoadedCode::load_into(arena, &[&bytes[0]]).unwrap();
        assert_eq!(Some(again.address(0)), gap);
        for (code, bytes) in codes.iter().zip(&bytes) {
            if let Some(code) = code {
                assert_eq!(&loaded(code, 0, bytes.len()), bytes);
            }
        }
        let usage = || lock(arena).usage();
        assert_eq!(usage(), CodeMemoryUsage { used_bytes: 6 * page, mapped_bytes: CHUNK_BYTES, chunks: 1 });
        drop((codes, again));
        assert_eq!(usage(), CodeMemoryUsage::default(), "a chunk without code is unmapped");
    }

    #[test]
    fn empty_code_takes_no_memory() {
        let arena = arena();
        let nothing = LoadedCode::load_into(arena, &[]).unwrap();
        assert!(nothing.is_empty());
        assert_eq!(nothing.bytes(), 0);
        assert_eq!(LoadedCode::load_into(arena, &[&[]]).unwrap().len(), 1);
        assert_eq!(lock(arena).usage(), CodeMemoryUsage::default());
    }

    #[test]
    fn code_larger_than_a_chunk_gets_its_own() {
        let arena = arena();
        let small = LoadedCode::load_into(arena, &[&code(1, 10)]).unwrap();
        let long = code(2, 3 * CHUNK_BYTES + 1);
        let large = LoadedCode::load_into(arena, &[&long]).unwrap();
        assert_eq!(loaded(&large, 0, long.len()), long);
        assert_eq!(lock(arena).usage().chunks, 2);
        drop(small);
        assert_eq!(lock(arena).usage().mapped_bytes, large.bytes());
    }

    /// A function that returns a number below 65536.
    #[cfg(target_arch = "x86_64")]
    fn constant(number: u32) -> Vec<u8> {
        // mov eax, NUMBER; ret
        [&[0xb8][..], &number.to_le_bytes(), &[0xc3]].concat()
    }

    /// A function that returns a number below 65536.
    #[cfg(target_arch = "aarch64")]
    fn constant(number: u32) -> Vec<u8> {
        // movz w0, NUMBER; ret
        [(0x5280_0000 | number << 5).to_le_bytes(), 0xd65f_03c0_u32.to_le_bytes()].concat()
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    #[allow(unsafe_code, reason = "the test calls what it loads")]
    fn code_runs_while_its_neighbors_come_and_go() {
        let call = |code: &LoadedCode| {
            // SAFETY: the bytes are a whole function of this type, and `code` lives.
            let function =
                unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> u32>(code.address(0)) };
            function()
        };
        let arena = arena();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                scope.spawn(move || {
                    let kept = LoadedCode::load_into(arena, &[&constant(thread)]).unwrap();
                    let mut last: Option<LoadedCode> = None;
                    for number in 0..500 {
                        let fresh = LoadedCode::load_into(arena, &[&constant(number)]).unwrap();
                        assert_eq!(call(&fresh), number);
                        assert_eq!(call(&kept), thread);
                        if number % 3 > 0 {
                            last = Some(fresh);
                        }
                        if let Some(last) = &last {
                            assert_eq!(call(last), number - u32::from(number % 3 == 0 && number > 0));
                        }
                    }
                });
            }
        });
        assert_eq!(lock(arena).usage(), CodeMemoryUsage::default());
    }
}
