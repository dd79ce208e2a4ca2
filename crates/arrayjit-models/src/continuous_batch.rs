//! Several sequences in one batch, which join and leave at any step.

use std::{collections::VecDeque, path::Path};

use crate::{
    cached_decoder::NextToken,
    dialogue::Dialogue,
    error::{ModelError, Result},
    generate::{Continuation, FinishReason, Token},
    language_model::{LanguageModel, LoadOptions},
    sampling::GenerateOptions,
};

/// The name of a sequence in a [`ContinuousBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(u64);

/// Says how a step changed a sequence.
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants say what the fields are")]
pub enum BatchEvent {
    /// The sequence has a further token.
    Token { id: SequenceId, token: Token },
    /// No token follows, and the sequence has left.
    Finished { id: SequenceId, reason: FinishReason },
    /// The sequence has left because of an error of its own.
    Failed { id: SequenceId, error: ModelError },
}

impl BatchEvent {
    /// Returns the name of the sequence.
    pub fn id(&self) -> SequenceId {
        match self {
            BatchEvent::Token { id, .. }
            | BatchEvent::Finished { id, .. }
            | BatchEvent::Failed { id, .. } => *id,
        }
    }
}

/// A language model that continues several sequences at once: continuous batching.
///
/// A sequence joins when it is submitted and one of the batch's places is free, and leaves when it ends. Each
/// step computes a token of all sequences together, and reads up to 64 tokens of one prompt. A sequence has
/// the same tokens as alone, as far as sums of other orders choose the same.
///
/// ```no_run
/// use arrayjit_models::{BatchEvent, ContinuousBatch, GenerateOptions, LoadOptions};
///
/// let mut batch = ContinuousBatch::load("SmolLM2-135M-Instruct", 8, &LoadOptions::default())?;
/// for city in ["France", "Spain", "Italy"] {
///     batch.submit(&format!("The capital of {city} is"), &GenerateOptions::default())?;
/// }
/// while !batch.is_idle() {
///     for event in batch.step()? {
///         if let BatchEvent::Token { id, token } = event {
///             println!("{id:?}: {}", token.text);
///         }
///     }
/// }
/// # Ok::<(), arrayjit_models::ModelError>(())
/// ```
///
/// # Memory
/// Keys and values have memory for each place and each token of the context, from the beginning on. A
/// sequence that waits has its prompt only.
pub struct ContinuousBatch {
    model: LanguageModel,
    /// The sequence in each slot of the decoder.
    slots: Vec<Option<Sequence>>,
    waiting: VecDeque<Sequence>,
    /// The events of steps that ended with an error.
    events: Vec<BatchEvent>,
    submitted: u64,
}

struct Sequence {
    id: SequenceId,
    continuation: Continuation,
}

/// The most places of a batch.
const MAX_PLACES: usize = 1024;

impl ContinuousBatch {
    /// Loads a model as [`LanguageModel::load_with`] does, for up to `places` sequences at once.
    ///
    /// # Errors
    /// No places or more than 1,024, or an error of [`LanguageModel::load_with`].
    pub fn load(path: impl AsRef<Path>, places: usize, options: &LoadOptions) -> Result<ContinuousBatch> {
        if !(1..=MAX_PLACES).contains(&places) {
            let expected = "from 1 to 1024";
            return Err(ModelError::Option { option: "places", found: places.to_string(), expected });
        }
        let model = LanguageModel::load_for(path.as_ref(), options, places)?;
        let slots = std::iter::repeat_with(|| None).take(places).collect();
        Ok(ContinuousBatch { model, slots, waiting: VecDeque::new(), events: Vec::new(), submitted: 0 })
    }

    /// The model, for its tokenizer and its context.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// Adds a prompt that is continued.
    ///
    /// # Errors
    /// Fails like [`LanguageModel::generate`]; other sequences are not affected.
    pub fn submit(&mut self, prompt: &str, options: &GenerateOptions) -> Result<SequenceId> {
        self.submit_tokens(self.model.tokens(prompt)?, options)
    }

    /// Adds a dialogue whose last message is answered.
    ///
    /// # Errors
    /// Fails like [`LanguageModel::chat`]; other sequences are not affected.
    pub fn submit_chat(
        &mut self,
        dialogue: impl Into<Dialogue>,
        options: &GenerateOptions,
    ) -> Result<SequenceId> {
        self.submit_tokens(self.model.chat_tokens(dialogue)?, options)
    }

