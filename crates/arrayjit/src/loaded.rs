//! A program that is loaded as a whole: its inputs are set, and its results read, by name.

use std::sync::Arc;

use assignments::Nodes;
use device_runtime::{Context, RunError};
use lowered_ir::ir::Symbol;
use tnode::HostArray;

use crate::{
    backend::Backend,
    compiled::Compiled,
    error::{Error, ErrorKind},
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

impl Backend {
    /// Compiles a text that declares all its nodes, and gives its parameters their initial values.
    /// [`Backend::compile`], [`Backend::initialize`] and [`Compiled::link`] are the steps of it, for programs
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
    /// [`ErrorKind::Compile`]; [`ErrorKind::Run`] if the device has no memory for the parameters.
    pub fn load(&self, text: &str) -> Result<LoadedProgram, Error> {
        let code = self.compile(text, &Nodes::default())?;
        let context = self.context()?;
        let context = self.initialize(&code, &context)?;
        Ok(LoadedProgram { code, context, routine: None })
    }
}

impl LoadedProgram {
    /// Gives a node these values. An array that is passed by reference is copied; one that is passed by value
    /// or in an [`Arc`] is not.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownNode`] lists similar names; [`ErrorKind::Run`] if type or dimensions do not fit.
    pub fn set(
        &mut self,
        node: &str,
        values: impl TryInto<Arc<HostArray>, Error: Into<tnode::TensorNodeError>>,
    ) -> Result<(), Error> {
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
    pub fn run(&mut self) -> Result<(), Error> {
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
    /// [`ErrorKind::Bindings`] if the names are not those of the symbols; [`ErrorKind::NoValue`] names
    /// an input that was not set; [`ErrorKind::Run`] for a value outside its range and for failures of the
    /// device.
    pub fn run_with(&mut self, bindings: &[(&str, i64)]) -> Result<(), Error> {
        let values = in_order(self.code.symbols(), bindings)?;
        let routine = match &self.routine {
            Some(routine) => routine,
            None => {
                let linked = self.code.link(&self.context).map_err(|error| match error {
                    RunError::ContextLacksNode { node, .. } => Error::from(ErrorKind::NoValue { node }),
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
    /// [`ErrorKind::UnknownNode`] lists similar names; [`ErrorKind::Run`] for a node that has no values, such
    /// as a result before the first run or an intermediate that is not kept, and for a failed run.
    pub fn get(&self, node: &str) -> Result<HostArray, Error> {
        Ok(self.context.to_host(self.code.node(node)?)?)
    }

    /// The compiled routine.
    pub fn code(&self) -> &Compiled {
        &self.code
    }
}

/// The values in the order of the symbols.
fn in_order(symbols: &[Symbol], bindings: &[(&str, i64)]) -> Result<Vec<i64>, Error> {
    let value = |symbol: &Symbol| Some(bindings.iter().find(|(name, _)| *name == symbol.name)?.1);
    let values: Option<Vec<i64>> = symbols.iter().map(value).collect();
    values.filter(|values| values.len() == bindings.len()).ok_or_else(|| {
        let expected = symbols.iter().map(|symbol| symbol.name.clone()).collect();
        let found = bindings.iter().map(|(name, _)| (*name).to_owned()).collect();
        ErrorKind::Bindings { expected, found }.into()
    })
}
