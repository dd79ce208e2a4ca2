//! Scans: the bits of the same operations one after the other, with their gradients, and wrong use.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::assign::{ProgramStep, all_steps};
use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, Init, ModelState, NumericClass, Parameter, Params, Settings, Tensor,
    TensorError, TensorOperand,
};

const STEPS: usize = 12;
const BATCH: usize = 3;
const WIDTH: usize = 5;

/// How the steps of a network become statements.
#[derive(Clone, Copy)]
enum Form {
    Repeated,
    Scan,
    Checkpoints(usize),
    /// A scan whose gradient may store one byte, so that it gets checkpoints.
    Limited,
}

/// A step of a network with two states, one of which is only passed on, and a value to collect.
fn step([w, u]: &[Parameter; 2], x: &Tensor, h: &Tensor, old: &Tensor) -> Result<[Tensor; 3], TensorError> {
    let sum = (x.matmul(w)? + h.matmul(u)?)?;
    let new = (sum.tanh()? + (old * 0.25)?)?;
    let seen = (&new * h)?.sum(-1)?;
    Ok([new, h.clone(), seen])
}

/// The states behind the last step and what is collected, then the gradient by the weights, the input and the
/// initial state.
fn network(form: Form, backwards: bool) -> Vec<Vec<f64>> {
    let params = Params::new(5);
    let normal = Init::Normal { mean: 0.0, std: 0.4 };
    let weights = ["w", "u"].map(|name| params.parameter(name, [WIDTH, WIDTH], normal.clone()).unwrap());
    let graph = Graph::new();
    let x = graph.input("x", [BATCH, STEPS, WIDTH], DType::F32).unwrap();
    let start = graph.input("start", [BATCH, WIDTH], DType::F32).unwrap();
    let old = graph.zeros(&[BATCH, WIDTH], DType::F32).unwrap();
    let results = match form {
        Form::Repeated => repeated(&weights, &x, [&start, &old], backwards),
        Form::Scan => scanned(&weights, &x, [&start, &old], (backwards, None)),
        Form::Checkpoints(every) => scanned(&weights, &x, [&start, &old], (backwards, Some(every))),
        Form::Limited => {
            graph.limit_scan_gradients(1);
            scanned(&weights, &x, [&start, &old], (backwards, None))
        }
    };
    let results = results.unwrap_or_else(|error| panic!("{error}"));
    let terms: Vec<Tensor> = results.iter().map(|y| y.square().unwrap().sum(..).unwrap()).collect();
    let loss = terms.into_iter().reduce(|sum, term| (sum + term).unwrap()).unwrap();
    let trainable = params.trainable();
    let mut by: Vec<&dyn TensorOperand> = vec![&x, &start];
    by.extend(trainable.iter().map(|parameter| parameter as &dyn TensorOperand));
    let gradients = graph.gradients(&loss, &by).unwrap();
    let program = graph.program();
    let loops = match form {
        Form::Repeated => 0,
        Form::Scan => 2,
        // The forward pass, and the backward pass with the steps that it computes again, over segments.
        Form::Checkpoints(_) | Form::Limited => 5,
    };
    let scans = all_steps(&program.steps).filter(|step| matches!(step, ProgramStep::Scan { .. })).count();
    assert_eq!(scans, loops);
    let results: Vec<&Tensor> = results.iter().chain(&gradients).collect();

    let mut settings = Settings::default();
    settings.numerics = NumericClass::Strict;
    let weights = ModelState::new(&Backend::open_with("inline", &settings).unwrap(), &params).unwrap();
    let values =
        |count: usize| (0..count).map(|at| ((at * 37 % 101) as f32 - 50.0) / 40.0).collect::<Vec<_>>();
    let data = HostArray::from_slice(&values(BATCH * STEPS * WIDTH), [BATCH, STEPS, WIDTH]).unwrap();
    let first = HostArray::from_slice(&values(BATCH * WIDTH), [BATCH, WIDTH]).unwrap();
    let model = graph.compile(&weights, &results).unwrap_or_else(|error| panic!("{error}\n{graph:?}"));
    let found = model.run(&[("x", &data), ("start", &first)]).unwrap();
    found.iter().map(HostArray::values).collect()
}

