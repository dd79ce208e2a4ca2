"""Writes what torch computes for each module and for training whole models, to be compared with this crate.

Run it with torch and safetensors, on any machine: `python goldens.py`. It writes five files next to itself,
which the tests of tests/it/torch_*.rs read:

* modules.safetensors: for each module, its outputs, its buffers after the run, and the gradient of
  sum(output * coefficients) by each input and parameter.
* models.safetensors: for each model, the losses of 100 steps of gradient descent, and each gradient of the
  first step.
* optimizers.safetensors: for each optimizer, the parameters of a layer after each of 20 steps.
* losses.safetensors: for each loss, its value and its gradient by each input of floats.
* checkpoint.safetensors and checkpoint.pt: the state of a model as a user of torch saves it.

Weights and data are not stored: `pattern` makes the same numbers from names in both languages. The learning
rates are such that the losses of torch in f32 and in f64 agree to 1e-5; with the double rates, rounding alone
moves some of them by more than 1e-3 within 100 steps.
"""

import math
import os
from unittest import mock

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

STEPS = 100
BATCHES = 4


def hashes(name, count):
    """`count` integers in 0..2**32 that follow from a name: FNV-1a of the name, then a mix of each position."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = (torch.arange(count, dtype=torch.int64) + seed) % 2**32
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32
    x = (x ^ (x >> 15)) * 0x046CA68B % 2**32
    return x ^ (x >> 16)


def pattern(name, shape, scale=1.0, offset=0.0):
    """Numbers of f32 in offset ± scale that follow from a name."""
    unit = (hashes(name, math.prod(shape)) >> 8).double() / 2**23 - 1
    return (unit * scale + offset).float().reshape(shape)


def labels(name, shape, classes):
    """Integers below `classes` that follow from a name."""
    return ((hashes(name, math.prod(shape)) >> 8) % classes).reshape(shape)


def fill(path, module):
    """Gives all parameters and buffers of a module values that follow from their names and shapes."""
    for name, tensor in module.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        if tensor.dim() > 1:
            scale, offset = 1 / math.sqrt(tensor[0].numel()), 0.0
        else:
            scale, offset = 0.5, 1.0 if name.endswith(("weight", "var")) else 0.0
        tensor.copy_(pattern(f"{path}/{name}", tensor.shape, scale, offset))
    return module


class Attention(nn.Module):
    """Attention of vectors to each other, or of queries to others."""

    def __init__(self, size, heads, causal=False, dropout=0.0):
        super().__init__()
        self.inner = nn.MultiheadAttention(size, heads, dropout=dropout, batch_first=True)
        self.causal = causal

    def forward(self, x, others=None):
        others = x if others is None else others
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        return self.inner(x, others, others, attn_mask=mask, need_weights=False)[0]


class Recurrent(nn.Module):
    """A recurrent network that starts from given states."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, h, c=None):
        y, state = self.inner(x, h if c is None else (h, c))
        return (y, state) if c is None else (y, *state)


