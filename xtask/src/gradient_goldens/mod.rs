//! `cargo xtask gradient-goldens`: lets jax differentiate random programs, and writes their gradients to a
//! file with which tests compare those of `autodiff`.
//!
//! The export of a program has a list of flat indices for every access of every statement ([`export`]), so
//! the script `evaluate.py` beside this file needs no rule of index notation, and jax sees gathers, scatters
//! and elementwise operations alone. Programs are left out if the front end rejects them, if they have no
//! gradient or one of zeros alone, or if jax finds an element that is not finite: jax multiplies 0 by an
//! infinite derivative where `autodiff` selects 0.

mod export;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use assignment_text::parse;
use assignments::Assignments;
use assignments::lower::{LowerOptions, lower};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use random_programs::{
    GradientGolden, NodeMode, ProgramNode, ProgramWeights, RandomProgram, SplitMix64, program_from_seed,
};
use tnode::{DType, TensorNode};

use crate::peers_venv;

/// Options of `cargo xtask gradient-goldens`.
#[derive(clap::Args)]
pub(crate) struct GradientGoldensArgs {
    /// The number of programs. A fifth as many again have inputs with equal elements, 0 and 1, at which
    /// extremes are tied and functions have kinks.
    #[arg(long, default_value_t = 300)]
    programs: usize,
    /// A Python with jax and NumPy; by default an environment under `target` is made.
    #[arg(long)]
    python: Option<PathBuf>,
}

const FILE: &str = "tools/random-programs/goldens/gradients.txt";

const COMMENT: &str = "\
# Random programs, and the gradients that jax computed for them in f64. Written by
# `cargo xtask gradient-goldens`; the module `gradient_golden` of this crate describes the format.
";

/// The first seed of the programs whose inputs have many equal elements.
const EQUAL: u64 = 1_000_000;

/// The number of programs that one process of Python differentiates.
const BATCH: usize = 50;

/// Writes the file.
///
/// # Errors
/// If Python or jax cannot be run, or the file cannot be written.
pub(crate) fn run(args: &GradientGoldensArgs) -> Result<()> {
    let python = args.python.clone().map_or_else(|| peers_venv::ensure(&["jax"]), Ok)?;
    let distinct = programs(&python, args.programs, (0..).filter_map(|seed| candidate(seed, &distinct)))?;
    let equal = programs(&python, args.programs / 5, (EQUAL..).filter_map(|seed| candidate(seed, &coarse)))?;
    let text = COMMENT.to_owned() + &distinct + &equal;
    let file = xtask::root().join(FILE);
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
}

/// The text of so many programs of these candidates, with the results of jax.
fn programs(python: &Path, count: usize, mut candidates: impl Iterator<Item = Candidate>) -> Result<String> {
    let (mut text, mut written, mut infinite, mut zero) = (String::new(), 0, 0, 0);
    while written < count {
        let batch: Vec<Candidate> = candidates.by_ref().take(BATCH).collect();
        for (candidate, result) in batch.iter().zip(evaluated(python, &batch)?) {
            let Some(result) = result else {
                infinite += 1;
                continue;
            };
            if result.gradients.iter().flatten().all(|&element| element == 0.0) {
                zero += 1;
                continue;
            }
            let names = candidate.parameters.iter().map(TensorNode::name);
            let gradients = names.zip(result.gradients).collect();
            let golden = GradientGolden { loss: result.loss, gradients, ..candidate.golden.clone() };
            if written < count {
                text += &golden.to_string();
                written += 1;
            }
        }
        println!("{written} programs; left out {infinite} with infinities or NaN, {zero} with zeros alone");
    }
    Ok(text)
}

/// A program that jax can differentiate.
struct Candidate {
    /// The program without results.
    golden: GradientGolden,
    parameters: Vec<TensorNode>,
    export: serde_json::Value,
}

/// The results of jax.
#[derive(serde::Deserialize)]
struct JaxResult {
    loss: f64,
    gradients: Vec<Vec<f64>>,
}

/// The results for the programs; `None` where an element is not finite.
fn evaluated(python: &Path, batch: &[Candidate]) -> Result<Vec<Option<JaxResult>>> {
    let script = xtask::root().join("xtask/src/gradient_goldens/evaluate.py");
    let mut child = Command::new(python)
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {}", python.display()))?;
    let exports: Vec<&serde_json::Value> = batch.iter().map(|candidate| &candidate.export).collect();
    // The script reads all of its input before it writes.
    let mut input = child.stdin.take().context("the child has an input")?;
    input.write_all(&serde_json::to_vec(&exports)?)?;
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{} ended with {}", script.display(), output.status);
    }
    serde_json::from_slice(&output.stdout).context("reading the results of the script")
}

