//! Tests the forms of a routine that `debug`, `dump` and `dump_folder` print or write, and the memory that
//! `debug` prints. Each form is text that parses.

use std::fs;
use std::path::Path;

use arrayjit::{Backend, DType, HostArray, TensorNode};
use codegen_testkit::run_in_own_process;
use device_runtime::PoolUse;

/// The tests below run this one in a process of its own.
#[test]
fn compiles_two_routines() {
    let backend = Backend::open("interpreter").expect("opens");
    for name in ["r", "other"] {
        let node = |name: &str| TensorNode::builder(name).dims([4]).build().expect("small");
        let nodes = [node("x"), node("y")];
        backend.compile_named(name, "y[i] := x[i] + x[i]", &nodes).expect("legal");
    }
}

/// The tests below run this one in a process of its own. Prints the sum of the device's memory report.
#[test]
fn links_a_training_step() {
    let text = "
        input x f32[64, 32], target f32[64, 8]
        param w f32[32, 8] := normal(1)
        y[b,o] :+= x[b,i] * w[i,o]
        loss := mse(tanh(y[b,o]), target[b,o])
        grad loss by w
        sgd(w[i,o], w.grad[i,o], 0.1)
        keep loss";
    let backend = Backend::open("inline").expect("opens");
    let code = backend.compile_named("step", text, [] as [TensorNode; 0]).expect("legal");
    let mut context = backend.initialize(&code, &backend.context().expect("a device")).expect("memory");
    for name in ["x", "target"] {
        let node = code.node(name).expect("declared");
        let zeros = HostArray::zeros(DType::F32, node.dims().expect("settled")).expect("small");
        context = context.init_from_host(node, &zeros).expect("memory");
    }
    let routine = code.link(&context).expect("all nodes have values");
    let report = context.stream().device().memory_report();
    // Temporaries that are not alive together share bytes.
    let end = |pool: &PoolUse| pool.items.iter().map(|item| item.offset + item.bytes).max().unwrap_or(0);
    let named: usize = report.pools.iter().map(end).sum();
    eprintln!("arrayjit: the report names {named} bytes");
    context.stream().device().reset_peak();
    routine.run(&[]).expect("scheduled").sync().expect("done");
    // A run allocates nothing more.
    let memory = context.stream().device().memory();
    assert_eq!(memory.peak_bytes, memory.live_bytes);
}

/// Runs the test `compiles_two_routines` with these environment variables, and returns its standard error.
fn printed(variables: &[(&str, &str)]) -> String {
    printed_by("compiles_two_routines", variables)
}

/// Runs a test of this program with these environment variables, and returns its standard error.
fn printed_by(test: &str, variables: &[(&str, &str)]) -> String {
    let output = run_in_own_process(&format!("dumps::{test}"), |child| {
        child.envs(variables.iter().copied());
    });
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lists the dumps in a text, as `PASS ROUTINE`. Each must parse.
fn dumps(text: &str) -> Vec<String> {
    let dumps = text.split("arrayjit: ").filter_map(|message| message.strip_prefix("after "));
    let name = |dump: &str| {
        let (pass, form) = dump.split_once(":\n").expect("a name and a form");
        let routine = lowered_ir::text::parse(form).unwrap_or_else(|e| panic!("{e}\n{form}"));
        format!("{pass} {}", routine.name)
    };
    dumps.map(name).collect()
}

#[test]
fn level_5_shows_three_forms_of_a_routine() {
    let found = dumps(&printed(&[("ARRAYJIT_DEBUG", "5")]));
    let expected =
        ["lower r", "optimize r", "schedule r_k0", "lower other", "optimize other", "schedule other_k0"];
    assert_eq!(found, expected);
    assert_eq!(dumps(&printed(&[("ARRAYJIT_DEBUG", "4")])), [""; 0]);
    let all = dumps(&printed(&[("ARRAYJIT_DEBUG", "6")]));
    for pass in ["virtualize r", "fuse_loops r", "vectorize r"] {
        assert!(all.iter().any(|dump| dump == pass), "{all:?}");
    }
}

#[test]
fn dump_selects_forms_of_one_routine() {
    let select = |dump: &str| dumps(&printed(&[("ARRAYJIT_DUMP", dump)]));
    assert_eq!(select("optimize@r"), ["optimize r"]);
    assert_eq!(select("schedule@r"), ["schedule r_k0"]);
    assert_eq!(select("lower"), ["lower r", "lower other"]);
    assert_eq!(select("vectorize@other"), ["vectorize other"]);
}

/// Lists the files in a folder, sorted by name.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder exists").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn dumps_go_to_numbered_files() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("dumps");
    let path = folder.to_str().expect("a name in Unicode");
    let text = printed(&[("ARRAYJIT_DUMP_FOLDER", path)]);
    assert_eq!(dumps(&text), [""; 0], "files take the place of standard error");
    assert_eq!(files(&folder), ["other", "r"]);
    let names = files(&folder.join("r"));
    assert!(
        names.iter().enumerate().all(|(number, name)| name.starts_with(&format!("{number:02}-"))),
        "{names:?}"
    );
    let passes: Vec<&str> = names.iter().map(|name| &name[3..]).collect();
    assert_eq!(passes.first(), Some(&"lower.lir"));
    assert_eq!(passes.last(), Some(&"schedule.lir"));
    assert!(passes.contains(&"optimize.lir") && passes.contains(&"fuse_loops.lir"), "{passes:?}");
    for name in &names {
        let form = fs::read_to_string(folder.join("r").join(name)).expect("it was written");
        lowered_ir::text::parse(&form).unwrap_or_else(|e| panic!("{name}: {e}\n{form}"));
    }
    let selected = parent.path().join("selected");
    let path = selected.to_str().expect("a name in Unicode");
    printed(&[("ARRAYJIT_DUMP_FOLDER", path), ("ARRAYJIT_DUMP", "optimize@r")]);
    assert_eq!(files(&selected), ["r"]);
    assert_eq!(files(&selected.join("r")), ["00-optimize.lir"]);
}

#[test]
fn generated_code_goes_to_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a name in Unicode");
    printed_by("links_a_training_step", &[("ARRAYJIT_DUMP_FOLDER", path), ("ARRAYJIT_DUMP", "codegen@step")]);
    assert_eq!(files(folder.path()), ["step"]);
    let names = files(&folder.path().join("step"));
    assert!(!names.is_empty());
    for name in &names {
        assert!(name.ends_with("-codegen.txt"), "{name}");
        let code = fs::read_to_string(folder.path().join("step").join(name)).expect("it was written");
        assert!(!code.trim().is_empty(), "{name}");
    }
}

/// The peak of a training step is the memory that the device's report names.
#[test]
fn level_2_shows_the_peak_of_a_step() {
    let printed = printed_by("links_a_training_step", &[("ARRAYJIT_DEBUG", "2")]);
    let number = |prefix: &str| -> usize {
        let line = printed.lines().rev().find_map(|line| line.strip_prefix(prefix));
        let line = line.unwrap_or_else(|| panic!("no line begins with {prefix:?}:\n{printed}"));
        line.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let is_peak = |line: &&str| line.contains("routine step: ") && line.contains(" bytes at peak: ");
    let peak = printed.lines().find(is_peak).unwrap_or_else(|| panic!("{printed}"));
    let peak: usize = peak["arrayjit: routine step: ".len()..].split(' ').next().unwrap().parse().unwrap();
    assert_eq!(peak, number("arrayjit: the report names "), "{printed}");
    assert!(!printed_by("links_a_training_step", &[("ARRAYJIT_DEBUG", "1")]).contains("at peak"));
}
