//! Files of `torch.save`: files that torch wrote, and files that lie.

use std::io::{Cursor, Write};

use proptest::prelude::*;
use tnode::{DType, HostArray, TensorNodeError, torch};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

const MODEL: &[u8] = include_bytes!("../data/model.pt");
const TRAINING: &[u8] = include_bytes!("../data/training.pt");

fn f32s(values: &[f32], dims: impl IntoIterator<Item = usize>) -> HostArray {
    HostArray::from_slice(values, dims).expect("their number")
}

#[test]
fn a_state_dict_is_read() {
    let arrays = torch::read(MODEL).expect("a file that torch wrote");
    let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "0.bias",
            "0.weight",
            "1.bias",
            "1.num_batches_tracked",
            "1.running_mean",
            "1.running_var",
            "1.weight"
        ]
    );
    assert_eq!(arrays["0.weight"], f32s(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [2, 3]));
    assert_eq!(arrays["0.bias"], f32s(&[1.0, 2.0], [2]));
    assert_eq!(arrays["1.num_batches_tracked"], HostArray::from_slice(&[0i64], []).expect("one"));
}

#[test]
fn every_type_and_every_view_is_read() {
    let arrays = torch::read(TRAINING).expect("a file that torch wrote");
    for dtype in DType::ALL {
        let Some(array) = arrays.get(&format!("types.{dtype}")) else {
            assert!([DType::Bool, DType::U32x4].contains(&dtype), "{dtype}");
            continue;
        };
        assert_eq!((array.dtype(), array.values()), (dtype, vec![0.0, 1.0, 2.0]));
    }
    let bools = &arrays["bool"];
    assert_eq!((bools.dtype(), bools.values()), (DType::Bool, vec![1.0, 0.0]));
    assert_eq!(arrays["table"], f32s(&[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.], [3, 4]));
    assert_eq!(arrays["transposed"], f32s(&[0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.], [4, 3]));
    assert_eq!(arrays["rows"], f32s(&[4., 5., 6., 7., 8., 9., 10., 11.], [2, 4]));
    assert_eq!(arrays["column"], f32s(&[2., 6., 10.], [3]));
    assert_eq!(arrays["every_other"], f32s(&[1., 3., 9., 11.], [2, 2]));
    assert_eq!(arrays["scalar"], f32s(&[7.], []));
    assert_eq!(arrays["empty"].dims().as_slice(), [0, 4]);
    assert_eq!(arrays["parameter"], f32s(&[1., 1.], [2]));
    assert_eq!((&arrays["list.0"], &arrays["list.1.x"]), (&f32s(&[0.], [1]), &f32s(&[1.], [1])));
    assert_eq!(arrays["optimizer.state.0.momentum_buffer"].dims().as_slice(), [2, 3]);
    assert!(!arrays.keys().any(|name| ["epoch", "large", "name"].contains(&name.as_str())));
}

/// Tensors with one storage have places in the same bytes of the file.
#[test]
fn shared_storages_are_in_one_place() {
    let tensors = torch::stored_tensors(Cursor::new(TRAINING)).expect("a file that torch wrote");
    let [table, transposed, rows] = ["table", "transposed", "rows"].map(|name| &tensors[name]);
    assert_eq!((table.start, table.start + 16), (transposed.start, rows.start));
    assert_eq!(transposed.strides.as_slice(), [1, 4]);
    assert_eq!([table, transposed, rows].map(torch::StoredTensor::is_contiguous), [true, false, true]);
    let first = usize::try_from(rows.start).expect("a small file");
    assert_eq!(TRAINING[first..first + 4], 4f32.to_le_bytes());
}

fn problem(bytes: &[u8]) -> TensorNodeError {
    torch::read(bytes).expect_err("a file that is rejected")
}

#[test]
fn files_of_torch_that_are_not_supported_say_why() {
    assert_eq!(
        problem(include_bytes!("../data/legacy.pt")).to_string(),
        "malformed torch: a pickle that is in no zip archive, as torch before 1.6 wrote it; load and save it \
         with torch"
    );
    assert_eq!(
        problem(include_bytes!("../data/complex.pt")).to_string(),
        "element type torch.ComplexFloatStorage in torch has no counterpart"
    );
    assert_eq!(
        problem(include_bytes!("../data/expanded.pt")).to_string(),
        "malformed torch: tensor \"x\" has dimensions [1000], strides [0] and offset 0 in a storage of 1 \
         elements"
    );
    assert_eq!(
        problem(include_bytes!("../data/pair.npz")).to_string(),
        "malformed torch: an archive without `data.pkl`, which `torch.save` writes"
    );
    let big = archive(&[("byteorder", b"big"), ("data.pkl", b"}.")]);
    assert_eq!(problem(&big).to_string(), "malformed torch: the byte order is \"big\", expected \"little\"");
}

/// An archive of torch with these entries.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in entries {
        archive.start_file(format!("x/{name}"), options).expect("memory");
        archive.write_all(bytes).expect("memory");
    }
    archive.finish().expect("memory").into_inner()
}

