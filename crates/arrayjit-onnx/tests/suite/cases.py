"""Tests of one operator with the outputs of onnxruntime.

Each is a folder like those of `generate.py`: a model of one node, inputs, and the outputs that onnxruntime computes
without its optimizer.
"""

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

RANDOM = np.random.default_rng(0)


def floats(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def integers(low, high, *shape, dtype=np.int32):
    return RANDOM.integers(low, high, shape, dtype=dtype)


def info(name, array):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def model(name, operator, inputs, wanted, constants, domain, attributes, version=1):
    """A model of one node, and the values of its inputs."""
    names = ["" if array is None else f"x{at}" for at, array in enumerate(inputs)]
    results = [f"y{at}" if is_wanted else "" for at, is_wanted in enumerate(wanted)]
    node = helper.make_node(operator, names, results, name="node", domain=domain, **attributes)
    given = [(at, array) for at, array in enumerate(inputs) if array is not None]
    graph = helper.make_graph(
        [node],
        name,
        [info(f"x{at}", array) for at, array in given if at not in constants],
        [helper.make_empty_tensor_value_info(result) for result in results if result],
        [numpy_helper.from_array(array, f"x{at}") for at, array in given if at in constants],
    )
    opsets = [helper.make_opsetid("", 21)] + ([helper.make_opsetid(domain, version)] if domain else [])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(deterministic=True)
    return made, {f"x{at}": array for at, array in given if at not in constants}


def results(made, feeds):
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made, options, ["CPUExecutionProvider"]).run(None, feeds)


def case(
    name,
    operator,
    inputs,
    outputs=1,
    constants=(),
    domain="com.microsoft",
    version=1,
    same_as=None,
    expected=None,
    **attributes,
):
    """A test; `inputs` may have None, `outputs` is a number or a list of truth values, `constants` are positions.

    Where onnxruntime has no code for processors, it runs the inputs `same_as`, or the result is `expected`."""
    wanted = [True] * outputs if isinstance(outputs, int) else outputs
    made, feeds = model(name, operator, inputs, wanted, constants, domain, attributes, version)
    if expected is not None:
        arrays = [expected]
    elif same_as is not None:
        arrays = results(*model(name, operator, same_as, wanted, constants, domain, attributes))
    else:
        arrays = results(made, feeds)
    prefix = "ml" if domain == "ai.onnx.ml" else "microsoft"
    yield f"{prefix}_{name}/model.onnx", made
    for kind, values in (("input", feeds.values()), ("output", arrays)):
        for at, array in enumerate(values):
            data = numpy_helper.from_array(np.asarray(array), f"{kind}_{at}").SerializeToString(deterministic=True)
            yield f"{prefix}_{name}/test_data_set_0/{kind}_{at}.pb", data


def tensor(name, array):
    """The value of an attribute."""
    return numpy_helper.from_array(array, name)
