//! The time from the text of twenty operations to the first result.

use crate::case::{Case, Check, Node, Traffic};

pub(super) fn all() -> Vec<Case> {
    vec![compile_20op()]
}

fn compile_20op() -> Case {
    let mut text = String::from("t0[i] := x[i]\n");
    let ops = ["relu(P) + x[i]", "P * 0.5", "exp(P * 0.1)", "P - x[i]", "max(P, x[i])"];
    for k in 1..20 {
        let body = ops[k % ops.len()].replace('P', &format!("t{}[i]", k - 1));
        text += &format!("t{k}[i] := {body}\n");
    }
    text += "y[i] := t19[i]";
    let mut nodes = vec![Node::input("x", &[1024]), Node::written("y", &[1024])];
    nodes.extend(NAMES.map(|name| Node::written(name, &[1024])));
    Case {
        name: "compile_20op",
        operation: None,
        by_hand: None,
        text,
        nodes,
        bindings: vec![],
        outputs: vec!["y".into()],
        flops: 20.0 * 1024.0,
        traffic: Traffic { reads: 4.0 * 1024.0, writes: 4.0 * 1024.0 },
        check: Check::Interpreter,
        tolerance: 1e-6,
        is_latency: true,
        is_large: false,
    }
}

const NAMES: [&str; 20] = [
    "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12", "t13", "t14", "t15",
    "t16", "t17", "t18", "t19",
];
