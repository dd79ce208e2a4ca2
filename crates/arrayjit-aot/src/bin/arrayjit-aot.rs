//! `arrayjit-aot`: compiles an ONNX model or a program in assignment text to an object file, a Rust module
//! and a C header.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to its user")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use arrayjit_aot::{AotError, ConstantPlace, Library, LibraryRoutine, ObjectLevel};
use arrayjit_onnx::{DimensionSize, Model};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(name = "arrayjit-aot", about, version)]
struct Cli {
    /// The ONNX model, a file whose name ends in .onnx, or the program, any other file.
    source: PathBuf,
    /// The folder for the files, which is made if it is missing.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// The name of the library, of its files and in its symbols: a-z, 0-9 and `_`; by default that of the
    /// source in these letters.
    #[arg(long)]
    name: Option<String>,
    /// The name of the routine and of its function.
    #[arg(long, default_value = "run")]
    routine: String,
    /// The triple of the system that runs the code; by default this one.
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// A level of processors, such as x86-64-v3; by default all levels of the target.
    #[arg(long = "level", value_name = "LEVEL")]
    levels: Vec<ObjectLevel>,
    /// The size of a dimension that a model leaves open: batch=4, or batch<=4 if each run gives a size of at
    /// most 4.
    #[arg(long = "size", value_name = "NAME=SIZE", value_parser = named_size)]
    sizes: Vec<(String, DimensionSize)>,
    /// The place of constants, such as weights.
    #[arg(long, value_enum, default_value_t = PlaceArg::Object)]
    constants: PlaceArg,
    /// Makes large products and convolutions as fast as in a process; the program needs the feature
    /// `products` of `arrayjit-rt`.
    #[arg(long)]
    products: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PlaceArg {
    /// The object file.
    Object,
    /// A file of their own.
    File,
}

fn main() -> ExitCode {
    sigpipe::reset();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("arrayjit-aot: {}", arrayjit::message_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let source = &cli.source;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let stem = source.file_stem().map(|stem| stem.to_string_lossy().chars().map(plain).collect());
    let name = cli.name.clone().or(stem).context("the source has no name: give --name")?;
    let unnamed = || format!("{}: give --name", source.display());
    let triple = cli.target.clone().unwrap_or_else(|| target_lexicon::HOST.to_string());
    let place = match cli.constants {
        PlaceArg::Object => ConstantPlace::Object,
        PlaceArg::File => ConstantPlace::File,
    };
    let library = match &*cli.levels {
        [] => Library::new(&name, &triple),
        levels => Library::with_levels(&name, &triple, levels),
    };
    let library = match library {
        Err(error @ AotError::Name { .. }) if cli.name.is_none() => return Err(error).with_context(unnamed),
        library => library?,
    };
    if cli.products && !cli.levels.is_empty() && cli.levels.iter().all(|&level| level == ObjectLevel::X86V2) {
        bail!("--products: code for level `{}` calls none", ObjectLevel::X86V2);
    }
    let library = if cli.products { library.with_products() } else { library };
    let mut library = library.with_constants_in(place);
    add(&mut library, cli).with_context(|| format!("cannot compile {}", source.display()))?;
    let output = cli.output.display();
    std::fs::create_dir_all(&cli.output).with_context(|| format!("cannot make the folder {output}"))?;
    let files = library.write(&cli.output)?;
    library.routines().iter().for_each(show);
    if library.calls_products() {
        println!("the program needs the feature `products` of arrayjit-rt");
    }
    println!("arena: {} bytes", library.arena_bytes());
    let written = [files.object, files.rust_module, files.c_header];
    written.iter().chain(&files.constants).try_for_each(|path| report(path))
}

/// Adds the routine of the source.
fn add(library: &mut Library, cli: &Cli) -> Result<()> {
    let source = &cli.source;
    if source.extension().is_some_and(|extension| extension == "onnx") {
        library.add_onnx(&cli.routine, &Model::load(source)?, &sizes(cli)?)?;
        return Ok(());
    }
    if let Some((size, _)) = cli.sizes.first() {
        bail!("--size {size}: only ONNX models leave dimensions open, and this is a program");
    }
    library.add_text(&cli.routine, &std::fs::read_to_string(source)?, &[])?;
    Ok(())
}

/// The sizes of open dimensions by name.
fn sizes(cli: &Cli) -> Result<BTreeMap<String, DimensionSize>> {
    let mut sizes = BTreeMap::new();
    for (name, size) in &cli.sizes {
        if sizes.insert(name.clone(), *size).is_some() {
            bail!("--size {name}: the dimension has two sizes, expected one");
        }
    }
    Ok(sizes)
}

fn show(routine: &LibraryRoutine) {
    println!("{}:", routine.name());
    for array in routine.arrays() {
        let access = if array.is_written { "written" } else { "read" };
        println!("  {}: {}{:?}, {access}", array.name, array.dtype, array.dims);
    }
    for symbol in routine.parameters() {
        let (least, greatest) = symbol.interval();
        println!("  {}: {least} to {greatest}", symbol.name);
    }
}

fn report(path: &Path) -> Result<()> {
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    println!("{}: {bytes} bytes", path.display());
    Ok(())
}

/// The form of an argument that gives a size of a dimension.
const SIZE_FORMS: &str = "expected NAME=SIZE or NAME<=SIZE";

fn named_size(text: &str) -> Result<(String, DimensionSize), String> {
    let bound = text.rsplit_once("<=").map(|(name, size)| (name, size, true));
    let exact = || text.rsplit_once('=').map(|(name, size)| (name, size, false));
    let (name, size, is_bound) = bound.or_else(exact).ok_or(SIZE_FORMS)?;
    let (name, size) = (name.trim(), size.trim());
    if name.is_empty() || name.ends_with(['<', '>']) {
        return Err(SIZE_FORMS.to_owned());
    }
    let size = size.parse().map_err(|_| format!("`{size}` is no size of an axis"))?;
    let size = if is_bound { DimensionSize::UpTo(size) } else { DimensionSize::Fixed(size) };
    Ok((name.to_owned(), size))
}
