//! Gradients that are cut into buckets.

use arrayjit::{MemoryMode, TensorNode, text};
use arrayjit_collectives::{BucketSizes, CollectiveError, GradientBucket, split_gradient};

/// Nodes of these names, with 4 elements; `t` is a value without memory.
fn nodes<const N: usize>(names: [&str; N]) -> [TensorNode; N] {
    names.map(|name| {
        let node = TensorNode::builder(name).dims([4]);
        let node = if name == "t" { node.mode(MemoryMode::Virtual) } else { node };
        node.build().unwrap()
    })
}

/// The names of the summed nodes of each bucket.
fn summed(buckets: &[GradientBucket]) -> Vec<Vec<String>> {
    let names = |bucket: &GradientBucket| bucket.summed.iter().map(|node| node.label().join(".")).collect();
    buckets.iter().map(names).collect()
}

fn cut(program: &str, all: &[TensorNode], of: &[TensorNode], bytes: usize) -> Vec<GradientBucket> {
    let program = text::parse(program, all).unwrap();
    split_gradient(&program, of, BucketSizes { first: 16, others: bytes }).unwrap()
}

#[test]
fn buckets_are_filled_in_the_order_of_the_program() {
    let all = nodes(["x", "a", "b", "c", "d"]);
    let program = "d[i] := x[i]; b[i] := 2 * x[i]; a[i] := 3 * b[i]; c[i] := x[i]; a[i] += c[i]";
    let buckets = cut(program, &all, &all[1..], 32);
    assert_eq!(summed(&buckets), [vec!["d"], vec!["b", "c"], vec!["a"]]);
    let names = buckets.iter().map(|bucket| bucket.program.routine_name());
    assert_eq!(names.collect::<Vec<_>>(), ["c_0", "c_1", "c_2"]);
    assert!(buckets[1].program.kept.contains(&all[1]), "`a` is finished by the next part");
    assert_eq!(summed(&cut(program, &all, &all[1..], 64)), [vec!["d"], vec!["b", "c", "a"]]);
}

#[test]
fn values_without_memory_are_computed_by_each_part() {
    let all = nodes(["x", "t", "a", "b"]);
    let buckets = cut("t[i] := x[i] * x[i]; a[i] := 2 * t[i]; b[i] := 3 * t[i]", &all, &all[2..], 16);
    assert_eq!(summed(&buckets), [["a"], ["b"]]);
    for bucket in &buckets {
        assert!(bucket.program.written_nodes().contains(&all[1]));
        assert!(!bucket.program.kept.contains(&all[1]));
    }
}

#[test]
fn there_is_no_cut_where_such_a_value_would_change() {
    let all = nodes(["x", "t", "a", "b"]);
    let program = "t[i] := x[i] * x[i]; x[i] := 0; a[i] := 2 * t[i]; b[i] := 3 * t[i]";
    assert_eq!(summed(&cut(program, &all, &all[2..], 16)), [["a", "b"]]);
}

#[test]
fn a_node_that_is_not_computed_is_named() {
    let all = nodes(["x", "a", "b"]);
    let program = text::parse("a[i] := x[i]", &all[..2]).unwrap();
    let error = split_gradient(&program, &all[1..], BucketSizes::default()).unwrap_err();
    assert!(matches!(&error, CollectiveError::NotWritten { .. }));
    assert_eq!(
        error.to_string(),
        format!("node `{}` is to be summed, but no step of the program writes it", all[2].name())
    );
}
