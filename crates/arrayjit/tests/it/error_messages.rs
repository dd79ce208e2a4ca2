//! Errors print the same message as `Display`, as `Debug`, and when `main` returns them.

use std::error::Error;
use std::process::Command;

use arrayjit::{Backend, HostArray, Settings, TensorNode};

const LINE_AND_CARET: &str = "1 | y[i] := x[i] * 2 +\n  |                   ^";

fn compile_a_text_that_ends_early() -> Result<(), Box<dyn Error>> {
    let x = TensorNode::builder("x").dims([4]).build()?;
    let y = TensorNode::builder("y").dims([4]).build()?;
    let backend = Backend::open_with("inline", &Settings::default())?;
    backend.compile("y[i] := x[i] * 2 +", [&x, &y])?;
    Ok(())
}

/// Fails like a `main` that returns the same result; `std::process::Termination` reports both alike.
#[test]
#[ignore = "it fails; `a_main_that_returns_an_error_shows_the_caret` runs it"]
fn a_main_that_fails() -> Result<(), Box<dyn Error>> {
    compile_a_text_that_ends_early()
}

#[test]
fn a_main_that_returns_an_error_shows_the_caret() {
    let own = std::env::current_exe().expect("the test's own program");
    let run = Command::new(own)
        .args(["--exact", "error_messages::a_main_that_fails", "--ignored", "--nocapture"])
        .output();
    let run = run.expect("the test's own program starts");
    let printed = String::from_utf8_lossy(&run.stderr);
    assert!(printed.starts_with("Error: line 1, column 19: "), "{printed}");
    assert!(printed.contains(LINE_AND_CARET), "{printed}");
    assert!(!printed.contains("TextError"), "{printed}");
}

#[test]
fn errors_of_every_layer_print_their_message_as_debug() {
    let text = compile_a_text_that_ends_early().expect_err("the text ends early");
    let array = HostArray::from_slice(&[1f32, 2.0], [3]).expect_err("2 elements are not 3");
    let backend =
        Backend::open_with("abacus", &Settings::default()).map(|_| ()).expect_err("no such backend");
    let mode = "everywhere".parse::<arrayjit::MemoryMode>().expect_err("no such mode");
    let settings = Settings::load_from(["--arrayjit-debug=much".into()], [], std::env::temp_dir().as_path());
    let settings = settings.map(|_| ()).expect_err("no number");
    let x = TensorNode::builder("x").dims([4]).build().expect("a small node");
    let inline = Backend::open_with("inline", &Settings::default()).expect("it is in every build");
    let run = inline.context().expect("a context").to_host(&x).expect_err("it was never given values");
    let errors: [Box<dyn Error>; 6] =
        [text, array.into(), backend.into(), mode.into(), settings.into(), run.into()];
    for error in errors {
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(format!("{error:#?}"), error.to_string());
    }
}
