"""Whole models in torch. Each function of `MODELS` takes the arrays of a case by name and `compiled`, which
compiles a function or is `eager`, and returns a function that executes a step and returns the results by name.

A training step updates its arrays in place. In the compiled form, `torch.compile` gets the loss, through which
torch differentiates; the optimizer is torch's fused one in both forms.
"""

import torch
import torch.nn.functional as functional
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

EARLIER_STEPS = 99


def eager(function):
    """The function as it is."""
    return function


def train(arrays, loss, update):
    """A step of training of the arrays that `update` names: the loss, its gradients, the update."""
    weights = [arrays[name].requires_grad_() for name in update.names]

    def step():
        with torch.enable_grad():
            value = loss()
            gradients = torch.autograd.grad(value, weights)
        # Fused updates take gradients laid out like the weights; compiled convolutions return others.
        update([weight.detach() for weight in weights], [gradient.contiguous() for gradient in gradients])
        return {"loss": value.detach()}

    return step


class Sgd:
    """Gradient descent of these arrays."""

    def __init__(self, names, rate):
        self.names = names
        self.rate = rate

    def __call__(self, weights, gradients):
        torch._foreach_add_(weights, gradients, alpha=-self.rate)


class Momentum:
    """Gradient descent with momentum of the arrays that have another one with the suffix `_v`."""

    def __init__(self, arrays):
        self.names = [name for name in arrays if suffixed(name, "_v") in arrays]
        self.velocities = [arrays[suffixed(name, "_v")] for name in self.names]

    def __call__(self, weights, gradients):
        options = dict(weight_decay=0.0, momentum=0.9, lr=0.01, dampening=0.0, nesterov=False, maximize=False)
        sgd(weights, gradients, self.velocities, fused=True, **options)


class AdamW:
    """AdamW of the arrays that have others with the suffixes `_m` and `_v`."""

    def __init__(self, arrays):
        self.names = [name for name in arrays if suffixed(name, "_m") in arrays]
        self.means = [arrays[suffixed(name, "_m")] for name in self.names]
        self.squares = [arrays[suffixed(name, "_v")] for name in self.names]
        self.steps = [torch.tensor(float(EARLIER_STEPS), device=mean.device) for mean in self.means]

    def __call__(self, weights, gradients):
        options = dict(amsgrad=False, beta1=0.9, beta2=0.999, lr=0.001, weight_decay=0.01, eps=1e-8, maximize=False)
        adamw(weights, gradients, self.means, self.squares, [], self.steps, fused=True, **options)


def suffixed(name, suffix):
    """The name of an array of the same family with a suffix: `w_m.2` for `w.2`."""
    family, point, position = name.partition(".")
    return family + suffix + point + position


def lenet(arrays, compiled):
    a = arrays
    label = a["label"].long()

    @compiled
    def loss():
        x = functional.max_pool2d(functional.relu(functional.conv2d(a["x"], a["f1"], a["b1"], padding=2)), 2)
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, a["f2"], a["b2"])), 2).flatten(1)
        x = functional.relu(torch.addmm(a["b3"], x, a["w3"].flatten(0, 2)))
        x = functional.relu(torch.addmm(a["b4"], x, a["w4"]))
        return functional.cross_entropy(torch.addmm(a["b5"], x, a["w5"]), label)

    names = ["f1", "b1", "f2", "b2", "w3", "b3", "w4", "b4", "w5", "b5"]
    return train(arrays, loss, Sgd(names, 0.01))


def resnet8(arrays, compiled):
    a = arrays
    label = a["label"].long()

    def conv(x, name, stride, padding):
        x = functional.conv2d(x, a[name], stride=stride, padding=padding)
        mean, variance = a[f"{name}_mean"], a[f"{name}_variance"]
        return functional.batch_norm(x, mean, variance, a[f"{name}_gain"], a[f"{name}_shift"], training=True)

    @compiled
    def loss():
        x = functional.relu(conv(a["x"], "stem", 1, 1))
        for block in range(3):
            stride = 1 if block == 0 else 2
            residue = functional.relu(conv(x, f"first{block}", stride, 1))
            residue = conv(residue, f"second{block}", 1, 1)
            x = functional.relu(residue + (x if block == 0 else conv(x, f"shortcut{block}", stride, 0)))
        return functional.cross_entropy(torch.addmm(a["b"], x.mean((2, 3)), a["w"]), label)

    return train(arrays, loss, Momentum(arrays))


def layers(arrays):
    """The number of layers of a GPT."""
    return sum(name.startswith("wqkv.") for name in arrays)


