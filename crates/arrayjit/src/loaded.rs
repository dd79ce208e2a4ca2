//! A program that is loaded as a whole: its inputs are set, and its results read, by name.

use std::{collections::BTreeMap, sync::Arc};

use assignments::Nodes;
use device_runtime::{Context, RunError};
use lowered_ir::ir::Symbol;
use tnode::{Dims, HostArray, SizeValues, TensorNode};

use crate::{
    backend::Backend,
    compiled::Compiled,
    error::{Error, ErrorKind},
    routine::Routine,
    run_sizes,
};

/// A compiled text with memory of its own. [`Backend::load`] makes it.
#[derive(Clone, Debug)]
pub struct LoadedProgram {
    code: Compiled,
    /// The nodes that have values. The routine's context, once it is linked.
    context: Context,
    /// Linked at the first run.
    routine: Option<Routine>,
    /// The dimensions of the arrays that `set` took for nodes with sizes that a run gives.
    given: BTreeMap<TensorNode, Dims>,
    /// The sizes of the last run.
    sizes: Option<SizeValues>,
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
        Ok(LoadedProgram { code, context, routine: None, given: BTreeMap::new(), sizes: None })
    }
}

impl LoadedProgram {
    /// Gives a node these values. An array that is passed by reference is copied; one that is passed by value
    /// or in an [`Arc`] is not. An array for a node with a size that a run gives, `input x f32[n, 64]`, has
    /// any number of elements along that axis, up to the bound; it is copied.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownNode`] lists similar names; [`ErrorKind::Size`] names a size that is exceeded or
    /// 0; [`ErrorKind::Run`] if type or dimensions do not fit.
    pub fn set(
        &mut self,
        node: &str,
        values: impl TryInto<Arc<HostArray>, Error: Into<tnode::TensorNodeError>>,
    ) -> Result<(), Error> {
        let node = self.code.node(node)?;
        if !node.run_sizes().is_empty() {
            let values = values.try_into().map_err(Into::into)?;
            run_sizes::check_dims(node, &values)?;
            let wide = values.resized(node.dims_without_padding()?)?;
            self.given.insert(node.clone(), values.dims().clone());
            if self.context.contains(node) {
                let _ = self.context.from_host(node, wide)?;
            } else {
                self.context = self.context.init_from_host(node, wide)?;
            }
            return Ok(());
        }
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
    /// an input that was not set; [`ErrorKind::SizeMismatch`] names two nodes whose arrays give a size two
    /// values, or a size that is out of its range, and [`ErrorKind::OpenSize`] a size that none
    /// gives; [`ErrorKind::Run`] for a value outside its
    /// range and for failures of the device.
    pub fn run_with(&mut self, bindings: &[(&str, i64)]) -> Result<(), Error> {
        let sizes = self.size_values(bindings)?;
        let values = in_order(self.code.symbols(), bindings, &sizes)?;
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
        self.sizes = Some(sizes);
        Ok(())
    }

    /// The sizes that the arrays for the nodes that the program reads give, and those that are bound.
    fn size_values(&self, bindings: &[(&str, i64)]) -> Result<SizeValues, Error> {
        let mut sizes = SizeValues::default();
        let reads = |node: &TensorNode| match &self.routine {
            Some(routine) => routine.inputs().contains(node),
            None => true,
        };
        for (node, dims) in self.given.iter().filter(|(node, _)| reads(node)) {
            sizes.enter(node, dims, &node.name())?;
        }
        for &(symbol, value) in bindings {
            let is_size = |known: &&Symbol| known.name == symbol && known.least > 0;
            // A value that is no size is outside of the symbol's range.
            let range = self.code.symbols().iter().find(is_size).map(|known| known.least..known.range);
            if let Some(value) = range
                .filter(|range| range.contains(&value) || sizes.given(symbol).is_some())
                .and_then(|_| usize::try_from(value).ok())
            {
                sizes.give(symbol, value, &format!("@{symbol}"))?;
            }
        }
        sizes.check(self.code.nodes())?;
        Ok(sizes)
    }

    /// The values of an input, a parameter or a kept node, after all runs so far. Along an axis whose size a
    /// run gives, they are as many as in the last run.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownNode`] lists similar names; [`ErrorKind::Run`] for a node that has no values, such
    /// as a result before the first run or an intermediate that is not kept, and for a failed run.
    pub fn get(&self, node: &str) -> Result<HostArray, Error> {
        let node = self.code.node(node)?;
        let values = self.context.to_host(node)?;
        if node.run_sizes().is_empty() {
            return Ok(values);
        }
        let given = self.given.get(node);
        let dims = match (&self.sizes, given) {
            (Some(sizes), _) => run_sizes::dims_of(node, sizes)?,
            (None, Some(dims)) => dims.clone(),
            (None, None) => node.dims_without_padding()?,
        };
        Ok(values.resized(dims)?)
    }

    /// The compiled routine.
    pub fn code(&self) -> &Compiled {
        &self.code
    }
}

/// The values in the order of the symbols.
fn in_order(symbols: &[Symbol], bindings: &[(&str, i64)], sizes: &SizeValues) -> Result<Vec<i64>, Error> {
    let bound =
        |symbol: &Symbol| bindings.iter().find(|(name, _)| *name == symbol.name).map(|(_, value)| *value);
    let given = |symbol: &Symbol| sizes.given(&symbol.name).and_then(|value| i64::try_from(value).ok());
    let is_size = |symbol: &&Symbol| symbol.least > 0;
    if let Some(open) = symbols.iter().filter(is_size).find(|s| bound(s).or_else(|| given(s)).is_none()) {
        return Err(ErrorKind::OpenSize { size: open.name.clone() }.into());
    }
    let value = |symbol: &Symbol| bound(symbol).or_else(|| given(symbol));
    let values: Option<Vec<i64>> = symbols.iter().map(value).collect();
    let known = |(name, _): &(&str, i64)| symbols.iter().any(|symbol| symbol.name == *name);
    values.filter(|_| bindings.iter().all(known)).ok_or_else(|| {
        let expected =
            symbols.iter().filter(|symbol| symbol.least == 0).map(|symbol| symbol.name.clone()).collect();
        let found = bindings.iter().map(|(name, _)| (*name).to_owned()).collect();
        ErrorKind::Bindings { expected, found }.into()
    })
}
