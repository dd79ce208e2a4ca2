//! Numbers, ranges and sizes that exceed any machine are user errors with a location, never internal errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrayjit::settings::Settings;
use arrayjit::{Backend, CompileError, DType, MemoryMode, TensorNode};
use assignments::indexing::{AxisIndex, Projection, Projections, StaticSymbol};
use assignments::{Operand, Rhs, builder};
use lowered_ir::ir::{Affine, SymbolId};

fn backend(name: &str) -> Backend {
    Backend::open_with(name, &Settings::default()).expect("every backend of this build opens")
}

fn node(name: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
    node.mode(MemoryMode::Materialized).build().expect("an array that can be addressed")
}

fn nodes() -> Vec<TensorNode> {
    vec![
        node("x", DType::F32, &[8]),
        node("y", DType::F32, &[8]),
        node("n", DType::I32, &[8]),
        node("m", DType::I64, &[8]),
        node("u", DType::U64, &[8]),
        node("h", DType::F16, &[8]),
        node("d", DType::F64, &[8]),
        node("t", DType::F32, &[8, 8]),
        node("s", DType::F32, &[]),
        node("ids", DType::I32, &[8]),
        node("v", DType::F32, &[4]),
    ]
}

/// Whether the message addresses the user: it has a location and does not report an internal error.
fn is_for_the_user(error: &CompileError) -> bool {
    let text = error.to_string();
    !text.contains("bug") && text.contains("^") && text.contains("line 1, column ")
}

#[track_caller]
fn rejected(text: &str, nodes: &[TensorNode], says: &str) {
    let error = backend("interpreter").compile(text, nodes).map(|_| ()).expect_err(text);
    assert!(is_for_the_user(&error), "{text}: {error}");
    assert!(error.to_string().contains(says), "{text}: {error}");
}

#[test]
fn ranges_and_indices() {
    let nodes = nodes();
    for (text, says) in [
        (
            "y[0] := x[0] * @s where @s < 9223372036854775807",
            "`@s < 9223372036854775807` is too large; expected at most 1099511627776",
        ),
        ("s :+= 1 + 0*k where k < 9223372036854775807", "`k < 9223372036854775807` is too large"),
        ("y[i] := x[4611686018427387904*@s + i]", "the factor 4611686018427387904"),
        ("y[i] := pad(x, 0)[4611686018427387904*@s + i] where @s < 2", "the factor 4611686018427387904"),
        ("y[i] := pad(x, 0)[i - 4611686018427387904]", "the factor -4611686018427387904"),
        ("y[i] := pad(x, 0)[4611686018427387904*i]", "takes values"),
        ("y[i] := uniform(7, 9223372036854775807*i)", "9223372036854775807*i0"),
        ("y[i] := x[i] + normal(7, 4611686018427387904*@s + i) where @s < 9", "4611686018427387904*@s"),
        ("n[i] := 1000000*@s + i where @s < 1000000", "which i32 does not hold"),
        ("y[i] := x[i] + 3000000000*@s where @s < 2", "which i32 does not hold"),
        ("n[i] := 3000000000 * i", "is out of the range of i32"),
        ("y[i] := @µ + x[i] where @µ < 3", "symbol @µ has a name that is none"),
    ] {
        rejected(text, &nodes, says);
    }
}

#[test]
fn ranks_and_sizes() {
    let deep = TensorNode::builder("deep").dims([1; 64]).build().map(|_| ()).expect_err("64 axes");
    assert!(deep.to_string().contains("64") && deep.to_string().contains("at most 32"), "{deep}");
    let many = node("many", DType::F32, &[2; 32]);
    let letters = |from: usize| (from..from + 32).map(|at| format!("l{at}")).collect::<Vec<_>>().join(",");
    let text = format!("s :+= exp(many[{}] * many[{}])", letters(0), letters(32));
    rejected(&text, &[many, node("s", DType::F32, &[])], "at most 32");
    let wide = node("wide", DType::F32, &[1 << 40]);
    rejected("wide[i] := 1", &[wide], "4398046511104 bytes, expected at most 1099511627776");
    // A subexpression's value becomes a node too.
    let long = |name| node(name, DType::F32, &[1 << 14]);
    let (a, b, c) = (long("a"), long("b"), long("c"));
    let s = node("s", DType::F32, &[]);
    rejected("s :+= abs(a[i] + b[j] + c[k])", &[a, b, c, s], "bytes, expected at most");
    // The first text has more letters than loops may nest; the keys of the others have more numbers than
    // allowed.
    let s = node("s", DType::F32, &[]);
    let letters: Vec<String> = (0..300).map(|at| format!("l{at}")).collect();
    let ranges: Vec<String> = letters.iter().map(|letter| format!("{letter} < 2")).collect();
    let text = format!("s :+= pad(x, 0)[{}] where {}", letters.join(" + "), ranges.join(", "));
    rejected(&text, &[s, node("x", DType::F32, &[8])], "300 letters");
    let y = node("y", DType::F32, &[8]);
    let parts = ["@s"; 300].join(", ");
    rejected(
        &format!("y := uniform(7, {parts}) where @s < 3"),
        std::slice::from_ref(&y),
        "at most 64 numbers",
    );
    rejected(&format!("y[i] := 1 + uniform(7, {parts}, i) where @s < 3"), &[y], "at most 64 numbers");
}