def gpt_logits(a, ids, attend):
    """The logits of a GPT. `attend` maps the layer and queries, keys and values, each [.., heads, positions,
    features], to the attended values.
    """
    norm = lambda x, name: functional.layer_norm(x, x.shape[-1:], a[f"gain{name}"], a[f"shift{name}"])
    dense = lambda x, w, b: functional.linear(x, w.t(), b)
    x = ids
    for l in range(layers(a)):
        w, b = a[f"wqkv.{l}"], a[f"bqkv.{l}"]
        qkv = dense(norm(x, f"1.{l}"), w.flatten(1), b.flatten()).unflatten(-1, b.shape)
        attended = attend(l, *(part.transpose(-3, -2) for part in qkv.unbind(-3)))
        attended = attended.transpose(-3, -2).flatten(-2)
        x = x + dense(attended, a[f"wo.{l}"].flatten(0, 1), a[f"bo.{l}"])
        hidden = functional.gelu(dense(norm(x, f"2.{l}"), a[f"w1.{l}"], a[f"b1.{l}"]), approximate="tanh")
        x = x + dense(hidden, a[f"w2.{l}"], a[f"b2.{l}"])
    return norm(x, "3") @ a["head"]


def causal(_, q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def gpt_train(arrays, compiled):
    a = arrays
    ids, label = a["ids"].long(), a["label"].long().flatten()

    @compiled
    def loss():
        logits = gpt_logits(a, functional.embedding(ids, a["embed"]) + a["place"], causal)
        return functional.cross_entropy(logits.flatten(0, 1), label)

    return train(arrays, loss, AdamW(arrays))


def gpt_train_bf16(arrays, compiled):
    """A training step whose products are in bf16, with weights, norms and sums of layers in f32."""

    def in_bf16(loss):
        def mixed():
            with torch.autocast(arrays["embed"].device.type, torch.bfloat16):
                return loss()

        return compiled(mixed)

    return gpt_train(arrays, in_bf16)


def gpt_forward(arrays, compiled):
    ids = arrays["ids"].long()
    forward = compiled(lambda: gpt_logits(arrays, functional.embedding(ids, arrays["embed"]) + arrays["place"], causal))
    return lambda: {"logits": forward()}


def gpt_decode(arrays, compiled):
    """Reads the letter at the last position of the caches."""
    a = arrays
    letter, position = a["letter"].long(), a["keys.0"].shape[1] - 1

    def attend(l, q, k, v):
        keys, values = a[f"keys.{l}"], a[f"values.{l}"]
        keys[:, position] = k[:, 0]
        values[:, position] = v[:, 0]
        return functional.scaled_dot_product_attention(q[None], keys[None], values[None])[0]

    forward = compiled(lambda: gpt_logits(a, (a["embed"][letter] + a["place"][position])[None], attend)[0])
    return lambda: {"logits": forward()}


def lstm_train(arrays, compiled):
    # Torch joins the axes of gates and units, and adds two biases, of which one stays 0 here.
    is_joined = lambda name: name.split("_")[0] in ("wx", "wh", "bias")
    a = {name: array.flatten(0, 1) if is_joined(name) else array for name, array in arrays.items()}
    label = a["label"].long()
    lstm = torch.nn.LSTM(a["wx"].shape[-1], a["wh"].shape[-1])
    for own, name in [("weight_ih_l0", "wx"), ("weight_hh_l0", "wh"), ("bias_ih_l0", "bias")]:
        a[name] = torch.nn.Parameter(a[name])
        setattr(lstm, own, a[name])
    lstm.bias_hh_l0 = torch.nn.Parameter(torch.zeros_like(a["bias"]), requires_grad=False)

    @compiled
    def loss():
        return functional.cross_entropy(torch.addmm(a["b"], lstm(a["x"])[0][-1], a["w"]), label)

    return train(a, loss, AdamW(a))


def heat(arrays, compiled):
    u, padded = arrays["u"], arrays["u"].new_zeros([size + 2 for size in arrays["u"].shape])

    def step():
        padded[1:-1, 1:-1] = u
        change = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        u.mul_(1 - 4 * 0.2).add_(change, alpha=0.2)

    def step_compiled():
        p = functional.pad(u, (1, 1, 1, 1))
        u.add_(p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u, alpha=0.2)

    step = step if compiled is eager else compiled(step_compiled)
    return lambda: step() or {}


def adamw_step(arrays, compiled):
    update = AdamW(arrays)
    step = compiled(lambda: update([arrays["w"]], [arrays["g"]]))
    return lambda: step() or {}


def mlp_infer(arrays, compiled):
    a = arrays

    @compiled
    def forward():
        x = functional.relu(torch.addmm(a["b1"], a["x"], a["w1"]))
        x = functional.relu(torch.addmm(a["b2"], x, a["w2"]))
        return torch.addmm(a["b3"], x, a["w3"])

    return lambda: {"y": forward()}


def fft(arrays, compiled):
    x = torch.complex(arrays["re"], arrays["im"])
    transform = compiled(lambda: torch.fft.fft(x))

    def step():
        y = transform()
        return {"yr": y.real, "yi": y.imag}

    return step


MODELS = {
    "lenet_train": lenet,
    "resnet8_train": resnet8,
    "gpt_train": gpt_train,
    "gpt_train_bf16": gpt_train_bf16,
    "gpt_forward": gpt_forward,
    "gpt_decode": gpt_decode,
    "lstm_train": lstm_train,
    "heat": heat,
    "adam_w": adamw_step,
    "mlp_infer": mlp_infer,
    "fft": fft,
}
