//! Two ways to write one program give the same values: margins or guarded reads, views or indexed parents,
//! concatenated axes or one statement per part. The programs are random; each is lowered, optimized, and run
//! twice in a row.

use crate::program;

use assignment_text::parse;
use assignments::lower::{LowerErrorKind, LowerOptions, lower};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use lowered_ir::verify::verify;
use program::{Machine, values};
use proptest::prelude::*;
use tnode::{DType, MemoryMode, Padding, TensorNode};

/// A node with memory.
fn kept(label: &str, dims: &[usize], padding: Option<Padding>) -> TensorNode {
    let node = TensorNode::builder(label)
        .dims(dims.iter().copied())
        .dtype(DType::F32)
        .mode(MemoryMode::Materialized);
    let node = padding.into_iter().fold(node, |node, padding| node.padding(padding));
    node.build().expect("small")
}

/// The values of `outputs` after two runs of a program, first lowered and then optimized. Rejects programs
/// that lose the values of a statement.
fn run(
    text: &str,
    nodes: &[TensorNode],
    inputs: &[(&TensorNode, Vec<f64>)],
    outputs: &[&TensorNode],
    bindings: &[i64],
) -> Result<Vec<Vec<f64>>, TestCaseError> {
    let fail = |error: &dyn std::fmt::Display| TestCaseError::fail(format!("{text}\n{error}"));
    let program = parse(text, nodes).map_err(|error| fail(&error))?;
    lower(&program, &LowerOptions::default()).map_err(|error| match error.kind() {
        LowerErrorKind::LostValues { .. } => TestCaseError::reject("a statement has no effect"),
        _ => fail(&error),
    })?;
    let mut results = Vec::new();
    for optimized in [false, true] {
        let mut machine = Machine::new(&program);
        if optimized {
            let found = optimize(machine.lowered.routine.clone(), &OptimizeSettings::default())
                .map_err(|error| fail(&error))?;
            machine.lowered.routine = found.routine;
        }
        verify(&machine.lowered.routine).map_err(|error| fail(&error))?;
        let used = |node: &TensorNode| machine.lowered.nodes.contains(node);
        let set: Vec<_> = inputs.iter().filter(|(node, _)| used(node)).cloned().collect();
        let read: Vec<&TensorNode> = outputs.iter().copied().filter(|node| used(node)).collect();
        set.iter().for_each(|(node, values)| machine.set(node, values));
        for _ in 0..2 {
            machine.run(bindings);
            results.push(read.iter().flat_map(|node| machine.get(node)).map(comparable).collect());
        }
    }
    Ok(results)
}

/// The value, with NaN replaced by a number that no program computes, because a NaN equals no value.
fn comparable(value: f64) -> f64 {
    if value.is_nan() { 1e300 } else { value }
}

/// A statement over `x`, which has 6 elements and margins of 2 and 3, and over `y` and `z` of 6 elements.
#[derive(Clone, Debug)]
enum SampledStatement {
    /// Accumulates into `y` or `z`, by the operation `op`, the element of `x` that is `shift` elements away.
    Read { into: &'static str, op: &'static str, shift: i64, deep: bool },
    /// Writes new values into `x`.
    Write { plain: bool },
}

const OPS: [(&str, &str); 7] =
    [(":=", ""), (":+=", "0"), ("+=", "0"), ("-=", "0"), (":max=", "-inf"), ("min=", "inf"), (":*=", "1")];

impl SampledStatement {
    /// The text of the statement. With `outside`, all reads are guarded, and a plain assignment reads that
    /// value outside of the node.
    fn text(&self, outside: Option<&str>) -> String {
        match self {
            SampledStatement::Read { into, op, shift, deep } => {
                let (_, neutral) = OPS.iter().find(|(name, _)| name == op).copied().unwrap_or_default();
                let node = match outside {
                    Some(assigned) if neutral.is_empty() => format!("pad(x, {assigned})"),
                    Some(_) => format!("pad(x, {neutral})"),
                    None => "x".to_owned(),
                };
                let read = format!("{node}[i + {shift}]");
                let value = if *deep { format!("relu({read}) * 0.5 + 0.25") } else { read };
                format!("{into}[i] {op} {value}\n")
            }
            SampledStatement::Write { plain: true } => "x[i] := 0.5 * y[i] - 1\n".to_owned(),
            SampledStatement::Write { plain: false } => "x[i] += z[i]\n".to_owned(),
        }
    }
}

fn step() -> impl Strategy<Value = SampledStatement> {
    let ops = prop::sample::select(OPS.map(|(op, _)| op).to_vec());
    let read = (prop::sample::select(vec!["y", "z"]), ops, -2i64..4, prop::bool::weighted(0.3));
    prop_oneof![
        4 => read.prop_map(|(into, op, shift, deep)| SampledStatement::Read { into, op, shift, deep }),
        1 => any::<bool>().prop_map(|plain| SampledStatement::Write { plain }),
    ]
}