/// Assignments that were built without a text give the same errors, without a location.
#[test]
fn built_assignments() {
    let y = node("y", DType::F32, &[8]);
    let index = |symbol: StaticSymbol, index: Affine| {
        let value = (tnode::Dims::from_slice(&[1]), Projection::from_iter([AxisIndex::new(index)]));
        let target = (tnode::Dims::from_slice(&[8]), Projection::from_iter([AxisIndex::axis(0)]));
        let projections = Projections::new(&[8], target, vec![value], "built").expect("fits");
        let rhs = Rhs::Copy(Operand::Index(DType::I64));
        let mut program = builder::accumulate(false, assignments::AccumOp::Assign, &y, rhs, projections);
        program.symbol(&symbol);
        program
    };
    let symbol = Affine::var(SymbolId(0));
    for (program, says) in [
        (
            index(StaticSymbol::ranged("s", i64::MAX), symbol.clone()),
            "symbol @s has range 9223372036854775807",
        ),
        (index(StaticSymbol::ranged("a b", 3), symbol.clone()), "has a name that is none"),
        (index(StaticSymbol::ranged("s", 1 << 40), symbol.times(i64::MAX)), "overflows"),
    ] {
        let error = backend("interpreter").compile_assignments(&program).map(|_| ()).expect_err(says);
        assert!(error.to_string().contains(says) && !error.to_string().contains("bug"), "{error}");
    }
}

/// Program texts; a number replaces each `#`.
const PROGRAMS: [&str; 26] = [
    "y[i] := x[#*@s + #*i + #] where @s < #",
    "y[i] := pad(x, #)[#*@s + #*i + #] where @s < #",
    "y[#*i + #] := x[i + #] where i < #",
    "y[@s + #*i] += x[i] * # where @s < #, i < #",
    "y[i] := # * i + # * @s + # where @s < #",
    "n[i] := # * i + # * @s - # where @s < #",
    "m[i] := # * i + # * @s - # where @s < #",
    "u[i] := # * i + bit_and(u[i], #)",
    "y[i] := uniform(#, #*i + #, @s + #, #) where @s < #",
    "y := normal(#, #, @s) where @s < #",
    "d[i] := i / # + normal(#, #*@s + i) where @s < #",
    "h[i] := h[i] * # + pad(h, #)[i + #]",
    "v := values(#, #, #, #)",
    "m := bits(#)",
    "n[i] := where(i < #, #, n[i] % #)",
    "y[i] := x[ids[i] * # + #]",
    "y[ids[i] + #*i] :+= x[i] where i < #",
    "t[i, j] := x[#*i + j + #] + t[i, j] where i < #, j < #",
    "y[i^j] := x[i], # where i < #",
    "y[i^j^k] := x[i], # * j, x[k] where i < #, k < #",
    "s :+= #*i*# where i < #",
    "s :+= x[i] * # + size(i) * # where i < #",
    "s :max= x[i + k] * # where i < #, k < #",
    "y := slice(t, @s) where @s < #",
    "y[i] := t[@s + #, i] + shl(#, i) where @s < #",
    "y[i] += fma(x[i], #, i * #) + pow(#, #)",
];

const NUMBERS: &str = "0 1 2 -1 3 7 8 -8 127 256 65536 2147483647 -2147483648 2147483648 \
    4294967296 1099511627776 1099511627777 36028797018963968 4611686018427387904 \
    -4611686018427387904 9223372036854775807 -9223372036854775807 -9223372036854775808 \
    9223372036854775808 18446744073709551615 99999999999999999999999 0.5 1e39 1e400 -1e400";

/// Every program with random numbers compiles or is rejected with a location.
#[test]
fn no_number_is_our_bug() {
    let (nodes, mut random) = (nodes(), fastrand::Rng::with_seed(19));
    let backends = [backend("interpreter"), backend("inline")];
    let numbers: Vec<&str> = NUMBERS.split(' ').collect();
    let (mut compiled, mut rejected) = (0, 0);
    for round in 0..1500 {
        let template = PROGRAMS[round % PROGRAMS.len()];
        let mut text = String::new();
        for (at, part) in template.split('#').enumerate() {
            // Chooses small numbers often, so that some programs have several numbers that are accepted.
            let few = if random.u8(..) < 170 { 8 } else { numbers.len() };
            text += if at == 0 { "" } else { numbers[random.usize(..few)] };
            text += part;
        }
        let backend = &backends[usize::from(round % 4 == 0)];
        match catch_unwind(AssertUnwindSafe(|| backend.compile(&text, &nodes).map(|_| ()))) {
            Ok(Ok(())) => compiled += 1,
            Ok(Err(error)) => {
                rejected += 1;
                assert!(is_for_the_user(&error), "{text} on {}: {error}", backend.name());
            }
            Err(_) => panic!("{text} on {} panics", backend.name()),
        }
    }
    assert!(compiled > 100 && rejected > 100, "{compiled} compiled, {rejected} rejected");
}
