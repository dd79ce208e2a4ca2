//! What a page holds, as data, and the page made of it: one file that needs nothing else.
//!
//! The data is JSON in the page, and the kernels' text stands beside it, so that a person finds both when
//! reading the file. Arrays are base64, each once.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// A page: kernels, contexts that call them, and the contents of arrays.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// A sentence below it.
    #[serde(skip)]
    pub about: String,
    /// What was compiled, as text.
    #[serde(skip)]
    pub source: String,
    /// Optional features of WebGPU that the kernels need.
    pub features: Vec<String>,
    /// The kernels of all contexts, each once.
    pub kernels: Vec<Kernel>,
    /// Memory with what runs on it.
    pub contexts: Vec<Context>,
    /// Contents of arrays, which the rest refers to by position.
    pub data: Data,
}

/// A kernel's text and how it is called; see `codegen_core::abi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// Its name, for people.
    pub name: String,
    /// WGSL with the entry point `main`. Stands in the page by itself.
    #[serde(skip)]
    pub wgsl: String,
    /// How many workgroups run it.
    pub groups: u64,
    /// Words of its table.
    pub table_words: usize,
    /// How many slabs it binds.
    pub slabs: usize,
}

/// Memory, the routines that are linked into it, and runs of those.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Context {
    /// Its name, for people.
    pub name: String,
    /// The bytes of each slab: a buffer of the device.
    pub slabs: Vec<usize>,
    /// Where the nodes lie.
    pub nodes: Vec<Node>,
    /// What can be run.
    pub routines: Vec<Routine>,
    /// What is run and checked, each time on memory of zeros.
    pub runs: Vec<PageRun>,
}

/// A node in a slab.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// Its name, for people.
    pub name: String,
    /// Its element type, as the text form writes it.
    pub dtype: String,
    /// Its dimensions in elements.
    pub dims: Vec<usize>,
    /// The slab it lies in.
    pub slab: usize,
    /// Where in the slab it begins, in bytes.
    pub offset: usize,
    /// How long it is, in bytes.
    pub bytes: usize,
}

/// Calls in their order.
#[derive(Clone, Debug, Serialize)]
pub struct Routine {
    /// Its name, for people.
    pub name: String,
    /// The names of its static symbols, in binding order.
    pub symbols: Vec<String>,
    /// The calls.
    pub calls: Vec<Call>,
}

/// A call of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The kernel: a position in [`Page::kernels`].
    pub kernel: usize,
    /// The slabs of the context that it binds, in the order of its bindings.
    pub slabs: Vec<usize>,
    /// Where in its slab each memory parameter begins, in words of 32 bits.
    pub offsets: Vec<usize>,
    /// The routine's symbols whose values follow the offsets in the table.
    pub symbols: Vec<usize>,
}

/// Steps from given contents of nodes, and what nodes hold afterwards.
#[derive(Clone, Debug, Serialize)]
pub struct PageRun {
    /// What it is, for people.
    pub title: String,
    /// Contents of nodes; the others begin as zeros.
    pub before: Vec<Contents>,
    /// What is run, in order.
    pub steps: Vec<RunStep>,
    /// What must have come out.
    pub after: Vec<Expected>,
    /// A number that the run is about.
    pub score: Option<Score>,
}

/// One run of a routine.
#[derive(Clone, Debug, Serialize)]
pub struct RunStep {
    /// A position in [`Context::routines`].
    pub routine: usize,
    /// The values of the routine's symbols.
    pub bindings: Vec<i64>,
}

/// What a node holds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contents {
    /// A position in [`Context::nodes`].
    pub node: usize,
    /// The elements.
    pub data: DataId,
}

/// What a node must hold.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Expected {
    /// A position in [`Context::nodes`].
    pub node: usize,
    /// The elements.
    pub data: DataId,
    /// How far floats may be off, relative to the greater of 1 and the expected magnitude.
    pub tolerance: f64,
    /// How far each element may be off besides, in `f64`; infinity leaves it open. Where this is `None` and
    /// the tolerance 0, the bits must be the same.
    pub radii: Option<DataId>,
}

/// A node's only element as a count out of so many.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// What is counted.
    pub label: String,
    /// A position in [`Context::nodes`].
    pub node: usize,
    /// What the count would be at best.
    pub of: usize,
}

/// Contents of arrays, equal ones once.
#[derive(Clone, Debug, Default)]
pub struct Data {
    arrays: Vec<String>,
    known: BTreeMap<String, DataId>,
}

/// A position in [`Data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DataId(usize);

impl Data {
    /// Takes an array in, if it is not there yet.
    pub fn add(&mut self, bytes: &[u8]) -> DataId {
        let text = STANDARD.encode(bytes);
        *self.known.entry(text).or_insert_with_key(|text| {
            self.arrays.push(text.clone());
            DataId(self.arrays.len() - 1)
        })
    }
}

impl Serialize for Data {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.arrays.serialize(serializer)
    }
}

/// What a page reports when it has run. `page/run.js` makes it.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    /// `pass`, `fail`, or `error` where it could not be told.
    pub status: String,
    /// The adapter's name.
    pub adapter: String,
    /// What stopped everything.
    pub error: Option<String>,
    /// Each kernel of the page.
    pub kernels: Vec<KernelOutcome>,
    /// Each run of the page.
    pub runs: Vec<RunOutcome>,
    /// How long it all took.
    pub seconds: f64,
}

