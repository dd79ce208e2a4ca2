//! Sequences that join and leave a batch, compared with the same sequences alone.

use std::{collections::BTreeMap, path::Path};

use arrayjit_models::{
    BatchEvent, BatchThread, ContinuousBatch, Dialogue, FinishReason, GenerateOptions, LanguageModel,
    LoadOptions, Message, ModelError, SequenceId,
};
use safetensors::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    generated::{byte_tokenizer, fixture, folder, write_json},
    gguf::{chat_llama, written},
};

/// A prompt, the options of its continuation, and the step before which it is submitted.
pub(crate) type Request = (Vec<u32>, GenerateOptions, usize);

/// Prompts of one token and of several chunks, short and long continuations, greedy and sampled.
fn requests() -> Vec<Request> {
    [(5, 20, 0, 0), (1, 7, 1, 0), (90, 12, 0, 1), (64, 5, 2, 3), (70, 9, 3, 4), (2, 15, 0, 9), (33, 1, 0, 10)]
        .map(|(length, max_tokens, seed, step)| {
            let prompt = (0..length).map(|at| (at * at * 7 + at * 11 + length) % 256).collect();
            let temperature = if seed == 0 { 0.0 } else { 0.8 };
            let options =
                GenerateOptions { max_tokens, seed, temperature, top_p: 0.9, ..GenerateOptions::default() };
            (prompt, options, step)
        })
        .to_vec()
}

/// The tokens that each request has alone.
pub(crate) fn alone(path: &Path, requests: &[Request], options: &LoadOptions) -> Vec<Vec<u32>> {
    let mut model = LanguageModel::load_with(path, options).unwrap();
    let tokens = requests.iter().map(|(prompt, options, _)| {
        model.generate_from(prompt.clone(), options).unwrap().map(|token| token.unwrap().id).collect()
    });
    tokens.collect()
}

