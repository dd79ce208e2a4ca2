//! Routines of ONNX models.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use arrayjit::{Backend, HostArray, TensorNode};
use arrayjit_onnx::{DimensionSize, Model, ModelProgram};

use crate::error::AotError;
use crate::library::{CompiledProgram, Library, LibraryRoutine};

impl Library {
    /// Compiles an ONNX model for these sizes of the dimensions that it leaves open, and adds it as a
    /// routine. The function takes the inputs that the model reads and then the outputs, in the order of the
    /// model; the weights are constants of the library.
    ///
    /// ```
    /// use arrayjit_aot::Library;
    /// use arrayjit_onnx::{DimensionSize, Model};
    ///
    /// // y = relu(x · w), x is f32[batch, 3]
    /// let model = Model::load("../arrayjit-onnx/examples/layer.onnx")?;
    /// let mut library = Library::new("layer", "x86_64-unknown-linux-gnu")?;
    /// library.add_onnx("forward", &model, &[("batch".to_owned(), DimensionSize::UpTo(8))].into())?;
    /// let [x, y] = library.routines()[0].arrays() else { panic!("an input and an output") };
    /// assert_eq!((&*x.name, x.dims.as_slice()), ("x", &[8, 3][..]));
    /// assert_eq!((&*y.name, y.dims.as_slice()), ("y", &[8, 2][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Library::add`]; [`AotError::Compile`] has those of [`Model::program`], such as a node
    /// that needs values which only a run has.
    pub fn add_onnx(
        &mut self,
        name: &str,
        model: &Model,
        sizes: &BTreeMap<String, DimensionSize>,
    ) -> Result<&LibraryRoutine, AotError> {
        self.add(name, |backend| compiled(name, model, sizes, backend))
    }
}

/// The model, compiled for one level. This process computes its constants.
fn compiled(
    name: &str,
    model: &Model,
    sizes: &BTreeMap<String, DimensionSize>,
    backend: &Backend,
) -> Result<CompiledProgram, Box<dyn Error + Send + Sync>> {
    let ModelProgram { graph, inputs, outputs, constants, sizes } =
        model.program(&Backend::open("inline")?, sizes)?;
    let mut program = graph.program().named(name);
    program.kept.extend(outputs.iter().map(|(_, node)| node.clone()));
    let compiled = backend.compile_assignments(&program)?;
    let is_used = |(node, _): &(TensorNode, Arc<HostArray>)| compiled.nodes().contains(node);
    let constants = constants.into_iter().filter(is_used).collect();
    let names = inputs.into_iter().chain(outputs).map(|(name, node)| (node, name)).collect();
    Ok(CompiledProgram { compiled, constants, names, sizes })
}
