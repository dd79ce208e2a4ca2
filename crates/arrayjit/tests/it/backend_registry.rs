//! Backends that this crate has never seen, by name: registered at compile time and at run time, listed in
//! errors, named in settings. Registration lasts as long as the process, so names are used by one test each.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use arrayjit::{
    Backend, BackendParts, BackendStatus, Device, HostArray, OpenError, OpenResult, Settings, TensorNode,
    settings::FallbackSetting,
};
use codegen_core::Interpreted;
use codegen_testkit::{is_in_own_process, run_in_own_process};
use scheduler_multicore::{Cpu, CpuConfig};

arrayjit::register_backend!("relay", "the interpreter under another name", relay);
arrayjit::register_backend!("twice", "the first of two", relay);
arrayjit::register_backend!("twice", "the second of two", relay);

/// Opens a backend with as many devices as the settings say.
fn relay(settings: &Settings) -> OpenResult {
    let device = |ordinal| Device::new(Arc::new(Cpu::inline(CpuConfig::default())), ordinal);
    let parts = BackendParts::new(Arc::new(Interpreted::new()), device(0));
    Ok((1..settings.num_devices).fold(parts, |parts, ordinal| parts.with_device(device(ordinal))))
}

fn broken(_: &Settings) -> OpenResult {
    Err("its cable is cut")?
}

fn named(backend: &str) -> Settings {
    let mut settings = Settings::default();
    settings.backend = backend.into();
    settings
}

fn doubled(backend: &Backend) -> Vec<f64> {
    let [x, y] = ["x", "y"].map(|name| TensorNode::builder(name).dims([3]).build().unwrap());
    let values = HostArray::from_slice(&[1f32, 2., 3.], [3]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &values).unwrap();
    let routine = backend.compile("y[i] := 2 * x[i]", [&x, &y]).unwrap().link(&context).unwrap();
    routine.run(&[]).unwrap();
    routine.context().to_host(&y).unwrap().values()
}

#[test]
fn a_linked_crate_is_a_backend() {
    let mut settings = named("relay");
    settings.num_devices = 3;
    let backend = Backend::open_with(&settings.backend, &settings).unwrap();
    assert_eq!((backend.name(), backend.devices().len()), ("relay", 3));
    assert!(backend.device().is_initialized(), "the settings say how many streams devices suggest");
    assert_eq!(backend.devices()[2].ordinal(), 2);
    assert_eq!(doubled(&backend), [2.0, 4.0, 6.0]);
}

/// The test runs itself in another process, whose environment says which backend to open.
#[test]
fn the_environment_names_a_registered_backend() {
    const NAME: &str = "backend_registry::the_environment_names_a_registered_backend";
    if is_in_own_process(NAME) {
        let settings = Settings::load().unwrap().settings;
        assert_eq!(Backend::open_with(&settings.backend, &settings).unwrap().name(), "relay");
        return;
    }
    run_in_own_process(NAME, |child| {
        child.env("ARRAYJIT_BACKEND", "relay");
    });
}

#[test]
fn a_backend_is_registered_while_the_program_runs() {
    let before = Backend::open_with("late", &Settings::default()).unwrap_err();
    assert!(matches!(before, OpenError::Unknown { .. }), "{before}");
    Backend::register("late", "registered at run time", relay).unwrap();
    assert_eq!(Backend::open_with("late", &Settings::default()).unwrap().name(), "late");
    let again = Backend::register("late", "another one", relay).unwrap_err();
    assert_eq!(
        again.to_string(),
        "a backend is already registered as `late` (registered at run time): choose another name"
    );
    let linked = Backend::register("relay", "another one", relay).unwrap_err();
    assert!(
        matches!(&linked, OpenError::TakenName { about, .. } if about.contains("interpreter")),
        "{linked}"
    );
}

#[test]
fn names_are_checked() {
    for name in ["multicore", "inline", "interpreter", "wgpu", "cuda", "auto", "none"] {
        let error = Backend::register(name, "", relay).unwrap_err();
        assert!(matches!(&error, OpenError::ReservedName { name: found, .. } if found == name), "{error}");
        assert!(error.to_string().contains("one of arrayjit's own (multicore, inline,"), "{error}");
    }
    let long = "a".repeat(65);
    for name in ["", "Mine", "my backend", "1st", "-x", "naïve", "a,b", &long] {
        let error = Backend::register(name, "", relay).unwrap_err();
        assert!(matches!(&error, OpenError::MalformedName { name: found } if found == name), "{error}");
        assert!(error.to_string().contains("lower-case ASCII letters"), "{error}");
    }
    Backend::register("a-1_b", "a name with everything", relay).unwrap();
}

