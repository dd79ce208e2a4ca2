// The device's side of the kernel ABI (docs/abi.md, section "Shaders"), in JavaScript.
//
// A context is memory: slabs, which are buffers, and nodes, which lie in slabs. A routine is a list of calls.
// A call binds the slabs that contain its kernel's parameters, and a table with the offset of each parameter
// in its slab. This code does not depend on the operations of a kernel.
"use strict";

/** A dispatch has at most this many workgroups in each dimension. */
const MAX_GROUPS = 65535;

/**
 * Finds an adapter with the features and opens a device on it. The messages of its errors are for readers of
 * the page.
 */
async function openDevice(features) {
  if (!navigator.gpu) {
    throw new Error("This browser does not offer WebGPU on this page. It needs a recent browser, and https, localhost or a file.");
  }
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) throw new Error("This browser has WebGPU, but found no adapter that it may use.");
  const missing = features.filter((feature) => !adapter.features.has(feature));
  if (missing.length > 0) throw new Error(`The kernels need ${missing.join(", ")}, which this adapter lacks.`);
  const device = await adapter.requestDevice({ requiredFeatures: features });
  return { adapter, device };
}

/**
 * The layout of bindings: binding 0 is the table of a call, binding 1 + s is slab s. Every kernel may write
 * every slab.
 */
function bindingLayout(device, slabs) {
  const table = { binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: "uniform" } };
  const storage = Array.from({ length: slabs }, (_, slab) => (
    { binding: 1 + slab, visibility: GPUShaderStage.COMPUTE, buffer: { type: "storage" } }
  ));
  return device.createBindGroupLayout({ entries: [table, ...storage] });
}

/** Compiles a kernel. Returns its pipeline, or the error messages of the browser's compiler. */
async function compileKernel(device, kernel) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ label: kernel.name, code: kernel.wgsl });
  const scope = device.popErrorScope();
  const { messages } = await module.getCompilationInfo();
  await scope; // the scope's error repeats the messages, without positions
  const errors = messages.filter((message) => message.type === "error");
  if (errors.length > 0) return { errors: errors.map((message) => explain(kernel, message)) };
  const layout = device.createPipelineLayout({ bindGroupLayouts: [bindingLayout(device, kernel.slabs)] });
  try {
    const compute = { module, entryPoint: "main" };
    return { pipeline: await device.createComputePipelineAsync({ label: kernel.name, layout, compute }), errors: [] };
  } catch (error) {
    return { errors: [`${kernel.name}: ${error.message}`] };
  }
}

/** A message of the compiler with its position and the line of WGSL at that position. */
function explain(kernel, { lineNum, linePos, message }) {
  const line = kernel.wgsl.split("\n")[lineNum - 1] ?? "";
  return `${kernel.name}:${lineNum}:${linePos}: ${message}\n    ${line.trim()}`;
}

/** One buffer for each slab of a context. */
function allocate(device, context) {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  return context.slabs.map((size, slab) => device.createBuffer({ label: `slab ${slab}`, size, usage }));
}

/** Sets all memory of a context to zero. */
function clear(device, buffers) {
  const encoder = device.createCommandEncoder();
  for (const buffer of buffers) encoder.clearBuffer(buffer);
  device.queue.submit([encoder.finish()]);
}

/** Rounds a number of bytes up to whole words, since copies transfer whole words. */
const wholeWords = (bytes) => (bytes + 3) & ~3;

/** Writes the elements of a node. */
function upload(device, buffers, node, bytes) {
  const padded = new Uint8Array(wholeWords(bytes.length));
  padded.set(bytes);
  device.queue.writeBuffer(buffers[node.slab], node.offset, padded);
}

/** Reads the elements of a node. */
async function download(device, buffers, node) {
  const size = wholeWords(node.bytes);
  if (size === 0) return new Uint8Array(0);
  const staging = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffers[node.slab], node.offset, staging, 0, size);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const bytes = new Uint8Array(staging.getMappedRange()).slice(0, node.bytes);
  staging.destroy();
  return bytes;
}

/**
 * The table of a call: where each memory parameter begins in its slab, in words, then the values of the
 * static indices.
 */
function tableOf(call, kernel, bindings) {
  const valueOf = (value) => ("symbol" in value ? bindings[value.symbol] : value.step);
  const words = [...call.offsets, ...call.symbols.map(valueOf)];
  const table = new Uint32Array(4 * Math.max(1, Math.ceil(kernel.table_words / 4))); // vec4s, at least one
  table.set(words);
  return table;
}

/**
 * Distributes workgroups over three dimensions. A kernel numbers them x + X·(y + Y·z); surplus workgroups do
 * nothing.
 */
function split(groups) {
  const x = Math.max(1, Math.min(groups, MAX_GROUPS));
  const y = Math.min(Math.ceil(groups / x) || 1, MAX_GROUPS);
  const z = Math.ceil(groups / (x * y)) || 1;
  return [x, y, z];
}

/**
 * Prepares a call for dispatch: its pipeline, its bindings, and the number of workgroups in each dimension.
 */
function prepare(device, buffers, kernels, call, bindings) {
  const { kernel, pipeline } = kernels[call.kernel];
  const table = tableOf(call, kernel, bindings);
  const uniform = device.createBuffer({ size: table.byteLength, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(uniform, 0, table);
  const slabs = call.slabs.map((slab, position) => ({ binding: 1 + position, resource: { buffer: buffers[slab] } }));
  const entries = [{ binding: 0, resource: { buffer: uniform } }, ...slabs];
  const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
  return { kernel: call.kernel, pipeline, group, groups: split(kernel.groups) };
}

/** Runs calls in order, and waits until all are done. Each call sees the writes of the calls before it. */
async function dispatch(device, calls) {
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  for (const { pipeline, group, groups } of calls) {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(...groups);
  }
  pass.end();
  device.queue.submit([encoder.finish()]);
  await device.queue.onSubmittedWorkDone();
}
