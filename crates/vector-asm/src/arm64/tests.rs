//! The words of instructions, compared with those of an assembler.
//!
//! `tests/neon_encodings.txt` has the texts below with the words that GNU `as` gives for them. With the
//! variable `NEON_TEXTS`, the test writes its own lines to that file; their texts can be assembled again.

use super::immediate::vector_constant;
use super::{Arm64Assembler, hardware};
use crate::emit::{Assembler, FunctionFrame, InstOperands, Operand, Word};
use crate::machine::{Access, Inst, Reg};
use crate::op::Op;

/// Texts of instructions by operation: `D`, `N` and `M` are registers of the form `v7`, `I` is the immediate,
/// and `E` and `F` are the lanes of the result and of the source.
const REGISTERS: [(Op, &str); 113] = [
    (Op::AddF32, "fadd D.4s, N.4s, M.4s"),
    (Op::AddF64, "fadd D.2d, N.2d, M.2d"),
    (Op::SubF32, "fsub D.4s, N.4s, M.4s"),
    (Op::SubF64, "fsub D.2d, N.2d, M.2d"),
    (Op::MulF32, "fmul D.4s, N.4s, M.4s"),
    (Op::MulF64, "fmul D.2d, N.2d, M.2d"),
    (Op::DivF32, "fdiv D.4s, N.4s, M.4s"),
    (Op::DivF64, "fdiv D.2d, N.2d, M.2d"),
    (Op::MaxF32, "fmax D.4s, N.4s, M.4s"),
    (Op::MaxF64, "fmax D.2d, N.2d, M.2d"),
    (Op::MinF32, "fmin D.4s, N.4s, M.4s"),
    (Op::MinF64, "fmin D.2d, N.2d, M.2d"),
    (Op::SqrtF32, "fsqrt D.4s, N.4s"),
    (Op::SqrtF64, "fsqrt D.2d, N.2d"),
    (Op::FloorF32, "frintm D.4s, N.4s"),
    (Op::FloorF64, "frintm D.2d, N.2d"),
    (Op::TruncateF32, "frintz D.4s, N.4s"),
    (Op::TruncateF64, "frintz D.2d, N.2d"),
    (Op::EvenF32, "frintn D.4s, N.4s"),
    (Op::EvenF64, "frintn D.2d, N.2d"),
    (Op::NegF32, "fneg D.4s, N.4s"),
    (Op::NegF64, "fneg D.2d, N.2d"),
    (Op::AbsF32, "fabs D.4s, N.4s"),
    (Op::AbsF64, "fabs D.2d, N.2d"),
    (Op::FmaF32, "fmla D.4s, N.4s, M.4s"),
    (Op::FmaF64, "fmla D.2d, N.2d, M.2d"),
    (Op::FnmaF32, "fmls D.4s, N.4s, M.4s"),
    (Op::FnmaF64, "fmls D.2d, N.2d, M.2d"),
    (Op::FmaLaneF32, "fmla D.4s, M.4s, N.s[0]"),
    (Op::FmaLaneF64, "fmla D.2d, M.2d, N.d[0]"),
    (Op::FnmaLaneF32, "fmls D.4s, M.4s, N.s[0]"),
    (Op::FnmaLaneF64, "fmls D.2d, M.2d, N.d[0]"),
    (Op::MulLaneF32, "fmul D.4s, M.4s, N.s[0]"),
    (Op::MulLaneF64, "fmul D.2d, M.2d, N.d[0]"),
    (Op::EqF32, "fcmeq D.4s, N.4s, M.4s"),
    (Op::EqF64, "fcmeq D.2d, N.2d, M.2d"),
    (Op::GeF32, "fcmge D.4s, N.4s, M.4s"),
    (Op::GeF64, "fcmge D.2d, N.2d, M.2d"),
    (Op::GtF32, "fcmgt D.4s, N.4s, M.4s"),
    (Op::GtF64, "fcmgt D.2d, N.2d, M.2d"),
    (Op::NegativeF32, "fcmlt D.4s, N.4s, #0.0"),
    (Op::NegativeF64, "fcmlt D.2d, N.2d, #0.0"),
    (Op::PositiveF32, "fcmgt D.4s, N.4s, #0.0"),
    (Op::PositiveF64, "fcmgt D.2d, N.2d, #0.0"),
    (Op::And, "and D.16b, N.16b, M.16b"),
    (Op::AndNot, "bic D.16b, N.16b, M.16b"),
    (Op::Or, "orr D.16b, N.16b, M.16b"),
    (Op::Xor, "eor D.16b, N.16b, M.16b"),
    (Op::Not, "mvn D.16b, N.16b"),
    (Op::AddI32, "add D.4s, N.4s, M.4s"),
    (Op::AddI64, "add D.2d, N.2d, M.2d"),
    (Op::SubI32, "sub D.4s, N.4s, M.4s"),
    (Op::SubI64, "sub D.2d, N.2d, M.2d"),
    (Op::MulI32, "mul D.4s, N.4s, M.4s"),
    (Op::MulLow, "umull D.2d, N.2s, M.2s"),
    (Op::AddPairs, "uaddlp D.2d, N.4s"),
    (Op::SwapWords, "rev64 D.4s, N.4s"),
    (Op::MaxI32, "smax D.4s, N.4s, M.4s"),
    (Op::MaxU32, "umax D.4s, N.4s, M.4s"),
    (Op::MinI32, "smin D.4s, N.4s, M.4s"),
    (Op::MinU32, "umin D.4s, N.4s, M.4s"),
    (Op::NegI32, "neg D.4s, N.4s"),
    (Op::NegI64, "neg D.2d, N.2d"),
    (Op::AbsI32, "abs D.4s, N.4s"),
    (Op::AbsI64, "abs D.2d, N.2d"),
    (Op::EqI32, "cmeq D.4s, N.4s, M.4s"),
    (Op::EqI64, "cmeq D.2d, N.2d, M.2d"),
    (Op::GtI32, "cmgt D.4s, N.4s, M.4s"),
    (Op::GtI64, "cmgt D.2d, N.2d, M.2d"),
    (Op::GeI32, "cmge D.4s, N.4s, M.4s"),
    (Op::GeI64, "cmge D.2d, N.2d, M.2d"),
    (Op::GtU32, "cmhi D.4s, N.4s, M.4s"),
    (Op::GtU64, "cmhi D.2d, N.2d, M.2d"),
    (Op::GeU32, "cmhs D.4s, N.4s, M.4s"),
    (Op::GeU64, "cmhs D.2d, N.2d, M.2d"),
    (Op::ShlV32, "ushl D.4s, N.4s, M.4s"),
    (Op::ShlV64, "ushl D.2d, N.2d, M.2d"),
    (Op::SignedShlV32, "sshl D.4s, N.4s, M.4s"),
    (Op::SignedShlV64, "sshl D.2d, N.2d, M.2d"),
    (Op::I32ToF32, "scvtf D.4s, N.4s"),
    (Op::U32ToF32, "ucvtf D.4s, N.4s"),
    (Op::I64ToF64, "scvtf D.2d, N.2d"),
    (Op::U64ToF64, "ucvtf D.2d, N.2d"),
    (Op::F32ToI32, "fcvtzs D.4s, N.4s"),
    (Op::F32ToU32, "fcvtzu D.4s, N.4s"),
    (Op::F64ToI64, "fcvtzs D.2d, N.2d"),
    (Op::F64ToU64, "fcvtzu D.2d, N.2d"),
    (Op::F32ToF64, "fcvtl D.2d, N.2s"),
    (Op::F32ToF64High, "fcvtl2 D.2d, N.4s"),
    (Op::ExtendI32, "sxtl D.2d, N.2s"),
    (Op::ExtendI32High, "sxtl2 D.2d, N.4s"),
    (Op::ExtendU32, "uxtl D.2d, N.2s"),
    (Op::ExtendU32High, "uxtl2 D.2d, N.4s"),
    (Op::F64ToF32, "fcvtn D.2s, N.2d"),
    (Op::F64ToF32High, "fcvtn2 D.4s, M.2d"),
    (Op::PackU32, "xtn D.2s, N.2d"),
    (Op::PackU32High, "xtn2 D.4s, M.2d"),
    (Op::SaturateI32, "sqxtn D.2s, N.2d"),
    (Op::SaturateI32High, "sqxtn2 D.4s, M.2d"),
    (Op::SaturateU32, "uqxtn D.2s, N.2d"),
    (Op::SaturateU32High, "uqxtn2 D.4s, M.2d"),
    (Op::ExtendU16, "uxtl D.4s, N.4h"),
    (Op::ExtendI16, "sxtl D.4s, N.4h"),
    (Op::Bf16ToF32, "shll D.4s, N.4h, #16"),
    (Op::F16ToF32, "fcvtl D.4s, N.4h"),
    (Op::F32ToF16, "fcvtn D.4h, N.4s"),
    (Op::PackU16, "xtn D.4h, N.4s"),
    (Op::PackUpper16, "shrn D.4h, N.4s, #16"),
    (Op::ExtendU8, "uxtl D.8h, N.8b;uxtl D.4s, D.4h"),
    (Op::ExtendI8, "sxtl D.8h, N.8b;sxtl D.4s, D.4h"),
    (Op::PackU8, "xtn D.4h, N.4s;xtn D.8b, D.8h"),
    (Op::BlendV, "bit D.16b, M.16b, K.16b"),
    (Op::Copy, "mov D.16b, N.16b"),
];

