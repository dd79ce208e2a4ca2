//! A small GPT that learns the letters of a text, and writes with a cache of keys and values.
//!
//! In training, [`CharGpt::forward`] reads whole windows of the text. To write, one routine is a loop over
//! the letters: `CharGpt::next` reads a letter, each block keeps the keys and values of the letters before in
//! buffers, `@pos` is the position, and the next letter is drawn from the logits. Both graphs have the same
//! parameters.
//!
//! Source: Radford, Wu, Child, Luan, Amodei and Sutskever, Language models are unsupervised multitask
//! learners, 2019.

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use arrayjit_tensor::{
    Backend, DType, Executable, Graph, HostArray, Init, ModelState, Parameter, Params, Tensor, TensorError,
    TensorOperand,
    nn::{Embedding, LayerNorm, Linear, Module},
    optim::{AdamW, Schedule},
    session::{Batch, Metrics, Ranks, Session},
};

/// The text: a license, which never changes.
pub const TEXT: &str = include_str!("../../../LICENSE-APACHE");

/// The sizes of the model and of its training.
#[derive(Clone, Copy)]
pub struct Options {
    /// Letters that the model sees at once.
    pub context: usize,
    /// Elements of the vector of a letter.
    pub width: usize,
    /// Heads of attention, a divisor of the width.
    pub heads: usize,
    /// Transformer blocks.
    pub layers: usize,
    /// Windows of the text in a training step.
    pub batch: usize,
    /// Training steps.
    pub steps: usize,
    /// The seed of the initial weights and of the windows.
    pub seed: u32,
}

/// The model that the program trains.
pub const OPTIONS: Options =
    Options { context: 64, width: 64, heads: 4, layers: 2, batch: 16, steps: 800, seed: 1 };

/// The loss that [`OPTIONS`] reach, as the mean of the last 20 steps in nats per letter. Equally likely
/// letters have a loss of log 75 = 4.3.
pub const LOSS: f64 = 0.9;

/// Steps between two checkpoints.
const STEPS_TO_CHECKPOINT: usize = 100;

/// Attention of each letter to itself and the letters before, with the cache for one letter at a time.
struct CausalAttention {
    qkv: Linear,
    proj: Linear,
    heads: usize,
}

/// The keys and values of the letters so far, each `[heads, context, width / heads]`.
struct Cache {
    keys: Parameter,
    values: Parameter,
}

impl CausalAttention {
    fn new(params: &Params, width: usize, heads: usize) -> Result<CausalAttention, TensorError> {
        Ok(CausalAttention {
            qkv: Linear::new(&params.sub("qkv"), width, 3 * width)?,
            proj: Linear::new(&params.sub("proj"), width, width)?,
            heads,
        })
    }

    /// The queries, keys and values of `x`, whose last axis becomes `[3, heads, width / heads]`.
    fn heads(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let mut shape: Vec<isize> = x.shape().iter().map(|&size| size as isize).collect();
        shape.pop();
        shape.extend([3, self.heads as isize, -1]);
        self.qkv.forward(x)?.reshape(&shape)
    }

    /// `[width]` to `[width]`, for the letter at position `@pos`.
    fn next(&self, x: &Tensor, cache: &Cache) -> Result<Tensor, TensorError> {
        let attended = x.graph().apply(
            "keys[h,@pos,c] := x[1,h,c]
             values[h,@pos,c] := x[2,h,c]
             score[h,t] :+= x[0,h,c] * keys[h,t,c] / sqrt(size(x, 2)) where t <= @pos
             most[h] :max= score[h,t] where t <= @pos
             weight[h,t] :+= exp(score[h,t] - most[h]) where t <= @pos
             total[h] :+= weight[h,t] where t <= @pos
             y[h,c] :+= weight[h,t] * values[h,t,c] / total[h] where t <= @pos",
            &[("x", &self.heads(x)?), ("keys", &cache.keys), ("values", &cache.values)],
        )?;
        self.proj.forward(&attended.flatten(0, -1)?)
    }
}

impl Module for CausalAttention {
    /// `[batch, letters, width]` to the same shape.
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let attended = x.graph().apply(
            "q[b,h,i,c] := x[b,i,0,h,c]
             k[b,h,i,c] := x[b,i,1,h,c]
             v[b,h,i,c] := x[b,i,2,h,c]
             a[b,h,i,d] := causal_attention(q[b,h,i,c], k[b,h,j,c], v[b,h,j,d])
             y[b,i,h,d] := a[b,h,i,d]",
            &[("x", &self.heads(x)?)],
        )?;
        self.proj.forward(&attended.flatten(2, -1)?)
    }
}

