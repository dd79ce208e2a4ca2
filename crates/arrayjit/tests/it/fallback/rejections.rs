//! Reports and counts of fallbacks, and settings that forbid them.

use arrayjit::settings::FallbackSetting;
use arrayjit::{Backend, Caps, CompileError, DType, FallbackCount};
use codegen_core::CodegenError;

use codegen_testkit::{is_in_own_process, run_in_own_process};

use super::placed;
use super::rejecting::{context, kept, named, rejecting, settings, typed, with_caps, with_text};

const TEXT: &str = "y[i] := x[i] * 2\nz[i] := sqrt(y[9 - i])\nv[i] := z[9 - i] + y[i]";

fn nodes() -> [arrayjit::TensorNode; 4] {
    ["x", "y", "z", "v"].map(|name| kept(name, &[10]))
}

#[test]
fn fallbacks_are_told_and_counted() {
    let backend = rejecting("inline", settings(FallbackSetting::Interpreter), with_text("sqrt"));
    assert_eq!(backend.fallback_count(), FallbackCount::default());
    let nodes = nodes();
    let code = backend.compile_named("roots", TEXT, &nodes).unwrap();
    assert_eq!((code.name(), code.codes().count(), code.symbols().len()), ("roots", 3, 0));
    let [fallback] = code.fallbacks() else { panic!("{:?}", code.fallbacks()) };
    assert_eq!((fallback.from.as_str(), fallback.to.as_str()), ("partial", "interpreter"));
    assert_eq!((fallback.what.as_str(), fallback.why.as_str()), ("`sqrt`", "the test says so"));
    assert_eq!(fallback.writes, ["z"]);
    let line = fallback.to_string();
    let at = format!(
        "statements {} to {} of {}",
        fallback.statements.start + 1,
        fallback.statements.end,
        fallback.num_statements
    );
    assert_eq!(
        line,
        format!(
            "routine `roots`: {at} (`z`) fall back to interpreter: partial does not do `sqrt`: the test says so"
        )
    );
    assert!(fallback.text.contains("sqrt("), "{}", fallback.text);
    assert_eq!(fallback.explain(), format!("{line}\n{}", fallback.text));
    assert_eq!(backend.fallback_count(), FallbackCount { kernels: 1, runs: 0 });

    let routine = code.link(&context(&backend, &[(&nodes[0], &[1.0; 10])])).unwrap();
    assert_eq!(routine.name(), "roots");
    (0..5).for_each(|_| drop(routine.run(&[]).unwrap()));
    assert_eq!(backend.fallback_count(), FallbackCount { kernels: 1, runs: 5 });
    let modes = code.explain(&nodes[1]).unwrap();
    assert!(modes.contains("\"y\""), "{modes}");
}

/// The test runs itself as another process and reads the standard error of that process.
#[test]
fn debug_1_prints_what_falls_back() {
    const NAME: &str = "fallback::rejections::debug_1_prints_what_falls_back";
    if is_in_own_process(NAME) {
        let mut settings = settings(FallbackSetting::Interpreter);
        settings.debugging.level = 1;
        rejecting("inline", settings, with_text("sqrt")).compile_named("roots", TEXT, nodes()).unwrap();
        return;
    }
    let printed = String::from_utf8(run_in_own_process(NAME, |_| ()).stderr).unwrap();
    let lines: Vec<&str> = printed.lines().filter(|line| line.contains("back to interpreter")).collect();
    let [line] = lines.as_slice() else { panic!("{printed}") };
    assert!(line.starts_with("arrayjit: routine `roots`: statement"), "{line}");
    assert!(line.ends_with("partial does not do `sqrt`: the test says so"), "{line}");
    for part in ["part 1 on partial: 1 kernels", "part 2 on interpreter: 1 kernels", "part 3 on partial"] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
}

#[test]
fn what_compiles_does_not_fall_back() {
    let backend = rejecting("inline", settings(FallbackSetting::Interpreter), with_text("tanh"));
    let nodes = nodes();
    let code = backend.compile(TEXT, &nodes).unwrap();
    assert!(code.fallbacks().is_empty());
    assert_eq!(code.codes().count(), 1);
    code.link(&context(&backend, &[(&nodes[0], &[1.0; 10])])).unwrap().run(&[]).unwrap();
    assert_eq!(backend.fallback_count(), FallbackCount::default());
}

#[test]
fn fallback_can_be_forbidden() {
    // CPU backends have no fallback unless the settings name one.
    for to in [FallbackSetting::None, FallbackSetting::Auto] {
        let backend = rejecting("inline", settings(to), with_text("sqrt"));
        let nodes = nodes();
        let modes: Vec<_> = nodes.iter().map(|node| node.mode()).collect();
        let error = backend.compile(TEXT, &nodes).map(|_| ()).unwrap_err();
        let (place, rejected) = placed(&error);
        let shown = place.to_string();
        assert!(shown.contains("sqrt") && shown.contains('^'), "the line of the rejected statement: {shown}");
        let CompileError::NoFallback { source, to: "multicore" } = rejected else { panic!("{error:?}") };
        let is_rejection = matches!(
            &**source,
            CompileError::Codegen(CodegenError::Unsupported { op, .. }) if op == "`sqrt`"
        );
        assert!(is_rejection, "{error:?}");
        let (text, remedy) = (error.to_string(), "the setting `fallback = \"multicore\"` runs");
        assert!(text.contains(&format!(": {source}")) && text.contains(remedy), "{text}");
        assert!(text.starts_with(&place.position().to_string()) && text.ends_with(&shown), "{text}");
        assert!(nodes.iter().map(|node| node.mode()).eq(modes), "a rejection decides nothing");
        assert_eq!(backend.fallback_count(), FallbackCount::default());
        assert!(backend.fallback().unwrap().is_none());
    }
}