/// Runs the steps of a batch until nothing is left. Returns the tokens of each request.
pub(crate) fn together(batch: &mut ContinuousBatch, requests: &[Request]) -> Vec<Vec<u32>> {
    let mut ids: Vec<SequenceId> = Vec::new();
    let mut tokens: BTreeMap<SequenceId, Vec<u32>> = BTreeMap::new();
    let mut step = 0;
    while ids.len() < requests.len() || !batch.is_idle() {
        for (prompt, options, _) in requests.iter().skip(ids.len()).take_while(|(_, _, at)| *at <= step) {
            let id = batch.submit_tokens(prompt.clone(), options).unwrap();
            tokens.insert(id, Vec::new());
            ids.push(id);
        }
        for event in batch.step().unwrap() {
            match event {
                BatchEvent::Token { id, token } => tokens.get_mut(&id).unwrap().push(token.id),
                BatchEvent::Failed { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
        step += 1;
    }
    ids.iter().map(|id| tokens.remove(id).unwrap()).collect()
}

fn check(path: &Path, places: usize) {
    let options = LoadOptions { context: Some(120), ..LoadOptions::default() };
    let requests = requests();
    let mut batch = ContinuousBatch::load(path, places, &options).unwrap();
    let expected = alone(path, &requests, &options);
    assert_eq!(together(&mut batch, &requests), expected);
    assert_eq!(together(&mut batch, &requests), expected, "what earlier sequences left in the buffers");
}

/// A folder of a fixture's model, which has no token that ends a text.
pub(crate) fn endless(name: &str, dtype: Dtype) -> TempDir {
    let mut fixture = fixture(name);
    fixture["config"]["eos_token_id"] = Value::Null;
    folder(&fixture, dtype, &byte_tokenizer())
}

macro_rules! checks {
    ($($name:ident $dtype:ident $places:literal,)+) => {
        $(#[test]
        fn $name() {
            let folder = endless(stringify!($name), Dtype::$dtype);
            check(folder.path(), $places);
        })+
    };
}

checks! {
    llama F32 4,
    llama_yarn F16 2,
    mistral F32 3,
    qwen2 F16 3,
    qwen3 F32 3,
    gemma2 F32 3,
    gemma3 F16 8,
    gpt2 F32 3,
}

#[test]
fn packed_weights() {
    let (_folder, path) = written(&chat_llama(None));
    let options = LoadOptions::default();
    let requests: Vec<Request> = requests().into_iter().filter(|(prompt, ..)| prompt.len() < 50).collect();
    let mut batch = ContinuousBatch::load(&path, 3, &options).unwrap();
    assert_eq!(together(&mut batch, &requests), alone(&path, &requests, &options));
}

#[test]
fn one_place_and_another_thread() {
    let folder = endless("llama", Dtype::F32);
    let options = LoadOptions { context: Some(120), ..LoadOptions::default() };
    let mut batch = ContinuousBatch::load(folder.path(), 1, &options).unwrap();
    let found = std::thread::spawn(move || together(&mut batch, &requests())).join().unwrap();
    assert_eq!(found, alone(folder.path(), &requests(), &options));
}

/// The finished sequences of a step with their reasons.
fn finished(events: Vec<BatchEvent>) -> Vec<(SequenceId, FinishReason)> {
    let reasons = events.into_iter().filter_map(|event| match event {
        BatchEvent::Finished { id, reason } => Some((id, reason)),
        _ => None,
    });
    reasons.collect()
}

#[test]
fn sequences_leave_when_they_are_canceled_or_end() {
    let folder = endless("llama", Dtype::F32);
    let options = LoadOptions { context: Some(40), ..LoadOptions::default() };
    let mut batch = ContinuousBatch::load(folder.path(), 2, &options).unwrap();
    assert!(batch.is_idle() && batch.step().unwrap().is_empty());
    let plain = GenerateOptions::default;
    let none = batch.submit("x", &GenerateOptions { max_tokens: 0, ..plain() }).unwrap();
    let first = batch.submit(&"a".repeat(39), &plain()).unwrap();
    let second = batch.submit("b", &plain()).unwrap();
    let third = batch.submit("c", &plain()).unwrap();
    let full = batch.submit(&"d".repeat(40), &plain()).unwrap();
    assert_eq!((batch.running(), batch.waiting()), (0, 5));
    let events = batch.step().unwrap();
    assert_eq!(
        finished(events),
        [(none, FinishReason::Length), (first, FinishReason::Length)],
        "a sequence of one token fills the context"
    );
    assert_eq!((batch.running(), batch.waiting()), (1, 2));
    assert!(batch.cancel(third) && !batch.cancel(third) && batch.cancel(second));
    assert_eq!(finished(batch.step().unwrap()), [(full, FinishReason::Length)]);
    assert!(batch.is_idle());
    // A token that the model makes becomes one that ends texts.
    let requests = requests();
    let end = alone(folder.path(), &requests[..1], &LoadOptions::default())[0][4];
    write_json(folder.path(), "generation_config.json", &json!({"eos_token_id": end}));
    let mut batch = ContinuousBatch::load(folder.path(), 2, &options).unwrap();
    let id = batch.submit_tokens(requests[0].0.clone(), &requests[0].1).unwrap();
    let mut reasons = Vec::new();
    while !batch.is_idle() {
        reasons.extend(finished(batch.step().unwrap()));
    }
    assert_eq!(reasons, [(id, FinishReason::Stop)]);
}

#[test]
fn a_prompt_that_is_rejected_does_not_touch_others() {
    let folder = endless("llama", Dtype::F32);
    let options = LoadOptions { context: Some(120), ..LoadOptions::default() };
    for places in [0, 1025] {
        let error = ContinuousBatch::load(folder.path(), places, &options).err().unwrap();
        assert!(matches!(error, ModelError::Option { option: "places", .. }), "{error}");
    }
    let mut batch = ContinuousBatch::load(folder.path(), 2, &options).unwrap();
    let requests = requests();
    let mut found = Vec::new();
    let id = batch.submit_tokens(requests[0].0.clone(), &requests[0].1).unwrap();
    let plain = GenerateOptions::default();
    while !batch.is_idle() {
        let wrong = GenerateOptions { top_p: 2.0, ..plain.clone() };
        assert!(matches!(batch.submit("", &plain), Err(ModelError::EmptyPrompt)));
        assert!(matches!(batch.submit("x", &wrong), Err(ModelError::Option { option: "top_p", .. })));
        assert!(matches!(batch.submit_tokens(vec![256], &plain), Err(ModelError::Token { token: 256, .. })));
        assert!(matches!(batch.submit(&"x".repeat(121), &plain), Err(ModelError::PromptLength { .. })));
        assert!(matches!(batch.submit_chat(&[Message::user("x")], &plain), Err(ModelError::NoChatTemplate)));
        found.extend(batch.step().unwrap().into_iter().filter_map(|event| match event {
            BatchEvent::Token { id: of, token } if of == id => Some(token.id),
            _ => None,
        }));
    }
    assert_eq!(found, alone(folder.path(), &requests[..1], &options)[0]);
}

#[test]
fn a_thread_answers_others_until_they_go() {
    let folder = endless("llama", Dtype::F32);
    let options = LoadOptions { context: Some(120), ..LoadOptions::default() };
    let batch = ContinuousBatch::load(folder.path(), 1, &options).unwrap();
    let batch = BatchThread::spawn(batch);
    let options = GenerateOptions { max_tokens: 5, ..GenerateOptions::default() };
    assert!(matches!(batch.generate("", options.clone()), Err(ModelError::EmptyPrompt)));
    assert!(matches!(batch.chat(Dialogue::default(), options.clone()), Err(ModelError::NoChatTemplate)));
    let mut model = LanguageModel::load(folder.path()).unwrap();
    let expected: Vec<_> = model.generate("two", &options).unwrap().map(Result::unwrap).collect();
    std::thread::scope(|scope| {
        // The first answer has the only place until it is dropped.
        let mut long = batch.generate("one", GenerateOptions { max_tokens: 110, ..options.clone() }).unwrap();
        let other = scope.spawn(|| {
            let mut answer = batch.generate("two", options.clone()).unwrap();
            let tokens: Vec<_> = answer.by_ref().map(Result::unwrap).collect();
            (answer.prompt_tokens(), answer.finish(), tokens)
        });
        assert!(long.next().unwrap().is_ok());
        assert_eq!(long.finish(), None);
        drop(long);
        assert_eq!(other.join().unwrap(), (3, Some(FinishReason::Length), expected));
    });
}
