//! Products of slices, for those who have no arrays of their own to describe.

use std::marker::PhantomData;

use vector_asm::{Builder, Memory, Place, Type};

use crate::contraction::{COLUMN, Contraction, Factor, LANES, Offsets, ROW, Split};
use crate::machine::Machine;
use crate::plan::Plan;

/// What slices may hold: `f32` and `f64`.
pub trait Scalar: sealed::Scalar {}

impl Scalar for f32 {}
impl Scalar for f64 {}

mod sealed {
    use vector_asm::Element;

    pub trait Scalar: Copy + Default {
        const ELEMENT: Element;
        fn fma(self, other: Self, sum: Self) -> Self;
    }

    impl Scalar for f32 {
        const ELEMENT: Element = Element::F32;
        fn fma(self, other: f32, sum: f32) -> f32 {
            self.mul_add(other, sum)
        }
    }

    impl Scalar for f64 {
        const ELEMENT: Element = Element::F64;
        fn fma(self, other: f64, sum: f64) -> f64 {
            self.mul_add(other, sum)
        }
    }
}

/// The shape of a product `out[m, n] = left[m, k] · right[k, n]`, and how far apart elements are, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulShape {
    /// Rows of the output and of the left factor.
    pub m: usize,
    /// Columns of the output and of the right factor.
    pub n: usize,
    /// Columns of the left factor and rows of the right one.
    pub k: usize,
    /// From a row of the left factor to the next, and from a column to the next.
    pub left: (usize, usize),
    /// The same of the right factor.
    pub right: (usize, usize),
    /// From a row of the output to the next; its columns are neighbours.
    pub out: usize,
}

impl MatmulShape {
    /// All row-major, without gaps.
    pub fn row_major(m: usize, n: usize, k: usize) -> MatmulShape {
        MatmulShape { m, n, k, left: (k, 1), right: (n, 1), out: n }
    }
}

/// A product that cannot be computed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatmulError {
    /// A slice that ends before the last element of a matrix.
    #[error("the slice of the {matrix} has {found} elements; the shape needs {expected}")]
    Slice {
        /// Which matrix.
        matrix: &'static str,
        /// Elements that the shape needs.
        expected: usize,
        /// Elements that there are.
        found: usize,
    },
    /// Rows of the output that overlap.
    #[error("rows of the output are {step} elements apart and have {columns}")]
    Overlap {
        /// From a row to the next.
        step: usize,
        /// Elements of a row.
        columns: usize,
    },
    /// A matrix that no slice can hold.
    #[error("the {matrix} has more elements than can be addressed")]
    TooLarge {
        /// Which matrix.
        matrix: &'static str,
    },
}

/// A product of one shape, planned once, with the memory that it packs into.
///
/// ```
/// use microkernels::{Matmul, MatmulShape};
///
/// let mut product = Matmul::<f32>::new(MatmulShape::row_major(2, 2, 3))?;
/// let mut out = [0.0; 4];
/// product.run(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &mut out)?;
/// assert_eq!(out, [4.0, 5.0, 10.0, 11.0]);
/// # Ok::<(), microkernels::MatmulError>(())
/// ```
#[derive(Debug)]
pub struct Matmul<T> {
    shape: MatmulShape,
    /// Elements of the factors and of the output.
    needed: [usize; 3],
    /// `None` on a machine without AVX2, where loops give the same bits.
    plan: Option<Plan>,
    scratch: Vec<Line>,
    element: PhantomData<T>,
}

/// What scratch memory is aligned to.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "memory for others")] [u8; 64]);

const MATRICES: [&str; 3] = ["left factor", "right factor", "output"];

impl<T: Scalar> Matmul<T> {
    /// Plans the product.
    ///
    /// # Errors
    ///
    /// [`MatmulError::Overlap`] and [`MatmulError::TooLarge`].
    pub fn new(shape: MatmulShape) -> Result<Matmul<T>, MatmulError> {
        let MatmulShape { m, n, k, left, right, out } = shape;
        if m > 1 && out < n {
            return Err(MatmulError::Overlap { step: out, columns: n });
        }
        let needed = [
            needed::<T>(0, [m, k], left)?,
            needed::<T>(1, [k, n], right)?,
            needed::<T>(2, [m, n], (out, 1))?,
        ];
        let plan = Plan::new(&contraction::<T>(&shape), &Machine::detect());
        let lines = plan.as_ref().map_or(0, |plan| plan.scratch_bytes().div_ceil(64));
        Ok(Matmul { shape, needed, plan, scratch: vec![Line([0; 64]); lines], element: PhantomData })
    }

