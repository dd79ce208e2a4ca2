//! The kernels of [`crate::reference`] as a peer.

use rayon::ThreadPool;

use super::{
    Problem,
    kernel::{Kernel, in_parts},
};
use crate::{
    arrays::Array,
    case::Operation,
    reference::{BLOCK, Store, elementwise, reductions, rows, transpose},
};

/// Whether this machine has the instructions.
pub(super) fn is_supported() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

pub(super) fn kernel<'a>(problem: &Problem, pool: &'a ThreadPool) -> Option<Kernel<'a>> {
    // Kernels support whole blocks only.
    let is_whole = |array: &Array| array.dims.last().is_none_or(|last| last.is_multiple_of(BLOCK));
    if !problem.inputs.iter().all(is_whole) {
        return None;
    }
    Some(match problem.operation {
        Operation::AxpyRelu => map(pool, |x, y, policy| {
            // SAFETY: the features were detected when the peer was opened.
            unsafe { elementwise::axpy_relu(x, y, policy) }
        }),
        Operation::Gelu => map(pool, |x, y, policy| {
            // SAFETY: as above.
            unsafe { elementwise::gelu(x, y, policy) }
        }),
        Operation::Softmax => by_row(pool, |inputs, x, y| {
            // SAFETY: as above.
            unsafe { rows::softmax(x, inputs[0].dims[1], y) }
        }),
        Operation::LayerNorm => by_row(pool, |inputs, x, y| {
            // SAFETY: as above.
            unsafe { rows::layer_norm(x, &inputs[1].values, &inputs[2].values, y) }
        }),
        Operation::RowSum => by_row(pool, |inputs, x, y| {
            // SAFETY: as above.
            unsafe { reductions::row_sums(x, inputs[0].dims[1], y) }
        }),
        Operation::Sum => sum(pool),
        Operation::ColSum => column_sums(pool),
        Operation::Transpose => transposed(pool),
        Operation::Adam => step_of_adam(pool),
        _ => return None,
    })
}

/// An elementwise kernel.
fn map<'a>(pool: &'a ThreadPool, function: impl Fn(&[f32], &mut [f32], Store) + Sync + 'a) -> Kernel<'a> {
    Box::new(move |inputs, outputs| {
        let y = &mut outputs[0].values[..];
        let policy = Store::of(size_of_val(y));
        in_parts(pool, (&inputs[0].values, BLOCK), (y, BLOCK), |_, x, y| function(x, y, policy));
    })
}

/// A kernel that maps each row to a row or to a number.
fn by_row<'a>(
    pool: &'a ThreadPool,
    function: impl Fn(&[Array], &[f32], &mut [f32]) + Sync + 'a,
) -> Kernel<'a> {
    Box::new(move |inputs, outputs| {
        let width = |array: &Array| array.dims.get(1).copied().unwrap_or(1);
        let (x_unit, y_unit) = (width(&inputs[0]), width(&outputs[0]));
        let parts = ((&inputs[0].values[..], x_unit), (&mut outputs[0].values[..], y_unit));
        in_parts(pool, parts.0, parts.1, |_, x, y| function(inputs, x, y));
    })
}

fn sum(pool: &ThreadPool) -> Kernel<'_> {
    Box::new(move |inputs, outputs| {
        let threads = pool.current_num_threads();
        let mut sums = vec![0.0; threads];
        let x = &inputs[0].values[..];
        in_parts(pool, (x, x.len() / threads), (&mut sums, 1), |_, x, sum| {
            // SAFETY: the features were detected when the peer was opened.
            sum[0] = unsafe { reductions::sum(x) };
        });
        outputs[0].values[0] = sums.iter().sum();
    })
}

/// Each thread sums a part of the rows; the partial sums are added.
fn column_sums(pool: &ThreadPool) -> Kernel<'_> {
    Box::new(move |inputs, outputs| {
        let (threads, columns) = (pool.current_num_threads(), inputs[0].dims[1]);
        let mut sums = vec![0.0; threads * columns];
        let x = &inputs[0].values[..];
        in_parts(pool, (x, x.len() / threads), (&mut sums, columns), |_, x, sums| {
            // SAFETY: the features were detected when the peer was opened.
            unsafe { reductions::column_sums(x, columns, &mut sums[..columns]) }
        });
        let y = &mut outputs[0].values;
        y.fill(0.0);
        for sums in sums.chunks_exact(columns) {
            y.iter_mut().zip(sums).for_each(|(y, sum)| *y += sum);
        }
    })
}

fn transposed(pool: &ThreadPool) -> Kernel<'_> {
    Box::new(move |inputs, outputs| {
        let [rows, columns] = [inputs[0].dims[0], inputs[0].dims[1]];
        let x = &inputs[0].values[..];
        let y = &mut outputs[0].values[..];
        let policy = Store::of(size_of_val(y));
        let unit = transpose::TILE * rows;
        // Each part of the output needs the whole input, so the input that is split along with it is not
        // used.
        in_parts(pool, (x, unit), (y, unit), |tile, _, y| {
            // SAFETY: the features were detected when the peer was opened.
            unsafe { transpose::transpose(x, [rows, columns], tile * transpose::TILE, y, policy) }
        });
    })
}

/// The parameter, gradient and moments for one thread.
type PartOfAdam<'a> = ((&'a mut [f32], &'a [f32]), (&'a mut [f32], &'a mut [f32]));

fn step_of_adam(pool: &ThreadPool) -> Kernel<'_> {
    Box::new(move |inputs, outputs| {
        let [p, m, v] = outputs else { unreachable!("three arrays are updated") };
        let g = &inputs[3].values[..];
        let part = (g.len() / pool.current_num_threads()).max(BLOCK);
        let moments = m.values.chunks_mut(part).zip(v.values.chunks_mut(part));
        let parts = p.values.chunks_mut(part).zip(g.chunks(part)).zip(moments);
        let step = |((p, g), (m, v)): PartOfAdam| {
            // SAFETY: the features were detected when the peer was opened.
            unsafe { elementwise::adam(p, m, v, g) }
        };
        if pool.current_num_threads() == 1 {
            return parts.for_each(step);
        }
        pool.scope(|scope| parts.for_each(|part| scope.spawn(move |_| step(part))));
    })
}
