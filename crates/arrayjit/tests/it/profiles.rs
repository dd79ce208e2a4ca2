//! Profiles of routines: their contents, the time of their report, and unchanged code and results.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::sync::Arc;

use arrayjit::{
    Backend, BackendParts, DType, Device, HostArray, MemoryMode, Routine, Settings, TensorNode,
    profile::OperandMemory,
};

use codegen_core::Interpreted;
use device_runtime::NullDevice;

fn backend(name: &str, threads: usize, profile: bool) -> Backend {
    let mut settings = Settings::default();
    (settings.threads, settings.debugging.profile) = (threads, profile);
    Backend::open_with(name, &settings).unwrap()
}

fn node(name: &str, dims: &[usize], dtype: DType) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype).build().unwrap()
}

/// Two layers with a temporary between them, and a gather without a vector program.
fn routine(backend: &Backend) -> Routine {
    let [x, w, v, y] = ["x", "w", "v", "y"].map(|name| node(name, &[256, 256], DType::F32));
    let (at, g) = (node("at", &[256], DType::I32), node("g", &[256], DType::I32));
    let h = TensorNode::builder("h").dims([256, 256]).mode(MemoryMode::Local).build().unwrap();
    let text = "h[b,j] :+= x[b,i] * w[i,j]
                y[b,k] :+= relu(h[b,j]) * v[j,k]
                g[i] := at[at[i]]";
    let code = backend.compile_named("step", text, [&x, &w, &v, &y, &at, &g, &h]).unwrap();
    let mut context = backend.context().unwrap();
    for node in [&x, &w, &v, &at] {
        let zeros = HostArray::zeros(node.dtype(), node.dims().unwrap().to_vec()).unwrap();
        context = context.init_from_host(node, &zeros).unwrap();
    }
    code.link(&context).unwrap()
}

#[test]
fn a_profile_has_times_nodes_lines_work_and_code() {
    for (name, threads) in [("inline", 1), ("multicore", 1), ("multicore", 2)] {
        let backend = backend(name, threads, true);
        let routine = routine(&backend);
        for _ in 0..20 {
            routine.run(&[]).unwrap();
        }
        let profile = routine.profile().unwrap();
        assert_eq!((profile.routine.as_str(), profile.threads), ("step", threads));
        let run = profile.run_time.unwrap();
        assert_eq!(run.count, 20);
        assert!(run.median_us > 0.0 && run.total_us >= run.median_us);
        let mut before = 0.0;
        for call in &profile.calls {
            let (time, interval) = (call.time.unwrap(), call.interval.unwrap());
            assert_eq!(time.count, 20);
            assert!(before <= interval.begin_us && interval.begin_us <= interval.end_us, "calls are serial");
            assert!(time.median_us > 0.0 && call.roofline_share.is_none_or(|share| share.share > 0.0));
            before = interval.end_us;
        }
        let sum = |of: fn(&arrayjit::profile::Cost) -> f64| -> f64 {
            profile.calls.iter().map(|call| of(&call.description.cost)).sum()
        };
        assert!(sum(|cost| cost.flops) >= 2.0 * 2.0 * 256f64.powi(3), "two matmuls");
        assert!(sum(|cost| cost.bytes) >= 4.0 * 4.0 * 65536.0);
        let lines: Vec<_> = profile.calls.iter().flat_map(|call| &call.description.statements).collect();
        assert!((1..=3).all(|line| lines.iter().any(|statement| statement.user_line == Some(line))));
        let reasons: Vec<_> = profile.calls.iter().flat_map(|call| &call.description.methods).collect();
        let has =
            |reason: &str| reasons.iter().any(|method| method.not_vectorized.as_deref() == Some(reason));
        assert!(has("an index is computed"), "{reasons:?}");
        let operands = profile.calls.iter().flat_map(|call| &call.description.writes);
        let h = operands.clone().find(|operand| operand.name == "h");
        assert!(h.is_none_or(|h| h.memory == OperandMemory::Temporary && h.bytes == 4 * 65536));
        assert!(operands.clone().any(|operand| operand.name == "y"));
        assert_eq!(profile.memory.live_bytes.len(), profile.calls.len());
        let limits = profile.roofline.as_ref().unwrap();
        assert!(limits.flops > 0.0 && limits.bandwidths.len() > 2, "{limits}");
        assert!(profile.notes.is_empty());
    }
}

/// The second profile contains the runs of the first, and measures the device no second time.
#[test]
fn profiles_count_all_runs_so_far() {
    let backend = backend("multicore", 1, true);
    let routine = routine(&backend);
    assert_eq!(routine.profile().unwrap().run_time, None);
    routine.run(&[]).unwrap();
    let first = routine.profile().unwrap();
    routine.schedule(&[]).unwrap().run().unwrap();
    let second = routine.profile().unwrap();
    assert_eq!((first.run_time.unwrap().count, second.run_time.unwrap().count), (1, 2));
    assert_eq!(first.roofline, second.roofline);
    assert_eq!(first.roofline, backend.roofline());
}

