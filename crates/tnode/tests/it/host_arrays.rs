//! Host arrays: values by index, margins, views, point clouds and printing.

use expect_test::expect;
use half::{bf16, f16};
use proptest::prelude::*;
use tnode::{ALIGN_BYTES, DType, HostArray, Padding, RenderOptions, Scalar, TensorNode, TensorNodeError};

fn range(dims: &[usize]) -> HostArray {
    let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|n| n as f32).collect();
    HostArray::from_slice(&values, dims.iter().copied()).expect("the number fits")
}

fn padded() -> HostArray {
    let padding = Padding::new([(1, 0), (2, 1)], Some(-1.0));
    range(&[2, 3]).with_reshape([2, 3], Some(padding)).expect("the number fits")
}

#[test]
fn every_type_of_element_round_trips() {
    fn check<T: tnode::Element + PartialEq + std::fmt::Debug>(values: [T; 3]) {
        let mut array = HostArray::from_slice(&values, [3]).expect("three");
        assert_eq!(array.dtype(), T::DTYPE);
        assert_eq!(array.as_slice::<T>().expect("its type"), values);
        array.as_mut_slice::<T>().expect("its type")[0] = values[2];
        assert_eq!(array.get(&[0]).expect("inside"), array.get(&[2]).expect("inside"));
        assert_eq!(array.bytes().as_ptr().addr() % ALIGN_BYTES, 0);
        assert_eq!(array.size_bytes(), 3 * T::DTYPE.size_bytes());
    }
    check([1u8, 2, 255]);
    check([-1i8, 2, 3]);
    check([1u16, 2, 65535]);
    check([i32::MIN, 2, 3]);
    check([1u32, 2, u32::MAX]);
    check([i64::MIN, 2, 3]);
    check([1u64, 2, u64::MAX]);
    check([1.5f32, 2.0, -0.0]);
    check([1.5f64, 2.0, -0.0]);
    check([f16::ONE, f16::MAX, f16::EPSILON]);
    check([bf16::ONE, bf16::MAX, bf16::EPSILON]);
    check([[1u32, 2, 3, 4], [0; 4], [9; 4]]);
}

#[test]
fn views_of_another_type_are_rejected() {
    let rejected = range(&[2]).as_slice::<i32>().expect_err("f32").to_string();
    assert_eq!(rejected, "elements are f32, expected i32");
}

#[test]
fn wrong_numbers_are_rejected() {
    let rejected = HostArray::from_slice(&[1u8, 2], [3]).expect_err("two").to_string();
    assert_eq!(rejected, "dimensions [3] need 3 elements, found 2");
    assert!(matches!(
        range(&[3]).set_values(&[0.0]),
        Err(TensorNodeError::ElementCount { expected: 3, found: 1, .. })
    ));
    assert!(matches!(range(&[6]).with_reshape([7], None), Err(TensorNodeError::ElementCount { .. })));
    assert!(matches!(
        HostArray::from_bytes(DType::F32, [1], &[0; 5]),
        Err(TensorNodeError::ElementCount { .. })
    ));
    assert!(matches!(HostArray::zeros(DType::U8, [usize::MAX, 2]), Err(TensorNodeError::TooLarge { .. })));
    assert!(matches!(HostArray::zeros(DType::U8, [1 << 58]), Err(TensorNodeError::OutOfMemory { .. })));
}

#[test]
fn indices_outside_are_rejected() {
    let mut array = padded();
    for index in [&[2, 0][..], &[0, 3], &[0], &[0, 0, 0], &[]] {
        let rejected = array.get(index).expect_err("outside").to_string();
        assert_eq!(rejected, format!("index {index:?} is outside the dimensions [2, 3]"));
        array.set(index, Scalar::one(DType::F32)).expect_err("outside");
    }
}

