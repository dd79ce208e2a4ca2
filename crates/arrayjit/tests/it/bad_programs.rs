//! Meaningless programs, and programs that a backend does not support: the same typed error from the
//! interpreter and from compiled code.

use arrayjit::settings::Settings;
use arrayjit::{Backend, Caps, CompileError, DType, HostArray, MemoryMode, RunError, TensorNode};
use codegen_core::Interpreted;
use scheduling::{LegalizeError, ScheduleError, ScheduleOptions, schedule};

const BACKENDS: [&str; 3] = ["inline", "multicore", "interpreter"];

fn backends() -> [Backend; 3] {
    BACKENDS.map(|name| {
        Backend::open_with(name, &Settings::default()).expect("every backend of this build opens")
    })
}

fn node(name: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
    node.mode(MemoryMode::Materialized).build().expect("a small node")
}

/// Asserts that every backend rejects the program with an error that contains the given texts, and that the
/// nodes are unchanged.
#[track_caller]
fn rejected(text: &str, nodes: &[(&str, &[usize])], is_it: fn(&CompileError) -> bool, says: &[&str]) {
    for backend in backends() {
        let nodes: Vec<TensorNode> = nodes.iter().map(|(name, dims)| node(name, DType::F32, dims)).collect();
        let modes: Vec<_> = nodes.iter().map(TensorNode::mode).collect();
        let error = backend.compile(text, &nodes).map(|_| ()).expect_err("a rejection");
        assert!(is_it(&error), "{text} on {}: {error:?}", backend.name());
        let message = error.to_string();
        for part in says {
            assert!(message.contains(part), "{part:?} is not in: {message}");
        }
        assert!(nodes.iter().map(TensorNode::mode).eq(modes), "{text}: a rejection decides nothing");
    }
}

fn is_text(error: &CompileError) -> bool {
    matches!(error, CompileError::Text(_))
}

fn is_lower(error: &CompileError) -> bool {
    matches!(error, CompileError::Lower(_))
}

#[test]
fn two_merge_buffers_in_one_routine() {
    let nodes: [(&str, &[usize]); 2] = [("x", &[4]), ("z", &[4])];
    rejected("x[i] += x.merge[i]\nz[i] += z.merge[i]", &nodes, is_lower, &["one merge buffer", "x", "z"]);
    rejected("x[i] := x.merge[i] + z.merge[i]", &nodes, is_lower, &["one merge buffer", "x", "z"]);
}

#[test]
fn ambiguous_blocks() {
    let nodes: [(&str, &[usize]); 4] = [("x", &[2]), ("z", &[3]), ("y", &[5]), ("v", &[3])];
    let two = "y[i^j] := x[i], z[j], v[j]";
    rejected(two, &nodes, is_text, &["line 1", "ambiguous", "one value", "z[j]", "v[j]"]);
    rejected("y[i^j] := x[i]", &nodes, is_text, &["ambiguous", "one value", "none"]);
    rejected("z[j], v[j] := y[i^j] where i < 2", &nodes, is_text, &["ambiguous", "one target"]);
}

/// Remainders, comparisons and bit operations have no neutral element, so they cannot accumulate, neither in
/// the text nor in the loop IR.
#[test]
fn accumulations_without_a_neutral_element() {
    let nodes: [(&str, &[usize]); 2] = [("x", &[4]), ("y", &[4])];
    for operator in ["%", "bit_and", "bit_xor", "shl", "arg1", "threefry", "exp"] {
        rejected(&format!("y[i] {operator}= x[i]"), &nodes, is_text, &["line 1, column", operator]);
        rejected(&format!("y[i] :{operator}= x[i]"), &nodes, is_text, &["line 1, column", operator]);
    }
    for operator in ["<", "=", "!"] {
        rejected(&format!("y[i] {operator}= x[i]"), &nodes, is_text, &["line 1, column"]);
    }
    for operator in ["%", "shl", "arg1", "<"] {
        let text = format!(
            "routine @r {{\n node %0 \"x\" i32[4] on_device\n scatter {operator} %0[{{1i32}}] := 2i32\n}}\n"
        );
        let rejected = match lowered_ir::text::parse(&text) {
            Ok(routine) => lowered_ir::verify::verify(&routine).expect_err("no accumulation").to_string(),
            Err(error) => error.to_string(),
        };
        assert!(rejected.contains(operator), "{rejected}");
    }
}

#[test]
fn indices_out_of_range() {
    let nodes: [(&str, &[usize]); 2] = [("x", &[4]), ("y", &[4])];
    rejected("y[i] := x[4]", &nodes, is_text, &["`4`", "node `x`", "4"]);
    rejected("y[0] := x[-1]", &nodes, is_text, &["`-1`", "node `x`", "4"]);
    rejected("y[4] := x[0]", &nodes, is_text, &["node `y`", "4"]);
    rejected("y[0] := x[@s] where @s < 5", &nodes, is_text, &["@s", "0..=4", "node `x`", "4"]);
}

