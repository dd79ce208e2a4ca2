//! Tests the forms of a routine that `debug`, `dump` and `dump_folder` print or write. Each form is text that
//! parses.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use arrayjit::{Backend, TensorNode};

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

/// Runs the test above with these environment variables, and returns its standard error.
fn printed(variables: &[(&str, &str)]) -> String {
    let mut test = Command::new(env::current_exe().expect("this program"));
    test.args(["--exact", "compiles_two_routines", "--nocapture"]).envs(variables.iter().copied());
    let output = test.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
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
