"""Writes the node tests of the Python package `onnx` as an archive: `generate.py FILE.tar.xz`.

Each test is a folder with `model.onnx`, and `input_N.pb` and `output_N.pb` in `test_data_set_N`. Tests whose values
are no tensors have the file `skipped` instead of data. The archive is the same in every run.
"""

import sys

import onnx
from archive import write
from onnx import numpy_helper
from onnx.backend.test.case import node


def tensor(value, info):
    if not info.type.HasField("tensor_type"):
        raise ValueError("no tensor")
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(value, info.name)


def files(case):
    """The paths and bytes of the files of a test."""
    yield "model.onnx", case.model.SerializeToString(deterministic=True)
    graph = case.model.graph
    for number, (inputs, outputs) in enumerate(case.data_sets):
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for at, (value, info) in enumerate(zip(values, infos)):
                try:
                    message = tensor(value, info).SerializeToString(deterministic=True)
                except Exception as error:
                    yield "skipped", str(error).encode()
                    continue
                yield f"test_data_set_{number}/{kind}_{at}.pb", message


def main(target):
    cases = sorted(node.collect_testcases(None), key=lambda case: case.name)
    write(target, ((f"{case.name}/{path}", data) for case in cases for path, data in files(case)))


main(sys.argv[1])
