//! The tokenizer of a GGUF file, as the content of a `tokenizer.json`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    chat_template::ChatTemplate,
    config::Config,
    error::{ModelError, Result},
    text_tokenizer::TextTokenizer,
};

/// How texts are split before their parts become tokens, by names in files.
const SPLITS: [(&str, Split); 12] = [
    ("default", Split::Gpt2),
    ("gpt-2", Split::Gpt2),
    ("jais", Split::Gpt2),
    ("smollm", Split::DigitsThenGpt2),
    ("starcoder", Split::DigitsThenGpt2),
    ("refact", Split::DigitsThenGpt2),
    ("llama3", Split::Digits(3)),
    ("llama-v3", Split::Digits(3)),
    ("llama-bpe", Split::Digits(3)),
    ("qwen2", Split::Digits(1)),
    ("deepseek-r1-qwen", Split::Digits(1)),
    ("qwen35", Split::Digits(1)),
];

/// A way to split texts.
#[derive(Clone, Copy)]
enum Split {
    /// The expression of GPT-2.
    Gpt2,
    /// Digits alone, then the expression of GPT-2.
    DigitsThenGpt2,
    /// The expression of cl100k, with so many digits at most in a part.
    Digits(u8),
}

/// The type of the token for letters that no other has.
const UNKNOWN: u64 = 2;
/// The type of tokens that mark the beginning or end of something.
const CONTROL: u64 = 3;
/// The type of texts that are always one token.
const USER_DEFINED: u64 = 4;

/// The tokenizer that the metadata of a file describes.
pub(super) fn tokenizer(metadata: &Config) -> Result<TextTokenizer> {
    let tokens = texts(metadata, "tokenizer.ggml.tokens")?;
    let kinds = [("gpt2", true), ("llama", false)];
    let is_byte_level = metadata.choice("tokenizer.ggml.model", &kinds)?.unwrap_or(true);
    let mut json =
        if is_byte_level { byte_level(metadata, &tokens)? } else { sentence_piece(metadata, &tokens)? };
    json["version"] = json!("1.0");
    json["added_tokens"] = added_tokens(metadata, &tokens);
    json["post_processor"] = marks(metadata, &tokens, is_byte_level)?;
    TextTokenizer::from_json(json)
}

/// The tokens that end a text.
pub(super) fn ends(metadata: &Config, tokenizer: &TextTokenizer) -> Result<Vec<u32>> {
    let mut ends = metadata.tokens("tokenizer.ggml.eos_token_id")?;
    ends.extend(metadata.tokens("tokenizer.ggml.eot_token_id")?);
    ends.extend(
        ["<|im_end|>", "<|eot_id|>", "<end_of_turn>"].iter().filter_map(|text| tokenizer.token(text)),
    );
    Ok(ends)
}

/// The chat template; none if the file has none.
pub(super) fn chat_template(metadata: &Config) -> Result<Option<ChatTemplate>> {
    let Some(source) = metadata.text("tokenizer.chat_template")? else { return Ok(None) };
    let tokens = texts(metadata, "tokenizer.ggml.tokens")?;
    let mut marks = Vec::new();
    for (name, key) in [("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")] {
        let id = metadata.tokens(&format!("tokenizer.ggml.{key}_token_id"))?.first().copied();
        let text = id.and_then(|id| tokens.get(id as usize));
        marks.extend(text.map(|text| (format!("{name}_token"), (*text).to_owned())));
    }
    Ok(Some(ChatTemplate::new(source.to_owned(), marks)))
}

/// An array of texts.
fn texts<'m>(metadata: &'m Config, key: &str) -> Result<Vec<&'m str>> {
    let list = metadata.get(key).and_then(Value::as_array);
    let texts = list.and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    texts.ok_or_else(|| ModelError::Config {
        key: key.to_owned(),
        found: if list.is_some() { "a list with numbers" } else { "missing" }.to_owned(),
        expected: "a list of texts".to_owned(),
    })
}

/// The tokens with their numbers.
fn numbered(tokens: &[&str]) -> Map<String, Value> {
    tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), json!(id))).collect()
}

