// Shows the outcome on the page. If the page is opened with `?report`, it also sends the outcome to its
// server.
"use strict";

/** Makes an element with a class and contents: text or other elements. */
function element(tag, className, ...contents) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...contents);
  return made;
}

const badge = (status) => element("span", `badge ${status}`, status);
const milliseconds = (ms) => (ms === undefined ? "" : `${ms.toFixed(ms < 10 ? 2 : 0)} ms`);

/** Makes a table of headings and rows. Cells after the first two are numbers and aligned to the right. */
function table(headings, rows) {
  const cells = (tag, values) => values.map((value, i) => element(tag, i > 1 ? "number" : "", value));
  const head = element("tr", "", ...cells("th", headings));
  return element("table", "", head, ...rows.map((row) => element("tr", "", ...cells("td", row))));
}

/** Describes the result of a comparison in words. */
function verdict({ wrong, elements, open, first, off, worst }) {
  if (wrong > 0) {
    return `${wrong} of ${elements} wrong, the first at ${first.index}: found ${first.found}, expected ${first.expected}`;
  }
  const close = off === 0 ? "equal" : `off by up to ${off.toExponential(1)}, ${(100 * worst).toPrecision(2)} % of what is allowed`;
  return open === 0 ? close : `${close}; ${open} of ${elements} may be anything`;
}

/** Shows a run: its outcome, its score if it has one, its times, and the nodes that were compared. */
function showRun(run) {
  const heading = element("h3", "", badge(run.status), ` ${run.title}`);
  const section = element("section", "run", heading);
  if (run.error) section.append(element("pre", "error", run.error));
  if (run.score) {
    const { label, value, of } = run.score;
    section.append(element("p", "score", `${label} ${(value / of).toFixed(3)}`, element("small", "", ` ${value} of ${of}`)));
  }
  if (run.checks.length > 0) {
    const rows = run.checks.map((check) => [check.name, verdict(check), `${check.dtype}[${check.dims.join(", ")}]`]);
    section.append(table(["node", "compared with what is expected", "type"], rows));
  }
  if (run.bestMs !== undefined) {
    const again = `${milliseconds(run.bestMs)} at best when repeated`;
    section.append(element("p", "times", `${milliseconds(run.firstMs)} the first time, ${again}.`));
  }
  return section;
}

/** Shows a kernel: its text, which can be unfolded, its compile time, and its best time in any run. */
function showKernel({ name, errors, ms }, kernel, best) {
  const facts = [kernel.groups === 1 ? "1 workgroup" : `${kernel.groups} workgroups`, `compiled in ${milliseconds(ms)}`];
  if (best !== undefined) facts.push(`runs in ${milliseconds(best)}`);
  const summary = element("summary", "", badge(errors.length > 0 ? "fail" : "pass"), ` ${name} `, element("small", "", facts.join(", ")));
  const complaints = errors.map((error) => element("pre", "error", error));
  return element("details", "kernel", summary, ...complaints, element("pre", "", kernel.wgsl));
}

/** The best time of each kernel over all runs, by its position. */
function bestTimes(runs) {
  const best = new Map();
  for (const [kernel, ms] of runs.flatMap((run) => run.kernelMs ?? [])) {
    best.set(kernel, Math.min(ms, best.get(kernel) ?? Infinity));
  }
  return best;
}

function show(page, result) {
  const outcome = document.getElementById("outcome");
  const passed = result.runs.filter((run) => run.status === "pass").length;
  const compiled = result.kernels.filter((kernel) => kernel.errors.length === 0).length;
  const parts = [`${compiled} of ${page.kernels.length} kernels compiled`, `${result.seconds.toFixed(1)} s`];
  if (result.runs.length > 0) parts.unshift(`${passed} of ${result.runs.length} runs passed`);
  outcome.replaceChildren(badge(result.status), ` ${parts.join(", ")}`);
  if (result.adapter) outcome.append(element("p", "adapter", `adapter: ${result.adapter}`));
  if (result.error) outcome.append(element("pre", "error", result.error));

  const runs = document.getElementById("runs");
  for (const context of page.contexts) {
    const own = result.runs.filter((run) => run.context === context.name);
    if (own.length > 0) runs.append(element("h2", "", context.name), ...own.map(showRun));
  }
  const best = bestTimes(result.runs);
  const kernels = result.kernels.map((kernel, i) => showKernel(kernel, page.kernels[i], best.get(i)));
  const alone = "Times are those of a kernel submitted alone, and hold what a submission costs.";
  if (kernels.length > 0) {
    document.getElementById("kernels").append(element("h2", "", "Kernels"), element("p", "times", alone), ...kernels);
  }
}

/** Reads the page's data, and the text of each kernel from the kernel's own element. */
function readPage() {
  const page = JSON.parse(document.getElementById("page").textContent);
  for (const [position, kernel] of page.kernels.entries()) {
    kernel.wgsl = document.getElementById(`kernel-${position}`).textContent.trim();
  }
  return page;
}

async function main() {
  const page = readPage();
  const progress = document.getElementById("progress");
  const result = await judge(page, (doing) => { progress.textContent = doing; });
  show(page, result);
  document.title = `${result.status}: ${page.title}`;
  window.arrayjitResult = result;
  if (location.search === "?report") await fetch("result", { method: "POST", body: JSON.stringify(result) });
}

main();
