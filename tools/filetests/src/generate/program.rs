//! Random programs in assignment text that the front end accepts, for tests of the whole pipeline.

use assignment_text::{TextErrorKind, parse};
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use lowered_ir::interp::Memory;
use lowered_ir::ir::Numerics;
use random_programs::{NodeMode, ProgramNode, ProgramStatement, ProgramWeights, RandomProgram, SplitMix64};
use tnode::{DType, Scalar, TensorNode};

use crate::RunCase;

/// A program in assignment text.
#[derive(Clone, Debug)]
pub struct GeneratedProgram {
    /// The statements, a line each.
    pub text: String,
    /// The nodes that the text names. The last written one is materialized, since it is the result.
    pub nodes: Vec<TensorNode>,
}

/// The numbers that nodes hold before a run, if the program does not state them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Whole numbers: floats from -4 to 4, integers from 0 to 6.
    Whole,
    /// The same integers, and floats between -1 and 1.
    Fractions,
}

/// The program that the bytes describe. Results are named `tN`, inputs `nN`.
pub fn program_from_bytes(bytes: &[u8]) -> GeneratedProgram {
    GeneratedProgram::accepted(random_programs::program_from_bytes(bytes, &ProgramWeights::one_routine()))
}

/// The program of a seed, derived from at most `len` bytes.
pub fn program_from_seed(seed: u64, len: usize) -> GeneratedProgram {
    program_from_bytes(&random_programs::bytes_of_seed(seed, len))
}

impl GeneratedProgram {
    /// The first routine of a program, without the statements that the front end rejects.
    pub fn accepted(program: RandomProgram) -> GeneratedProgram {
        let mut program = without_rejected(program);
        let last = program.routines[0].last().into_iter().flat_map(ProgramStatement::written);
        for node in last.collect::<Vec<_>>() {
            program.nodes[node].mode = NodeMode::Materialized;
        }
        GeneratedProgram::of(&program)
    }

    /// The first routine of a program.
    pub fn of(program: &RandomProgram) -> GeneratedProgram {
        let nodes = program.nodes.iter().map(ProgramNode::tensor_node).collect();
        GeneratedProgram { text: program.text(0), nodes }
    }

    /// The lowered program as a run. Inputs have the elements, and symbols the values, that `drawn` states
    /// for the nodes of these positions; other nodes with memory, and margins, have `numbers`, and nodes on
    /// which the optimizer decides have zeros.
    ///
    /// # Errors
    ///
    /// The error of the front end.
    pub fn run_case(
        &self,
        drawn: &RandomProgram,
        numerics: Numerics,
        numbers: Numbers,
    ) -> Result<RunCase, String> {
        let assignments = parse(&self.text, &self.nodes).map_err(|error| error.to_string())?;
        let options = LowerOptions { numerics, ..LowerOptions::default() };
        let lowered = lower(&assignments, &options).map_err(|error| error.to_string())?.lowered;
        let mut memory = Memory::zeroed(&lowered.routine);
        for (bytes, node) in memory.nodes.iter_mut().zip(&lowered.nodes) {
            // The front end adds nodes for subexpressions.
            let Some(at) = self.nodes.iter().position(|known| known == node) else { continue };
            if node.mode().mode().is_some() {
                numbers.fill(node.dtype(), bytes, at as u64);
            }
            let Some((stated, data)) = drawn.nodes.get(at).and_then(|node| Some((node, node.data.as_ref()?)))
            else {
                continue;
            };
            let size = node.dtype().size_bytes();
            for (offset, bits) in stated.offsets().into_iter().zip(data) {
                bytes[offset * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
            }
        }
        let value = |name: &str| {
            let at = drawn.symbols.iter().position(|symbol| symbol.name == name)?;
            drawn.rounds.first()?.get(at).copied()
        };
        let symbols = lowered.routine.symbols.iter();
        let bindings = symbols.map(|symbol| value(&symbol.name).unwrap_or(0)).collect();
        Ok(RunCase::of(lowered.routine, memory, bindings))
    }
}

impl Numbers {
    /// Fills the memory of a node with numbers that the seed determines.
    pub fn fill(self, dtype: DType, bytes: &mut [u8], seed: u64) {
        let mut words = SplitMix64::new(seed);
        for element in bytes.chunks_exact_mut(dtype.size_bytes()) {
            let word = words.word() >> 20;
            let value = match self {
                Numbers::Fractions if dtype.is_float() => (word % 65_536) as f64 / 32_768.0 - 1.0,
                Numbers::Whole if dtype.is_float() => (word % 9) as f64 - 4.0,
                _ if dtype == DType::Bool => (word & 1) as f64,
                _ => (word % 7) as f64,
            };
            let _fits = Scalar::from_f64(dtype, value).write(element);
        }
    }
}

/// The program without the statements that the front end rejects. Inputs, and results that have memory, are
/// observed; the optimizer decides on all other nodes.
pub fn observed(program: RandomProgram) -> RandomProgram {
    let mut program = without_rejected(program);
    for node in &mut program.nodes {
        let is_observed = node.data.is_some() || node.mode == NodeMode::Materialized;
        node.mode = if is_observed { NodeMode::Materialized } else { NodeMode::Undecided };
    }
    program
}

/// The program without the statements of its first routine that the front end rejects. It rejects a statement
/// whose result would depend on the order of the loops, a statement that reads or overwrites elements in a
/// way that loses values, and a letter whose range is open.
fn without_rejected(mut program: RandomProgram) -> RandomProgram {
    let statements = std::mem::take(&mut program.routines[0]);
    let mut kept: Vec<ProgramStatement> = Vec::new();
    for statement in statements {
        let alone = program.statement_text(&statement);
        let earlier = kept.iter().map(|statement| program.statement_text(statement) + "\n");
        let together = earlier.collect::<String>() + &alone;
        if is_accepted(&program, &alone) && is_accepted(&program, &together) {
            kept.push(statement);
        }
    }
    program.routines[0] = kept;
    program
}

/// Whether the front end accepts the text. An error of another kind than those that random programs may have
/// does not count as a rejection: the statement stays, so that the test that compiles the program fails.
fn is_accepted(program: &RandomProgram, text: &str) -> bool {
    let nodes: Vec<TensorNode> = program.nodes.iter().map(ProgramNode::tensor_node).collect();
    match parse(text, &nodes) {
        Err(error) => !matches!(
            error.kind(),
            TextErrorKind::Overlap { .. } | TextErrorKind::OpenRange { .. } | TextErrorKind::SelfRead { .. }
        ),
        Ok(assignments) => {
            let error = lower(&assignments, &LowerOptions::default()).err();
            !matches!(
                error.as_ref().map(|error| error.kind()),
                Some(LowerErrorKind::LostValues { .. } | LowerErrorKind::Uninitialized { .. })
            )
        }
    }
}
