"""Writes the node tests of the Python package `onnx` as directories: `generate.py DIR`.

Each directory has `model.onnx`, and `input_N.pb` and `output_N.pb` in `test_data_set_N`. Tests whose values are
no tensors get the file `skipped` instead of data.
"""

import os
import sys

import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def tensor(value, info):
    if not info.type.HasField("tensor_type"):
        raise ValueError("no tensor")
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(value, info.name)


def main(target):
    for case in node.collect_testcases(None):
        folder = os.path.join(target, case.name)
        write(os.path.join(folder, "model.onnx"), case.model.SerializeToString())
        graph = case.model.graph
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = os.path.join(folder, f"test_data_set_{number}")
            for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
                for at, (value, info) in enumerate(zip(values, infos)):
                    try:
                        message = tensor(value, info).SerializeToString()
                    except Exception as error:
                        write(os.path.join(folder, "skipped"), str(error).encode())
                        continue
                    write(os.path.join(data, f"{kind}_{at}.pb"), message)


main(sys.argv[1])
