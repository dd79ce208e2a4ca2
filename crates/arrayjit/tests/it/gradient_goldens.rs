//! The gradients of random programs on compiling backends: with strict numerics they have the bits of the
//! interpreter, on any number of threads.

use arrayjit::settings::{NumericClass, Settings};
use arrayjit::{Backend, HostArray, TensorNode};
use random_programs::{GradientGolden, NodeMode, ProgramNode, effort, gradient_goldens};

fn backend(name: &str, threads: usize) -> Backend {
    let mut settings = Settings::default();
    (settings.threads, settings.numerics) = (threads, NumericClass::Strict);
    Backend::open_with(name, &settings).expect("it is in every build")
}

/// The program with a statement `grad`, and with loss and gradients kept.
fn text(golden: &GradientGolden) -> String {
    let names: Vec<&str> = golden.gradients.iter().map(|(name, _)| name.as_str()).collect();
    let gradients: Vec<String> = names.iter().map(|name| format!("{name}.grad")).collect();
    format!("{}grad loss by {}\nkeep loss, {}", golden.text, names.join(", "), gradients.join(", "))
}

/// The node, with memory for values of the host if it has some.
fn materialized(given: &ProgramNode) -> ProgramNode {
    let mode = if given.data.is_some() { NodeMode::Materialized } else { given.mode };
    ProgramNode { mode, ..given.clone() }
}

fn array(given: &ProgramNode, node: &TensorNode, values: &[f64]) -> HostArray {
    let mut array = HostArray::zeros(given.dtype, given.dims.iter().copied()).expect("small");
    array.set_values(values).expect("as many values as elements");
    array.with_margins_of(node).expect("the same dimensions")
}

/// The bytes of the loss and of the gradients after a run.
fn results(backend: &Backend, golden: &GradientGolden) -> Result<Vec<Vec<u8>>, String> {
    let nodes: Vec<TensorNode> = golden.nodes.iter().map(|given| materialized(given).tensor_node()).collect();
    let code = backend.compile(&text(golden), &nodes).map_err(|error| error.to_string())?;
    let mut context = backend.context().map_err(|error| error.to_string())?;
    for (given, node) in golden.nodes.iter().zip(&nodes) {
        if let Some(values) = given.values().filter(|_| code.nodes().contains(node)) {
            let with = context.init_from_host(node, array(given, node, &values));
            context = with.map_err(|error| error.to_string())?;
        }
    }
    let routine = code.link(&context).map_err(|error| error.to_string())?;
    let bindings: Vec<i64> = code.symbols().iter().map(|symbol| golden.symbol(&symbol.name)).collect();
    routine.run(&bindings).map_err(|error| error.to_string())?;
    let names = golden.gradients.iter().map(|(name, _)| format!("{name}.grad"));
    let read = |name: String| {
        let node = code.node(&name).map_err(|error| error.to_string())?;
        let values = routine.context().to_host(node).map_err(|error| error.to_string())?;
        Ok(values.bytes().to_vec())
    };
    std::iter::once("loss".to_owned()).chain(names).map(read).collect()
}

#[test]
fn gradients_have_the_bits_of_the_interpreter() {
    let goldens = gradient_goldens();
    let step = goldens.len().div_ceil(effort::cases(10) as usize);
    let interpreter = backend("interpreter", 1);
    let compiling = [("inline", 1), ("multicore", 1), ("multicore", 2), ("multicore", 3)];
    let compiling = compiling.map(|(name, threads)| (name, threads, backend(name, threads)));
    let mut failures = Vec::new();
    for golden in goldens.iter().step_by(step) {
        let expected = results(&interpreter, golden);
        for (name, threads, backend) in &compiling {
            let found = results(backend, golden);
            if found.is_err() || found != expected {
                failures.push(format!(
                    "program {} on {name} with {threads} threads: expected {expected:?}, found {found:?}\n{}",
                    golden.seed,
                    text(golden)
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
