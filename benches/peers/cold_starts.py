"""Cold starts, memory and new shapes of a BERT model from the hub's files: arrayjit beside torch,
`torch.compile`, jax and onnxruntime. Prints a table in Markdown.

    cold_starts.py FOLDER DIMENSIONS [--threads N] [--rounds N] [--shapes N] [--seconds S] [--programs NAME,..]

FOLDER has `config.json` and the weights, DIMENSIONS is the example of `arrayjit-onnx` with this name. Each
program is measured in a process of its own, and the programs take turns. The columns are:

* first result: from the folder or the ONNX file to the result for 1×128 tokens, without the time to start
  Python and to import libraries;
* later run: the median of ten;
* memory: the peak of resident memory until then, above that of the process with its libraries; of arrayjit
  it is that of the whole process;
* new shapes: what first runs of random shapes of at most 8×128 tokens take longer than second runs, in all.
  A program stops after S seconds, and the table has the number of shapes that it saw.

Each program's first result is compared with that of torch; arrayjit's are compared in its tests.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import peers

PROGRAMS = ["arrayjit", "arrayjit-exact", "onnxruntime", "torch", "torch-compile", "jax"]
BATCH, TOKENS = 8, 128
NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def batch(rows, tokens):
    """The inputs of a run: token ids without padding."""
    ids = (np.arange(rows * tokens, dtype=np.int64) * 37 % 1000 + 1000).reshape(rows, tokens)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def bert(folder):
    """The model in torch."""
    import torch
    from transformers import BertModel

    return BertModel.from_pretrained(folder, dtype=torch.float32).eval()


def export(folder, file):
    """Writes the model as ONNX, with the batch and the number of tokens open."""
    import torch

    given = tuple(torch.from_numpy(batch(2, 16)[name]) for name in NAMES)
    axes = {0: torch.export.Dim("b", max=4096), 1: torch.export.Dim("t", max=512)}
    torch.onnx.export(bert(folder), given, file, input_names=NAMES, output_names=["hidden"], dynamo=True,
                      dynamic_shapes=(axes, axes, axes), external_data=False)


def open_torch(compiles):
    import torch

    # Imports all that a first run would import.
    import transformers.models.bert.modeling_bert  # noqa: F401

    if compiles:
        # Compiled code of earlier processes must not be found.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
        from torch._inductor import config

        config.fx_graph_cache = False
        torch.compile(lambda x: x + 1)(torch.ones(2))

    def load(args):
        torch.set_num_threads(args.threads)
        model = bert(args.model)
        call = torch.compile(model) if compiles else model

        def run(inputs):
            with torch.inference_mode():
                return call(**{name: torch.from_numpy(array) for name, array in inputs.items()})[0].numpy()

        return run

    return load


def open_onnxruntime():
    import onnxruntime

    def load(args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        session = onnxruntime.InferenceSession(args.onnx, options, providers=["CPUExecutionProvider"])
        return lambda inputs: session.run(None, inputs)[0]

    return load


def open_jax():
    import jax
    from safetensors.numpy import load_file

    jax.jit(lambda x: x + 1)(np.ones(2, "f4"))

    def load(args):
        with open(os.path.join(args.model, "config.json")) as file:
            config = json.load(file)
        weights = load_file(os.path.join(args.model, "model.safetensors"))
        weights = {name.removeprefix("bert."): jax.numpy.asarray(array) for name, array in weights.items()}
        call = jax.jit(lambda weights, inputs: jax_bert(config, weights, inputs))
        return lambda inputs: np.asarray(call(weights, {n: array.astype("i4") for n, array in inputs.items()}))

    return load


def jax_bert(config, weights, inputs):
    """The last hidden states of BERT."""
    import jax
    from jax import numpy as jnp

    def dense(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def heads(x):
        return x.reshape(*x.shape[:2], config["num_attention_heads"], -1)

    def table(name):
        return weights[f"embeddings.{name}_embeddings.weight"]

    ids = inputs["input_ids"]
    x = table("word")[ids] + table("position")[: ids.shape[1]] + table("token_type")[inputs["token_type_ids"]]
    x = norm(x, "embeddings.LayerNorm")
    bias = jnp.where(inputs["attention_mask"] > 0, 0.0, -1e30)[:, None, None, :]
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        q, k, v = (heads(dense(x, f"{name}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5 + bias
        attended = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)
        x = norm(x + dense(attended, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        hidden = jax.nn.gelu(dense(x, f"{name}.intermediate.dense"), approximate=False)
        x = norm(x + dense(hidden, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return x


def measure(args):
    """Measures one program in this process; `dimensions` measures arrayjit in the same way."""
    # jax has no setting for its threads: it has as many as the process has cores when it is loaded.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    opened = {"torch": lambda: open_torch(False), "torch-compile": lambda: open_torch(True),
              "jax": open_jax, "onnxruntime": open_onnxruntime}
    load = opened[args.program]()
    peers.load_code()
    idle = peers.resident("VmRSS")
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    inputs = batch(1, TOKENS)
    results = []
    start = time.perf_counter()
    run = load(args)
    results.append(run(inputs))
    first = time.perf_counter() - start
    np.save(args.output, results[0])
    peak = peers.resident("VmHWM") - idle
    later = statistics.median(peers.seconds(lambda: run(inputs)) for _ in range(10))
    random = np.random.default_rng(1)
    compiling, count, begin = 0.0, 0, time.perf_counter()
    while count < args.shapes and time.perf_counter() - begin < args.seconds:
        inputs = batch(int(random.integers(1, BATCH + 1)), int(random.integers(1, TOKENS + 1)))
        times = [peers.seconds(lambda: run(inputs)) for _ in range(2)]
        compiling += max(0.0, times[0] - times[1])
        count += 1
    return {"first": first * 1e3, "later": later * 1e3, "memory": peak / 2**20, "new": compiling, "shapes": count}


def measure_ours(args, program):
    """Measures arrayjit, with one compilation for all shapes or one for each."""
    policy = "exact" if program == "arrayjit-exact" else "symbolic"
    command = [args.dimensions, args.onnx, "cold", policy, f"1x{TOKENS}", str(args.shapes), str(args.seconds)]
    environment = {**os.environ, "ARRAYJIT_THREADS": str(args.threads)}
    command += [f"b={BATCH}", f"t={TOKENS}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    first = re.search(r"^first result ([\d.]+) ms, later runs ([\d.]+) ms, peak (\d+) MiB$", text, re.M)
    last = re.findall(r"^(\d+) shapes: ([\d.]+) s", text, re.M)[-1]
    return {"first": float(first[1]), "later": float(first[2]), "memory": float(first[3]),
            "new": float(last[1]), "shapes": int(last[0])}


def measure_peer(args, program, folder):
    """Measures a peer in a process of its own, and compares its first result with torch's."""
    output = os.path.join(folder, f"{program}.npy")
    command = [sys.executable, __file__, args.model, args.dimensions, "--program", program, "--onnx", args.onnx]
    command += ["--output", output, "--threads", str(args.threads)]
    command += ["--shapes", str(args.shapes), "--seconds", str(args.seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    expected = os.path.join(folder, "expected.npy")
    difference = np.abs(np.load(output) - np.load(expected)).max()
    if difference > 1e-3:
        sys.exit(f"the result of {program} differs from that of torch by {difference}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(args):
    """Measures the programs in turns, and prints the table."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        args.onnx = os.path.join(folder, "model.onnx")
        export(args.model, args.onnx)
        with torch.inference_mode():
            given = {name: torch.from_numpy(array) for name, array in batch(1, TOKENS).items()}
            np.save(os.path.join(folder, "expected.npy"), bert(args.model)(**given)[0].numpy())
        found = {program: [] for program in args.programs.split(",")}
        for number in range(args.rounds):
            # A program takes over the pages that the one before has left, so each round has an order of its own.
            turn = random.Random(number).sample(list(found), len(found))
            for program, rounds in ((program, found[program]) for program in turn):
                is_ours = program.startswith("arrayjit")
                rounds.append(measure_ours(args, program) if is_ours else measure_peer(args, program, folder))
                print(program, json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    print("| Program | first result, ms | later run, ms | memory, MiB | new shapes, s |\n|---|--:|--:|--:|--:|")
    for program, rounds in found.items():
        median = {key: statistics.median(measured[key] for measured in rounds) for key in rounds[0]}
        print(f"| {program} | {median['first']:,.0f} | {median['later']:.1f} | {median['memory']:.0f} "
              f"| {median['new']:.2f} for {median['shapes']:.0f} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("dimensions")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    # Of the processes that measure one program.
    for name in ("--program", "--onnx", "--output"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        print(json.dumps(measure(args)))
    else:
        compare(args)


if __name__ == "__main__":
    main()