/// Texts of instructions with an immediate, and the immediates.
const IMMEDIATES: [(Op, &str, &[u16]); 19] = [
    (Op::Shl32, "shl D.4s, N.4s, #I", &[1, 16, 31]),
    (Op::Shl64, "shl D.2d, N.2d, #I", &[1, 32, 63]),
    (Op::Shr32, "ushr D.4s, N.4s, #I", &[1, 16, 31]),
    (Op::Shr64, "ushr D.2d, N.2d, #I", &[1, 32, 63]),
    (Op::Sar32, "sshr D.4s, N.4s, #I", &[1, 16, 31]),
    (Op::Sar64, "sshr D.2d, N.2d, #I", &[1, 32, 63]),
    (Op::Window, "ext D.16b, N.16b, M.16b, #I", &[4, 8, 12]),
    (Op::UnpackLow32, "zip1 D.4s, N.4s, M.4s", &[0]),
    (Op::UnpackHigh32, "zip2 D.4s, N.4s, M.4s", &[0]),
    (Op::UnpackLow64, "zip1 D.2d, N.2d, M.2d", &[0]),
    (Op::UnpackHigh64, "zip2 D.2d, N.2d, M.2d", &[0]),
    (Op::Even32, "uzp1 D.4s, N.4s, M.4s", &[0]),
    (Op::Odd32, "uzp2 D.4s, N.4s, M.4s", &[0]),
    (Op::EvenPairs32, "trn1 D.4s, N.4s, M.4s", &[0]),
    (Op::OddPairs32, "trn2 D.4s, N.4s, M.4s", &[0]),
    (Op::All32, "dup D.4s, N.s[I]", &[0, 1, 2, 3]),
    (Op::All64, "dup D.2d, N.d[I]", &[0, 1]),
    (Op::IntoWord, "mov D.s[E], M.s[F]", &[0x100, 0x201, 0x002, 0x303]),
    (Op::IntoDouble, "mov D.d[E], M.d[F]", &[0x100, 0x001, 0x101]),
];

