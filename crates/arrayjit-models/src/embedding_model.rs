//! Embedding models: a vector for each text.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use arrayjit_tensor::{Backend, DType, Executable, Graph, HostArray, ModelState, TensorError};

use crate::{
    bert::{Bert, BertConfig},
    config::Config,
    error::{InFile, ModelError, Result},
    language_model::WeightStorage,
    loader::Loader,
    pooling::SentencePooling,
    sentence_config::SentenceConfig,
    text_tokenizer::TextTokenizer,
    weight_folder,
};

/// A model that makes a vector of each text, with its tokenizer.
///
/// ```no_run
/// use arrayjit_models::EmbeddingModel;
///
/// let model = EmbeddingModel::load("all-MiniLM-L6-v2")?;
/// let vectors = model.embed(&["A cat sits on the mat.", "Eine Katze sitzt auf der Matte."])?;
/// let similarity: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
/// # Ok::<(), arrayjit_models::ModelError>(())
/// ```
///
/// # Threads
/// Any thread may call [`embed`](EmbeddingModel::embed) at any time.
pub struct EmbeddingModel {
    bert: Bert,
    pooling: SentencePooling,
    state: ModelState,
    tokenizer: TextTokenizer,
    /// Stands in front of each text.
    prompt: String,
    max_length: usize,
    size: usize,
    vocabulary: usize,
    /// The compiled routines by the greatest length of their texts.
    routines: Mutex<BTreeMap<usize, Arc<Executable>>>,
}

/// The least bound of a length that is compiled; further ones double.
const SHORTEST: usize = 32;

/// The most texts that a run reads.
const MAX_TEXTS: usize = 32;
/// The most tokens that a run reads.
const MAX_TOKENS: usize = 4096;
/// The number of tokens whose computation takes as long as a run without tokens: with MiniLM, 5.8 ms of 47
/// did not depend on the number of texts.
const RUN_TOKENS: usize = 24;

impl EmbeddingModel {
    /// Loads a folder with `config.json`, `tokenizer.json` and safetensors files or `pytorch_model.bin`, and
    /// with `modules.json` if the vectors of tokens are not just averaged, for the backend `multicore`.
    ///
    /// # Errors
    /// A file that is missing or contradicts itself, an architecture that the crate does not have, missing
    /// tensors, or an error of the device.
    pub fn load(folder: impl AsRef<Path>) -> Result<EmbeddingModel> {
        let backend = Backend::open("multicore").map_err(TensorError::from)?;
        EmbeddingModel::load_on(&backend, folder)
    }

    /// [`load`](EmbeddingModel::load) for another backend.
    ///
    /// # Errors
    /// Fails like [`load`](EmbeddingModel::load).
    pub fn load_on(backend: &Backend, folder: impl AsRef<Path>) -> Result<EmbeddingModel> {
        let folder = folder.as_ref();
        let config_path = folder.join("config.json");
        let config = BertConfig::read(&Config::read(&config_path)?).in_file(&config_path)?;
        let SentenceConfig { max_length, lowercases, prompt } = SentenceConfig::read(folder)?;
        let max_length = config.max_length().min(max_length.unwrap_or(usize::MAX));
        let pooling = SentencePooling::read(folder, !prompt.is_empty())?;
        let tokenizer_path = folder.join("tokenizer.json");
        let tokenizer = || {
            let read = TextTokenizer::read(&tokenizer_path)?;
            let tokenizer = if lowercases { read.lowercased() } else { Ok(read) };
            tokenizer.and_then(|tokenizer| tokenizer.truncated(max_length)).in_file(&tokenizer_path)
        };
        let weights = weight_folder::open_folder(folder)?;
        let bert = || {
            let loader = Loader::new(&weights, WeightStorage::F32, backend);
            let bert = Bert::new(&loader, &config).in_file(folder)?;
            Ok::<_, ModelError>((bert, ModelState::new(backend, &loader.finish().in_file(folder)?)?))
        };
        let (tokenizer, bert) = rayon::join(tokenizer, bert);
        let (tokenizer, (bert, state)) = (tokenizer?, bert?);
        let (size, vocabulary) = (config.size(), config.vocabulary());
        Ok(EmbeddingModel {
            bert,
            pooling,
            state,
            tokenizer,
            prompt,
            max_length,
            size,
            vocabulary,
            routines: Mutex::default(),
        })
    }

