//! Several devices of one backend: compiled once, run on each, merged.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use arrayjit::{Backend, DType, HostArray, MergeBufferUse, Settings, TensorNode};

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
