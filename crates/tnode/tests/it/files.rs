//! `.npy`, `.npz` and safetensors: files that NumPy wrote, round trips, and damaged files.

use std::io::{Cursor, Write};

use proptest::prelude::*;
use tnode::{DType, HostArray, MAX_RANK, Padding, TensorNodeError, npy, safetensors};

fn read(bytes: &[u8]) -> HostArray {
    npy::read(bytes).expect("a file that NumPy wrote")
}

fn written(array: &HostArray) -> Vec<u8> {
    let mut bytes = Vec::new();
    npy::write(array, &mut bytes).expect("memory");
    bytes
}

#[test]
fn what_numpy_writes_is_read() {
    let rows = read(include_bytes!("../data/rows.npy"));
    assert_eq!(rows, HostArray::from_slice(&[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0], [2, 3]).expect("six"));
    assert_eq!(read(include_bytes!("../data/version2.npy")), rows);
    let in_order: Vec<i64> = (0..24).collect();
    let columns = read(include_bytes!("../data/columns.npy"));
    assert_eq!(columns, HostArray::from_slice(&in_order, [2, 3, 4]).expect("24"));
    let big = read(include_bytes!("../data/big_endian.npy"));
    assert_eq!(big, HostArray::from_slice(&[1.5f64, -2.0], [2]).expect("two"));
    let scalar = read(include_bytes!("../data/scalar.npy"));
    assert_eq!(scalar, HostArray::from_slice(&[7u16], []).expect("one"));
    let bools = read(include_bytes!("../data/bools.npy"));
    assert_eq!((bools.dtype(), bools.values()), (DType::Bool, vec![1.0, 0.0, 1.0]));
}

#[test]
fn what_we_write_is_what_numpy_writes() {
    assert_eq!(written(&read(include_bytes!("../data/rows.npy"))), include_bytes!("../data/rows.npy"));
    assert_eq!(written(&read(include_bytes!("../data/bools.npy"))), include_bytes!("../data/bools.npy"));
}

#[test]
fn archives_round_trip() {
    let arrays =
        npy::read_npz(Cursor::new(include_bytes!("../data/pair.npz"))).expect("a file that NumPy wrote");
    assert_eq!(arrays.keys().collect::<Vec<_>>(), ["b", "w"]);
    assert_eq!((arrays["b"].dtype(), arrays["b"].values()), (DType::F16, vec![0.5, -1.0]));
    let mut bytes = Cursor::new(Vec::new());
    npy::write_npz(arrays.iter().map(|(name, array)| (name.as_str(), array)), &mut bytes).expect("memory");
    assert_eq!(npy::read_npz(bytes).expect("our own"), arrays);
    let same = [("x", &arrays["b"]), ("x", &arrays["w"])];
    assert!(matches!(
        npy::write_npz(same, Cursor::new(Vec::new())),
        Err(TensorNodeError::File { format: "npz", .. })
    ));
    assert!(matches!(
        npy::read_npz(Cursor::new(b"PK\x03\x04")),
        Err(TensorNodeError::File { format: "npz", .. })
    ));
}

/// An array of every type.
fn one_of_each() -> Vec<(&'static str, HostArray)> {
    let array = |dtype| {
        let mut array = HostArray::zeros(dtype, [2, 2]).expect("small");
        array.set_values(&[0.0, 1.0, 1.0, 0.0]).expect("four");
        array
    };
    DType::ALL.into_iter().map(|dtype| (dtype.token(), array(dtype))).collect()
}

