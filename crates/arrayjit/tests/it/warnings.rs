//! Warnings are part of the compiled routine, and are printed at the first level of `debug`.

use arrayjit::settings::Settings;
use arrayjit::{Backend, BatchMember, DType, TensorNode, WarningKind};
use codegen_testkit::run_in_own_process;

fn nodes() -> [TensorNode; 2] {
    let node = |name: &str, dtype| TensorNode::builder(name).dims([4]).dtype(dtype).build().expect("small");
    [node("x", DType::I32), node("y", DType::F32)]
}

#[test]
fn compiled_code_has_the_warnings_of_its_text() {
    let (backend, nodes) = (Backend::open_with("interpreter", &Settings::default()).expect("opens"), nodes());
    let compiled = backend.compile("y[i] := x[i] / 2 + normal(3)", &nodes).expect("legal");
    let [division, random] = compiled.warnings() else { panic!("{:?}", compiled.warnings()) };
    assert!(matches!(division.kind(), WarningKind::IntegerDivision { .. }), "{division}");
    assert!(matches!(random.kind(), WarningKind::OneRandomNumber { .. }), "{random}");
    assert_eq!(division.span().map(|span| (span.line(), span.text())), Some((1, "x[i] / 2")));
    assert!(backend.compile("y[i] := x[i] / 2.0", &nodes).expect("legal").warnings().is_empty());
    let members = [BatchMember::text("y[i] := i / 2", &nodes), BatchMember::text("y[i] := 1", &nodes)];
    let batch = backend.compile_batch(&members, |_, _| true).expect("legal");
    let counts: Vec<usize> = batch.members().iter().flatten().map(|code| code.warnings().len()).collect();
    assert_eq!(counts, [1, 0]);
}

/// The next test runs this one in a process of its own.
#[test]
fn compiles_with_a_warning() {
    let backend = Backend::open("interpreter").expect("opens");
    backend.compile("y[i] := x[i] / 2", nodes()).expect("legal");
}

#[test]
fn warnings_are_printed_at_level_1() {
    let printed = |level: &str| {
        let output = run_in_own_process("warnings::compiles_with_a_warning", |test| {
            test.env("ARRAYJIT_DEBUG", level);
        });
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = printed("1");
    assert!(
        text.contains("arrayjit: routine y, warning: line 1, column 9: `x[i] / 2` divides integers"),
        "{text}"
    );
    assert!(text.contains("1 | y[i] := x[i] / 2\n  |         ^^^^^^^^\n"), "{text}");
    assert!(!printed("0").contains("warning"));
}
