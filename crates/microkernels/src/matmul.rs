//! GEMM of matrices in slices.

use std::marker::PhantomData;

use vector_asm::{StoredType, VectorAddress, VectorBuilder, VectorType};

use crate::machine::CpuTarget;
use crate::plan::GemmPlan;
use crate::problem::{AxisOffsets, COLUMN, EPILOGUE_LANES, GemmOperand, GemmProblem, ParallelAxis, ROW};

/// The elements of a [`Matmul`]: `f32` and `f64`.
pub trait MatmulFloat: sealed::MatmulFloat {}

impl MatmulFloat for f32 {}
impl MatmulFloat for f64 {}

mod sealed {
    use vector_asm::LaneType;

    pub trait MatmulFloat: Copy + Default {
        const ELEMENT: LaneType;
        fn fma(self, other: Self, sum: Self) -> Self;
    }

    impl MatmulFloat for f32 {
        const ELEMENT: LaneType = LaneType::F32;
        fn fma(self, other: f32, sum: f32) -> f32 {
            self.mul_add(other, sum)
        }
    }

    impl MatmulFloat for f64 {
        const ELEMENT: LaneType = LaneType::F64;
        fn fma(self, other: f64, sum: f64) -> f64 {
            self.mul_add(other, sum)
        }
    }
}

/// The shape and the strides, in elements, of `C[m, n] = A[m, k] · B[k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulShape {
    /// Rows of A and of C.
    pub m: usize,
    /// Columns of B and of C.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// Elements from a row of A to the next, and from a column to the next.
    pub a_strides: (usize, usize),
    /// Elements from a row of B to the next, and from a column to the next.
    pub b_strides: (usize, usize),
    /// Elements from a row of C to the next. A row of C is contiguous.
    pub c_stride: usize,
}

impl MatmulShape {
    /// Strides of row-major matrices without gaps.
    pub fn row_major(m: usize, n: usize, k: usize) -> MatmulShape {
        MatmulShape { m, n, k, a_strides: (k, 1), b_strides: (n, 1), c_stride: n }
    }
}

