//! What the examples of the documentation share.

use arrayjit::{Backend, DType, HostArray};

use crate::{
    error::{Result, TensorError},
    graph::Graph,
    model_state::ModelState,
    parameter::Params,
    tensor::Tensor,
};

thread_local! {
    static GRAPH: Graph = Graph::new();
}

/// Numbers or truth values, nested as the axes of an array are.
pub trait Nested {
    /// The type of the elements.
    const DTYPE: DType;

    /// The size of each axis.
    fn shape(&self) -> Vec<usize>;

    /// The elements in row-major order.
    fn elements(&self) -> Vec<f64>;
}

macro_rules! elements {
    ($($type:ty: $dtype:ident;)*) => {$(
        impl Nested for $type {
            const DTYPE: DType = DType::$dtype;

            fn shape(&self) -> Vec<usize> {
                Vec::new()
            }

            fn elements(&self) -> Vec<f64> {
                vec![f64::from(*self)]
            }
        }
    )*};
}

elements! {
    f32: F32;
    i32: I32;
    bool: Bool;
}

impl<T: Nested, const N: usize> Nested for [T; N] {
    const DTYPE: DType = T::DTYPE;

    fn shape(&self) -> Vec<usize> {
        [vec![N], self.first().map_or_else(Vec::new, T::shape)].concat()
    }

    fn elements(&self) -> Vec<f64> {
        self.iter().flat_map(T::elements).collect()
    }
}

/// A tensor of these values. All tensors of an example belong to one graph.
#[track_caller]
pub fn tensor<T: Nested>(values: T) -> Tensor {
    let array = HostArray::zeros(T::DTYPE, values.shape()).and_then(|mut array| {
        array.set_values(&values.elements())?;
        Ok(array)
    });
    let tensor = array.map_err(TensorError::from).and_then(|array| GRAPH.with(|graph| graph.constant(array)));
    tensor.unwrap_or_else(|error| panic!("{error}"))
}

/// Checks the type, the shape and, but for rounding, the values of a result.
#[track_caller]
pub fn check<T: Nested>(result: Result<Tensor>, expected: T) {
    let found = result.and_then(|tensor| {
        let weights = ModelState::new(&Backend::open("interpreter")?, &Params::new(0))?;
        tensor.graph().compile(&weights, &[&tensor])?.run(&[])
    });
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let (values, elements) = (found[0].values(), expected.elements());
    let is_close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-5 || a.is_nan() && b.is_nan();
    assert_eq!((found[0].dtype(), found[0].dims().to_vec()), (T::DTYPE, expected.shape()));
    assert!(values.iter().zip(&elements).all(is_close), "{values:?}, expected {elements:?}");
}