/// Kernels, machine code and results are the same with and without the setting.
#[test]
fn profiling_changes_no_code_and_no_result() {
    let compiled = |profile: bool| {
        let backend = backend("multicore", 2, profile);
        let [x, y] = ["x", "y"].map(|name| node(name, &[300, 300], DType::F32));
        let code = backend.compile("y[i,j] :+= exp(x[i,k]) * x[k,j]", [&x, &y]).unwrap();
        let kernels = code.codes().flat_map(|code| code.schedule().kernels());
        let listings: Vec<_> = kernels
            .map(|kernel| (format!("{:?}", kernel.ir()), backend.codegen().listing(kernel).unwrap()))
            .collect();
        let values: Vec<f32> = (0..90_000).map(|at| (at % 97) as f32 / 97.0).collect();
        let array = HostArray::from_slice(&values, [300, 300]).unwrap();
        let context = backend.context().unwrap().init_from_host(&x, &array).unwrap();
        let routine = code.link(&context).unwrap();
        routine.run(&[]).unwrap();
        assert_eq!(routine.profile().is_some(), profile);
        (listings, routine.context().to_host(&y).unwrap().bytes().to_vec())
    };
    assert!(compiled(false) == compiled(true));
}

#[test]
fn a_profile_that_nobody_takes_becomes_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.debugging.profile = true;
    settings.debugging.profile_folder = folder.path().join("profiles").to_str().unwrap().to_owned();
    let backend = Backend::open_with("inline", &settings).unwrap();
    for _ in 0..2 {
        let routine = routine(&backend);
        routine.run(&[]).unwrap();
    }
    drop(routine(&backend)); // it has not run
    let taken = routine(&backend);
    taken.run(&[]).unwrap();
    assert!(taken.profile().is_some());
    drop(taken);
    let entries = std::fs::read_dir(folder.path().join("profiles")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["step-2.html", "step-2.json", "step.html", "step.json"]);
    let json = std::fs::read_to_string(folder.path().join("profiles/step-2.json")).unwrap();
    assert!(json.contains("\"an index is computed\""), "{json}");
}

/// Each run reads another slice of `x` by a symbol; the times of all of them belong to one profile.
#[test]
fn runs_with_bindings_are_profiled() {
    let backend = backend("multicore", 1, true);
    let (x, y) = (node("x", &[4, 100], DType::F32), node("y", &[100], DType::F32));
    let code = backend.compile("y[i] := 2 * x[@row, i]", [&x, &y]).unwrap();
    let context = backend.context().unwrap();
    let values: Vec<f32> = (0..400).map(|at| at as f32).collect();
    let context = context.init_from_host(&x, HostArray::from_slice(&values, [4, 100]).unwrap()).unwrap();
    let routine = code.link(&context).unwrap();
    for row in 0..4 {
        routine.run(&[row]).unwrap();
    }
    assert!(routine.run(&[4]).is_err(), "out of range");
    assert_eq!(routine.profile().unwrap().run_time.unwrap().count, 4);
    assert_eq!(routine.context().to_host(&y).unwrap().values()[0], 600.0);
}

/// The null device times no kernels.
#[test]
fn a_device_that_cannot_time_kernels_times_whole_runs() {
    let mut settings = Settings::default();
    settings.debugging.profile = true;
    let device = Device::new(Arc::new(NullDevice::new()), 0);
    let parts = BackendParts::new(Arc::new(Interpreted::new()), device);
    let backend = Backend::from_parts("null", parts, &settings).unwrap();
    let (x, y) = (node("x", &[100], DType::F32), node("y", &[100], DType::F32));
    let code = backend.compile("y[i] := 2 * x[i]", [&x, &y]).unwrap();
    let zeros = HostArray::zeros(DType::F32, [100]).unwrap();
    let routine = code.link(&backend.context().unwrap().init_from_host(&x, &zeros).unwrap()).unwrap();
    for _ in 0..5 {
        routine.run(&[]).unwrap();
    }
    let profile = routine.profile().unwrap();
    // The first run finds out that kernels are not timed.
    assert_eq!(profile.run_time.unwrap().count, 4);
    assert!(profile.calls.iter().all(|call| call.time.is_none() && call.roofline_share.is_none()));
    assert!(profile.notes[0].contains("cannot time its kernels"), "{:?}", profile.notes);
    assert!(profile.to_table().contains("note: a device cannot time its kernels"));
}

#[test]
fn profiles_of_dropped_routines_are_collected() {
    let backend = backend("inline", 1, true);
    backend.collect_profiles();
    for _ in 0..2 {
        routine(&backend).run(&[]).unwrap();
    }
    let kept = routine(&backend);
    kept.run(&[]).unwrap();
    let names = |profiles: Vec<arrayjit::profile::Profile>| -> Vec<String> {
        profiles.into_iter().map(|profile| profile.routine).collect()
    };
    assert_eq!(names(backend.take_profiles()), ["step", "step"]);
    assert!(backend.take_profiles().is_empty());
    drop(kept);
    assert_eq!(names(backend.take_profiles()), ["step"]);
}

/// Each step of a scan is a call of the profile; in the table, the steps of a kernel are a line.
#[test]
fn steps_of_a_scan_share_a_line_of_the_table() {
    let backend = backend("multicore", 2, true);
    let text = "param u f32[160,160] := normal(3) * 0.1
        node h f32[7,64,160]
        h[0,b,j] := 1
        scan t in 0..6 {
            r[b,j] :+= h[t,b,i] * u[i,j]
            h[t + 1, b, j] := tanh(r[b,j])
        }
        keep h";
    let code = backend.compile_named("walk", text, [] as [&TensorNode; 0]).unwrap();
    let context = backend.initialize(&code, &backend.context().unwrap()).unwrap();
    let routine = code.link(&context).unwrap();
    routine.run(&[]).unwrap();
    let profile = routine.profile().unwrap();
    assert!(profile.calls.len() > 6, "{}", profile.to_table());
    assert!(profile.to_table().contains(", 6 calls\n"), "{}", profile.to_table());
}
