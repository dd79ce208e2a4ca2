//! Conversions from and to arrays of `ndarray`.

use ndarray::{Array0, Array3, ArrayD, ArrayViewD, Axis, IxDyn, s};
use tnode::{DType, HostArray, Padding, TensorNodeError};

#[test]
fn arrays_of_any_strides_are_copied() {
    let array = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (100 * i + 10 * j + k) as i32);
    let host = HostArray::try_from(&array).expect("memory");
    assert_eq!((host.dtype(), host.dims().as_slice()), (DType::I32, &[2, 3, 4][..]));
    assert_eq!(host.as_slice::<i32>().expect("i32"), array.as_slice().expect("in order"));
    let part = array.slice(s![.., ..;-1, 1..;2]);
    let host = HostArray::try_from(&part.permuted_axes([2, 0, 1])).expect("memory");
    assert_eq!(host.dims().as_slice(), [2, 2, 3]);
    assert_eq!(host.values(), [21., 11., 1., 121., 111., 101., 23., 13., 3., 123., 113., 103.]);
    let scalar = HostArray::try_from(&Array0::from_elem((), 7u8)).expect("memory");
    assert_eq!((scalar.dims().len(), scalar.values()), (0, vec![7.0]));
    let many = ArrayD::<f32>::zeros(IxDyn(&[1; 33]));
    assert!(matches!(HostArray::try_from(&many), Err(TensorNodeError::TooManyAxes { found: 33, .. })));
}

#[test]
fn host_arrays_are_viewed_and_copied() {
    let host = HostArray::from_slice(&[1f64, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).expect("six");
    let view = ArrayViewD::<f64>::try_from(&host).expect("f64");
    assert_eq!(view.as_ptr(), host.as_slice::<f64>().expect("f64").as_ptr());
    assert_eq!(view.sum_axis(Axis(0)).into_raw_vec_and_offset().0, [5.0, 7.0, 9.0]);
    let wrong = ArrayD::<f32>::try_from(&host).expect_err("f64").to_string();
    assert_eq!(wrong, "elements are f64, expected f32");

    let padding = Padding::new([(1, 0), (0, 2)], Some(9.0));
    let padded = host.with_reshape([2, 3], Some(padding)).expect("six");
    let rejected = ArrayViewD::<f64>::try_from(&padded).expect_err("margins").to_string();
    assert_eq!(rejected, "dimensions [2, 3] need 6 elements, found 15");
    assert_eq!(ArrayD::<f64>::try_from(&padded).expect("memory"), view);
}
