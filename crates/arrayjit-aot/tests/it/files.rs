//! The files of a library: the Rust module and the C header, and object files for other systems.

use arrayjit::HostArray;
use arrayjit_aot::{ConstantPlace, Library, ObjectLevel};
use codegen_cranelift::object::PRODUCT;
use expect_test::expect_file;
use object::{Architecture, BinaryFormat, Object, ObjectSection, ObjectSymbol};

fn library(triple: &str, place: ConstantPlace) -> Library {
    let mut library = Library::new("tone_filter", triple).expect("a target").with_constants_in(place);
    let w = HostArray::from_slice(&[1f32, 2., 3., 4., 5., 6.], [2, 3]).expect("a small array");
    let text = "size n <= 8; input x f32[n, 3], w f32[2, 3]; y[i,o] :+= x[i,k] * w[o,k]; keep y";
    library.add_text("step", text, &[("w", &w)]).expect("a valid text");
    library
}

/// A system of each format, and those of the other architecture if there is code for it.
const SYSTEMS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
    #[cfg(feature = "cross")]
    "aarch64-unknown-linux-gnu",
    #[cfg(feature = "cross")]
    "aarch64-apple-darwin",
];

#[test]
fn the_module_and_the_header_have_a_function_per_routine() {
    let linux = library("x86_64-unknown-linux-gnu", ConstantPlace::Object);
    expect_file!["../goldens/tone_filter.rs.txt"].assert_eq(&linux.rust_module());
    expect_file!["../goldens/tone_filter.h"].assert_eq(&linux.c_header());
    let with_file = library("x86_64-unknown-linux-gnu", ConstantPlace::File);
    expect_file!["../goldens/with_file.rs.txt"].assert_eq(&with_file.rust_module());
    expect_file!["../goldens/with_file.h"].assert_eq(&with_file.c_header());
    assert_eq!(with_file.constants().len(), 24);
}

#[test]
fn a_file_of_constants_is_written_even_if_there_are_none() {
    let library = Library::new("copy", "x86_64-unknown-linux-gnu").expect("a target");
    let mut library = library.with_constants_in(ConstantPlace::File);
    library.add_text("step", "input x f32[3]; y[i] := x[i]; keep y", &[]).expect("a valid text");
    let folder = tempfile::tempdir().expect("a folder");
    let file = library.write(folder.path()).expect("a writable folder").constants.expect("a file");
    assert_eq!(std::fs::read(file).expect("a file").len(), 0);
    // The functions take its contents.
    assert!(library.rust_module().contains("constants: &'c arrayjit_rt::Aligned<[u8; 0]>"));
}

#[test]
fn levels_share_equal_kernels() {
    let bytes_of = |levels: &[ObjectLevel]| {
        let mut library =
            Library::with_levels("shared", "x86_64-unknown-linux-gnu", levels).expect("a target");
        let text = "input x f32[64, 96], w f32[96, 80]; y[i,o] :+= x[i,k] * w[k,o]; z[i] :+= y[i,o]; keep z";
        library.add_text("step", text, &[]).expect("a valid text");
        let bytes = library.object().expect("a small object");
        let file = object::File::parse(&*bytes).expect("an object file");
        file.sections().filter(|section| section.kind() == object::SectionKind::Text).map(|s| s.size()).sum()
    };
    let [one, two, all]: [u64; 3] = [
        bytes_of(&[ObjectLevel::X86V3]),
        bytes_of(&[ObjectLevel::X86V3, ObjectLevel::X86V4Mixed]),
        bytes_of(&[ObjectLevel::X86V3, ObjectLevel::X86V4Mixed, ObjectLevel::X86V4]),
    ];
    assert!(two < one + one / 4, "{one} bytes, {two} with the mixed level");
    assert!(all > two + one / 4, "{two} bytes, {all} with another level");
}

#[test]
fn object_files_have_the_format_of_the_system() {
    let systems = [
        ("x86_64-unknown-linux-gnu", BinaryFormat::Elf),
        ("x86_64-unknown-none", BinaryFormat::Elf),
        ("x86_64-apple-darwin", BinaryFormat::MachO),
        ("x86_64-pc-windows-msvc", BinaryFormat::Coff),
    ];
    for (triple, format) in systems {
        let bytes = library(triple, ConstantPlace::Object).object().expect("a small object");
        let file = object::File::parse(&*bytes).expect("an object file");
        assert_eq!((file.format(), file.architecture()), (format, Architecture::X86_64), "{triple}");
        let mut entries: Vec<String> = file
            .symbols()
            .filter(|symbol| symbol.is_global() && symbol.is_definition())
            .map(|symbol| symbol.name().expect("a name").trim_start_matches('_').to_owned())
            .collect();
        entries.sort();
        let expected = ["v2", "v3", "v4", "v4_mixed"].map(|level| format!("tone_filter_step_x86_64_{level}"));
        assert_eq!(entries, expected, "{triple}");
        // Every reference of code is relative, so that the code may be anywhere and is shared by processes.
        let text = file.sections().find(|section| section.kind() == object::SectionKind::Text);
        for (_, relocation) in text.expect("code").relocations() {
            let kind = relocation.kind();
            use object::RelocationKind::{PltRelative, Relative};
            assert!([Relative, PltRelative].contains(&kind), "{triple}: {kind:?}");
        }
    }
}

#[test]
fn modules_and_objects_with_products_name_what_they_need() {
    let text = "input a f32[37, 53], b f32[53, 29]; c[i,j] :+= a[i,k] * b[k,j]; keep c";
    for triple in SYSTEMS {
        let library = |library: Library| {
            let mut library = library;
            library.add_text("f", text, &[]).expect("a valid text");
            library
        };
        let without = library(Library::new("p", triple).expect("a target"));
        assert!(!without.rust_module().contains("products"), "{triple}");
        let with = library(Library::new("p", triple).expect("a target").with_products());
        assert!(with.rust_module().contains("arrayjit_rt::products::VERSION"), "{triple}");
        assert!(with.c_header().contains("feature `products`"), "{triple}");
        let bytes = with.object().expect("a small object");
        let file = object::File::parse(&*bytes).expect("an object file");
        let needed = file.symbols().filter(|symbol| symbol.is_undefined()).map(|symbol| symbol.name());
        let calls = needed.flatten().any(|name| name.trim_start_matches('_') == PRODUCT);
        assert!(calls, "{triple}");
        // The addresses of functions are in data, which is writable; code has none.
        let data = file.sections().find(|section| section.kind() == object::SectionKind::Data);
        let addresses = data.map_or(0, |data| data.relocations().count());
        assert!(addresses > 0, "{triple}");
    }
}
