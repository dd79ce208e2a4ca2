//! The C compiler's failures, and the life of its files.

use std::fs;

use codegen_c::{COptions, with_options};
use codegen_core::{Artifact, Codegen, CodegenError, ScheduledRoutine};
use scheduling::{ScheduleOptions, schedule};

fn scheduled(codegen: &dyn Codegen) -> ScheduledRoutine {
    let text = "routine @scaled strict {
        node %0 \"x\" f32[8] on_device
        node %1 \"y\" f32[8] on_device
        for i0 in 0..8 { %1[i0] := %0[i0] * 3.0f32 }
    }";
    let routine = codegen_core::text::parse(text).expect("a valid text");
    schedule(&routine, codegen, &ScheduleOptions::default()).expect("a legal routine")
}

fn compile(options: COptions) -> Result<Artifact, CodegenError> {
    let codegen = with_options(options);
    codegen.compile(&scheduled(&codegen))
}

#[test]
fn a_missing_compiler_is_named() {
    let options = COptions { program: "no-such-compiler".into(), ..COptions::default() };
    let error = compile(options).expect_err("there is no such program").to_string();
    assert!(error.contains("c failed in cc: no program `no-such-compiler` is installed"), "{error}");
}

#[test]
fn an_error_shows_its_line_of_c() {
    let options = COptions { flags: vec!["-Werror=unused-parameter".into()], ..COptions::default() };
    let error = compile(options).expect_err("the kernel has no static index").to_string();
    let (message, line) = error.split_once('\n').expect("a message and a line");
    assert!(message.contains("kernels.c:") && message.contains("unused parameter"), "{error}");
    assert!(
        line.trim_start().starts_with("void name(uint8_t *const *args, const int64_t *bindings"),
        "{error}"
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let options = COptions { folder: "/no/such/folder".into(), ..COptions::default() };
    let error = compile(options).expect_err("there is no such folder").to_string();
    assert!(error.contains("in a temporary folder: ") && error.contains("/no/such/folder"), "{error}");
}

#[test]
fn files_and_code_go_with_the_last_clone() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let files = || fs::read_dir(parent.path()).expect("the folder").count();
    let is_mapped = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        maps.contains(&*parent.path().to_string_lossy())
    };
    let options = COptions { folder: parent.path().to_owned(), ..COptions::default() };
    let artifact = compile(options).expect("a C compiler");
    let clone = artifact.clone();
    drop(artifact);
    assert_eq!((files(), is_mapped()), (1, cfg!(target_os = "linux")));
    drop(clone);
    assert_eq!((files(), is_mapped()), (0, false));
}

#[test]
fn options_are_part_of_the_fingerprint() {
    let fingerprint =
        |flag: &str| with_options(COptions { flags: vec![flag.into()], ..COptions::default() }).fingerprint();
    assert_eq!(fingerprint("-O1"), fingerprint("-O1"));
    assert_ne!(fingerprint("-O1"), fingerprint("-O2"));
}
