"""The Python peers of the benchmarks: one process measures one peer on one number of threads or on a GPU,
controlled by lines of JSON.

    python peers.py torch|torch-compile|jax THREADS cpu|cuda:N

Each line on standard input is a request, and a line on standard output is its answer:

    (start)                                                 -> {"version": "2.15.0"}
    {"prepare": "softmax", "dtype": "f32", "inputs": [{"name": "x", "dims": [..], "file": ".."}], "outputs": [{"name": "y", "file": ".."}]}
                                                            -> {"has": true, "cold_ms": 1.5} or {"has": false}
    {"memory": "softmax", "inputs": [..]}                   -> {"peak_bytes": 1e6} or {}
    {"run": 20}                                             -> {"seconds": 0.01}

`prepare` calls the operation once on the inputs, whose files are little-endian f32 and which become arrays of
the type `dtype` (f32 or bf16), and writes its outputs to the files, as f32. `cold_ms` is the time of the first call minus the time of a later call. `run` makes
one untimed call, then the given number of timed calls, and waits until all are done. `memory` calls the operation a
few times, and measures the peak of resident memory above the idle process with the inputs (on Linux). The answer to a request
that fails is {"error": ".."}.
"""

import ctypes
import gc
import json
import os
import statistics
import sys
import time

import numpy


def read(description):
    """Reads an input array from its file."""
    values = numpy.fromfile(description["file"], dtype="<f4")
    return values.reshape(description["dims"])


def seconds(call):
    """The duration of a call, in seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def prepare(peer, request):
    """Prepares an operation: writes its outputs after one call, and measures the time to compile."""
    if not peer.has(request["prepare"]):
        return None, {"has": False}
    inputs = {description["name"]: read(description) for description in request["inputs"]}
    colds = []
    for _ in range(peer.COLD_CALLS):
        step = peer.step(request["prepare"], inputs, request["dtype"])
        colds.append(seconds(step.call))
    names = [output["name"] for output in request["outputs"]]
    for array, output in zip(step.outputs(names), request["outputs"], strict=True):
        numpy.asarray(array, dtype="<f4").tofile(output["file"])
    warm = min(seconds(step.call) for _ in range(3))
    return step, {"has": True, "cold_ms": max(0.0, statistics.median(colds) - warm) * 1e3}


def resident(field):
    """A field of this process's status, in bytes."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def load_code():
    """Loads all pages of the files that are mapped, which ours does too (`resident.rs`)."""
    libc = ctypes.CDLL(None)
    with open("/proc/self/maps") as maps:
        ranges = [line.split()[0].split("-") for line in maps if " /" in line]
    for start, end in ((int(start, 16), int(end, 16)) for start, end in ranges):
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 22)  # MADV_POPULATE_READ


def peak_memory(peer, request):
    """Measures the peak of resident memory of an operation, from its first call on."""
    if not peer.has(request["memory"]):
        return {}
    inputs = {description["name"]: read(description) for description in request["inputs"]}
    step = peer.step(request["memory"], inputs, "f32")
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    load_code()
    idle = resident("VmRSS")
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # Linux sets the peak to the current size: proc(5).
    for _ in range(3):
        step.call()
    return {"peak_bytes": resident("VmHWM") - idle}


def run(step, count):
    """Times `count` calls of a step."""
    if step is None:
        raise RuntimeError("nothing was prepared")
    step.call()

    def calls():
        for _ in range(count - 1):
            step.start()
        step.call()

    return {"seconds": seconds(calls)}


def answers(peer, lines):
    """Executes the requests and yields the answer to each."""
    step = None
    for line in lines:
        request = json.loads(line)
        try:
            if "prepare" in request:
                step, answer = prepare(peer, request)
            elif "memory" in request:
                answer = peak_memory(peer, request)
            else:
                answer = run(step, request["run"])
        except Exception as error:  # Whatever it is, the benchmark program reports it.
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        yield answer


def open_peer(name, threads, device):
    """Opens the peer with this name."""
    if name == "jax":
        import jax_peer

        return jax_peer.open_peer(threads)
    import torch_peer

    return torch_peer.open_peer(threads, device, name == "torch-compile")


def main():
    name, threads, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # Libraries print to standard error, since standard output is for answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = open_peer(name, threads, device)
    print(json.dumps({"version": peer.version()}), file=out, flush=True)
    for answer in answers(peer, sys.stdin):
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
