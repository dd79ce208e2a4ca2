//! Resampling, margins, pools, and reductions of infinities.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{
    HostArray,
    proto::{AttributeProto, NodeProto},
};

use crate::build::*;

fn counted(shape: &[usize]) -> HostArray {
    let values: Vec<f32> = (0..shape.iter().product()).map(|at| at as f32).collect();
    floats(&values, shape)
}

/// The result of a `Resize` with these modes of an array with one axis behind two of size 1.
fn resized(version: i64, modes: &[(&str, &str)], x: &[f32], scale: f32) -> HostArray {
    let operands = if version > 10 { "y = Resize x _ s" } else { "y = Resize x s" };
    let resize = modes.iter().fold(node(operands), |node, (name, value)| text(node, name, value));
    let model = constant(graph(&["x"], &["y"], vec![resize]), "s", &floats(&[1.0, 1.0, scale], &[3]));
    session_of_opset(version, model).run(&[("x", &floats(x, &[1, 1, x.len()]))]).unwrap().remove(0)
}

const FLOOR: [(&str, &str); 3] =
    [("mode", "nearest"), ("nearest_mode", "floor"), ("coordinate_transformation_mode", "asymmetric")];

#[test]
fn coordinates_of_a_resized_image_are_f32() {
    let x: Vec<f32> = (0..11).map(|at| at as f32).collect();
    // 17 / 1.7 is 10 in f32, and less in f64.
    assert_eq!(resized(17, &FLOOR, &x, 1.7).values()[17], 10.0);
    // So is the size 7 of 0.7 times 10 elements.
    assert_eq!(resized(17, &FLOOR, &x[..10], 0.7).dims().to_vec(), [1, 1, 7]);
}

#[test]
fn the_first_version_of_resize_rounds_up_in_smaller_images() {
    let modes = [("mode", "nearest")];
    assert_eq!(resized(10, &modes, &[1.0, 2.0, 3.0, 4.0], 0.6).values(), [1.0, 3.0]);
    assert_eq!(resized(10, &modes, &[1.0, 2.0], 1.5).values(), [1.0, 1.0, 2.0]);
}

#[test]
fn aligned_corners_are_those_of_the_result() {
    let modes = [("mode", "linear"), ("coordinate_transformation_mode", "align_corners")];
    let x = [0.0, 1.0, 2.0, 3.0, 4.0];
    assert_close(
        &resized(17, &modes, &x, 1.5),
        &[1, 1, 7],
        &[0, 2, 4, 6, 8, 10, 12].map(|at| f64::from(at) / 3.0),
    );
    let others = [modes[0], modes[1], ("nearest_mode", "floor")];
    assert_close(&resized(17, &others, &x, 0.7), &[1, 1, 3], &[0.0, 2.0, 4.0]);
}

#[test]
fn integers_are_rounded_once_and_down() {
    let mut model = graph(&["x"], &["y"], vec![text(node("y = Resize x _ s"), "mode", "linear")]);
    model = constant(model, "s", &floats(&[1.0, 1.0, 2.0, 2.0], &[4]));
    let x = HostArray::from_slice(&[0u8, 255, 255, 255], [1, 1, 2, 2]).unwrap();
    let outputs = session(model).run(&[("x", &x)]).unwrap();
    let expected = [0, 63, 191, 255, 63, 111, 207, 255, 191, 207, 239, 255, 255, 255, 255, 255];
    assert_eq!(outputs[0].as_slice::<u8>().unwrap(), expected);
}

#[test]
fn elements_of_a_cubic_sample_are_moved_into_the_image_one_by_one() {
    let x = counted(&[1, 1, 1, 4]);
    let grid = floats(&[-1.2, 0.0, 1.2, 0.0], &[1, 1, 2, 2]);
    // Coordinates -0.3 and 3.3 of the last axis, with Keys' weights for a = -0.75.
    let weight = |d: f64| match d.abs() {
        d if d <= 1.0 => (1.25 * d - 2.25) * d * d + 1.0,
        d if d < 2.0 => ((-0.75 * d + 3.75) * d - 6.0) * d + 3.0,
        _ => 0.0,
    };
    for (padding, moved) in [("border", [0, 0, 0, 1]), ("reflection", [2, 1, 0, 1])] {
        let sample = int(text(node("y = GridSample x g"), "padding_mode", padding), "align_corners", 1);
        let sample = text(sample, "mode", "bicubic");
        let outputs =
            session(graph(&["x", "g"], &["y"], vec![sample])).run(&[("x", &x), ("g", &grid)]).unwrap();
        let low: f64 =
            moved.iter().zip(-2..).map(|(&at, tap)| f64::from(at) * weight(-0.3 - f64::from(tap))).sum();
        assert_close(&outputs[0], &[1, 1, 1, 2], &[low, 3.0 - low]);
    }
}

