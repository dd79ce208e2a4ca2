//! Code: a scheduled routine with an artifact whose kernels take the arguments of its calls.

use std::fmt;

use crate::artifact::{Artifact, KernelAbi, Launch, Param};
use crate::kernel::Kernel;
use crate::log::Logging;
use crate::scheduled::ScheduledRoutine;

/// A compiled routine without a context. It is cached, and linked any number of times.
///
/// The kernels of its artifact take the parameters that the calls of its schedule pass; linking relies on
/// that.
#[derive(Clone, Debug)]
pub struct Code {
    schedule: ScheduledRoutine,
    artifact: Artifact,
}

/// The reason why an artifact does not belong to a scheduled routine.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("routine `{routine}`: its artifact {mismatch}")]
pub struct CodeError {
    /// The routine's name.
    pub routine: String,
    /// The first difference.
    pub mismatch: CodeMismatch,
}

/// A difference between an artifact and a scheduled routine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CodeMismatch {
    /// The numbers of kernels differ.
    Kernels { expected: usize, found: usize },
    /// The parameters of a kernel differ.
    Params { kernel: String, expected: Vec<Param>, found: Vec<Param> },
    /// The launches of a kernel differ. Their grain may.
    Launch { kernel: String, expected: Box<Launch>, found: Box<Launch> },
    /// The log lines of a kernel differ.
    Log { kernel: String, expected: usize, found: usize },
}

impl fmt::Display for CodeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeMismatch::Kernels { expected, found } => {
                write!(f, "has {found} kernels, expected {expected}")
            }
            CodeMismatch::Params { kernel, expected, found } => {
                write!(f, "takes {found:?} for kernel `{kernel}`, expected {expected:?}")
            }
            CodeMismatch::Launch { kernel, expected, found } => {
                let [(e, t), (extent, threads)] = [expected, found].map(|l| (l.extent, l.threads));
                write!(f, "launches kernel `{kernel}` over 0..{extent} with {threads} threads each, ")?;
                write!(f, "expected 0..{e} with {t}")?;
                if expected.end != found.end {
                    write!(f, "; it ends at {:?}, expected {:?}", found.end, expected.end)?;
                }
                Ok(())
            }
            CodeMismatch::Log { kernel, expected, found } => {
                write!(f, "logs other lines for kernel `{kernel}` ({found}), expected its {expected}")
            }
        }
    }
}

impl Code {
    /// Combines a scheduled routine with its artifact.
    ///
    /// # Errors
    ///
    /// [`CodeError`] if the artifact belongs to another routine: numbers of kernels, their parameters,
    /// launches or log lines differ. A codegen may state another grain, cost and size of scratch memory;
    /// devices then use the values of the artifact.
    pub fn new(schedule: ScheduledRoutine, artifact: Artifact) -> Result<Code, CodeError> {
        match check(&schedule, artifact.kernels()) {
            Ok(()) => Ok(Code { schedule: schedule.without_plans(), artifact }),
            Err(mismatch) => Err(CodeError { routine: schedule.name().to_owned(), mismatch }),
        }
    }

    /// The schedule that the artifact was compiled from: slots, calls and temporaries.
    pub fn schedule(&self) -> &ScheduledRoutine {
        &self.schedule
    }

    /// The compiled kernels, with their ABIs.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// The same code under another name of the routine, for errors and profiles.
    #[must_use]
    pub fn renamed(mut self, name: &str) -> Code {
        self.schedule = self.schedule.renamed(name);
        self
    }

    /// The same code with another destination for logged lines.
    #[must_use]
    pub fn logging_to(mut self, logging: Logging) -> Code {
        self.artifact = self.artifact.logging_to(logging);
        self
    }
}

fn check(schedule: &ScheduledRoutine, found: &[KernelAbi]) -> Result<(), CodeMismatch> {
    let expected = schedule.kernels();
    if expected.len() != found.len() {
        return Err(CodeMismatch::Kernels { expected: expected.len(), found: found.len() });
    }
    expected.iter().zip(found).try_for_each(|(expected, found)| check_kernel(expected, found))
}

fn check_kernel(kernel: &Kernel, found: &KernelAbi) -> Result<(), CodeMismatch> {
    let (expected, kernel) = (kernel.abi(), kernel.abi().name.clone());
    if expected.params != found.params {
        let (expected, found) = (expected.params.clone(), found.params.clone());
        return Err(CodeMismatch::Params { kernel, expected, found });
    }
    let over = |launch: Launch| (launch.extent, launch.threads, launch.end);
    if over(expected.launch) != over(found.launch) {
        let [expected, found] = [expected.launch, found.launch].map(Box::new);
        return Err(CodeMismatch::Launch { kernel, expected, found });
    }
    if expected.log != found.log {
        return Err(CodeMismatch::Log { kernel, expected: expected.log.len(), found: found.log.len() });
    }
    Ok(())
}