    /// Computes it. Each sum begins at zero and goes over `k` in order, by fused multiplication and addition.
    ///
    /// # Errors
    ///
    /// [`MatmulError::Slice`].
    pub fn run(&mut self, left: &[T], right: &[T], out: &mut [T]) -> Result<(), MatmulError> {
        for (i, found) in [left.len(), right.len(), out.len()].into_iter().enumerate() {
            if found < self.needed[i] {
                return Err(MatmulError::Slice { matrix: MATRICES[i], expected: self.needed[i], found });
            }
        }
        let Some(plan) = &self.plan else {
            loops(&self.shape, left, right, out);
            return Ok(());
        };
        let args =
            [left.as_ptr().cast_mut().cast(), right.as_ptr().cast_mut().cast(), out.as_mut_ptr().cast()];
        let scratch = self.scratch.as_mut_ptr().cast();
        // SAFETY: the slices have all elements of the matrices, as was just checked; the factors are only read, and the borrow of the output keeps it
        // apart from them. There are no bindings. The scratch memory is this object's, which is borrowed for the call.
        unsafe { plan.run(args.as_ptr(), std::ptr::null(), scratch, 0, plan.extent()) };
        Ok(())
    }
}

/// Elements up to the last one of a matrix.
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

fn contraction<T: Scalar>(shape: &MatmulShape) -> Contraction {
    let size = size_of::<T>() as i64;
    let bytes = |elements: usize| elements as i64 * size;
    let factor = |base, outer, depth| Factor {
        base,
        memory: Memory::Same,
        offset: 0,
        terms: Vec::new(),
        outer: Offsets::Strided(bytes(outer)),
        depth: Offsets::Strided(bytes(depth)),
        bounds: Vec::new(),
    };
    let mut epilogue = Builder::new();
    let sum = epilogue.variable(Type::new(T::ELEMENT, LANES));
    let value = epilogue.get(sum);
    epilogue.store(Place::at(2, T::ELEMENT).by(ROW, bytes(shape.out)).by(COLUMN, size), value);
    Contraction {
        element: T::ELEMENT,
        batch: Vec::new(),
        rows: shape.m as u64,
        columns: shape.n as u64,
        depth: shape.k as u64,
        left: factor(0, shape.left.0, shape.left.1),
        right: factor(1, shape.right.1, shape.right.0),
        start: None,
        epilogue: epilogue.finish(),
        split: Split::None,
    }
}

/// The definition.
fn loops<T: Scalar>(shape: &MatmulShape, left: &[T], right: &[T], out: &mut [T]) {
    for row in 0..shape.m {
        for column in 0..shape.n {
            let sum = (0..shape.k).fold(T::default(), |sum, k| {
                let left = left[row * shape.left.0 + k * shape.left.1];
                left.fma(right[k * shape.right.0 + column * shape.right.1], sum)
            });
            out[row * shape.out + column] = sum;
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
                MatmulShape { left: (1, m), ..plain },
                MatmulShape { right: (1, k), out: n + 3, ..plain },
                MatmulShape { left: (0, 2), right: (n + 1, 1), ..plain },
            ];
            for shape in shapes {
                let mut product = Matmul::<f32>::new(shape).unwrap();
                let [a, b, c] = product.needed;
                let (a, b) = (numbers(a, 1), numbers(b, 2));
                let (mut found, mut expected) = (vec![0.5; c], vec![0.5; c]);
                product.run(&a, &b, &mut found).unwrap();
                loops(&shape, &a, &b, &mut expected);
                assert_eq!(found, expected, "{shape:?}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let shape = MatmulShape::row_major(4, 5, 6);
        let mut product = Matmul::<f64>::new(shape).unwrap();
        let error = product.run(&[0.0; 24], &[0.0; 29], &mut [0.0; 20]).unwrap_err();
        assert_eq!(error, MatmulError::Slice { matrix: "right factor", expected: 30, found: 29 });
        let error = Matmul::<f64>::new(MatmulShape { out: 4, ..shape }).unwrap_err();
        assert_eq!(error, MatmulError::Overlap { step: 4, columns: 5 });
        let error = Matmul::<f64>::new(MatmulShape { left: (usize::MAX, 1), ..shape }).unwrap_err();
        assert_eq!(error, MatmulError::TooLarge { matrix: "left factor" });
    }
}
