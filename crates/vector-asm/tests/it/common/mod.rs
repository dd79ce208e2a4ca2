//! Memory between guard pages, and the comparison of code with the evaluator.
#![allow(dead_code, reason = "each test uses some of it")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::ops::Range;

use vector_asm::{ExecutableCode, Isa, VectorCompileError, VectorProgram, compile};

use vector_evaluator::{EvaluationState, evaluate};

/// Whole pages on every system: of 4 KB on most, of 16 KB on Apple's, of 64 KB on some of ARM64.
const PAGE: usize = 1 << 16;

/// Memory that ends, or begins, at a guard page, whose access faults.
pub(crate) struct Guarded {
    map: *mut u8,
    mapped: usize,
    start: usize,
    len: usize,
}

impl Guarded {
    /// Copies bytes next to a guard page. Bases are aligned to 64 bytes, so up to 63 bytes may separate the
    /// end from the guard page.
    pub(crate) fn new(bytes: &[u8]) -> Guarded {
        let inner = bytes.len().next_multiple_of(PAGE).max(PAGE);
        let mapped = inner + 2 * PAGE;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the mapping is new and this object owns it; its first and last pages are protected below.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, flags, -1, 0) }.cast::<u8>();
        assert_ne!(map as isize, -1, "no memory");
        // SAFETY: both pages are within the mapping.
        unsafe {
            assert_eq!(libc::mprotect(map.cast(), PAGE, libc::PROT_NONE), 0);
            assert_eq!(libc::mprotect(map.add(PAGE + inner).cast(), PAGE, libc::PROT_NONE), 0);
        }
        let start = PAGE + (inner - bytes.len()) / 64 * 64;
        // SAFETY: `start..start + len` is within the accessible pages.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.add(start), bytes.len()) };
        Guarded { map, mapped, start, len: bytes.len() }
    }

    /// The address of the first byte.
    pub(crate) fn pointer(&self) -> *mut u8 {
        // SAFETY: the start is within the mapping.
        unsafe { self.map.add(self.start) }
    }

    /// The bytes between the guard pages.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `new` initialized these accessible bytes, and nobody writes them during the borrow.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping.
        unsafe { libc::munmap(self.map.cast(), self.mapped) };
    }
}

/// A state whose memory holds floats of all kinds.
pub(crate) fn machine(args: &[usize], bindings: &[i64], scratch: usize) -> EvaluationState {
    let fill = |len: usize, seed: usize| -> Vec<u8> {
        (0..len)
            .map(|at| {
                let number = ((at / 4 * 37 + seed * 11) % 61) as f32 * 0.37 - 9.0;
                number.to_le_bytes()[at % 4]
            })
            .collect()
    };
    EvaluationState {
        args: args.iter().enumerate().map(|(i, &len)| fill(len, i)).collect(),
        bindings: bindings.to_vec(),
        scratch: fill(scratch, 99),
    }
}

/// Runs code on copies of the memory between guard pages, and returns the memory afterwards.
pub(crate) fn run(code: &ExecutableCode, machine: &EvaluationState, part: Range<u64>) -> EvaluationState {
    let args: Vec<Guarded> = machine.args.iter().map(|bytes| Guarded::new(bytes)).collect();
    let scratch = Guarded::new(&machine.scratch);
    let pointers: Vec<*mut u8> = args.iter().map(Guarded::pointer).collect();
    let function = code.function(0);
    // SAFETY: the evaluator has shown that the program stays within the memory; code that leaves it faults at
    // a guard page.
    unsafe {
        function(pointers.as_ptr(), machine.bindings.as_ptr(), scratch.pointer(), part.start, part.end)
    };
    EvaluationState {
        args: args.iter().map(|memory| memory.bytes().to_vec()).collect(),
        bindings: machine.bindings.clone(),
        scratch: scratch.bytes().to_vec(),
    }
}

/// Whether bytes are equal, except within floats that are NaN on both sides. Programs store floats of all
/// widths at any address, so a byte that differs may be a part of a NaN that begins at any byte before it.
pub(crate) fn alike(left: &[u8], right: &[u8]) -> bool {
    let is_in_nan = |at: usize| {
        [2, 4, 8].into_iter().any(|width| {
            (at.saturating_sub(width - 1)..=at).any(|start| {
                let float = |bytes: &[u8]| bytes.get(start..start + width).is_some_and(is_nan);
                float(left) && float(right)
            })
        })
    };
    left.iter().zip(right).enumerate().all(|(at, (a, b))| a == b || is_in_nan(at))
}

/// Whether the bytes of a float of 2, 4 or 8 bytes are a NaN. Every NaN of `bf16` is one of `f16` too.
fn is_nan(bytes: &[u8]) -> bool {
    match *bytes {
        [a, b] => u16::from_le_bytes([a, b]) & 0x7fff > 0x7c00,
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
        _ => bytes.try_into().is_ok_and(|bytes| f64::from_le_bytes(bytes).is_nan()),
    }
}

