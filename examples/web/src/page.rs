//! The content of a page as data, and the HTML file made of it, which loads no other file.
//!
//! The data is JSON in the page. The text of each kernel is an element of its own, so that a person who reads
//! the file finds it. Arrays are base64; equal arrays occur once.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// A page: kernels, contexts that call them, and the contents of arrays.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// A sentence below the heading.
    #[serde(skip)]
    pub about: String,
    /// The source of the compiled routines, as text.
    #[serde(skip)]
    pub source: String,
    /// Optional features of WebGPU that the kernels need.
    pub features: Vec<String>,
    /// The kernels of all contexts, each once.
    pub kernels: Vec<Kernel>,
    /// Contexts, each with its memory and the runs on it.
    pub contexts: Vec<Context>,
    /// Contents of arrays. Other parts of the page refer to them by position.
    pub data: Data,
}

/// A kernel's text and the facts that a call needs; see `codegen_core::abi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// The kernel's name, for people.
    pub name: String,
    /// WGSL with the entry point `main`. It is not part of the page's JSON.
    #[serde(skip)]
    pub wgsl: String,
    /// The number of workgroups of a call.
    pub groups: u64,
    /// The size of the kernel's parameter table, in 32-bit words.
    pub table_words: usize,
    /// The number of slabs that the kernel binds.
    pub slabs: usize,
}

/// Memory, the routines that are linked into it, and runs of these routines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Context {
    /// The context's name, for people.
    pub name: String,
    /// The size of each slab in bytes. A slab is a buffer of the device.
    pub slabs: Vec<usize>,
    /// The nodes, each with its offset in a slab.
    pub nodes: Vec<Node>,
    /// The routines that runs refer to.
    pub routines: Vec<Routine>,
    /// The runs. Each begins with memory of zeros.
    pub runs: Vec<PageRun>,
}

/// A node and its memory.
#[derive(Clone, Debug, Serialize)]
pub struct Node {
    /// The node's name, for people.
    pub name: String,
    /// The element type, as the text form of the loop IR writes it.
    pub dtype: String,
    /// The node's dimensions, in elements.
    pub dims: Vec<usize>,
    /// The slab that contains the node: a position in [`Context::slabs`].
    pub slab: usize,
    /// Offset in the slab, in bytes.
    pub offset: usize,
    /// The node's size, in bytes.
    pub bytes: usize,
}

/// Calls of kernels, one after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Routine {
    /// The routine's name, for people.
    pub name: String,
    /// The names of the routine's static symbols, in the order of bindings.
    pub symbols: Vec<String>,
    /// The calls, in order.
    pub calls: Vec<Call>,
}

/// A call of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The kernel: a position in [`Page::kernels`].
    pub kernel: usize,
    /// The slabs of the context that the call binds, in the order of its bindings.
    pub slabs: Vec<usize>,
    /// The offset of each memory parameter in its slab, in 32-bit words.
    pub offsets: Vec<usize>,
    /// The values that follow the offsets in the parameter table.
    pub symbols: Vec<SymbolValue>,
}

/// The value of a symbol of a kernel.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SymbolValue {
    /// That of the routine's symbol at this position.
    Symbol(usize),
    /// The step of a scan.
    Step(i64),
}

/// Steps that begin with given contents of nodes, and the expected contents afterwards.
#[derive(Clone, Debug, Serialize)]
pub struct PageRun {
    /// The run's title, for people.
    pub title: String,
    /// Contents of nodes before the run; other nodes begin with zeros.
    pub before: Vec<Contents>,
    /// The runs of routines, in order.
    pub steps: Vec<RunStep>,
    /// The expected contents of nodes after the run.
    pub after: Vec<Expected>,
    /// A count that the page shows with the run, such as the number of correct answers.
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

/// The contents of a node.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contents {
    /// A position in [`Context::nodes`].
    pub node: usize,
    /// The elements.
    pub data: DataId,
}

