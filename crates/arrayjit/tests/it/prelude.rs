//! Every function of the prelude computes the values of its formula as native code.

#[path = "../../../assignment-text/tests/it/prelude/array.rs"]
mod array;
#[path = "../../../assignment-text/tests/it/prelude/cases.rs"]
mod cases;

use array::{Array, Case};
use arrayjit::{Backend, Context, DType, HostArray, Program, TensorNode};

fn declared(array: &Array) -> TensorNode {
    let dtype = if array.is_integer { DType::I32 } else { DType::F32 };
    TensorNode::builder(array.name).dims(array.dims.iter().copied()).dtype(dtype).build().expect("small")
}

fn host(array: &Array) -> HostArray {
    let array_of = match array.is_integer {
        true => HostArray::from_slice(
            &array.values.iter().map(|&value| value as i32).collect::<Vec<_>>(),
            array.dims.iter().copied(),
        ),
        false => HostArray::from_slice(
            &array.values.iter().map(|&value| value as f32).collect::<Vec<_>>(),
            array.dims.iter().copied(),
        ),
    };
    array_of.expect("as many values")
}

fn difference(backend: &Backend, case: &Case) -> Result<(), String> {
    let inputs: Vec<TensorNode> = case.inputs.iter().map(declared).collect();
    let is_input = |result: &&Array| case.inputs.iter().any(|input| input.name == result.name);
    let mut program = Program::parse(&case.text).map_err(|error| error.to_string())?;
    for (size, value) in case.sizes {
        program = program.bind(size, *value).map_err(|error| error.to_string())?;
    }
    let results = case.expected.iter().filter(|result| !is_input(result));
    let program = results.fold(program, |program, result| program.keep(result.name));
    let compiled = backend.compile_program(&program, &inputs).map_err(|error| error.to_string())?;
    let context: Context = inputs
        .iter()
        .zip(&case.inputs)
        .fold(backend.context().expect("a stream"), |context, (node, input)| {
            context.init_from_host(node, host(input)).expect("memory")
        });
    let routine = compiled.link(&context).map_err(|error| error.to_string())?;
    routine.run(&case.bindings).map_err(|error| error.to_string())?;
    case.expected.iter().try_for_each(|expected| {
        let input = inputs.iter().find(|node| node.name() == expected.name);
        let node = input.unwrap_or_else(|| compiled.node(expected.name).expect("it is kept"));
        let found = routine.context().to_host(node).map_err(|error| error.to_string())?;
        expected.difference(&node.dims().expect("inferred"), &found.values())
    })
}

#[test]
fn every_function_has_the_values_of_its_formula() {
    for name in ["inline", "multicore"] {
        let backend = Backend::open(name).expect("it is in this build");
        let failed =
            |case: &Case| difference(&backend, case).err().map(|why| format!("{}\n{why}\n", case.text));
        let failures: Vec<String> = cases::all().iter().filter_map(failed).collect();
        assert!(failures.is_empty(), "{name}: {}", failures.join("\n"));
    }
}

/// An odd function of -0 is -0, and one of the least numbers is not 0.
#[test]
fn odd_functions_keep_the_sign_of_zero() {
    let functions =
        ["sin", "tan", "asin", "atan", "sinh", "asinh", "tanh", "atanh", "erf", "expm1", "log1p", "softsign"];
    let x = [-0., 0., -1e-45, 1e-45, -1e-40, 1e-40, f32::NAN];
    for name in ["interpreter", "inline", "multicore"] {
        let backend = Backend::open(name).expect("it is in this build");
        for function in functions {
            let mut program =
                backend.load(&format!("input x f32[7]\ny[i] := {function}(x[i])\nkeep y")).expect("legal");
            program.set("x", HostArray::from_slice(&x, [7]).expect("as many")).expect("declared");
            program.run().expect("all inputs are set");
            let found = program.get("y").expect("kept").values();
            for (x, found) in x.iter().zip(found) {
                // The factor 2/√π of `erf` is 1.13.
                let is_close = (found - f64::from(*x)).abs() <= 0.14 * f64::from(x.abs()) + 2e-45;
                let is_equal = is_close && found.is_sign_negative() == x.is_sign_negative();
                assert!(is_equal || x.is_nan() && found.is_nan(), "{function}({x:e}) is {found:e} on {name}");
            }
        }
    }
}