/// Texts of accesses of memory: `B` is the register of the address, and `I` the lane. The registers of the
/// access are `D` or `N`, as a number.
const ACCESSES: [(Op, &str, u32, &[u16]); 22] = [
    (Op::Load, "ldr qD, [A]", 16, &[0]),
    (Op::Load64, "ldr dD, [A]", 8, &[0]),
    (Op::Load32, "ldr sD, [A]", 4, &[0]),
    (Op::Load16, "ldr hD, [A]", 2, &[0]),
    (Op::Load8, "ldr bD, [A]", 1, &[0]),
    (Op::Store, "str qN, [A]", 16, &[0]),
    (Op::Store64, "str dN, [A]", 8, &[0]),
    (Op::Store32, "str sN, [A]", 4, &[0]),
    (Op::Prefetch, "prfm pldl1keep, [A]", 8, &[0]),
    (Op::LoadAll64, "ld1r {vD.2d}, [B]", 0, &[0]),
    (Op::LoadAll32, "ld1r {vD.4s}, [B]", 0, &[0]),
    (Op::LoadAll16, "ld1r {vD.8h}, [B]", 0, &[0]),
    (Op::LoadAll8, "ld1r {vD.16b}, [B]", 0, &[0]),
    (Op::Insert64, "ld1 {vD.d}[I], [B]", 0, &[0, 1]),
    (Op::Insert32, "ld1 {vD.s}[I], [B]", 0, &[0, 1, 2, 3]),
    (Op::Insert16, "ld1 {vD.h}[I], [B]", 0, &[0, 1, 5, 7]),
    (Op::Insert8, "ld1 {vD.b}[I], [B]", 0, &[0, 3, 6, 9, 15]),
    (Op::Extract64, "st1 {vN.d}[I], [B]", 0, &[0, 1]),
    (Op::Extract32, "st1 {vN.s}[I], [B]", 0, &[0, 1, 2, 3]),
    (Op::Extract16, "st1 {vN.h}[I], [B]", 0, &[0, 1, 5, 7]),
    (Op::Extract8, "st1 {vN.b}[I], [B]", 0, &[0, 3, 6, 9, 15]),
    (Op::Load128, "ldr qD, [A]", 16, &[0]),
];