fn repeated(
    weights: &[Parameter; 2],
    x: &Tensor,
    [start, old]: [&Tensor; 2],
    backwards: bool,
) -> Result<Vec<Tensor>, TensorError> {
    let (mut h, mut old, mut all) = (start.clone(), old.clone(), Vec::new());
    for at in 0..STEPS {
        let at = if backwards { STEPS - 1 - at } else { at };
        let [new, last, seen] = step(weights, &x.select(1, at)?, &h, &old)?;
        (h, old) = (new, last);
        all.push(seen);
    }
    if backwards {
        all.reverse();
    }
    Ok(vec![h, old, Tensor::stack(&all.iter().collect::<Vec<_>>(), 0)?])
}

fn scanned(
    weights: &[Parameter; 2],
    x: &Tensor,
    initial: [&Tensor; 2],
    (backwards, every): (bool, Option<usize>),
) -> Result<Vec<Tensor>, TensorError> {
    let scan = x.graph().scan(STEPS).backwards(backwards);
    let scan = match every {
        Some(every) => scan.checkpoint(every),
        None => scan,
    };
    let (last, seen) = scan.run(initial.map(|value| value as &dyn TensorOperand), |at, [h, old]| {
        let [new, last, seen] = step(weights, &at.slice(x, 1)?, &h, &old)?;
        Ok(([new, last], [seen]))
    })?;
    Ok([&last[..], &seen[..]].concat())
}

#[test]
fn a_scan_has_the_bits_of_repeated_operations() {
    for backwards in [false, true] {
        let expected = network(Form::Repeated, backwards);
        let every = [1, 4, STEPS].map(Form::Checkpoints);
        for form in [Form::Scan, Form::Limited].into_iter().chain(every) {
            let found = network(form, backwards);
            for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                assert_eq!(expected, found, "result {at}, backwards {backwards}");
            }
        }
    }
}

/// The results of a graph without inputs.
fn run(graph: &Graph, results: &[&Tensor]) -> Vec<Vec<f64>> {
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(1)).unwrap();
    let model = graph.compile(&weights, results).unwrap_or_else(|error| panic!("{error}\n{graph:?}"));
    model.run(&[]).unwrap().iter().map(HostArray::values).collect()
}

fn constant(graph: &Graph, values: &[f32], shape: &[usize]) -> Tensor {
    graph.constant(HostArray::from_slice(values, shape.iter().copied()).unwrap()).unwrap()
}

#[test]
fn carried_values_change_places() {
    let graph = Graph::new();
    let (one, two) = (constant(&graph, &[1.0], &[]), constant(&graph, &[2.0, 3.0], &[2]));
    let (three, four) = (constant(&graph, &[4.0, 5.0], &[2]), constant(&graph, &[6.0], &[]));
    let initial: [&dyn TensorOperand; 4] = [&one, &two, &three, &four];
    let (last, []) = graph.scan(3).run(initial, |_, [a, b, c, d]| Ok(([d, c, b, (a * 2.0)?], []))).unwrap();
    let last = run(&graph, &last.iter().collect::<Vec<_>>());
    assert_eq!(last, [vec![12.0], vec![4.0, 5.0], vec![2.0, 3.0], vec![4.0]]);
}

#[test]
fn steps_may_ignore_the_values_that_they_carry() {
    for checkpoint in [None, Some(2)] {
        let graph = Graph::new();
        let (x, initial) =
            (constant(&graph, &[1.0, 2.0, 3.0, 4.0], &[4]), constant(&graph, &[5.0, 6.0], &[2]));
        let scan = graph.scan(4);
        let scan = checkpoint.into_iter().fold(scan, |scan, every| scan.checkpoint(every));
        let ([last, sum], [rows]) = scan
            .run([&initial, &x], |step, [_, sum]| {
                let square = step.slice(&x, 0)?.square()?;
                let both = Tensor::stack(&[&square, &square], 0)?;
                Ok(([(&both * 2.0)?, (sum + square)?], [both]))
            })
            .unwrap();
        let parts = [&last, &sum, &rows].map(|part| part.sum(..).unwrap());
        let loss = Tensor::stack(&parts.each_ref(), 0).unwrap().sum(..).unwrap();
        let gradients = graph.gradients(&loss, &[&x, &initial]).unwrap();
        let found = run(&graph, &[&last, &gradients[0], &gradients[1]]);
        assert_eq!(found[0], [32.0, 32.0]);
        assert_eq!(found[1], [13.0, 25.0, 37.0, 81.0]);
        assert_eq!(found[2], [0.0, 0.0]);
    }
}