/// The expected contents of a node.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Expected {
    /// A position in [`Context::nodes`].
    pub node: usize,
    /// The elements.
    pub data: DataId,
    /// How far floats may deviate, relative to the greater of 1 and the expected magnitude.
    pub tolerance: f64,
    /// How far each element may deviate in addition, as `f64`; infinity accepts any value. Without radii and
    /// with the tolerance 0, elements must be equal.
    pub radii: Option<DataId>,
}

/// A count, which is a node's only element, out of a maximum.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    /// The name of the count.
    pub label: String,
    /// A position in [`Context::nodes`].
    pub node: usize,
    /// The maximum of the count.
    pub of: usize,
}

/// Contents of arrays; equal contents are stored once.
#[derive(Clone, Debug, Default)]
pub struct Data {
    arrays: Vec<String>,
    known: BTreeMap<String, DataId>,
}

/// A position in [`Data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DataId(usize);

impl Data {
    /// Adds an array, unless an equal one is there; returns its position.
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

/// The report of a page after its runs. `page/run.js` makes it.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    /// `pass`, `fail`, or `error` if the runs could not be judged.
    pub status: String,
    /// The adapter's name.
    pub adapter: String,
    /// The error that stopped the whole page.
    pub error: Option<String>,
    /// The outcome of compiling each kernel of the page.
    pub kernels: Vec<KernelOutcome>,
    /// The outcome of each run of the page.
    pub runs: Vec<RunOutcome>,
    /// The time to open the device, compile all kernels and execute all runs, in seconds.
    pub seconds: f64,
}

/// The result of a kernel in the browser's compiler.
#[derive(Clone, Debug, Deserialize)]
pub struct KernelOutcome {
    /// The kernel's name.
    pub name: String,
    /// The compiler's error messages; empty if it accepted the kernel.
    pub errors: Vec<String>,
}

/// The outcome of a run.
#[derive(Clone, Debug, Deserialize)]
pub struct RunOutcome {
    /// The context's name.
    pub context: String,
    /// The run's title.
    pub title: String,
    /// `pass`, `fail`, or `error` if the run could not be judged.
    pub status: String,
    /// The reason why the run could not be judged.
    pub error: Option<String>,
    /// The result of each node that was compared.
    pub checks: Vec<Check>,
    /// The run's count, if it has one.
    pub score: Option<ScoreOutcome>,
    /// The best time of a repetition, in milliseconds.
    #[serde(rename = "bestMs")]
    pub best_ms: Option<f64>,
}

/// The comparison of a node with its expected contents.
#[derive(Clone, Debug, Deserialize)]
pub struct Check {
    /// The node's name.
    pub name: String,
    /// The number of the node's elements.
    pub elements: usize,
    /// The number of wrong elements.
    pub wrong: usize,
    /// The greatest deviation, as a fraction of the allowed one.
    pub worst: f64,
    /// The number of elements for which any value is accepted.
    pub open: usize,
}

/// A [`Score`] with the count of a run.
#[derive(Clone, Debug, Deserialize)]
pub struct ScoreOutcome {
    /// The count.
    pub value: f64,
    /// The maximum of the count.
    pub of: f64,
}

impl Page {
    /// The page as one HTML file.
    ///
    /// # Errors
    ///
    /// The text of a kernel contains an end of the element that holds it.
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
    /// All errors and failures of the page, one per line.
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

/// An HTML element with a kernel's text, which browsers do not run or show.
fn kernel_element(position: usize, kernel: &Kernel) -> Result<String> {
    let text = kernel.wgsl.trim();
    let ends_early = text.to_ascii_lowercase().contains("</script") || text.contains("<!--");
    ensure!(!ends_early, "the text of kernel {} cannot stand in a page", kernel.name);
    let name = escape(&kernel.name);
    Ok(format!("<script type=\"text/wgsl\" id=\"kernel-{position}\" title=\"{name}\">\n{text}\n</script>\n"))
}

/// Escapes text for use between tags and in quoted attributes.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The template with each `{{name}}` replaced by its value. Values are not searched for further names.
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
