//! Checkpoints resume to the same bits, and files that do not fit change nothing.

use std::{fs, path::Path};

use arrayjit_tensor::{
    DType, HostArray, TensorError,
    optim::{AdamW, Sgd},
    session::Session,
};

use crate::sessions::{TwoLayers, step};

#[test]
fn a_resumed_session_has_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    for (backend, dtype) in [("multicore", DType::F32), ("inline", DType::Bf16)] {
        let path = folder.path().join(backend);
        let whole = TwoLayers::new(backend, dtype);
        let mut session = whole.session();
        let expected: Vec<f64> = (0..20).map(|seed| step(&mut session, seed, 16).unwrap()).collect();

        let mut first = TwoLayers::new(backend, dtype).session();
        let mut found: Vec<f64> = (0..10).map(|seed| step(&mut first, seed, 16).unwrap()).collect();
        first.save(&path).unwrap();
        let resumed = TwoLayers::new(backend, dtype);
        let mut second = resumed.session();
        step(&mut second, 99, 16).unwrap();
        second.load(&path).unwrap();
        assert_eq!(second.steps(), 10);
        found.extend((10..20).map(|seed| step(&mut second, seed, 16).unwrap()));

        assert_eq!(found, expected);
        assert_eq!(resumed.weights.to_safetensors().unwrap(), whole.weights.to_safetensors().unwrap());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "temporary files remain");
}

#[test]
fn a_checkpoint_is_a_safetensors_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let model = TwoLayers::new("inline", DType::F32);
    let mut session = model.session();
    step(&mut session, 0, 4).unwrap();
    session.save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let arrays = tnode::safetensors::read(&bytes).unwrap();
    let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
    assert_eq!(names[..3], ["fc1.bias", "fc1.weight", "fc2.bias"]);
    assert_eq!(names[4..6], ["optimizer.adamw.m.fc1.bias", "optimizer.adamw.m.fc1.weight"]);
    assert_eq!(names.len(), 12);
    assert_eq!(arrays["fc1.weight"].values(), model.weights.state_dict().unwrap()["fc1.weight"].values());
}

fn problem(session: &mut Session, path: &Path) -> String {
    let before = (session.model_state().to_safetensors().unwrap(), session.steps());
    let error = session.load(path).unwrap_err();
    assert_eq!((session.model_state().to_safetensors().unwrap(), session.steps()), before);
    let TensorError::File { path: named, problem } = &error else { panic!("{error}") };
    assert_eq!(named, path);
    assert!(error.to_string().starts_with(&format!("file `{}`: ", path.display())));
    problem.to_string()
}

#[test]
fn torn_and_foreign_files_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let model = TwoLayers::new("inline", DType::F32);
    let mut session = model.session();
    step(&mut session, 0, 4).unwrap();
    session.save(path("whole")).unwrap();
    step(&mut session, 1, 4).unwrap();

    let bytes = fs::read(path("whole")).unwrap();
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(path("torn"), &bytes[..length]).unwrap();
        let found = problem(&mut session, &path("torn"));
        assert!(found.starts_with("no whole safetensors file: "), "{length}: {found}");
    }
    fs::write(path("plain"), model.weights.to_safetensors().unwrap()).unwrap();
    let found = problem(&mut session, &path("plain"));
    assert_eq!(found, "the metadata has nothing for `arrayjit_checkpoint`, expected 1");
    let TensorError::File { problem: found, .. } = session.load(path("none")).unwrap_err() else { panic!() };
    assert!(matches!(*found, TensorError::Io(_)), "{found}");

    let w = model.params.get("fc1.weight").unwrap();
    let other = Session::new(&model.weights, Sgd::new(0.1).momentum(0.9), move |batch| {
        batch.input("x")?.einsum("n i, o i -> n o", &w)?.sum(..)
    });
    other.unwrap().save(path("sgd")).unwrap();
    let found = problem(&mut session, &path("sgd"));
    assert!(found.contains("no values for the parameters: `optimizer.adamw.m.fc1.bias`"), "{found}");
    assert!(found.contains("no parameters for the values: `optimizer.sgd.v.fc1.bias`"), "{found}");

    TwoLayers::new("inline", DType::F64).session().save(path("f64")).unwrap();
    let found = problem(&mut session, &path("f64"));
    assert!(found.starts_with("`fc1.bias` is given f64[16], expected f32[16]"), "{found}");

    session.load(path("whole")).unwrap();
    assert_eq!(session.steps(), 1);
}

