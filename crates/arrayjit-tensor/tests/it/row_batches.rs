//! Batches of rows: each row once in an epoch, in orders that follow from the seed.

use std::collections::BTreeSet;

use arrayjit_tensor::{
    DType, HostArray, TensorError,
    session::{BatchValues, RowBatches},
};

use crate::sessions::{TwoLayers, batch};

/// Ten rows: `x` is `[row, row + 100]`, `y` is the row.
fn batches(size: usize) -> RowBatches {
    let x: Vec<f32> = (0..10).flat_map(|row| [row as f32, row as f32 + 100.0]).collect();
    let y: Vec<i32> = (0..10).collect();
    let arrays =
        [("x", HostArray::from_slice(&x, [10, 2]).unwrap()), ("y", HostArray::from_slice(&y, [10]).unwrap())];
    RowBatches::new(arrays, size).unwrap()
}

/// The rows of each batch, after a check that all arrays have the same ones.
fn rows(batches: RowBatches) -> Vec<Vec<usize>> {
    let rows = |batch: Result<BatchValues, TensorError>| {
        let batch = batch.unwrap();
        let [x, y] = ["x", "y"].map(|name| batch.get(name).unwrap().values());
        assert!(x.chunks(2).zip(&y).all(|(x, y)| x == [*y, *y + 100.0]));
        y.into_iter().map(|row| row as usize).collect()
    };
    let expected = batches.len();
    let all: Vec<Vec<usize>> = batches.map(rows).collect();
    assert_eq!(all.len(), expected);
    all
}

#[test]
fn rows_are_in_order_by_default() {
    assert_eq!(rows(batches(4)), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
    assert_eq!(rows(batches(4).drop_last(true).epochs(2)).concat(), [0, 1, 2, 3, 4, 5, 6, 7].repeat(2));
    assert_eq!(rows(batches(11)).len(), 1);
    assert_eq!(rows(batches(11).drop_last(true)).len(), 0);
    assert_eq!(rows(batches(3).epochs(0)).len(), 0);
    let mut begun = batches(4).epochs(2);
    begun.next();
    assert_eq!(begun.len(), 5);
}

#[test]
fn each_epoch_has_each_row_once_in_another_order() {
    let all = rows(batches(3).shuffle(7).epochs(20));
    let epochs: Vec<Vec<usize>> = all.chunks(4).map(<[Vec<usize>]>::concat).collect();
    for epoch in &epochs {
        assert_eq!(epoch.iter().copied().collect::<BTreeSet<_>>(), (0..10).collect());
    }
    assert_eq!(epochs.iter().collect::<BTreeSet<_>>().len(), 20);
    assert_eq!(rows(batches(3).shuffle(7).epochs(20)), all);
    assert_ne!(rows(batches(3).shuffle(8).epochs(20)), all);
    // No place prefers a row: of 4,000 epochs, about 400 begin with each.
    let mut firsts = [0; 10];
    rows(batches(10).shuffle(1).epochs(4000)).iter().for_each(|epoch| firsts[epoch[0]] += 1);
    assert!(firsts.iter().all(|count| (320..480).contains(count)), "{firsts:?}");
}

#[test]
fn a_session_trains_on_rows() {
    let model = TwoLayers::new("multicore", DType::F32);
    let mut session = model.session();
    let data = || RowBatches::new(batch(5, 100), 32).unwrap();
    let last = session.fit(data().shuffle(1).epochs(40).drop_last(true), |_| {}).unwrap();
    assert!(last.loss() < 0.4, "{last:?}");
    assert_eq!((session.steps(), session.compilations()), (120, 1));
    assert!(session.evaluate(data()).unwrap().get("accuracy").unwrap() > 0.8);
}

#[test]
fn wrong_arrays_are_named() {
    let error = |arrays: Vec<(&str, HostArray)>, size| {
        RowBatches::new(arrays, size).err().map(|error: TensorError| error.to_string()).unwrap()
    };
    let array = |dims: &[usize]| HostArray::zeros(DType::F32, dims.iter().copied()).unwrap();
    let ends = |error: String, end: &str| assert!(error.ends_with(end), "{error}");
    ends(error(vec![], 2), "arrays is none, expected at least one");
    ends(error(vec![("x", array(&[3]))], 0), "size is 0, expected at least 1");
    let two = vec![("x", array(&[3, 2])), ("y", array(&[4]))];
    ends(error(two, 2), "array `y` has shape [4], expected 3 rows, as all arrays have");
    ends(error(vec![("x", array(&[]))], 2), "array `x` has shape [], expected 1 rows, as all arrays have");
}
