//! The signature of a routine: arrays, sizes and indices.

use std::collections::BTreeSet;

use arrayjit::{DType, ir::Symbol};
use codegen_core::scheduled::Slot;
use codegen_core::{Access, Code};

/// An array that the caller of a routine gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayParameter {
    /// The name of the node, or the name by which callers know it.
    pub node: String,
    /// The name of the parameter: that of the node as an identifier.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions, outermost first. Where a run gives a size, its bound.
    pub dims: Vec<usize>,
    /// Whether the routine writes it. It may also read the values from before.
    pub is_written: bool,
    /// The number of the node in the schedule.
    pub(crate) position: usize,
}

impl ArrayParameter {
    /// The number of elements, the product of the dimensions.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type and the dimensions in the form of texts, `f32[2, 3]`.
    pub(crate) fn shape(&self) -> String {
        shape(self.dtype, &self.dims)
    }
}

/// A parameter of a routine's function. Both languages have the same ones in the same order.
pub(crate) enum FunctionParameter<'r> {
    Array(&'r ArrayParameter),
    /// A size or an index, which each run gives.
    Symbol {
        name: &'r str,
        interval: (i64, i64),
    },
}

impl FunctionParameter<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            FunctionParameter::Array(array) => &array.name,
            FunctionParameter::Symbol { name, .. } => name,
        }
    }

    /// The type and the access, or the range. `quote` is put around the type.
    pub(crate) fn description(&self, quote: &str) -> String {
        match self {
            FunctionParameter::Array(array) => {
                let use_of = if array.is_written { "written" } else { "read" };
                format!("{quote}{}{quote}, {use_of}", array.shape())
            }
            FunctionParameter::Symbol { interval: (least, greatest), .. } => format!("{least} to {greatest}"),
        }
    }
}

/// The types of an element in Rust and in C. Narrow floats are their bits. Four words of random bits are four
/// elements in C.
pub(crate) struct ElementTypes {
    pub(crate) rust: &'static str,
    pub(crate) c: &'static str,
}

impl ElementTypes {
    pub(crate) fn of(dtype: DType) -> ElementTypes {
        let (rust, c) = match dtype {
            DType::Bool => ("bool", "bool"),
            DType::U8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => ("u8", "uint8_t"),
            DType::I8 => ("i8", "int8_t"),
            DType::U16 | DType::F16 | DType::Bf16 => ("u16", "uint16_t"),
            DType::I32 => ("i32", "int32_t"),
            DType::U32 => ("u32", "uint32_t"),
            DType::U32x4 => ("[u32; 4]", "uint32_t"),
            DType::I64 => ("i64", "int64_t"),
            DType::U64 => ("u64", "uint64_t"),
            DType::F32 => ("f32", "float"),
            DType::F64 => ("f64", "double"),
        };
        ElementTypes { rust, c }
    }
}

/// A type and dimensions in the form of texts, `f32[2, 3]`.
pub(crate) fn shape(dtype: DType, dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    format!("{dtype}[{}]", dims.join(", "))
}

/// The arrays of memory that the calls of some code access, sorted by rank and then by node. `named` gives
/// the rank and the name of a node.
pub(crate) fn arrays(code: &Code, named: impl Fn(usize) -> (usize, String)) -> Vec<ArrayParameter> {
    let schedule = code.schedule();
    let (mut used, mut written) = (BTreeSet::new(), BTreeSet::new());
    for call in schedule.calls() {
        let memory = code.artifact().kernels()[call.kernel].memory();
        for (slot, (access, _)) in call.args.iter().zip(memory) {
            if let Slot::Node(node) = slot {
                used.insert(node.index());
                if access != Access::Read {
                    written.insert(node.index());
                }
            }
        }
    }
    let mut used: Vec<usize> = used.into_iter().collect();
    used.sort_by_key(|&position| named(position).0);
    let mut names = BTreeSet::new();
    let array = |position: usize| {
        let decl = &schedule.nodes()[position];
        let (_, node) = named(position);
        ArrayParameter {
            name: unique(identifier(&node), &mut names),
            node,
            dtype: decl.dtype,
            dims: decl.dims.to_vec(),
            is_written: written.contains(&position),
            position,
        }
    };
    used.into_iter().map(array).collect()
}

/// The names of a routine's parameters among the symbols, as identifiers that no array has.
pub(crate) fn symbol_names(symbols: &[Symbol], arrays: &[ArrayParameter]) -> Vec<String> {
    let mut names: BTreeSet<String> = arrays.iter().map(|array| array.name.clone()).collect();
    symbols.iter().map(|symbol| unique(identifier(&symbol.name), &mut names)).collect()
}

/// An identifier of Rust, C and C++ that resembles a name.
fn identifier(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let text: String = name.chars().map(legal).collect();
    match is_name(&text) && is_free(&text, RESERVED_IN_HEADERS) {
        true => text,
        false => format!("p_{text}"),
    }
}

/// Words of Rust or C that name no parameter, types and macros of C compilers, and the names that generated
/// code has itself.
const RESERVED: &str = "\
    abstract alignas alignof arena args as asm async auto await become bool box break case char const \
    constants constexpr continue crate default do double dyn else enum extern false final float fn for gen \
    goto if impl in inline int int16_t int32_t int64_t int8_t let level linux long loop macro match mod \
    move mut new nullptr override priv pub ref register restrict return self short signed sizeof static \
    static_assert struct super switch thread_local threads trait true try type typedef typeof typeof_unqual \
    uint16_t uint32_t uint64_t uint8_t union unix unsafe unsigned unsized use values virtual void volatile \
    weights where while yield";

/// Words of C++ and macros of C headers. They name no parameter, but libraries and routines, of whose names C
/// has longer ones.
const RESERVED_IN_HEADERS: &str = "\
    and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl \
    concept const_cast consteval constinit contract_assert decltype delete dynamic_cast errno explicit \
    export far friend mutable namespace near noexcept not not_eq operator or or_eq private protected \
    public reinterpret_cast requires static_cast template this throw typeid typename using wchar_t xor \
    xor_eq";

/// The name, with a number behind it if it is taken.
fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or(name);
    taken.insert(free.clone());
    free
}

/// Whether a text names a library or routine in Rust and in C.
pub(crate) fn is_name(text: &str) -> bool {
    let is_legal = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(is_legal)
        && is_free(text, RESERVED)
}

fn is_free(name: &str, reserved: &str) -> bool {
    reserved.split(' ').all(|word| word != name)
}
