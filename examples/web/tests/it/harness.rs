//! Tests of the JavaScript harness in a real browser, with pages of hand-written kernels, whose results are
//! known without a compiler.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::time::Duration;

use web::page::{
    Call, Contents, Context, Data, Expected, Kernel, Node, Outcome, Page, PageRun, Routine, RunStep, Score,
    SymbolValue,
};

/// `y[i] += factor · x[i]`, one element per thread; `i` is the number of the workgroup as the ABI computes
/// it. Word 2 of the table is the factor.
const SCALED: &str = "
@group(0) @binding(0) var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let at = group.x + groups.x * (group.y + groups.y * group.z);
  if (at >= 70000u) { return; }
  y[table[0].y + at] += f32(table[0].z) * x[table[0].x + at];
}
";

/// More workgroups than a dispatch may have in one dimension.
const GROUPS: usize = 70_000;

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

fn node(name: &str, slab: usize, offset: usize) -> Node {
    Node { name: name.into(), dtype: "f32".into(), dims: vec![GROUPS], slab, offset, bytes: 4 * GROUPS }
}

/// A page with two steps of `y += @factor · x`. The nodes lie in different slabs, and not at the beginning of
/// a slab.
fn scaled(expected: impl Fn(usize) -> f32) -> Page {
    let mut data = Data::default();
    let x = data.add(&floats((0..GROUPS).map(|i| i as f32)));
    let y = data.add(&floats((0..GROUPS).map(expected)));
    let kernel = Kernel {
        name: "scaled".into(),
        wgsl: SCALED.into(),
        groups: GROUPS as u64,
        table_words: 3,
        slabs: 2,
    };
    let call =
        Call { kernel: 0, slabs: vec![1, 0], offsets: vec![64, 128], symbols: vec![SymbolValue::Symbol(0)] };
    let step = |factor| RunStep { routine: 0, bindings: vec![factor] };
    let context = Context {
        name: "by hand".into(),
        slabs: vec![512 + 4 * GROUPS, 256 + 4 * GROUPS],
        nodes: vec![node("x", 1, 256), node("y", 0, 512)],
        routines: vec![Routine { name: "scaled".into(), symbols: vec!["factor".into()], calls: vec![call] }],
        runs: vec![PageRun {
            title: "twice".into(),
            before: vec![Contents { node: 0, data: x }],
            steps: vec![step(2), step(3)],
            after: vec![
                Expected { node: 0, data: x, tolerance: 0.0, radii: None },
                Expected { node: 1, data: y, tolerance: 1e-6, radii: None },
            ],
            score: Some(Score { label: "the first of y".into(), node: 1, of: 1 }),
        }],
    };
    Page { title: "by hand".into(), kernels: vec![kernel], contexts: vec![context], data, ..Page::default() }
}

#[test]
fn calls_bind_slabs_and_tables_and_split_their_groups() {
    let Some(browser) = crate::common::browser("calls_bind_slabs_and_tables_and_split_their_groups") else {
        return;
    };
    let outcome = crate::common::run(&browser, &scaled(|i| 5.0 * i as f32));
    assert_eq!(outcome.status, "pass", "{:#?}", outcome.complaints());
    assert_eq!(outcome.runs.len(), 1);
    assert_eq!(outcome.runs[0].checks.iter().map(|c| c.elements).collect::<Vec<_>>(), [GROUPS, GROUPS]);
    assert_eq!(outcome.runs[0].score.as_ref().unwrap().value, 0.0);
    assert!(outcome.adapter.contains("software"), "{}", outcome.adapter);
}

#[test]
fn a_wrong_value_fails_the_page() {
    let Some(browser) = crate::common::browser("a_wrong_value_fails_the_page") else { return };
    let last = GROUPS - 1;
    let outcome = crate::common::run(&browser, &scaled(|i| if i == last { 5.0 } else { 5.0 * i as f32 }));
    assert_eq!(outcome.status, "fail");
    let y = &outcome.runs[0].checks[1];
    assert_eq!((y.name.as_str(), y.wrong), ("y", 1));
    assert_eq!(outcome.complaints(), ["by hand, twice: y: 1 of 70000 elements wrong"]);
}

