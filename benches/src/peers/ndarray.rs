//! The library `ndarray`: products, sums, maps and assignment. Products take threads from `matrixmultiply`,
//! maps from `rayon`.

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis, Zip, linalg};
use rayon::ThreadPool;

use super::{Problem, kernel::Kernel};
use crate::{arrays::Array, case::Operation};

pub(super) fn kernel<'a>(problem: &Problem, pool: &'a ThreadPool) -> Option<Kernel<'a>> {
    Some(match problem.operation {
        Operation::Matmul => Box::new(|inputs, outputs| {
            linalg::general_mat_mul(
                1.0,
                &matrix(&inputs[0]),
                &matrix(&inputs[1]),
                0.0,
                &mut matrix_mut(outputs),
            );
        }),
        Operation::MatmulNt => Box::new(|inputs, outputs| {
            linalg::general_mat_mul(
                1.0,
                &matrix(&inputs[0]),
                &matrix(&inputs[1]).t(),
                0.0,
                &mut matrix_mut(outputs),
            );
        }),
        Operation::Matvec => Box::new(|inputs, outputs| {
            linalg::general_mat_vec_mul(
                1.0,
                &matrix(&inputs[0]),
                &vector(&inputs[1]),
                0.0,
                &mut vector_mut(outputs),
            );
        }),
        Operation::AxpyRelu => map(pool, |x| (1.5 * x + 0.5).max(0.0) * 2.0),
        Operation::Gelu => map(pool, |x| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044715 * x * x * x)).tanh())),
        Operation::Sum => Box::new(|inputs, outputs| outputs[0].values[0] = vector(&inputs[0]).sum()),
        Operation::RowSum => Box::new(|inputs, outputs| {
            vector_mut(outputs).assign(&matrix(&inputs[0]).sum_axis(Axis(1)));
        }),
        Operation::ColSum => Box::new(|inputs, outputs| {
            vector_mut(outputs).assign(&matrix(&inputs[0]).sum_axis(Axis(0)));
        }),
        Operation::Transpose => {
            Box::new(|inputs, outputs| matrix_mut(outputs).assign(&matrix(&inputs[0]).t()))
        }
        _ => return None,
    })
}

fn map<'a>(pool: &'a ThreadPool, function: impl Fn(f32) -> f32 + Send + Sync + Copy + 'a) -> Kernel<'a> {
    Box::new(move |inputs, outputs| {
        let zip = Zip::from(vector_mut(outputs)).and(vector(&inputs[0]));
        if pool.current_num_threads() == 1 {
            zip.for_each(|y, &x| *y = function(x));
        } else {
            pool.install(|| zip.par_for_each(|y, &x| *y = function(x)));
        }
    })
}

fn matrix(array: &Array) -> ArrayView2<'_, f32> {
    let dims = (array.dims[0], array.dims[1]);
    ArrayView2::from_shape(dims, &array.values).expect("arrays hold what their dimensions say")
}

fn matrix_mut(outputs: &mut [Array]) -> ArrayViewMut2<'_, f32> {
    let dims = (outputs[0].dims[0], outputs[0].dims[1]);
    ArrayViewMut2::from_shape(dims, &mut outputs[0].values).expect("arrays hold what their dimensions say")
}

fn vector(array: &Array) -> ArrayView1<'_, f32> {
    ArrayView1::from(&array.values[..])
}

fn vector_mut(outputs: &mut [Array]) -> ArrayViewMut1<'_, f32> {
    ArrayViewMut1::from(&mut outputs[0].values[..])
}