#[test]
fn payloads_of_nan_are_alike_at_any_address() {
    let nan = |payload: u64| (0x7ff8_0000_0000_0000 | payload).to_le_bytes();
    let at = |start: usize, bytes: [u8; 8]| {
        let mut memory = [1; 20];
        memory[start..start + 8].copy_from_slice(&bytes);
        memory
    };
    for start in 0..12 {
        assert!(alike(&at(start, nan(0)), &at(start, nan(0xffff_fffe))), "{start}");
        assert!(!alike(&at(start, 1_f64.to_le_bytes()), &at(start, nan(2))), "{start}");
        assert!(!alike(&at(start, 1_f64.to_le_bytes()), &at(start, 3_f64.to_le_bytes())), "{start}");
    }
}

/// Compiles a program and compares its effect with the evaluator's.
pub(crate) fn check(program: &VectorProgram, machine: EvaluationState, part: Range<u64>) {
    if let Err(why) = try_check(program, machine, part) {
        panic!("{why}\n{program}");
    }
}

/// [`check`], with an error for a program that is rejected or differs.
pub(crate) fn try_check(
    program: &VectorProgram,
    machine: EvaluationState,
    part: Range<u64>,
) -> Result<(), Failure> {
    let mut expected = machine.clone();
    evaluate(program, &mut expected, part.clone()).map_err(Failure::Differs)?;
    for isa in Isa::ALL {
        let code = compile(program, isa).map_err(Failure::Rejected)?;
        decode(&code, isa).map_err(Failure::Differs)?;
        if isa.is_available() {
            let found = run(&ExecutableCode::load(&code).unwrap(), &machine, part.clone());
            compare(&expected, &found).map_err(Failure::Differs)?;
        }
    }
    Ok(())
}

fn compare(expected: &EvaluationState, found: &EvaluationState) -> Result<(), String> {
    for (i, (e, f)) in expected.args.iter().zip(&found.args).enumerate() {
        if !alike(e, f) {
            let at = e.iter().zip(f).position(|(a, b)| a != b).unwrap() & !7;
            let end = (at + 8).min(e.len());
            return Err(format!("arg{i} at {at}: expected {:x?}, found {:x?}", &e[at..end], &f[at..end]));
        }
    }
    if alike(&expected.scratch, &found.scratch) { Ok(()) } else { Err("scratch memory".to_owned()) }
}

/// Why a program fails a check.
#[derive(Debug)]
pub(crate) enum Failure {
    Rejected(VectorCompileError),
    Differs(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Checks code for x86-64: every byte belongs to an instruction, none traps, no vector instruction is legacy
/// SSE, and `vzeroupper` precedes the return. Code for ARM64 is words that end with the return; unit tests
/// compare its words with those of an assembler.
pub(crate) fn decode(code: &vector_asm::VectorCode, isa: Isa) -> Result<(), String> {
    use iced_x86::{Decoder, DecoderOptions, EncodingKind, FlowControl, Mnemonic, OpKind};
    let bytes = &code.bytes()[..code.instruction_bytes()];
    if isa == Isa::Neon {
        let returns = bytes.len().is_multiple_of(4) && bytes.ends_with(&0xd65f_03c0_u32.to_le_bytes());
        return if returns { Ok(()) } else { Err("no return at the end".to_owned()) };
    }
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut mnemonics = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(format!("no instruction at {}", instruction.ip()));
        }
        let traps = matches!(instruction.flow_control(), FlowControl::Interrupt | FlowControl::Exception);
        if traps
            || instruction.is_privileged()
            || [Mnemonic::Div, Mnemonic::Idiv].contains(&instruction.mnemonic())
        {
            return Err(format!("{:?} may trap", instruction.code()));
        }
        let vector = (0..instruction.op_count()).any(|i| {
            instruction.op_kind(i) == OpKind::Register && instruction.op_register(i).is_vector_register()
        });
        let encoding = if isa == Isa::Avx2 { EncodingKind::VEX } else { EncodingKind::EVEX };
        if vector && instruction.code().encoding() != encoding {
            return Err(format!("{:?} is not encoded as {encoding:?}", instruction.code()));
        }
        mnemonics.push(instruction.mnemonic());
    }
    let cleared = mnemonics.iter().rposition(|m| *m == Mnemonic::Vzeroupper);
    let returns = mnemonics.iter().position(|m| *m == Mnemonic::Ret);
    match (cleared, returns) {
        (Some(cleared), Some(returns)) if cleared < returns && returns + 1 == mnemonics.len() => Ok(()),
        _ => Err("no vzeroupper before the return".to_owned()),
    }
}

/// Disassembles the code for the messages of failing tests.
pub(crate) fn listing(code: &vector_asm::VectorCode) -> String {
    use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};
    let bytes = &code.bytes()[..code.instruction_bytes()];
    let mut text = String::new();
    let mut formatter = NasmFormatter::new();
    for instruction in Decoder::new(64, bytes, DecoderOptions::NONE) {
        text.push_str(&format!("{:5x} ", instruction.ip()));
        formatter.format(&instruction, &mut text);
        text.push('\n');
    }
    text
}
