//! GGUF files: blocks of all encodings, the tokenizers, and files that contradict themselves.

use std::{fs, path::PathBuf};

use arrayjit_models::{LanguageModel, LoadOptions, ModelError, WeightStorage};
use arrayjit_tensor::BlockFormat;
use half::{bf16, f16};
use tempfile::TempDir;

use crate::{
    generated::{byte_letters, fixture, floats, generated, tokens, words},
    language_models::assert_close,
};

/// An encoding: its number, elements and bytes of a block, and f16 factors by their bytes.
type Encoding = (u32, usize, usize, &'static [(usize, f32)]);

const BF16: u32 = 30;
const SMALL: f32 = 1.0 / 512.0;
const SMALLER: f32 = 1.0 / 8192.0;

/// The matrices of the model of the fixture.
const MATRICES: [(&str, [usize; 2], Encoding); 9] = [
    ("token_embd", [256, 256], (8, 32, 34, &[(0, SMALL)])),
    ("blk.0.attn_q", [256, 256], (12, 256, 144, &[(0, SMALLER), (2, SMALLER)])),
    ("blk.0.attn_k", [128, 256], (6, 32, 22, &[(0, SMALL)])),
    ("blk.0.attn_v", [128, 256], (14, 256, 210, &[(208, SMALLER)])),
    ("blk.0.attn_output", [256, 256], (3, 32, 20, &[(0, SMALL), (2, -8.0 * SMALL)])),
    ("blk.0.ffn_gate", [256, 256], (2, 32, 18, &[(0, SMALL)])),
    ("blk.0.ffn_up", [256, 256], (13, 256, 176, &[(0, SMALLER), (2, SMALLER)])),
    ("blk.0.ffn_down", [256, 256], (7, 32, 24, &[(0, SMALL), (2, -8.0 * SMALL)])),
    ("output", [256, 256], (BF16, 1, 2, &[])),
];

/// The bytes of a matrix, as `blocks` in `make_fixtures.py`.
fn blocks(name: &str, shape: [usize; 2], (number, elements, bytes, factors): Encoding) -> Vec<u8> {
    let name = name.strip_prefix("blk.0.").unwrap_or(name);
    if number == BF16 {
        let values = generated(name, &shape).into_iter();
        return values.flat_map(|value| bf16::from_f32(value / 4.0).to_le_bytes()).collect();
    }
    let count = shape[0] * shape[1] / elements * bytes;
    let mut blocks: Vec<u8> = words(name, count).map(|word| (word >> 24) as u8).collect();
    for block in blocks.chunks_mut(bytes) {
        for &(at, factor) in factors {
            block[at..at + 2].copy_from_slice(&f16::from_f32(factor).to_le_bytes());
        }
    }
    blocks
}

/// The bytes of a file, entry by entry.
#[derive(Default)]
pub(crate) struct Writer {
    entries: u64,
    metadata: Vec<u8>,
    tensors: u64,
    places: Vec<u8>,
    data: Vec<u8>,
}

impl Writer {
    fn text(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }

    fn entry(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.entries += 1;
        Writer::text(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        &mut self.metadata
    }

    pub(crate) fn number(&mut self, key: &str, value: u32) {
        self.entry(key, 4).extend(value.to_le_bytes());
    }

    pub(crate) fn float(&mut self, key: &str, value: f32) {
        self.entry(key, 6).extend(value.to_le_bytes());
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        Writer::text(self.entry(key, 8), value);
    }

    pub(crate) fn strings(&mut self, key: &str, values: &[String]) {
        let bytes = self.entry(key, 9);
        bytes.extend(8u32.to_le_bytes());
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| Writer::text(bytes, value));
    }

    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize], encoding: u32, bytes: &[u8]) {
        self.tensors += 1;
        Writer::text(&mut self.places, name);
        self.places.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|&size| self.places.extend((size as u64).to_le_bytes()));
        self.places.extend(encoding.to_le_bytes());
        self.places.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
    }

    /// The configuration of a model of one layer, and a tokenizer of bytes.
    pub(crate) fn llama(&mut self, size: u32, hidden: u32) {
        self.string("general.architecture", "llama");
        self.sizes(size, hidden);
        self.float("llama.attention.layer_norm_rms_epsilon", 1e-5);
        self.float("llama.rope.freq_base", 10000.0);
        self.string("tokenizer.ggml.model", "gpt2");
        self.string("tokenizer.ggml.pre", "smollm");
        self.strings("tokenizer.ggml.tokens", &byte_letters());
        self.strings("tokenizer.ggml.merges", &[]);
        self.number("tokenizer.ggml.eos_token_id", 0);
    }

    pub(crate) fn sizes(&mut self, size: u32, hidden: u32) {
        for (key, value) in [
            ("context_length", 64),
            ("embedding_length", size),
            ("block_count", 1),
            ("feed_forward_length", hidden),
            ("attention.head_count", 4),
            ("attention.head_count_kv", if size == 256 { 2 } else { 4 }),
        ] {
            self.number(&format!("llama.{key}"), value);
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(self.tensors.to_le_bytes());
        bytes.extend(self.entries.to_le_bytes());
        bytes.extend(self.metadata);
        bytes.extend(self.places);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(self.data);
        bytes
    }
}

