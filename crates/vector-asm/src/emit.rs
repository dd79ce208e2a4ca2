//! Instructions to bytes.
//!
//! A function begins with its pointers and ends with `vzeroupper`, which is asserted: SSE code would pay for upper halves that are in use. Constants stand
//! behind the code and are reached relative to it. All instructions on vector registers are VEX-encoded.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use iced_x86::{Code as Encoding, Encoder, IcedError, Instruction, MemoryOperand, OpKind, Register};

use crate::address::{Location, Pointer, Pointers};
use crate::allocate::{Item, Line, NO_SLOT, NOWHERE};
use crate::avx2::{FMA, INTEGER, Op};
use crate::code::{Code, Isa, Refusal};
use crate::machine::{Address, Base, Inst, NOT_CONSTANT, Reg, Trips, Unit, WORDS};
use crate::program::Index;

/// Registers that hold what lies in the frame while it is used.
const TEMPORARY: u8 = 0;
const SECOND: u8 = 11;
const STACK: u8 = 4;
const FRAME: u8 = 5;
/// Registers that belong to the caller.
const SAVED: [u8; 5] = [3, 12, 13, 14, 15];
/// Where loops begin.
const ALIGNMENT: usize = 32;

/// What a mask register does to lanes without their bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masking {
    None,
    Zeroing,
    Merging,
}

/// Where a register is: its machine register, or from which byte of the stack frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Vector(u8),
    Frame(i64),
}

/// An operand of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Vector(u8),
    /// Memory at a general register.
    Memory(u8, i64),
    /// A constant of the pool.
    Pool(u32),
}

struct Emit<'a> {
    unit: &'a Unit,
    line: &'a Line,
    pointers: &'a Pointers,
    encoder: Encoder,
    length: usize,
    /// Where the distance to a constant stands, where it is counted from, and the constant.
    fixups: Vec<(usize, usize, u32)>,
    /// Where each constant that is used will be, in the order of first use.
    pool: HashMap<u32, usize>,
    pool_order: Vec<u32>,
    inside: usize,
    /// Where in the stack frame there is room for one more register, and where the words of pointers and of the part begin.
    spare_at: i64,
    words_at: i64,
    part_at: i64,
    error: Option<String>,
    /// Jumps over loops without iterations: where the distance stands, by loop.
    skips: Vec<(usize, usize)>,
    heads: Vec<usize>,
    /// Distances that are known in the end.
    patches: Vec<(usize, i32)>,
}

/// Encodes everything.
pub(crate) fn emit(unit: &Unit, line: &Line, pointers: &Pointers) -> Result<Code, Refusal> {
    let register = i64::from(unit.isa.bytes());
    let spare_at = i64::from(line.frame) * register;
    let vectors = spare_at + if line.has_circles() { register } else { 0 };
    let mut emit = Emit {
        unit,
        line,
        pointers,
        encoder: Encoder::new(64),
        length: 0,
        fixups: Vec::new(),
        pool: HashMap::new(),
        pool_order: Vec::new(),
        inside: 0,
        spare_at,
        words_at: vectors,
        part_at: vectors + i64::from(pointers.words) * 8,
        error: None,
        skips: Vec::new(),
        heads: vec![0; line.loops.len()],
        patches: Vec::new(),
    };
    emit.prologue();
    for item in &line.items {
        match item {
            Item::Inst(inst) => emit.inst(inst),
            Item::Start(number) => emit.start(*number),
            Item::End(number) => emit.end(*number),
        }
    }
    emit.epilogue();
    emit.finish()
}

fn general(register: u8) -> Register {
    const GENERAL: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    GENERAL[register as usize]
}