#[test]
fn errors_list_registered_backends() {
    let error = Backend::open_with("relai", &Settings::default()).unwrap_err().to_string();
    let start = "there is no backend `relai` (did you mean `relay`?); there are: multicore (native code";
    assert!(error.starts_with(start), "{error}");
    assert!(error.contains("relay (the interpreter under another name)"), "{error}");
    assert!(error.contains("auto (the first that opens of cuda, wgpu on a GPU and multicore)"), "{error}");
    assert!(error.contains("use CRATE as _;"), "{error}");
    let unlike = Backend::open_with("abacus", &Settings::default()).unwrap_err().to_string();
    assert!(unlike.starts_with("there is no backend `abacus`; there are: "), "{unlike}");
    for (misspelled, near) in [("Multicore", "multicore"), ("wgp", "wgpu"), ("atuo", "auto")] {
        let error = Backend::open_with(misspelled, &Settings::default()).unwrap_err();
        assert!(matches!(&error, OpenError::Unknown { near: Some(found), .. } if found == near), "{error}");
    }
    let error = Backend::open_with("twice", &Settings::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two crates of this program register a backend `twice`: `the first of two` and `the second of two`; link one of them"
    );
}

#[test]
fn what_does_not_open_says_why() {
    Backend::register("broken", "never opens", broken).unwrap();
    let error = Backend::open_with("broken", &Settings::default()).unwrap_err();
    assert_eq!(error.to_string(), "the registered backend `broken` does not open: its cable is cut");
    let status = status("broken");
    assert!(!status.is_available());
    assert_eq!(
        status.to_string(),
        "broken (never opens): not available: the registered backend `broken` does not open: its cable is cut"
    );
}

fn status(name: &str) -> BackendStatus {
    let mut settings = Settings::default();
    settings.num_devices = 2;
    let mut found = Backend::available_with(&settings).into_iter().filter(|backend| backend.name == name);
    found.next().unwrap()
}

#[test]
fn what_is_available_is_listed_with_its_devices() {
    let status = |name| {
        let status = status(name);
        let devices = status.devices.as_ref().map_or(0, Vec::len);
        (status.is_available(), devices, status.to_string())
    };
    let (_, devices, text) = status("relay");
    assert_eq!(devices, 2, "it opens as many as the settings say");
    let device = format!("architecture {}", std::env::consts::ARCH);
    assert_eq!(text, format!("relay (the interpreter under another name): 0: {device}; 1: {device}"));
    let (available, _, text) = status("interpreter");
    assert!(available && text.contains("0: this machine's processor ("), "{text}");
    let (available, _, text) = status("multicore");
    assert_eq!(available, cfg!(feature = "cranelift"), "{text}");
    if !cfg!(feature = "wgpu") {
        let (_, _, text) = status("wgpu");
        assert!(text.ends_with("not available: this build has no backend for GPUs: it was built without the feature `wgpu` of `arrayjit`"), "{text}");
    }
    let (available, _, text) = status("twice");
    assert!(!available && text.contains("two crates of this program"), "{text}");
    let (available, devices, text) = status("cuda");
    assert_eq!(available, devices > 0, "{text}");
}

#[test]
fn a_backend_that_this_build_lacks_names_its_feature() {
    let backends = [
        ("multicore", "cranelift", cfg!(feature = "cranelift")),
        ("wgpu", "wgpu", cfg!(feature = "wgpu")),
        ("cuda", "cuda", cfg!(feature = "cuda")),
    ];
    for (name, needed, is_built) in backends {
        let missing = match Backend::open_with(name, &Settings::default()).map(drop) {
            Err(OpenError::NotBuilt { feature, .. }) => Some(feature),
            _ => None,
        };
        assert_eq!(missing, (!is_built).then_some(needed), "{name}");
    }
}

#[test]
fn auto_is_never_a_software_adapter_and_never_registered() {
    match Backend::open_with("auto", &Settings::default()) {
        Ok(backend) => {
            let facts = backend.device().driver().static_properties();
            let is_software = facts.iter().any(|(name, value)| *name == "software" && value == "true");
            assert!(!is_software, "{facts:?}");
            assert!(["cuda", "wgpu", "multicore"].contains(&backend.name()), "{}", backend.name());
        }
        Err(error) => {
            let text = error.to_string();
            assert!(matches!(error, OpenError::NoneOpens { .. }) && !cfg!(feature = "cranelift"), "{text}");
            assert!(
                text.contains("cuda: ") && text.contains("; multicore: this build has no native"),
                "{text}"
            );
        }
    }
}

#[test]
fn auto_reports_what_it_skips() {
    const NAME: &str = "backend_registry::auto_reports_what_it_skips";
    if is_in_own_process(NAME) {
        let mut settings = Settings::default();
        settings.debugging.level = 1;
        settings.fallback = FallbackSetting::None;
        let name = Backend::open_with("auto", &settings).map_or("none".into(), |b| b.name().to_owned());
        eprintln!("chose {name}");
        return;
    }
    let output = run_in_own_process(NAME, |_| ());
    let text = String::from_utf8_lossy(&output.stderr);
    let chose = |name: &str| text.contains(&format!("chose {name}"));
    let skips = |name: &str| text.contains(&format!("arrayjit: auto skips {name}: "));
    assert!(chose("cuda") || chose("none") || skips("cuda"), "{text}");
    assert!(!chose("multicore") || skips("wgpu"), "{text}");
    let adapters = status("wgpu").devices.unwrap_or_default();
    let is_emulated = !adapters.is_empty() && adapters.iter().all(|adapter| adapter.is_software);
    assert!(!is_emulated || chose("cuda") || text.contains("emulates a GPU on the CPU"), "{text}");
}