/// The file of the fixture.
fn llama() -> Vec<u8> {
    chat_llama(None)
}

/// The file of the fixture, with a chat template or without one.
pub(crate) fn chat_llama(template: Option<&str>) -> Vec<u8> {
    llama_of(template, |_, encoding, blocks| (encoding.0, blocks))
}

/// The same with other encodings: `encode` gives the number and the bytes for the name and the blocks of a
/// matrix.
fn llama_of(template: Option<&str>, encode: impl Fn(&str, Encoding, Vec<u8>) -> (u32, Vec<u8>)) -> Vec<u8> {
    let mut file = Writer::default();
    file.llama(256, 256);
    if let Some(template) = template {
        file.string("tokenizer.chat_template", template);
        file.number("tokenizer.ggml.bos_token_id", b'b'.into());
    }
    for (name, shape, encoding) in MATRICES {
        let (number, bytes) = encode(name, encoding, blocks(name, shape, encoding));
        file.tensor(&format!("{name}.weight"), &shape, number, &bytes);
    }
    for name in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"] {
        let values = generated(&format!("{}.weight", name.trim_start_matches("blk.0.")), &[256]);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        file.tensor(&format!("{name}.weight"), &[256], 0, &bytes);
    }
    file.finish()
}

pub(crate) fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn blocks_of_all_encodings_are_those_of_llama_cpp() {
    let (_folder, path) = written(&llama());
    let mut model = LanguageModel::load(&path).unwrap();
    let fixture = fixture("gguf");
    let prompt = tokens(&fixture["prompt"]);
    for (length, expected) in fixture["logits"].as_object().unwrap() {
        let logits = model.logits(&prompt[..length.parse::<usize>().unwrap()]).unwrap();
        assert_close("gguf", &logits, &floats(expected));
    }
    assert_eq!(model.tokens("a 1").unwrap(), [b'a', b' ', b'1'].map(u32::from));
}

#[test]
fn floats_of_heads_have_the_rows_that_their_blocks_have() {
    let floats = |name: &str, encoding: Encoding, blocks: Vec<u8>| {
        let format = match name {
            "blk.0.attn_q" => BlockFormat::Q4K,
            "blk.0.attn_k" => BlockFormat::Q5_0,
            _ => return (encoding.0, blocks),
        };
        let mut values = vec![0f32; blocks.len() / encoding.2 * encoding.1];
        format.decode(&blocks, &mut values).unwrap();
        (0, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    };
    let logits = |bytes: &[u8]| {
        let (_folder, path) = written(bytes);
        let options = LoadOptions { weights: WeightStorage::F32, ..LoadOptions::default() };
        LanguageModel::load_with(&path, &options).unwrap().logits(&[1, 2, 3]).unwrap()
    };
    assert!(logits(&llama_of(None, floats)) == logits(&llama()));
}

#[test]
fn packed_weights_give_the_logits_of_decoded_ones() {
    let (_folder, path) = written(&llama());
    let logits = |weights| {
        let options = LoadOptions { weights, ..LoadOptions::default() };
        let mut model = LanguageModel::load_with(&path, &options).unwrap();
        [1, 2, 40].map(|length| model.logits(&(1..=length).collect::<Vec<_>>()).unwrap())
    };
    // The same weights, summed in other orders: logits are up to 4, and the errors of sums some 1e-7 of them.
    for (packed, decoded) in logits(WeightStorage::Stored).iter().zip(&logits(WeightStorage::F32)) {
        let greatest = packed.iter().zip(decoded).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(greatest < 1e-5, "{greatest}");
    }
}

#[test]
fn mutated_files_are_errors_or_load() {
    let seed = llama();
    let header = seed.len() - 330_000;
    let mut random = fastrand::Rng::with_seed(1);
    let mut errors = 0;
    for _ in 0..40 {
        let mut bytes = seed.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..header);
            match random.u8(0..3) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at..at + 8].fill(0xff),
                _ => bytes.truncate(at.max(8)),
            }
            if bytes.len() < header + 8 {
                break;
            }
        }
        let (_folder, path) = written(&bytes);
        errors += usize::from(LanguageModel::load(&path).is_err());
    }
    assert!(errors > 10, "{errors}");
}

