//! Microkernels as `microkernels` generates them: accumulators stay in registers from the loop through an
//! epilogue to its stores.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{check, machine};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use vector_asm::{
    Index, Isa, LaneType, LoopRange, VectorAddress, VectorBuilder, VectorProgram, VectorType, compile,
};

const ROWS: i64 = 6;
const DEPTH: i64 = 19;

/// `out[r, c] = max(Σ a[r, k] · b[k, c] + bias[c], 0)`, all row-major. The program computes 6 rows and stores
/// them from the row of `out` that the binding gives.
fn tile(element: LaneType, columns: i64) -> VectorProgram {
    let size = i64::from(element.bytes());
    let (ty, one) = (VectorType::new(element, columns as u32), VectorType::new(element, 1));
    let mut b = VectorBuilder::new();
    let sums: Vec<_> = (0..ROWS).map(|_| b.variable(ty)).collect();
    b.repeat(LoopRange::Constant(DEPTH as u64), |b, k| {
        let right = b.load(VectorAddress::at(1, element).by(k, columns * size), ty);
        for (row, &sum) in (0..).zip(&sums) {
            let left =
                b.load(VectorAddress::at(0, element).plus(row * DEPTH * size).by(k, size).step(0), one);
            let s = b.get(sum);
            let s = b.fma(left, right, s);
            b.set(sum, s);
        }
    });
    let zero = b.constant(one, 0);
    for (row, &sum) in (0..).zip(&sums) {
        let s = b.get(sum);
        let bias = b.load(VectorAddress::at(2, element), ty);
        let s = b.add(s, bias);
        let s = b.max(s, zero);
        let out =
            VectorAddress::at(3, element).plus(row * columns * size).by(Index::Binding(0), columns * size);
        b.store(out, s);
    }
    b.finish()
}

fn instructions(program: &VectorProgram) -> Vec<Instruction> {
    let code = compile(program, Isa::Avx2).unwrap();
    let bytes = &code.bytes()[..code.instruction_bytes()];
    Decoder::new(64, bytes, DecoderOptions::NONE).iter().collect()
}

fn of_the_frame(instruction: &&Instruction) -> bool {
    let memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    memory && [Register::RSP, Register::RBP].contains(&instruction.memory_base())
}

#[test]
fn code_computes_what_is_meant() {
    for element in [LaneType::F32, LaneType::F64] {
        // Full vectors, and tails that take masked and narrow accesses.
        for columns in [16, 8, 4, 13, 11, 7, 3, 1] {
            let bytes = |elements: i64| (elements * i64::from(element.bytes())) as usize;
            let args = [ROWS * DEPTH, DEPTH * columns, columns, (ROWS + 2) * columns].map(bytes);
            check(&tile(element, columns), machine(&args, &[2], 0), 0..1);
        }
    }
}

#[test]
fn the_loop_of_a_full_tile_is_as_written_by_hand() {
    for (element, columns) in [(LaneType::F32, 16), (LaneType::F64, 8)] {
        let all = instructions(&tile(element, columns));
        assert!(!all.iter().any(|i| of_the_frame(&i)), "nothing is spilled");
        let end = all.iter().position(|i| i.mnemonic() == Mnemonic::Jne).unwrap();
        let start = all.iter().position(|i| i.ip() == all[end].near_branch_target()).unwrap();
        let count = |mnemonics: &[Mnemonic]| {
            all[start..end].iter().filter(|i| mnemonics.contains(&i.mnemonic())).count()
        };
        // Each iteration has twelve fused multiply-adds, two vectors of B and six elements of A; and two
        // pointer increments and the trip count.
        let products = count(&[Mnemonic::Vfmadd231ps, Mnemonic::Vfmadd231pd]);
        let depths = products / 12;
        assert!(depths >= 2 && products % 12 == 0, "{products} products");
        assert_eq!(count(&[Mnemonic::Vmovups]), 2 * depths);
        assert_eq!(count(&[Mnemonic::Vbroadcastss, Mnemonic::Vbroadcastsd]), 6 * depths);
        assert_eq!(count(&[Mnemonic::Add, Mnemonic::Dec]), 3);
        assert_eq!(end - start, 20 * depths + 3, "and nothing else");
    }
}

/// The words that a mask selects, as for an instruction with any registers.
fn count_words(words: &[u32], mask: u32, word: u32) -> usize {
    words.iter().filter(|found| **found & mask == word).count()
}

#[test]
fn the_loop_of_a_full_neon_tile_is_as_written_by_hand() {
    for (element, columns, product, load) in
        [(LaneType::F32, 12, 0x4f80_1000, 0xbd40_0000), (LaneType::F64, 6, 0x4fc0_1000, 0xfd40_0000)]
    {
        let code = compile(&tile(element, columns), Isa::Neon).unwrap();
        let words = code.bytes()[..code.instruction_bytes()].chunks(4);
        let words: Vec<u32> = words.map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        let end = words.iter().position(|word| word & 0xff00_001f == 0x5400_0001).unwrap();
        let back = (1 << 19) - (words[end] >> 5 & 0x7_ffff) as usize;
        let body = &words[end - back..end];
        // Each iteration has 18 products by an element, three vectors of B and six elements of A; and two
        // pointer increments and the trip count.
        let products = count_words(body, 0xffc0_f400, product);
        let depths = products / 18;
        assert!(depths >= 2 && products.is_multiple_of(18), "{products} products");
        assert_eq!(count_words(body, 0xffc0_0000, 0x3dc0_0000), 3 * depths);
        assert_eq!(count_words(body, 0xffc0_0000, load), 6 * depths);
        assert_eq!(body.len(), 27 * depths + 3, "and nothing else");
        assert_eq!(count_words(&words, 0xffc0_03e0, 0x3d80_03e0), 0, "nothing is spilled");
    }
}

#[test]
fn a_maximum_with_a_number_is_one_instruction() {
    let count = |constant: Option<f32>| {
        let ty = VectorType::new(LaneType::F32, 8);
        let mut b = VectorBuilder::new();
        let x = b.load(VectorAddress::at(0, LaneType::F32), ty);
        let y = match constant {
            Some(constant) => b.f32(constant),
            None => b.load(VectorAddress::at(1, LaneType::F32), ty),
        };
        let most = b.max(x, y);
        b.store(VectorAddress::at(2, LaneType::F32), most);
        let arithmetic = [Mnemonic::Vmaxps, Mnemonic::Vcmpps, Mnemonic::Vblendvps];
        instructions(&b.finish()).iter().filter(|i| arithmetic.contains(&i.mnemonic())).count()
    };
    assert_eq!([Some(0.0), Some(-1.5), Some(f32::NAN), None].map(count), [1, 1, 3, 3]);
}