#[test]
fn negative_margins_remove_elements_before_others_are_added() {
    for (mode, margins, expected) in [
        ("wrap", [-2, 3], vec![2.0, 3.0, 4.0, 5.0, 2.0, 3.0, 4.0]),
        ("wrap", [3, -2], vec![1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]),
        ("edge", [2, -2], vec![0.0, 0.0, 0.0, 1.0, 2.0, 3.0]),
        ("edge", [-3, 2], vec![3.0, 4.0, 5.0, 5.0, 5.0]),
        ("reflect", [2, -3], vec![2.0, 1.0, 0.0, 1.0, 2.0]),
        ("constant", [-2, 1], vec![2.0, 3.0, 4.0, 5.0, 0.0]),
    ] {
        let pad = text(node("y = Pad x p"), "mode", mode);
        let model = constant(graph(&["x"], &["y"], vec![pad]), "p", &longs(&margins, &[2]));
        let outputs = session_of_opset(19, model).run(&[("x", &counted(&[6]))]).unwrap();
        assert_eq!(outputs[0].values(), expected, "{mode} {margins:?}");
    }
}

#[test]
fn positions_of_an_unpooled_image_are_those_of_the_result() {
    let nodes = ["p i = MaxPool x", "s = Shape x", "y = MaxUnpool p i s"].map(node);
    let nodes = nodes.map(|node| match node.op_type.as_str() {
        "Shape" => node,
        _ => ints(ints(node, "kernel_shape", &[2, 2]), "strides", &[2, 2]),
    });
    let x = counted(&[1, 2, 5, 5]);
    let outputs = session(graph(&["x"], &["y"], nodes.into())).run(&[("x", &x)]).unwrap();
    let expected: Vec<f64> = x
        .values()
        .into_iter()
        .map(|at| {
            let (row, column) = ((at as usize / 5) % 5, at as usize % 5);
            if row % 2 == 1 && column % 2 == 1 { at } else { 0.0 }
        })
        .collect();
    assert_eq!((outputs[0].values(), outputs[0].dims().to_vec()), (expected, vec![1, 2, 5, 5]));
}

#[test]
fn logarithms_of_sums_of_infinities_are_infinities() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = floats(&[-inf, -inf, inf, 1.0, -inf, 2.0, 1000.0, 1000.0, inf, -inf, nan, 1.0], &[6, 2]);
    let sum = ints(int(node("y = ReduceLogSumExp x"), "keepdims", 0), "axes", &[1]);
    let outputs = session(graph(&["x"], &["y"], vec![sum])).run(&[("x", &x)]).unwrap();
    let inf = f64::INFINITY;
    assert_close(&outputs[0], &[6], &[-inf, inf, 2.0, 1000.693147, inf, f64::NAN]);
}

#[test]
fn the_only_window_of_a_pool_may_leave_the_image() {
    let pool = |operator: &str, stride: i64| {
        let pool = ints(node(&format!("y = {operator} x")), "kernel_shape", &[3]);
        session(graph(&["x"], &["y"], vec![int(ints(pool, "strides", &[stride]), "ceil_mode", 1)]))
    };
    let run =
        |operator, stride, x: &[f32]| pool(operator, stride).run(&[("x", &floats(x, &[1, 1, x.len()]))]);
    assert_eq!(run("MaxPool", 2, &[-2.0, -1.0]).unwrap()[0].values(), [-1.0]);
    assert_eq!(run("AveragePool", 3, &[2.0, 4.0]).unwrap()[0].values(), [3.0]);
    assert_eq!(run("AveragePool", 3, &[2.0]).unwrap()[0].values(), [2.0]);
    // The rounded number of strides to the last window is negative.
    assert!(run("MaxPool", 2, &[1.0]).unwrap_err().to_string().contains("longer than axis 2"));
}

#[test]
fn a_region_without_extent_has_no_samples() {
    for mode in ["avg", "max"] {
        let align = text(node("y = RoiAlign x regions images"), "mode", mode);
        let model = graph(&["x"], &["y"], vec![int(int(align, "output_height", 1), "output_width", 2)]);
        let model = constant(model, "images", &longs(&[0, 0, 0], &[3]));
        let regions = [1.0, 1.0, 3.0, 3.0, 2.0, 1.0, 2.0, 3.0, 3.0, 3.0, 1.0, 1.0];
        let session = session_of_opset(16, constant(model, "regions", &floats(&regions, &[3, 4])));
        let y = session.run(&[("x", &floats(&[5.0; 16], &[1, 1, 4, 4]))]).unwrap();
        assert_eq!(y[0].values(), [5.0, 5.0, 0.0, 0.0, 0.0, 0.0], "{mode}");
    }
}

#[test]
fn causal_attention_takes_a_cap_of_its_scores() {
    let attention = AttributeProto { name: "softcap".into(), f: 2.0, r#type: 1, ..Default::default() };
    let mut attention = NodeProto { attribute: vec![attention], ..node("y = Attention q k v") };
    attention = int(attention, "is_causal", 1);
    let session = session_of_opset(23, graph(&["q", "k", "v"], &["y"], vec![attention]));
    let array = |values: &[f32]| floats(values, &[1, 1, 2, 1]);
    let (q, k, v) = (array(&[1.0, 3.0]), array(&[1.0, -1.0]), array(&[1.0, 5.0]));
    let y = session.run(&[("q", &q), ("k", &k), ("v", &v)]).unwrap();
    let weight = 1.0 / (1.0 + (-4.0 * 1.5f64.tanh()).exp());
    assert_close(&y[0], &[1, 1, 2, 1], &[1.0, weight + 5.0 * (1.0 - weight)]);
}