/// A dictionary with one tensor of f32, of these numbers as opcodes, in a storage of two elements.
fn one_tensor(count: &[u8], offset: &[u8], size: &[u8], stride: &[u8]) -> Vec<u8> {
    let start: &[u8] = b"\x80\x02}X\x01\x00\x00\x00xctorch._utils\n_rebuild_tensor_v2\n((";
    let storage: &[u8] =
        b"X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu";
    let pickle = [start, storage, count, b"tQ", offset, size, b"\x85", stride, b"\x85\x89}tRs."].concat();
    archive(&[("data.pkl", &pickle), ("data/0", &[0, 0, 128, 63, 0, 0, 0, 64])])
}

#[test]
fn pickles_by_hand() {
    let array = torch::read(&one_tensor(b"K\x02", b"K\x01", b"K\x01", b"K\x01")).expect("by the book");
    assert_eq!(array["x"], f32s(&[2.0], [1]));
}

#[test]
fn sizes_that_lie_are_rejected() {
    let long = b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"; // i64::MAX
    let minus = b"J\xff\xff\xff\xff";
    let files: [(&str, Vec<u8>); 9] = [
        ("a storage of more elements", one_tensor(b"K\x03", b"K\x00", b"K\x02", b"K\x01")),
        ("a storage of fewer elements", one_tensor(b"K\x01", b"K\x00", b"K\x01", b"K\x01")),
        ("a storage beyond the address space", one_tensor(long, b"K\x00", b"K\x02", b"K\x01")),
        ("more elements", one_tensor(b"K\x02", b"K\x00", b"K\x03", b"K\x01")),
        ("an offset at the end", one_tensor(b"K\x02", b"K\x02", b"K\x01", b"K\x01")),
        ("a stride beyond the end", one_tensor(b"K\x02", b"K\x00", b"K\x02", long)),
        ("a size beyond the address space", one_tensor(b"K\x02", b"K\x00", long, b"K\x00")),
        ("a negative offset", one_tensor(b"K\x02", minus, b"K\x01", b"K\x01")),
        ("a negative size", one_tensor(b"K\x02", b"K\x00", minus, b"K\x01")),
    ];
    for (name, file) in files {
        let error = problem(&file);
        assert!(
            matches!(
                error,
                TensorNodeError::Malformed { format: "torch", .. } | TensorNodeError::TooLarge { .. }
            ),
            "{name}: {error}"
        );
    }
}

/// What a pickle asks for is named, not called.
#[test]
fn nothing_is_executed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made");
    let command = format!("touch {}", path.display());
    let mut pickle = b"\x80\x02cposix\nsystem\nX".to_vec();
    pickle.extend((command.len() as u32).to_le_bytes());
    pickle.extend(command.bytes());
    pickle.extend(b"\x85R.");
    let error = problem(&archive(&[("data.pkl", &pickle)]));
    assert!(matches!(&error, TensorNodeError::PickledGlobal { name } if name == "posix.system"));
    assert!(error.to_string().starts_with("the pickle mentions `posix.system`, which is not loaded"));
    assert!(!path.exists());
    for (pickle, message) in [
        (&b"cbuiltins\neval\n."[..], "the pickle mentions `builtins.eval`"),
        (b"ctorch._utils\n__builtins__\n.", "the pickle mentions `torch._utils.__builtins__`"),
        (b"(iposix\nsystem\n.", "malformed torch: opcode 0x69 in `data.pkl`"),
        (b"\x80\x04.", "malformed torch: a pickle of protocol 4, expected 2"),
    ] {
        let error = problem(&archive(&[("data.pkl", pickle)])).to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

/// Values that contain themselves or share each other exponentially, and deep nesting, are rejected in a
/// moment.
#[test]
fn bombs_are_rejected() {
    let nested = |opcode: u8| [vec![b')'], vec![opcode; 1 << 20], vec![b'.']].concat();
    let itself = b"}q\x00X\x01\x00\x00\x00xh\x00s.".to_vec();
    // Each list has the one before it ten times.
    let mut doubled = b"]q\x00".to_vec();
    for at in 0u8..60 {
        doubled.extend(b"](");
        doubled.extend([b'h', at].repeat(10));
        doubled.extend([b'e', b'q', at + 1]);
    }
    doubled.push(b'.');
    for pickle in [nested(0x85), itself, doubled] {
        let error = problem(&archive(&[("data.pkl", &pickle)])).to_string();
        assert_eq!(error, "malformed torch: values that are nested too often in each other");
    }
}

proptest! {
    /// Damaged files are read or rejected.
    #[test]
    fn damage_never_panics(position: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        for source in [MODEL, TRAINING] {
            let mut bytes = source.to_vec();
            *position.get_mut(&mut bytes) = byte;
            let _ = torch::read(&bytes);
            let _ = torch::read(&bytes[..cut.index(bytes.len())]);
        }
    }

    /// Pickles of any opcodes are read or rejected.
    #[test]
    fn opcodes_in_any_order_never_panic(
        opcodes in prop::collection::vec(prop::sample::select(
            &b"\x80\x02.(NK\x01M\x01\x00J\x8a\x01Xcq\x00h\x00)]}t\x85\x86\x87aesuQRbG"[..]), 0..60)
    ) {
        let _ = torch::read(&archive(&[("data.pkl", &opcodes)]));
    }
}
