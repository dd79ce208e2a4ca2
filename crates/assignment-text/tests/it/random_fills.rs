//! Random numbers in assignments: in fills, in expressions, and in the text of both.

use crate::{assignment_text_errors, program};

use assignments::indexing::StaticSymbol;
use assignments::lower::{LowerOptions, lower};
use assignments::{Assignments, KeyPart, Random, builder};
use expect_test::{expect, expect_file};
use lowered_ir::ir::SymbolId;
use lowered_ir::random::{Distribution, Scheme};
use lowered_ir::verify::verify;
use program::{Machine, f32s, node, read};
use tnode::{DType, Padding, TensorNode};

/// The values of a node after one run.
fn run(assignments: &Assignments, bindings: &[i64], node: &TensorNode) -> Vec<f64> {
    let mut machine = Machine::new(assignments);
    verify(&machine.lowered.routine).unwrap_or_else(|error| panic!("{error}"));
    machine.run(bindings);
    machine.get(node)
}

/// Lane `lane` of the sample that the documentation gives for a chunk, as an `f32` uniform.
fn by_hand(key: [u32; 4], row: u32, chunk: u32, lane: usize) -> f64 {
    let words = Scheme::Standard.generator().words(key, [chunk, row, 0, 0]);
    f64::from(words[lane] >> 8) / 16_777_216.0
}

#[test]
fn a_fill_is_what_its_definition_says() {
    let y = f32s("y", &[2, 3, 10]);
    let found = run(&read("y := uniform(42)", &[&y]), &[], &y);
    for (at, &value) in found.iter().enumerate() {
        let (row, column) = (at / 10, at % 10);
        assert_eq!(
            value,
            by_hand([42, 0, 0, 0], row as u32, (column / 4) as u32, column % 4),
            "element {at}"
        );
    }
    let scalar = f32s("scalar", &[]);
    assert_eq!(
        run(&read("scalar := uniform(42)", &[&scalar]), &[], &scalar),
        [by_hand([42, 0, 0, 0], 0, 0, 0)]
    );
}

#[test]
fn all_parts_make_the_key() {
    let y = f32s("y", &[4]);
    let generator = Scheme::Standard.generator();
    let text = read("y := uniform(42, 7, @step, self_id()) where @step < 1000", &[&y]);
    let mut key = [42, 0, 0, 0];
    for number in [7, 555, y.id().get() as u32] {
        key = generator.words(key, [number, 0, 0, 1 << 31]);
    }
    let expected: Vec<f64> = (0..4).map(|lane| by_hand(key, 0, 0, lane)).collect();
    assert_eq!(run(&text, &[555], &y), expected);
    assert_ne!(run(&text, &[556], &y), expected);
}

#[test]
fn every_type_and_size_is_filled() {
    for dtype in DType::ALL {
        for last in [0, 1, 2, 3, 4, 15, 16, 17, 33] {
            let y = node("y", dtype, &[3, last]);
            let found = run(&read("y := uniform(5)", &[&y]), &[], &y);
            let wide = node("wide", dtype, &[3, 40]);
            let rows = run(&read("wide := uniform(5)", &[&wide]), &[], &wide);
            let expected: Vec<f64> = rows.chunks(40).flat_map(|row| row[..last].to_vec()).collect();
            assert_eq!(found, expected, "{dtype} {last}: a longer row begins like a shorter one");
        }
    }
}