def module_case(goldens, path, module, *shapes):
    """Runs a module on inputs of these shapes, and stores what it computes."""
    with torch.no_grad():
        fill(path, module)
    inputs = [pattern(f"{path}/x{at}", shape).requires_grad_() for at, shape in enumerate(shapes)]
    outputs = module(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum((y * pattern(f"{path}/c{at}", y.shape)).sum() for at, y in enumerate(outputs))
    loss.backward()
    values = {f"y{at}": y for at, y in enumerate(outputs)}
    values |= {f"x{at}.grad": x.grad for at, x in enumerate(inputs)}
    values |= {f"{name}.grad": parameter.grad for name, parameter in module.named_parameters()}
    values |= dict(module.named_buffers()) if module.training else {}
    goldens |= {f"{path}/{name}": value.detach().contiguous().clone() for name, value in values.items()}


class Lookup(nn.Module):
    """An embedding of positions that follow from a name, which has no input to differentiate."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Embedding(7, 3)

    def forward(self):
        return self.inner(labels("embedding/ids", (2, 5), 7))


def write_modules():
    goldens = {}
    module_case(goldens, "linear", nn.Linear(8, 5), (2, 3, 8))
    module_case(goldens, "linear_without_bias", nn.Linear(8, 5, bias=False), (3, 8))
    module_case(goldens, "conv2d", nn.Conv2d(3, 4, 3), (2, 3, 6, 5))
    grouped = nn.Conv2d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False)
    module_case(goldens, "conv2d_grouped", grouped, (2, 4, 7, 6))
    module_case(goldens, "conv_transpose2d", nn.ConvTranspose2d(3, 4, 3), (2, 3, 4, 3))
    grouped = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    module_case(goldens, "conv_transpose2d_grouped", grouped, (2, 4, 3, 4))
    module_case(goldens, "conv1d", nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 7))
    module_case(goldens, "conv3d", nn.Conv3d(2, 4, 2, dilation=2, groups=2), (2, 2, 4, 3, 5))
    module_case(goldens, "conv_transpose1d", nn.ConvTranspose1d(3, 4, 3, stride=2), (2, 3, 4))
    module_case(goldens, "conv_transpose3d", nn.ConvTranspose3d(2, 3, 2, padding=1), (2, 2, 3, 4, 3))
    module_case(goldens, "batch_norm1d_vectors", nn.BatchNorm1d(3), (5, 3))
    module_case(goldens, "batch_norm1d", nn.BatchNorm1d(3), (2, 3, 4))
    module_case(goldens, "batch_norm3d", nn.BatchNorm3d(2), (2, 2, 2, 3, 2))
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    module_case(goldens, "encoder_layer", layer, (2, 5, 8))
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    module_case(goldens, "encoder_layer_norm_first", layer, (2, 5, 8))
    module_case(goldens, "batch_norm_train", nn.BatchNorm2d(3), (4, 3, 3, 2))
    module_case(goldens, "batch_norm_eval", nn.BatchNorm2d(3).eval(), (4, 3, 3, 2))
    module_case(goldens, "layer_norm", nn.LayerNorm(6), (2, 3, 6))
    module_case(goldens, "rms_norm", nn.RMSNorm(6, eps=1e-6), (2, 3, 6))
    for name, dtype, scale in [("f32", torch.float32, 2**-10), ("f64", torch.float64, 2**-25),
                               ("bf16", torch.bfloat16, 2**-10)]:
        # The squares of the elements are near the eps that torch chooses.
        x = (pattern("rms_norm_default/x", (2, 3, 6)) * scale).to(dtype)
        goldens[f"rms_norm_default/{name}"] = F.rms_norm(x, (6,))
    module_case(goldens, "group_norm", nn.GroupNorm(2, 6), (2, 6, 3, 2))
    module_case(goldens, "embedding", Lookup())
    module_case(goldens, "attention", Attention(8, 2), (2, 5, 8))
    module_case(goldens, "attention_causal", Attention(8, 2, causal=True), (2, 5, 8))
    module_case(goldens, "attention_cross", Attention(8, 2), (2, 3, 8), (2, 5, 8))
    lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True)
    module_case(goldens, "lstm", Recurrent(lstm), (2, 3, 3), (2, 2, 4), (2, 2, 4))
    module_case(goldens, "gru", Recurrent(nn.GRU(3, 4, num_layers=2)), (3, 2, 3), (2, 2, 4))
    rnn = nn.RNN(3, 4, num_layers=2, bidirectional=True)
    module_case(goldens, "rnn", Recurrent(rnn), (3, 2, 3), (4, 2, 4))
    lstm = nn.LSTM(3, 2, num_layers=2, batch_first=True, bidirectional=True)
    module_case(goldens, "lstm_bidirectional", Recurrent(lstm), (2, 3, 3), (4, 2, 2), (4, 2, 2))
    lstm = nn.LSTM(3, 2, bidirectional=True, bias=False)
    module_case(goldens, "lstm_bidirectional_without_bias", Recurrent(lstm), (3, 2, 3), (2, 2, 2), (2, 2, 2))
    gru = nn.GRU(3, 2, num_layers=3, bidirectional=True)
    module_case(goldens, "gru_bidirectional", Recurrent(gru), (3, 2, 3), (6, 2, 2))
    # In evaluation, dropout drops nothing.
    lstm = nn.LSTM(3, 2, num_layers=2, dropout=0.5).eval()
    module_case(goldens, "lstm_dropout", Recurrent(lstm), (3, 2, 3), (2, 2, 2), (2, 2, 2))
    module_case(goldens, "attention_dropout", Attention(8, 2, dropout=0.5).eval(), (2, 5, 8))
    return goldens


class Mlp(nn.Sequential):
    shape, classes, rate = (32, 8), 4, 0.5

    def __init__(self):
        super().__init__(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


class LeNet(nn.Module):
    shape, classes, rate = (8, 1, 28, 28), 10, 0.2

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2).flatten(1)
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())


class Block(nn.Module):
    """Two convolutions next to a shortcut, as in ResNet."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1:
            shortcut = nn.Conv2d(channels, out, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    shape, classes, rate = (8, 3, 8, 8), 10, 0.02

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(Block(8, 8, 1))
        self.layer2 = nn.Sequential(Block(8, 16, 2))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(self.bn1(self.conv1(x)).relu()))
        return self.fc(x.mean((2, 3)))


class GptBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(size)
        self.attn = nn.MultiheadAttention(size, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """Tokens in, logits of the next token out."""

    shape, classes, rate, has_tokens = (4, 16), 24, 0.05, True

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(24, 32)
        self.wpe = nn.Embedding(16, 32)
        self.h = nn.ModuleList([GptBlock(32, 4) for _ in range(2)])
        self.ln_f = nn.LayerNorm(32)
        self.lm_head = nn.Linear(32, 24, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class SequenceModel(nn.Module):
    shape, classes, rate = (8, 6, 6), 5, 0.5

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 16, num_layers=2, batch_first=True)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


def train(goldens, path, model):
    """Trains a model on batches that follow from its name, and stores losses and first gradients."""
    with torch.no_grad():
        fill(path, model)
    is_tokens = getattr(model, "has_tokens", False)
    shape = (BATCHES, *model.shape)
    inputs = labels(f"{path}/x", shape, model.classes) if is_tokens else pattern(f"{path}/x", shape)
    targets = labels(f"{path}/target", shape if is_tokens else shape[:2], model.classes)
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=model.rate)
    for step in range(STEPS):
        x, target = inputs[step % BATCHES], targets[step % BATCHES]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), target.flatten())
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            goldens |= {f"{path}/{name}.grad": p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
    goldens[f"{path}/losses"] = torch.tensor(losses)
    print(f"{path}: loss {losses[0]:.4f} to {losses[-1]:.4f}")


def write_models():
    goldens = {}
    for path, model in [("mlp", Mlp()), ("lenet", LeNet()), ("resnet", ResNet()), ("gpt", Gpt()),
                        ("lstm", SequenceModel())]:
        train(goldens, path, model)
    return goldens


def optimizer_case(goldens, path, make, clip_norm=None, schedule=None, micro_batches=1):
    """Trains one layer by an optimizer, and stores the parameters after each step."""
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        fill("optimizers", layer)
    x, target = pattern("optimizers/x", (8, 4)), pattern("optimizers/target", (8, 3))
    optimizer = make(layer.parameters())
    scheduler = schedule and schedule(optimizer)
    steps = []
    for _ in range(20):
        optimizer.zero_grad()
        for x_part, target_part in zip(x.chunk(micro_batches), target.chunk(micro_batches)):
            (F.mse_loss(layer(x_part).tanh(), target_part) / micro_batches).backward()
        if clip_norm:
            nn.utils.clip_grad_norm_(layer.parameters(), clip_norm)
        optimizer.step()
        if scheduler:
            scheduler.step()
        steps.append(torch.cat([p.detach().flatten() for p in layer.parameters()]))
    goldens[path] = torch.stack(steps)


class WideMuon:
    """Muon for the weight of a layer, in f32 where torch iterates in bf16, and AdamW for the bias."""

    def __init__(self, params, **options):
        weight, bias = params
        self.optimizers = [torch.optim.Muon([weight], **options), torch.optim.AdamW([bias], lr=0.05)]

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        with mock.patch.object(torch, "bfloat16", torch.float32):
            for optimizer in self.optimizers:
                optimizer.step()


def write_optimizers():
    goldens = {}

    def case(name, kind, **others):
        options = {key: others.pop(key) for key in list(others) if key not in ("clip_norm", "schedule", "micro_batches")}
        optimizer_case(goldens, f"optimizers/{name}", lambda params: kind(params, **options), **others)

    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    case("sgd", sgd, lr=0.5)
    case("sgd_decay", sgd, lr=0.5, weight_decay=0.1)
    case("sgd_momentum", sgd, lr=0.2, momentum=0.9)
    case("sgd_momentum_decay", sgd, lr=0.2, momentum=0.9, weight_decay=0.1)
    case("sgd_nesterov", sgd, lr=0.2, momentum=0.9, nesterov=True)
    case("sgd_nesterov_decay", sgd, lr=0.2, momentum=0.9, nesterov=True, weight_decay=0.1)
    case("sgd_clipped", sgd, lr=0.5, momentum=0.5, clip_norm=0.1)
    case("adam", adam, lr=0.05)
    case("adam_options", adam, lr=0.05, betas=(0.7, 0.9), eps=1e-3)
    case("adamw", adamw, lr=0.05)
    case("adamw_options", adamw, lr=0.05, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.3)
    case("adamw_cosine", adamw, lr=0.05, clip_norm=0.1,
         schedule=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20, 0.005))
    case("adamw_accumulated", adamw, lr=0.05, clip_norm=0.1, micro_batches=4,
         schedule=lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20, 0.005))
    rmsprop, adagrad, adafactor = torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adafactor
    case("rmsprop", rmsprop, lr=0.02)
    case("rmsprop_options", rmsprop, lr=0.02, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.5, centered=True)
    case("adagrad", adagrad, lr=0.1)
    case("adagrad_options", adagrad, lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3)
    case("adafactor", adafactor, lr=0.05)
    case("adafactor_options", adafactor, lr=0.2, beta2_decay=-0.5, eps=(1e-3, 0.3), d=1.1, weight_decay=0.1)
    case("muon", WideMuon, lr=0.05)
    case("muon_options", WideMuon, lr=0.1, weight_decay=0.3, momentum=0.8, nesterov=False, ns_steps=3, eps=1e-3,
         adjust_lr_fn="match_rms_adamw")
    without_decay = lambda params: torch.optim.AdamW(
        [{"params": [next(params)]}, {"params": list(params), "lr": 0.1, "weight_decay": 0.0}],
        lr=0.05, weight_decay=0.3)
    optimizer_case(goldens, "optimizers/adamw_groups", without_decay)
    return goldens