/// The lines of the golden file: a word and its text.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, texts: &str, write: impl FnOnce(&mut Arm64Assembler)) {
        let mut asm = Arm64Assembler::default();
        write(&mut asm);
        assert_eq!(asm.error, None, "{texts}");
        let texts: Vec<&str> = texts.split(';').collect();
        assert_eq!(asm.words.len(), texts.len(), "{texts:?}: {:x?}", asm.words);
        for (word, text) in asm.words.iter().zip(texts) {
            self.0 += &format!("{word:08x} {text}\n");
        }
    }

    fn vector(&mut self, op: Op, texts: &str, registers: [u8; 4], imm: u16, memory: Option<Operand>) {
        let [d, n, m, k] = registers;
        // An instruction that updates its result has that register as a source.
        let shared = super::result_sources(op);
        let srcs = [n, m, k].map(Operand::Vector);
        let place = |at: usize| if shared >> at & 1 == 1 { Operand::Vector(d) } else { srcs[at] };
        let srcs = match shared {
            0b111 => [Operand::Vector(d), srcs[1], srcs[2]],
            _ => [place(0), place(1), place(2)],
        };
        let [dd, nn, mm, kk] = registers.map(|register| format!("v{}", hardware(register)));
        let (imm_text, e, f) = (imm.to_string(), (imm & 0xff).to_string(), (imm >> 8).to_string());
        let text = texts.replace("D.", &(dd + ".")).replace("N.", &(nn + ".")).replace("M.", &(mm + "."));
        let text = text.replace("K.", &(kk + ".")).replace("#I", &format!("#{imm_text}"));
        let text = text.replace("[I]", &format!("[{imm_text}]")).replace("[E]", &format!("[{e}]"));
        let text = text.replace("[F]", &format!("[{f}]"));
        let operands = InstOperands { dst: Some(Operand::Vector(d)), srcs: srcs.map(Some), memory };
        self.add(&text, |asm| asm.instruction(&inst(op, imm), operands));
    }
}

fn inst(op: Op, imm: u16) -> Inst {
    let srcs = [Reg::NONE; 3];
    Inst { op, dst: Reg::NONE, srcs, imm, address: None, access: Access::None, part: 0 }
}

