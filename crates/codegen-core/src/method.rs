//! The method by which a codegen compiles a kernel, for reports.

use std::fmt;

/// The method by which a codegen compiles a kernel, or one of the parts into which it divides the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompilationMethod {
    /// The method in a few words, such as `a vector program`.
    pub name: String,
    /// The sizes and layouts that the codegen chose, such as tile sizes and packed operands. Empty for a
    /// method without choices.
    pub choices: String,
    /// The reason why the codegen could not vectorize the code, if it has a method that does and takes
    /// another one.
    pub not_vectorized: Option<String>,
}

impl CompilationMethod {
    /// A method without choices.
    pub fn new(name: impl Into<String>) -> CompilationMethod {
        CompilationMethod { name: name.into(), ..CompilationMethod::default() }
    }

    /// The method with the sizes and layouts that the codegen chose.
    #[must_use]
    pub fn with_choices(self, choices: impl Into<String>) -> CompilationMethod {
        CompilationMethod { choices: choices.into(), ..self }
    }

    /// The method with the reason why the code is not vectorized.
    #[must_use]
    pub fn not_vectorized(self, reason: impl Into<String>) -> CompilationMethod {
        CompilationMethod { not_vectorized: Some(reason.into()), ..self }
    }
}

/// Shows the name, the choices in parentheses, and the reason.
impl fmt::Display for CompilationMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.choices.is_empty() {
            write!(f, " ({})", self.choices)?;
        }
        match &self.not_vectorized {
            Some(reason) => write!(f, ", and no vector program: {reason}"),
            None => Ok(()),
        }
    }
}
