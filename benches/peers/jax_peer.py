"""JAX as a peer. Operations are jitted, and a call waits for the result. Inputs are on the device before the
first call. A step that updates arrays donates them.
"""

import os

import numpy

import jax_models

RATE = 0.01


class Step:
    """A jitted operation with its inputs: `start` submits one call, `call` also waits until it is done."""

    def __init__(self, jitted, fixed, state):
        self.jitted = jitted
        self.fixed = fixed
        self.state = state
        self.result = None

    def start(self):
        self.result = self.jitted(self.state, *self.fixed)
        if self.state:
            # The donated arrays are gone, so the next step starts from the results of this one.
            self.state = self.result[: len(self.state)]

    def call(self):
        self.start()
        for array in self.result:
            array.block_until_ready()

    def outputs(self, _names):
        return [numpy.asarray(array) for array in self.result]


class ModelStep(Step):
    """A jitted step of a model with its arrays by name. Its state, which it updates, is donated."""

    def call(self):
        self.start()
        self.jax.block_until_ready(self.result)

    def start(self):
        self.result = self.jitted(self.state, self.fixed)
        self.state = self.result[0]

    def outputs(self, names):
        state, results = self.result
        return [numpy.asarray({**state, **results}[name]) for name in names]


def open_peer(threads):
    """Loads JAX while the process may use only `threads` cores, so that JAX's thread pools have that many
    threads. Lifts the limit afterwards.
    """
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_cores)[:threads])
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.jit(lambda x: x + 1)(numpy.ones(8, numpy.float32)).block_until_ready()
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), all_cores)
    return Jax(jax)


class Jax:
    """JAX as a peer."""

    COLD_CALLS = 3

    def __init__(self, jax):
        self.jax = jax
        self.steps = operations(jax)
        self.models = jax_models.models(jax)

    def version(self):
        return self.jax.__version__

    def has(self, operation):
        return operation in self.steps or operation in self.models

    def step(self, operation, inputs, _dtype):
        # Each step has a function of its own, so that JAX compiles the operation for each step.
        self.jax.clear_caches()
        if operation in self.models:
            return self.model_step(operation, inputs)
        function, updated = self.steps[operation]
        jitted = self.jax.jit(lambda state, *fixed: function(*state, *fixed), donate_argnums=0 if updated else None)
        arrays = [self.jax.device_put(array.copy()).block_until_ready() for array in inputs.values()]
        state = tuple(arrays[i] for i in updated)
        fixed = [array for i, array in enumerate(arrays) if i not in updated]
        return Step(jitted, fixed, state)

    def model_step(self, operation, inputs):
        function, is_state = self.models[operation]
        jitted = self.jax.jit(lambda state, fixed: function(state, fixed), donate_argnums=0)
        put = lambda array: self.jax.device_put(array.copy()).block_until_ready()
        state = {name: put(array) for name, array in inputs.items() if is_state(name)}
        fixed = {name: put(array) for name, array in inputs.items() if not is_state(name)}
        step = ModelStep(jitted, fixed, state)
        step.jax = self.jax
        return step


def operations(jax):
    """The operations, each with the positions of the inputs that it updates. The updated arrays come first
    among the arguments and the results of an operation.
    """
    lax, numpy = jax.lax, jax.numpy

    def layer_norm(x, scale, shift):
        mean = x.mean(1, keepdims=True)
        variance = ((x - mean) ** 2).mean(1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift

    def conv3x3(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))

    def conv_padded(x, w, step):
        steps, margins = (step, step), ((1, 1), (1, 1))
        return lax.conv_general_dilated(x, w, steps, margins, dimension_numbers=("NCHW", "OIHW", "NCHW"))

    def conv_input_gradient(x, w, g):
        step = x.shape[2] // g.shape[2]
        return jax.vjp(lambda x: conv_padded(x, w, step), x)[1](g)[0]

    def conv_filter_gradient(x, w, g):
        step = x.shape[2] // g.shape[2]
        return jax.vjp(lambda w: conv_padded(x, w, step), w)[1](g)[0]

    def attention(q, k, v):
        scores = numpy.einsum("hid,hjd->hij", q, k) / q.shape[-1] ** 0.5
        return numpy.einsum("hij,hjd->hid", jax.nn.softmax(scores, axis=-1), v)

    def causal_attention(q, k, v):
        scores = numpy.einsum("hid,hjd->hij", q, k) / q.shape[-1] ** 0.5
        below = numpy.tril(numpy.ones(scores.shape[1:], dtype=bool))
        weights = jax.nn.softmax(numpy.where(below, scores, -numpy.inf), axis=-1)
        return numpy.einsum("hij,hjd->hid", weights, v)

    def mlp_step(w1, b1, w2, b2, x, t):
        def loss(weights):
            w1, b1, w2, b2 = weights
            hidden = jax.nn.relu(x @ w1 + b1)
            return numpy.mean((hidden @ w2 + b2 - t) ** 2)

        weights = (w1, b1, w2, b2)
        value, gradients = jax.value_and_grad(loss)(weights)
        return (*(weight - RATE * gradient for weight, gradient in zip(weights, gradients)), value)

    def adam(p, m, v, g):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return p - 0.01 * m / (numpy.sqrt(v) * 31.622777 + 1e-8), m, v

    one = lambda function: (lambda *inputs: (function(*inputs),), ())
    return {
        "matmul": one(lambda a, b: a @ b),
        "matmul_nt": one(lambda a, b: a @ b.T),
        "bmm": one(lambda a, b: a @ b),
        "matvec": one(lambda a, x: a @ x),
        "dense_relu": one(lambda x, w, bias: jax.nn.relu(x @ w + bias)),
        "axpy_relu": one(lambda x: jax.nn.relu(1.5 * x + 0.5) * 2),
        "gelu": one(lambda x: jax.nn.gelu(x, approximate=True)),
        "sum": one(lambda x: x.sum()),
        "row_sum": one(lambda x: x.sum(1)),
        "col_sum": one(lambda x: x.sum(0)),
        "transpose": one(lambda x: x.T.copy()),
        "softmax": one(lambda x: jax.nn.softmax(x, axis=1)),
        "layer_norm": one(layer_norm),
        "conv3x3": one(conv3x3),
        "conv_input_gradient": one(conv_input_gradient),
        "conv_filter_gradient": one(conv_filter_gradient),
        "attention": one(attention),
        "causal_attention": one(causal_attention),
        "mlp_step": (mlp_step, (2, 3, 4, 5)),
        "adam": (adam, (0, 1, 2)),
    }
