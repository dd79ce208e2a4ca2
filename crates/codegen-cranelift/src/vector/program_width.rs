//! The instruction set of a program, where the processor has vectors of 256 and of 512 bits.

use vector_asm::{Isa, LoopRange, VectorOp, VectorProgram, VectorStmt, VectorType, nibble_lookups};

/// The operations for each access to memory that make a program one of arithmetic. A hyperbolic tangent has
/// some 30.
const MIN_OPERATIONS: u64 = 8;

/// The operations on elements, of all iterations, that are worth wide instructions: some microseconds. Short
/// programs have short rows, and took up to a fifth longer.
const MIN_WORK: u64 = 1 << 18;

/// Of an instruction set, that of 256 bits if no value has more, because instructions on the halves of wide
/// registers are longer, and transposes on them take more steps.
pub(super) fn narrowed(isa: Isa, program: &VectorProgram) -> Isa {
    let fits = |value: &VectorType| value.lanes * value.element.bytes() <= 256 / 8;
    match isa {
        Isa::Avx512 if program.values.iter().chain(&program.variables).all(fits) => Isa::Avx2,
        isa => isa,
    }
}

/// The instruction set on a processor that computes the halves of 512 bits one after the other: that of 512
/// bits if the time of the program goes to arithmetic, of which there are then half as many instructions, or
/// if these vectors have instructions that decode numbers of four bits.
/// Other programs wait for memory, and longer vectors of theirs cross more cache lines. `calls` is the extent
/// of the loop that calls divide.
pub(super) fn mixed(program: &VectorProgram, calls: u64) -> Isa {
    let mut counts = Counts::default();
    counts.block(&program.body, program, (1, calls));
    let is_arithmetic = counts.operations >= MIN_OPERATIONS * counts.accesses;
    // A tile of many rows decodes too few of its operands to gain by it.
    let lookups = nibble_lookups(program) as u64;
    let decodes = lookups > 0 && 2 * lookups >= counts.multiplications;
    match counts.work >= MIN_WORK && (is_arithmetic || decodes) {
        true => narrowed(Isa::Avx512, program),
        false => Isa::Avx2,
    }
}

/// The most iterations of a loop.
fn iterations(range: &LoopRange, calls: u64) -> u64 {
    match range {
        LoopRange::Constant(count) => *count,
        LoopRange::Clipped { limit, .. } => *limit,
        LoopRange::Call => calls,
    }
}

/// What the innermost loops do.
#[derive(Default)]
struct Counts {
    /// Arithmetic on vectors.
    operations: u64,
    /// Fused multiplications and additions of vectors.
    multiplications: u64,
    /// Loads and stores.
    accesses: u64,
    /// Arithmetic on elements, for all iterations.
    work: u64,
}

impl Counts {
    /// Counts a block that runs so many times, in a program whose calls have so many iterations together.
    fn block(&mut self, body: &[VectorStmt], program: &VectorProgram, (times, calls): (u64, u64)) {
        let is_outer = body.iter().any(|stmt| matches!(stmt, VectorStmt::Loop { .. }));
        for stmt in body {
            match stmt {
                VectorStmt::Loop { range, body, .. } => {
                    let times = times.saturating_mul(iterations(range, calls));
                    self.block(body, program, (times, calls));
                }
                stmt if !is_outer => self.innermost(stmt, program, times),
                _ => {}
            }
        }
    }

    fn innermost(&mut self, stmt: &VectorStmt, program: &VectorProgram, times: u64) {
        match stmt {
            VectorStmt::Store { .. } => self.accesses += 1,
            VectorStmt::Let { op: VectorOp::Load(_) | VectorOp::LoadIf { .. }, .. } => self.accesses += 1,
            VectorStmt::Let {
                value,
                op:
                    op @ (VectorOp::Unary(..) | VectorOp::Binary(..) | VectorOp::Fma(..) | VectorOp::Select(..)),
            } => {
                let lanes = u64::from(program.values[value.0 as usize].lanes);
                if lanes > 1 {
                    self.operations += 1;
                    self.multiplications += u64::from(matches!(op, VectorOp::Fma(..)));
                    self.work = self.work.saturating_add(lanes.saturating_mul(times));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use vector_asm::{Binary, LaneType, StoredType, VectorAddress, VectorBuilder};

    use super::*;

    /// A program that loads as many lanes, adds the value to itself some times, and stores it, in each
    /// iteration of the loop that calls divide.
    fn program(lanes: u32, additions: u64) -> VectorProgram {
        let mut builder = VectorBuilder::new();
        builder.repeat(LoopRange::Call, |builder, _| {
            let place = VectorAddress::at(0, LaneType::F32);
            let value = builder.load(place.clone(), VectorType::new(LaneType::F32, lanes));
            let sum = (0..additions).fold(value, |sum, _| builder.binary(Binary::Add, sum, sum));
            builder.store(place, sum);
        });
        builder.finish()
    }

    #[test]
    fn programs_that_fill_no_wide_vector_have_instructions_of_256_bits() {
        let isa_of = |lanes| narrowed(Isa::Avx512, &program(lanes, 0));
        assert_eq!([1, 8, 9, 16].map(isa_of), [Isa::Avx2, Isa::Avx2, Isa::Avx512, Isa::Avx512]);
    }

    /// A program whose iterations decode four bits and multiply the number `multiplications` times.
    fn decoding(multiplications: u64) -> VectorProgram {
        let mut builder = VectorBuilder::new();
        let (mask, zero) = (builder.i32(15), builder.f32(0.0));
        builder.repeat(LoopRange::Call, |builder, _| {
            let bytes = VectorAddress::at(0, LaneType::I32).holding(StoredType::U8).step(1);
            let bytes = builder.load(bytes, VectorType::new(LaneType::I32, 32));
            let nibble = builder.binary(Binary::And, bytes, mask);
            let number = builder.convert(nibble, LaneType::F32);
            let product = (0..multiplications).fold(number, |x, _| builder.fma(x, number, zero));
            builder.store(VectorAddress::at(1, LaneType::F32), product);
        });
        builder.finish()
    }

    #[test]
    fn programs_that_decode_four_bits_have_wide_instructions() {
        let isa_of = |multiplications| mixed(&decoding(multiplications), MIN_WORK);
        assert_eq!([2, 3].map(isa_of), [Isa::Avx512, Isa::Avx2]);
    }

    #[test]
    fn programs_of_arithmetic_have_wide_instructions() {
        let isa_of = |(lanes, additions, calls)| mixed(&program(lanes, additions), calls);
        let (many, few) = (2 * MIN_OPERATIONS, MIN_WORK / (2 * MIN_OPERATIONS * 16));
        assert_eq!(isa_of((16, many, few)), Isa::Avx512);
        assert_eq!(isa_of((16, many - 1, 2 * few)), Isa::Avx2, "loads and stores");
        assert_eq!(isa_of((16, many, few - 1)), Isa::Avx2, "a short program");
        assert_eq!(isa_of((8, many, 2 * few)), Isa::Avx2, "short vectors");
    }
}