#[test]
fn every_type_is_kept_or_rejected() {
    for (name, array) in one_of_each() {
        let mut bytes = Vec::new();
        match npy::write(&array, &mut bytes) {
            Ok(()) => assert_eq!(read(&bytes), array, "{name}"),
            Err(TensorNodeError::UnsupportedElement { format: "npy", what }) => {
                assert!(["bf16", "fp8_e5m2", "fp8_e4m3fn", "u32x4"].contains(&what.as_str()), "{what}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    let arrays = one_of_each();
    let bytes = safetensors::write(arrays.iter().map(|(name, array)| (*name, array))).expect("all types");
    let back = safetensors::read(&bytes).expect("our own");
    assert!(arrays.iter().all(|(name, array)| &back[*name] == array) && arrays.len() == back.len());
}

/// Every bit pattern, with margins around the values: writing and reading returns the array without margins,
/// for every type.
#[test]
fn padded_arrays_of_every_type_are_kept_bit_for_bit() {
    for dtype in DType::ALL {
        let mask = if dtype == DType::Bool { 1 } else { 0xff };
        let bytes: Vec<u8> = (0..8 * dtype.size_bytes()).map(|i| (i * 89 + 7) as u8 & mask).collect();
        let array = HostArray::from_bytes(dtype, [2, 4], &bytes).expect("eight");
        let padding = Padding::new([(1, 1), (0, 2)], Some(1.0));
        let padded = array.with_reshape([2, 4], Some(padding.clone())).expect("eight");
        assert_eq!(padded.dims().as_slice(), [4, 6]);
        let file = safetensors::write([("x", &padded), ("other", &array)]).expect("all types");
        let back = safetensors::read(&file).expect("our own");
        assert_eq!((&back["x"], &back["other"]), (&array, &array), "{dtype}");
        assert_eq!(back["x"].with_reshape([2, 4], Some(padding)).expect("eight"), padded, "{dtype}");
    }
}

/// Random bits are stored as words, and other readers see them as words. Only the file's metadata say that
/// they are random bits.
#[test]
fn random_bits_are_words_with_a_note() {
    let words = HostArray::from_slice(&[1u32, 2, 3, 4], [1, 4]).expect("four");
    let bits = HostArray::from_slice(&[[1u32, 2, 3, 4]], [1]).expect("one");
    let file = safetensors::write([("words", &words), ("bits", &bits)]).expect("all types");
    let back = safetensors::read(&file).expect("our own");
    assert_eq!((&back["words"], &back["bits"]), (&words, &bits));
    let rejected = safetensors::write([("a\nb", &bits)]).expect_err("two lines").to_string();
    assert_eq!(rejected, "malformed safetensors: a line break in the name \"a\\nb\"");
    safetensors::write([("a\nb", &words)]).expect("JSON has an escape for it");
}

#[test]
fn margins_stay_behind() {
    let padding = Padding::new([(1, 1)], Some(9.0));
    let array = HostArray::from_slice(&[1.0f32, 2.0], [2]).expect("two");
    let padded = array.with_reshape([2], Some(padding)).expect("two");
    assert_eq!(read(&written(&padded)), array);
    let bytes = safetensors::write([("x", &padded)]).expect("f32");
    assert_eq!(safetensors::read(&bytes).expect("our own")["x"], array);
}

/// The layout that the format's description gives: length, JSON, data.
#[test]
fn safetensors_by_hand() {
    let header = br#"{"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}"#;
    let data = [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let file = [&(header.len() as u64).to_le_bytes()[..], header, &data].concat();
    assert_eq!(safetensors::read(&file).expect("by the book")["a"].values(), [1.0, -1.0]);
    let other = br#"{"a":{"dtype":"I16","shape":[4],"data_offsets":[0,8]}}"#;
    let file = [&(other.len() as u64).to_le_bytes()[..], other, &data].concat();
    let rejected = safetensors::read(&file).expect_err("no I16 here").to_string();
    assert_eq!(rejected, "element type I16 in safetensors has no counterpart");
}

fn npy_file(header: &str, data: &[u8]) -> Vec<u8> {
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), data].concat()
}

/// The header of an array of `f32` with this shape.
fn header(shape: &str) -> String {
    format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}")
}

/// A `.npy` file that is rejected: a name, its bytes, the message. The end of a file is reported in the words
/// of the standard library.
type BadFile = (&'static str, fn() -> Vec<u8>, &'static str);

const ENDS: &str = "cannot read or write npy: failed to fill whole buffer";

const BAD_NPY_FILES: [BadFile; 12] = [
    (
        "another format",
        || b"PK\x03\x04 no array".into(),
        "malformed npy: expected the magic bytes \\x93NUMPY",
    ),
    (
        "an unknown version",
        || b"\x93NUMPY\x09\x00\x00\x00".into(),
        "malformed npy: expected version 1, 2 or 3, found 9",
    ),
    ("half of the magic bytes", || b"\x93NU".into(), ENDS),
    (
        "a header of 4 GiB",
        || b"\x93NUMPY\x02\x00\xff\xff\xff\xff".into(),
        "malformed npy: a header of 4294967295 bytes, expected at most 65536",
    ),
    ("text", || include_bytes!("../data/unicode.npy").into(), "element type <U2 in npy has no counterpart"),
    ("fewer bytes than elements", || npy_file(&header("(2,)"), &[0; 4]), ENDS),
    (
        "a negative dimension",
        || npy_file(&header("(-2,)"), &[0; 4]),
        "malformed npy: header \"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}\"",
    ),
    (
        "an open parenthesis",
        || npy_file(&header("(2"), &[0; 4]),
        "malformed npy: header \"{'descr': '<f4', 'fortran_order': False, 'shape': (2}\"",
    ),
    (
        "a header without keys",
        || npy_file("{'descr': '<f4'}", &[0; 4]),
        "malformed npy: the header lacks descr, fortran_order or shape",
    ),
    // A size in a header allocates nothing before the bytes arrive.
    ("a dimension far beyond the file", || npy_file(&header("(99999999999999,)"), &[0; 4]), ENDS),
    // A size beyond the address space is rejected at once, whatever the other dimensions are.
    (
        "sizes beyond the address space",
        || npy_file(&header("(9999999999, 9999999999, 0)"), &[]),
        "an array of dimensions [9999999999, 9999999999, 0] is too large to address",
    ),
    (
        "sizes whose bytes are beyond the address space",
        || npy_file(&header("(4611686018427387904,)"), &[]),
        "an array of dimensions [4611686018427387904] is too large to address",
    ),
];

#[test]
fn bad_npy_files_are_rejected() {
    for (name, file, message) in BAD_NPY_FILES {
        let found = npy::read(&file()[..]).map_err(|error| error.to_string());
        assert_eq!(found, Err(message.to_owned()), "{name}");
    }
    assert!(npy::read(&npy_file(&header("(1,)"), &[0; 4])[..]).is_ok());
}

/// Headers with 8,000 axes are small, and are rejected before anything is computed from them.
#[test]
fn files_of_too_many_axes_are_rejected() {
    let shape = |rank: usize| vec!["1"; rank].join(",");
    let npy = |rank| {
        let header = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': ({},)}}", shape(rank));
        npy_file(&header, &[0, 0, 0x80, 0x3f])
    };
    let safetensors = |rank: usize, dtype: &str, last: &str, bytes: usize| {
        let header = format!(
            r#"{{"a":{{"dtype":"{dtype}","shape":[{}{last}],"data_offsets":[0,{bytes}]}}}}"#,
            shape(rank)
        );
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; bytes]].concat()
    };
    let rejected = |result: Result<(), TensorNodeError>, rank: usize| match result {
        Err(TensorNodeError::TooManyAxes { found, limit: MAX_RANK }) => assert_eq!(found, rank),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&npy(MAX_RANK)).dims().len(), MAX_RANK);
    let kept = safetensors::read(&safetensors(MAX_RANK, "F32", "", 4)).expect("as many as there may be");
    assert_eq!(kept["a"].dims().len(), MAX_RANK);
    for rank in [MAX_RANK + 1, 8_000] {
        rejected(npy::read(&npy(rank)[..]).map(drop), rank);
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("x.npy", zip::write::SimpleFileOptions::default()).expect("memory");
        archive.write_all(&npy(rank)).expect("memory");
        rejected(npy::read_npz(archive.finish().expect("memory")).map(drop), rank);
        rejected(safetensors::read(&safetensors(rank, "F32", "", 4)).map(drop), rank);
    }
    let message = npy::read(&npy(33)[..]).expect_err("rejected").to_string();
    assert_eq!(message, "an array has at most 32 axes, found 33");
    // The extra axis that random bits have in a file does not count as an axis of the array.
    let bits = HostArray::zeros(DType::U32x4, [1; MAX_RANK]).expect("small");
    let file = safetensors::write([("bits", &bits)]).expect("all types");
    assert_eq!(safetensors::read(&file).expect("our own")["bits"], bits);
}

