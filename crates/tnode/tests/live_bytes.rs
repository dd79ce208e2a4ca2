//! The bytes of live host arrays are counted. There is one test only, because the count is of the whole
//! process.

use tnode::{DType, HostArray, Padding, npy, safetensors};

#[test]
fn the_bytes_alive_return_to_zero() {
    let live = HostArray::live_bytes;
    assert_eq!(live(), 0);
    let mut arrays: Vec<HostArray> =
        DType::ALL.map(|dtype| HostArray::zeros(dtype, [3, 5]).expect("small")).into();
    let sizes: usize = DType::ALL.iter().map(|dtype| 15 * dtype.size_bytes()).sum();
    assert_eq!(live(), sizes);

    arrays.extend(arrays.clone());
    assert_eq!(live(), 2 * sizes, "clones have bytes of their own");
    arrays.truncate(DType::ALL.len());
    assert_eq!(live(), sizes);

    let f32s = HostArray::from_slice(&[1f32; 6], [2, 3]).expect("six");
    let padded = f32s.with_reshape([2, 3], Some(Padding::new([(1, 1), (0, 2)], None))).expect("six");
    assert_eq!(live(), sizes + 6 * 4 + 20 * 4, "margins count");
    let moved = HostArray::from_padded(padded, Padding::new([(1, 1), (2, 0)], None)).expect("as wide");
    assert_eq!(live(), sizes + 6 * 4 + 20 * 4, "the same bytes");

    let mut file = Vec::new();
    npy::write(&moved, &mut file).expect("memory");
    let read = npy::read(&file[..]).expect("our own");
    assert_eq!(live(), sizes + 26 * 4 + 6 * 4);
    let file = safetensors::write([("x", &read)]).expect("f32");
    let named = safetensors::read(&file).expect("our own");
    assert_eq!(live(), sizes + 26 * 4 + 2 * 6 * 4);

    // Failed operations leave no bytes behind.
    npy::read(&b"\x93NUMPY garbage"[..]).expect_err("no array");
    HostArray::from_slice(&[1f32; 5], [2, 3]).expect_err("six expected");
    HostArray::from_padded(f32s.clone(), Padding::new([(9, 9), (0, 0)], None)).expect_err("too wide");
    assert_eq!(live(), sizes + 26 * 4 + 2 * 6 * 4);

    drop((arrays, f32s, moved, read, named));
    assert_eq!(live(), 0);
}
