//! Host arrays of nodes are read and written between runs, and stay coherent with the devices.

use arrayjit::settings::Settings;
use arrayjit::{Backend, HostArray, MemoryMode, TensorNode};
use device_runtime::Host;

const BACKENDS: [&str; 3] = ["inline", "multicore", "interpreter"];

fn array(values: &[f32], dims: &[usize]) -> HostArray {
    HostArray::from_slice(values, dims.iter().copied()).expect("as many values")
}

fn node(name: &str, dims: &[usize]) -> TensorNode {
    let builder = TensorNode::builder(name).dims(dims.iter().copied());
    builder.mode(MemoryMode::Hosted(tnode::Hosted::Unset)).build().expect("a small node")
}

#[test]
fn reads_bring_values_and_writes_make_devices_lag() {
    for name in BACKENDS {
        let backend =
            Backend::open_with(name, &Settings::default()).expect("every backend of this build opens");
        let (x, y) = (node("x", &[3, 2]), node("y", &[3, 2]));
        let host = Host::default();
        host.insert(&x, array(&[1., 2., 3., 4., 5., 6.], &[3, 2])).expect("an array of the node");
        host.insert(&y, array(&[0.; 6], &[3, 2])).expect("an array of the node");
        let code = backend.compile("y[i,j] := 2 * x[i,j]", [&x, &y]).expect("a valid text");
        let context = host.attach(&backend.context().expect("a stream"));
        let routine = code.link(&context).expect("the host has both");
        let device = backend.device().device_id();
        routine.run(&[]).expect("scheduled");
        host.do_read(&y).expect("the device's values arrive");
        assert_eq!(host.points_2d(&y, None, 0, 1).expect("rows of two"), [(2., 4.), (6., 8.), (10., 12.)]);
        assert!(host.devices_not_lagging_host(&x).contains(&device), "{name}");
        host.do_write(&x).expect("nobody reads any more");
        assert!(host.devices_not_lagging_host(&x).is_empty(), "{name}: whoever writes makes devices lag");
        host.set_values(&x, &[10., 20., 30., 40., 50., 60.]).expect("as many values");
        routine.run(&[]).expect("scheduled");
        assert_eq!(host.points_2d(&y, None, 1, 0).expect("rows of two")[0], (40., 20.), "{name}");

        let stranger = node("z", &[1]);
        for error in [host.do_read(&stranger), host.do_write(&stranger)] {
            let message = error.expect_err("it has no array").to_string();
            assert!(message.contains('z'), "{message}");
        }
    }
}

#[test]
fn nodes_note_where_they_have_memory() {
    for name in BACKENDS {
        let backend =
            Backend::open_with(name, &Settings::default()).expect("every backend of this build opens");
        let materialized = |label: &str| {
            TensorNode::builder(label).dims([2]).mode(MemoryMode::Materialized).build().expect("a small node")
        };
        let (x, y) = (materialized("x"), materialized("y"));
        assert_eq!(x.backend_info(), "");
        let context = backend.context().expect("a stream");
        let context = context.init_from_host(&x, array(&[1., 2.], &[2])).expect("memory");
        let noted = |node: &TensorNode, context: &arrayjit::Context| {
            let location = context.location(node).expect("it has memory");
            assert_eq!(node.backend_info(), format!("{} {location}", context.stream().name()));
            assert!(node.header().ends_with(&format!("({})", node.backend_info())), "{}", node.header());
        };
        noted(&x, &context);
        let code = backend.compile("y[i] := x[i] + 1", [&x, &y]).expect("a valid text");
        let routine = code.link(&context).expect("x has values");
        noted(&y, routine.context());
    }
}
