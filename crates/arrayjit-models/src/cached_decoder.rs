//! The compiled routines of a decoder, with the sequences whose keys and values are in its buffers.

use arrayjit_tensor::{DType, Executable, Graph, HostArray, ModelState};

use crate::{
    decoder::{CacheSize, Decoder, TokenPlaces},
    error::{ModelError, Result},
};

/// The most tokens of a prompt that a run reads.
pub(crate) const CHUNK: usize = 64;

/// A decoder that reads tokens of several sequences. A *slot* is the place of a sequence in the buffers.
pub(crate) struct CachedDecoder {
    /// A token of a sequence.
    one: Executable,
    /// Up to [`CHUNK`] tokens of a sequence.
    chunk: Executable,
    /// A token of each of the first slots: routines for more and more slots.
    steps: Vec<StepRoutine>,
    vocabulary: usize,
    size: CacheSize,
    /// The tokens of each slot whose keys and values are in the buffers.
    cached: Vec<Vec<u32>>,
}

/// A routine for a token of each of the first `rows` slots.
struct StepRoutine {
    rows: usize,
    routine: Executable,
}

/// The next token of a sequence.
#[derive(Clone, Copy)]
pub(crate) struct NextToken {
    pub(crate) slot: usize,
    pub(crate) token: u32,
}

impl CachedDecoder {
    pub(crate) fn compile(
        decoder: &dyn Decoder,
        state: &ModelState,
        vocabulary: usize,
        size: CacheSize,
    ) -> Result<CachedDecoder> {
        let slots = size.slots;
        let chunk = || TokenPlaces::Chunk { slots };
        let one = Graph::new();
        let token = one.input("tokens", [1], DType::I32)?;
        let one = one.compile_named("decode", state, &[&decoder.logits(&token, &chunk())?])?;
        let prefill = Graph::new();
        let tokens = prefill.input_of("tokens", &[prefill.size("n", size.chunk)?.into()], DType::I32)?;
        let chunk = prefill.compile_named("prefill", state, &[&decoder.logits(&tokens, &chunk())?])?;
        let steps = step_rows(slots).map(|rows| StepRoutine::compile(decoder, state, rows));
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(CachedDecoder { one, chunk, steps, vocabulary, size, cached: vec![Vec::new(); slots] })
    }

    /// The most tokens of a sequence.
    pub(crate) fn context(&self) -> usize {
        self.size.context
    }

    /// The tokens of a slot that the buffers have.
    pub(crate) fn cached(&self, slot: usize) -> &[u32] {
        &self.cached[slot]
    }

    /// Rejects a text that the decoder does not take.
    pub(crate) fn check(&self, text: &[u32]) -> Result<()> {
        let (tokens, context, vocabulary) = (text.len(), self.size.context, self.vocabulary);
        if tokens == 0 {
            return Err(ModelError::EmptyPrompt);
        }
        if tokens > context {
            return Err(ModelError::PromptLength { tokens, context });
        }
        match text.iter().find(|&&token| token as usize >= vocabulary) {
            Some(&token) => Err(ModelError::Token { token, vocabulary }),
            None => Ok(()),
        }
    }

    /// The number of tokens at the beginning of a text that a slot has already.
    pub(crate) fn known(&self, slot: usize, text: &[u32]) -> usize {
        self.cached[slot].iter().zip(text).take_while(|(a, b)| a == b).count()
    }

    /// Makes a slot ready to read a text: keeps the tokens at its beginning, except the last of the text.
    pub(crate) fn start(&mut self, slot: usize, text: &[u32]) {
        let known = self.known(slot, text).min(text.len().saturating_sub(1));
        self.cached[slot].truncate(known);
    }

    /// Forgets the tokens of a slot, because something else that their keys and values depend on changes.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.cached[slot].clear();
    }

    /// Reads the next tokens of a text which a slot was [made ready](CachedDecoder::start) for, up to a chunk.
    /// Returns the logits behind the text if all of it is read.
    pub(crate) fn read_chunk(&mut self, slot: usize, text: &[u32]) -> Result<Option<Vec<f32>>> {
        let start = self.cached[slot].len();
        let tokens = &text[start..text.len().min(start + self.size.chunk)];
        let routine = if tokens.len() == 1 { &self.one } else { &self.chunk };
        let mut symbols = vec![("pos", start as i64)];
        if self.size.slots > 1 {
            symbols.push(("slot", slot as i64));
        }
        let results = routine.run_with(&[("tokens", &integers(tokens)?)], &symbols)?;
        self.cached[slot].extend(tokens);
        let is_read = self.cached[slot].len() == text.len();
        Ok(if is_read { Some(results[0].as_slice::<f32>()?.to_vec()) } else { None })
    }

    /// The logits behind a text in a slot.
    pub(crate) fn logits(&mut self, slot: usize, text: &[u32]) -> Result<Vec<f32>> {
        self.start(slot, text);
        loop {
            if let Some(logits) = self.read_chunk(slot, text)? {
                return Ok(logits);
            }
        }
    }

    /// Adds a token to each of several sequences of different slots. Returns the logits behind each.
    pub(crate) fn step(&mut self, tokens: &[NextToken]) -> Result<Vec<Vec<f32>>> {
        let used = tokens.iter().map(|next| next.slot + 1).max().unwrap_or_default();
        let step = self.steps.iter().find(|step| used <= step.rows && tokens.len() > 1);
        let Some(&StepRoutine { rows, ref routine }) = step else {
            return tokens.iter().map(|next| self.add(*next)).collect();
        };
        // The other rows write behind the context, where no sequence reads.
        let mut inputs = vec![0; rows];
        let mut positions = vec![self.size.rows() as u32 - 1; rows];
        for next in tokens {
            (inputs[next.slot], positions[next.slot]) = (next.token, self.cached[next.slot].len() as u32);
        }
        let last = tokens.iter().map(|next| self.cached[next.slot].len()).max().unwrap_or_default();
        let arrays = [("tokens", &integers(&inputs)?), ("positions", &integers(&positions)?)];
        let results = routine.run_with(&arrays, &[("last", last as i64)])?;
        let logits = results[0].as_slice::<f32>()?;
        for next in tokens {
            self.cached[next.slot].push(next.token);
        }
        Ok(tokens
            .iter()
            .map(|next| logits[next.slot * self.vocabulary..][..self.vocabulary].to_vec())
            .collect())
    }

    /// Adds a token to a sequence.
    fn add(&mut self, NextToken { slot, token }: NextToken) -> Result<Vec<f32>> {
        let text = [self.cached[slot].as_slice(), &[token]].concat();
        self.logits(slot, &text)
    }
}

impl StepRoutine {
    fn compile(decoder: &dyn Decoder, state: &ModelState, rows: usize) -> Result<StepRoutine> {
        let graph = Graph::new();
        let tokens = graph.input("tokens", [rows], DType::I32)?;
        let positions = graph.input("positions", [rows], DType::I32)?;
        let logits = decoder.logits(&tokens, &TokenPlaces::Step { positions })?;
        let routine = graph.compile_named(&format!("step_of_{rows}"), state, &[&logits])?;
        Ok(StepRoutine { rows, routine })
    }
}

/// The rows of the routines for steps of several of `slots` sequences: powers of two, and all.
fn step_rows(slots: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(2), |rows| Some(2 * rows)).take_while(move |&rows| rows < slots);
    powers.chain((slots > 1).then_some(slots))
}

fn integers(values: &[u32]) -> Result<HostArray> {
    let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
    Ok(HostArray::from_slice(&values, [values.len()])?)
}
