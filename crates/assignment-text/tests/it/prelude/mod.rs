//! The functions of the prelude: their values and costs, the names that hide them, and errors in and about
//! them.

mod accuracy;
mod array;
mod by_hand;
mod cases;
mod hygiene;

use crate::program::{Machine, f32s, node};

use array::{Array, Case};
use assignment_text::{Program, parse};
use assignments::lower::{LowerOptions, lower};
use expect_test::{Expect, expect, expect_file};
use tnode::{DType, TensorNode};

fn declared(array: &Array) -> TensorNode {
    node(array.name, if array.is_integer { DType::I32 } else { DType::F32 }, &array.dims)
}

/// Runs a case by the interpreter, and returns the first difference. Results that are no inputs are not
/// declared.
fn difference(case: &Case) -> Result<(), String> {
    let inputs: Vec<TensorNode> = case.inputs.iter().map(declared).collect();
    let is_input = |result: &&Array| case.inputs.iter().any(|input| input.name == result.name);
    let mut program = Program::parse(&case.text).map_err(|error| error.to_string())?;
    for (size, value) in case.sizes {
        program = program.bind(size, *value).map_err(|error| error.to_string())?;
    }
    let results = case.expected.iter().filter(|result| !is_input(result));
    let program = results.fold(program, |program, result| program.keep(result.name));
    let assignments = program.assignments(&inputs).map_err(|error| error.to_string())?;
    lower(&assignments, &LowerOptions::default()).map_err(|error| error.to_string())?;
    let mut machine = Machine::new(&assignments);
    for (node, input) in inputs.iter().zip(&case.inputs) {
        machine.set(node, &input.values);
    }
    machine.run(&case.bindings);
    case.expected.iter().try_for_each(|expected| {
        let mut nodes = inputs.iter().chain(&assignments.kept);
        let node = nodes.find(|node| node.name() == expected.name).expect("it is kept");
        let dims = node.dims().expect("inferred");
        expected.difference(&dims, &machine.get(node))
    })
}