/// All extents are 2, so the element at an index is the index's bits in reverse order.
#[test]
fn columns_of_many_axes_are_read_as_rows() {
    let rank = 14;
    let header =
        format!("{{'descr': '<u2', 'fortran_order': True, 'shape': ({})}}", vec!["2"; rank].join(", "));
    let stored: Vec<u8> = (0..1u16 << rank).flat_map(u16::to_le_bytes).collect();
    let array = read(&npy_file(&header, &stored));
    let expected: Vec<u16> = (0..1u16 << rank).map(|n| n.reverse_bits() >> (16 - rank)).collect();
    assert_eq!(array.as_slice::<u16>().expect("u16"), expected);
}

proptest! {
    /// Damaged files are read or rejected.
    #[test]
    fn damage_never_panics(position: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let sources: [&[u8]; 3] =
            [include_bytes!("../data/rows.npy"), include_bytes!("../data/columns.npy"), include_bytes!("../data/pair.npz")];
        for source in sources {
            let mut bytes = source.to_vec();
            *position.get_mut(&mut bytes) = byte;
            let _ = npy::read(&bytes[..]);
            let _ = npy::read(&bytes[..cut.index(bytes.len())]);
            let _ = npy::read_npz(Cursor::new(&bytes));
            let _ = safetensors::read(&bytes);
        }
        let array = HostArray::from_slice(&[1.0f32, 2.0], [2]).expect("two");
        let mut bytes = safetensors::write([("x", &array)]).expect("f32");
        *position.get_mut(&mut bytes) = byte;
        let _ = safetensors::read(&bytes);
    }
}