    /// The number of elements of a vector.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The vectors of texts, each of [`size`](EmbeddingModel::size) elements. Texts of similar length run
    /// together. A text that is longer than the model takes is cut.
    ///
    /// # Errors
    /// A text that the tokenizer does not take, a tokenizer of another model, or an error of the device.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let tokens = texts.iter().map(|text| self.tokens(text)).collect::<Result<Vec<_>, _>>()?;
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&at| tokens[at].len());
        let lengths: Vec<usize> = order.iter().map(|&at| tokens[at].len()).collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        for batch in batches(&lengths, |length| batch_size(self.bound(length))) {
            let batch = &order[batch];
            let of_batch: Vec<&[u32]> = batch.iter().map(|&at| tokens[at].as_slice()).collect();
            let values = self.run(&of_batch)?;
            for (&at, vector) in batch.iter().zip(values.as_slice::<f32>()?.chunks(self.size)) {
                vectors[at] = vector.to_vec();
            }
        }
        Ok(vectors)
    }

    /// Returns the tokens of a text as the model reads them: behind the default prompt, between marks, and
    /// cut to the greatest length.
    ///
    /// # Errors
    /// A text that the tokenizer does not take, or a tokenizer of another model.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>> {
        let tokens = self.tokenizer.encode(&(self.prompt.clone() + text), true)?;
        match tokens.iter().find(|&&token| token as usize >= self.vocabulary) {
            Some(&token) => Err(ModelError::Token { token, vocabulary: self.vocabulary }),
            None if tokens.is_empty() => Err(ModelError::EmptyPrompt),
            None => Ok(tokens),
        }
    }

    /// The bound of the routine for texts of a length.
    fn bound(&self, length: usize) -> usize {
        length.next_power_of_two().max(SHORTEST).min(self.max_length)
    }

    /// The vectors `[texts, size]` of tokens.
    fn run(&self, texts: &[&[u32]]) -> Result<HostArray> {
        let longest = texts.iter().map(|tokens| tokens.len()).max().unwrap_or_default();
        let mut padded = HostArray::zeros(DType::I32, [texts.len(), longest])?;
        for (row, tokens) in padded.as_mut_slice::<i32>()?.chunks_mut(longest).zip(texts) {
            row.iter_mut().zip(*tokens).for_each(|(value, &token)| *value = token as i32);
        }
        let lengths: Vec<i32> = texts.iter().map(|tokens| tokens.len() as i32).collect();
        let lengths = HostArray::from_slice(&lengths, [texts.len()])?;
        let routine = self.routine(self.bound(longest))?;
        let results = routine.run(&[("tokens", &padded), ("lengths", &lengths)])?;
        results.into_iter().next().ok_or(ModelError::EmptyPrompt)
    }

    /// The routine for texts up to a length, compiled when it is first needed.
    fn routine(&self, bound: usize) -> Result<Arc<Executable>> {
        let mut routines = self.routines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(routine) = routines.get(&bound) {
            return Ok(routine.clone());
        }
        let graph = Graph::new();
        let (batch, length) = (graph.size("batch", batch_size(bound))?, graph.size("length", bound)?);
        let tokens = graph.input_of("tokens", &[(&batch).into(), length.into()], DType::I32)?;
        let lengths = graph.input_of("lengths", &[batch.into()], DType::I32)?;
        let vectors = self.pooling.forward(&self.bert.forward(&tokens, &lengths)?, &lengths)?;
        let routine = Arc::new(graph.compile_named("embed", &self.state, &[&vectors])?);
        routines.insert(bound, routine.clone());
        Ok(routine)
    }
}

/// Divides texts, whose lengths increase, into the runs that together compute fewest tokens. A run computes
/// the length of its longest text for each of its texts, of which it takes as many as `most` says, and costs
/// [`RUN_TOKENS`] tokens by itself.
fn batches(lengths: &[usize], most: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    // For each number of texts, the least cost of the shortest ones, and where their last run begins.
    let mut best: Vec<(usize, usize)> = vec![(0, 0)];
    for (last, &length) in lengths.iter().enumerate() {
        let first = (last + 1).saturating_sub(most(length));
        let cost = |from: usize| (best[from].0 + (last + 1 - from) * length + RUN_TOKENS, from);
        best.extend((first..=last).map(cost).min());
    }
    let mut batches = Vec::new();
    let mut end = lengths.len();
    while end > 0 {
        batches.push(best[end].1..end);
        end = best[end].1;
    }
    batches
}

/// The most texts of a length that run together.
fn batch_size(length: usize) -> usize {
    (MAX_TOKENS / length.max(1)).clamp(1, MAX_TEXTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens that runs compute, with those that starting them costs.
    fn cost(lengths: &[usize], batches: &[Range<usize>]) -> usize {
        batches.iter().map(|batch| batch.len() * lengths[batch.end - 1] + RUN_TOKENS).sum()
    }

    #[test]
    fn runs_compute_few_tokens_of_padding() {
        let texts_of = |lengths: &[usize], most: usize| -> Vec<Vec<usize>> {
            batches(lengths, |_| most).into_iter().map(Iterator::collect).collect()
        };
        assert!(texts_of(&[], 4).is_empty());
        assert_eq!(texts_of(&[9], 4), [[0]]);
        // Two runs cost less than the padding of one.
        assert_eq!(texts_of(&[20, 20, 56, 56], 4), [[2, 3], [0, 1]]);
        assert_eq!(texts_of(&[20, 21, 22, 23], 4), [[0, 1, 2, 3]]);
        // No more texts than a run takes.
        assert_eq!(texts_of(&[5; 7], 3).iter().map(Vec::len).max(), Some(3));
        let lengths: Vec<usize> = (3..40).collect();
        let found = batches(&lengths, |_| 32);
        assert!(cost(&lengths, &found) < cost(&lengths, &[0..32, 32..37]));
        let mut texts: Vec<usize> = found.into_iter().flatten().collect();
        texts.sort_unstable();
        assert!(texts.into_iter().eq(0..lengths.len()));
    }
}