/// Results in other registers than those that the instructions update.
fn copies(lines: &mut Lines) {
    for (op, imm, registers, text) in [
        (Op::BlendV, 0, [6, 5, 6, 7], "bif v6.16b, v5.16b, v7.16b"),
        (Op::BlendV, 0, [7, 5, 6, 7], "bsl v7.16b, v6.16b, v5.16b"),
        (Op::BlendV, 0, [4, 5, 6, 7], "mov v4.16b, v7.16b;bsl v4.16b, v6.16b, v5.16b"),
        (Op::FmaF32, 0, [4, 5, 6, 7], "mov v4.16b, v7.16b;fmla v4.4s, v5.4s, v6.4s"),
        (Op::FnmaLaneF64, 0, [4, 5, 6, 7], "mov v4.16b, v7.16b;fmls v4.2d, v6.2d, v5.d[0]"),
        (Op::PackU32High, 0, [4, 5, 6, 7], "mov v4.16b, v5.16b;xtn2 v4.4s, v6.2d"),
        (Op::IntoWord, 0x203, [4, 5, 6, 7], "mov v4.16b, v5.16b;mov v4.s[3], v6.s[2]"),
    ] {
        let [d, a, b, c] = registers.map(|register| Some(Operand::Vector(register)));
        let operands = InstOperands { dst: d, srcs: [a, b, c], memory: None };
        lines.add(text, |asm| asm.instruction(&inst(op, imm), operands));
    }
}

fn registers(lines: &mut Lines) {
    for (op, texts) in REGISTERS {
        for sample in [[0, 1, 2, 3], [31, 30, 29, 28], [8, 23, 24, 15]] {
            lines.vector(op, texts, sample, 0, None);
        }
    }
    for (op, texts, imms) in IMMEDIATES {
        imms.iter().for_each(|imm| lines.vector(op, texts, [5, 20, 26, 9], *imm, None));
    }
}

fn accesses(lines: &mut Lines) {
    for (op, texts, size, imms) in ACCESSES {
        let name = |register: u8| hardware(register).to_string();
        let registers = [3, 27, 4, 5];
        // The digits of `vD` are those of the loaded register.
        let text = texts.replace("vD", &format!("v{}", name(3))).replace("vN", &format!("v{}", name(27)));
        let text = ["q", "d", "s", "h", "b"].iter().fold(text, |text, class| {
            let text = text.replace(&format!("{class}D,"), &format!("{class}{},", name(3)));
            text.replace(&format!("{class}N,"), &format!("{class}{},", name(27)))
        });
        let size = i64::from(size);
        if size > 0 {
            for displacement in [0, size, 4095 * size] {
                let text = text.replace("[A]", &format!("[x7, #{displacement}]"));
                lines.vector(op, &text, registers, 0, Some(Operand::Memory(7, displacement)));
            }
            for displacement in [-size, -256] {
                let text = text.replace("prfm", "prfum").replace("ldr", "ldur").replace("str", "stur");
                let text = text.replace("[A]", &format!("[sp, #{displacement}]"));
                lines.vector(op, &text, registers, 0, Some(Operand::Memory(31, displacement)));
            }
            let text = format!("mov x15, #-257;{}", text.replace("[A]", "[x28, x15]"));
            lines.vector(op, &text, registers, 0, Some(Operand::Memory(28, -257)));
        } else {
            for imm in imms {
                lines.vector(op, &text.replace('B', "x9"), registers, *imm, Some(Operand::Memory(9, 0)));
            }
            let text = format!("add x15, x9, #8;{}", text.replace('B', "x15"));
            lines.vector(op, &text, registers, imms[0], Some(Operand::Memory(9, 8)));
        }
    }
    let far = "mov x15, #16777216;add x15, x9, x15, uxtx;ld1r {v3.4s}, [x15]";
    lines.vector(Op::LoadAll32, far, [3; 4], 0, Some(Operand::Memory(9, 1 << 24)));
    let loop_of_lanes = "mov v2.16b, v1.16b;add x16, x4, #32;\
        umov x15, v0.d[0];cmn x15, #1;b.ne .+24;umov x15, v0.d[1];cmn x15, #1;b.ne .+12;ldr q2, [x16];b .+32;\
        umov x15, v0.d[0];cbz x15, .+8;ld1 {v2.d}[0], [x16];add x16, x16, #8;\
        umov x15, v0.d[1];cbz x15, .+8;ld1 {v2.d}[1], [x16]";
    let operands = InstOperands {
        dst: Some(Operand::Vector(2)),
        srcs: [Some(Operand::Vector(0)), Some(Operand::Vector(1)), None],
        memory: Some(Operand::Memory(4, 32)),
    };
    lines.add(loop_of_lanes, |asm| asm.instruction(&inst(Op::LoadLanes64, 2), operands));
    let words = "mov v2.16b, v1.16b;add x16, x4, #32;umov w15, v0.s[0];cbz x15, .+8;ld1 {v2.s}[0], [x16];\
        add x16, x16, #4;umov w15, v0.s[1];cbz x15, .+8;ld1 {v2.s}[1], [x16];\
        add x16, x16, #4;umov w15, v0.s[2];cbz x15, .+8;ld1 {v2.s}[2], [x16]";
    lines.add(words, |asm| asm.instruction(&inst(Op::LoadLanes32, 3), operands));
}

