//! Programs and targets for which there is no library are errors that name the user's object.

use arrayjit::{Backend, HostArray, Nodes};
use arrayjit_aot::{AotError, CompiledProgram, Library, ObjectLevel};

use crate::programs::TRIPLE;

fn rejected<T>(result: Result<T, AotError>) -> String {
    match result {
        Ok(_) => panic!("it is accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn targets_without_code_are_named() {
    let error = rejected(Library::new("a", "my laptop"));
    assert!(error.contains("`my laptop`"), "{error}");
    for triple in ["riscv64gc-unknown-linux-gnu", "wasm32-unknown-unknown", "aarch64-pc-windows-msvc"] {
        let error = rejected(Library::new("a", triple));
        assert!(error.contains(triple) && error.contains("x86-64 and ARM64"), "{error}");
    }
    let other = if cfg!(target_arch = "x86_64") { ObjectLevel::Arm64 } else { ObjectLevel::X86V3 };
    let error = rejected(Library::with_levels("a", TRIPLE, &[other]));
    assert!(error.contains(&format!("`{other}`")) && error.contains(TRIPLE), "{error}");
    let error = rejected(Library::with_levels("a", TRIPLE, &[]));
    assert!(error.contains("library `a`"), "{error}");
    let error = "x86-64-v5".parse::<ObjectLevel>().expect_err("no level").to_string();
    assert!(error.contains("`x86-64-v4`"), "{error}");
}

#[test]
fn names_that_are_no_identifiers_are_rejected() {
    for name in ["", "A", "1a", "a-b", "fn", "é"] {
        let error = rejected(Library::new(name, TRIPLE));
        assert!(error.contains(&format!("`{name}`")), "{error}");
    }
    let mut library = Library::new("a", TRIPLE).expect("a target");
    let text = "input x f32[3]; y[i] := x[i]; keep y";
    library.add_text("f", text, &[]).expect("a valid text");
    let error = rejected(library.add_text("f", text, &[]).map(|_| ()));
    assert!(error.contains("`f`"), "{error}");
}

#[test]
fn programs_that_need_the_runtime_are_rejected() {
    let mut library = Library::new("a", TRIPLE).expect("a target");
    let error = rejected(library.add_text("f", "input x f32[3]; y[i] := z[i]; keep y", &[]).map(|_| ()));
    assert!(error.contains("routine `f`") && error.contains('z'), "{error}");
    let error = rejected(library.add_text("f", "input x f64[3]; y[i] := sin(x[i]); keep y", &[]).map(|_| ()));
    assert!(error.contains("routine `f`") && error.contains("sine"), "{error}");
    let merge = "input g f32[3]; g[i] += g.merge[i]; keep g";
    let error = rejected(library.add_text("f", merge, &[]).map(|_| ()));
    assert!(error.contains("routine `f`") && error.contains("merge"), "{error}");
    let elsewhere = |_: &Backend| {
        let backend = Backend::open("inline").expect("a backend");
        let text = "input x f32[3]; y[i] := x[i]; keep y";
        backend.compile(text, &Nodes::default()).map(CompiledProgram::from)
    };
    let error = rejected(library.add("f", elsewhere).map(|_| ()));
    assert!(error.contains("routine `f`") && error.contains("another code generator"), "{error}");
    assert!(library.routines().is_empty());
}

#[cfg(not(feature = "cross"))]
#[test]
fn targets_of_the_other_architecture_need_a_feature() {
    let other = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
    let mut library = Library::new("a", &format!("{other}-unknown-linux-gnu")).expect("a target");
    let text = "input x f32[3]; y[i] := x[i]; keep y";
    let error = rejected(library.add_text("f", text, &[]).map(|_| ()));
    assert!(error.contains(other) && error.contains("`cross`"), "{error}");
}

#[test]
fn constants_that_do_not_fit_are_rejected() {
    let mut library = Library::new("a", TRIPLE).expect("a target");
    let text = "input x f32[3], w f32[3]; y[i] := x[i] * w[i]; keep y";
    let [three, four] = [3, 4].map(|n| HostArray::from_slice(&vec![1f32; n], [n]).expect("a small array"));
    let mut add = |node, values| rejected(library.add_text("f", text, &[(node, values)]).map(|_| ()));
    let error = add("w", &four);
    assert!(error.contains("`w`") && error.contains("f32[4]") && error.contains("f32[3]"), "{error}");
    let error = add("v", &three);
    assert!(error.contains("`v`"), "{error}");
    let error = add("y", &three);
    assert!(error.contains("writes node `y`"), "{error}");
}