/// What the browser's compiler said about a kernel.
#[derive(Clone, Debug, Deserialize)]
pub struct KernelOutcome {
    /// The kernel's name.
    pub name: String,
    /// The complaints; none if the kernel was accepted.
    pub errors: Vec<String>,
}

/// What came out of a run.
#[derive(Clone, Debug, Deserialize)]
pub struct RunOutcome {
    /// The context's name.
    pub context: String,
    /// The run's title.
    pub title: String,
    /// `pass`, `fail`, or `error` where it could not be told.
    pub status: String,
    /// Why it could not be told.
    pub error: Option<String>,
    /// Each node that was compared.
    pub checks: Vec<Check>,
    /// What the run's score was.
    pub score: Option<ScoreOutcome>,
    /// The best time of a repetition, in milliseconds.
    #[serde(rename = "bestMs")]
    pub best_ms: Option<f64>,
}

/// A node compared with what was expected.
#[derive(Clone, Debug, Deserialize)]
pub struct Check {
    /// The node's name.
    pub name: String,
    /// How many elements it has.
    pub elements: usize,
    /// How many of them are wrong.
    pub wrong: usize,
    /// The greatest difference as a share of what is allowed.
    pub worst: f64,
    /// How many elements may be anything.
    pub open: usize,
}

/// A score as it was read.
#[derive(Clone, Debug, Deserialize)]
pub struct ScoreOutcome {
    /// The count.
    pub value: f64,
    /// What it would be at best.
    pub of: f64,
}

impl Page {
    /// The page as one file.
    ///
    /// # Errors
    ///
    /// Where the text of a kernel cannot stand in a page.
    pub fn html(&self) -> Result<String> {
        let json = serde_json::to_string_pretty(self)?.replace("</", "<\\/").replace("<!--", "<\\u0021--");
        let kernels = self.kernels.iter().enumerate().map(|(i, kernel)| kernel_element(i, kernel));
        let kernels = kernels.collect::<Result<String>>()?;
        let parts: [(&str, &str); 10] = [
            ("title", &escape(&self.title)),
            ("about", &escape(&self.about)),
            ("source", &escape(&self.source)),
            ("kernels", &kernels),
            ("page", &json),
            ("style", include_str!("../page/style.css")),
            ("device.js", include_str!("../page/device.js")),
            ("compare.js", include_str!("../page/compare.js")),
            ("run.js", include_str!("../page/run.js")),
            ("show.js", include_str!("../page/show.js")),
        ];
        Ok(fill(include_str!("../page/page.html"), &parts))
    }
}

impl Outcome {
    /// Everything that is not as it should be, a line each.
    pub fn complaints(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.error.iter().cloned().collect();
        lines.extend(self.kernels.iter().flat_map(|kernel| kernel.errors.clone()));
        for run in self.runs.iter().filter(|run| run.status != "pass") {
            let wrong = run.checks.iter().filter(|check| check.wrong > 0);
            let wrong = wrong.map(|c| format!("{}: {} of {} elements wrong", c.name, c.wrong, c.elements));
            let why: Vec<String> = run.error.iter().cloned().chain(wrong).collect();
            lines.push(format!("{}, {}: {}", run.context, run.title, why.join("; ")));
        }
        lines
    }
}

/// A kernel's text in an element that browsers leave alone.
fn kernel_element(position: usize, kernel: &Kernel) -> Result<String> {
    let text = kernel.wgsl.trim();
    let ends_early = text.to_ascii_lowercase().contains("</script") || text.contains("<!--");
    ensure!(!ends_early, "the text of kernel {} cannot stand in a page", kernel.name);
    let name = escape(&kernel.name);
    Ok(format!("<script type=\"text/wgsl\" id=\"kernel-{position}\" title=\"{name}\">\n{text}\n</script>\n"))
}

/// Text as it stands between tags and in quoted attributes.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The template with each `{{name}}` replaced; what is put in is not looked at again.
fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let mut pieces = template.split("{{");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").unwrap_or((piece, ""));
        let value = parts.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
        text.push_str(value);
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_not_looked_at_again() {
        assert_eq!(fill("<{{a}}|{{b}}>", &[("a", "{{b}}"), ("b", "x")]), "<{{b}}|x>");
    }

    #[test]
    fn equal_arrays_are_kept_once() {
        let mut data = Data::default();
        let ids = [data.add(&[1, 2, 3]), data.add(&[4]), data.add(&[1, 2, 3])];
        assert_eq!(ids, [DataId(0), DataId(1), DataId(0)]);
        assert_eq!(serde_json::to_string(&data).unwrap(), r#"["AQID","BA=="]"#);
    }

    #[test]
    fn no_text_ends_its_element_early() {
        let kernel = |wgsl: &str| Kernel {
            name: "a\"<b>".into(),
            wgsl: wgsl.into(),
            groups: 1,
            table_words: 0,
            slabs: 0,
        };
        let named =
            |title: &str| Page { title: title.into(), kernels: vec![kernel("x < y")], ..Page::default() };
        let html = named("</script><b>").html().unwrap();
        assert!(!html.contains("</script><b>") && html.contains("title=\"a&quot;&lt;b&gt;\""));
        let page = Page { kernels: vec![kernel("// </SCRIPT>")], ..Page::default() };
        assert!(page.html().unwrap_err().to_string().contains("cannot stand in a page"));
    }
}
