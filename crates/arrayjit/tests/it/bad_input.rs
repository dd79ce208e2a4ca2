//! Bad input is a typed error that names the user's object, what was expected and what was found, and changes
//! nothing. One test per kind of mistake; the last ones are hostile inputs.

use arrayjit::settings::Settings;
use arrayjit::{
    Backend, Caps, CompileError, Context, HostArray, MemoryMode, RunError, TensorNode, TensorNodeError,
};
use codegen_cranelift::{CraneliftOptions, cranelift_with};
use scheduling::{ScheduleOptions, schedule};

const BACKENDS: [&str; 3] = ["inline", "multicore", "interpreter"];

fn backend(name: &str) -> Backend {
    Backend::open_with(name, &Settings::default()).expect("every backend of this build opens")
}

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().expect("a small node")
}

fn ones(dims: &[usize]) -> HostArray {
    HostArray::from_slice(&vec![1f32; dims.iter().product()], dims.iter().copied()).expect("as many values")
}

/// Asserts that the message contains all parts.
fn says(error: &dyn std::fmt::Display, parts: &[&str]) {
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

fn rejected(text: &str, nodes: &[&TensorNode]) -> CompileError {
    backend("inline").compile(text, nodes.iter().copied()).map(|_| ()).expect_err("a rejection")
}

#[test]
fn more_threads_or_devices_than_a_machine_has() {
    for name in BACKENDS {
        for most in [1025, usize::MAX] {
            let mut settings = Settings::default();
            settings.threads = most;
            let rejected = Backend::open_with(name, &settings).expect_err("too many");
            says(&rejected, &["`threads`", &most.to_string(), "at most 1024"]);
            let mut settings = Settings::default();
            settings.num_devices = most;
            let rejected = Backend::open_with(name, &settings).expect_err("too many");
            says(&rejected, &["`num_devices`", &most.to_string(), "at most 1024"]);
        }
    }
}

#[test]
fn shapes_that_do_not_fit() {
    let (x, w, y) = (node("x", &[32, 64]), node("w", &[60, 8]), node("y", &[32, 8]));
    let error = rejected("y[b,h] :+= x[b,i] * w[i,h]", &[&x, &w, &y]);
    assert!(matches!(error, CompileError::Text(_)), "{error:?}");
    says(&error, &["line 1, column", "`i`", "64", "60", "`w`"]);
    let error = rejected("y[b] :+= x[b,i]", &[&x, &y]);
    says(&error, &["`y`", "[32, 8]", "1"]);
}

#[test]
fn letters_and_names_nobody_knows() {
    let (x, y) = (node("x", &[4]), node("y", &[4, 5]));
    says(&rejected("y[b,h] := x[b] + q", &[&x, &y]), &["`q`"]);
    says(&rejected("y[b,h] := z[b]", &[&x, &y]), &["`z`"]);
    says(&rejected("y[b,h] := x[b] where k < 3", &[&x, &y]), &["`k`"]);
    let open = rejected("y[2*b,h] :+= x[2*b] * h", &[&x, &y]);
    says(&open, &["`b`"]);
}

#[test]
fn writes_that_leave_elements_without_a_value() {
    let (x, t, y) = (node("x", &[4]), node("t", &[9]), node("y", &[9]));
    let error = rejected("t[2*i] := x[i]\ny[i] := t[i]", &[&x, &t, &y]);
    assert!(matches!(error, CompileError::Lower(_)), "{error:?}");
    says(&error, &["t", "axis 0", "9", "expected an initialization"]);
}

#[test]
fn bindings_out_of_range() {
    let (x, y) = (node("x", &[10]), node("y", &[2]));
    for name in BACKENDS {
        let backend = backend(name);
        let context = backend.context().expect("a stream").init_from_host(&x, ones(&[10])).expect("memory");
        let code = backend.compile("y[i] := x[2*@step + i] where i < 2", [&x, &y]).expect("a valid text");
        let routine = code.link(&context).expect("all nodes are there");
        for (bindings, parts) in [
            (&[][..], &["@step", "expected 1", "found 0"][..]),
            (&[1, 2], &["expected 1", "found 2"]),
            (&[5], &["@step", "5", "0..5"]),
            (&[-1], &["@step", "-1", "0..5"]),
            (&[i64::MAX], &["@step", "0..5"]),
        ] {
            let error = routine.run(bindings).map(|_| ()).expect_err("bad bindings");
            assert!(
                matches!(error, RunError::BindingCount { .. } | RunError::BindingRange { .. }),
                "{error:?}"
            );
            says(&error, parts);
        }
        routine.run(&[4]).expect("the last value is in range");
    }
}

#[test]
fn contexts_that_lack_a_node() {
    let (x, y) = (node("x", &[1000]), node("y", &[1000]));
    for name in BACKENDS {
        let backend = backend(name);
        let code = backend.compile("y[i] := x[i] + 1", [&x, &y]).expect("a valid text");
        let context = backend.context().expect("a stream");
        let before = backend.device().memory().live_bytes;
        let error = code.link(&context).map(|_| ()).expect_err("x has no memory");
        assert!(matches!(error, RunError::ContextLacksNode { .. }), "{error:?}");
        says(&error, &["`x`", "routine `"]);
        assert_eq!(backend.device().memory().live_bytes, before, "nothing stays allocated");
        assert!(!context.contains(&y));
    }
}

fn linked_with_a_virtual_node() -> (Context, TensorNode) {
    let (x, y) = (node("x", &[4]), node("y", &[4]));
    let t = TensorNode::builder("t").dims([4]).mode(MemoryMode::Virtual).build().expect("a node");
    let backend = backend("inline");
    let code = backend.compile("t[i] := x[i] * 2\ny[i] := t[i] + 1", [&x, &t, &y]).expect("a valid text");
    let context = backend.context().expect("a stream").init_from_host(&x, ones(&[4])).expect("memory");
    let routine = code.link(&context).expect("all nodes are there");
    routine.run(&[]).expect("it runs");
    assert_eq!(routine.context().to_host(&y).expect("y is on the device").values(), [3.0; 4]);
    (routine.context().clone(), t)
}

#[test]
fn reading_a_virtual_node() {
    let (context, t) = linked_with_a_virtual_node();
    let error = context.to_host(&t).map(|_| ()).expect_err("t has no memory");
    assert!(matches!(error, RunError::Virtual { .. }), "{error:?}");
    says(&error, &["`t`", "virtual"]);
    let error = context.init_from_host(&t, ones(&[4])).map(|_| ()).expect_err("t has no memory");
    says(&error, &["`t`", "virtual"]);
}

#[test]
fn reading_a_node_from_a_context_without_it() {
    let context = backend("inline").context().expect("a stream");
    let error = context.to_host(&node("x", &[4])).map(|_| ()).expect_err("x is not there");
    assert!(matches!(error, RunError::NotInContext { .. }), "{error:?}");
    says(&error, &["`x`"]);
}

#[test]
fn host_arrays_of_another_shape_or_type() {
    let context = backend("inline").context().expect("a stream");
    let x = node("x", &[4, 5]);
    let error = context.init_from_host(&x, ones(&[5, 4])).map(|_| ()).expect_err("another shape");
    says(&error, &["`x`", "[5, 4]", "[4, 5]"]);
    let doubles = HostArray::from_slice(&[0f64; 20], [4, 5]).expect("as many values");
    let error = context.init_from_host(&x, &doubles).map(|_| ()).expect_err("another type");
    says(&error, &["`x`", "f64", "f32"]);
    let error = HostArray::from_slice(&[0f32; 3], [4, 5]).map(|_| ()).expect_err("too few values");
    says(&error, &["3", "20"]);
}

#[test]
fn malformed_loop_ir() {
    for (text, parts) in [
        ("", &["routine"][..]),
        ("routine @r {", &["1"]),
        ("routine @r {\n  node %0 \"x\" f31[4]\n}\n", &["f31"]),
        (
            "routine @r {\n  node %0 \"x\" f32[4]\n  %0[0] := 1.0f64 +\n}\n",
            &["line 4", "an expression", "`}`"],
        ),
        ("routine @r {\n  node %0 \"x\" f32[99999999999999999999]\n}\n", &["99999999999999999999"]),
        ("routine @r {\n  %7[0] := 1.0f32\n}\n", &["%7"]),
    ] {
        let error = lowered_ir::text::parse(text).map(|_| ()).expect_err(text);
        says(&error, parts);
    }
}

#[test]
fn unreadable_data_files() {
    for bytes in [&b""[..], b"\x93NUMPY", b"not an array", b"\x93NUMPY\x01\x00\xff\xff{'descr'"] {
        let error = tnode::npy::read(bytes).map(|_| ()).expect_err("garbage");
        assert!(!error.to_string().is_empty());
    }
    // The file has the bytes of two elements. Each shape has more elements, and two of the shapes have more
    // than fit in memory.
    for shape in ["(3,)", "(9223372036854775807, 9223372036854775807)", "(4611686018427387904,)"] {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend([0; 8]);
        tnode::npy::read(&file[..]).map(|_| ()).expect_err("fewer bytes than the header promises");
    }
}

#[test]
fn sizes_that_overflow() {
    let huge = 1usize << 40;
    for dims in
        [&[huge, huge][..], &[usize::MAX], &[0, huge, huge], &[huge, huge, 0], &[usize::MAX, 0, usize::MAX]]
    {
        let built: Result<TensorNode, TensorNodeError> =
            TensorNode::builder("h").dims(dims.iter().copied()).build();
        let Ok(h) = built else { continue };
        let (n, y) = (h.num_elems(), node("y", &[]));
        let index = vec!["0"; dims.len()].join(",");
        for name in BACKENDS {
            let backend = backend(name);
            let compiled = backend.compile(&format!("y[] := h[{index}]"), [&h, &y]);
            if let (Ok(code), Ok(n)) = (compiled, &n) {
                let linked = backend.context().and_then(|context| code.link(&context)).map(|_| ());
                assert!(linked.is_err(), "{dims:?} has {n} elements and no value");
            }
        }
    }
}

#[test]
fn arrays_without_elements() {
    let (e, y, z) = (node("e", &[0, 3]), node("y", &[]), node("z", &[3]));
    for name in BACKENDS {
        let backend = backend(name);
        let code = backend.compile("y[] :+= e[i,j]\nz[j] :max= e[i,j]", [&e, &y, &z]).expect("a valid text");
        let context =
            backend.context().expect("a stream").init_from_host(&e, ones(&[0, 3])).expect("no memory");
        let routine = code.link(&context).expect("all nodes are there");
        routine.run(&[]).expect("it runs");
        assert_eq!(routine.context().to_host(&y).expect("a value").values(), [0.0]);
        assert_eq!(routine.context().to_host(&z).expect("values").values(), [f64::NEG_INFINITY; 3]);
    }
}

#[test]
fn numbers_that_overflow() {
    let y = node("y", &[9]);
    for text in [
        "y[i] := i * 4611686018427387905 * 4 where i < 9",
        "y[i] := 9223372036854775807 + i + 9223372036854775807 where i < 9",
        "y[i] := -9223372036854775807 * i - 9223372036854775807 * i where i < 9",
    ] {
        says(&rejected(text, &[&y]), &["out of the range of i32"]);
    }
    let x = node("x", &[9]);
    says(&rejected("y[i] := x[i*4611686018427387905*4]", &[&x, &y]), &["overflows"]);
}

/// Compiling any text returns without a panic. A program that compiles either links or is rejected.
#[test]
fn hostile_texts() {
    let deep = format!("y[i] := {}x[i]{}", "(".repeat(5000), ")".repeat(5000));
    let signs = format!("y[i] := {}x[i]", "-".repeat(5000));
    let long = format!("y[i] := x[i]{}", " + x[i]".repeat(3000));
    let wide = format!("y[i] := x[{}i]", "0 + ".repeat(3000));
    let many = "y[i] += x[i]\n".repeat(500);
    let texts = [
        "",
        ";;;",
        "y",
        "y[",
        "y[i]",
        "y[i] :=",
        ":= x",
        "y[i] := x[i] where",
        "y[i] := x[i] where i < 0",
        "y[i] := x[i] where i < 99999999999999999999",
        "y[i] := x[9 - i]",
        "y[i] := x[i - 1]",
        "y[i] := x[9223372036854775807*i]",
        "y[i] := x[i + 9223372036854775807]",
        "y[i] := pad(x, 0)[9223372036854775807*i + 9223372036854775807]",
        "y[i] := pad(x, 0)[i*4611686018427387905*4]",
        "y[i] := i * 9223372036854775807 * 3 where i < 9",
        "y[i] := i * 4611686018427387905 * 4 where i < 9",
        "y[i] := -9223372036854775808 * i",
        "y[i] := x[@s] where @s < 9223372036854775807",
        "y[i] := x[@s]",
        "s := @s",
        "s := @s where @s < 9223372036854775807",
        "y[i] := x[-i + 8]",
        "x[i] := x[8 - i]",
        "x[i] += x[i] where i < 5",
        "s := s",
        "s := s[]",
        "y[y] := x[y]",
        "y[i,i] := x[i]",
        "y[i] := x[i][i]",
        "y[i] := x.merge[i]",
        "y.merge[i] := x[i]",
        "y[i] := i(3)",
        "y[i] := pad(3, 0)[i]",
        "y[i] := u32x4(x[i])",
        "y[i] := bit_and(x[i], 3)",
        "y[i] := nan + inf - -inf",
        "\u{feff}y[i] := x[i]",
        "y[é] := x[é]",
        "y[i] := x[i] # ü\n// ø",
        "y[i] := \u{0}",
        "y[i] := 1e999",
        "y[i] := .5",
        "y[i] := 5.",
        &deep,
        &signs,
        &long,
        &wide,
        &many,
    ];
    let backends = BACKENDS.map(backend);
    for text in texts {
        for backend in &backends {
            let nodes = [node("x", &[9]), node("y", &[9]), node("s", &[])];
            let Ok(code) = backend.compile(text, nodes.iter()) else { continue };
            let context = backend.context().expect("a stream");
            let context = context.init_from_host(&nodes[0], ones(&[9])).expect("memory");
            let Ok(routine) = code.link(&context) else { continue };
            let bindings = vec![0; routine.bindings().len()];
            let _ = routine.run(&bindings).and_then(|event| event.sync());
        }
    }
}

/// Extents and sizes at the verifier's limits: compiled or rejected, never a panic. Nothing is run.
#[test]
fn loop_ir_at_its_limits() {
    const BIG: i64 = 1 << 40;
    let nested = |body: &str| {
        format!("for i0 in 0..{BIG} {{ for i1 in 0..{BIG} {{ for i2 in 0..{BIG} {{ {body} }} }} }}")
    };
    let nodes = "node %0 \"x\" f32[9] on_device\n node %1 \"y\" f32[] on_device\n node %2 \"t\" f32[9]";
    let wide =
        format!("symbol @s in 0..{BIG}\n node %0 \"x\" i8[{BIG}] on_device\n node %1 \"y\" i64[] on_device");
    let empty = format!("node %0 \"x\" f32[0, {BIG}] on_device\n node %1 \"y\" f32[] on_device");
    for (head, body) in [
        (nodes, nested("%1[] := %1[] + %0[0]")),
        (nodes, nested("%0[3] := max(%0[2], %0[3]) * %1[]")),
        (nodes, nested("%2[1] := %0[1] * %1[]") + "\n%1[] := %2[1] + %2[2]"),
        (nodes, format!("for i0 in -{BIG}..{BIG} {{ %1[] := %1[] + 1.0f32 }}")),
        (nodes, format!("for i0 in {BIG}..-{BIG} {{ %1[] := %1[] + 1.0f32 }}")),
        (nodes, format!("for i0 in 0..{BIG} {{ %1[] := %1[] + convert f32(index i64(3*i0 - 7)) }}")),
        (
            nodes,
            format!("for i0 in 0..{BIG} {{ %1[] := %1[] + guarded(0 <= i0 - 5 < 9, %0[i0 - 5], 1.0f32) }}"),
        ),
        (&wide, format!("for i0 in 0..{BIG} {{ %0[i0] := %0[{} - i0] }}", BIG - 1)),
        (&wide, format!("for i0 in 0..min({BIG}, @s) {{ %1[] := %1[] + convert i64(%0[i0]) }}")),
        (&wide, "%1[] := convert i64(%0[@s]) + index i64(@s)\nzero %0".to_string()),
        (&empty, format!("for i0 in 0..0 {{ for i1 in 0..{BIG} {{ %1[] := %1[] + %0[i0, i1] }} }}\nzero %0")),
    ] {
        for class in ["fast", "strict"] {
            let text = format!("routine @r {class} {{\n {head}\n {body}\n}}\n");
            let routine = lowered_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            if lowered_ir::verify::verify(&routine).is_err() {
                continue;
            }
            let settings = lowered_ir::pipeline::OptimizeSettings::default();
            let Ok(optimized) = lowered_ir::pipeline::optimize(routine, &settings) else { continue };
            let backend = backend("inline");
            for threads in [1, 4] {
                let caps = Caps { threads, ..backend.codegen().caps().clone() };
                let target = cranelift_with(caps, CraneliftOptions::default());
                let Ok(schedule) = schedule(&optimized.routine, &target, &ScheduleOptions::default()) else {
                    continue;
                };
                for kernel in schedule.kernels() {
                    lowered_ir::verify::verify(kernel.ir()).unwrap_or_else(|e| panic!("{e}\n{text}"));
                }
                backend.codegen().compile(&schedule).map(|_| ()).unwrap_or_else(|e| panic!("{e}\n{text}"));
            }
        }
    }
}
