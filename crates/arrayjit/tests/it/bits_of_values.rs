//! Converts random bits of every type to values of every other type: all CPU backends agree with
//! `Scalar::convert`.

use arrayjit::assign::builder;
use arrayjit::indexing::StaticSymbol;
use arrayjit::ir::BinaryOp;
use arrayjit::{Backend, DType, HostArray, MemoryMode, Scalar, Settings, TensorNode, assign::Assignments};

const VALUES: [f64; 8] = [0.0, 1.0, -1.5, 200.0, -3e4, 1e-3, 5e9, f64::NAN];

fn kept(name: &str, dtype: DType) -> TensorNode {
    let node = TensorNode::builder(name).dims([VALUES.len()]).dtype(dtype).mode(MemoryMode::Materialized);
    node.build().expect("a small node")
}

/// Runs the text with one other node given, and returns the bits of the elements of `y`.
fn run(
    assignments: &Assignments,
    backend: &str,
    given: Option<(&TensorNode, &HostArray)>,
    node: &TensorNode,
) -> Vec<u128> {
    let backend = Backend::open_with(backend, &Settings::default()).expect("it is in every build");
    let code = backend.compile_assignments(assignments).expect("every type converts");
    let empty = backend.context().expect("a stream");
    let context = given.map(|(node, array)| empty.init_from_host(node, array).expect("memory"));
    let routine = code.link(context.as_ref().unwrap_or(&empty)).expect("all nodes are there");
    let bindings = vec![5; routine.bindings().len()];
    routine.run(&bindings).expect("scheduled");
    bits(&routine.context().to_host(node).expect("in the context"))
}

fn bits(array: &HostArray) -> Vec<u128> {
    (0..VALUES.len()).map(|at| array.get(&[at]).expect("inside").bits()).collect()
}

#[test]
fn the_bits_of_a_value_fill_the_first_lanes() {
    for dtype in DType::ALL {
        let (x, key) = (kept("x", dtype), kept("key", DType::U32x4));
        let mut array = HostArray::zeros(dtype, [VALUES.len()]).expect("small");
        array.set_values(&VALUES).expect("as many");
        if matches!(dtype, DType::I64 | DType::U64) {
            array.set(&[0], Scalar::new(dtype, 0xfedc_ba98_7654_3210)).expect("inside");
        }
        let expected: Vec<u128> =
            bits(&array).iter().map(|&bits| Scalar::new(dtype, bits).convert(DType::U32x4).bits()).collect();
        assert_eq!(expected, bits(&array), "zeros follow the value's own bits");
        let copy = builder::copy(&key, &x).expect("same dimensions");
        for backend in ["inline", "interpreter"] {
            assert_eq!(run(&copy, backend, Some((&x, &array)), &key), expected, "{dtype} on {backend}");
        }
    }
}

#[test]
fn indices_symbols_and_results_become_bits() {
    let key = kept("key", DType::U32x4);
    let offsets: Vec<u128> = (0..8).collect();
    let range = builder::fetch(&key, arrayjit::assign::FetchOp::RangeOverOffsets);
    let symbol = builder::embed_symbol(&key, &StaticSymbol::ranged("step", 10));
    let (x, y) = (kept("x", DType::I32), kept("y", DType::I32));
    let array = HostArray::from_slice(&[-7i32; 8], [8]).expect("as many");
    let sum = builder::binary(&key, BinaryOp::Add, [&x, &x]).expect("same dimensions");
    for backend in ["inline", "interpreter"] {
        assert_eq!(run(&range, backend, None, &key), offsets);
        assert_eq!(run(&symbol, backend, None, &key), [5; 8]);
        let doubled = u128::from(-14i32 as u32);
        assert_eq!(run(&sum, backend, Some((&x, &array)), &key), [doubled; 8]);
        // The keys and counters of random number generators are converted as well.
        let fill = builder::constant(&y, 3.0).then(draw(&key, &x, &y));
        let [converted_x, converted_y] = ["kx", "ky"].map(|name| kept(name, DType::U32x4));
        let by_hand = builder::copy(&converted_x, &x)
            .and_then(|first| Ok(first.then(builder::copy(&converted_y, &y)?)))
            .expect("same dimensions");
        let by_hand = builder::constant(&y, 3.0).then(by_hand).then(draw(&key, &converted_x, &converted_y));
        let given = Some((&x, &array));
        assert_eq!(run(&fill, backend, given, &key), run(&by_hand, backend, given, &key));
    }
}

/// The value of `pad` for elements outside the node is a literal too, at loop indices and at computed
/// indices.
#[test]
fn literals_are_numbers() {
    let (key, from) = (kept("key", DType::U32x4), kept("from", DType::U32x4));
    let zeros = HostArray::zeros(DType::U32x4, [VALUES.len()]).expect("small");
    let at = kept("at", DType::I32);
    let nodes = [key.clone(), from.clone(), at.clone()];
    let read = |text: &str| arrayjit::text::parse(text, &nodes).expect("a valid text");
    for backend in ["inline", "interpreter"] {
        assert_eq!(run(&builder::constant(&key, 7.0), backend, None, &key), [7; 8]);
        assert_eq!(run(&read("key[i] := 7"), backend, None, &key), [7; 8]);
        let shifted = run(&read("key[i] := pad(from, 7)[i + 7]"), backend, Some((&from, &zeros)), &key);
        assert_eq!(shifted, [0, 7, 7, 7, 7, 7, 7, 7]);
        let gathered = builder::constant(&at, -1.0).then(read("key[i] := pad(from, 7)[at[i]]"));
        assert_eq!(run(&gathered, backend, Some((&from, &zeros)), &key), [7; 8]);
    }
}

fn draw(bits: &TensorNode, key: &TensorNode, counter: &TensorNode) -> Assignments {
    builder::binary(bits, BinaryOp::Threefry, [key, counter]).expect("same dimensions")
}