def loss_case(goldens, path, loss, inputs):
    """Stores a loss of inputs, and its gradients by those of floats."""
    value = loss(*(x.requires_grad_() if x.is_floating_point() else x for x in inputs))
    goldens[f"{path}/y"] = value
    value.backward()
    for at, x in enumerate(inputs):
        if x.grad is not None:
            goldens[f"{path}/x{at}.grad"] = x.grad
    goldens |= {name: value.detach().clone() for name, value in goldens.items() if name.startswith(path)}


def write_losses():
    goldens = {}

    def case(name, loss, make_target, shape=(4, 6), scale=2.0, offset=0.0):
        x, target = pattern(f"{name}/x0", shape, scale, offset), make_target(f"{name}/target")
        loss_case(goldens, name, lambda x: loss(x, target), [x])

    floats = lambda name: pattern(name, (4, 6), 2.0)
    parts = lambda name: pattern(name, (4, 6), 0.5, 0.5)
    signs = lambda name: labels(name, (4, 6), 2) * 2.0 - 1
    case("huber_loss", lambda x, z: F.huber_loss(x, z, delta=0.7), floats)
    case("smooth_l1_loss", lambda x, z: F.smooth_l1_loss(x, z, beta=0.7), floats)
    case("kl_div", lambda x, z: F.kl_div(x, z, reduction="batchmean"), parts)
    case("binary_cross_entropy", F.binary_cross_entropy, parts, scale=0.49, offset=0.5)
    case("hinge_embedding_loss", lambda x, z: F.hinge_embedding_loss(x, z, margin=0.6), signs)
    case("poisson_nll_loss", F.poisson_nll_loss, lambda name: labels(name, (4, 6), 5).float())
    a, b = pattern("cosine_embedding_loss/x0", (5, 6)), pattern("cosine_embedding_loss/x1", (5, 6))
    target = labels("cosine_embedding_loss/target", (5,), 2) * 2.0 - 1
    loss_case(goldens, "cosine_embedding_loss",
              lambda a, b: F.cosine_embedding_loss(a, b, target, margin=0.1), [a, b])
    classes = lambda name: labels(name, (4,), 6)
    weight = pattern("weight", (6,), 0.5, 1.0)
    case("nll_loss", lambda x, z: F.nll_loss(x, z, weight=weight), classes)
    case("cross_entropy", F.cross_entropy, classes)
    case("cross_entropy_smoothed", lambda x, z: F.cross_entropy(x, z, label_smoothing=0.2), classes)
    case("cross_entropy_weighted", lambda x, z: F.cross_entropy(x, z, weight=weight), classes)
    case("cross_entropy_all", lambda x, z: F.cross_entropy(x, z, weight=weight, label_smoothing=0.2, ignore_index=2),
         lambda name: labels(name, (4, 3), 6), shape=(4, 6, 3))
    return goldens