#[test]
fn a_rejected_kernel_is_named_with_the_line() {
    let Some(browser) = crate::common::browser("a_rejected_kernel_is_named_with_the_line") else { return };
    let mut page = scaled(|i| 5.0 * i as f32);
    page.kernels[0].wgsl = page.kernels[0].wgsl.replace("f32(table[0].z)", "table[0].z");
    let outcome = crate::common::run(&browser, &page);
    assert_eq!(outcome.status, "fail");
    let message = &outcome.kernels[0].errors[0];
    assert!(message.starts_with("scaled:") && message.contains("y[table[0].y + at]"), "{message}");
    assert_eq!(outcome.runs[0].error.as_deref(), Some("The browser rejects kernel scaled."));
}

#[test]
fn a_barrier_where_threads_differ_is_rejected() {
    let Some(browser) = crate::common::browser("a_barrier_where_threads_differ_is_rejected") else { return };
    let mut page = scaled(|i| 5.0 * i as f32);
    page.kernels[0].wgsl =
        page.kernels[0].wgsl.replace("y[table", "if (y[at] > 0.0) { workgroupBarrier(); }\n  y[table");
    let outcome = crate::common::run(&browser, &page);
    assert_eq!(outcome.status, "fail");
    assert!(outcome.kernels[0].errors[0].contains("uniform"), "{:?}", outcome.kernels[0].errors);
}

#[test]
fn what_the_device_finds_invalid_is_told() {
    let Some(browser) = crate::common::browser("what_the_device_finds_invalid_is_told") else { return };
    let mut page = scaled(|i| 5.0 * i as f32);
    page.contexts[0].routines[0].calls[0].slabs = vec![1, 1];
    let outcome = crate::common::run(&browser, &page);
    assert_eq!((outcome.status.as_str(), outcome.runs[0].status.as_str()), ("fail", "error"));
    let message = outcome.runs[0].error.as_deref().unwrap();
    assert!(message.starts_with("While running by hand, twice:"), "{message}");
}

#[test]
fn a_feature_that_the_adapter_lacks_is_named() {
    let Some(browser) = crate::common::browser("a_feature_that_the_adapter_lacks_is_named") else { return };
    let page = Page { features: vec!["time-travel".into()], ..scaled(|i| i as f32) };
    let outcome = crate::common::run(&browser, &page);
    assert_eq!(outcome.status, "error");
    assert_eq!(outcome.error.as_deref(), Some("The kernels need time-travel, which this adapter lacks."));
}

/// The page's report in a browser that runs `script` before the page's own scripts.
fn run_after(script: &str, test: &str) -> Option<Outcome> {
    let browser = crate::common::browser(test)?;
    let html = scaled(|i| 5.0 * i as f32).html().unwrap();
    let html = html.replacen("<!-- How kernels are called. -->", &format!("<script>{script}</script>"), 1);
    Some(browser.run(&html, Duration::from_secs(240)).unwrap())
}

#[test]
fn a_browser_without_webgpu_is_told() {
    let script = "Object.defineProperty(navigator, 'gpu', { value: undefined });";
    let Some(outcome) = run_after(script, "a_browser_without_webgpu_is_told") else { return };
    assert_eq!(outcome.status, "error");
    assert!(outcome.error.as_deref().unwrap().contains("does not offer WebGPU"), "{outcome:?}");
}

#[test]
fn a_lost_device_ends_the_run_with_its_reason() {
    let script = "const submit = GPUQueue.prototype.submit;
        const request = GPUAdapter.prototype.requestDevice;
        let device;
        GPUAdapter.prototype.requestDevice = async function (...args) { return device = await request.apply(this, args); };
        GPUQueue.prototype.submit = function (...args) { submit.apply(this, args); device.destroy(); };";
    let Some(outcome) = run_after(script, "a_lost_device_ends_the_run_with_its_reason") else { return };
    assert_eq!((outcome.status.as_str(), outcome.runs[0].status.as_str()), ("fail", "error"));
    let message = outcome.runs[0].error.as_deref().unwrap();
    assert!(message.contains("was lost while running by hand, twice"), "{message}");
}