    /// [`submit`](ContinuousBatch::submit) of a prompt that is tokens already.
    ///
    /// # Errors
    /// Fails like [`submit`](ContinuousBatch::submit).
    pub fn submit_tokens(&mut self, prompt: Vec<u32>, options: &GenerateOptions) -> Result<SequenceId> {
        self.model.decoder.check(&prompt)?;
        let continuation = Continuation::new(prompt, options, self.model.context())?;
        let id = SequenceId(self.submitted);
        self.submitted += 1;
        self.waiting.push_back(Sequence { id, continuation });
        Ok(id)
    }

    /// Removes a sequence; no further event names it. Returns whether it was there.
    pub fn cancel(&mut self, id: SequenceId) -> bool {
        let before = self.waiting.len() + self.running();
        self.waiting.retain(|sequence| sequence.id != id);
        self.slots.iter_mut().for_each(|slot| drop(slot.take_if(|sequence| sequence.id == id)));
        self.waiting.len() + self.running() < before
    }

    /// The number of sequences that have a place.
    pub fn running(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// The number of sequences that wait for a place.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no sequence runs or waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running() == 0
    }

    /// Lets waiting sequences join, computes a token of each sequence whose prompt is read, and reads a part
    /// of the prompt that was submitted first among the others.
    ///
    /// # Errors
    /// An error of the device. No token is lost: a further step tries again, and returns all events.
    pub fn step(&mut self) -> Result<Vec<BatchEvent>> {
        self.admit();
        self.decode()?;
        self.prefill()?;
        Ok(std::mem::take(&mut self.events))
    }

    /// Gives free slots to waiting sequences: to each the one that has most of its prompt already.
    fn admit(&mut self) {
        while let Some(sequence) = self.waiting.front() {
            let (id, text) = (sequence.id, sequence.continuation.text());
            if let Some(reason) = sequence.continuation.finish() {
                self.events.push(BatchEvent::Finished { id, reason });
                self.waiting.pop_front();
                continue;
            }
            let free = (0..self.slots.len()).rev().filter(|&slot| self.slots[slot].is_none());
            let Some(slot) = free.max_by_key(|&slot| self.model.decoder.known(slot, text)) else { return };
            self.model.decoder.start(slot, text);
            self.slots[slot] = self.waiting.pop_front();
        }
    }

    /// The running sequences, with the tokens that the decoder has not read.
    fn unread(&self) -> impl Iterator<Item = (usize, SequenceId, &[u32])> {
        self.slots.iter().enumerate().filter_map(|(slot, sequence)| {
            let sequence = sequence.as_ref()?;
            let known = self.model.decoder.cached(slot).len();
            Some((slot, sequence.id, &sequence.continuation.text()[known..]))
        })
    }

    /// Computes a token of all sequences that have one unread token.
    fn decode(&mut self) -> Result<()> {
        let next = |(slot, _, unread): (usize, SequenceId, &[u32])| match unread {
            &[token] => Some(NextToken { slot, token }),
            _ => None,
        };
        let tokens: Vec<NextToken> = self.unread().filter_map(next).collect();
        let logits = self.model.decoder.step(&tokens)?;
        for (next, logits) in tokens.iter().zip(logits) {
            self.extend(next.slot, logits);
        }
        Ok(())
    }

    /// Reads a chunk of the oldest prompt that has more than one unread token.
    fn prefill(&mut self) -> Result<()> {
        let prompts = self.unread().filter(|(_, _, unread)| unread.len() > 1);
        let Some((slot, ..)) = prompts.min_by_key(|(_, id, _)| *id) else { return Ok(()) };
        let Some(sequence) = &self.slots[slot] else { return Ok(()) };
        if let Some(logits) = self.model.decoder.read_chunk(slot, sequence.continuation.text())? {
            self.extend(slot, logits);
        }
        Ok(())
    }

    /// Adds the token that logits choose to the sequence of a slot, which it leaves when it ends.
    fn extend(&mut self, slot: usize, logits: Vec<f32>) {
        let Some(Sequence { id, continuation }) = &mut self.slots[slot] else { return };
        let id = *id;
        match continuation.extend(&self.model, logits) {
            Ok(token) => {
                self.events.push(BatchEvent::Token { id, token });
                let Some(reason) = continuation.finish() else { return };
                self.events.push(BatchEvent::Finished { id, reason });
            }
            Err(error) => self.events.push(BatchEvent::Failed { id, error }),
        }
        self.slots[slot] = None;
    }
}