/// The program of a seed, unless the front end rejects it or it has no gradient.
fn candidate(seed: u64, value: &dyn Fn(u64) -> f64) -> Option<Candidate> {
    let random = program_from_seed(seed, 300, &ProgramWeights::every_derivative());
    let golden = without_results(seed, &random, value)?;
    let nodes: Vec<TensorNode> = golden.nodes.iter().map(ProgramNode::tensor_node).collect();
    let program = parse(&golden.text, &nodes).ok()?;
    let loss = nodes.last()?;
    let parameters = parameters(&golden, &nodes, &program);
    let gradient = autodiff::gradient(&program, loss, &parameters.iter().collect::<Vec<_>>()).ok()?;
    if parameters.is_empty() || !is_compiled(&gradient.program) {
        return None;
    }
    let bindings: Vec<i64> = program.symbols.iter().map(|symbol| golden.symbol(&symbol.name)).collect();
    let values = golden.nodes.iter().map(ProgramNode::values);
    let given: Vec<(TensorNode, Option<Vec<f64>>)> = nodes.iter().cloned().zip(values).collect();
    let export = export::program(&program, &bindings, &given, &parameters, loss)?;
    Some(Candidate { golden, parameters, export })
}

/// The nodes and the text of a program, with values for the nodes that the host writes.
fn without_results(seed: u64, random: &RandomProgram, value: &dyn Fn(u64) -> f64) -> Option<GradientGolden> {
    let loss = random.loss_text();
    if loss.is_empty() {
        return None;
    }
    let text = random.text(0) + &loss;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_mentioned = |node: &&ProgramNode| text.split(|c| !is_name(c)).any(|word| word == node.name);
    let mut words = SplitMix64::new(seed);
    let mut nodes: Vec<ProgramNode> = random.nodes.iter().filter(is_mentioned).cloned().collect();
    for node in &mut nodes {
        node.mode = NodeMode::Undecided;
        if let Some(data) = &node.data {
            let is_float = node.dtype.is_float();
            let element = |word: u64| if is_float { value(word) } else { (word % 4) as f64 };
            let values: Vec<f64> = data.iter().map(|_| element(words.word())).collect();
            node.set_values(values);
        }
    }
    nodes.push(scalar("loss"));
    let symbols = random.symbols.iter().zip(&random.rounds[0]);
    let symbols = symbols.map(|(symbol, &value)| (symbol.name.to_owned(), value)).collect();
    Some(GradientGolden { seed, nodes, symbols, text, ..GradientGolden::default() })
}

fn scalar(name: &str) -> ProgramNode {
    ProgramNode {
        name: name.to_owned(),
        dtype: DType::F64,
        dims: Vec::new(),
        margin: 0,
        neutral: None,
        mode: NodeMode::Undecided,
        data: None,
    }
}

/// A float between 0.2 and 1.3 of either sign.
fn distinct(word: u64) -> f64 {
    let size = 0.2 + (word >> 8) as f64 % 1100.0 / 1000.0;
    if word.is_multiple_of(3) { -size } else { size }
}

/// A multiple of 0.5 from -1 to 1.5.
fn coarse(word: u64) -> f64 {
    (word % 6) as f64 / 2.0 - 1.0
}

/// The nodes of floats that have values and that the program only reads.
fn parameters(golden: &GradientGolden, nodes: &[TensorNode], program: &Assignments) -> Vec<TensorNode> {
    let (written, known) = (program.written_nodes(), program.nodes());
    let is_parameter = |(given, node): &(&ProgramNode, &TensorNode)| {
        given.data.is_some() && given.dtype.is_float() && !written.contains(node) && known.contains(node)
    };
    golden.nodes.iter().zip(nodes).filter(is_parameter).map(|(_, node)| node.clone()).collect()
}

/// Whether the compiler accepts the program, and all its accumulations of floats are in `f64`.
fn is_compiled(program: &Assignments) -> bool {
    let mut accums = program.steps.iter().flat_map(|step| step.accums());
    let is_double = accums.all(|accum| {
        let types = [accum.lhs.dtype(), accum.rhs.operation_dtype()];
        types.iter().all(|dtype| !dtype.is_float() || *dtype == DType::F64)
    });
    let symbols = program.symbols.iter().cloned().collect();
    let lowered = lower(program, &LowerOptions { symbols, ..LowerOptions::default() });
    is_double && lowered.is_ok_and(|it| optimize(it.lowered.routine, &OptimizeSettings::default()).is_ok())
}