/// Statements over `s`, a view of a row of `x`, each with the same statement over `x`.
const ROWS: [(&str, &str); 8] = [
    ("y[i] := 2 * s[i] - z[i]", "y[i] := 2 * x[@b, i] - z[i]"),
    ("s[i] += z[i]", "x[@b, i] += z[i]"),
    ("s[i] := y[2 - i]", "x[@b, i] := y[2 - i]"),
    ("z[i] :+= s[j] * pad(s, 1)[i + j]", "z[i] :+= x[@b, j] * pad(x, 1)[@b, i + j]"),
    ("s := values(1, 2, 3)", "x[@b, 0] := 1; x[@b, 1] := 2; x[@b, 2] := 3"),
    ("s[1] := y[0]", "x[@b, 1] := y[0]"),
    ("y[i] := x[@c, i] + s[i]", "y[i] := x[@c, i] + x[@b, i]"),
    ("s := slice(x, @b)", ""),
];

/// Statements with concatenated axes over `y` of 5 elements, `a` of 2 and `b` of 3, each with the statements
/// of its parts.
const PARTS: [(&str, &str); 6] = [
    ("y[i^j] := a[i], exp(b[j])", "y[i] := a[i] where i < 2; y[j + 2] := exp(b[j])"),
    ("y[i^j] += a[i], b[j]", "y[i] += a[i] where i < 2; y[j + 2] += b[j]"),
    ("a[i], b[j] := y[i^j]", "a[i] := y[i] where i < 2; b[j] := y[j + 2]"),
    ("b[j], a[i] -= relu(y[i^j])", "a[i] -= relu(y[i]) where i < 2; b[j] -= relu(y[j + 2])"),
    ("y[j^i] := b[j] * 2, a[i]", "y[i + 3] := a[i]; y[j] := 2 * b[j] where j < 3"),
    ("y[i^j] max= a[i] - b[0], b[j]", "y[i] max= a[i] - b[0] where i < 2; y[j + 2] max= b[j]"),
];

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn margins_are_guarded_reads(
        steps in prop::collection::vec(step(), 1..6),
        neutral in prop::sample::select(vec![None, Some(0.0), Some(-1.5)]),
    ) {
        let [y, z] = ["y", "z"].map(|name| kept(name, &[6], None));
        let inputs = |x: &TensorNode, values_of_x: Vec<f64>| [(x.clone(), values_of_x), (y.clone(), values(6, 2)), (z.clone(), values(6, 3))];
        let results = [false, true].map(|guarded| {
            let padding = (!guarded).then(|| Padding::new([(2, 3)], neutral));
            let x = kept("x", &[6], padding);
            let assigned = neutral.unwrap_or(0.0).to_string();
            let text: String = steps.iter().map(|step| step.text(guarded.then_some(assigned.as_str()))).collect();
            let held = neutral.unwrap_or(55.0);
            let inner = values(6, 1);
            let all = if guarded { inner } else { [vec![held; 2], inner, vec![held; 3]].concat() };
            let inputs = inputs(&x, all);
            let inputs: Vec<(&TensorNode, Vec<f64>)> = inputs.iter().map(|(node, values)| (node, values.clone())).collect();
            run(&text, &[x.clone(), y.clone(), z.clone()], &inputs, &[&y, &z], &[])
        });
        let [plain, guarded] = results;
        prop_assert_eq!(plain?, guarded?);
    }

    #[test]
    fn views_are_parts_of_their_parents(steps in prop::collection::vec(prop::sample::select(ROWS.to_vec()), 1..6)) {
        let (x, [y, z]) = (kept("x", &[4, 3], None), ["y", "z"].map(|name| kept(name, &[3], None)));
        let s = TensorNode::builder("s").dims([3]).dtype(DType::F32).build().expect("small");
        let joined = |part: fn(&(&'static str, &'static str)) -> &'static str| {
            steps.iter().map(|step| part(step).to_owned() + "\n").collect::<String>()
        };
        let (by_view, by_index) = (joined(|step| step.0), joined(|step| step.1));
        let ranges = "y[i] := y[i] where @b < 4, @c < 4\n";
        let (by_view, by_index) = (format!("{ranges}s := slice(x, @b)\n{by_view}"), format!("{ranges}{by_index}"));
        let inputs = [(&x, values(12, 1)), (&y, values(3, 2)), (&z, values(3, 3))];
        let nodes = [x.clone(), y.clone(), z.clone(), s];
        let outputs = [&x, &y, &z];
        // A node that one of the programs does not mention keeps its values in the other.
        let mentioned = |text: &str| parse(text, &nodes).expect("fits").nodes();
        let all: Vec<&TensorNode> = outputs.into_iter().filter(|node| mentioned(&by_index).contains(node)).collect();
        let bindings = [2, 2];
        prop_assert_eq!(run(&by_view, &nodes, &inputs, &all, &bindings)?, run(&by_index, &nodes, &inputs, &all, &bindings)?);
    }

    #[test]
    fn concatenated_axes_are_statements(steps in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 1..5)) {
        let (y, a, b) = (kept("y", &[5], None), kept("a", &[2], None), kept("b", &[3], None));
        let inputs = [(&y, values(5, 1)), (&a, values(2, 2)), (&b, values(3, 3))];
        let nodes = [y.clone(), a.clone(), b.clone()];
        let joined: String = steps.iter().map(|step| step.0.to_owned() + "\n").collect();
        let parted: String = steps.iter().map(|step| step.1.to_owned() + "\n").collect();
        let outputs = [&y, &a, &b];
        prop_assert_eq!(run(&joined, &nodes, &inputs, &outputs, &[])?, run(&parted, &nodes, &inputs, &outputs, &[])?);
    }
}