/// The setting that a rejection names as the remedy makes the program compile.
#[test]
fn the_remedy_of_a_rejection_works() {
    let nodes = nodes();
    let compile = |to: &str| {
        let fallback = match to {
            "none" => FallbackSetting::None,
            "multicore" => FallbackSetting::Multicore,
            "interpreter" => FallbackSetting::Interpreter,
            other => panic!("{other}"),
        };
        rejecting("inline", settings(fallback), with_text("sqrt")).compile(TEXT, &nodes)
    };
    let error = compile("none").map(|_| ()).unwrap_err();
    let CompileError::NoFallback { to, .. } = placed(&error).1 else { panic!("{error:?}") };
    assert_eq!(compile(to).unwrap().fallbacks()[0].to, *to);
    // A backend is no remedy for its own rejections.
    for (own, remedy) in [("multicore", Some("interpreter")), ("interpreter", None)] {
        let backend = named(own, own, settings(FallbackSetting::None), |_| {}, with_text("sqrt"));
        let error = backend.compile(TEXT, &nodes).map(|_| ()).unwrap_err();
        let found = match placed(&error).1 {
            CompileError::NoFallback { to, .. } => Some(*to),
            CompileError::Codegen(_) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, remedy);
    }
}

#[test]
fn gpus_fall_back_to_native_code_of_the_cpu() {
    let gpu = |to| {
        let groups = codegen_core::Workgroups::new(64, 16 << 10);
        with_caps("interpreter", settings(to), |caps| caps.workgroups = Some(groups), |_| None)
    };
    let name = |backend: &Backend| backend.fallback().unwrap().map(|to| to.name().to_owned());
    assert_eq!(name(&gpu(FallbackSetting::Auto)).as_deref(), Some("multicore"));
    assert_eq!(name(&gpu(FallbackSetting::Inline)).as_deref(), Some("inline"));
    assert_eq!(name(&gpu(FallbackSetting::None)), None);
    // A backend does not fall back to itself, since it would reject the same kernel again.
    for (own, to) in [("inline", FallbackSetting::Inline), ("interpreter", FallbackSetting::Interpreter)] {
        assert_eq!(name(&Backend::open_with(own, &settings(to)).unwrap()), None);
    }
    // The fallback backend has no fallback of its own.
    assert_eq!(name(gpu(FallbackSetting::Auto).fallback().unwrap().unwrap()), None);
}

#[test]
fn other_errors_do_not_fall_back() {
    let backend = rejecting("inline", settings(FallbackSetting::Interpreter), |_| None);
    let [x, y, ..] = nodes();
    let error = backend.compile("y[i] := x[i,j]", [&x, &y]).map(|_| ()).unwrap_err();
    assert!(!matches!(error, CompileError::FallbackRejected { .. } | CompileError::FallbackOpen { .. }));
    assert_eq!(backend.fallback_count(), FallbackCount::default());
}

#[test]
fn what_the_target_cannot_compute_is_named() {
    let lacking = |caps: &mut Caps| {
        caps.arithmetic = DType::ALL.into_iter().filter(|dtype| *dtype != DType::F64).collect();
    };
    let backend = with_caps("inline", settings(FallbackSetting::Interpreter), lacking, |_| None);
    let [x, y] = ["x", "y"].map(|name| typed(name, DType::F64, &[4]));
    let code = backend.compile_named("scale", "y[i] := x[i] * 1.5", [&x, &y]).unwrap();
    let [fallback] = code.fallbacks() else { panic!("{:?}", code.fallbacks()) };
    assert_eq!(fallback.what, "`*` on f64");
    assert_eq!(fallback.why, "it takes arithmetic in f64");
    // A target can move values of a type that it does not compute with.
    assert!(backend.compile("y[i] := x[3 - i]", [&x, &y]).unwrap().fallbacks().is_empty());
}

/// The target rejects a kernel with both statements, and accepts each statement alone. So nothing falls back,
/// and the routine is divided in two.
#[test]
fn what_is_rejected_together_alone_is_cut() {
    let both = |kernel: &lowered_ir::ir::LoweredRoutine| {
        let text = lowered_ir::text::print(kernel);
        (text.contains("sqrt") && text.contains("floor")).then(|| "both".to_owned())
    };
    let backend = rejecting("inline", settings(FallbackSetting::Interpreter), both);
    let nodes = nodes();
    let text = "y[i] := sqrt(x[i])\nz[i] := floor(y[9 - i])\nv[i] := y[i] + z[9 - i]";
    let code = backend.compile(text, &nodes).unwrap();
    assert!(code.fallbacks().is_empty());
    assert!(code.codes().count() > 1);
    let routine = code.link(&context(&backend, &[(&nodes[0], &[6.25; 10])])).unwrap();
    routine.run(&[]).unwrap();
    assert_eq!(routine.context().to_host(&nodes[3]).unwrap().values(), [4.5; 10]);
    assert_eq!(backend.fallback_count().kernels, 0);
}
