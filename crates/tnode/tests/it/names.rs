//! Names of nodes: goldens of names in messages and in generated code.

use tnode::{AmbiguousIdents, DType, IdentStyle, NodeId, Registry, TensorNode, TensorNodeError};

fn node(id: u64, label: &[&str]) -> TensorNode {
    TensorNode::builder(label).id(id).build_in(&Registry::new()).expect("a fresh registry")
}

#[test]
fn debug_names_collapse_repeats() {
    let goldens: [(&[&str], &str); 13] = [
        (&["attention"], "attention"),
        (&["attention", "attention"], "attention2"),
        (&["encoder", "attention", "attention", "output"], "encoder_attention2_output"),
        (&["a", "b", "a"], "a_b_a"),
        (&[], "n0"),
        (&["foo", "foo", "foo", "foo", "foo"], "foo5"),
        (&["a", "a", "b"], "a2_b"),
        (&["a", "b", "b"], "a_b2"),
        (&["foo", "-", "foo", "foo"], "foo3"),
        (&["grad", "grad", "grad"], "grad2.grad"),
        (&["grad", "w1"], "w1.grad"),
        (&["*", ""], "n0"),
        (&["7", "layer"], "layer_7"),
    ];
    for (label, name) in goldens {
        assert_eq!(node(0, label).name(), name, "{label:?}");
    }
}

#[test]
fn a_nameless_gradient_borrows_the_id_of_its_value() {
    assert_eq!(node(13, &["grad"]).name(), "n12.grad");
    assert_eq!(node(0, &["grad"]).name(), "n0.grad");
}

#[test]
fn a_code_name_comes_first() {
    let w = node(3, &["w"]);
    w.update_code_name("w_grad");
    assert_eq!(w.name(), "w.grad");
}

#[test]
fn longer_code_names_stay() {
    let w = node(3, &["w"]);
    for (proposed, kept) in
        [("w", "w"), ("v", "w"), ("n3_w", "n3_w"), ("w", "n3_w"), ("n3_w_grad", "n3_w_grad")]
    {
        w.update_code_name(proposed);
        assert_eq!(w.code_name().as_deref(), Some(kept));
    }
}

#[test]
fn identifiers_are_valid_in_code() {
    let ident = |label: &[&str]| node(0, label).no_grad_ident_label();
    assert_eq!(ident(&["1", "w"]), (false, Some("w_1".into())));
    assert_eq!(ident(&["1", "2"]), (false, Some("_1_2".into())));
    assert_eq!(ident(&["grad", "1x"]), (true, Some("_1x".into())));
    assert_eq!(ident(&["w", "grad"]), (false, Some("w_grad".into())));
    assert_eq!(ident(&["é", "+"]), (false, None));
}

#[test]
fn ambiguous_identifiers_get_their_id() {
    let nodes = [
        node(0, &["return"]),
        node(1, &["int"]),
        node(2, &["w"]),
        node(3, &["grad", "w"]),
        node(4, &["b"]),
        node(5, &["b"]),
        node(6, &[]),
        node(7, &["grad"]),
        node(8, &["grad", "b"]),
        node(9, &["grad", "b"]),
    ];
    let ambiguous = AmbiguousIdents::among(nodes.iter().map(TensorNode::label), &["return", "int", "exp"]);
    let styled = |style| nodes.each_ref().map(|node| node.styled_ident(style, &ambiguous)).join(" ");
    assert_eq!(styled(IdentStyle::NameOnly), "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9");
    assert_eq!(
        styled(IdentStyle::NameAndLabel),
        "n0_return n1_int n2_w n3_w_grad n4_b n5_b n6 n7_grad n8_b_grad n9_b_grad"
    );
    assert_eq!(
        styled(IdentStyle::HeuristicDotGrad),
        "n0_return n1_int w w.grad n4_b n5_b n6 n6.grad n7_b.grad n8_b.grad"
    );
    assert_eq!(
        styled(IdentStyle::HeuristicUnderGrad),
        "n0_return n1_int w w_grad n4_b n5_b n6 n6_grad n7_b_grad n8_b_grad"
    );
}

#[test]
fn headers_are_sorted_and_settle_nothing() {
    let registry = Registry::new();
    let late = TensorNode::builder("late").dims_later().id(9).build_in(&registry).expect("free id");
    let w =
        TensorNode::builder("w").dims([2, 3]).dtype(DType::F16).id(2).build_in(&registry).expect("free id");
    let _gone = TensorNode::builder("gone").build_in(&registry).expect("valid").id();
    expect_test::expect![[r#"
        n2 w: f16[2, 3] unknown
        n9 late: f32?[?] unknown
    "#]]
    .assert_eq(&registry.headers(|_| true));
    assert!(!w.is_dtype_settled() && late.dims().is_err());
    w.dtype();
    w.set_backend_info("pool 1, offset 64");
    w.update_memory_mode("local".parse().expect("a mode"), tnode::Reason::new("it is small")).expect("first");
    expect_test::expect![[r#"
        n2 w: f16[2, 3] 12 bytes Local (pool 1, offset 64)
    "#]]
    .assert_eq(&registry.headers(|node| node.id() == NodeId::from(2)));
}

#[test]
fn a_registry_keeps_nobody_alive() {
    let registry = Registry::new();
    let a = TensorNode::builder("a").build_in(&registry).expect("valid");
    let id = a.id();
    assert_eq!(registry.find(id), Some(a.clone()));
    drop(a);
    assert_eq!(registry.find(id), None);
    assert!(registry.nodes().is_empty());
}

#[test]
fn ids_are_not_given_twice() {
    let registry = Registry::new();
    let seven = TensorNode::builder("seven").id(7).build_in(&registry).expect("free id");
    let taken = TensorNode::builder("other").id(7).build_in(&registry).expect_err("taken");
    assert!(matches!(taken, TensorNodeError::IdTaken { id: 7, .. }));
    assert_eq!(taken.to_string(), "node id n7 is taken by seven");
    assert_eq!(TensorNode::builder("next").build_in(&registry).expect("valid").id(), NodeId::from(8));
    drop(seven);
    TensorNode::builder("again").id(7).build_in(&registry).expect("free again");
}
