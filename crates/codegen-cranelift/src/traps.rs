//! No machine code traps: the code of Cranelift, of the vector assembler and of GEMM plans is decoded, for
//! the corpus and for random routines.
//!
//! Decoding follows the branches from the entry, so it sees every instruction that can run, and no constants.
//! Cranelift puts a check in front of each division by a variable, which traps if the divisor is 0. Such
//! checks and divisions are accepted if a conditional move chose the divisor, as [`crate::emit`] has it for
//! divisors that may be 0, or -1 below the least integer; `operations.rs` runs divisions on all such
//! operands. The functions that code calls are compiled from Rust and not decoded; neither are the
//! microkernels that are compiled ahead of time.

use std::collections::BTreeMap;
use std::sync::Arc;

use codegen_core::{Codegen, CodegenError};
use cranelift_codegen::isa::TargetIsa;
use filetests::generate::routine_from_seed;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use scheduling::{ScheduleError, ScheduleOptions, schedule};

use crate::compile::{compile, cranelift_with, isa};
use crate::jit::Compiled;
use crate::{CraneliftOptions, VectorWidth, host_caps};

const SEEDS: u64 = 200;

/// The instructions that can run, by address.
type Instructions = BTreeMap<u64, Instruction>;

/// Decodes the instructions that can run.
///
/// # Errors
///
/// An instruction that may trap, other than a division or `ud2`, or that leaves the function in an unknown
/// way.
fn decode(code: &[u8]) -> Result<Instructions, String> {
    let (mut decoded, mut starts) = (Instructions::new(), vec![0]);
    while let Some(start) = starts.pop() {
        let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
        decoder.set_position(start as usize).map_err(|_| format!("a branch to {start}"))?;
        decoder.set_ip(start);
        while !decoded.contains_key(&decoder.ip()) {
            let instruction = decoder.decode();
            decoded.insert(instruction.ip(), instruction);
            let named = || format!("{:?} at {}", instruction.mnemonic(), instruction.ip());
            if instruction.is_invalid() || instruction.is_privileged() {
                return Err(named());
            }
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::IndirectCall => {}
                FlowControl::ConditionalBranch => starts.push(instruction.near_branch_target()),
                FlowControl::UnconditionalBranch => {
                    starts.push(instruction.near_branch_target());
                    break;
                }
                FlowControl::Return => break,
                FlowControl::Exception if instruction.mnemonic() == Mnemonic::Ud2 => break,
                _ => return Err(named()),
            }
        }
    }
    Ok(decoded)
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    Register(Register),
    /// An offset from the stack pointer.
    Stack(u64),
}

impl Location {
    fn of(instruction: &Instruction, operand: u32) -> Option<Location> {
        match instruction.op_kind(operand) {
            OpKind::Register => Some(Location::Register(instruction.op_register(operand).full_register())),
            OpKind::Memory if instruction.memory_base() == Register::RSP => {
                Some(Location::Stack(instruction.memory_displacement64()))
            }
            _ => None,
        }
    }
}

/// Whether the instruction may write the location.
fn writes(factory: &mut InstructionInfoFactory, instruction: &Instruction, location: Location) -> bool {
    let is_write = |access| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let info = factory.info(instruction);
    match location {
        Location::Register(register) => info
            .used_registers()
            .iter()
            .any(|used| is_write(used.access()) && used.register().full_register() == register),
        Location::Stack(offset) => info.used_memory().iter().any(|used| {
            is_write(used.access()) && used.base() == Register::RSP && used.displacement() == offset
        }),
    }
}

/// Whether a conditional move chose the first operand of the instruction at `address`.
fn is_chosen(instructions: &Instructions, address: u64) -> bool {
    let mut operand = Location::of(&instructions[&address], 0);
    let factory = &mut InstructionInfoFactory::new();
    for before in instructions.range(..address).rev().map(|(_, instruction)| instruction) {
        let Some(location) = operand else { return false };
        if !writes(factory, before, location) {
            continue;
        }
        match before.mnemonic() {
            Mnemonic::Cmove | Mnemonic::Cmovne => return true,
            Mnemonic::Mov => operand = Location::of(before, 1),
            _ => return false,
        }
    }
    false
}

/// Whether the instruction at `address` is the branch of a check for a divisor of 0 that was chosen.
fn is_zero_check(instructions: &Instructions, address: u64) -> bool {
    let test = instructions.range(..address).next_back().map(|(_, test)| test);
    instructions[&address].mnemonic() == Mnemonic::Je
        && test.is_some_and(|test| {
            test.mnemonic() == Mnemonic::Test
                && Location::of(test, 0) == Location::of(test, 1)
                && is_chosen(instructions, test.ip())
        })
}