/// A private mapping of bytes from `start` on of a file with the numbers 0 to 31 as f32.
fn mapping(file: &std::path::Path, start: u64, bytes: usize) -> memmap2::MmapMut {
    let numbers: Vec<u8> = (0u8..32).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    std::fs::write(file, numbers).expect("a folder");
    let file = std::fs::File::open(file).expect("it was written");
    // SAFETY: nothing writes the file while it is mapped.
    unsafe { memmap2::MmapOptions::new().offset(start).len(bytes).map_copy(&file) }.expect("a part of it")
}

#[test]
fn a_mapped_array_leaves_its_file_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("numbers");
    let memory = mapping(&file, 64, 16);
    let address = memory.as_ptr();
    let mut array = HostArray::from_mapping(DType::F32, [2, 2], memory).expect("it fits");
    assert_eq!((array.bytes().as_ptr(), array.values()), (address, vec![16.0, 17.0, 18.0, 19.0]));
    let copy = array.clone();
    array.as_mut_slice::<f32>().expect("f32")[0] = -1.0;
    assert_eq!((array.values()[0], copy.values()[0]), (-1.0, 16.0));
    assert_eq!(std::fs::read(&file).expect("the file")[64..68], 16f32.to_le_bytes());
    // Arrays are aligned.
    let memory = mapping(&file, 4, 8);
    let address = memory.as_ptr();
    let array = HostArray::from_mapping(DType::F32, [2], memory).expect("it fits");
    assert_eq!(array.values(), [1.0, 2.0]);
    assert_ne!(array.bytes().as_ptr(), address);
    assert!(HostArray::from_mapping(DType::F32, [3], mapping(&file, 64, 16)).is_err());
}