/// Attention and a network of two layers, each on normalized input and added to it.
struct Block {
    norm1: LayerNorm,
    attention: CausalAttention,
    norm2: LayerNorm,
    widen: Linear,
    narrow: Linear,
}

impl Block {
    fn new(params: &Params, width: usize, heads: usize) -> Result<Block, TensorError> {
        Ok(Block {
            norm1: LayerNorm::new(&params.sub("norm1"), width)?,
            attention: CausalAttention::new(&params.sub("attention"), width, heads)?,
            norm2: LayerNorm::new(&params.sub("norm2"), width)?,
            widen: Linear::new(&params.sub("widen"), width, 4 * width)?,
            narrow: Linear::new(&params.sub("narrow"), 4 * width, width)?,
        })
    }

    fn step(
        &self,
        x: &Tensor,
        attend: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>,
    ) -> Result<Tensor, TensorError> {
        let x = (x + attend(&self.norm1.forward(x)?)?)?;
        let hidden = self.widen.forward(&self.norm2.forward(&x)?)?.gelu()?;
        x + self.narrow.forward(&hidden)?
    }
}

/// The model: embeddings of letters and positions, blocks, and a logit for each letter of the alphabet.
pub struct CharGpt {
    letters: Embedding,
    positions: Parameter,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl CharGpt {
    /// Makes the parameters for an alphabet of this many letters.
    ///
    /// # Errors
    ///
    /// Names that exist already.
    pub fn new(params: &Params, alphabet: usize, options: Options) -> Result<CharGpt, TensorError> {
        let Options { context, width, heads, layers, .. } = options;
        let block = |at: usize| Block::new(&params.sub("blocks").sub(at), width, heads);
        let init = Init::Normal { mean: 0.0, std: 0.1 };
        Ok(CharGpt {
            letters: Embedding::new(&params.sub("letters"), alphabet, width)?,
            positions: params.parameter("positions", [context, width], init)?,
            blocks: (0..layers).map(block).collect::<Result<_, _>>()?,
            norm: LayerNorm::new(&params.sub("norm"), width)?,
            head: Linear::new(&params.sub("head"), width, alphabet)?,
        })
    }

    /// The logits `[alphabet]` of the letter behind `letter`, which has rank 0 and stands at `@pos`.
    fn next(&self, letter: &Tensor, caches: &[Cache]) -> Result<Tensor, TensorError> {
        let position = letter.graph().apply("y[c] := p[@pos,c]", &[("p", &self.positions)])?;
        let mut x = (self.letters.forward(letter)? + position)?;
        for (block, cache) in self.blocks.iter().zip(caches) {
            x = block.step(&x, |x| block.attention.next(x, cache))?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }
}

impl Module for CharGpt {
    /// The logits `[batch, context, alphabet]` of the letters behind each of `[batch, context]`.
    fn forward(&self, letters: &Tensor) -> Result<Tensor, TensorError> {
        let mut x = (self.letters.forward(letters)? + &self.positions)?;
        for block in &self.blocks {
            x = block.step(&x, |x| block.attention.forward(x))?;
        }
        self.head.forward(&self.norm.forward(&x)?)
    }
}

/// A trained model with its alphabet.
pub struct Trained {
    model: Arc<CharGpt>,
    params: Params,
    weights: ModelState,
    alphabet: Vec<u8>,
    options: Options,
    /// The loss of each step since the checkpoint, in nats per letter.
    pub losses: Vec<f64>,
    /// The mean time of a step, without the first tenth of the steps; none of fewer than 20.
    pub seconds_per_step: Option<f64>,
}

/// Trains on windows of [`TEXT`].
///
/// # Errors
///
/// An error of the backend.
pub fn train(backend: &Backend, options: Options) -> Result<Trained> {
    train_on(backend, options, None, None)
}

/// Trains over ranks, which divide the windows of each step among them. A checkpoint is gone on from if the
/// file exists, and written every 100 steps and at the end.
///
/// # Errors
///
/// Windows that cannot be divided equally; an error of the backend, of another rank or of the file.
pub fn train_on(
    backend: &Backend,
    options: Options,
    ranks: Option<Ranks>,
    checkpoint: Option<&Path>,
) -> Result<Trained> {
    let Options { context, batch, .. } = options;
    let (rank, size) = ranks.as_ref().map_or((0, 1), |ranks| (ranks.group().rank(), ranks.group().size()));
    ensure!(batch % size == 0, "{batch} windows in a step cannot be divided over {size} ranks");
    let share = batch / size;
    let mut alphabet = TEXT.as_bytes().to_vec();
    alphabet.sort_unstable();
    alphabet.dedup();
    let ids: Vec<i32> = TEXT.bytes().filter_map(|byte| id(&alphabet, byte)).collect();
    let params = Params::new(options.seed);
    let model = Arc::new(CharGpt::new(&params, alphabet.len(), options)?);
    let weights = ModelState::new(backend, &params)?;
    let schedule = Schedule::warm_up(20).times(Schedule::cosine_decay(options.steps as u32, 0.1));
    let optimizer = AdamW::new(3e-3).schedule(schedule).clip_norm(1.0);
    let trained = model.clone();
    let mut session = Session::new(&weights, optimizer, move |batch: &Batch| {
        trained.forward(&batch.input("x")?)?.cross_entropy(&batch.input("y")?)
    })?;
    if let Some(ranks) = ranks {
        session = session.over_ranks(ranks)?;
    }
    if let Some(path) = checkpoint
        && !session.resume(path)?
    {
        session.save(path)?; // a path that cannot be written is found before the training
    }
    let done = session.steps() as usize;
    let mut rng = fastrand::Rng::with_seed(options.seed.into());
    let batches = (0..options.steps).map(move |_| {
        let starts: Vec<usize> = (0..batch).map(|_| rng.usize(..ids.len() - context)).collect();
        let windows = |shift: usize| {
            let own = &starts[rank * share..][..share];
            let rows: Vec<i32> =
                own.iter().flat_map(|start| &ids[start + shift..][..context]).copied().collect();
            HostArray::from_slice(&rows, [share, context])
        };
        anyhow::Ok([("x", windows(0)?), ("y", windows(1)?)])
    });
    let mut losses = Vec::new();
    let mut warm: Option<(Instant, usize)> = None;
    let mut batches = batches.skip(done);
    let section = if checkpoint.is_some() { STEPS_TO_CHECKPOINT } else { options.steps.max(1) };
    for _ in (done..options.steps).step_by(section) {
        session.fit(batches.by_ref().take(section), |progress| {
            losses.extend(progress.metrics().iter().map(Metrics::loss));
            if warm.is_none() && losses.len() >= (options.steps - done) / 10 {
                warm = Some((Instant::now(), losses.len()));
            }
        })?;
        if let Some(path) = checkpoint {
            session.save(path)?;
        }
    }
    let timed = warm.map(|(since, before)| (since.elapsed().as_secs_f64(), losses.len() - before));
    let seconds_per_step = timed.filter(|(_, steps)| *steps >= 18).map(|(time, steps)| time / steps as f64);
    session.check_ranks()?;
    Ok(Trained { model, params, weights, alphabet, options, losses, seconds_per_step })
}

/// The number of a letter in the alphabet.
fn id(alphabet: &[u8], letter: u8) -> Option<i32> {
    alphabet.binary_search(&letter).ok().map(|at| at as i32)
}

/// The compiled routine that writes a text as long as the context.
pub struct Writer<'m> {
    trained: &'m Trained,
    routine: Executable,
}

/// A text that the model has written.
pub struct Written {
    /// The text with its start.
    pub text: String,
    /// The logits `[context, alphabet]` behind each letter.
    pub logits: Vec<f64>,
}

/// The letter behind position `@pos`: that of the start or, behind it, the one at which the sum of the
/// probabilities reaches `chance`, which is uniform in 0 to 1. Logits are divided by a temperature of 0.7,
/// which prefers likely letters.
const NEXT: &str = "
most :max= logits[k]
weight[k] := exp((logits[k] - most) / 0.7)
total :+= weight[k]
sum[k] :+= weight[j] where k < size(logits, 0), j <= k
drawn :+= where(sum[k] < chance * total, 1, 0)
next := where(@pos + 1 < known, pad(start, 0)[@pos + 1], min(drawn, size(logits, 0) - 1))";

impl Trained {
    /// The mean loss of the last 20 steps.
    pub fn final_loss(&self) -> f64 {
        let last = &self.losses[self.losses.len().saturating_sub(20)..];
        last.iter().sum::<f64>() / last.len() as f64
    }

