//! A bound of the growth of texts in a tokenizer. Each step of a chain can replace a letter by many, so a
//! short file can describe a chain whose results fit in no memory.

use serde::Serialize;
use serde_json::Value;
use tokenizers::Tokenizer;

use crate::error::{ModelError, Result};

/// The most bytes that a chain of steps may make of one. Published models make at most 33 of a letter.
const LIMIT: usize = 10_000;

/// Rejects a tokenizer, one of whose chains of steps makes too long results.
pub(crate) fn check_growth(tokenizer: &Tokenizer) -> Result<()> {
    check("normalizer", tokenizer.get_normalizer())?;
    check("pre_tokenizer", tokenizer.get_pre_tokenizer())?;
    check("post_processor", tokenizer.get_post_processor())?;
    check("decoder", tokenizer.get_decoder())
}

fn check(chain: &str, steps: Option<&impl Serialize>) -> Result<()> {
    match growth(&serde_json::to_value(steps)?) {
        0..=LIMIT => Ok(()),
        found => Err(ModelError::Tokenizer(format!(
            "`{chain}` can make {found} bytes or tokens of one, expected at most {LIMIT}"
        ))),
    }
}

/// A bound of the number of bytes that a step, or a sequence of steps, makes of one. Steps whose results stay
/// as they are if the step is repeated count as 1.
fn growth(step: &Value) -> usize {
    let text = |key: &str| step[key].as_str().unwrap_or_default();
    let kind = text("type");
    let parts = ["normalizers", "pretokenizers", "processors", "decoders"].map(|key| step[key].as_array());
    match kind {
        "Sequence" => parts.into_iter().flatten().flatten().map(growth).fold(1, usize::saturating_mul),
        "Replace" => match step["pattern"]["String"].as_str() {
            Some("") => text("content").len() + 1,
            Some(pattern) => text("content").len().div_ceil(pattern.len()).max(1),
            None if text("content").is_empty() => 1,
            // A match may be empty.
            None => text("content").len() + 1,
        },
        "Precompiled" => longest_replacement(&base64(text("precompiled_charsmap"))),
        // Bytes that are no ASCII letters become letters of two bytes.
        "ByteLevel" => 2,
        "BPEDecoder" if text("suffix").is_empty() => 2,
        "CTC" if text("word_delimiter_token").is_empty() => 2,
        "TemplateProcessing" => {
            let pieces = step["single"].as_array().into_iter().flatten();
            pieces.filter(|piece| piece.get("Sequence").is_some()).count().max(1)
        }
        _ => 1,
    }
}

/// The bytes of the longest text in SentencePiece's map of letters: behind a tree, whose size is in the first
/// four bytes, it has texts that zeros end.
fn longest_replacement(map: &[u8]) -> usize {
    let tree = map.first_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    let texts = map.get(4 + tree..).unwrap_or_default();
    texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0).max(1)
}

/// The bytes of a text in base64, which is valid.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|group| {
        let number = group.iter().fold(0, |number, digit| number << 6 | u32::from(*digit));
        let bytes = (number << (6 * (4 - group.len()))).to_be_bytes();
        bytes.into_iter().skip(1).take(group.len() - 1)
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(chain: &str, steps: Value) -> Option<String> {
        let mut tokenizer = json!({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}});
        tokenizer[chain] = steps;
        let tokenizer: Tokenizer = serde_json::from_value(tokenizer).expect("a tokenizer");
        check_growth(&tokenizer).err().map(|error| error.to_string())
    }

    #[test]
    fn chains_that_make_texts_too_long_are_rejected() {
        let long = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(1000)});
        let nothing = json!({"type": "Replace", "pattern": {"Regex": "(?=a)"}, "content": "a"});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
        let suffix = json!({"type": "BPEDecoder", "suffix": ""});
        let piece = json!({"Sequence": {"id": "A", "type_id": 0}});
        let twice = json!({
            "type": "TemplateProcessing", "single": [piece, piece], "special_tokens": {},
            "pair": [piece, {"Sequence": {"id": "B", "type_id": 0}}],
        });
        for (chain, key, step, least) in [
            ("normalizer", "normalizers", &long, 2),
            ("normalizer", "normalizers", &nothing, 14),
            ("normalizer", "normalizers", &json!({"type": "ByteLevel"}), 14),
            ("pre_tokenizer", "pretokenizers", &bytes, 14),
            ("post_processor", "processors", &twice, 14),
            ("decoder", "decoders", &long, 2),
            ("decoder", "decoders", &suffix, 14),
        ] {
            let mut steps = json!({"type": "Sequence"});
            steps[key] = vec![step.clone(); least - 1].into();
            assert_eq!(message(chain, steps.clone()), None, "{step}");
            steps[key] = vec![step.clone(); least].into();
            let message = message(chain, steps).expect("too long");
            assert!(message.contains(&format!("`{chain}` can make ")), "{message}");
        }
    }

    #[test]
    fn the_longest_text_of_a_map_of_letters_counts() {
        assert_eq!(base64("AAECAwQF"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(base64("/+8="), [0xff, 0xef]);
        assert_eq!(longest_replacement(b"\x04\0\0\0treeab\0abc\0a\0"), 3);
    }
}
