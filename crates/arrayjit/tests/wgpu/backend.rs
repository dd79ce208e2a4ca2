//! The backend `wgpu`: opening it, adapters by name, limits of the device. The conformance kit tests its
//! results.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use arrayjit::{Backend, DType, HostArray, OpenError, RunError, Settings, TensorNode};
use codegen_testkit::gpu::or_skip;

fn settings(adapter: &str) -> Settings {
    let mut settings = Settings::default();
    settings.gpu.wgpu_adapter = adapter.to_owned();
    settings
}

fn open(test: &str) -> Option<Backend> {
    or_skip(test, Backend::open_with("wgpu", &settings("")))
}

fn fact(backend: &Backend, name: &str) -> String {
    let facts = backend.device().driver().static_properties();
    facts.iter().find(|(fact, _)| *fact == name).unwrap().1.clone()
}

#[test]
fn a_program_runs() {
    let Some(backend) = open("a_program_runs") else { return };
    let [x, w, y] = [("x", [3, 40]), ("w", [40, 5]), ("y", [3, 5])]
        .map(|(name, dims)| TensorNode::builder(name).dims(dims).build().unwrap());
    let code = backend.compile("y[i,h] :+= x[i,k] * w[k,h]", [&x, &w, &y]).unwrap();
    let numbers = |n: usize| (0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>();
    let (xs, ws) = (numbers(120), numbers(200));
    let context = backend.context().unwrap();
    let context = context.init_from_host(&x, HostArray::from_slice(&xs, [3, 40]).unwrap()).unwrap();
    let context = context.init_from_host(&w, HostArray::from_slice(&ws, [40, 5]).unwrap()).unwrap();
    let routine = code.link(&context).unwrap();
    routine.run(&[]).unwrap();
    let element = |i: usize, h: usize| (0..40).map(|k| xs[i * 40 + k] * ws[k * 5 + h]).sum::<f32>();
    let expected: Vec<f64> = (0..15).map(|at| element(at / 5, at % 5).into()).collect();
    assert_eq!(routine.context().to_host(&y).unwrap().values(), expected, "sums of small integers are exact");
    assert_eq!(backend.device().name(), "wgpu:0");
}

#[test]
fn the_device_times_the_kernels_of_a_profile() {
    let mut settings = settings("");
    settings.debugging.profile = true;
    let test = "the_device_times_the_kernels_of_a_profile";
    let Some(backend) = or_skip(test, Backend::open_with("wgpu", &settings)) else { return };
    let [x, few, many] = [("x", 1 << 16), ("few", 16), ("many", 1)]
        .map(|(name, len)| TensorNode::builder(name).dims([len]).build().unwrap());
    let code = backend.compile("few[i] := x[i] where i < 16; many[j] :+= x[i] * x[i]", [&x, &few, &many]);
    let ones = HostArray::from_slice(&[1f32; 1 << 16], [1 << 16]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, ones).unwrap();
    let routine = code.unwrap().link(&context).unwrap();
    for _ in 0..20 {
        routine.run(&[]).unwrap();
    }
    let sums = routine.context().to_host(&many).unwrap().values();
    let profile = routine.profile().unwrap();
    assert_eq!((sums, profile.run_time.unwrap().count), (vec![65536.0], 20));
    let is_timed = fact(&backend, "has_clock") == "true";
    assert_eq!(profile.notes.iter().any(|note| note.contains("cannot time its kernels")), !is_timed);
    let mut before = 0.0;
    for call in profile.calls.iter().filter(|_| is_timed) {
        let (time, interval) = (call.time.unwrap(), call.interval.unwrap());
        assert_eq!(time.count, 20);
        assert!(before <= interval.begin_us && interval.begin_us <= interval.end_us, "calls are serial");
        before = interval.end_us;
    }
    assert!(!is_timed || profile.calls.iter().any(|call| call.time.unwrap().median_us > 0.0));
}

#[test]
fn adapters_are_chosen_by_settings_and_listed_in_errors() {
    let Some(backend) = open("adapters_are_chosen_by_settings_and_listed_in_errors") else { return };
    let name = fact(&backend, "adapter");
    let again = Backend::open_with("wgpu", &settings(&name.to_uppercase())).unwrap();
    assert_eq!(fact(&again, "adapter"), name);
    let error = Backend::open_with("wgpu", &settings("no such thing")).unwrap_err();
    assert!(matches!(error, OpenError::Adapter(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("`no such thing`") && text.contains(&name), "{text}");
}

#[test]
fn a_node_beyond_the_largest_binding_is_named() {
    let Some(backend) = open("a_node_beyond_the_largest_binding_is_named") else { return };
    let cap: usize = fact(&backend, "largest_pool_bytes").parse().unwrap();
    let [big, x] = [("big", cap / 4 + 1), ("x", 1)]
        .map(|(name, len)| TensorNode::builder(name).dims([len]).dtype(DType::F32).build().unwrap());
    let code = backend.compile("big[i] := x[0]", [&big, &x]).unwrap();
    let context = backend.context().unwrap();
    let context = context.init_from_host(&x, HostArray::from_slice(&[1f32], [1]).unwrap()).unwrap();
    let before = backend.device().memory().live_bytes;
    let error = code.link(&context).unwrap_err();
    assert!(error.to_string().contains("node `big` needs"), "{error}");
    assert_eq!(backend.device().memory().live_bytes, before);
    let host = HostArray::zeros(DType::F32, [cap / 4 + 1]).unwrap();
    let error = context.init_from_host(&big, &host).unwrap_err();
    assert!(
        matches!(&error, RunError::NodeTooLarge { node, bytes, cap: limit, .. } if node == "big" && (*bytes, *limit) == (cap + 4, cap)),
        "{error}"
    );
}