/// Checks a function. Returns the number of its divisions, all of which are guarded.
fn divisions(code: &[u8]) -> Result<usize, String> {
    let instructions = decode(code)?;
    let is_trap = |address| instructions[&address].mnemonic() == Mnemonic::Ud2;
    let mut divisions = 0;
    for (&address, instruction) in &instructions {
        let unexpected = || Err(format!("{:?} at {address}", instruction.mnemonic()));
        match instruction.flow_control() {
            FlowControl::Exception if address == 0 => return unexpected(),
            FlowControl::Exception | FlowControl::Return => continue,
            FlowControl::UnconditionalBranch if is_trap(instruction.near_branch_target()) => {
                return unexpected();
            }
            FlowControl::UnconditionalBranch => continue,
            FlowControl::ConditionalBranch
                if is_trap(instruction.near_branch_target()) && !is_zero_check(&instructions, address) =>
            {
                return unexpected();
            }
            _ if is_trap(instruction.next_ip()) => return unexpected(),
            _ => {}
        }
        if [Mnemonic::Div, Mnemonic::Idiv].contains(&instruction.mnemonic()) {
            if !is_chosen(&instructions, address) {
                return unexpected();
            }
            divisions += 1;
        }
    }
    Ok(divisions)
}

/// The functions that were checked, by the compiler that made them.
#[derive(Debug, Default)]
struct Checked {
    cranelift: usize,
    vector_programs: usize,
    gemm_functions: usize,
    divisions: usize,
}

impl Checked {
    fn check(&mut self, compiled: &Compiled) -> Result<(), String> {
        match compiled {
            Compiled::Function(code) => {
                self.cranelift += 1;
                self.divisions += divisions(code.bytes()).map_err(|e| format!("Cranelift: {e}"))?;
            }
            Compiled::Program(code) => {
                self.vector_programs += 1;
                self.none(code.bytes()).map_err(|e| format!("a vector program: {e}"))?;
            }
            Compiled::Steps(composite, parts) => {
                for code in composite.plans().into_iter().flat_map(|plan| plan.machine_code()) {
                    self.gemm_functions += 1;
                    self.none(code).map_err(|e| format!("a GEMM plan: {e}"))?;
                }
                parts.iter().try_for_each(|part| self.check(part))?;
            }
        }
        Ok(())
    }

    /// Checks a function of a compiler that divides no integers.
    fn none(&self, code: &[u8]) -> Result<(), String> {
        match divisions(code)? {
            0 => Ok(()),
            count => Err(format!("{count} divisions of integers")),
        }
    }