fn byte_level(metadata: &Config, tokens: &[&str]) -> Result<Value> {
    let split = metadata.choice("tokenizer.ggml.pre", &SPLITS)?.unwrap_or(Split::Gpt2);
    let bytes = |splits: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": splits,
        })
    };
    let steps = match split {
        Split::Gpt2 => vec![bytes(true)],
        Split::DigitsThenGpt2 => vec![json!({"type": "Digits", "individual_digits": true}), bytes(true)],
        Split::Digits(most) => {
            let digits = if most == 1 { r"\p{N}".to_owned() } else { format!(r"\p{{N}}{{1,{most}}}") };
            let pattern = format!(
                concat!(
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}",
                    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                digits = digits
            );
            let split = json!({
                "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false,
            });
            vec![split, bytes(false)]
        }
    };
    let merges = texts(metadata, "tokenizer.ggml.merges")?;
    Ok(json!({
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": bytes(true),
        "model": {
            "type": "BPE", "vocab": numbered(tokens), "merges": merges,
            "ignore_merges": matches!(split, Split::Digits(3)),
        },
    }))
}

/// A vocabulary of SentencePiece: pairs of tokens are merged by the score of the result.
fn sentence_piece(metadata: &Config, tokens: &[&str]) -> Result<Value> {
    let scores = metadata.get("tokenizer.ggml.scores").and_then(Value::as_array);
    let scores = scores.filter(|scores| scores.len() == tokens.len()).ok_or_else(|| {
        metadata.misfit("tokenizer.ggml.scores", format!("a list of {} numbers", tokens.len()))
    })?;
    let ids: HashMap<&str, usize> = tokens.iter().enumerate().map(|(id, token)| (*token, id)).collect();
    let mut merges: Vec<(f64, [usize; 2], [&str; 2])> = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        let score = score.as_f64().unwrap_or(f64::NEG_INFINITY);
        for (at, _) in token.char_indices().skip(1).take(MAX_LETTERS) {
            let (left, right) = token.split_at(at);
            if let (Some(&a), Some(&b)) = (ids.get(left), ids.get(right)) {
                merges.push((score, [a, b], [left, right]));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let merges: Vec<[&str; 2]> = merges.into_iter().map(|(_, _, pair)| pair).collect();
    let has_prefix = metadata.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let mut normalizers = vec![space];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if has_prefix {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let unknown =
        tokens.iter().zip(token_types(metadata)).find(|(_, kind)| *kind == UNKNOWN).map(|(token, _)| *token);
    Ok(json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "vocab": numbered(tokens), "merges": merges, "unk_token": unknown,
            "fuse_unk": true, "byte_fallback": true,
        },
    }))
}

/// Letters of a token behind which it is split; longer tokens are rare runs of one letter.
const MAX_LETTERS: usize = 256;

/// The type of each token, as far as the file says.
fn token_types(metadata: &Config) -> impl Iterator<Item = u64> {
    let types = metadata.get("tokenizer.ggml.token_type").and_then(Value::as_array);
    types.into_iter().flatten().map(|kind| kind.as_u64().unwrap_or_default())
}

/// Tokens that are found in a text before it is split.
fn added_tokens(metadata: &Config, tokens: &[&str]) -> Value {
    let added = tokens.iter().zip(token_types(metadata)).enumerate();
    let added =
        added.filter(|(_, (token, kind))| !token.is_empty() && [CONTROL, USER_DEFINED].contains(kind));
    added
        .map(|(id, (token, kind))| {
            json!({
                "id": id, "content": token, "special": kind == CONTROL, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false,
            })
        })
        .collect()
}

/// The tokens around a text.
fn marks(metadata: &Config, tokens: &[&str], is_byte_level: bool) -> Result<Value> {
    let mark = |flag: &str, default: bool, key: &str| -> Result<Option<u32>> {
        let is_added = metadata.flag(&format!("tokenizer.ggml.{flag}"))?.unwrap_or(default);
        let key = format!("tokenizer.ggml.{key}");
        let id = metadata.tokens(&key)?.first().copied().filter(|_| is_added);
        match id {
            Some(id) if id as usize >= tokens.len() => {
                Err(metadata.misfit(&key, "a token of the vocabulary"))
            }
            id => Ok(id),
        }
    };
    let first = mark("add_bos_token", !is_byte_level, "bos_token_id")?;
    let last = mark("add_eos_token", false, "eos_token_id")?;
    let text = |id: u32| tokens.get(id as usize).copied().unwrap_or_default();
    let special = |id: u32| json!({"SpecialToken": {"id": text(id), "type_id": 0}});
    let sequence = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template: Vec<Value> =
        first.map(special).into_iter().chain([sequence]).chain(last.map(special)).collect();
    if template.len() == 1 {
        return Ok(Value::Null);
    }
    let pair = template.clone();
    let described = first
        .iter()
        .chain(&last)
        .map(|&id| (text(id).to_owned(), json!({"id": text(id), "ids": [id], "tokens": [text(id)]})));
    let described: Map<String, Value> = described.collect();
    Ok(json!({"type": "TemplateProcessing", "single": template, "pair": pair, "special_tokens": described}))
}