/// Why a [`Matmul`] is rejected.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum MatmulError {
    /// A slice ends before the last element of its matrix.
    #[error("the slice of the {matrix} has {found} elements; the shape needs {expected}")]
    SliceTooShort { matrix: &'static str, expected: usize, found: usize },
    /// The rows of the output overlap.
    #[error("rows of the output are {stride} elements apart and have {columns}")]
    OverlappingRows { stride: usize, columns: usize },
    /// A matrix is too large for a slice.
    #[error("the {matrix} has more elements than can be addressed")]
    TooLarge { matrix: &'static str },
}

/// A GEMM of one shape, planned once, with the memory that it packs operands into.
///
/// ```
/// use microkernels::{Matmul, MatmulShape};
///
/// let mut matmul = Matmul::<f32>::new(MatmulShape::row_major(2, 2, 3))?;
/// let mut c = [0.0; 4];
/// matmul.run(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &mut c)?;
/// assert_eq!(c, [4.0, 5.0, 10.0, 11.0]);
/// # Ok::<(), microkernels::MatmulError>(())
/// ```
#[derive(Debug)]
pub struct Matmul<T> {
    shape: MatmulShape,
    /// Elements of A, B and C that the shape spans.
    needed: [usize; 3],
    /// `None` on a machine without AVX2, where scalar loops compute the same bits.
    plan: Option<GemmPlan>,
    scratch: Vec<Line>,
    element: PhantomData<T>,
}

/// A cache line; gives scratch memory its alignment.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "memory for others")] [u8; 64]);

const MATRICES: [&str; 3] = ["operand A", "operand B", "output"];

impl<T: MatmulFloat> Matmul<T> {
    /// Plans the GEMM.
    ///
    /// # Errors
    ///
    /// [`MatmulError::OverlappingRows`] and [`MatmulError::TooLarge`].
    pub fn new(shape: MatmulShape) -> Result<Matmul<T>, MatmulError> {
        let MatmulShape { m, n, k, a_strides, b_strides, c_stride } = shape;
        if m > 1 && c_stride < n {
            return Err(MatmulError::OverlappingRows { stride: c_stride, columns: n });
        }
        let needed = [
            needed::<T>(0, [m, k], a_strides)?,
            needed::<T>(1, [k, n], b_strides)?,
            needed::<T>(2, [m, n], (c_stride, 1))?,
        ];
        let plan = GemmPlan::new(&problem::<T>(&shape), &CpuTarget::detect());
        let lines = plan.as_ref().map_or(0, |plan| plan.scratch_bytes().div_ceil(64));
        Ok(Matmul { shape, needed, plan, scratch: vec![Line([0; 64]); lines], element: PhantomData })
    }

    /// Computes `c := a · b`. Each accumulator starts at zero and adds the products in ascending order of `k`
    /// with fused multiply-add.
    ///
    /// # Errors
    ///
    /// [`MatmulError::SliceTooShort`].
    pub fn run(&mut self, a: &[T], b: &[T], c: &mut [T]) -> Result<(), MatmulError> {
        for (i, found) in [a.len(), b.len(), c.len()].into_iter().enumerate() {
            if found < self.needed[i] {
                return Err(MatmulError::SliceTooShort {
                    matrix: MATRICES[i],
                    expected: self.needed[i],
                    found,
                });
            }
        }
        let Some(plan) = &self.plan else {
            loops(&self.shape, a, b, c);
            return Ok(());
        };
        let args = [a.as_ptr().cast_mut().cast(), b.as_ptr().cast_mut().cast(), c.as_mut_ptr().cast()];
        let scratch = self.scratch.as_mut_ptr().cast();
        // SAFETY: the lengths of the slices were checked above, so they contain every element of the
        // matrices. A and B are only read, and the exclusive borrow of `c` keeps it apart from them. There
        // are no bindings. This object owns the scratch memory and is borrowed exclusively for the call.
        unsafe { plan.run(args.as_ptr(), std::ptr::null(), scratch, 0, plan.extent()) };
        Ok(())
    }
}

/// The number of elements from the first to the last one of a matrix.
fn needed<T>(
    matrix: usize,
    [rows, columns]: [usize; 2],
    steps: (usize, usize),
) -> Result<usize, MatmulError> {
    if rows == 0 || columns == 0 {
        return Ok(0);
    }
    let last = |extent: usize, step: usize| (extent - 1).checked_mul(step);
    last(rows, steps.0)
        .zip(last(columns, steps.1))
        .and_then(|(a, b)| a.checked_add(b)?.checked_add(1))
        .filter(|elements| elements.checked_mul(size_of::<T>()).is_some_and(|b| isize::try_from(b).is_ok()))
        .ok_or(MatmulError::TooLarge { matrix: MATRICES[matrix] })
}

fn problem<T: MatmulFloat>(shape: &MatmulShape) -> GemmProblem {
    let size = size_of::<T>() as i64;
    let bytes = |elements: usize| elements as i64 * size;
    let operand = |base, outer, k| GemmOperand {
        base,
        memory: StoredType::Same,
        offset: 0,
        terms: Vec::new(),
        outer: AxisOffsets::Strided(bytes(outer)),
        k: AxisOffsets::Strided(bytes(k)),
        bounds: Vec::new(),
        outside: 0,
        zero: 0,
    };
    let mut epilogue = VectorBuilder::new();
    let sum = epilogue.variable(VectorType::new(T::ELEMENT, EPILOGUE_LANES));
    let value = epilogue.get(sum);
    epilogue.store(VectorAddress::at(2, T::ELEMENT).by(ROW, bytes(shape.c_stride)).by(COLUMN, size), value);
    GemmProblem {
        element: T::ELEMENT,
        batch: Vec::new(),
        m: shape.m as u64,
        n: shape.n as u64,
        k: shape.k as u64,
        dynamic: Vec::new(),
        a: operand(0, shape.a_strides.0, shape.a_strides.1),
        b: operand(1, shape.b_strides.1, shape.b_strides.0),
        initial: None,
        epilogue: epilogue.finish(),
        parallel: ParallelAxis::None,
    }
}

/// Computes the same bits as a plan, one element at a time.
fn loops<T: MatmulFloat>(shape: &MatmulShape, a: &[T], b: &[T], c: &mut [T]) {
    for row in 0..shape.m {
        for column in 0..shape.n {
            let sum = (0..shape.k).fold(T::default(), |sum, k| {
                let a = a[row * shape.a_strides.0 + k * shape.a_strides.1];
                a.fma(b[k * shape.b_strides.0 + column * shape.b_strides.1], sum)
            });
            c[row * shape.c_stride + column] = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..count).map(|_| random.f32() - 0.5).collect()
    }

    #[test]
    fn products_of_slices_are_the_loops() {
        for (m, n, k) in [(1, 1, 1), (13, 37, 21), (0, 3, 3), (3, 0, 3), (3, 3, 0), (70, 70, 300)] {
            let plain = MatmulShape::row_major(m, n, k);
            let shapes = [
                plain,
                MatmulShape { a_strides: (1, m), ..plain },
                MatmulShape { b_strides: (1, k), c_stride: n + 3, ..plain },
                MatmulShape { a_strides: (0, 2), b_strides: (n + 1, 1), ..plain },
            ];
            for shape in shapes {
                let mut matmul = Matmul::<f32>::new(shape).unwrap();
                let [a, b, c] = matmul.needed;
                let (a, b) = (numbers(a, 1), numbers(b, 2));
                let (mut found, mut expected) = (vec![0.5; c], vec![0.5; c]);
                matmul.run(&a, &b, &mut found).unwrap();
                loops(&shape, &a, &b, &mut expected);
                assert_eq!(found, expected, "{shape:?}");
            }
        }
    }

    #[test]
    fn short_slices_and_overlapping_rows_are_errors() {
        let shape = MatmulShape::row_major(4, 5, 6);
        let mut matmul = Matmul::<f64>::new(shape).unwrap();
        let error = matmul.run(&[0.0; 24], &[0.0; 29], &mut [0.0; 20]).unwrap_err();
        assert_eq!(error, MatmulError::SliceTooShort { matrix: "operand B", expected: 30, found: 29 });
        let error = Matmul::<f64>::new(MatmulShape { c_stride: 4, ..shape }).unwrap_err();
        assert_eq!(error, MatmulError::OverlappingRows { stride: 4, columns: 5 });
        let error = Matmul::<f64>::new(MatmulShape { a_strides: (usize::MAX, 1), ..shape }).unwrap_err();
        assert_eq!(error, MatmulError::TooLarge { matrix: "operand A" });
    }
}
