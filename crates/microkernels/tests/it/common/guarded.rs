//! Memory that begins or ends at a page whose access faults.

/// A copy of some bytes next to pages whose access faults.
pub(crate) struct Guarded {
    mapping: *mut u8,
    mapped: usize,
    address: *mut u8,
    bytes: usize,
}

/// Whole pages on every system: of 4 KB on most, of 16 KB on Apple's, of 64 KB on some of ARM64.
const PAGE: usize = 1 << 16;

impl Guarded {
    /// Copies the bytes into accessible memory. With `at_end`, a page whose access faults follows the last
    /// byte; otherwise such a page precedes the first byte.
    pub(crate) fn new(bytes: &[u8], at_end: bool) -> Guarded {
        let inside = bytes.len().next_multiple_of(PAGE);
        let mapped = inside + 2 * PAGE;
        // SAFETY: a new mapping; its inner pages are made accessible before they are written.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let mapping =
                libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0).cast::<u8>();
            assert!(mapping.cast() != libc::MAP_FAILED, "no memory");
            let first = mapping.add(PAGE);
            if inside > 0 {
                assert_eq!(libc::mprotect(first.cast(), inside, libc::PROT_READ | libc::PROT_WRITE), 0);
            }
            let address = if at_end { first.add(inside - bytes.len()) } else { first };
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len());
            Guarded { mapping, mapped, address, bytes: bytes.len() }
        }
    }

    /// The address of the first byte.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.address
    }

    /// The bytes as they are now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the mapping contains the bytes, and nobody writes them during the call.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }.to_vec()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and its address is not used after this.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}
