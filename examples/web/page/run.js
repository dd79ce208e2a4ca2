// Executes the runs of a page and reports the outcome. All kernels are compiled first. Then each run of each
// context is executed and checked, and timed afterwards. `window.arrayjitResult` and the page's title hold
// the outcome for programs.
"use strict";

/**
 * The time limit of each operation of the device. An operation that takes longer is an error, so that a page
 * never hangs.
 */
const PATIENCE_SECONDS = 60;

/** The number of repetitions of a run that are timed. */
const REPETITIONS = 5;

const now = () => performance.now();

/** Waits for a promise. Fails after the time limit, or when the device is lost. */
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

/**
 * Calls `work` and returns its result. Throws an error if `work` fails, or if the device reports a validation
 * error, an out-of-memory error or an internal error meanwhile.
 */
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

/** Compiles every kernel. The result of a kernel that the browser rejects has the error messages. */
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

/**
 * Executes a run: uploads its inputs, runs its steps, compares its outputs, and reads its score; then times
 * the run.
 */
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

/**
 * Reads the score of a run, a count out of a maximum, such as the number of images that are classified
 * correctly.
 */
async function readScore(device, buffers, context, { label, node, of }) {
  const bytes = await download(device, buffers, context.nodes[node]);
  const value = Number(TYPES[context.nodes[node].dtype].read(new DataView(bytes.buffer), 0));
  return { label, value, of };
}

/**
 * The best time of a whole run, and of the first call of each kernel submitted alone. Both include the cost
 * of a submission.
 */
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

/**
 * Executes all runs of all contexts, each on memory of its own. An error of one run does not stop the
 * others.
 */
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
  const rejected = kernelsOf(context, run).find((kernel) => compiled[kernel].errors.length > 0);
  if (rejected !== undefined) {
    return { status: "error", error: `The browser rejects kernel ${compiled[rejected].kernel.name}.`, checks: [] };
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

/**
 * The name of an adapter, with a remark if it is software, because its times then say nothing about
 * hardware.
 */
function nameOf({ vendor, architecture, device, description, isFallbackAdapter }) {
  const name = [vendor, architecture, device, description].filter((part) => part).join(" ") || "not named";
  const isSoftware = isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|warp/i.test(name);
  return isSoftware ? `${name} (software: its times say nothing about hardware)` : name;
}

/**
 * Compiles all kernels, executes all runs, and returns the outcome. Calls `progress` with a description of
 * the current work.
 */
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
