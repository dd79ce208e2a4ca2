//! The start of the processor: it turns on vectors and the caches, and clears the memory of static variables.

use core::arch::{asm, global_asm};

// Without a table of addresses, all memory is that of devices, where vectors need an alignment that arrays of
// floats do not have. The table has two entries of a gigabyte each: devices, and memory.
global_asm!(
    ".section .text.start, \"ax\"",
    ".global _start",
    "_start:",
    "    mov x0, #(3 << 20)", // CPACR_EL1: no traps of vector instructions
    "    msr cpacr_el1, x0",
    "    adrp x0, stack_end",
    "    add x0, x0, :lo12:stack_end",
    "    mov sp, x0",
    "    adrp x1, bss_start",
    "    add x1, x1, :lo12:bss_start",
    "    adrp x2, bss_end",
    "    add x2, x2, :lo12:bss_end",
    "0:  cmp x1, x2",
    "    b.hs 1f",
    "    stp xzr, xzr, [x1], #16",
    "    b 0b",
    "1:  adrp x0, {table}",
    "    add x0, x0, :lo12:{table}",
    "    mov x1, #0x401", // a block of device memory, accessed
    "    str x1, [x0]",
    "    mov x1, #0x705", // a block of shared memory with the attributes 1, accessed
    "    movk x1, #0x4000, lsl #16",
    "    str x1, [x0, #8]",
    "    msr ttbr0_el1, x0",
    "    mov x1, #0xff00", // MAIR_EL1: 0 devices, 1 memory that is cached
    "    msr mair_el1, x1",
    "    ldr x1, =0x100803519", // TCR_EL1: addresses of 39 bits, pages of 4 KiB, tables in caches
    "    msr tcr_el1, x1",
    "    dsb sy",
    "    isb",
    "    mrs x1, sctlr_el1",
    "    mov x2, #0x1005", // SCTLR_EL1: addresses by the table, caches of data and of instructions
    "    orr x1, x1, x2",
    "    msr sctlr_el1, x1",
    "    isb",
    "    bl main",
    table = sym TABLE,
);

/// The table of addresses, which the processor reads.
#[repr(align(4096))]
struct Table([u64; 512]);

static mut TABLE: Table = Table([0; 512]);

/// Ends the machine with a status, by the call for this of the debugger or, here, of QEMU.
pub fn exit(status: u64) -> ! {
    const EXIT: u64 = 0x18;
    const APPLICATION_EXIT: u64 = 0x2_0026;
    let block = [APPLICATION_EXIT, status];
    // SAFETY: the call reads the block, and does not return.
    unsafe { asm!("hlt #0xf000", in("x0") EXIT, in("x1") &raw const block, options(noreturn)) }
}
