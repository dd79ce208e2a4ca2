//! Assignment text in graphs: functions with row variables, symbols with ranges, several results, numbers,
//! and where errors point.

use arrayjit_tensor::{Backend, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError};

fn weights() -> Result<ModelState, TensorError> {
    ModelState::new(&Backend::open("inline")?, &Params::new(1))
}

/// A function over any number of axes, two results, and a symbol that sets the position.
const TEXT: &str = "def spread(a[..,k]) -> lo[..], hi[..] { lo[..] :min= a[..,k]; hi[..] :max= a[..,k] }
     lo[b], hi[b] := spread(x[b,i] * scale)
     at[b] := x[b,@step] * scale + @step where @step < size";

#[test]
fn texts_have_row_variables_symbols_and_several_results() -> Result<(), TensorError> {
    let graph = Graph::new();
    let x = graph.input("x", [2, 3], DType::F32)?;
    let inputs: &[(&str, &dyn arrayjit_tensor::TensorOperand)] = &[("x", &&x), ("scale", &0.5), ("size", &3)];
    let [hi, at, lo] = graph.apply_all(TEXT, inputs, ["hi", "at", "lo"])?;
    let model = graph.compile(&weights()?, &[&lo, &hi, &at])?;
    let x = HostArray::from_slice(&[1f32, -2., 4., 6., 5., 0.], [2, 3])?;
    for step in 0..3 {
        let results = model.run_with(&[("x", &x)], &[("step", step)])?;
        let expected = [[1., -2., 4.], [6., 5., 0.]].map(|row| row[step as usize] * 0.5 + step as f64);
        assert_eq!(results[0].values(), [-1., 0.]);
        assert_eq!(results[1].values(), [2., 3.]);
        assert_eq!(results[2].values(), expected);
    }
    for step in [-1, 3] {
        let message = model.run_with(&[("x", &x)], &[("step", step)]).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(&format!("binding @step = {step} is outside 0..3")), "{message}");
    }
    Ok(())
}

#[test]
fn numbers_have_the_precision_of_the_arrays() -> Result<(), TensorError> {
    let graph = Graph::new();
    let x = graph.input("x", [1], DType::F64)?;
    let y = graph.apply("y[i] := x[i] * tenth + n", &[("x", &&x), ("tenth", &0.1), ("n", &-7)])?;
    let model = graph.compile(&weights()?, &[&y])?;
    let found = model.run(&[("x", &HostArray::from_slice(&[3f64], [1])?)])?;
    assert_eq!(found[0].values(), [3.0 * 0.1 - 7.0]);
    Ok(())
}

/// The line and column of the error of a text, and its line in the caller.
fn place(text: &str) -> (usize, usize) {
    let graph = Graph::new();
    let x = graph.input("x", [2, 3], DType::F32).unwrap();
    let line = line!() + 1;
    let error: TensorError = graph.apply(text, &[("x", &x), ("n", &5), ("half", &0.5)]).unwrap_err();
    let TensorError::Operation { location, problem, .. } = &error else { panic!("{error}") };
    assert_eq!((location.line(), location.file()), (line, file!()));
    let TensorError::Text(found) = &**problem else { panic!("{error}") };
    let message = error.to_string();
    assert!(message.contains(&format!("line {}, column {}: ", found.line(), found.column())), "{message}");
    let source = text.lines().nth(found.line() - 1).unwrap();
    assert!(message.contains(&format!("\n{} | {source}\n", found.line())), "{message}");
    (found.line(), found.column())
}

/// The numbers that a text mentions take no room in it.
#[test]
fn errors_point_into_the_text_of_the_caller() {
    assert_eq!(place("y[i] := z[i,j] * n"), (1, 9));
    assert_eq!(place("y[i] := x[i,j] * (n + "), (1, 23));
    assert_eq!(place("y[i] := half * x[i]"), (1, 16));
    assert_eq!(place("a[i,j] := x[i,j] * n\ny[i] := x[i, n]"), (2, 14));
    assert_eq!(place("size n = 3\ny[i] := x[i, n]"), (1, 6));
    let function = "def row(a[..,k]) -> y[..] {\n  y[..] := a[..,n]\n}\ny[i] := row(x[i,j])";
    assert_eq!(place(function), (2, 17));
}

#[test]
fn several_results_must_all_be_written() -> Result<(), TensorError> {
    let graph = Graph::new();
    let x = graph.input("x", [2, 3], DType::F32)?;
    let apply = |names: [&str; 2]| -> Result<[Tensor; 2], TensorError> {
        graph.apply_all("y[i] :+= x[i,j]; z[i] := y[i] * 2", &[("x", &&x)], names)
    };
    assert!(apply(["z", "y"]).is_ok());
    let message = apply(["y", "w"]).unwrap_err().to_string();
    assert!(message.contains("unknown node `w`"), "{message}");
    Ok(())
}