#[test]
fn scans_stand_in_scans_and_see_the_steps_of_both() {
    let graph = Graph::new();
    let x = constant(&graph, &(0..12).map(|at| at as f32).collect::<Vec<_>>(), &[3, 4]);
    let zero = constant(&graph, &[0.0], &[]);
    let ([total], [rows, numbers]) = graph
        .scan(3)
        .run([&zero], |outer, [total]| {
            let ([sum], []) = graph.scan(4).run([&zero], |inner, [sum]| {
                let number = (outer.number()? * 100.0)?.to_dtype(DType::F32)?;
                Ok(([(sum + (inner.slice(outer.slice(&x, 0)?, 0)? + number)?)?], []))
            })?;
            Ok(([(total + &sum)?], [sum, outer.number()?]))
        })
        .unwrap();
    let found = run(&graph, &[&total, &rows, &numbers]);
    assert_eq!(found[1], [6.0, 422.0, 838.0]);
    assert_eq!((found[0][0], found[2].as_slice()), (1266.0, [0.0, 1.0, 2.0].as_slice()));
}

#[test]
fn a_loop_that_ends_early_has_the_values_and_the_gradient_of_its_steps() {
    let graph = Graph::new();
    let x = constant(&graph, &[1.5, 2.0], &[2]);
    let zero = constant(&graph, &[0.0], &[]);
    let ([power, steps], [rows]) = graph
        .scan(6)
        .run_while(
            [&x, &zero],
            |_, [_, count]| count.lt(3.0),
            |_, [power, count]| Ok(([(&power * &x)?, (count + 1.0)?], [power])),
        )
        .unwrap();
    let gradient = &graph.gradients(&power.sum(..).unwrap(), &[&x]).unwrap()[0];
    let found = run(&graph, &[&power, &steps, &rows, gradient]);
    assert_eq!(found[0], [5.0625, 16.0]);
    assert_eq!(found[1], [3.0]);
    assert_eq!(found[2], [1.5, 2.0, 2.25, 4.0, 3.375, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(found[3], [4.0 * 3.375, 4.0 * 8.0]);
}

#[test]
fn layers_of_one_length_have_letters_of_their_own() {
    let graph = Graph::new();
    let x = constant(&graph, &[1.0, 2.0, 3.0], &[3]);
    let texts = "node s f32[4]\ns[0] := 0\nscan t in 0..3 { s[t + 1] := s[t] + x[t] }\ny[i] := s[i + 1]";
    let sums = graph.apply(texts, &[("x", &x)]).unwrap();
    let ([last], []) = graph
        .scan(3)
        .run([&constant(&graph, &[0.0, 0.0, 0.0], &[3])], |step, [all]| {
            let own = (&sums * step.slice(&sums, 0)?)?;
            Ok(([(all + graph.apply(texts, &[("x", &own)])?)?], []))
        })
        .unwrap();
    assert_eq!(run(&graph, &[&sums, &last]), [[1.0, 3.0, 6.0], [10.0, 40.0, 100.0]]);
}

/// The message of a scan over three steps, without the caller's position.
fn message(scan: impl FnOnce(&Graph, &Tensor) -> Result<Tensor, TensorError>) -> String {
    let graph = Graph::new();
    let x = graph.input("x", [3, 2], DType::F32).unwrap();
    let error = scan(&graph, &x).unwrap_err();
    let TensorError::Operation { location, .. } = &error else { panic!("{error}") };
    assert!(location.file().ends_with("scans.rs"), "{error}");
    error.to_string().replace(&format!(" at {location}"), "")
}

#[test]
fn wrong_use_is_an_error() {
    let same = |x: &Tensor, steps: usize| {
        x.graph().scan(steps).run([x], |_, [x]| Ok(([x], []))).map(|([last], [])| last)
    };
    let (mut inner, mut carried) = (None, None);
    let leaked = message(|graph, x| {
        graph.scan(3).run([x], |step, [h]| {
            inner = Some(step.slice(x, 0)?);
            carried = Some(h.clone());
            Ok(([h], []))
        })?;
        assert!(
            carried
                .as_ref()
                .unwrap()
                .exp()
                .unwrap_err()
                .to_string()
                .contains("body of a scan or function, which has ended")
        );
        inner.as_ref().unwrap().exp()
    });
    let cases = [
        (message(|_, x| same(x, 0)), "scan: steps is 0, expected 1 or more"),
        (
            message(|graph, x| {
                graph.scan(6).checkpoint(4).run([x], |_, [x]| Ok(([x], []))).map(|([last], [])| last)
            }),
            "scan: checkpoint is 4, expected a divisor of the 6 steps",
        ),
        (
            message(|graph, x| {
                graph.scan(3).run([x], |_, [x]| Ok(([x.sum(0)?], []))).map(|([last], [])| last)
            }),
            "scan: the values for the next step is f32[2], expected f32[3, 2]",
        ),
        (
            message(|graph, x| {
                graph.scan(2).run([x], |step, [h]| Ok(([h], [step.slice(x, 0)?]))).map(|([last], _)| last)
            }),
            "step_slice: x has shape [3, 2], expected 2 elements on axis 0, one for each step",
        ),
        (
            message(|graph, x| {
                graph.scan(3).run([&1.0], |_, [h]| Ok(([h], [x.sum(..)?]))).map(|([last], _)| last)
            }),
            "scan: a carried value is 1 of shape [], expected a tensor or parameter with elements",
        ),
        (
            message(|graph, x| {
                let body = |_: &_, [h]: [Tensor; 1]| {
                    graph.gradients(&h.sum(..)?, &[x]).map(|gradients| ([h], [gradients[0].clone()]))
                };
                graph.scan(3).run([x], body).map(|([last], _)| last)
            }),
            "gradients: the body of a scan or function is being written, and a gradient stands in it, expected \
             one behind the scan",
        ),
        (
            message(|graph, x| {
                let ends = graph.scan(3).run_while([x], |_, [h]| h.gt(0.0), |_, [h]| Ok(([h], [])));
                ends.map(|([last], [])| last)
            }),
            "scan: the condition is bool[3, 2], expected one element without axes",
        ),
        (
            message(|graph, x| {
                let other = Graph::new().zeros(&[3, 2], DType::F32)?;
                graph.scan(3).run([x], |_, [h]| Ok(([h], [other]))).map(|([last], _)| last)
            }),
            "scan: zeros_1 belongs to another graph; a graph takes its own tensors and parameters",
        ),
        (
            leaked,
            "exp: step_slice_1 belongs to the body of a scan or function, which has ended; return it from the \
             body",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_body_that_fails_leaves_no_statements() {
    let graph = Graph::new();
    let x = constant(&graph, &[1.0, 2.0], &[2]);
    let before = graph.program().steps.len();
    let mut leaked = None;
    let failed = graph.scan(2).run([&x], |step, [h]| {
        let y = h.exp()?;
        leaked = Some(y.clone());
        Ok(([y], [step.slice(&x, 1)?]))
    });
    assert!(failed.is_err());
    // The copy of the initial value stays, as the result of an operation that nothing reads.
    assert!(graph.program().steps.len() <= before + 2);
    assert!(graph.compile_named("leaked", &weights(), &[&leaked.unwrap()]).is_err());
    assert_eq!(run(&graph, &[&x.exp().unwrap()])[0][0], 1f64.exp() as f32 as f64);
}

fn weights() -> ModelState {
    ModelState::new(&Backend::open("inline").unwrap(), &Params::new(1)).unwrap()
}

#[test]
fn other_threads_do_not_write_into_a_body() {
    let graph = Graph::new();
    let x = constant(&graph, &[1.0, 2.0], &[2]);
    let body = |_: &_, [h]: [Tensor; 1]| {
        let other = std::thread::scope(|scope| scope.spawn(|| x.exp()).join().unwrap());
        assert!(other.unwrap_err().to_string().contains("another thread adds a statement"));
        assert!(graph.compile_named("open", &weights(), &[&x]).is_err());
        Ok(([h], []))
    };
    let ([last], []) = graph.scan(2).run([&x], body).unwrap();
    assert_eq!(run(&graph, &[&last]), [[1.0, 2.0]]);
}
