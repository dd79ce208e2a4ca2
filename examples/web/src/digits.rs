//! A page of the digits example: the network that `examples/digits` trains, on the same data.
//!
//! This machine's CPU trains the network. The CPU also evaluates the test images, makes one more training
//! step, and trains for one epoch from the initial weights. The page compares the browser's results with the
//! results of the CPU.

use std::path::Path;

use ::digits::{
    data::{self, Digits},
    network,
    state::{self, Network},
    train::Training,
};
use anyhow::{Context as _, Result};
use arrayjit::{Backend, HostArray, Settings};
use assignments::lower::{LowerOptions, LoweredAssignments, lower};
use codegen_core::{Code, Codegen};
use lowered_ir::passes::runner::Trace;
use lowered_ir::pipeline::{self, OptimizeCtx};
use scheduling::{ScheduleOptions, schedule};
use tnode::commit_decisions;

use crate::{
    link::{add_nodes, link},
    page::{Contents, Context, Expected, Page, PageRun, RunStep, Score},
};

/// The page's two routines, by their positions in its context.
const TRAIN_STEP: usize = 0;
const EVALUATE: usize = 1;

/// The nodes that training changes, except the loss, which begins at zero and to which each step adds.
const STATE: [&str; 8] = ["w1", "b1", "w2", "b2", "v1", "u1", "v2", "u2"];
/// The mini-batch of the single training step.
const BATCH: i64 = 7;

/// The tolerance for scores and weights after one routine: products with up to 359 terms are added in another
/// order and without fma.
const CLOSE: f64 = 1e-4;
/// The tolerance after an epoch of steps, each of which begins with the results of the step before.
const AFTER_AN_EPOCH: f64 = 1e-2;

/// Options of the training.
#[derive(Clone, Debug)]
pub struct Options {
    /// Passes over the training set before the network is evaluated.
    pub epochs: u32,
    /// Seed of the split, the initial weights and the order of batches.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { epochs: 40, seed: 5 }
    }
}