#[test]
fn a_device_that_never_answers_is_given_up_on() {
    let script = "const wait = setTimeout;
        window.setTimeout = (work, ms) => wait(work, ms / 60);
        GPUQueue.prototype.onSubmittedWorkDone = () => new Promise(() => {});";
    let Some(outcome) = run_after(script, "a_device_that_never_answers_is_given_up_on") else { return };
    assert_eq!(outcome.runs[0].status, "error");
    let message = outcome.runs[0].error.as_deref().unwrap();
    assert_eq!(message, "The device has not answered for 60 seconds while running by hand, twice.");
}

#[test]
fn a_page_that_says_nothing_is_not_waited_for() {
    let Some(browser) = crate::common::browser("a_page_that_says_nothing_is_not_waited_for") else { return };
    let error = browser.run("<p>nothing</p>", Duration::from_secs(3)).unwrap_err();
    assert!(error.to_string().contains("has not reported within 3 seconds"), "{error}");
}

/// For every element type, an equal value passes and another value fails, unless it is a float within the
/// tolerance.
#[test]
fn values_of_every_type_are_told_apart() {
    let Some(browser) = crate::common::browser("values_of_every_type_are_told_apart") else { return };
    let mut page = Page { title: "types".into(), ..Page::default() };
    let mut context = Context { name: "types".into(), slabs: vec![1 << 16], ..Context::default() };
    for dtype in tnode::DType::ALL {
        let [one, half] = [1.0, 0.5].map(|x| bytes(tnode::Scalar::from_f64(dtype, x)));
        let at = context.nodes.len();
        let (one, half) = (page.data.add(&one), page.data.add(&half));
        let (name, offset, bytes) = (dtype.token().to_owned(), 256 * at, dtype.size_bytes());
        context.nodes.push(Node { name: name.clone(), dtype: name, dims: vec![], slab: 0, offset, bytes });
        let run = |title: &str, tolerance, found| PageRun {
            title: format!("{dtype} {title}"),
            before: vec![Contents { node: at, data: found }],
            steps: Vec::new(),
            after: vec![Expected { node: at, data: one, tolerance, radii: None }],
            score: None,
        };
        context.runs.push(run("equal", 0.0, one));
        if dtype != tnode::DType::Bool {
            context.runs.push(run("other", 0.0, half));
            context.runs.push(run("near", 0.5, half));
        }
    }
    page.contexts.push(context);
    let outcome = crate::common::run(&browser, &page);
    for run in &outcome.runs {
        let (dtype, title) = run.title.split_once(' ').unwrap();
        let is_float = tnode::DType::ALL.iter().any(|d| d.token() == dtype && d.is_float());
        let expected = if title == "equal" || title == "near" && is_float { "pass" } else { "fail" };
        assert_eq!(run.status, expected, "{}", run.title);
    }
    assert_eq!(outcome.runs.len(), 3 * tnode::DType::ALL.len() - 2);
}

/// Integers that differ, but are equal when they are converted to a 64-bit float.
#[test]
fn great_integers_are_told_apart() {
    let Some(browser) = crate::common::browser("great_integers_are_told_apart") else { return };
    let mut page = Page { title: "great integers".into(), ..Page::default() };
    let mut context = Context { name: "great".into(), slabs: vec![256], ..Context::default() };
    let [found, expected] = [1i64 << 60, (1 << 60) + 1].map(|x| page.data.add(&x.to_le_bytes()));
    for (at, dtype) in ["i64", "u64"].into_iter().enumerate() {
        let (name, dtype) = (dtype.to_owned(), dtype.to_owned());
        context.nodes.push(Node {
            name: name.clone(),
            dtype,
            dims: vec![],
            slab: 0,
            offset: 16 * at,
            bytes: 8,
        });
        let before = vec![Contents { node: at, data: found }];
        let after = vec![Expected { node: at, data: expected, tolerance: 0.0, radii: None }];
        context.runs.push(PageRun { title: name, before, steps: Vec::new(), after, score: None });
    }
    page.contexts.push(context);
    let outcome = crate::common::run(&browser, &page);
    assert_eq!(outcome.runs.iter().map(|run| run.status.as_str()).collect::<Vec<_>>(), ["fail", "fail"]);
}

fn bytes(value: tnode::Scalar) -> Vec<u8> {
    value.bits().to_le_bytes()[..value.dtype().size_bytes()].to_vec()
}