class Checkpoint(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, bias=False)
        self.bn = nn.BatchNorm2d(3)
        self.attn = nn.MultiheadAttention(6, 2, batch_first=True)
        self.lstm = nn.LSTM(6, 3, batch_first=True)
        self.gru = nn.GRU(3, 2, batch_first=True)
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        # [2, 2, 4, 4] to [2, 3, 2, 2] to [2, 2, 6]
        x = self.bn(self.conv(x)).reshape(2, 2, 6)
        x = self.attn(x, x, x, need_weights=False)[0]
        return self.fc(self.gru(self.lstm(x)[0])[0])


def write_checkpoint():
    """The state of a model with torch's own initial values, after two batches, and its evaluation."""
    torch.manual_seed(0)
    model = Checkpoint()
    for _ in range(2):
        model(torch.randn(2, 2, 4, 4))
    model.eval()
    x = pattern("checkpoint/x", (2, 2, 4, 4))
    with torch.no_grad():
        return dict(model.state_dict()), {"checkpoint/y": model(x)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = os.path.dirname(os.path.abspath(__file__))
    state, evaluated = write_checkpoint()
    for name, values in [("modules", write_modules() | evaluated), ("models", write_models()),
                         ("optimizers", write_optimizers()), ("losses", write_losses()), ("checkpoint", state)]:
        path = os.path.join(folder, f"{name}.safetensors")
        save_file({name: value.contiguous() for name, value in values.items()}, path)
        print(f"{path}: {os.path.getsize(path)} bytes")
    torch.save(state, os.path.join(folder, "checkpoint.pt"))