    /// The values of all parameters, as a safetensors file.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        Ok(self.weights.to_safetensors()?)
    }

    /// Compiles the routine that writes.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub fn writer(&self) -> Result<Writer<'_>> {
        let Options { context, width, heads, layers, .. } = self.options;
        let cache = |at: usize| -> Result<Cache, TensorError> {
            let params = self.params.sub("cache").sub(at);
            let buffer = |name: &str| params.buffer(name, [heads, context, width / heads], Init::ZEROS);
            Ok(Cache { keys: buffer("keys")?, values: buffer("values")? })
        };
        let caches = (0..layers).map(cache).collect::<Result<Vec<_>, _>>()?;
        let graph = Graph::new();
        let start = graph.input("start", [context], DType::I32)?;
        let known = graph.input("known", [], DType::I32)?;
        let chances = graph.input("chances", [context], DType::F32)?;
        let loop_over_letters = graph.scan(context).symbol("pos");
        let (_, [letters, logits]) = loop_over_letters.run([&start.select(0, 0)?], |step, [letter]| {
            let logits = self.model.next(&letter, &caches)?;
            let chance = step.slice(&chances, 0)?;
            let given: [(&str, &dyn TensorOperand); 4] =
                [("logits", &logits), ("chance", &chance), ("start", &start), ("known", &known)];
            let next = graph.apply(NEXT, &given)?;
            Ok(([next], [letter, logits]))
        })?;
        let routine = graph.compile_named("char_gpt", &self.weights, &[&letters, &logits])?;
        Ok(Writer { trained: self, routine })
    }

    /// The logits `[letters, alphabet]` behind each letter of a text, all at once and without a cache.
    ///
    /// # Errors
    ///
    /// A text that is longer than the context or has other letters than [`TEXT`], or an error of the backend.
    pub fn logits(&self, text: &str) -> Result<Vec<f64>> {
        let ids = self.ids(text)?;
        ensure!(ids.len() == self.options.context, "a text of {} letters", ids.len());
        let graph = Graph::new();
        let letters = graph.input("letters", [1, ids.len()], DType::I32)?;
        let logits = self.model.forward(&letters)?;
        let model = graph.compile_named("char_gpt_window", &self.weights, &[&logits])?;
        Ok(model.run(&[("letters", &HostArray::from_slice(&ids, [1, ids.len()])?)])?[0].values())
    }

    /// The numbers of the letters of a text.
    ///
    /// # Errors
    ///
    /// A letter that [`TEXT`] does not have.
    pub fn ids(&self, text: &str) -> Result<Vec<i32>> {
        let known = |letter: u8| {
            id(&self.alphabet, letter).with_context(|| format!("the letter {:?}", char::from(letter)))
        };
        text.bytes().map(known).collect()
    }
}

impl Writer<'_> {
    /// Continues a text up to the length of the context, with letters drawn from the model's probabilities.
    ///
    /// # Errors
    ///
    /// A start that is empty, longer than the context, or has other letters than [`TEXT`]; an error of the
    /// backend.
    pub fn write(&self, start: &str, seed: u64) -> Result<Written> {
        let context = self.trained.options.context;
        let mut ids = self.trained.ids(start)?;
        ensure!((1..=context).contains(&ids.len()), "a start of {} of {context} letters", ids.len());
        let known = HostArray::from_slice(&[ids.len() as i32], [])?;
        ids.resize(context, 0);
        let mut rng = fastrand::Rng::with_seed(seed);
        let chances: Vec<f32> = ids.iter().map(|_| rng.f32()).collect();
        let (start, chances) =
            (HostArray::from_slice(&ids, [context])?, HostArray::from_slice(&chances, [context])?);
        let results = self.routine.run(&[("start", &start), ("known", &known), ("chances", &chances)])?;
        let letter = |id: f64| char::from(self.trained.alphabet[id as usize]);
        let text = results[0].values().into_iter().map(letter).collect();
        Ok(Written { text, logits: results[1].values() })
    }
}
