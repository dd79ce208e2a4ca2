//! The C header of a library: a function for each routine, and one that chooses the level.

use std::fmt::Write;

use codegen_cranelift::object::ObjectLevel;

use crate::constants::ConstantPlace;
use crate::library::{Library, LibraryRoutine};
use crate::signature::{ElementTypes, FunctionParameter};

/// The text of the header.
pub(crate) fn write(library: &Library) -> String {
    let mut text = String::new();
    let (name, triple) = (&library.name, &library.triple);
    let upper = name.to_ascii_uppercase();
    let (arena, thread) = (library.arena_bytes(), library.thread_bytes());
    let includes = if chooses_mixed(library) { "#include <cpuid.h>\n" } else { "" };
    let includes = format!("{includes}#include <stdbool.h>\n#include <stdint.h>\n");
    let _ = write!(
        text,
        "/* The routines of `{name}` for `{triple}`. */
#ifndef {upper}_H
#define {upper}_H

{includes}
#ifdef __cplusplus
extern \"C\" {{
#endif

/* Bytes of the arena, which suffice for every routine. All arrays and the arena are aligned to 64 bytes. */
#define {upper}_ARENA_BYTES {arena}

/* Bytes of scratch memory for each thread but the first. */
#define {upper}_THREAD_BYTES {thread}

/* Threads that divide the work of a routine. A null pointer stands for the thread that calls. Results do not
   depend on the threads. */
struct {name}_threads {{
    /* Calls task(data) on up to `count` threads, and returns when all these calls have returned. They may be
       fewer, more or later, or all on one thread. */
    void (*run)(void *context, uint64_t count, void (*task)(void *data), void *data);
    void *context; /* the first argument of `run` */
    uint64_t count; /* of threads */
    void *scratch; /* {upper}_THREAD_BYTES for each thread but the first, aligned to 64 bytes */
}};

"
    );
    if library.calls_products() {
        text.push_str(
            "/* Link a static library of arrayjit-rt with the feature `products`, which the code calls. */\n\n",
        );
    }
    if library.place == ConstantPlace::File {
        let bytes = library.constants.bytes.len();
        let _ = writeln!(
            text,
            "/* Bytes of the file of constants. */\n#define {upper}_CONSTANTS_BYTES {bytes}\n"
        );
    }
    choice(&mut text, library);
    library.routines.iter().for_each(|routine| function(&mut text, library, routine));
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    text
}

/// Whether the library has code for processors with units of 512 bits, and for those with units of 256 bits.
fn chooses_mixed(library: &Library) -> bool {
    let has = |level| library.targets.iter().any(|target| target.level() == level);
    has(ObjectLevel::X86V4) && has(ObjectLevel::X86V4Mixed)
}

/// The function that chooses the level as `arrayjit_rt::select` does.
fn choice(text: &mut String, library: &Library) {
    let name = &library.name;
    if chooses_mixed(library) {
        let _ = write!(
            text,
            "/* Whether the processor computes the halves of 512 bits one after the other: Zen 4 and some of Zen 5. */
static inline bool {name}_halves_vectors(void) {{
    unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx) || ebx != 0x68747541) return false;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return false;
    unsigned int family = (eax >> 8 & 15) + (eax >> 20 & 255), model = (eax >> 4 & 15) | (eax >> 12 & 0xf0);
    return family == 0x19 || (family == 0x1a && model >= 0x20 && model >> 4 != 4);
}}

"
        );
    }
    let _ = write!(
        text,
        "/* The best code that this processor can run, for the parameter `level` of routines; -1 if there is none. */
static inline int {name}_level(void) {{
"
    );
    for (at, target) in library.targets.iter().enumerate() {
        let condition = match target.level() {
            ObjectLevel::Arm64 => {
                let _ = writeln!(text, "    return {at};\n}}");
                return;
            }
            ObjectLevel::X86V4 if chooses_mixed(library) => {
                format!("__builtin_cpu_supports(\"x86-64-v4\") && !{name}_halves_vectors()")
            }
            ObjectLevel::X86V4Mixed => "__builtin_cpu_supports(\"x86-64-v4\")".to_owned(),
            level => format!("__builtin_cpu_supports(\"{level}\")"),
        };
        let _ = writeln!(text, "    if ({condition}) return {at};");
    }
    text.push_str("    return -1;\n}\n");
}

/// The function of a routine.
fn function(text: &mut String, library: &Library, routine: &LibraryRoutine) {
    let (library_name, name) = (&library.name, &routine.name);
    let entries: Vec<String> =
        library.targets.iter().map(|target| library.entry_name(routine, target)).collect();
    text.push('\n');
    for entry in &entries {
        let _ = writeln!(
            text,
            "int64_t {entry}(void *const *args, const int64_t *bindings, void *arena, const struct {library_name}_threads *threads);"
        );
    }
    let _ = write!(text, "\n/* The routine `{name}`");
    let parameters = routine.function_parameters();
    for parameter in &parameters {
        let _ = write!(text, "\n   `{}`: {}", parameter.name(), parameter.description(""));
    }
    text.push_str(
        "\n   Returns 0; or -1 if an array is not aligned or null, -2 if there is no such level, and the position from 1
   of a value that is out of its range. Nothing has changed then. */\n",
    );
    let mut declared = vec!["int level".to_owned()];
    let (mut args, mut values) = (Vec::new(), Vec::new());
    let mut needed = Vec::from_iter((routine.arena_bytes() > 0).then_some("!arena".to_owned()));
    if library.place == ConstantPlace::File {
        needed.extend((!library.constants.bytes.is_empty()).then_some("!constants".to_owned()));
        declared.push("const void *constants".to_owned());
        args.push("(void *)constants".to_owned());
    }
    for parameter in &parameters {
        let name = parameter.name();
        match parameter {
            FunctionParameter::Array(array) => {
                let constant = if array.is_written { "" } else { "const " };
                declared.push(format!("{constant}{} *{name}", ElementTypes::of(array.dtype).c));
                args.push(format!("(void *){name}"));
                needed.push(format!("!{name}"));
            }
            FunctionParameter::Symbol { .. } => {
                declared.push(format!("int64_t {name}"));
                values.push(name.to_owned());
            }
        }
    }
    declared.push("void *arena".to_owned());
    declared.push(format!("const struct {library_name}_threads *threads"));
    let or_null = |list: Vec<String>| if list.is_empty() { "0".to_owned() } else { list.join(", ") };
    let _ = write!(
        text,
        "static inline int64_t {library_name}_{name}({}) {{
    if ({}) return -1;
    void *const args[] = {{{}}};
    const int64_t values[] = {{{}}};
",
        declared.join(", "),
        needed.join(" || "),
        or_null(args),
        or_null(values),
    );
    for (at, entry) in entries.iter().enumerate() {
        let _ = writeln!(text, "    if (level == {at}) return {entry}(args, values, arena, threads);");
    }
    text.push_str("    return -2;\n}\n");
}