#[test]
fn a_scalar_has_its_value_at_zero() {
    let mut x = HostArray::zeros(DType::F16, []).expect("small");
    x.set(&[0], Scalar::from_f64(DType::F64, 2.5)).expect("inside");
    assert_eq!((x.value(&[]).expect("inside"), x.values()), (2.5, vec![2.5]));
    x.get(&[1]).expect_err("outside");
}

#[test]
fn the_only_element_is_an_item() {
    let one = |dims: &[usize]| HostArray::from_slice(&[2.5f32], dims.iter().copied()).expect("one");
    for dims in [&[][..], &[1], &[1, 1]] {
        assert_eq!(one(dims).item().expect("one element"), 2.5);
    }
    for array in [padded(), HostArray::zeros(DType::F32, [0]).expect("small")] {
        let (dims, found) = (array.dims_without_padding(), array.num_values());
        let rejected = array.item().expect_err("not one").to_string();
        assert_eq!(rejected, format!("dimensions {dims:?} have {found} elements, expected one"));
    }
    let margins = HostArray::zeros_padded(DType::F32, [1], Padding::new([(1, 2)], Some(9.0))).expect("small");
    assert_eq!(margins.item().expect("margins are no elements"), 0.0);
}

#[test]
fn margins_are_skipped() {
    let mut array = padded();
    assert_eq!(array.dims().as_slice(), [3, 6]);
    assert_eq!(
        array.as_slice::<f32>().expect("f32"),
        [
            [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0],
            [-1.0, -1.0, 0.0, 1.0, 2.0, -1.0],
            [-1.0, -1.0, 3.0, 4.0, 5.0, -1.0]
        ]
        .concat()
    );
    assert_eq!(array.values(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    array.set(&[1, 2], Scalar::from_i64(DType::I32, 9)).expect("inside");
    assert_eq!(array.as_slice::<f32>().expect("f32")[16], 9.0);
    array.fill(Scalar::zero(DType::F32));
    assert_eq!(array.as_slice::<f32>().expect("f32").iter().sum::<f32>(), -12.0);
}

#[test]
fn margins_can_be_declared_afterwards() {
    let array = HostArray::from_padded(range(&[3, 6]), Padding::new([(1, 0), (2, 1)], None)).expect("fits");
    assert_eq!(array.values(), [8.0, 9.0, 10.0, 14.0, 15.0, 16.0]);
    let too_wide = Padding::new([(2, 2), (0, 0)], None);
    assert!(matches!(
        HostArray::from_padded(range(&[3, 6]), too_wide),
        Err(TensorNodeError::PaddingExceeds { .. })
    ));
    let one_axis = Padding::new([(0, 0)], None);
    assert!(matches!(
        HostArray::from_padded(range(&[3, 6]), one_axis),
        Err(TensorNodeError::PaddingRank { .. })
    ));
}

#[test]
fn values_are_rounded_to_the_type() {
    let mut array = HostArray::zeros(DType::U8, [3]).expect("small");
    array.set_values(&[-1.0, 2.9, 300.0]).expect("three");
    assert_eq!(array.values(), [0.0, 2.0, 255.0]);
}

#[test]
fn points_are_columns() {
    let moons = range(&[2, 3, 2]);
    assert_eq!(moons.points_1d(None, 1).expect("inside"), [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]);
    assert_eq!(moons.points_2d(None, 1, 0).expect("inside")[..2], [(1.0, 0.0), (3.0, 2.0)]);
    assert_eq!(moons.points_1d(Some(1), 2).expect("inside"), [4.0, 5.0, 10.0, 11.0]);
    assert_eq!(padded().points_1d(Some(0), 1).expect("inside"), [3.0, 4.0, 5.0]);
    let rejected = |result: Result<Vec<f64>, TensorNodeError>| result.expect_err("outside").to_string();
    assert_eq!(rejected(moons.points_1d(Some(3), 0)), "no axis 3 in the dimensions [2, 3, 2]");
    assert_eq!(
        rejected(moons.points_1d(None, 2)),
        "no coordinate 2 along axis 2 of the dimensions [2, 3, 2]"
    );
    assert!(matches!(range(&[]).points_1d(None, 0), Err(TensorNodeError::NoSuchAxis { .. })));
}

#[test]
fn columns_are_aligned() {
    let array = HostArray::from_slice(&[0.5f32, -12.25, 3.0, 100.125, 0.0, f32::NAN], [2, 3]).expect("six");
    expect![[r#"
        f32[2, 3]
            0.5  -12.2    3.0
          100.1    0.0    nan
    "#]]
    .assert_eq(&array.render(RenderOptions::default()));
    expect![[r#"
        f32[2, 3]
          0.0  1.0  2.0
          3.0  4.0  5.0
    "#]]
    .assert_eq(&padded().to_string());
}

#[test]
fn magnitudes_choose_the_style() {
    let render = |values: &[f64], digits| {
        let array = HostArray::from_slice(values, [values.len()]).expect("its length");
        array.render(RenderOptions { digits, ..RenderOptions::default() })
    };
    expect![[r#"
        f64[3]
           1.000e0  1.000e-9  -2.500e7
    "#]]
    .assert_eq(&render(&[1.0, 1e-9, -2.5e7], 4));
    expect![[r#"
        f64[2]
          0.00120  0.00012
    "#]]
    .assert_eq(&render(&[0.0012, 0.00012], 3));
    expect![[r#"
        f64[2]
          inf  0.0
    "#]]
    .assert_eq(&render(&[f64::INFINITY, 0.0], 3));
}

#[test]
fn long_axes_lose_their_middle() {
    let options = RenderOptions { entries_per_axis: 4, digits: 3 };
    let dims = [7, 2, 9, 2];
    let values: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
    let array = HostArray::from_slice(&values, dims).expect("its length");
    expect![[r#"
        i32[7, 2, 9, 2]
        [0, 0]
            0    1
            2    3
            …    …
           14   15
           16   17
        [0, 1]
           18   19
           20   21
            …    …
           32   33
           34   35
        [1, 0]
           36   37
           38   39
            …    …
           50   51
           52   53
        [1, 1]
           54   55
           56   57
            …    …
           68   69
           70   71
        […]
        [5, 0]
          180  181
          182  183
            …    …
          194  195
          196  197
        [5, 1]
          198  199
          200  201
            …    …
          212  213
          214  215
        [6, 0]
          216  217
          218  219
            …    …
          230  231
          232  233
        [6, 1]
          234  235
          236  237
            …    …
          248  249
          250  251
    "#]]
    .assert_eq(&array.render(options));
}

#[test]
fn five_axes_print() {
    let array = range(&[2, 1, 2, 1, 3]);
    expect![[r#"
        f32[2, 1, 2, 1, 3]
        [0, 0, 0]
           0.0   1.0   2.0
        [0, 0, 1]
           3.0   4.0   5.0
        [1, 0, 0]
           6.0   7.0   8.0
        [1, 0, 1]
           9.0  10.0  11.0
    "#]]
    .assert_eq(&array.to_string());
    // Four digits cannot show both the largest and the smallest number, so all are printed with exponents.
    let mixed = HostArray::from_slice(&[0.1f32, 1.0 / 3.0, 1234.5, -7.0], [4]).expect("four");
    expect![[r#"
        f32[4]
          1.000e-1  3.333e-1   1.234e3  -7.000e0
    "#]]
    .assert_eq(&mixed.to_string());
}

/// An array of 4×6 elements, whose margins leave 2×3 values in the middle.
#[test]
fn a_four_by_six_array_with_margins() {
    let array = HostArray::zeros_padded(DType::I32, [2, 3], Padding::new([(1, 1), (2, 1)], Some(-7.0)));
    let mut array = array.expect("small");
    array.set_values(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("six");
    let rows: [[i32; 6]; 4] = [[-7; 6], [-7, -7, 1, 2, 3, -7], [-7, -7, 4, 5, 6, -7], [-7; 6]];
    assert_eq!(array.as_slice::<i32>().expect("i32"), rows.as_flattened());
    assert_eq!(array.value(&[1, 0]).expect("inside"), 4.0);
    array.get(&[2, 0]).expect_err("a margin is outside");
    assert_eq!((array.num_values(), array.size_bytes()), (6, 96));
}

#[test]
fn small_and_odd_arrays_print() {
    let render = |array: HostArray| array.render(RenderOptions::default());
    assert_eq!(render(HostArray::zeros(DType::Bool, []).expect("small")), "bool[]\n  0\n");
    assert_eq!(render(HostArray::zeros(DType::F32, [0]).expect("small")), "f32[0]\n\n");
    assert_eq!(render(HostArray::zeros(DType::F32, [2, 0, 3]).expect("small")), "f32[2, 0, 3]\n[0]\n[1]\n");
    assert_eq!(render(HostArray::zeros(DType::F32, [0, 2, 2]).expect("small")), "f32[0, 2, 2]\n");
    let bits = HostArray::from_slice(&[[1u32, 0, 0, 0xff]], [1]).expect("one");
    assert_eq!(render(bits), "u32x4[1]\n  0x000000ff000000000000000000000001\n");
}

proptest! {
    /// An element that is set at an index is read at that index and at no other, whatever the margins.
    #[test]
    fn indices_and_flat_values_agree(
        axes in prop::collection::vec((0usize..4, 0usize..3, 0usize..3), 0..4),
        pick: prop::sample::Index,
    ) {
        let dims: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
        let padding = Padding::new(axes.iter().map(|axis| (axis.1, axis.2)), Some(7.0));
        let mut array = HostArray::zeros_padded(DType::F64, dims.iter().copied(), padding).expect("small");
        let values: Vec<f64> = (0..array.num_values()).map(|n| n as f64).collect();
        array.set_values(&values).expect("its number");
        prop_assert_eq!(array.values(), values.clone());
        let sevens = array.as_slice::<f64>().expect("f64").iter().filter(|&&x| x == 7.0).count();
        prop_assert_eq!(sevens, array.dims().iter().product::<usize>() - values.len() + usize::from(values.len() > 7));
        if !values.is_empty() {
            let n = pick.index(values.len());
            let mut index = vec![0; dims.len()];
            let mut rest = n;
            for axis in (0..dims.len()).rev() {
                index[axis] = rest % dims[axis];
                rest /= dims[axis];
            }
            prop_assert_eq!(array.value(&index).expect("inside"), n as f64);
            array.set(&index, Scalar::from_f64(DType::F64, -1.0)).expect("inside");
            prop_assert_eq!(array.values().iter().position(|&x| x == -1.0), Some(n));
        }
    }
}

#[test]
fn values_go_inside_the_margins_of_a_node() {
    let padding = Padding::new([(1, 0), (0, 2)], Some(-1.0));
    let builder = TensorNode::builder("x").dims([2, 3]).dtype(range(&[2, 3]).dtype());
    let x = builder.padding(padding.clone()).build().expect("a small node");
    let padded = range(&[2, 3]).with_margins_of(&x).expect("it fits");
    assert_eq!((padded.dims(), padded.padding()), (&x.dims().expect("settled"), Some(&padding)));
    assert_eq!(padded.values(), range(&[2, 3]).values());
    let whole = HostArray::from_bytes(padded.dtype(), [3, 5], padded.bytes()).expect("the same bytes");
    let margins = whole.values().iter().filter(|&&value| value == -1.0).count();
    assert_eq!(margins, 3 * 5 - 2 * 3);
    assert_eq!(padded.with_margins_of(&x).expect("margins are replaced"), padded);

    let error = range(&[3, 2]).with_margins_of(&x).expect_err("other sizes");
    assert!(error.to_string().contains("node x has dimensions [2, 3]"), "{error}");
    let bytes = HostArray::zeros(DType::U8, [2, 3]).expect("small");
    assert!(matches!(bytes.with_margins_of(&x), Err(TensorNodeError::ElementType { found: DType::U8, .. })));
}
