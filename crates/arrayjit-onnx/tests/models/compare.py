"""Compares ONNX models of Python packages with onnxruntime and tract.

    compare.py PACKAGES ONNX_RUN [--tract TRACT_RUN] [--threads N]

PACKAGES is a folder with wheels, ONNX_RUN the program `onnx-run`, TRACT_RUN the program in the folder `tract`. Prints
a table in Markdown. The programs run in turns, and the times are medians over all rounds. Memory is the peak of a
process that loads the model and runs it once; of onnxruntime's, what Python and its packages take before is
subtracted. The exit status is 1 if an output differs.
"""

import argparse
import glob
import io
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
import onnxruntime

OCR = "rapidocr_onnxruntime-*.whl", "rapidocr_onnxruntime/models/"
# Name, wheel, path in the wheel, shapes of the inputs.
CASES = [
    ("PP-OCRv4 detection", OCR[0], OCR[1] + "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    ("PP-OCRv4 detection", OCR[0], OCR[1] + "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 736, 736)}),
    ("PP-OCRv4 recognition", OCR[0], OCR[1] + "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    ("PP-OCRv4 recognition", OCR[0], OCR[1] + "ch_PP-OCRv4_rec_infer.onnx", {"x": (6, 3, 48, 320)}),
    ("PP-OCR classification", OCR[0], OCR[1] + "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    ("PP-OCR classification", OCR[0], OCR[1] + "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (6, 3, 48, 192)}),
    ("320n", "nudenet-*.whl", "nudenet/320n.onnx", {"images": (1, 3, 320, 320)}),
    ("Magika", "magika-*.whl", "magika/models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}),
    ("Magika", "magika-*.whl", "magika/models/standard_v3_3/model.onnx", {"bytes": (8, 2048)}),
    ("Silero VAD", "silero_vad-*.whl", "silero_vad/data/silero_vad.onnx",
     {"input": (8, 576), "state": (2, 8, 128), "sr": ()}),
]
# Differences may be at most this part of the largest magnitude of an output, or this small: detection gives
# probabilities, which are almost 0 everywhere for random pictures.
TOLERANCE, SMALL = 1e-3, 1e-6
# The seconds for which each program runs a model in a round, at least one run.
SECONDS = 0.5


def array(name, kind, shape, rng):
    """An input: a sampling rate, a state of zeros, bytes, or floats in 0..1."""
    if name == "sr":
        return np.array(16000, dtype=np.int64)
    if name == "state":
        return np.zeros(shape, np.float32)
    if "float" in kind:
        return rng.random(shape, dtype=np.float32)
    return rng.integers(0, 256, shape).astype(np.int32)


def options(threads):
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads, chosen.inter_op_num_threads = threads, 1
    chosen.log_severity_level = 3
    return chosen