/// Contents of nodes by name.
type Arrays = Vec<(&'static str, HostArray)>;

/// Contents of nodes that the CPU computed.
struct Results {
    initial: Arrays,
    /// After one epoch from the initial weights, with the mini-batches in ascending order.
    after_epoch: Arrays,
    /// After all epochs.
    trained: Arrays,
    /// Scores and the number of correct answers of the trained network on the test images.
    scores: Arrays,
    /// After one more training step of the trained network.
    after_step: Arrays,
}

/// Trains the network and makes its page, with kernels from `codegen`.
///
/// # Errors
///
/// The data cannot be read, or the target lacks something that the network needs.
pub fn page(options: &Options, codegen: &dyn Codegen) -> Result<Page> {
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let (train, test) = data::split(&data::load(Path::new(data::FILE))?, &mut rng);
    let results = on_the_processor(options, &train, &test, &mut rng)?;

    let mut page = Page { title: "Handwritten digits".into(), ..Page::default() };
    page.about = format!(
        "A 64–128–10 network, trained for {} epochs on {} images and tested with {} others.",
        options.epochs,
        train.count(),
        test.count()
    );
    page.source = format!("# train_step\n{}\n# evaluate\n{}", network::TRAIN.trim(), state::EVALUATE.trim());
    let mut context = Context { name: "Network".into(), ..Context::default() };
    for code in compile(&Network::new(train.count(), test.count())?, codegen)? {
        add_routine(&mut page, &mut context, &code)?;
    }
    context.runs = runs(&mut page, &context, &results, &images(&train, &test)?)?;
    page.contexts.push(context);
    Ok(page)
}

/// The pixels and labels as the network's nodes hold them.
fn images(train: &Digits, test: &Digits) -> Result<Arrays> {
    let pixels = |digits: &Digits| HostArray::from_slice(&digits.images, [digits.count(), network::PIXELS]);
    let labels = |digits: &Digits| HostArray::from_slice(&digits.labels, [digits.count()]);
    Ok(vec![
        ("x", pixels(train)?),
        ("label", labels(train)?),
        ("tx", pixels(test)?),
        ("tlabel", labels(test)?),
    ])
}

/// Trains and evaluates the network on this machine's CPU.
fn on_the_processor(
    options: &Options,
    train: &Digits,
    test: &Digits,
    rng: &mut fastrand::Rng,
) -> Result<Results> {
    let backend = Backend::open_with("inline", &Settings::default())?;
    let network = Network::new(train.count(), test.count())?;
    let training = Training::prepare(&backend, &network, train, test, rng)?;
    let read = |names: &[&'static str]| -> Result<Arrays> {
        names.iter().map(|&name| Ok((name, training.read(name)?))).collect()
    };
    let mut order: Vec<i64> = (0..training.batches()).collect();
    let initial = read(&STATE)?;
    training.epoch(&order)?;
    training.correct()?;
    let after_epoch = read(&["w1", "b1", "w2", "b2", "loss", "correct"])?;
    for _ in 1..options.epochs {
        rng.shuffle(&mut order);
        training.epoch(&order)?;
    }
    training.correct()?;
    let (trained, scores) = (read(&STATE)?, read(&["ty", "correct"])?);
    training.epoch(&[BATCH])?;
    let after_step = read(&[&STATE[..], &["loss"]].concat())?;
    Ok(Results { initial, after_epoch, trained, scores, after_step })
}

/// Compiles both routines, in the order of their positions. It runs the stages of `arrayjit`, since there is
/// no device for this target.
fn compile(network: &Network, codegen: &dyn Codegen) -> Result<Vec<Code>> {
    let mut virtual_nodes = OptimizeCtx::default();
    let mut codes = Vec::new();
    for (name, text) in [("train_step", network::TRAIN), ("evaluate", state::EVALUATE)] {
        let nodes: Vec<_> = network.nodes().into_iter().cloned().collect();
        let mut assignments = assignment_text::parse(text, &nodes)?.named(name);
        autodiff::expand(&mut assignments)?;
        let LoweredAssignments { lowered, views, .. } = lower(&assignments, &LowerOptions::default())?;
        let settings = pipeline::OptimizeSettings::default();
        let done = pipeline::optimize_in(&virtual_nodes, lowered, &settings, &mut Trace::none())?;
        let routine = &done.optimized.routine;
        let schedule = schedule(routine, codegen, &ScheduleOptions::default())?;
        let artifact = codegen.compile(&schedule)?;
        let modes: Vec<_> =
            done.nodes.iter().zip(&routine.nodes).map(|(n, decl)| (n.clone(), decl.mode.clone())).collect();
        commit_decisions(&modes, &views)?;
        virtual_nodes.commit(&done.changes, &done.nodes);
        codes.push(Code::new(schedule, artifact)?);
    }
    Ok(codes)
}

/// Links a routine into the context. A node of the routine that has the name of a node of the context is that
/// node.
fn add_routine(page: &mut Page, context: &mut Context, code: &Code) -> Result<()> {
    let known = context.nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
    let nodes = add_nodes(context, code, &known)?;
    link(page, context, code, &nodes, None)
}

/// The page's three runs.
fn runs(page: &mut Page, context: &Context, results: &Results, images: &Arrays) -> Result<Vec<PageRun>> {
    let node = |name: &str| {
        let at = context.nodes.iter().position(|node| node.name == name);
        at.with_context(|| format!("the compiled network has no node `{name}`"))
    };
    let mut before = |arrays: &[&Arrays]| -> Result<Vec<Contents>> {
        let all = arrays.iter().flat_map(|arrays| arrays.iter());
        all.map(|(name, array)| Ok(Contents { node: node(name)?, data: page.data.add(array.bytes()) }))
            .collect()
    };
    let (trained, initial) = (before(&[&results.trained, images])?, before(&[&results.initial, images])?);
    let mut after = |arrays: &Arrays, tolerance: f64| -> Result<Vec<Expected>> {
        let expected = |(name, array): &(&str, HostArray)| {
            let data = page.data.add(array.bytes());
            Ok(Expected { node: node(name)?, data, tolerance, radii: None })
        };
        arrays.iter().map(expected).collect()
    };
    let evaluate = RunStep { routine: EVALUATE, bindings: Vec::new() };
    let step = |batch| RunStep { routine: TRAIN_STEP, bindings: vec![batch] };
    let test_images = images.iter().find(|(name, _)| *name == "tlabel").map_or(0, |(_, a)| a.num_values());
    let accuracy = Score { label: "test accuracy".into(), node: node("correct")?, of: test_images };
    let batches = images.iter().find(|(name, _)| *name == "label").map_or(0, |(_, a)| a.num_values());
    let batches = (batches / network::BATCH) as i64;
    Ok(vec![
        PageRun {
            title: "The trained network on the test images".into(),
            before: trained.clone(),
            steps: vec![evaluate.clone()],
            after: after(&results.scores, CLOSE)?,
            score: Some(accuracy.clone()),
        },
        PageRun {
            title: "One more step of training".into(),
            before: trained,
            steps: vec![step(BATCH)],
            after: after(&results.after_step, CLOSE)?,
            score: None,
        },
        PageRun {
            title: format!("From initial weights, {batches} steps, then the test images"),
            before: initial,
            steps: (0..batches).map(step).chain([evaluate]).collect(),
            after: after(&results.after_epoch, AFTER_AN_EPOCH)?,
            score: Some(accuracy),
        },
    ])
}
