//! The layout of what objects and `arrayjit-rt` pass to each other belongs to a version.

use std::fmt::Write as _;
use std::mem::offset_of;

use arrayjit_aot::Library;
use arrayjit_rt::ObjectThreads;
use codegen_cranelift::object::{MISALIGNED, PRODUCT, PRODUCT_VERSION};
use expect_test::expect_file;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use object_loader::{RUNTIME, levels};

use crate::programs::TRIPLE;

/// The words of a product in the data of an object: the names of symbols, less the entry's, and numbers.
fn product() -> String {
    let level = *levels().last().expect("a level");
    let mut library = Library::with_levels("p", TRIPLE, &[level]).expect("a target").with_products();
    let text =
        "input a f32[64, 96], b f32[96, 80]; c[i,j] :+= a[i,k] * b[k,j]; y[i,j] := tanh(c[i,j]); keep y";
    library.add_text("f", text, &[]).expect("a valid text");
    let bytes = library.object().expect("a small object");
    let file = object::File::parse(&*bytes).expect("an object file");
    let section = file.sections().find(|section| section.kind() == object::SectionKind::Data);
    let section = section.expect("a product");
    let data = section.data().expect("the data of the section");
    let symbol = |offset: usize| {
        let (_, relocation) = section.relocations().find(|(at, _)| *at == offset as u64)?;
        let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("a symbol") };
        let name = file.symbol_by_index(symbol).expect("the symbol").name().expect("a name");
        Some(format!("the address of `{}`", name.rsplit_once('_').expect("parts").1))
    };
    let word = |(at, word): (usize, &[u8; 8])| {
        let number = || match at {
            2 => "the bytes of the data".to_owned(),
            3 => format!("{} functions", u64::from_le_bytes(*word)).replace(char::is_numeric, "N"),
            _ => u64::from_le_bytes(*word).to_string(),
        };
        format!("  {}: {}\n", 8 * at, symbol(8 * at).unwrap_or_else(number))
    };
    data.as_chunks().0.iter().enumerate().take(5).map(word).collect()
}

/// A change of this file needs a new [`PRODUCT_VERSION`], which names it.
#[test]
fn the_layout_belongs_to_a_version() {
    assert_eq!(PRODUCT, format!("arrayjit_rt_product_{PRODUCT_VERSION}"));
    assert_eq!(PRODUCT_VERSION, arrayjit_rt::products::VERSION);
    let mut text = String::from("threads\n");
    for (field, offset) in [
        ("run", offset_of!(ObjectThreads, run)),
        ("context", offset_of!(ObjectThreads, context)),
        ("count", offset_of!(ObjectThreads, count)),
        ("scratch", offset_of!(ObjectThreads, scratch)),
        ("(end)", size_of::<ObjectThreads>()),
    ] {
        writeln!(text, "  {offset}: {field}").expect("a string");
    }
    write!(text, "status of an array that is not aligned: {MISALIGNED}\nproduct\n{}", product())
        .expect("a string");
    writeln!(text, "functions\n  {}", RUNTIME.join("\n  ")).expect("a string");
    expect_file![format!("{}/tests/goldens/abi_{PRODUCT_VERSION}.txt", env!("CARGO_MANIFEST_DIR"))]
        .assert_eq(&text);
}