def timed(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


class OurRun:
    """One call of `onnx-run`: the times in milliseconds, and the outputs."""

    def __init__(self, program, model, inputs, outputs, runs, threads):
        with tempfile.TemporaryDirectory() as folder:
            given = []
            for name, values in inputs.items():
                path = os.path.join(folder, f"in_{name}.npy")
                np.save(path, values)
                given += ["--input", f"{name}={path}"]
            command = [program, model, *given, "--threads", str(threads), "--bench", str(runs), "--save", folder]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            first = re.search(r"^load ([\d.]+) ms, compile and first run ([\d.]+) ms$", text, re.M)
            self.cold = float(first[1]) + float(first[2])
            self.median = float(re.search(r"runs: median ([\d.]+) ms", text)[1])
            self.outputs = [np.load(os.path.join(folder, name.replace("/", "_") + ".npy")) for name in outputs]


PEER_MEMORY = """
import re, sys
import numpy as np, onnxruntime
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = int(sys.argv[2]), 3
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, dict((n, np.load(f)) for n, f in (a.rsplit("=", 1) for a in sys.argv[3:])))
print((peak() - before) / 1024)
"""


class Peers:
    """The programs on one model with its inputs in files."""

    def __init__(self, args, model, inputs, folder):
        self.args, self.model = args, model
        self.files = []
        for name, values in inputs.items():
            path = os.path.join(folder, f"in_{name}.npy")
            np.save(path, values)
            self.files.append(f"{name}={path}")

    def memory(self):
        """The peak memory in MiB of onnxruntime and of arrayjit."""
        threads = str(self.args.threads)
        command = [sys.executable, "-c", PEER_MEMORY, self.model, threads, *self.files]
        theirs = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        given = [word for file in self.files for word in ("--input", file)]
        command = [self.args.program, self.model, *given, "--threads", threads]
        ours = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(theirs), float(re.search(r"^peak memory (\d+) MiB$", ours, re.M)[1])

    def new_shape(self, shape):
        """The milliseconds of the first run with another shape of a loaded model."""
        given = [word for file in self.files for word in ("--input", file)]
        command = [self.args.program, self.model, *given, "--threads", str(self.args.threads), "--then-shape", shape]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(re.search(r"^new shape ([\d.]+) ms$", text, re.M)[1])

    def tract(self, runs):
        """The median in milliseconds with tract; none if it rejects the model."""
        if not self.args.tract:
            return None
        command = [self.args.tract, self.model, str(runs), str(self.args.threads), *self.files]
        done = subprocess.run(command, capture_output=True, text=True)
        return float(re.search(r"runs: median ([\d.]+) ms", done.stdout)[1]) if done.returncode == 0 else None


def another(shape):
    """A larger shape: a batch of one more, or 32 more columns."""
    return (*shape[:-1], shape[-1] + 32) if len(shape) == 4 else (shape[0] + 1, *shape[1:])


def is_equal(ours, theirs):
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if not np.issubdtype(theirs.dtype, np.floating):
        return np.array_equal(ours, theirs)
    scale = np.max(np.abs(theirs), initial=0.0)
    return bool(np.max(np.abs(ours - theirs), initial=0.0) <= max(TOLERANCE * scale, SMALL))


def compare(case, args):
    """The row of a case, the ratio of the times, and whether the outputs are equal."""
    name, wheel, member, shapes = case
    with zipfile.ZipFile(glob.glob(os.path.join(args.packages, wheel))[0]) as archive:
        data = archive.read(member)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file, tempfile.TemporaryDirectory() as folder:
        file.write(data)
        file.flush()
        start = time.perf_counter()
        session = onnxruntime.InferenceSession(file.name, options(args.threads), providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(0)
        inputs = {i.name: array(i.name, i.type, shapes[i.name], rng) for i in session.get_inputs()}
        theirs = session.run(None, inputs)
        colds = [(time.perf_counter() - start) * 1e3]
        once = timed(lambda: session.run(None, inputs))
        runs = max(1, min(200, int(SECONDS * 1e3 / once)))
        outputs = [output.name for output in session.get_outputs()]
        peers = Peers(args, file.name, inputs, folder)
        peer, mine, our_colds, equal, tract = [], [], [], True, []
        for _ in range(args.rounds):
            peer.append(statistics.median(timed(lambda: session.run(None, inputs)) for _ in range(runs)))
            ours = OurRun(args.program, file.name, inputs, outputs, runs, args.threads)
            mine.append(ours.median)
            our_colds.append(ours.cold)
            equal &= all(is_equal(a, b) for a, b in zip(ours.outputs, theirs))
            tract.append(peers.tract(runs))
        their_memory, our_memory = peers.memory()
        changed = next(iter(shapes))
        sizes = {changed: another(shapes[changed])}
        # A state has the batch of the input.
        reshaped = "" if len(shapes) > 1 else f"{peers.new_shape(f'{changed}={str(sizes[changed])[1:-1]}'.replace(' ', '')):.0f}"
    peer, mine = statistics.median(peer), statistics.median(mine)
    shape = "×".join(str(size) for size in next(iter(shapes.values())))
    tract = None if None in tract else statistics.median(tract)
    tracts = [f"{tract:.2f}", f"{tract / mine:.2f}"] if tract else ["rejected" if args.tract else "", ""]
    cells = [f"{name}, {shape}", f"{peer:.2f}", tracts[0], f"{mine:.2f}", f"{peer / mine:.2f}", tracts[1],
             f"{colds[0]:.0f}", f"{statistics.median(our_colds):.0f}", reshaped, f"{their_memory:.0f}",
             f"{our_memory:.0f}"]
    row = "| " + " | ".join(cells) + " |" + ("" if equal else " OUTPUTS DIFFER")
    return row, peer / mine, tract / mine if tract else None, equal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("packages")
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filter", default="")
    parser.add_argument("--tract", default="")
    args = parser.parse_args()
    parts = args.filter.split(",")
    for part in parts:
        if not any(part in case[0] for case in CASES):
            parser.error(f"no model has a name that contains `{part}`; there are: "
                         + ", ".join(sorted({case[0] for case in CASES})))
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True)
    print(f"onnxruntime {onnxruntime.__version__}, {args.threads} thread(s), medians in milliseconds\n")
    columns = ["model, first input", "onnxruntime", "tract", "arrayjit", "times onnxruntime's speed",
               "times tract's speed", "load to first result: onnxruntime", "arrayjit", "a new shape: arrayjit",
               "memory in MiB: onnxruntime", "arrayjit"]
    print("| " + " | ".join(columns) + " |")
    print("|---" + "|--:" * (len(columns) - 1) + "|")
    ratios, over_tract, all_equal = [], [], True
    for case in CASES:
        if any(part in case[0] for part in parts):
            row, ratio, tract, equal = compare(case, args)
            print(row)
            ratios.append(ratio)
            over_tract += [tract] if tract else []
            all_equal &= equal
    if ratios:
        print(f"\ngeometric mean: {math.prod(ratios) ** (1 / len(ratios)):.2f} times onnxruntime's speed")
    if over_tract:
        print(f"geometric mean: {math.prod(over_tract) ** (1 / len(over_tract)):.2f} times tract's speed")
    return 0 if all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
