//! Random programs in assignment text that the front end accepts, for tests of the whole pipeline.

use assignment_text::{TextErrorKind, parse};
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use random_programs::{NodeMode, ProgramNode, ProgramStatement, ProgramWeights, RandomProgram};
use tnode::TensorNode;

/// A program in assignment text.
#[derive(Clone, Debug)]
pub struct GeneratedProgram {
    /// The statements, a line each.
    pub text: String,
    /// The nodes that the text names. The last written one is materialized, since it is the result.
    pub nodes: Vec<TensorNode>,
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
        let nodes = program.nodes.iter().map(ProgramNode::tensor_node).collect();
        GeneratedProgram { text: program.text(0), nodes }
    }
}

/// The program without the statements of its first routine that the front end rejects. It rejects a statement
/// whose result would depend on the order of the loops, a statement that reads or overwrites elements in a
/// way that loses values, and a letter whose range is open.
pub fn without_rejected(mut program: RandomProgram) -> RandomProgram {
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
                Some(LowerErrorKind::LostValues { .. } | LowerErrorKind::Uninitialised { .. })
            )
        }
    }
}
