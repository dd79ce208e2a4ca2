//! The instruction set of a program, where the processor has vectors of 256 and of 512 bits.

use vector_asm::{Isa, LoopRange, VectorOp, VectorProgram, VectorStmt, VectorType, nibble_lookups};

/// The operations for each access to memory that make a program one of arithmetic. A hyperbolic tangent has
/// some 30.
const MIN_OPERATIONS: u64 = 8;

/// The operations on elements, of all iterations, that are worth wide instructions: some microseconds. Short
/// programs have short rows, and took up to a fifth longer.
const MIN_WORK: u64 = 1 << 18;

/// The iterations that make a sum long. Shorter ones end often, and their vectors are then added up.
const MIN_SUM: u64 = 64;

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
/// bits if the time of the program goes to arithmetic, of which there are then half as many instructions, if
/// these vectors have instructions that decode numbers of four bits, or if it has long sums of products of
/// two vectors: a line of memory is one load then, so more lines are on their way at once.
/// Other programs wait for memory, and longer vectors of theirs cross more cache lines. `calls` is the extent
/// of the loop that calls divide.
pub(super) fn mixed(program: &VectorProgram, calls: u64) -> Isa {
    let mut counts = Counts::default();
    counts.block(&program.body, program, (1, calls));
    let is_arithmetic = counts.operations >= MIN_OPERATIONS * (counts.loads + counts.stores);
    let streams =
        counts.stores == 0 && counts.numbers == 0 && counts.shortest_sum.is_some_and(|n| n >= MIN_SUM);
    // A tile of many rows decodes too few of its operands to gain by it.
    let lookups = nibble_lookups(program) as u64;
    let decodes = lookups > 0 && 2 * lookups >= counts.multiplications;
    match counts.work >= MIN_WORK && (is_arithmetic || decodes || streams) {
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
    loads: u64,
    /// Loads of one number.
    numbers: u64,
    stores: u64,
    /// Arithmetic on elements, for all iterations.
    work: u64,
    /// The fewest iterations of a loop around a fused multiplication and addition of vectors.
    shortest_sum: Option<u64>,
}

impl Counts {
    /// Counts a block that runs so many times, in a program whose calls have so many iterations together.
    fn block(&mut self, body: &[VectorStmt], program: &VectorProgram, (times, calls): (u64, u64)) {
        let is_outer = body.iter().any(|stmt| matches!(stmt, VectorStmt::Loop { .. }));
        for stmt in body {
            match stmt {
                VectorStmt::Loop { range, body, .. } => {
                    let (count, known) = (iterations(range, calls), self.multiplications);
                    let is_innermost = !body.iter().any(|stmt| matches!(stmt, VectorStmt::Loop { .. }));
                    self.block(body, program, (times.saturating_mul(count), calls));
                    if is_innermost && self.multiplications > known {
                        self.shortest_sum = Some(self.shortest_sum.map_or(count, |least| least.min(count)));
                    }
                }
                stmt if !is_outer => self.innermost(stmt, program, times),
                _ => {}
            }
        }
    }

    fn innermost(&mut self, stmt: &VectorStmt, program: &VectorProgram, times: u64) {
        match stmt {
            VectorStmt::Store { .. } => self.stores += 1,
            VectorStmt::Let { value, op: VectorOp::Load(_) | VectorOp::LoadIf { .. } } => {
                self.loads += 1;
                self.numbers += u64::from(program.values[value.0 as usize].lanes == 1);
            }
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

    /// A program that adds up products of two vectors in a loop of so many iterations, and stores the sums.
    fn summing(steps: u64) -> VectorProgram {
        let mut builder = VectorBuilder::new();
        builder.repeat(LoopRange::Call, |builder, _| {
            let (place, lanes) = (VectorAddress::at(0, LaneType::F32), VectorType::new(LaneType::F32, 32));
            let sum = builder.variable(lanes);
            let zero = builder.f32(0.0);
            builder.set(sum, zero);
            builder.repeat(LoopRange::Constant(steps), |builder, _| {
                let (a, b, so_far) = (
                    builder.load(place.clone(), lanes),
                    builder.load(VectorAddress::at(1, LaneType::F32), lanes),
                    builder.get(sum),
                );
                let next = builder.fma(a, b, so_far);
                builder.set(sum, next);
            });
            let total = builder.get(sum);
            builder.store(VectorAddress::at(2, LaneType::F32), total);
        });
        builder.finish()
    }

    #[test]
    fn long_sums_of_products_have_wide_instructions() {
        let isa_of = |steps| mixed(&summing(steps), MIN_WORK);
        assert_eq!([MIN_SUM - 1, MIN_SUM].map(isa_of), [Isa::Avx2, Isa::Avx512]);
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