impl Emit<'_> {
    // Encoding.

    fn put(&mut self, instruction: &Instruction) {
        match self.encoder.encode(instruction, self.length as u64) {
            Ok(length) => self.length += length,
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn memory(instruction: &mut Instruction, operand: u32, base: u8, displacement: i64) {
        instruction.set_op_kind(operand, OpKind::Memory);
        instruction.set_memory_base(general(base));
        instruction.set_memory_displacement64(displacement as u64);
        // One asks for the short form where it fits.
        let size = u32::from(displacement != 0 || base & 7 == 5);
        instruction.set_memory_displ_size(size);
    }

    /// Sets an operand; the result says whether it is a constant of the pool.
    fn operand(instruction: &mut Instruction, at: u32, class: u8, operand: Operand) -> Option<u32> {
        match operand {
            Operand::Vector(register) => {
                let first = match class.to_ascii_lowercase() {
                    b'x' => Register::XMM0,
                    b'y' => Register::YMM0,
                    _ => Register::ZMM0,
                };
                instruction.set_op_kind(at, OpKind::Register);
                instruction.set_op_register(at, first + u32::from(register));
                None
            }
            Operand::Memory(base, displacement) => {
                Self::memory(instruction, at, base, displacement);
                None
            }
            Operand::Pool(constant) => {
                instruction.set_op_kind(at, OpKind::Memory);
                instruction.set_memory_base(Register::RIP);
                instruction.set_memory_displ_size(8);
                Some(constant)
            }
        }
    }

    /// An instruction with its operands in order; the constant, if there is one, comes last.
    fn op(&mut self, op: Op, operands: &[Operand], imm: u16) {
        let (code, shape) = self.unit.isa.encoding(op);
        match shape.as_bytes() {
            [b'k', lanes, ..] => self.compare_to_mask(code, &shape[2..], *lanes, operands, imm),
            b"blendv" => {
                self.mask_of(operands[3]);
                self.encode(code, "zzZ", &operands[..3], 0, Masking::Merging);
            }
            b"blend" => {
                self.plain(Instruction::with2(Encoding::Mov_r32_imm32, Register::EAX, u32::from(imm)));
                self.plain(Instruction::with2(Encoding::VEX_Kmovw_kr_r32, Register::K1, Register::EAX));
                self.encode(code, "zzZ", operands, 0, Masking::Merging);
            }
            b"loadk" => {
                self.mask_of(operands[1]);
                self.encode(code, "zm", &[operands[0], operands[2]], 0, Masking::Zeroing);
            }
            b"storek" => {
                self.mask_of(operands[1]);
                self.encode(code, "mz", &[operands[0], operands[2]], 0, Masking::Merging);
            }
            _ => self.encode(code, shape, operands, imm, Masking::None),
        }
    }

    /// Brings a mask over lanes to the mask register.
    fn mask_of(&mut self, mask: Operand) {
        let Operand::Vector(register) = mask else {
            self.error = Some("a mask is in a register".to_owned());
            return;
        };
        let register = Register::ZMM0 + u32::from(register);
        self.plain(Instruction::with2(Encoding::EVEX_Vpmovd2m_kr_zmm, Register::K1, register));
    }

    /// A comparison, whose result is spread over lanes. The first operand is where that goes.
    fn compare_to_mask(&mut self, code: Encoding, shape: &str, lanes: u8, operands: &[Operand], imm: u16) {
        let mut instruction = Instruction::new();
        instruction.set_code(code);
        instruction.set_op_kind(0, OpKind::Register);
        instruction.set_op_register(0, Register::K1);
        let constant = self.operands(&mut instruction, 1, shape, &operands[1..], imm);
        self.put_with_constant(instruction, constant);
        let Operand::Vector(to) = operands[0] else { return };
        let spread =
            if lanes == b'd' { Encoding::EVEX_Vpmovm2d_zmm_kr } else { Encoding::EVEX_Vpmovm2q_zmm_kr };
        self.plain(Instruction::with2(spread, Register::ZMM0 + u32::from(to), Register::K1));
    }

    /// An instruction of some shape.
    fn encode(&mut self, code: Encoding, shape: &str, operands: &[Operand], imm: u16, masking: Masking) {
        let mut instruction = Instruction::new();
        instruction.set_code(code);
        if masking != Masking::None {
            instruction.set_op_mask(Register::K1);
            instruction.set_zeroing_masking(masking == Masking::Zeroing);
        }
        let constant = self.operands(&mut instruction, 0, shape, operands, imm);
        self.put_with_constant(instruction, constant);
    }

    /// Sets operands from `first` on; the result is the constant of the pool among them.
    fn operands(
        &mut self,
        instruction: &mut Instruction,
        first: usize,
        shape: &str,
        operands: &[Operand],
        imm: u16,
    ) -> Option<u32> {
        let mut constant = None;
        for (at, class) in shape.bytes().enumerate() {
            let place = (first + at) as u32;
            if class == b'i' {
                instruction.set_op_kind(place, OpKind::Immediate8);
                instruction.set_immediate8(imm as u8);
            } else if let Some(&operand) = operands.get(at) {
                constant = Self::operand(instruction, place, class, operand).or(constant);
            }
        }
        constant
    }

    fn put_with_constant(&mut self, mut instruction: Instruction, constant: Option<u32>) {
        if constant.is_some() {
            instruction.set_memory_displacement64(self.length as u64);
        }
        let start = self.length;
        self.put(&instruction);
        if let Some(constant) = constant {
            let at = start + self.encoder.get_constant_offsets().displacement_offset();
            self.fixups.push((at, self.length, constant));
            if let Entry::Vacant(entry) = self.pool.entry(constant) {
                entry.insert(self.pool_order.len());
                self.pool_order.push(constant);
            }
        }
    }

    /// An instruction on general registers and memory.
    fn plain(&mut self, instruction: Result<Instruction, IcedError>) {
        match instruction {
            Ok(instruction) => self.put(&instruction),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn move_register(&mut self, to: u8, from: u8) {
        if to != from {
            self.plain(Instruction::with2(Encoding::Mov_r64_rm64, general(to), general(from)));
        }
    }

    fn load_word(&mut self, to: u8, base: u8, displacement: i64) {
        self.plain(Instruction::with2(Encoding::Mov_r64_rm64, general(to), at(base, displacement)));
    }

    fn store_word(&mut self, from: u8, base: u8, displacement: i64) {
        self.plain(Instruction::with2(Encoding::Mov_rm64_r64, at(base, displacement), general(from)));
    }

    fn number(&mut self, to: u8, number: i64) {
        self.plain(match u32::try_from(number) {
            Ok(number) => Instruction::with2(Encoding::Mov_r32_imm32, Register::EAX + u32::from(to), number),
            Err(_) => Instruction::with2(Encoding::Mov_r64_imm64, general(to), number),
        });
    }

    /// Adds a number to a register; the other temporary register may change.
    fn add_number(&mut self, to: u8, number: i64, temporary: u8) {
        match i32::try_from(number) {
            Ok(0) => {}
            Ok(number) => {
                let short = i8::try_from(number).is_ok();
                let code = if short { Encoding::Add_rm64_imm8 } else { Encoding::Add_rm64_imm32 };
                self.plain(Instruction::with2(code, general(to), number));
            }
            Err(_) => {
                self.number(temporary, number);
                self.plain(Instruction::with2(Encoding::Add_r64_rm64, general(to), general(temporary)));
            }
        }
    }

    fn word_at(&self, word: u32) -> i64 {
        self.words_at + i64::from(word) * 8
    }

    /// Brings what is at a location to a register.
    fn fetch(&mut self, to: u8, location: Location) {
        match location {
            Location::Register(register) => self.move_register(to, register),
            Location::Frame(word) => self.load_word(to, STACK, self.word_at(word)),
        }
    }

    fn keep(&mut self, from: u8, location: Location) {
        match location {
            Location::Register(register) => self.move_register(register, from),
            Location::Frame(word) => self.store_word(from, STACK, self.word_at(word)),
        }
    }

    // The function.

    fn has_part(&self) -> bool {
        self.line.loops.iter().any(|l| matches!(l.trips, Trips::Part { .. } | Trips::Rest { .. }))
    }

    fn frame_bytes(&self) -> i64 {
        self.part_at + if self.has_part() { 16 } else { 0 }
    }

    fn prologue(&mut self) {
        for register in SAVED.into_iter().filter(|r| self.pointers.used >> r & 1 == 1) {
            self.plain(Instruction::with1(Encoding::Push_r64, general(register)));
        }
        if self.frame_bytes() > 0 {
            self.plain(Instruction::with1(Encoding::Push_r64, general(FRAME)));
            self.move_register(FRAME, STACK);
            let bytes = self.frame_bytes() as i32;
            self.plain(Instruction::with2(Encoding::Sub_rm64_imm32, general(STACK), bytes));
            self.plain(Instruction::with2(Encoding::And_rm64_imm8, general(STACK), -64));
        }
        if self.has_part() {
            let (begin, end) = (1, 8);
            self.store_word(begin, STACK, self.part_at);
            self.store_word(end, STACK, self.part_at + 8);
        }
        for pointer in &self.pointers.loops[0] {
            self.root_pointer(pointer);
        }
    }

    /// Computes a pointer from the function's arguments.
    fn root_pointer(&mut self, pointer: &Pointer) {
        let (args, bindings, scratch) = (7, 6, 2);
        let to = match pointer.location {
            Location::Register(register) => register,
            Location::Frame(_) => TEMPORARY,
        };
        let stream = &self.unit.streams[pointer.stream as usize];
        match stream.base {
            Base::Arg(arg) => self.load_word(to, args, i64::from(arg) * 8),
            Base::Scratch => self.move_register(to, scratch),
            Base::Zero => self.number(to, 0),
        }
        self.add_number(to, stream.offset, SECOND);
        for &(index, coefficient) in &stream.terms {
            let Index::Binding(binding) = index else { continue };
            self.load_word(SECOND, bindings, i64::from(binding) * 8);
            self.multiply(SECOND, coefficient, pointer.location, to);
        }
        self.keep(to, pointer.location);
    }

    /// Adds `register · coefficient` to `to`; the register changes.
    fn multiply(&mut self, register: u8, coefficient: i64, location: Location, to: u8) {
        match i32::try_from(coefficient) {
            Ok(small) => {
                let product = Instruction::with3(
                    Encoding::Imul_r64_rm64_imm32,
                    general(register),
                    general(register),
                    small,
                );
                self.plain(product);
            }
            Err(_) => {
                // Both temporary registers are in use if the sum lies in one of them.
                let spare = if to == TEMPORARY { FRAME } else { TEMPORARY };
                debug_assert!(
                    to == TEMPORARY || matches!(location, Location::Register(_)),
                    "sums have registers"
                );
                self.plain(Instruction::with1(Encoding::Push_r64, general(spare)));
                self.number(spare, coefficient);
                self.plain(Instruction::with2(Encoding::Imul_r64_rm64, general(register), general(spare)));
                self.plain(Instruction::with1(Encoding::Pop_r64, general(spare)));
            }
        }
        self.plain(Instruction::with2(Encoding::Add_r64_rm64, general(to), general(register)));
    }

    fn epilogue(&mut self) {
        if self.unit.streaming {
            self.plain(Ok(Instruction::with(Encoding::Sfence)));
        }
        self.plain(Ok(Instruction::with(Encoding::VEX_Vzeroupper)));
        let cleared = self.length;
        if self.frame_bytes() > 0 {
            self.move_register(STACK, FRAME);
            self.plain(Instruction::with1(Encoding::Pop_r64, general(FRAME)));
        }
        for register in SAVED.into_iter().rev().filter(|r| self.pointers.used >> r & 1 == 1) {
            self.plain(Instruction::with1(Encoding::Pop_r64, general(register)));
        }
        self.plain(Ok(Instruction::with(Encoding::Retnq)));
        assert!(
            cleared >= 3 && cleared < self.length,
            "a function clears the upper halves before it returns"
        );
    }

    // Loops.

    fn start(&mut self, number: usize) {
        let info = &self.line.loops[number];
        let moves = info.phis.iter().map(|phi| (phi.phi, phi.start));
        self.moves(moves.collect());
        for &(constant, register) in &info.constants {
            self.constant(register, constant);
        }
        let first = self.count_iterations(number);
        for pointer in &self.pointers.loops[number] {
            self.begin_pointer(number, pointer, first);
        }
        self.inside = number;
        self.align();
        self.heads[number] = self.length;
    }

    /// Brings the number of iterations to its place, and for the part of a call the first value of the counter to a register. Jumps over the
    /// loop if there is nothing to do.
    fn count_iterations(&mut self, number: usize) -> bool {
        let location = self.pointers.counts[number];
        let to = match location {
            Location::Register(register) => register,
            Location::Frame(_) => TEMPORARY,
        };
        let shift = match self.line.loops[number].trips {
            Trips::Constant(trips) => {
                self.number(to, trips as i64);
                self.keep(to, location);
                return false;
            }
            Trips::Part { shift } | Trips::Rest { shift } => shift,
        };
        let (begin, end) = (self.part_at, self.part_at + 8);
        self.load_word(to, STACK, end);
        self.plain(Instruction::with2(Encoding::Sub_r64_rm64, general(to), at(STACK, begin)));
        self.skip(Encoding::Jbe_rel32_64, number);
        if let Trips::Part { .. } = self.line.loops[number].trips {
            if shift > 0 {
                self.plain(Instruction::with2(Encoding::Shr_rm64_imm8, general(to), shift));
                self.skip(Encoding::Je_rel32_64, number);
            }
            self.load_word(SECOND, STACK, begin);
        } else {
            self.plain(Instruction::with2(Encoding::And_rm64_imm8, general(to), (1 << shift) - 1));
            self.skip(Encoding::Je_rel32_64, number);
            self.load_word(SECOND, STACK, end);
            self.plain(Instruction::with2(Encoding::Sub_r64_rm64, general(SECOND), general(to)));
        }
        self.keep(to, location);
        true
    }

    /// A pointer as it is in the first iteration.
    fn begin_pointer(&mut self, number: usize, pointer: &Pointer, has_first: bool) {
        let parent = self.line.loops[number].parent;
        let from = self.pointers.loops[parent].iter().find(|p| p.stream == pointer.from);
        let from = from.expect("loops around have what inner ones begin with").location;
        if !has_first || pointer.coefficient == 0 {
            let to = match pointer.location {
                Location::Register(register) => register,
                Location::Frame(_) => TEMPORARY,
            };
            self.fetch(to, from);
            return self.keep(to, pointer.location);
        }
        match i32::try_from(pointer.coefficient) {
            Ok(small) => self.plain(Instruction::with3(
                Encoding::Imul_r64_rm64_imm32,
                general(TEMPORARY),
                general(SECOND),
                small,
            )),
            Err(_) => {
                self.number(TEMPORARY, pointer.coefficient);
                self.plain(Instruction::with2(Encoding::Imul_r64_rm64, general(TEMPORARY), general(SECOND)));
            }
        }
        self.plain(match from {
            Location::Register(register) => {
                Instruction::with2(Encoding::Add_r64_rm64, general(TEMPORARY), general(register))
            }
            Location::Frame(word) => {
                Instruction::with2(Encoding::Add_r64_rm64, general(TEMPORARY), at(STACK, self.word_at(word)))
            }
        });
        self.keep(TEMPORARY, pointer.location);
    }

    /// A jump behind a loop, whose distance is filled in there.
    fn skip(&mut self, code: Encoding, number: usize) {
        self.plain(Instruction::with_branch(code, self.length as u64));
        self.skips.push((number, self.length - 4));
    }

    fn end(&mut self, number: usize) {
        let info = &self.line.loops[number];
        let moves = info.phis.iter().map(|phi| (phi.phi, phi.next));
        self.moves(moves.collect());
        for pointer in &self.pointers.loops[number] {
            self.advance(pointer, info.step);
        }
        self.plain(match self.pointers.counts[number] {
            Location::Register(register) => Instruction::with1(Encoding::Dec_rm64, general(register)),
            Location::Frame(word) => Instruction::with1(Encoding::Dec_rm64, at(STACK, self.word_at(word))),
        });
        let head = self.heads[number];
        let near = self.length - head < 120;
        let code = if near { Encoding::Jne_rel8_64 } else { Encoding::Jne_rel32_64 };
        self.plain(Instruction::with_branch(code, head as u64));
        self.inside = info.parent;
        self.land(number);
    }

    /// Lets the jumps behind a loop end here.
    fn land(&mut self, number: usize) {
        let here = self.length;
        for &(_, place) in self.skips.iter().filter(|(of, _)| *of == number) {
            self.patches.push((place, (here - place - 4) as i32));
        }
    }

    fn advance(&mut self, pointer: &Pointer, step: i64) {
        let bytes = pointer.coefficient.wrapping_mul(step);
        match (pointer.location, i32::try_from(bytes)) {
            (_, Ok(0)) => {}
            (Location::Register(register), _) => self.add_number(register, bytes, TEMPORARY),
            (Location::Frame(word), Ok(bytes)) => {
                let word = at(STACK, self.word_at(word));
                self.plain(Instruction::with2(Encoding::Add_rm64_imm32, word, bytes));
            }
            (Location::Frame(word), Err(_)) => {
                self.number(TEMPORARY, bytes);
                let word = at(STACK, self.word_at(word));
                self.plain(Instruction::with2(Encoding::Add_rm64_r64, word, general(TEMPORARY)));
            }
        }
    }

    fn align(&mut self) {
        let mut left = self.length.next_multiple_of(ALIGNMENT) - self.length;
        while left > 0 {
            let bytes = left.min(NOPS.len());
            NOPS[bytes - 1].iter().for_each(|byte| self.encoder.write_u8(*byte));
            self.length += bytes;
            left -= bytes;
        }
    }

    /// Copies registers as if all at once.
    fn moves(&mut self, mut moves: Vec<(Reg, Reg)>) {
        moves.retain(|(to, from)| from.is_register() && to != from);
        let (constants, between): (Vec<_>, Vec<_>) =
            moves.into_iter().partition(|(_, from)| self.unit.registers[from.index()] != NOT_CONSTANT);
        let places = between.into_iter().map(|(to, from)| (self.place(to), self.place(from)));
        self.parallel(places.filter(|(to, from)| to != from).collect());
        for (to, constant) in constants {
            match self.place(to) {
                Place::Vector(register) => self.constant(register, constant),
                Place::Frame(at) => self.constant_to_frame(at, constant),
            }
        }
    }

    fn place(&self, reg: Reg) -> Place {
        match self.line.slots[reg.index()] {
            NO_SLOT => Place::Vector(self.line.machine[reg.index()]),
            place => Place::Frame(i64::from(place) * i64::from(self.unit.isa.bytes())),
        }
    }

    /// Moves whose targets nobody wants any more come first; what is left are circles, which are opened by keeping what one target holds.
    fn parallel(&mut self, mut moves: Vec<(Place, Place)>) {
        while !moves.is_empty() {
            let free = moves.iter().position(|(to, _)| !moves.iter().any(|(_, from)| from == to));
            if let Some(i) = free {
                let (to, from) = moves.swap_remove(i);
                self.copy(to, from);
                continue;
            }
            let kept = moves[0].0;
            let spare = Place::Frame(self.spare_at);
            self.copy(spare, kept);
            moves.iter_mut().filter(|(_, from)| *from == kept).for_each(|(_, from)| *from = spare);
        }
    }

    fn copy(&mut self, to: Place, from: Place) {
        match (to, from) {
            (Place::Vector(to), Place::Vector(from)) => {
                self.op(Op::Copy, &[Operand::Vector(to), Operand::Vector(from)], 0);
            }
            (Place::Vector(to), Place::Frame(from)) => {
                let operands = [Operand::Vector(to), Operand::Memory(STACK, from)];
                self.op(Op::Load, &operands, 0);
            }
            (Place::Frame(to), Place::Vector(from)) => {
                let operands = [Operand::Memory(STACK, to), Operand::Vector(from)];
                self.op(Op::Store, &operands, 0);
            }
            (Place::Frame(to), Place::Frame(from)) => {
                for word in (0..i64::from(self.unit.isa.bytes())).step_by(8) {
                    self.load_word(TEMPORARY, STACK, from + word);
                    self.store_word(TEMPORARY, STACK, to + word);
                }
            }
        }
    }

    fn constant_to_frame(&mut self, to: i64, constant: Reg) {
        let words = *self.unit.constant(constant).expect("it is a constant");
        for (i, word) in words.into_iter().enumerate().take(self.unit.isa.words()) {
            self.plain(Instruction::with2(Encoding::Mov_rm32_imm32, at(STACK, to + 4 * i as i64), word));
        }
    }

    /// Brings a constant to a register.
    fn constant(&mut self, to: u8, constant: Reg) {
        let register = Operand::Vector(to);
        let words = self.unit.constant(constant).expect("it is a constant");
        if *words == [0; WORDS] {
            return self.op(Op::XorF, &[register; 3], 0);
        }
        let ones = words[..self.unit.isa.words()].iter().all(|word| *word == u32::MAX);
        if ones && self.unit.isa == Isa::Avx2 {
            return self.op(Op::EqI32, &[register; 3], 0);
        }
        let pool = Operand::Pool(self.unit.registers[constant.index()]);
        self.op(Op::Load, &[register, pool], 0);
    }

    // Instructions.

    fn inst(&mut self, inst: &Inst) {
        match inst.op.shape() {
            FMA => self.fma(inst),
            INTEGER => self.integer(inst),
            _ if inst.op == Op::Copy && self.unit.constant(inst.srcs[0]).is_some() => {
                self.constant(self.line.machine[inst.dst.index()], inst.srcs[0]);
            }
            shape => {
                let memory = inst.address.map(|address| self.memory_operand(address));
                let mut operands: [Operand; 5] = [Operand::Vector(0); 5];
                let mut sources = inst.srcs.iter();
                let mut count = 0;
                for (at, class) in shape.bytes().enumerate().filter(|(_, class)| *class != b'i') {
                    operands[at] = match (class, memory) {
                        (b'm', Some(memory)) => memory,
                        _ if at == 0 => self.source(inst.dst, memory),
                        _ => self.source(*sources.next().unwrap_or(&Reg::NONE), memory),
                    };
                    count = at + 1;
                }
                self.op(inst.op, &operands[..count], inst.imm);
            }
        }
    }

    /// Where a register is, or what is in memory instead.
    fn source(&mut self, reg: Reg, memory: Option<Operand>) -> Operand {
        if reg == Reg::MEMORY {
            return memory.expect("an operand in memory has an address");
        }
        if self.unit.constant(reg).is_some() {
            return match self.line.constant_register(self.inside, reg) {
                Some(register) => Operand::Vector(register),
                None => Operand::Pool(self.unit.registers[reg.index()]),
            };
        }
        let register = self.line.machine[reg.index()];
        debug_assert!(register != NOWHERE, "every register has a place");
        Operand::Vector(register)
    }

    fn memory_operand(&mut self, address: Address) -> Operand {
        if address.stream == Address::FRAME {
            return Operand::Memory(STACK, address.offset);
        }
        match self.location(address.stream) {
            Location::Register(register) => Operand::Memory(register, address.offset),
            Location::Frame(word) => {
                self.load_word(TEMPORARY, STACK, self.word_at(word));
                Operand::Memory(TEMPORARY, address.offset)
            }
        }
    }

    fn location(&self, stream: u32) -> Location {
        let pointer = self.pointers.loops[self.inside].iter().find(|p| p.stream == stream);
        pointer.expect("loops have pointers for what they use").location
    }

    /// The three encodings differ in which operand the result takes the place of; it is one that is not wanted any more, or a copy.
    fn fma(&mut self, inst: &Inst) {
        let memory = inst.address.map(|address| self.memory_operand(address));
        let [a, b, c] = inst.srcs.map(|src| self.source(src, memory));
        let dst = Operand::Vector(self.line.machine[inst.dst.index()]);
        let [form_132, form_213, form_231] = self.unit.isa.fma_codes(inst.op);
        let in_register = |operand: Operand| matches!(operand, Operand::Vector(_));
        let (code, second, third) = if dst == c {
            if in_register(a) { (form_231, a, b) } else { (form_231, b, a) }
        } else if dst == a {
            if in_register(b) { (form_213, b, c) } else { (form_132, c, b) }
        } else if dst == b {
            if in_register(a) { (form_213, a, c) } else { (form_132, c, a) }
        } else {
            let load = if in_register(c) { Op::Copy } else { Op::Load };
            self.op(load, &[dst, c], 0);
            if in_register(a) { (form_231, a, b) } else { (form_231, b, a) }
        };
        let shape = if self.unit.isa == Isa::Avx2 { "yyY" } else { "zzZ" };
        self.encode(code, shape, &[dst, second, third], 0, Masking::None);
    }

    /// Brings an integer of a stream to the lowest lane.
    fn integer(&mut self, inst: &Inst) {
        let address = inst.address.expect("integers are streams");
        let dst = Register::XMM0 + u32::from(self.line.machine[inst.dst.index()]);
        let (code, _) = self.unit.isa.encoding(inst.op);
        self.plain(match self.location(address.stream) {
            Location::Register(register) => Instruction::with2(code, dst, general(register)),
            Location::Frame(word) => Instruction::with2(code, dst, at(STACK, self.word_at(word))),
        });
    }

    // The end.

    fn finish(mut self) -> Result<Code, Refusal> {
        if let Some(error) = self.error {
            return Err(Refusal::Encoder(error));
        }
        let mut bytes = self.encoder.take_buffer();
        let instructions = bytes.len();
        let size = self.unit.isa.bytes() as usize;
        let pool = bytes.len().next_multiple_of(size);
        bytes.resize(pool, 0);
        for constant in &self.pool_order {
            let words = &self.unit.constants[*constant as usize];
            bytes.extend(words[..size / 4].iter().flat_map(|word| word.to_le_bytes()));
        }
        for (at, end, constant) in &self.fixups {
            let distance = (pool + self.pool[constant] * size) as i64 - *end as i64;
            self.patches.push((*at, distance as i32));
        }
        for (at, distance) in &self.patches {
            bytes[*at..*at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(Code { bytes, instructions })
    }
}

fn at(base: u8, displacement: i64) -> MemoryOperand {
    MemoryOperand::with_base_displ(general(base), displacement)
}

/// Instructions that do nothing, of 1 to 9 bytes.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];
