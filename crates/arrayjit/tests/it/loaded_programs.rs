//! Programs that are loaded as a whole: values by name, from run to run.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{CompileError, ErrorKind, prelude::*};

const STEP: &str = "
    input x f32[2]
    param w f32[2] := 1
    y[i] := w[i] * x[@k] where @k < 2
    w[i] += x[i]
    keep y";

fn array(values: &[f32]) -> HostArray {
    HostArray::from_slice(values, [values.len()]).unwrap()
}

#[test]
fn a_loaded_program_keeps_its_parameters_from_run_to_run() {
    for name in ["interpreter", "inline", "multicore"] {
        let mut program = Backend::open(name).unwrap().load(STEP).unwrap();
        let error = program.run_with(&[("k", 0)]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoValue { node } if node == "x"), "{error}");
        program.set("x", array(&[2.0, 3.0])).unwrap();
        program.run_with(&[("k", 1)]).unwrap();
        assert_eq!(program.get("y").unwrap().values(), [3.0, 3.0], "{name}");
        program.set("x", array(&[5.0, 7.0])).unwrap();
        program.run_with(&[("k", 0)]).unwrap();
        assert_eq!(program.get("y").unwrap().values(), [15.0, 20.0], "{name}");
        program.set("w", array(&[0.0, 1.0])).unwrap();
        program.run_with(&[("k", 0)]).unwrap();
        assert_eq!(program.get("y").unwrap().values(), [0.0, 5.0], "{name}");
        assert_eq!(program.get("w").unwrap().values(), [5.0, 8.0], "{name}");
    }
}

#[test]
fn names_that_the_program_lacks_are_said() {
    let mut program = Backend::open("inline").unwrap().load(STEP).unwrap();
    let says = |error: Error, text: &str| assert!(error.to_string().contains(text), "{error}");
    says(program.set("z", array(&[1.0])).unwrap_err(), "`z`");
    says(program.get("z").unwrap_err(), "`z`");
    says(
        program.run_with(&[("j", 0), ("k", 0)]).unwrap_err(),
        "the program has the symbol `@k`, but the symbols `@j`, `@k` were given",
    );
    says(program.run().unwrap_err(), "the program has the symbol `@k`, but no symbol was given");
    let malformed = Backend::open("inline").unwrap().load("y :=").unwrap_err();
    assert!(matches!(malformed.kind(), ErrorKind::Compile(CompileError::Text(_))), "{malformed}");
}