#[test]
fn every_function_has_the_values_of_its_formula() {
    let failed = |case: &Case| difference(case).err().map(|why| format!("{}\n{why}\n", case.text));
    let failures: Vec<String> = cases::all().iter().filter_map(failed).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn expanded(text: &str) -> String {
    let program = Program::parse(text).unwrap_or_else(|error| panic!("{error}"));
    program.expand().unwrap_or_else(|error| panic!("{error}")).to_string()
}

/// A program that defines a function itself means its own, also where it calls the prelude's functions; these
/// call each other. The sizes of a program mean nothing in the prelude.
#[test]
fn definitions_of_the_program_hide_those_of_the_prelude() {
    let text = "
        size k, e, v = 3
        def softmax(x[..,i]) -> y[..,i] { y[..,i] := sigmoid(log_softmax(x[..,i])) }
        y[b,i] := softmax(x[b,i])";
    expect![[r#"
        log_softmax.1.m[b] :max= x[b,k]
        detach log_softmax.1.m
        log_softmax.1.s[b] :+= exp(x[b,k] - log_softmax.1.m[b])
        log_softmax.1.y[b,k] := x[b,k] - log_softmax.1.m[b] - log(log_softmax.1.s[b])
        y[b,i] := sigmoid(log_softmax.1.y[b,i])
    "#]]
    .assert_eq(&expanded(&text.replace("size k, e, v = 3", "size k = 1, e = 2, v = 3")));
    // The program's function has the name of one that the prelude's function calls.
    expect![[r#"
        attention.1.r[i,c] := q[i,c] * recip_sqrt(size(c))
        attention.1.s[i,j] :+= attention.1.r[i,c] * k[j,c]
        softmax.2.m[i] :max= attention.1.s[i,k]
        detach softmax.2.m
        softmax.2.e[i,k] := exp(attention.1.s[i,k] - softmax.2.m[i])
        softmax.2.s[i] :+= softmax.2.e[i,k]
        attention.1.p[i,k] := softmax.2.e[i,k] / softmax.2.s[i]
        y[i,d] :+= attention.1.p[i,j] * v[j,d]
    "#]]
    .assert_eq(&expanded(
        "def softmax(q[i,c], k[j,c], v[j,d]) -> y[i,d] { y[i,d] := attention(q[i,c], k[j,c], v[j,d]) }
         y[i,d] := softmax(q[i,c], k[j,c], v[j,d])",
    ));
}

/// Programs may define functions that the language got later.
#[test]
fn definitions_of_the_program_hide_late_functions_of_the_language() {
    expect![[r#"
        log1p.1.y[i] := log(1 + x[i])
        y[i] := log1p.1.y[i] + tanh(x[i])
    "#]]
    .assert_eq(&expanded(
        "def log1p(x[..]) -> y[..] { y[..] := log(1 + x[..]) }
         y[i] := log1p(x[i]) + tanh(x[i])",
    ));
}

/// In a program of doubles, the functions have no node, constant or operation of another float type.
#[test]
fn functions_take_the_type_of_their_operands() {
    let doubled =
        |array: &Array| node(array.name, if array.is_integer { DType::I32 } else { DType::F64 }, &array.dims);
    let schedule = "param w f64[3] := 1, m f64[3] := 0, v f64[3] := 0; input g f64[3], count f32
        rate := 0.1 * warm_up(@t, 10) * cosine_decay(@t, 100) where @t < 100
        adam(w[i], g[i], m[i], v[i], @t, rate); adamw(w[i], g[i], m[i], v[i], count)";
    let cases = cases::all().into_iter().map(|case| {
        let inputs = case.inputs.iter().map(doubled).collect();
        (case.text, case.sizes, inputs, case.expected.iter().map(|result| result.name).collect())
    });
    let schedule = (schedule.to_owned(), &[][..], Vec::new(), Vec::new());
    for (text, sizes, inputs, results) in cases.chain([schedule]) {
        let (inputs, results): (Vec<TensorNode>, Vec<&str>) = (inputs, results);
        // Random numbers that are compared have a type of their own, and some programs state types.
        if text.contains("dropout")
            || text.starts_with("rate := warm_up")
            || text.contains(" f32[")
            || text.contains("f32(")
        {
            continue;
        }
        let mut program = Program::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        for (size, value) in sizes {
            program = program.bind(size, *value).unwrap_or_else(|error| panic!("{error}"));
        }
        let is_input = |name: &&str| inputs.iter().any(|input| input.name() == *name);
        let results = results.into_iter().filter(|name| !is_input(name));
        let program = results.fold(program, |program, name| program.keep(name));
        let assignments = program.assignments(&inputs).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let lowered = lower(&assignments, &LowerOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let routine = lowered_ir::text::print(&lowered.lowered.routine);
        let lines = routine.lines().filter(|line| !line.trim_start().starts_with("comment"));
        let narrow: Vec<&str> = lines.filter(|line| line.contains("f32")).collect();
        let is_count = |line: &&str| line.contains("\"count\"") || line.contains("convert f64");
        assert!(narrow.iter().all(is_count), "{text}\n{}", narrow.join("\n"));
    }
}

fn error(text: &str, expected: Expect) {
    let nodes = [f32s("x", &[4, 6]), f32s("w", &[6]), f32s("y", &[4, 6]), f32s("z", &[4, 6, 2])];
    match parse(text, &nodes) {
        Ok(assignments) => panic!("accepted:\n{assignments}"),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn errors_name_the_source_and_the_call() {
    error(
        "y[i,j] := layer_norm(x[i,j], w[j])",
        expect![[r#"
        line 1, column 11: function `layer_norm` has no argument for `bias`
        1 | y[i,j] := layer_norm(x[i,j], w[j])
          |           ^^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
    error(
        "y[i,j] := softmax(x[i,j], 2)",
        expect![[r#"
        line 1, column 11: function `softmax` takes 1 argument, found 2
        1 | y[i,j] := softmax(x[i,j], 2)
          |           ^^^^^^^^^^^^^^^^^^"#]],
    );
    error(
        "y[i,j] := layer_norm(x[i,j], w[i], w[j])",
        expect![[r#"
        line 1, column 30: axis `k` of function `layer_norm` is the axis `j` in an earlier argument, found the axis `i`
        1 | y[i,j] := layer_norm(x[i,j], w[i], w[j])
          |                              ^^^^"#]],
    );
    error(
        "softmax(x[i,j])",
        expect![[r#"
        line 1, column 1: function `softmax` has 1 result, found 0 targets
        1 | softmax(x[i,j])
          | ^^^^^^^^^^^^^^^"#]],
    );
    error(
        "y[i,j] := rotary(x[i,j], bass = 3)",
        expect![[r#"
        line 1, column 26: function `rotary` has no parameter `bass`; expected base
        1 | y[i,j] := rotary(x[i,j], bass = 3)
          |                          ^^^^"#]],
    );
    error(
        "y[i,j] := sofmax(x[i,j])",
        expect![[r#"
        line 1, column 11: unknown function `sofmax`; expected softmax
        1 | y[i,j] := sofmax(x[i,j])
          |           ^^^^^^"#]],
    );
    error(
        "y[i,k] := attention(x[i,c], z[j,0,c], x[j,k])",
        expect![[r#"
            prelude/attention.assign, line 7, column 38: letter `c` runs over 6 elements (axis 1 of `r[..,i,c]`), but axis 2 of node `z` has 2
            7 |     s[..,i,j] :+= r[..,i,c] * k[..,j,c]
              |                                      ^
            in function `attention`, line 1, column 11
            1 | y[i,k] := attention(x[i,c], z[j,0,c], x[j,k])
              |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
    error(
        "y[i,j] := dropout(z[i,j,k], 0.5, 1.5)[i,j,0]",
        expect![[r#"
            prelude/activations.assign, line 75, column 28: an index is a sum of integers and integer multiples of letters and symbols; found a value
            75 |     y[..] := where(uniform(seed, step, ..) < rate, 0, x[..] / (1 - rate))
               |                            ^^^^
            in function `dropout`, line 1, column 11
            1 | y[i,j] := dropout(z[i,j,k], 0.5, 1.5)[i,j,0]
              |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"#]],
    );
    error(
        "y[i,j] := x[i, j + size(x, 2)]",
        expect![[r#"
        line 1, column 20: node `x` has dimensions [4, 6], found axis 2
        1 | y[i,j] := x[i, j + size(x, 2)]
          |                    ^^^^^^^^^^"#]],
    );
    error(
        "y[i,j] := x[i, j + size(j)]",
        expect![[r#"
        line 1, column 20: an index is a sum of integers and integer multiples of letters and symbols; found the size of a letter; the size of an axis is written `size(x, 0)`
        1 | y[i,j] := x[i, j + size(j)]
          |                    ^^^^^^^"#]],
    );
}

/// The size of an axis is an integer in indices, ranges and values.
#[test]
fn sizes_of_axes() {
    let (x, y) = (f32s("x", &[4, 6]), f32s("y", &[3, 6]));
    let text = "y[i,j] := x[size(x, 0) - 1 - i,j] * size(x, 1) / size(y, 0) where i < size(x, 0) - 1";
    let mut machine = Machine::new(&parse(text, &[x.clone(), y.clone()]).unwrap_or_else(|e| panic!("{e}")));
    let values: Vec<f64> = (0..24).map(f64::from).collect();
    machine.set(&x, &values);
    machine.run(&[]);
    let expected: Vec<f64> = (0..18).map(|at| values[(3 - at / 6) * 6 + at % 6] * 2.0).collect();
    assert_eq!(machine.get(&y), expected);
    assert_eq!(expanded(text), format!("{text}\n"));
}

/// The signature and the comment of each function in the sources, as the document shows them.
fn reference() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("prelude");
    let files = std::fs::read_dir(folder).expect("the folder of the sources");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| section(&std::fs::read_to_string(path).expect("text"))).collect()
}

/// The section of one source, which begins with a comment about the whole.
fn section(source: &str) -> String {
    let mut blocks = source.split("\n\n");
    let head = blocks.next().expect("a first part").trim_start_matches("# ").replace("\n# ", "\n");
    let functions = blocks.map(|block| {
        let (comment, definition): (Vec<&str>, Vec<&str>) =
            block.lines().partition(|line| line.starts_with('#'));
        let definition = definition.join("\n");
        let signature = definition.split(" {").next().expect("a first part");
        format!("```text\n{}\n{signature}\n```\n", comment.join("\n"))
    });
    format!("{}\n\n{}\n", head.trim_end(), functions.collect::<Vec<_>>().join("\n"))
}

/// Rewrite with `UPDATE_EXPECT=1`.
#[test]
fn the_document_has_every_function() {
    let document = include_str!("../../../../../docs/prelude.md");
    let (before, _) = document.split_once("## Functions\n\n").expect("a heading");
    expect_file!["../../../../../docs/prelude.md"]
        .assert_eq(&format!("{before}## Functions\n\n{}", reference().trim_end().to_owned() + "\n"));
}
