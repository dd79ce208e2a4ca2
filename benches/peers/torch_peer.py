"""Torch as two peers, eager and compiled, on CPU cores or on an NVIDIA GPU. Both have the same steps, except
where `torch.compile` makes faster code of another form. On a GPU, compiled steps are tuned and run as CUDA
graphs, and matmuls and convolutions of f32 do not use TF32.

Operations that can write into a given array do so. Of these, only `mlp_step` records operations for
differentiation. `torch_models` has the steps of whole models.
"""

import torch
import torch.nn.functional as functional
from torch.optim.adam import adam as adam_update

import torch_models

RATE = 0.01


class Step:
    """An operation with its inputs: `start` submits it once, `call` also waits until it is done, and `outputs`
    returns its results.
    """

    # What a GPU needs before a step, and to wait for it.
    begin = wait = staticmethod(lambda: None)

    def __init__(self, function, arrays):
        self.function = function
        self.arrays = arrays

    def call(self):
        self.start()
        self.wait()

    def start(self):
        self.begin()
        self.keep(self.function())

    def keep(self, result):
        if result is not None:
            self.arrays = [result]

    def outputs(self, _names):
        return [host(array) for array in self.arrays]


class ModelStep(Step):
    """A step of a model: `outputs` returns the arrays with these names."""

    def keep(self, result):
        self.arrays.update(result)

    def outputs(self, names):
        return [host(self.arrays[name]) for name in names]


def host(array):
    """The array in memory of the host, as f32."""
    return array.detach().float().cpu().numpy()


def into(shape, step, like):
    """A step that writes its result into one array of this shape, of the type and on the device of another."""
    out = torch.empty(shape, dtype=like.dtype, device=like.device)
    return lambda: step(out), [out]


def matmul(a, b):
    return into((a.shape[0], b.shape[1]), lambda out: void(torch.mm(a, b, out=out)), a)


def matmul_nt(a, b):
    return into((a.shape[0], b.shape[0]), lambda out: void(torch.mm(a, b.t(), out=out)), a)


def bmm(a, b):
    return into((a.shape[0], a.shape[1], b.shape[2]), lambda out: void(torch.bmm(a, b, out=out)), a)


def matvec(a, x):
    return into((a.shape[0],), lambda out: void(torch.mv(a, x, out=out)), a)


def dense_relu(x, w, bias):
    return into((x.shape[0], w.shape[1]), lambda out: void(torch.addmm(bias, x, w, out=out).relu_()), x)


def axpy_relu(x):
    return into(x.shape, lambda out: void(torch.mul(x, 1.5, out=out).add_(0.5).relu_().mul_(2.0)), x)


def gelu(x):
    return into(x.shape, lambda out: void(torch._C._nn.gelu(x, approximate="tanh", out=out)), x)


def gelu_compiled(x):
    return into(x.shape, lambda out: void(out.copy_(functional.gelu(x, approximate="tanh"))), x)


def sum_all(x):
    return into((), lambda out: void(torch.sum(x, 0, out=out)), x)


def row_sum(x):
    return into((x.shape[0],), lambda out: void(torch.sum(x, 1, out=out)), x)


def col_sum(x):
    return into((x.shape[1],), lambda out: void(torch.sum(x, 0, out=out)), x)


def transpose(x):
    return into((x.shape[1], x.shape[0]), lambda out: void(out.copy_(x.t())), x)


def softmax(x):
    return into(x.shape, lambda out: void(torch.softmax(x, 1, out=out)), x)


def softmax_compiled(x):
    return into(x.shape, lambda out: void(out.copy_(torch.softmax(x, 1))), x)


def layer_norm(x, scale, shift):
    return lambda: functional.layer_norm(x, (x.shape[1],), scale, shift), []


def layer_norm_compiled(x, scale, shift):
    value = lambda: functional.layer_norm(x, (x.shape[1],), scale, shift)
    return into(x.shape, lambda out: void(out.copy_(value())), x)


def conv3x3(x, w):
    return lambda: functional.conv2d(x, w, padding=1), []


def conv_gradient(x, w, g, mask):
    step = x.shape[2] // g.shape[2]
    gradient = torch.ops.aten.convolution_backward
    call = lambda: gradient(g, x, w, None, [step] * 2, [1, 1], [1, 1], False, [0, 0], 1, mask)
    return lambda: call()[mask.index(True)], []


def conv_input_gradient(x, w, g):
    return conv_gradient(x, w, g, [True, False, False])


def conv_filter_gradient(x, w, g):
    return conv_gradient(x, w, g, [False, True, False])


def attention(q, k, v):
    q, k, v = q[None], k[None], v[None]
    return lambda: functional.scaled_dot_product_attention(q, k, v)[0], []


def causal_attention(q, k, v):
    q, k, v = q[None], k[None], v[None]
    return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0], []


