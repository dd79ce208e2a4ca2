//! Fixtures, and the folders of models that they describe.

use std::{collections::BTreeMap, fs, io::Write, path::Path};

use half::{bf16, f16};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// A file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn tokens(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Random numbers from the checksum of a name, as `words` in `make_fixtures.py`.
pub(crate) fn words(name: &str, count: usize) -> impl Iterator<Item = u32> {
    let seed = crc32(name.as_bytes());
    (0..count as u32).map(move |at| {
        let mut x = at.wrapping_mul(0x9E37_79B1).wrapping_add(seed);
        for factor in [0x85EB_CA6B, 0xC2B2_AE35] {
            x = (x ^ x >> 15).wrapping_mul(factor);
        }
        x ^ x >> 16
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1)))
    })
}

/// The values of a tensor, as `generated` in `make_fixtures.py`.
pub(crate) fn generated(name: &str, shape: &[usize]) -> Vec<f32> {
    let values = words(name, shape.iter().product()).map(|word| (word >> 25) as f32 / 64.0 - 1.0);
    let is_table = name.contains("emb") || name.contains("wte");
    values
        .map(|value| match shape.len() {
            1 => value / 8.0 + if name.ends_with("weight") { 1.0 } else { 0.0 },
            _ if is_table => value,
            _ => value / 2.0,
        })
        .collect()
}

/// Writes a safetensors file with generated tensors of a type.
pub(crate) fn write_weights(path: &Path, tensors: &[(String, Vec<usize>)], dtype: Dtype) {
    fs::write(path, safetensors(tensors, dtype)).unwrap();
}

/// The bytes of a safetensors file with generated tensors of a type.
pub(crate) fn safetensors(tensors: &[(String, Vec<usize>)], dtype: Dtype) -> Vec<u8> {
    let bytes = tensors.iter().map(|(name, shape)| {
        let values = generated(name, shape);
        match dtype {
            Dtype::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(),
            Dtype::BF16 => values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
        }
    });
    let bytes: Vec<Vec<u8>> = bytes.collect();
    let views: BTreeMap<&str, TensorView<'_>> = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape), bytes)| (name.as_str(), TensorView::new(dtype, shape.clone(), bytes).unwrap()))
        .collect();
    ::safetensors::serialize(views, None).unwrap()
}

/// Writes a file as `torch.save` does, with generated tensors of f32 in one storage, or with their bits as
/// another type of 4 bytes.
pub(crate) fn write_torch_weights(path: &Path, tensors: &[(String, Vec<usize>)], storage: &str) {
    let class = format!("ctorch\n{storage}\n");
    let values: Vec<f32> = tensors.iter().flat_map(|(name, shape)| generated(name, shape)).collect();
    let int = |value: usize| [b"J".as_slice(), &(value as u32).to_le_bytes()].concat();
    let text = |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let tuple = |sizes: &[usize]| {
        [vec![b'('], sizes.iter().flat_map(|size| int(*size)).collect(), vec![b't']].concat()
    };
    let mut pickle = b"\x80\x02}".to_vec();
    let mut offset = 0;
    for (name, shape) in tensors {
        let strides: Vec<usize> = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        let storage = [
            b"(" as &[u8],
            &text("storage"),
            class.as_bytes(),
            &text("0"),
            &text("cpu"),
            &int(values.len()),
            b"tQ",
        ]
        .concat();
        pickle.extend(text(name));
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n(");
        pickle.extend([storage, int(offset), tuple(shape), tuple(&strides)].concat());
        pickle.extend(b"\x89ccollections\nOrderedDict\n)RtRs");
        offset += shape.iter().product::<usize>();
    }
    pickle.push(b'.');
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut archive = ZipWriter::new(fs::File::create(path).unwrap());
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in [("model/data.pkl", pickle), ("model/data/0", bytes)] {
        archive.start_file(name, options).unwrap();
        archive.write_all(&bytes).unwrap();
    }
    archive.finish().unwrap();
}

/// The tensors of a fixture.
pub(crate) fn tensors(fixture: &Value) -> Vec<(String, Vec<usize>)> {
    let tensors: BTreeMap<String, Vec<usize>> = serde_json::from_value(fixture["tensors"].clone()).unwrap();
    tensors.into_iter().collect()
}

/// A folder with the configuration, the weights in a type, and a tokenizer.
pub(crate) fn folder(fixture: &Value, dtype: Dtype, tokenizer: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_json(folder.path(), "config.json", &fixture["config"]);
    write_json(folder.path(), "tokenizer.json", tokenizer);
    write_weights(&folder.path().join("model.safetensors"), &tensors(fixture), dtype);
    folder
}

pub(crate) fn write_json(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), value.to_string()).unwrap();
}

/// The letters that stand for bytes in tokenizers of bytes, in the order of the bytes.
pub(crate) fn byte_letters() -> Vec<String> {
    let is_plain = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut others = 256..;
    (0..256)
        .map(|byte| if is_plain(byte) { byte } else { others.next().unwrap() })
        .map(|code| char::from_u32(code).unwrap().to_string())
        .collect()
}

/// A tokenizer whose tokens are the bytes.
pub(crate) fn byte_tokenizer() -> Value {
    let vocabulary: BTreeMap<String, usize> = byte_letters().into_iter().zip(0..).collect();
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": bytes, "decoder": bytes,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    })
}
