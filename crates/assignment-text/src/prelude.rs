//! The prelude: functions that every program may call without defining them.
//!
//! Its sources are assignment text in the folder `prelude` of this crate. A program that calls none of its
//! functions does not read them. Otherwise the sources stand behind the program's text, so that a span says
//! which source it is from, and only the functions that the program calls, directly or not, are parsed. In
//! the sources, a definition begins with `def` at the beginning of a line, and ends before the next line that
//! begins with `def` or `#`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use assignments::ByteRange;

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$((concat!("prelude/", $name, ".assign"), include_str!(concat!("../prelude/", $name, ".assign")))),*]
    };
}

/// The sources, each with its name.
pub(crate) const SOURCES: &[(&str, &str)] = sources![
    "activations",
    "attention",
    "convolution",
    "functions",
    "grids",
    "losses",
    "normalization",
    "optimizers",
    "recurrent",
];

/// The place of a definition.
pub(crate) struct FunctionSource {
    /// The position among the sources.
    pub(crate) source: usize,
    pub(crate) bytes: ByteRange,
}

static FUNCTION_SOURCES: LazyLock<BTreeMap<&'static str, FunctionSource>> = LazyLock::new(|| {
    let all = SOURCES.iter().enumerate().flat_map(|(source, (_, text))| {
        definitions(text).map(move |(name, bytes)| (name, FunctionSource { source, bytes }))
    });
    all.collect()
});

/// The definitions in a source: the name of each function, and the bytes of its definition.
fn definitions(text: &str) -> impl Iterator<Item = (&str, ByteRange)> {
    let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    line_starts.filter_map(|start| {
        let body = text[start..].strip_prefix("def ")?;
        let (name, _) = body.split_once('(')?;
        let ends = ["\ndef ", "\n#"].map(|next| body.find(next).unwrap_or(body.len()));
        let length = "def ".len() + ends[0].min(ends[1]);
        Some((name, start..start + length))
    })
}

/// The name, if a function of the prelude has it.
pub(crate) fn name(name: &str) -> Option<&'static str> {
    FUNCTION_SOURCES.get_key_value(name).map(|(name, _)| *name)
}

/// The source of the function of that name.
pub(crate) fn source(name: &str) -> Option<&'static FunctionSource> {
    FUNCTION_SOURCES.get(name)
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTION_SOURCES.keys().copied()
}