def mlp_loss(x, t, w1, b1, w2, b2):
    hidden = torch.relu(torch.addmm(b1, x, w1))
    return functional.mse_loss(torch.addmm(b2, hidden, w2), t)


def mlp_step(x, t, *weights):
    loss = torch.empty((), device=x.device)
    weights = [weight.requires_grad_() for weight in weights]

    def step():
        with torch.enable_grad():
            value = mlp_loss(x, t, *weights)
            gradients = torch.autograd.grad(value, weights)
        torch._foreach_add_(weights, gradients, alpha=-RATE)
        loss.copy_(value)

    return step, [*weights, loss]


def mlp_step_compiled(x, t, *weights):
    loss = torch.empty((), device=x.device)
    differentiated = torch.func.grad_and_value(
        lambda weights: mlp_loss(x, t, *weights),
    )

    def step():
        gradients, value = differentiated(weights)
        for weight, gradient in zip(weights, gradients):
            weight.add_(gradient, alpha=-RATE)
        loss.copy_(value)

    return step, [*weights, loss]


def adam(p, m, v, g):
    state = dict(grads=[g], exp_avgs=[m], exp_avg_sqs=[v], max_exp_avg_sqs=[], state_steps=[torch.zeros((), device=p.device)])
    rates = dict(amsgrad=False, beta1=0.9, beta2=0.999, lr=0.001, weight_decay=0.0, eps=1e-8, maximize=False)
    return lambda: adam_update([p], **state, **rates, fused=True), [p, m, v]


def adam_compiled(p, m, v, g):
    def step():
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().mul_(31.622777).add_(1e-8), value=-0.01)

    return step, [p, m, v]


def void(_):
    """Drops the result of `step`, which has written it into an array."""


OPERATIONS = {
    "matmul": matmul,
    "matmul_nt": matmul_nt,
    "bmm": bmm,
    "matvec": matvec,
    "dense_relu": dense_relu,
    "axpy_relu": axpy_relu,
    "gelu": gelu,
    "sum": sum_all,
    "row_sum": row_sum,
    "col_sum": col_sum,
    "transpose": transpose,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "conv3x3": conv3x3,
    "conv_input_gradient": conv_input_gradient,
    "conv_filter_gradient": conv_filter_gradient,
    "attention": attention,
    "causal_attention": causal_attention,
    "mlp_step": mlp_step,
    "adam": adam,
}

# Steps written in a form from which `torch.compile` makes faster code.
COMPILED = {
    "gelu": gelu_compiled,
    "softmax": softmax_compiled,
    "layer_norm": layer_norm_compiled,
    "mlp_step": mlp_step_compiled,
    "adam": adam_compiled,
}


class Torch:
    """Torch as a peer."""

    COLD_CALLS = 1
    DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

    def __init__(self, compiled, device):
        self.compiled = compiled
        self.device = device

    def version(self):
        return torch.__version__

    def has(self, operation):
        return operation in OPERATIONS or operation in torch_models.MODELS

    def array(self, values, dtype):
        # Clones are aligned like all arrays of torch, and updating a clone does not change the inputs of
        # other measurements.
        return torch.from_numpy(values).to(self.device, self.DTYPES[dtype], copy=True)

    def step(self, operation, inputs, dtype):
        named = {name: self.array(values, dtype) for name, values in inputs.items()}
        is_eager = self.compiled is torch_models.eager
        if not is_eager:
            torch._dynamo.reset()
            # The arrays keep their addresses from step to step, so that CUDA graphs may update them.
            for array in named.values():
                torch._dynamo.mark_static_address(array)
        if operation in torch_models.MODELS:
            return ModelStep(torch_models.MODELS[operation](named, self.compiled), named)
        operations = OPERATIONS if is_eager else {**OPERATIONS, **COMPILED}
        function, outputs = operations[operation](*named.values())
        if not is_eager:
            for array in outputs:
                torch._dynamo.mark_static_address(array)
        return Step(self.compiled(function), outputs)


def open_peer(threads, device, compiles):
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    compiled = torch_models.eager
    if device != "cpu":
        Step.wait = staticmethod(torch.cuda.synchronize)
        if compiles:
            # A CUDA graph reuses the memory of its results from then on.
            Step.begin = staticmethod(torch.compiler.cudagraph_mark_step_begin)
    if compiles:
        from torch._inductor import config

        # The time to compile is measured, so no compiled graph may come from an earlier run: the folder of
        # this run's caches is empty at its start.
        config.fx_graph_cache = False
        mode = None if device == "cpu" else "max-autotune"
        compiled = lambda function: torch.compile(function, mode=mode)
    # The compiler, and the libraries and the context of a GPU, are loaded before the first case.
    ones = torch.ones(64, 64, device=device)
    Step(compiled(lambda: (ones @ ones).sin() + 1), []).call()
    return Torch(compiled, device)
