//! Products of row-major matrices for a library with column-major matrices.
//!
//! A row-major matrix is its transpose in column-major order. So the product `c = a b` is computed as `cᵀ =
//! bᵀ aᵀ`: the library's first operand is `b`.

use crate::case::Operation;

/// The arguments of a product; the library's first operand is `b`, its second `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CublasGemm {
    /// The number of products.
    pub(super) batch: usize,
    /// Rows and columns of the library's result, and the number of terms of each sum.
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    /// Whether the first operand is transposed.
    pub(super) transposes_first: bool,
    /// The leading dimensions of the first operand, the second operand, and the result.
    pub(super) leading: [usize; 3],
}

impl CublasGemm {
    /// A product of operands with these dimensions; `None` for other operations.
    pub(super) fn of(operation: Operation, dims: &[&[usize]]) -> Option<CublasGemm> {
        let (batch, [m, k], [p, q]) = match (operation, dims) {
            (Operation::Matmul | Operation::MatmulNt, &[&[m, k], &[p, q]]) => (1, [m, k], [p, q]),
            (Operation::Bmm, &[&[batch, m, k], &[_, p, q]]) => (batch, [m, k], [p, q]),
            _ => return None,
        };
        let transposes_first = operation == Operation::MatmulNt;
        let n = if transposes_first { p } else { q };
        Some(CublasGemm { batch, rows: n, columns: m, depth: k, transposes_first, leading: [q, k, n] })
    }

    /// The distance in elements between successive products, for the first operand, the second, and the
    /// result.
    pub(super) fn strides(&self) -> [usize; 3] {
        [self.depth * self.rows, self.columns * self.depth, self.columns * self.rows]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{product, transposed};

    /// A column-major product as the library's manual defines it, element by element.
    fn column_major(gemm: &CublasGemm, first: &[f64], second: &[f64]) -> Vec<f64> {
        let [by_first, by_second, by_result] = gemm.leading;
        let strides = gemm.strides();
        let mut result = vec![f64::NAN; gemm.batch * strides[2]];
        for z in 0..gemm.batch {
            for column in 0..gemm.columns {
                for row in 0..gemm.rows {
                    let term = |l: usize| {
                        let at = if gemm.transposes_first { l + row * by_first } else { row + l * by_first };
                        first[z * strides[0] + at] * second[z * strides[1] + l + column * by_second]
                    };
                    result[z * strides[2] + row + column * by_result] = (0..gemm.depth).map(term).sum();
                }
            }
        }
        result
    }

    fn numbers(count: usize, seed: usize) -> Vec<f64> {
        (0..count).map(|i| ((i * 37 + seed) % 19) as f64 - 9.0).collect()
    }

    #[test]
    fn the_library_is_asked_for_what_row_major_products_are() {
        let [m, k, n] = [5, 7, 3];
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let expected = product(&a, &b, [m, k, n]);
        let plain = CublasGemm::of(Operation::Matmul, &[&[m, k], &[k, n]]).unwrap();
        assert_eq!(column_major(&plain, &b, &a), expected);
        let turned = CublasGemm::of(Operation::MatmulNt, &[&[m, k], &[n, k]]).unwrap();
        assert_eq!(column_major(&turned, &transposed(&b, n), &a), expected);
    }

    #[test]
    fn batches_are_products_one_after_the_other() {
        let [batch, m, k, n] = [3, 4, 2, 5];
        let (a, b) = (numbers(batch * m * k, 3), numbers(batch * k * n, 4));
        let pairs = a.chunks(m * k).zip(b.chunks(k * n));
        let expected: Vec<f64> = pairs.flat_map(|(a, b)| product(a, b, [m, k, n])).collect();
        let gemm = CublasGemm::of(Operation::Bmm, &[&[batch, m, k], &[batch, k, n]]).unwrap();
        assert_eq!(column_major(&gemm, &b, &a), expected);
    }

    #[test]
    fn other_operations_are_none() {
        assert_eq!(CublasGemm::of(Operation::Softmax, &[&[4, 4]]), None);
        assert_eq!(CublasGemm::of(Operation::Matvec, &[&[4, 4], &[4]]), None);
    }
}