    /// Schedules a routine and checks the code of its kernels. Routines that the target rejects have none.
    fn routine(&mut self, routine: &LoweredRoutine, options: &CraneliftOptions, isa: &Arc<dyn TargetIsa>) {
        let codegen = cranelift_with(host_caps(options.vector), options.clone());
        let scheduled = match schedule(routine, &codegen, &ScheduleOptions::default()) {
            Ok(scheduled) => scheduled,
            Err(ScheduleError::Illegal(_)) => return,
            Err(error) => panic!("{error}"),
        };
        for kernel in scheduled.kernels() {
            match compile(kernel, codegen.caps(), isa, options) {
                Ok((compiled, _)) => self
                    .check(&compiled)
                    .unwrap_or_else(|e| panic!("{options:?}: {e}\n{}", lowered_ir::text::print(kernel.ir()))),
                Err(CodegenError::Unsupported { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn parse(text: &str) -> LoweredRoutine {
    lowered_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Integer divisions and conversions of one type.
fn divisions_of(dtype: &str) -> Vec<LoweredRoutine> {
    let values = ["%0[i0] / %1[i0]", "%0[i0] % %1[i0]", "recip(%0[i0])", "convert TYPE(convert f64(%0[i0]))"];
    let text = "routine @divide {
      node %0 \"x\" TYPE[8]
      node %1 \"y\" TYPE[8]
      for i0 in 0..8 { %1[i0] := VALUE }
    }";
    values.map(|value| parse(&text.replace("VALUE", value).replace("TYPE", dtype))).into()
}

/// Products with an epilogue, for which GEMM plans generate functions. No matrix of the corpus has one.
fn products_of(dtype: &str) -> Vec<LoweredRoutine> {
    let text = "routine @dense fast {
      node %0 \"x\" TYPE[M, K]
      node %1 \"w\" TYPE[K, N]
      node %2 \"y\" TYPE[M, N]
      node %3 \"b\" TYPE[N]
      for i0 in 0..M { for i1 in 0..N {
        declare l0 TYPE[] register
        for i2 in 0..K { l0 := l0 + %0[i0, i2] * %1[i2, i1] }
        %2[i0, i1] := max(l0 + %3[i1], 0.0TYPE)
      } }
    }";
    let sizes = [["24", "40", "16"], ["13", "70", "37"], ["64", "9", "100"]];
    let sized =
        |[m, k, n]: [&str; 3]| text.replace("TYPE", dtype).replace('M', m).replace('K', k).replace('N', n);
    sizes.map(|size| parse(&sized(size))).into()
}

/// The corpus, random routines, divisions and products, in every width of vectors, whether this processor has
/// it or not.
#[test]
fn kernels_contain_no_traps() {
    let corpus = filetests::run_cases().filter(|case| case.merge.is_none()).map(|case| case.routine);
    let random = (0..SEEDS).map(|seed| routine_from_seed(seed, 200));
    let integers = ["i8", "u8", "u16", "i32", "u32", "i64", "u64"].into_iter().flat_map(divisions_of);
    let products = ["f32", "f64"].into_iter().flat_map(products_of);
    let optimized =
        |routine: LoweredRoutine| Some(optimize(routine, &OptimizeSettings::default()).ok()?.routine);
    let routines: Vec<LoweredRoutine> =
        corpus.chain(random).chain(integers).chain(products).filter_map(optimized).collect();
    let mut checked = Checked::default();
    let widths = VectorWidth::ALL.into_iter().filter(|vector| vector.is_available());
    let widths = widths.map(|vector| (vector, false));
    for (vector, optimize) in widths.chain([(VectorWidth::Bits128, true)]) {
        let options = CraneliftOptions { vector, optimize, ..CraneliftOptions::default() };
        let isa = isa(&options).expect("this machine is supported");
        routines.iter().for_each(|routine| checked.routine(routine, &options, &isa));
    }
    let Checked { cranelift, vector_programs, gemm_functions, divisions } = checked;
    let has_plans = !host_caps(VectorWidth::default()).contractions.is_empty();
    assert!(cranelift.min(vector_programs).min(divisions) > 300, "{checked:?}");
    assert!(gemm_functions > 20 || !has_plans, "{checked:?}");
}

#[test]
fn traps_are_found() {
    let guarded = [
        0x85, 0xc9, // test ecx, ecx
        0x0f, 0x44, 0xca, // cmove ecx, edx
        0x85, 0xc9, // test ecx, ecx
        0x74, 0x0b, // je to the last instruction
        0x89, 0x4c, 0x24, 0x08, // mov [rsp+8], ecx
        0x31, 0xd2, // xor edx, edx
        0xf7, 0x74, 0x24, 0x08, // div dword [rsp+8]
        0xc3, // ret
        0x0f, 0x0b, // ud2
    ];
    assert_eq!(divisions(&guarded), Ok(1));
    let replaced = |at: usize, bytes: &[u8]| {
        let mut code = guarded;
        code[at..at + bytes.len()].copy_from_slice(bytes);
        divisions(&code)
    };
    assert_eq!(replaced(2, &[0x83, 0xc9, 0x00]), Err("Je at 7".into()), "or ecx, 0 chooses nothing");
    assert_eq!(replaced(9, &[0x89, 0x54]), Err("Div at 15".into()), "edx was not chosen");
    assert_eq!(replaced(19, &[0x90]), Err("Nop at 19".into()), "it falls into the trap");
    assert_eq!(replaced(7, &[0xeb]), Err("Jmp at 7".into()));
    for (code, found) in [
        (&[0x0f, 0x0b][..], "Ud2 at 0"),
        (&[0xcc], "Int3 at 0"),
        (&[0x74, 0x01, 0xc3, 0xf4], "Hlt at 3"), // je +1; ret; hlt
        (&[0x75, 0x02, 0xeb, 0x01, 0xc3, 0xcd, 0x80], "Int at 5"), // jne +2; jmp +1; ret; int 0x80
    ] {
        assert_eq!(divisions(code), Err(found.into()));
    }
    assert_eq!(divisions(&[0xc3, 0x0f, 0x0b]), Ok(0), "constants do not run");
}
