//! Networks of tensors: objects compute the bits of executables.

use arrayjit::{Backend, HostArray, TensorNode};
use arrayjit_aot::{CompiledProgram, Library};
use arrayjit_tensor::{DType, Graph, Init, ModelState, Params, Tensor, TensorError};
use object_loader::{LoadedObject, levels};
use std::sync::Arc;

use crate::programs::{TRIPLE, run_on, symbol};

/// Two layers with a residual connection, and a constant for each column.
fn network(params: &Params) -> Result<(Graph, Tensor), TensorError> {
    let graph = Graph::new();
    let x = graph.input("x", [5, 8], DType::F32)?;
    let first = params.parameter("first", [8, 8], Init::kaiming_uniform(8, 1.0))?;
    let second = params.parameter("second", [8, 3], Init::kaiming_uniform(8, 1.0))?;
    let scale = graph.constant(HostArray::from_slice(&[0.5f32, 2.0, -1.0], [3])?)?;
    let h = (x.matmul(&first)?.tanh()? + &x)?;
    let y = (h.matmul(&second)? * &scale)?;
    Ok((graph, y))
}

/// The values of a trained network by the names of its parameters, for the parameters of another instance.
fn constants(graph: &Graph, trained: &ModelState) -> Result<Vec<(TensorNode, Arc<HostArray>)>, TensorError> {
    let mut constants = graph.constants();
    let all = trained.params().all();
    for parameter in graph.parameters() {
        let same = all.iter().find(|other| other.name() == parameter.name()).expect("the same network");
        constants.push((parameter.node().clone(), Arc::new(trained.get(same)?)));
    }
    Ok(constants)
}

#[test]
fn a_network_of_tensors_ships_with_its_weights() -> Result<(), Box<dyn std::error::Error>> {
    let params = Params::new(7);
    let (graph, y) = network(&params)?;
    let trained = ModelState::new(&Backend::open("inline")?, &params)?;

    let mut library = Library::with_levels("net", TRIPLE, &levels())?;
    library.add("forward", |backend| {
        let (graph, y) = network(&Params::new(0))?; // made anew for each level
        let mut program = graph.program().named("forward");
        program.kept.insert(y.node().clone());
        let compiled = backend.compile_assignments(&program)?;
        let constants = constants(&graph, &trained)?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(CompiledProgram { constants, ..compiled.into() })
    })?;

    let routine = &library.routines()[0];
    assert_eq!(routine.arrays().len(), 2);
    let numbers: Vec<f32> = (0..40).map(|at| (at * 13 % 17) as f32 / 8.0 - 1.0).collect();
    let x = HostArray::from_slice(&numbers, [5, 8])?;
    let expected = graph.compile(&trained, &[&y])?.run(&[("x", &x)])?;
    let object = LoadedObject::new(&library.object()?);
    for level in levels() {
        let given = [x.clone(), HostArray::zeros(DType::F32, [5, 3])?];
        let found = run_on(&object, &symbol("net", "forward", level), routine, &given, &[]).expect("it runs");
        assert!(found[1] == expected[0].bytes(), "{level}");
    }
    Ok(())
}