#[test]
fn files_that_lie_are_typed_errors() {
    let seed = llama();
    let error = |bytes: &[u8]| {
        let (_folder, path) = written(bytes);
        match LanguageModel::load(&path).err().unwrap() {
            ModelError::File { problem, .. } => *problem,
            error => panic!("{error}"),
        }
    };
    assert!(matches!(error(&seed[..seed.len() / 2]), ModelError::Format { .. }));
    assert!(matches!(error(b"GGML"), ModelError::Format { .. } | ModelError::Io(_)));
    let mut many = seed.clone();
    many[8..16].fill(0xff);
    assert!(error(&many).to_string().starts_with("a number of elements is 18446744073709551615"));
    let at = seed.windows(5).position(|bytes| bytes == b"llama").unwrap();
    let mut other = seed;
    other[at] = b'x';
    let ModelError::Architecture { found, known } = error(&other) else { panic!("another error") };
    assert_eq!(found, "xlama");
    assert!(known.contains(&"llama"));
}

/// The logits behind a text, of the fixture's file with more entries and tensors.
fn logits_with(change: impl FnOnce(&mut Writer)) -> Result<Vec<f32>, ModelError> {
    let mut file = Writer::default();
    file.llama(256, 256);
    change(&mut file);
    for (name, shape, encoding) in MATRICES {
        file.tensor(&format!("{name}.weight"), &shape, encoding.0, &blocks(name, shape, encoding));
    }
    for name in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"] {
        file.tensor(&format!("{name}.weight"), &[256], 0, &1f32.to_le_bytes().repeat(256));
    }
    let (_folder, path) = written(&file.finish());
    LanguageModel::load(&path)?.logits(&[5, 80, 200, 7, 9])
}

#[test]
fn what_changes_logits_is_computed_or_rejected() {
    let logits = |change: fn(&mut Writer)| logits_with(change).unwrap();
    let divided: fn(&mut Writer) = |file| {
        file.tensor("rope_freqs.weight", &[32], 0, &4f32.to_le_bytes().repeat(32));
    };
    // A factor without a type is linear, as in llama.cpp, and divides all angles.
    assert_eq!(logits(|file| file.float("llama.rope.scaling.factor", 4.0)), logits(divided));
    let biased: fn(&mut Writer) = |file| {
        for part in ["gate", "up", "down"] {
            file.tensor(&format!("blk.0.ffn_{part}.bias"), &[256], 0, &1f32.to_le_bytes().repeat(256));
        }
    };
    for change in [divided, biased, |file| file.float("llama.rope.scaling.attn_factor", 0.5)] {
        assert_ne!(logits(change), logits(|_| ()));
    }
    let rejected = |name: &str, change: fn(&mut Writer)| {
        let error = logits_with(change).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    };
    rejected("`blk.0.attn_q.bias`", |file| file.tensor("blk.0.attn_q.bias", &[256], 0, &[0; 1024]));
    rejected("`llama.rope.dimension_count`", |file| file.number("llama.rope.dimension_count", 32));
    rejected("`amplitude`", |file| file.float("llama.rope.scaling.attn_factor", f32::NAN));
    rejected("`llama.attention.causal`", |file| file.entry("llama.attention.causal", 7).push(0));
}

#[test]
fn vocabularies_of_sentence_piece_merge_by_score() {
    let mut file = Writer::default();
    file.string("general.architecture", "llama");
    let pieces = ["<unk>", "<s>", "▁", "a", "b", "ab", "▁ab", "ba", "<0xC3>", "<0xA9>"];
    let scores: [f32; 10] = [0.0, 0.0, -9.0, -8.0, -7.0, -1.0, -3.0, -2.0, 0.0, 0.0];
    let mut pieces: Vec<String> = pieces.iter().map(ToString::to_string).collect();
    pieces.extend((10..256).map(|at| format!("<unused{at}>")));
    file.string("tokenizer.ggml.model", "llama");
    file.strings("tokenizer.ggml.tokens", &pieces);
    let bytes = file.entry("tokenizer.ggml.scores", 9);
    bytes.extend(6u32.to_le_bytes());
    bytes.extend(256u64.to_le_bytes());
    (0..256).for_each(|at| bytes.extend(scores.get(at).copied().unwrap_or(-20.0).to_le_bytes()));
    file.number("tokenizer.ggml.bos_token_id", 1);
    file.sizes(256, 256);
    for (name, shape, encoding) in MATRICES {
        file.tensor(&format!("{name}.weight"), &shape, encoding.0, &blocks(name, shape, encoding));
    }
    for name in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"] {
        file.tensor(&format!("{name}.weight"), &[256], 0, &[0; 1024]);
    }
    let (_folder, path) = written(&file.finish());
    let model = LanguageModel::load(&path).unwrap();
    assert_eq!(model.tokens("abaé").unwrap(), [1, 6, 3, 8, 9]);
}
