//! The Rust module of a library: a type whose methods are its routines.

use std::fmt::Write;

use codegen_cranelift::object::{ObjectLevel, PRODUCT_VERSION};

use crate::constants::ConstantPlace;
use crate::library::{Library, LibraryRoutine};
use crate::signature::{ArrayParameter, ElementTypes, FunctionParameter};

/// Lints that the module cannot obey: a program may use a part of it, and routines may take many arrays.
const ALLOWED: &str =
    "#[allow(dead_code, unreachable_pub, clippy::too_many_arguments, reason = \"generated\")]";

/// The text of the module.
pub(crate) fn write(library: &Library) -> String {
    let mut text = String::new();
    let name = type_name(&library.name);
    let (has_file, bytes) = (library.place == ConstantPlace::File, library.constants.bytes.len());
    let levels: Vec<String> = library.targets.iter().map(|target| level(target.level())).collect();
    let (lifetime, field, argument, value) = match has_file {
        true => (
            "<'c>",
            format!("    constants: &'c arrayjit_rt::Aligned<[u8; {bytes}]>,\n"),
            format!("constants: &'c arrayjit_rt::Aligned<[u8; {bytes}]>"),
            ", constants",
        ),
        false => ("", String::new(), String::new(), ""),
    };
    let about = if has_file { ", with the contents of the file of constants" } else { "" };
    let (triple, levels) = (&library.triple, levels.join(", "));
    let (arena, thread) = (library.arena_bytes(), library.thread_bytes());
    let _ = write!(
        text,
        "/// The routines of `{lib}` for `{triple}`.
{ALLOWED}
#[derive(Clone, Copy, Debug)]
pub struct {name}{lifetime} {{
    level: usize,
{field}}}

{ALLOWED}
impl{lifetime} {name}{lifetime} {{
    /// The levels that there is code for, the best first.
    pub const LEVELS: &'static [arrayjit_rt::ProcessorLevel] = &[{levels}];
    /// Bytes of the arena, which suffice for every routine.
    pub const ARENA_BYTES: usize = {arena};
    /// Bytes of scratch memory that each thread but the first needs in a `ThreadedArena`.
    pub const THREAD_BYTES: usize = {thread};

    /// Chooses the best code that this processor can run{about}.
    ///
    /// # Errors
    ///
    /// A processor that has none of the levels.
    pub fn new({argument}) -> Result<Self, arrayjit_rt::UnsupportedProcessor> {{
        Ok({name} {{ level: arrayjit_rt::select(Self::LEVELS)?{value} }})
    }}
",
        lib = library.name,
    );
    library.routines.iter().for_each(|routine| method(&mut text, library, routine));
    text.push_str("}\n");
    if library.calls_products() {
        let _ = write!(
            text,
            "
// The code calls the feature `products` of `arrayjit-rt`.
const _: () = assert!(arrayjit_rt::products::VERSION == {PRODUCT_VERSION}, \"arrayjit-rt has another version\");
"
        );
    }
    text
}

/// The method of a routine.
fn method(text: &mut String, library: &Library, routine: &LibraryRoutine) {
    let name = &routine.name;
    let parameters = routine.function_parameters();
    let _ = write!(text, "\n    /// The routine `{name}`.\n    ///\n");
    for parameter in &parameters {
        let _ = writeln!(text, "    /// * `{}`: {}", parameter.name(), parameter.description("`"));
    }
    if !routine.parameters().is_empty() {
        text.push_str("    ///\n    /// # Errors\n    ///\n    /// A value that is out of its range.\n");
    }
    let _ = writeln!(text, "    pub fn {name}(\n        &self,");
    let file = (library.place == ConstantPlace::File)
        .then(|| "(&raw const *self.constants).cast_mut().cast()".to_owned());
    let (mut args, mut bindings) = (Vec::from_iter(file), Vec::new());
    for parameter in &parameters {
        let name = parameter.name();
        let _ = match parameter {
            FunctionParameter::Array(array) => {
                let reference = if array.is_written { "&mut " } else { "&" };
                let (element, len) = (ElementTypes::of(array.dtype).rust, array.len());
                args.push(address(array));
                writeln!(text, "        {name}: {reference}arrayjit_rt::Aligned<[{element}; {len}]>,")
            }
            FunctionParameter::Symbol { .. } => {
                bindings.push(name);
                writeln!(text, "        {name}: i64,")
            }
        };
    }
    let (arena, thread) = (library.arena_bytes(), library.thread_bytes());
    let _ = writeln!(
        text,
        "        arena: &mut impl arrayjit_rt::RunMemory<{arena}, {thread}>,\n    ) -> Result<(), arrayjit_rt::CallError> {{"
    );
    let entries: Vec<String> =
        library.targets.iter().map(|target| library.entry_name(routine, target)).collect();
    text.push_str("        unsafe extern \"C\" {\n");
    for entry in &entries {
        let _ = writeln!(
            text,
            "            fn {entry}(args: *const *mut u8, bindings: *const i64, arena: *mut u8, threads: *const arrayjit_rt::ObjectThreads) -> i64;"
        );
    }
    let symbols: Vec<String> = routine.symbol_names.iter().map(|name| format!("{name:?}")).collect();
    let _ = write!(
        text,
        "        }}
        const ENTRIES: [arrayjit_rt::Entry; {count}] = [{entries}];
        let args: [*mut u8; {num_args}] = [{args}];
        // SAFETY: the parameters have the types, sizes and access that the entry was compiled for, and
        // references to memory that is written are exclusive. The processor has the level of the entry.
        unsafe {{
            arrayjit_rt::run({name:?}, &[{symbols}], ENTRIES[self.level], &args, &[{bindings}], arena)
        }}
    }}
",
        count = entries.len(),
        entries = entries.join(", "),
        num_args = args.len(),
        args = args.join(", "),
        symbols = symbols.join(", "),
        bindings = bindings.join(", "),
    );
}

/// The address of an array as an expression.
fn address(array: &ArrayParameter) -> String {
    match array.is_written {
        true => format!("(&raw mut *{}).cast()", array.name),
        false => format!("(&raw const *{}).cast_mut().cast()", array.name),
    }
}

fn level(level: ObjectLevel) -> String {
    format!("arrayjit_rt::ProcessorLevel::{level:?}")
}

/// The name of the library as that of a type: `tone_filter` as `ToneFilter`.
fn type_name(library: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    library.split('_').map(word).collect()
}