fn general(lines: &mut Lines) {
    lines.add("mov x3, x28", |asm| asm.load(3, Word::Register(28)));
    lines.add("ldr x3, [sp, #32]", |asm| asm.load(3, Word::Stack(32)));
    lines.add("str x16, [sp, #32]", |asm| asm.store(16, Word::Stack(32)));
    lines.add("ldr x17, [x1, #24]", |asm| asm.load_at(17, 1, 24));
    for (number, text) in [
        (0, "movz x5, #0, lsl #48"),
        (-1, "movn x5, #0, lsl #48"),
        (5, "mov x5, #5"),
        (-6, "mov x5, #-6"),
        (0x12_3456, "movz x5, #0x3456;movk x5, #0x12, lsl #16"),
        (-0x12_3457, "movn x5, #0x3456;movk x5, #0xffed, lsl #16"),
        (1 << 48, "movz x5, #1, lsl #48"),
        (0x1234_0000_5678, "movz x5, #0x5678;movk x5, #0x1234, lsl #32"),
    ] {
        lines.add(text, |asm| asm.number(5, number));
    }
    lines.add("add x5, x5, #4095", |asm| asm.add_number(Word::Register(5), 4095, 16));
    lines.add("add x5, x5, #1, lsl #12", |asm| asm.add_number(Word::Register(5), 4096, 16));
    lines.add("sub x5, x5, #1, lsl #12;sub x5, x5, #1", |asm| {
        asm.add_number(Word::Register(5), -4097, 16);
    });
    lines.add("mov x16, #16777216;add x5, x5, x16, uxtx", |asm| {
        asm.add_number(Word::Register(5), 1 << 24, 16);
    });
    lines.add("ldr x15, [sp, #8];add x15, x15, #3;str x15, [sp, #8]", |asm| {
        asm.add_number(Word::Stack(8), 3, 16);
    });
    lines.add("add x5, x5, x9", |asm| asm.add(5, Word::Register(9)));
    lines.add("ldr x15, [sp, #8];sub x5, x5, x15", |asm| asm.subtract(5, Word::Stack(8)));
    lines.add("mov x15, #12;madd x16, x17, x15, x16", |asm| asm.add_multiple(16, 17, 12));
    lines.add("mov x15, #12;mul x16, x17, x15", |asm| asm.multiply(16, 17, 12));
    lines.add("cmp x17, x3;csel x3, x17, x3, lt", |asm| asm.minimum(3, 17));
    lines.add("mov x16, #7;str w16, [sp, #12]", |asm| asm.store_number(12, 7));
    // The targets of these branches are the instruction after them.
    lines.add("cmp x3, #0;b.le .+4", |asm| {
        let branch = asm.branch_unless_positive(3);
        asm.bind(branch);
    });
    lines.add("subs x3, x3, x4;b.ls .+4", |asm| {
        let branch = asm.subtract_or_branch(3, Word::Register(4));
        asm.bind(branch);
    });
    lines.add("lsr x3, x3, #2;cbz x3, .+4", |asm| {
        let branch = asm.shift_or_branch(3, 2);
        asm.bind(branch);
    });
    lines.add("and x3, x3, #3;cbz x3, .+4", |asm| {
        let branch = asm.keep_bits_or_branch(3, 2);
        asm.bind(branch);
    });
    lines.add("mov x3, x4;nop;nop;nop;subs x3, x3, #1;b.ne .-4", |asm| {
        asm.load(3, Word::Register(4));
        asm.align();
        asm.repeat(Word::Register(3), 16);
    });
    lines.add("ldr x15, [sp, #8];subs x15, x15, #1;str x15, [sp, #8];b.ne .-12", |asm| {
        asm.repeat(Word::Stack(8), 0);
    });
    lines.add("fmov d5, x6", |asm| asm.integer(5, Word::Register(6)));
    lines.add("ldr d5, [sp, #8]", |asm| asm.integer(5, Word::Stack(8)));
    lines.add("ldr q5, [sp, #16]", |asm| asm.load_vector(5, 16));
    lines.add("str q5, [sp, #16]", |asm| asm.store_vector(5, 16));
    // The registers 24 and 31 are `v8` and `v15`.
    let frame = FunctionFrame { saved: vec![19, 28], vectors: 1 << 24 | 1 << 31 | 0xff, bytes: 40 };
    let enter = "stp d8, d9, [sp, #-16]!;stp d14, d15, [sp, #-16]!;str x19, [sp, #-16]!;\
        str x28, [sp, #-16]!;sub sp, sp, #48";
    let leave = "add sp, sp, #48;ldr x28, [sp], #16;ldr x19, [sp], #16;ldp d14, d15, [sp], #16;\
        ldp d8, d9, [sp], #16;ret";
    lines.add(enter, |asm| asm.enter(&frame));
    lines.add(leave, |asm| asm.leave(&frame, false));
}

