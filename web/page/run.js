// Runs what the page holds and tells the outcome: first everything is compiled, then each run of each context is done and checked, and
// only then timed. `window.arrayjitResult` and the page's title hold the outcome for programs that look.
"use strict";

/** Nothing that a device is asked for takes longer; what does counts as an error, so that a page never hangs. */
const PATIENCE_SECONDS = 60;

/** How often a run is repeated for its time. */
const REPETITIONS = 5;

const now = () => performance.now();

/** A promise that is given up on after a while, or when the device is lost. */
function answered(device, promise, doing) {
  let timer;
  const late = new Promise((_, reject) => {
    const message = `The device has not answered for ${PATIENCE_SECONDS} seconds while ${doing}.`;
    timer = setTimeout(() => reject(new Error(message)), PATIENCE_SECONDS * 1000);
  });
  const lost = device.lost.then(({ reason, message }) => {
    throw new Error(`The device was lost while ${doing}: ${message} (${reason})`);
  });
  return Promise.race([promise, late, lost]).finally(() => clearTimeout(timer));
}

/** What `work` gives; errors of validation and memory that the device reports meanwhile are thrown. */
async function checked(device, doing, work) {
  const filters = ["validation", "out-of-memory", "internal"];
  for (const filter of filters) device.pushErrorScope(filter);
  let value, failure;
  try {
    value = await answered(device, work(), doing);
  } catch (error) {
    failure = error;
  }
  for (const _ of filters) {
    const error = await answered(device, device.popErrorScope(), doing);
    if (error) failure = new Error(`While ${doing}: ${error.message}`);
  }
  if (failure) throw failure;
  return value;
}

/** Compiles every kernel; those that the browser refuses hold its messages. */
async function compileAll(device, kernels, show) {
  const compiled = [];
  for (const kernel of kernels) {
    const start = now();
    const outcome = await answered(device, compileKernel(device, kernel), `compiling ${kernel.name}`);
    compiled.push({ kernel, ...outcome, ms: now() - start });
    show(compiled.length, kernels.length);
  }
  return compiled;
}

/** Does a run: inputs up, steps, outputs down and compared, and what a score says. */
async function perform(device, compiled, context, buffers, run, data) {
  const reset = () => {
    clear(device, buffers);
    for (const { node, data: at } of run.before) upload(device, buffers, context.nodes[node], decode(data[at]));
  };
  const calls = run.steps.flatMap(({ routine, bindings }) =>
    context.routines[routine].calls.map((call) => prepare(device, buffers, compiled, call, bindings)));
  reset();
  const start = now();
  await dispatch(device, calls);
  const firstMs = now() - start;
  const checks = [];
  for (const { node, data: at, tolerance, radii: radiiAt } of run.after) {
    const { name, dtype, dims } = context.nodes[node];
    const found = await download(device, buffers, context.nodes[node]);
    const radii = radiiAt === null ? null : new Float64Array(decode(data[radiiAt]).buffer);
    checks.push({ name, dtype, dims, ...compare(dtype, found, decode(data[at]), tolerance, radii) });
  }
  const score = run.score && (await readScore(device, buffers, context, run.score));
  reset();
  return { checks, score, firstMs, ...(await time(device, calls)) };
}

/** A number that a run is about, such as images told apart correctly, out of so many. */
async function readScore(device, buffers, context, { label, node, of }) {
  const bytes = await download(device, buffers, context.nodes[node]);
  const value = Number(TYPES[context.nodes[node].dtype].read(new DataView(bytes.buffer), 0));
  return { label, value, of };
}

/** The best time of a whole run, and of the first calls of each kernel submitted alone: with what a submission costs. */
async function time(device, calls) {
  let bestMs = Infinity;
  for (let i = 0; i < REPETITIONS; i++) {
    const start = now();
    await dispatch(device, calls);
    bestMs = Math.min(bestMs, now() - start);
  }
  const kernelMs = new Map();
  for (const call of calls) {
    if (kernelMs.has(call.kernel)) continue;
    let best = Infinity;
    for (let i = 0; i < REPETITIONS; i++) {
      const start = now();
      await dispatch(device, [call]);
      best = Math.min(best, now() - start);
    }
    kernelMs.set(call.kernel, best);
  }
  return { bestMs, kernelMs: [...kernelMs] };
}

/** All runs of all contexts, each on memory of its own. An error of one run does not stop the others. */
async function runAll(device, compiled, page, show) {
  const outcomes = [];
  for (const context of page.contexts) {
    for (const run of context.runs) {
      const outcome = await attempt(device, compiled, context, run, page.data);
      outcomes.push({ context: context.name, title: run.title, ...outcome });
      show(outcomes);
    }
  }
  return outcomes;
}

async function attempt(device, compiled, context, run, data) {
  const doing = `running ${context.name}, ${run.title}`;
  const refused = kernelsOf(context, run).find((kernel) => compiled[kernel].errors.length > 0);
  if (refused !== undefined) {
    return { status: "error", error: `The browser refuses kernel ${compiled[refused].kernel.name}.`, checks: [] };
  }
  try {
    const outcome = await checked(device, doing, async () => {
      const buffers = allocate(device, context);
      try {
        return await perform(device, compiled, context, buffers, run, data);
      } finally {
        for (const buffer of buffers) buffer.destroy();
      }
    });
    return { status: outcome.checks.every((check) => check.wrong === 0) ? "pass" : "fail", ...outcome };
  } catch (error) {
    return { status: "error", error: error.message, checks: [] };
  }
}

const kernelsOf = (context, run) =>
  run.steps.flatMap(({ routine }) => context.routines[routine].calls.map((call) => call.kernel));

/** An adapter's name, and that it is software where it is: its times say nothing about hardware. */
function nameOf({ vendor, architecture, device, description, isFallbackAdapter }) {
  const name = [vendor, architecture, device, description].filter((part) => part).join(" ") || "not named";
  const isSoftware = isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|warp/i.test(name);
  return isSoftware ? `${name} (software: its times say nothing about hardware)` : name;
}

/** Does everything and gives the outcome. `progress` is told what is being done. */
async function judge(page, progress) {
  const start = now();
  const result = { status: "error", title: page.title, adapter: "", error: null, kernels: [], runs: [], seconds: 0 };
  try {
    const { adapter, device } = await openDevice(page.features);
    result.adapter = nameOf(adapter.info);
    const compiled = await compileAll(device, page.kernels, (done, all) => progress(`compiling kernel ${done} of ${all}`));
    result.kernels = compiled.map(({ kernel, errors, ms }) => ({ name: kernel.name, errors, ms }));
    const all = page.contexts.reduce((sum, context) => sum + context.runs.length, 0);
    result.runs = await runAll(device, compiled, page, (done) => progress(`run ${done.length} of ${all} done`));
    const isGood = result.kernels.every((kernel) => kernel.errors.length === 0)
      && result.runs.every((run) => run.status === "pass");
    result.status = isGood ? "pass" : "fail";
  } catch (error) {
    result.error = error.message;
  }
  result.seconds = (now() - start) / 1000;
  return result;
}