/// The range of a symbol follows from the accesses, and is checked on every backend when the symbol is bound,
/// before anything runs.
#[test]
fn symbols_out_of_range_write_nothing() {
    for backend in backends() {
        let nodes = [node("x", DType::F32, &[4]), node("y", DType::F32, &[2])];
        let code = backend.compile("y[i] := x[@s + i]", &nodes).expect("a valid text");
        let host = |values: &[f32]| HostArray::from_slice(values, [values.len()]).expect("its length");
        let context = backend.context().expect("a stream");
        let context = context.init_from_host(&nodes[0], host(&[1., 2., 3., 4.])).expect("memory");
        let context = context.init_from_host(&nodes[1], host(&[7., 8.])).expect("memory");
        let routine = code.link(&context).expect("all nodes are there");
        for out in [-1, 3, i64::MIN, i64::MAX] {
            let error = routine.run(&[out]).map(|_| ()).expect_err("out of range");
            assert!(matches!(error, RunError::BindingRange { .. }), "{error:?}");
            assert!(error.to_string().contains("0..3"), "{error}");
        }
        let values = |routine: &arrayjit::Routine| routine.context().to_host(&nodes[1]).expect("y").values();
        assert_eq!(values(&routine), [7.0, 8.0], "nothing ran");
        routine.run(&[2]).expect("in range").sync().expect("it runs");
        assert_eq!(values(&routine), [3.0, 4.0]);
    }
}

/// Every backend of this build supports every type: values that are copied through it come back bit for bit.
#[test]
fn every_backend_holds_every_type() {
    for backend in backends() {
        for dtype in DType::ALL {
            let nodes = [node("x", dtype, &[2, 3]), node("y", dtype, &[3, 2])];
            let size = dtype.size_bytes();
            // Bytes have any pattern, except that a `bool` is 0 or 1.
            let mask = if dtype == DType::Bool { 1 } else { 0xff };
            let bytes: Vec<u8> = (0..6 * size).map(|i| (i * 37 + 11) as u8 & mask).collect();
            let x = HostArray::from_bytes(dtype, [2, 3], &bytes).expect("as many bytes");
            let code = backend.compile("y[i,j] := x[j,i]", &nodes).unwrap_or_else(|e| panic!("{dtype}: {e}"));
            let context = backend.context().expect("a stream").init_from_host(&nodes[0], &x).expect("memory");
            let routine = code.link(&context).expect("all nodes are there");
            routine.run(&[]).expect("it runs").sync().expect("it runs");
            let y = routine.context().to_host(&nodes[1]).expect("y");
            for (i, j) in (0..3).flat_map(|i| (0..2).map(move |j| (i, j))) {
                let expected = &bytes[(j * 3 + i) * size..][..size];
                assert_eq!(
                    &y.bytes()[(i * 2 + j) * size..][..size],
                    expected,
                    "{dtype} on {}",
                    backend.name()
                );
            }
        }
    }
}

/// A target that lacks a type reports it and names the node.
#[test]
fn types_a_target_cannot_hold() {
    for backend in backends() {
        for missing in [DType::F64, DType::U16, DType::Fp8E4m3fn, DType::U32x4] {
            let full = backend.codegen().caps();
            let caps = Caps {
                storage: DType::ALL.into_iter().filter(|&d| d != missing).collect(),
                target: "lacking".into(),
                ..full.clone()
            };
            let text = format!(
                "routine @r {{\n node %0 \"x\" {missing}[4] on_device\n node %1 \"y\" {missing}[4] on_device\n \
                 for i0 in 0..4 {{ %1[i0] := %0[i0] }}\n}}\n"
            );
            let routine = lowered_ir::text::parse(&text).expect("a valid text");
            let error = schedule(&routine, &Interpreted::of_target(caps), &ScheduleOptions::default())
                .map(|_| ())
                .expect_err("no such type");
            assert!(
                matches!(error, ScheduleError::Illegal(LegalizeError::Storage { dtype, .. }) if dtype == missing)
            );
            let expected =
                format!("routine `r`: lacking does not store {missing}, the type of node %0 \"x\"");
            assert_eq!(error.to_string(), expected);
            schedule(&routine, backend.codegen(), &ScheduleOptions::default())
                .expect("the backend itself holds it");
        }
    }
}

/// Random bits have no arithmetic, and floats no operations on bits.
#[test]
fn operations_a_type_does_not_have() {
    for backend in backends() {
        let (x, y) = (node("x", DType::U32x4, &[2]), node("y", DType::F32, &[2]));
        let z = node("z", DType::U32x4, &[2]);
        for (text, op, dtype) in [
            ("z[i] := x[i] + x[i]", "+", "u32x4"),
            ("y[i] := exp(x[i])", "exp", "u32x4"),
            ("y[i] := bit_and(y[i], 3)", "bit_and", "f32"),
        ] {
            let error = backend.compile(text, [&x, &y, &z]).map(|_| ()).expect_err(text);
            assert!(is_lower(&error), "{text} on {}: {error:?}", backend.name());
            assert!(
                error.to_string().contains(&format!("operation {op} is not defined for {dtype}")),
                "{error}"
            );
        }
    }
}
