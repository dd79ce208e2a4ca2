//! Several devices of one backend: compiled once, run on each, merged.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use arrayjit::{Backend, DType, HostArray, MergeBufferUse, RunError, Settings, TensorNode};

#[test]
fn what_is_compiled_runs_on_every_device() {
    for name in ["multicore", "inline", "interpreter"] {
        let mut settings = Settings::default();
        settings.num_devices = 2;
        let backend = Backend::open_with(name, &settings).unwrap();
        assert_eq!(backend.devices().len(), 2);
        let node = |name: &str| TensorNode::builder(name).dims([3]).dtype(DType::F32).build().unwrap();
        let (x, g) = (node("x"), node("g"));
        let square = backend.compile("g[i] := x[i] * x[i]", [&x, &g]).unwrap();
        let merge = backend.compile_named("merge", "g[i] += g.merge[i]", [&g]).unwrap();
        let on = |ordinal: usize, values: &[f32; 3]| {
            let device = &backend.devices()[ordinal];
            assert_eq!(device.ordinal(), ordinal);
            let x_values = HostArray::from_slice(values, [3]).unwrap();
            let context = backend.context_on(device).unwrap().init_from_host(&x, &x_values).unwrap();
            square.link(&context).unwrap()
        };
        let (here, there) = (on(0, &[1.0, 2.0, 3.0]), on(1, &[4.0, 5.0, 6.0]));
        drop(here.run(&[]).unwrap());
        drop(there.run(&[]).unwrap());
        let merge = merge.link(here.context()).unwrap();
        let lent = MergeBufferUse::StreamingFor(merge.whole().unwrap(), &[]);
        assert!(here.context().device_to_device(&g, lent, there.context()).unwrap().is_scheduled());
        let sum = here.context().to_host(&g).unwrap();
        assert_eq!(sum.values(), [17.0, 29.0, 45.0], "{name}");
        assert_eq!(backend.device().copied_merges(), 0, "the devices reach each other's memory");
    }
}

#[test]
fn a_setting_bounds_the_size_of_a_node() {
    let y = TensorNode::builder("y").dims([25]).dtype(DType::F32).build().unwrap();
    for name in ["multicore", "inline", "interpreter"] {
        let link = |pool_bytes: usize| {
            let mut settings = Settings::default();
            settings.pool_bytes = pool_bytes;
            let backend = Backend::open_with(name, &settings).unwrap();
            let code = backend.compile("y[i] := 1", [&y]).unwrap();
            code.link(&backend.context().unwrap()).map(drop)
        };
        link(100).unwrap();
        let error = link(99).unwrap_err();
        assert!(matches!(&error, RunError::NodeTooLarge { bytes: 100, cap: 99, .. }), "{name}: {error}");
        assert!(error.to_string().ends_with(
            "holds at most 99; `Device::with_pool_cap`, in arrayjit the setting pool_bytes, raises this limit, except on GPUs behind wgpu"
        ));
    }
}
