//! A batch on a thread of its own, for servers.

use std::{
    collections::HashMap,
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use crate::{
    continuous_batch::{BatchEvent, ContinuousBatch, SequenceId},
    dialogue::Dialogue,
    error::{ModelError, Result},
    generate::{FinishReason, Token},
    sampling::GenerateOptions,
};

/// A [`ContinuousBatch`] on a thread of its own, which any thread gives prompts to.
///
/// ```no_run
/// use arrayjit_models::{BatchThread, ContinuousBatch, GenerateOptions, LoadOptions, Message};
///
/// let batch = ContinuousBatch::load("SmolLM2-135M-Instruct", 8, &LoadOptions::default())?;
/// let batch = BatchThread::spawn(batch);
/// std::thread::scope(|scope| {
///     for city in ["Paris", "Madrid"] {
///         let question = Message::user(format!("Where is {city}?"));
///         let answer = batch.chat(vec![question], GenerateOptions::default());
///         scope.spawn(|| answer.map(|answer| answer.for_each(|token| println!("{token:?}"))));
///     }
/// });
/// # Ok::<(), arrayjit_models::ModelError>(())
/// ```
///
/// The thread ends when the value is dropped and the last answer has ended.
pub struct BatchThread {
    jobs: Sender<Job>,
}

/// A prompt, and where its answer goes.
struct Job {
    prompt: Prompt,
    options: GenerateOptions,
    client: Sender<Result<BatchAnswer>>,
}

enum Prompt {
    Text(String),
    Dialogue(Dialogue),
}

/// An iterator over the tokens that a [`BatchThread`] computes. Dropping it cancels the rest.
pub struct BatchAnswer {
    prompt_tokens: usize,
    events: Receiver<BatchEvent>,
    finish: Option<FinishReason>,
    has_failed: bool,
}

impl BatchThread {
    /// Starts the thread.
    pub fn spawn(batch: ContinuousBatch) -> BatchThread {
        let (jobs, queue) = mpsc::channel();
        thread::spawn(move || run(batch, &queue));
        BatchThread { jobs }
    }

    /// Continues a prompt.
    ///
    /// # Errors
    /// Fails like [`ContinuousBatch::submit`], or if an error of the device has ended the thread.
    pub fn generate(&self, prompt: impl Into<String>, options: GenerateOptions) -> Result<BatchAnswer> {
        self.submit(Prompt::Text(prompt.into()), options)
    }

    /// Answers the last message of a dialogue.
    ///
    /// # Errors
    /// Fails like [`ContinuousBatch::submit_chat`], or if an error of the device has ended the thread.
    pub fn chat(&self, dialogue: impl Into<Dialogue>, options: GenerateOptions) -> Result<BatchAnswer> {
        self.submit(Prompt::Dialogue(dialogue.into()), options)
    }

    fn submit(&self, prompt: Prompt, options: GenerateOptions) -> Result<BatchAnswer> {
        let (client, answer) = mpsc::channel();
        self.jobs.send(Job { prompt, options, client }).map_err(ended)?;
        answer.recv().map_err(ended)?
    }
}

impl BatchAnswer {
    /// The number of tokens of the prompt.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Why the answer ended; none if further tokens follow or if it failed.
    pub fn finish(&self) -> Option<FinishReason> {
        self.finish
    }
}

impl Iterator for BatchAnswer {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Result<Token>> {
        if self.finish.is_some() || self.has_failed {
            return None;
        }
        match self.events.recv() {
            Ok(BatchEvent::Token { token, .. }) => Some(Ok(token)),
            Ok(BatchEvent::Finished { reason, .. }) => {
                self.finish = Some(reason);
                None
            }
            Ok(BatchEvent::Failed { error, .. }) => {
                self.has_failed = true;
                Some(Err(error))
            }
            Err(error) => {
                self.has_failed = true;
                Some(Err(ended(error)))
            }
        }
    }
}

/// Runs a batch that prompts join as they arrive. Ends with the queue, or at an error of the device.
fn run(mut batch: ContinuousBatch, queue: &Receiver<Job>) {
    let mut clients: HashMap<SequenceId, Sender<BatchEvent>> = HashMap::new();
    loop {
        let first = if batch.is_idle() { queue.recv().map(Some) } else { Ok(None) };
        let Ok(first) = first else { return };
        for Job { prompt, options, client } in first.into_iter().chain(queue.try_iter()) {
            let begun = begin(&mut batch, &prompt, &options).map(|(id, prompt_tokens)| {
                let (sender, events) = mpsc::channel();
                clients.insert(id, sender);
                BatchAnswer { prompt_tokens, events, finish: None, has_failed: false }
            });
            // If the client has gone, the first event finds nobody and cancels the sequence.
            drop(client.send(begun));
        }
        let events = match batch.step() {
            Ok(events) => events,
            Err(error) => return fail(clients, &error),
        };
        for event in events {
            let (id, is_last) = (event.id(), !matches!(event, BatchEvent::Token { .. }));
            let is_read = clients.get(&id).is_some_and(|client| client.send(event).is_ok());
            if is_last || !is_read {
                clients.remove(&id);
                batch.cancel(id);
            }
        }
    }
}

/// Ends all answers because of an error of the device.
fn fail(clients: HashMap<SequenceId, Sender<BatchEvent>>, error: &ModelError) {
    for (id, client) in clients {
        let error = ModelError::BatchEnded { reason: error.to_string() };
        drop(client.send(BatchEvent::Failed { id, error }));
    }
}

/// The error of prompts that come too late.
fn ended<E>(_: E) -> ModelError {
    ModelError::BatchEnded { reason: "there was an error of the device".to_owned() }
}

/// Submits a prompt. Returns the number of its tokens too.
fn begin(
    batch: &mut ContinuousBatch,
    prompt: &Prompt,
    options: &GenerateOptions,
) -> Result<(SequenceId, usize)> {
    let tokens = match prompt {
        Prompt::Text(text) => batch.model().tokens(text)?,
        Prompt::Dialogue(dialogue) => batch.model().chat_tokens(dialogue)?,
    };
    let count = tokens.len();
    Ok((batch.submit_tokens(tokens, options)?, count))
}
