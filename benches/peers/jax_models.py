"""Whole models in JAX. A model is a function of its state and its other arrays, both by name, that returns the
new state and the other results; and a function that says whether the array with a name belongs to the state.
"""

STEP = 100.0


def suffixed(name, suffix):
    """The name of an array of the same family with a suffix: `w_m.2` for `w.2`."""
    family, point, position = name.partition(".")
    return family + suffix + point + position


def models(jax):
    """The models by the names of their operations."""
    lax, nn, numpy = jax.lax, jax.nn, jax.numpy

    def cross_entropy(logits, label):
        rows = nn.log_softmax(logits)
        return -numpy.take_along_axis(rows, label.astype(int)[..., None], axis=-1).mean()

    def sgd(state, weights, gradients):
        return {name: weights[name] - 0.01 * gradients[name] for name in weights}

    def momentum(state, weights, gradients):
        new = {}
        for name, weight in weights.items():
            new[suffixed(name, "_v")] = velocity = 0.9 * state[suffixed(name, "_v")] + gradients[name]
            new[name] = weight - 0.01 * velocity
        return new

    def adam_w(state, weights, gradients):
        new = {}
        for name, weight in weights.items():
            m, v, gradient = suffixed(name, "_m"), suffixed(name, "_v"), gradients[name]
            new[m] = 0.9 * state[m] + 0.1 * gradient
            new[v] = 0.999 * state[v] + 0.001 * gradient * gradient
            mean, square = new[m] / (1 - 0.9**STEP), new[v] / (1 - 0.999**STEP)
            new[name] = (1 - 1e-5) * weight - 0.001 * mean / (numpy.sqrt(square) + 1e-8)
        return new

    def train(loss, is_weight, update):
        """A step of training. The loss returns further new state as well."""

        def step(state, fixed):
            weights = {name: array for name, array in state.items() if is_weight(name, state)}
            others = {name: array for name, array in state.items() if name not in weights}
            differentiated = jax.value_and_grad(lambda weights: loss({**weights, **others, **fixed}), has_aux=True)
            (value, new), gradients = differentiated(weights)
            return {**new, **update(state, weights, gradients)}, {"loss": value}

        return step

    def has(suffix):
        return lambda name, state: suffixed(name, suffix) in state

    def conv(x, w, stride, padding):
        padding = [(padding, padding)] * 2
        return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NCHW", "OIHW", "NCHW"))

    def max_pool(x):
        return lax.reduce_window(x, -numpy.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def lenet(a):
        x = max_pool(nn.relu(conv(a["x"], a["f1"], 1, 2) + a["b1"][:, None, None]))
        x = max_pool(nn.relu(conv(x, a["f2"], 1, 0) + a["b2"][:, None, None])).reshape(len(x), -1)
        x = nn.relu(x @ a["w3"].reshape(x.shape[1], -1) + a["b3"])
        x = nn.relu(x @ a["w4"] + a["b4"])
        return cross_entropy(x @ a["w5"] + a["b5"], a["label"]), {}

    def resnet8(a):
        new = {}

        def normalized(x, name, stride, padding):
            x = conv(x, a[name], stride, padding)
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
            count = x.size / x.shape[1]
            new[f"{name}_mean"] = 0.9 * a[f"{name}_mean"] + 0.1 * mean
            new[f"{name}_variance"] = 0.9 * a[f"{name}_variance"] + 0.1 * variance * count / (count - 1)
            by_channel = lambda array: array[:, None, None]
            scale = lax.rsqrt(variance + 1e-5) * a[f"{name}_gain"]
            return (x - by_channel(mean)) * by_channel(scale) + by_channel(a[f"{name}_shift"])

        x = nn.relu(normalized(a["x"], "stem", 1, 1))
        for block in range(3):
            stride = 1 if block == 0 else 2
            residue = nn.relu(normalized(x, f"first{block}", stride, 1))
            residue = normalized(residue, f"second{block}", 1, 1)
            x = nn.relu(residue + (x if block == 0 else normalized(x, f"shortcut{block}", stride, 0)))
        return cross_entropy(x.mean((2, 3)) @ a["w"] + a["b"], a["label"]), new

    def layer_norm(x, gain, shift):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * gain + shift

    def gpt_logits(a, x, attend, round=lambda x: x):
        """The logits. `round` converts what products read, and their results."""
        w = lambda name: round(a[name])
        for l in range(sum(name.startswith("wqkv.") for name in a)):
            n = round(layer_norm(x, a[f"gain1.{l}"], a[f"shift1.{l}"]))
            qkv = numpy.einsum("...ic,ckhe->k...hie", n, w(f"wqkv.{l}")) + w(f"bqkv.{l}")[:, *[None] * (x.ndim - 2), :, None]
            x = x + (numpy.einsum("...hie,hec->...ic", attend(l, *qkv), w(f"wo.{l}")) + w(f"bo.{l}"))
            n = round(layer_norm(x, a[f"gain2.{l}"], a[f"shift2.{l}"]))
            x = x + (nn.gelu(n @ w(f"w1.{l}") + w(f"b1.{l}")) @ w(f"w2.{l}") + w(f"b2.{l}"))
        return round(layer_norm(x, a["gain3"], a["shift3"])) @ w("head")

    def attention(q, k, v, mask):
        scores = numpy.einsum("...ie,...je->...ij", q, k, preferred_element_type=numpy.float32) / q.shape[-1] ** 0.5
        scores = scores if mask is None else numpy.where(mask, scores, -numpy.inf)
        return numpy.einsum("...ij,...je->...ie", nn.softmax(scores, axis=-1).astype(v.dtype), v)

    def causal(_, q, k, v):
        return attention(q, k, v, numpy.tril(numpy.ones((q.shape[-2], k.shape[-2]), dtype=bool)))

    def gpt_on_windows(a, **options):
        return gpt_logits(a, a["embed"][a["ids"].astype(int)] + a["place"], causal, **options)

    def gpt_train(a):
        return cross_entropy(gpt_on_windows(a), a["label"]), {}

    def gpt_train_bf16(a):
        logits = gpt_on_windows(a, round=lambda x: x.astype(numpy.bfloat16))
        return cross_entropy(logits.astype(numpy.float32), a["label"]), {}

    def gpt_decode(caches, a):
        position, new = caches["keys.0"].shape[1] - 1, {}

        def attend(l, q, k, v):
            for name, row in [(f"keys.{l}", k), (f"values.{l}", v)]:
                new[name] = lax.dynamic_update_slice_in_dim(caches[name], row, position, 1)
            return attention(q, new[f"keys.{l}"], new[f"values.{l}"], None)

        x = a["embed"][a["letter"].astype(int)] + a["place"][position]
        logits = gpt_logits(a, x[None], attend)[0]
        return new, {"logits": logits}

    def lstm(a):
        h = c = numpy.zeros((a["x"].shape[1], a["wh"].shape[-1]), a["x"].dtype)

        def cell(state, x):
            h, c = state
            gates = numpy.einsum("bi,gui->gbu", x, a["wx"]) + numpy.einsum("bv,guv->gbu", h, a["wh"])
            i, f, g, o = gates + a["bias"][:, None]
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * numpy.tanh(g)
            return (nn.sigmoid(o) * numpy.tanh(c), c), None

        (h, _), _ = lax.scan(cell, (h, c), a["x"])
        return cross_entropy(h @ a["w"] + a["b"], a["label"]), {}

    def heat(state, _):
        u = state["u"]
        p = numpy.pad(u, 1)
        return {"u": u + 0.2 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)}, {}

    def mlp_infer(_, a):
        x = nn.relu(a["x"] @ a["w1"] + a["b1"])
        return {}, {"y": nn.relu(x @ a["w2"] + a["b2"]) @ a["w3"] + a["b3"]}

    def fft(_, a):
        y = numpy.fft.fft(a["re"] + 1j * a["im"])
        return {}, {"yr": y.real, "yi": y.imag}

    images = lambda name: name not in ("x", "label")
    is_data = lambda name: name in ("x", "ids", "label")
    nothing = lambda name: False
    return {
        "lenet_train": (train(lenet, lambda name, state: True, sgd), images),
        "resnet8_train": (train(resnet8, has("_v"), momentum), images),
        "gpt_train": (train(gpt_train, has("_m"), adam_w), lambda name: not is_data(name)),
        "gpt_train_bf16": (train(gpt_train_bf16, has("_m"), adam_w), lambda name: not is_data(name)),
        "gpt_forward": (lambda state, a: ({}, {"logits": gpt_on_windows(a)}), nothing),
        "gpt_decode": (gpt_decode, lambda name: name.startswith(("keys.", "values."))),
        "lstm_train": (train(lstm, has("_m"), adam_w), lambda name: not is_data(name)),
        "heat": (heat, lambda name: True),
        "adam_w": (lambda state, a: (adam_w(state, {"w": state["w"]}, {"w": a["g"]}), {}), lambda name: name != "g"),
        "mlp_infer": (mlp_infer, nothing),
        "fft": (fft, nothing),
    }