/// A file that cannot be written leaves the one of before as it is.
#[test]
fn a_file_that_cannot_be_replaced_stays() {
    let folder = tempfile::tempdir().unwrap();
    let session = TwoLayers::new("inline", DType::F32).session();
    let path = folder.path().join("a folder");
    fs::create_dir_all(path.join("below")).unwrap();
    assert!(session.save(&path).unwrap_err().to_string().contains("a folder"));
    assert!(path.join("below").exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files remain");
    assert!(session.save(folder.path().join("no/such/folder")).is_err());
}

#[test]
fn a_checkpoint_of_another_seed_is_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seed");
    let session = |seed: u32| {
        let params = arrayjit_tensor::Params::new(seed);
        let w = params.parameter("w", [2], arrayjit_tensor::Init::ONES).unwrap();
        let backend = arrayjit_tensor::Backend::open("inline").unwrap();
        let weights = arrayjit_tensor::ModelState::new(&backend, &params).unwrap();
        Session::new(&weights, Sgd::new(0.1), move |batch| batch.input("x")?.mul(&w)?.sum(..)).unwrap()
    };
    let mut first = session(1);
    first.step(&[("x", &HostArray::zeros(DType::F32, [2]).unwrap())]).unwrap();
    first.save(&path).unwrap();
    assert_eq!(problem(&mut session(2), &path), "the metadata has 1 for `seed`, expected 2");
}

/// A frozen parameter has neither gradient nor decay, and its optimizer no state in checkpoints.
#[test]
fn frozen_parameters_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frozen");
    let model = TwoLayers::new("inline", DType::F32);
    let mut session = model.session();
    step(&mut session, 0, 16).unwrap();
    let params = model.weights.params();
    assert_eq!(params.sub("fc1").freeze(|_| true), 2);
    assert_eq!(params.sub("fc").freeze(|_| true), 0);
    let before = model.weights.state_dict().unwrap();
    step(&mut session, 1, 16).unwrap();
    let after = model.weights.state_dict().unwrap();
    for name in before.keys() {
        assert_eq!(before[name].values() == after[name].values(), name.starts_with("fc1."), "{name}");
    }
    session.save(&path).unwrap();
    session.load(&path).unwrap();

    let other = TwoLayers::new("inline", DType::F32);
    let found = problem(&mut other.session(), &path);
    assert!(found.starts_with("no values for the parameters: `optimizer.adamw.m.fc1.bias`"), "{found}");
    other.weights.params().freeze(|name| name.starts_with("fc1."));
    other.session().load(&path).unwrap();

    params.unfreeze(|name| name == "fc1.bias");
    step(&mut session, 2, 16).unwrap();
    let last = model.weights.state_dict().unwrap();
    assert_eq!(last["fc1.weight"].values(), after["fc1.weight"].values());
    assert_ne!(last["fc1.bias"].values(), after["fc1.bias"].values());
    assert_eq!(session.compilations(), 3);
}

/// The means of a session are values of the whole model.
#[test]
fn averages_of_a_session() {
    let model = TwoLayers::new("inline", DType::F32);
    let mut session = model.session_with(AdamW::new(0.1).average(0.5));
    step(&mut session, 0, 16).unwrap();
    let first = model.weights.state_dict().unwrap();
    step(&mut session, 1, 16).unwrap();
    let second = model.weights.state_dict().unwrap();
    let means = session.averages().unwrap();
    assert_eq!(means.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, mean) in &means {
        let expected =
            first[name].values().into_iter().zip(second[name].values()).map(|(a, b)| (a + b) / 2.0);
        assert!(mean.values().iter().zip(expected).all(|(mean, both)| (mean - both).abs() < 1e-6), "{name}");
    }
    model.weights.load_state_dict(&means).unwrap();
}
