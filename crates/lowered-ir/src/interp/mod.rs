//! The interpreter, which defines the meaning of a routine.
//!
//! It is small and obvious rather than fast, and every other way to run a routine is compared with it. A
//! routine is prepared once ([`PreparedRoutine::new`]: names become positions, types are inferred, indices
//! become flat) and then run any number of times. Operations are those of [`crate::eval`]; loops of every
//! kind run serially, in increasing order.
//!
//! Routines that [the verifier](crate::verify) accepts run without error on memory of the right size. Other
//! routines give a typed [`InterpError`] and never panic; memory then holds the values stored before the
//! error.

mod error;
mod prepare;
mod run;
mod step;

use crate::ir::LoweredRoutine;

pub use error::InterpError;
pub use step::PreparedRoutine;

/// The memory a routine runs on: little-endian elements in row-major order, without padding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The bytes of each node, in the routine's order.
    pub nodes: Vec<Vec<u8>>,
    /// The stream's merge buffer, where the routine reads one.
    pub merge: Option<Vec<u8>>,
}

/// The bytes of one node, borrowed by a run.
#[derive(Debug)]
pub enum Buffer<'a> {
    /// Bytes that the run may read.
    Read(&'a [u8]),
    /// Bytes that the run may read and write.
    Write(&'a mut [u8]),
}

impl Memory {
    /// Zeros for every node of the routine, and no merge buffer.
    pub fn zeroed(routine: &LoweredRoutine) -> Memory {
        let sizes = routine.nodes.iter().map(prepare::node_bytes);
        Memory { nodes: sizes.map(|size| vec![0; size]).collect(), merge: None }
    }
}

impl Buffer<'_> {
    pub(self) fn bytes(&self) -> &[u8] {
        match self {
            Buffer::Read(bytes) => bytes,
            Buffer::Write(bytes) => bytes,
        }
    }
}

/// Prepares a routine and runs it once; `bindings` are the values of its symbols, in order.
///
/// # Errors
///
/// [`InterpError`], where memory or bindings do not fit the routine, or the routine is one the verifier would
/// reject.
pub fn run(routine: &LoweredRoutine, memory: &mut Memory, bindings: &[i64]) -> Result<(), InterpError> {
    let program = PreparedRoutine::new(routine)?;
    let mut nodes: Vec<Buffer<'_>> = memory.nodes.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
    program.run(&mut nodes, memory.merge.as_deref(), bindings)
}