fn constants(lines: &mut Lines) {
    for (words, text) in [
        ([0; 4], "movi v6.2d, #0"),
        ([u32::MAX; 4], "movi v6.2d, #0xffffffffffffffff"),
        ([0xff00, 0xff_ff00, 0xff00, 0xff_ff00], "movi v6.2d, #0xffff000000ff00"),
        ([0x12; 4], "movi v6.4s, #0x12"),
        ([0x1200; 4], "movi v6.4s, #0x12, lsl #8"),
        ([0x8000_0000; 4], "movi v6.4s, #0x80, lsl #24"),
        ([!0x12; 4], "mvni v6.4s, #0x12"),
        ([0x7fff_ffff; 4], "mvni v6.4s, #0x80, lsl #24"),
        ([0x3f80_0000; 4], "fmov v6.4s, #1.0"),
        ([0xbe80_0000; 4], "fmov v6.4s, #-0.25"),
        ([0x41f8_0000; 4], "fmov v6.4s, #31.0"),
        ([0, 0x3ff0_0000, 0, 0x3ff0_0000], "fmov v6.2d, #1.0"),
        ([0, 0xc008_0000, 0, 0xc008_0000], "fmov v6.2d, #-3.0"),
    ] {
        lines.add(text, |asm| asm.constant(6, 0, &words));
    }
    let others = [[1, 2, 3, 4], [0x102; 4], [0x3f80_0001; 4], [0, 0x3ff0_0001, 0, 0x3ff0_0001]];
    assert!(others.iter().all(|words| vector_constant(words).is_none()), "these are in the pool");
}

#[test]
fn words_are_those_of_an_assembler() {
    let mut lines = Lines::default();
    registers(&mut lines);
    copies(&mut lines);
    accesses(&mut lines);
    general(&mut lines);
    constants(&mut lines);
    if let Ok(path) = std::env::var("NEON_TEXTS") {
        std::fs::write(path, &lines.0).expect("the path can be written");
    }
    let golden = include_str!("../../tests/neon_encodings.txt");
    for (number, (line, expected)) in lines.0.lines().zip(golden.lines()).enumerate() {
        assert_eq!(line, expected, "line {}", number + 1);
    }
    assert_eq!(lines.0.lines().count(), golden.lines().count());
}

#[test]
fn every_instruction_of_the_table_has_a_text() {
    let texts = REGISTERS.iter().map(|(op, _)| *op);
    let texts = texts.chain(IMMEDIATES.iter().map(|(op, ..)| *op)).chain(ACCESSES.iter().map(|(op, ..)| *op));
    let texts: Vec<Op> = texts.collect();
    for op in Op::ALL.iter().filter(|op| super::neon::encoding(**op).is_some()) {
        assert!(texts.contains(op) || *op == Op::Store128, "{op:?}");
    }
}
