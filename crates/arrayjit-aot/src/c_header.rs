//! The C header of a library: a function for each routine, and one that chooses the level.

use std::fmt::Write;

use arrayjit::{DType, ir::Symbol};
use codegen_cranelift::object::ObjectLevel;

use crate::constants::ConstantPlace;
use crate::library::{Library, LibraryRoutine};

/// The text of the header.
pub(crate) fn write(library: &Library) -> String {
    let mut text = String::new();
    let (name, triple) = (&library.name, &library.triple);
    let upper = name.to_ascii_uppercase();
    let arena = library.arena_bytes();
    let _ = write!(
        text,
        "/* The routines of `{name}` for `{triple}`. */
#ifndef {upper}_H
#define {upper}_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the arena, which suffice for every routine. All arrays and the arena are aligned to 64 bytes. */
#define {upper}_ARENA_BYTES {arena}

"
    );
    if library.place == ConstantPlace::File {
        let bytes = library.constants.bytes.len();
        let _ = writeln!(
            text,
            "/* Bytes of the file of constants. */\n#define {upper}_CONSTANTS_BYTES {bytes}\n"
        );
    }
    let _ = write!(
        text,
        "/* The best code that this processor can run, for the parameter `level` of routines; -1 if there is none. */
static inline int {name}_level(void) {{
"
    );
    for (at, target) in library.targets.iter().enumerate() {
        match target.level() {
            ObjectLevel::Arm64 => text.push_str(&format!("    return {at};\n")),
            level => {
                text.push_str(&format!("    if (__builtin_cpu_supports(\"{level}\")) return {at};\n"));
            }
        }
    }
    if library.targets.iter().all(|target| target.level() != ObjectLevel::Arm64) {
        text.push_str("    return -1;\n");
    }
    text.push_str("}\n");
    library.routines.iter().for_each(|routine| function(&mut text, library, routine));
    let _ = write!(text, "\n#endif\n");
    text
}

/// The function of a routine.
fn function(text: &mut String, library: &Library, routine: &LibraryRoutine) {
    let (library_name, name) = (&library.name, &routine.name);
    let entries: Vec<String> =
        library.targets.iter().map(|target| library.entry_name(routine, target)).collect();
    text.push('\n');
    for entry in &entries {
        let _ = writeln!(text, "int64_t {entry}(void *const *args, const int64_t *bindings, void *arena);");
    }
    let parameters = Symbol::parameters(&routine.symbols);
    let _ = write!(text, "\n/* The routine `{name}`");
    for array in &routine.arrays {
        let use_of = if array.is_written { "written" } else { "read" };
        let _ = write!(text, "\n   `{}`: {}, {use_of}", array.name, array.shape());
    }
    for (symbol, name) in parameters.iter().zip(&routine.symbol_names) {
        let (least, greatest) = symbol.interval();
        let _ = write!(text, "\n   `{name}`: {least} to {greatest}");
    }
    text.push_str(
        "\n   Returns 0; or -1 if an array is not aligned, -2 if there is no such level, and the position from 1 of a
   value that is out of its range. Nothing has changed then. */\n",
    );
    let mut declared = vec!["int level".to_owned()];
    let mut args = Vec::new();
    if library.place == ConstantPlace::File {
        declared.push("const void *constants".to_owned());
        args.push("(void *)constants".to_owned());
    }
    for array in &routine.arrays {
        let constant = if array.is_written { "" } else { "const " };
        declared.push(format!("{constant}{} *{}", element(array.dtype), array.name));
        args.push(format!("(void *){}", array.name));
    }
    let names = &routine.symbol_names[..parameters.len()];
    declared.extend(names.iter().map(|name| format!("int64_t {name}")));
    declared.push("void *arena".to_owned());
    let or_null = |list: Vec<String>| if list.is_empty() { "0".to_owned() } else { list.join(", ") };
    let _ = write!(
        text,
        "static inline int64_t {library_name}_{name}({}) {{
    void *const args[] = {{{}}};
    const int64_t values[] = {{{}}};
",
        declared.join(", "),
        or_null(args),
        or_null(names.to_vec()),
    );
    for (at, entry) in entries.iter().enumerate() {
        let _ = writeln!(text, "    if (level == {at}) return {entry}(args, values, arena);");
    }
    text.push_str("    return -2;\n}\n");
}

/// The C type of elements. Narrow floats are their bits; four words of random bits are four elements.
fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => "uint8_t",
        DType::I8 => "int8_t",
        DType::U16 | DType::F16 | DType::Bf16 => "uint16_t",
        DType::I32 => "int32_t",
        DType::U32 | DType::U32x4 => "uint32_t",
        DType::I64 => "int64_t",
        DType::U64 => "uint64_t",
        DType::F32 => "float",
        DType::F64 => "double",
    }
}
