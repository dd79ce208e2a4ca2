//! A kernel call of a routine as data: its nodes, the statements that it computes, its cost, and the methods
//! by which its kernel is compiled.

use std::fmt;

use codegen_core::{CompilationMethod, Cost};
use serde::{Serialize, Serializer};

use super::statements::Statement;

/// A kernel call of a compiled routine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CallDescription {
    /// The kernel's name. Calls with equal computations share a kernel.
    pub kernel: String,
    /// The memory that the call reads.
    pub reads: Vec<CallOperand>,
    /// The memory that the call writes.
    pub writes: Vec<CallOperand>,
    /// The statements that the call computes, including those whose nodes have no memory.
    pub statements: Vec<Statement>,
    /// Operations, and distinct bytes read or written.
    #[serde(serialize_with = "cost")]
    pub cost: Cost,
    /// The methods by which the parts of the kernel are compiled, in the order in which the parts run.
    #[serde(serialize_with = "methods")]
    pub methods: Vec<CompilationMethod>,
}

/// An argument of a kernel call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallOperand {
    /// The node's name.
    pub name: String,
    /// Where the node's values are.
    pub memory: OperandMemory,
    /// Size of the whole node in bytes.
    pub bytes: usize,
}

/// The memory in which the values of an operand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OperandMemory {
    /// The context's, which keeps them after the run.
    Context,
    /// That of the run.
    Temporary,
    /// The stream's merge buffer.
    MergeBuffer,
}

impl CallDescription {
    /// The methods as one text.
    pub(crate) fn compiled_as(&self) -> String {
        let methods: Vec<String> = self.methods.iter().map(CompilationMethod::to_string).collect();
        methods.join(", then ")
    }
}

fn cost<S: Serializer>(cost: &Cost, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Counts {
        flops: f64,
        integer_ops: f64,
        bytes: f64,
    }
    let Cost { flops, integer_ops, bytes } = *cost;
    Counts { flops, integer_ops, bytes }.serialize(serializer)
}

fn methods<S: Serializer>(methods: &[CompilationMethod], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Method<'m> {
        name: &'m str,
        choices: &'m str,
        not_vectorized: Option<&'m str>,
    }
    serializer.collect_seq(methods.iter().map(|method| Method {
        name: &method.name,
        choices: &method.choices,
        not_vectorized: method.not_vectorized.as_deref(),
    }))
}

/// Shows the name, and the memory unless it is the context's.
impl fmt::Display for CallOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.memory {
            OperandMemory::Context => Ok(()),
            OperandMemory::Temporary => f.write_str(" (temporary)"),
            OperandMemory::MergeBuffer => f.write_str(" (merge buffer)"),
        }
    }
}

/// Shows the statement after its line.
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = &self.line {
            write!(f, "{line}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// Shows several lines: the kernel with its cost, the nodes, the statements and the methods.
impl fmt::Display for CallDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}: {}", self.kernel, self.cost)?;
        for (verb, operands) in [("writes", &self.writes), ("reads", &self.reads)] {
            if !operands.is_empty() {
                write!(f, "\n  {verb} {}", list(operands))?;
            }
        }
        for statement in &self.statements {
            write!(f, "\n  {}", statement.to_string().replace('\n', "\n    "))?;
        }
        write!(f, "\n  compiled as {}", self.compiled_as())
    }
}

/// The operands, separated by commas.
pub(super) fn list(operands: &[CallOperand]) -> String {
    operands.iter().map(CallOperand::to_string).collect::<Vec<_>>().join(", ")
}
