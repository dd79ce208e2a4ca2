//! A program that is loaded as a whole: its inputs are set, and its results read, by name.

use assignments::{Nodes, UnknownNode};
use device_runtime::{Context, RunError};
use lowered_ir::ir::Symbol;
use tnode::HostArray;

use crate::{
    backend::Backend,
    compiled::Compiled,
    error::{CompileError, InitialiseError},
    routine::Routine,
};

/// A compiled text with memory of its own. [`Backend::load`] makes it.
#[derive(Clone, Debug)]
pub struct LoadedProgram {
    code: Compiled,
    /// The nodes that have values. The routine's context, once it is linked.
    context: Context,
    /// Linked at the first run.
    routine: Option<Routine>,
}

/// Why a loaded program did not do what was asked.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The text does not compile.
    #[error(transparent)]
    Compile(Box<CompileError>),
    /// The declared nodes did not get their initial values.
    #[error(transparent)]
    Initialise(Box<InitialiseError>),
    /// The program has no node of that name.
    #[error(transparent)]
    Node(#[from] UnknownNode),
    /// The program reads an input that has no value.
    #[error("input `{node}` has no value: `set` it before the first run")]
    NoValue {
        /// The name of the node.
        node: String,
    },
    /// The values of the symbols are not those of the program's symbols.
    #[error("the program has {}, but {} given", symbols(expected), symbols_were(found))]
    Bindings {
        /// The names of the program's symbols, in order.
        expected: Vec<String>,
        /// The names for which values were given.
        found: Vec<String>,
    },
    /// A run, or a copy from or to the device, failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<CompileError> for ProgramError {
    fn from(error: CompileError) -> ProgramError {
        ProgramError::Compile(Box::new(error))
    }
}

impl From<InitialiseError> for ProgramError {
    fn from(error: InitialiseError) -> ProgramError {
        ProgramError::Initialise(Box::new(error))
    }
}

fn symbols(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`@{name}`")).collect();
    match names.as_slice() {
        [] => "no symbol".to_owned(),
        [name] => format!("the symbol {name}"),
        names => format!("the symbols {}", names.join(", ")),
    }
}

fn symbols_were(names: &[String]) -> String {
    format!("{} {}", symbols(names), if names.len() > 1 { "were" } else { "was" })
}

impl Backend {
    /// Compiles a text that declares all its nodes, and gives its parameters their initial values.
    /// [`Backend::compile`], [`Backend::initialise`] and [`Compiled::link`] are the steps of it, for programs
    /// that share nodes, contexts or streams.
    ///
    /// ```
    /// use arrayjit::{Backend, HostArray};
    ///
    /// let backend = Backend::open("interpreter")?;
    /// let x = HostArray::from_slice(&[1f32, 2., 3.], [3])?;
    ///
    /// let mut program = backend.load("input x f32[3]; loss :+= x[i] * x[i]; keep loss")?;
    /// program.set("x", &x)?;
    /// program.run()?;
    /// assert_eq!(program.get("loss")?.values(), [14.]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProgramError::Compile`] and [`ProgramError::Initialise`].
    pub fn load(&self, text: &str) -> Result<LoadedProgram, ProgramError> {
        let code = self.compile(text, &Nodes::default())?;
        let context = self.context()?;
        let context = self.initialise(&code, &context)?;
        Ok(LoadedProgram { code, context, routine: None })
    }
}

impl LoadedProgram {
    /// Gives a node these values, which are copied.
    ///
    /// # Errors
    ///
    /// [`ProgramError::Node`] lists similar names; [`ProgramError::Run`] if type or dimensions do not fit.
    pub fn set(&mut self, node: &str, values: &HostArray) -> Result<(), ProgramError> {
        let node = self.code.node(node)?;
        if self.context.contains(node) {
            let _ = self.context.from_host(node, values)?;
        } else {
            self.context = self.context.init_from_host(node, values)?;
        }
        Ok(())
    }

    /// Schedules a run of a program without symbols. [`LoadedProgram::get`] waits for it.
    ///
    /// # Errors
    ///
    /// Fails like [`LoadedProgram::run_with`].
    pub fn run(&mut self) -> Result<(), ProgramError> {
        self.run_with(&[])
    }

    /// Schedules a run with a value for each symbol, by name and in any order.
    ///
    /// ```
    /// use arrayjit::{Backend, HostArray};
    ///
    /// let backend = Backend::open("interpreter")?;
    /// let mut program = backend.load("input x f32[3]; y := x[@pos] where @pos < 3; keep y")?;
    /// program.set("x", &HostArray::from_slice(&[1f32, 2., 3.], [3])?)?;
    /// program.run_with(&[("pos", 1)])?;
    /// assert_eq!(program.get("y")?.values(), [2.]);
    /// let error = program.run().expect_err("the symbol has no value");
    /// assert_eq!(error.to_string(), "the program has the symbol `@pos`, but no symbol was given");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProgramError::Bindings`] if the names are not those of the symbols; [`ProgramError::NoValue`] names
    /// an input that was not set; [`ProgramError::Run`] for a value outside its range and for failures of the
    /// device.
    pub fn run_with(&mut self, bindings: &[(&str, i64)]) -> Result<(), ProgramError> {
        let values = in_order(self.code.symbols(), bindings)?;
        let routine = match &self.routine {
            Some(routine) => routine,
            None => {
                let linked = self.code.link(&self.context).map_err(|error| match error {
                    RunError::ContextLacksNode { node, .. } => ProgramError::NoValue { node },
                    other => other.into(),
                })?;
                self.context = linked.context().clone();
                self.routine.insert(linked)
            }
        };
        routine.run(&values)?;
        Ok(())
    }

    /// The values of an input, a parameter or a kept node, after all runs so far.
    ///
    /// # Errors
    ///
    /// [`ProgramError::Node`] lists similar names; [`ProgramError::Run`] for a node that has no values, such
    /// as a result before the first run or an intermediate that is not kept, and for a failed run.
    pub fn get(&self, node: &str) -> Result<HostArray, ProgramError> {
        Ok(self.context.to_host(self.code.node(node)?)?)
    }

    /// The compiled routine.
    pub fn code(&self) -> &Compiled {
        &self.code
    }
}

/// The values in the order of the symbols.
fn in_order(symbols: &[Symbol], bindings: &[(&str, i64)]) -> Result<Vec<i64>, ProgramError> {
    let value = |symbol: &Symbol| Some(bindings.iter().find(|(name, _)| *name == symbol.name)?.1);
    let values: Option<Vec<i64>> = symbols.iter().map(value).collect();
    values.filter(|values| values.len() == bindings.len()).ok_or_else(|| ProgramError::Bindings {
        expected: symbols.iter().map(|symbol| symbol.name.clone()).collect(),
        found: bindings.iter().map(|(name, _)| (*name).to_owned()).collect(),
    })
}
