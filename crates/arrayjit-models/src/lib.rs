#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod config; // values of configurations
mod encoding; // how files store elements
mod error; // the error
mod loader; // parameters with the values of files
mod matrix; // matrices of weights
mod safetensors_files; // headers of safetensors files
mod text_growth;
mod text_tokenizer; // texts as tokens and back
mod torch_files; // tensors of files of torch
mod weight_folder; // files of a folder
mod weights; // tensors of files

mod activation; // functions between layers
mod bert; // vectors of tokens
mod decoder; // language models: Llama and its relatives, GPT-2
mod layers; // equal layers as loops
mod log_mel; // features of sound
mod pooling; // from the vectors of tokens to one
mod rotary; // rotary positions
mod whisper; // from sound to texts

mod batch_thread; // continuations for other threads
mod cached_decoder; // routines with the keys and values of sequences
mod chat_template; // dialogues as texts
mod continuous_batch; // several continuations at once
mod dialogue; // messages, and calls of tools
mod embedding_model; // a vector for each text
mod generate; // the continuation of a prompt
mod gguf; // files of llama.cpp
mod language_model; // logits behind a text
mod ranking; // tokens in the order of their logits
mod sampling; // the choice of a token
mod sentence_config; // how embedding models read texts
mod speech_model; // transcription of speech
mod speech_times; // times in texts
mod speech_tokens; // tokens that are no part of texts

pub use arrayjit_tensor::Backend;

pub use crate::{
    batch_thread::{BatchAnswer, BatchThread},
    continuous_batch::{BatchEvent, ContinuousBatch, SequenceId},
    dialogue::{Dialogue, FunctionCall, JsonValue, Message, ToolCall},
    embedding_model::EmbeddingModel,
    error::ModelError,
    generate::{FinishReason, Generation, Token},
    language_model::{LanguageModel, LoadOptions, WeightStorage},
    sampling::GenerateOptions,
    speech_model::{SpeechModel, SpeechSegment, TranscribeOptions, Transcription},
    speech_tokens::SpeechTask,
};

/// The programs of the guide to models, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct ModelsGuide;