#[test]
fn normals_fill_floats_alone() {
    for dtype in DType::ALL {
        let y = node("y", dtype, &[2, 9]);
        let program = read("y := normal(3)", &[&y]);
        if dtype.is_float() {
            let found = run(&program, &[], &y);
            assert!(found.iter().any(|&z| z < 0.0) && found.iter().all(|z| z.abs() < 6.0), "{dtype}");
        } else {
            let error = lower(&program, &LowerOptions::default()).expect_err("no float").to_string();
            let expected = format!("assignment to node y: operation normal is not defined for {dtype}\n");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[test]
fn margins_stay() {
    let padding = Padding::new([(1, 2)], None);
    let y = TensorNode::builder("y").dims([5]).padding(padding).build().expect("small");
    let found = run(&read("y := uniform(42)", &[&y]), &[], &y);
    assert_eq!((found[0], &found[6..]), (0.0, &[0.0, 0.0][..]));
    assert_eq!(found[1], by_hand([42, 0, 0, 0], 0, 0, 0));
    assert_eq!(found[5], by_hand([42, 0, 0, 0], 0, 1, 0));
}

#[test]
fn compatible_schemes_have_their_numbers() {
    let (y, h) = (f32s("y", &[2, 4]), node("h", DType::F16, &[8]));
    let rounded = |values: Vec<f64>| values.iter().map(|x| format!("{x:.4}")).collect::<Vec<_>>().join(" ");
    let single = rounded(run(&read("y := uniform(light(42))", &[&y]), &[], &y));
    assert_eq!(single, "0.4638 0.7325 0.5608 0.5066 0.5019 0.9659 0.8031 0.9949");
    let half = rounded(run(&read("h := uniform(light(42))", &[&h]), &[], &h));
    assert_eq!(half, "0.4434 0.4639 0.6729 0.7324 0.3328 0.5605 0.8516 0.5068");
    let bits = node("bits", DType::U32, &[4]);
    let crypto = run(&read("bits := random(crypto(42))", &[&bits]), &[], &bits);
    assert_eq!(crypto, [0x2b9d4622u32, 0x1dae3397, 0xf64d814e, 0xfed53d7d].map(f64::from));
}

#[test]
fn samples_in_a_node_are_made_values() {
    let (bits, y, z) = (node("bits", DType::U32x4, &[2, 3]), f32s("y", &[2, 11]), f32s("z", &[2, 11]));
    let text = "bits := random(42)\ny := uniform(bits)\nz := normal(bits)";
    let program = read(text, &[&bits, &y, &z]);
    let direct = |text: &str, node: &TensorNode| run(&read(text, &[node]), &[], node);
    // Each element of a node of samples is the sample of one chunk.
    assert_eq!(run(&program, &[], &y), direct("y := uniform(42)", &y));
    assert_eq!(run(&program, &[], &z), direct("z := normal(42)", &z));
    let seed = read("bits := random(light(42))\ny := uniform(light(bits))", &[&bits, &y]);
    assert_eq!(run(&seed, &[], &y), direct("y := uniform(light(42))", &y));

    let short = f32s("short", &[2, 8]);
    let rejected =
        |program: &Assignments| lower(program, &LowerOptions::default()).expect_err("rejected").to_string();
    expect![[r#"
        line 1, column 10: node short: `uniform(bits)` takes a sample for each chunk of the last axis, so bits with dimensions [2, 2], found [2, 3]
        1 | short := uniform(bits)
          |          ^^^^^^^^^^^^^"#]]
        .assert_eq(&rejected(&read("short := uniform(bits)", &[&bits, &short])));
    expect![[r#"
        line 1, column 10: assignment to node y: operation uniform is not defined for f32
        1 | short := uniform(y)
          |          ^^^^^^^^^^"#]]
    .assert_eq(&rejected(&read("short := uniform(y)", &[&y, &short])));
}

#[test]
fn an_element_has_a_number_of_its_own() {
    let (x, y) = (f32s("x", &[50, 40]), f32s("y", &[50, 40]));
    let text = "y[i,j] := x[i,j] * (uniform(7, @step, i, j) < 0.9) where @step < 10";
    let program = read(text, &[&x, &y]);
    let generator = Scheme::Standard.generator();
    let key = generator.words([7, 0, 0, 0], [3, 0, 0, 1 << 31]);
    let mut machine = Machine::new(&program);
    machine.set(&x, &[2.0; 2000]);
    machine.run(&[3]);
    let found = machine.get(&y);
    for (at, &value) in found.iter().enumerate() {
        let words = generator.words(key, [(at / 40) as u32, (at % 40) as u32, 0, 0]);
        let keep = words[0] >> 8 < (0.9f32 * 16_777_216.0) as u32;
        assert_eq!(value, if keep { 2.0 } else { 0.0 }, "element {at}");
    }
    let kept = found.iter().filter(|&&value| value != 0.0).count();
    assert!((1740..1860).contains(&kept), "{kept} of 2000 kept at 0.9");
}

#[test]
fn values_take_the_type_that_is_wanted() {
    let (h, d, n) = (node("h", DType::F16, &[6]), node("d", DType::F64, &[6]), node("n", DType::I32, &[6]));
    let text = "h[i] := uniform(1, i)\nd[i] := normal(1, 2 - i)\nn[i] := random(1, i) % 6";
    let mut machine = Machine::new(&read(text, &[&h, &d, &n]));
    machine.run(&[]);
    let generator = Scheme::Standard.generator();
    let word = |i: i32, lane: usize| generator.words([1, 0, 0, 0], [i as u32, 0, 0, 0])[lane];
    let halves: Vec<f64> = (0..6).map(|i| f64::from((word(i, 0) & 0xffff) >> 5) / 2048.0).collect();
    assert_eq!(machine.get(&h), halves);
    let rolled: Vec<f64> = (0..6).map(|i| f64::from(word(i, 0) % 6)).collect();
    assert_eq!(machine.get(&n), rolled);
    let uniform = |i: i32, at: usize| {
        let bits = u64::from(word(i, 2 * at + 1)) << 32 | u64::from(word(i, 2 * at));
        (bits >> 11) as f64 / (1u64 << 53) as f64
    };
    let normal =
        |i: i32| (-2.0 * (1.0 - uniform(i, 0)).ln()).sqrt() * (std::f64::consts::TAU * uniform(i, 1)).cos();
    for (i, &found) in (0..).zip(&machine.get(&d)) {
        let expected = normal(2 - i);
        assert!((found - expected).abs() < 1e-14, "{found} for {expected}");
    }
}

#[test]
fn builder_and_text_agree() {
    let (y, step) = (f32s("y", &[4]), StaticSymbol::ranged("step", 9));
    let noise = Random::normal(42).number(3).part(KeyPart::Symbol(SymbolId(0)));
    let text = read("y := normal(42, 3, @step) where @step < 9", &[&y]);
    assert_eq!(text.steps[1..], builder::random(&y, noise).steps);
    let built = builder::random_at(&y, Random::normal(42).number(3), std::slice::from_ref(&step));
    assert_eq!((&text.steps[1..], &text.symbols), (&built.steps[..], &built.symbols));
    assert_eq!(built.to_string(), "y =: normal(42, 3, @step);\n");

    // Joining programs renumbers symbols.
    let other = builder::embed_symbol(&f32s("t", &[]), &StaticSymbol::ranged("epoch", 5));
    let joined = other.then(built.clone());
    assert_eq!(run(&joined, &[4, 8], &y), run(&built, &[8], &y));
    let element = read("y[i] := uniform(1, @step, i) where @step < 9", &[&y]);
    assert_eq!(element.to_string().lines().last(), Some("y[i0] =: uniform(1, @step, i0);"));
    let other = builder::embed_symbol(&f32s("t", &[]), &StaticSymbol::ranged("epoch", 5));
    assert_eq!(run(&other.then(element.clone()), &[4, 8], &y), run(&element, &[8], &y));

    let samples = node("samples", DType::U32x4, &[1]);
    let sampled = builder::sample_values(&y, Distribution::Uniform, Scheme::CompatLight, &samples);
    assert_eq!(read("y := uniform(light(samples))", &[&y, &samples]).steps[1..], sampled.steps);
    assert_eq!(sampled.to_string(), "y =: uniform(light(samples));\n");
}

#[test]
fn mistakes_are_shown_in_place() {
    let nodes = [f32s("x", &[3]), f32s("y", &[3])];
    assignment_text_errors::check_parser(&expect_file!["../errors/random_numbers.txt"], &nodes);
    let error = lower(
        &builder::random(&nodes[1], Random::uniform(1).part(KeyPart::Symbol(SymbolId(2)))),
        &LowerOptions::default(),
    );
    assert_eq!(
        error.expect_err("no such symbol").to_string(),
        "node y: an index mentions symbol number 2, but the assignments have 0"
    );
}
