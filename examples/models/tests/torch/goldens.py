"""Writes what torch computes for the models of the examples, to be compared with this crate.

Run it with torch and safetensors, on any machine: `python goldens.py`. It writes models.safetensors next to
itself, which tests/models/torch_examples.rs reads: for each model, the losses of 100 steps of gradient descent,
and each gradient of the first step. Weights and data follow from names, as in the goldens of arrayjit-tensor.
"""

import importlib.util
import os

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(FOLDER, "../../../../crates/arrayjit-tensor/tests/torch/goldens.py")
SPEC = importlib.util.spec_from_file_location("tensor_goldens", PATH)
tensor_goldens = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tensor_goldens)


class Mlp(nn.Sequential):
    shape, classes, rate = (32, 2), 2, 0.5

    def __init__(self):
        super().__init__(nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 2))

    def forward(self, x):
        return self[2](self[1](self[0](x).tanh()).tanh())


class LeNet(nn.Module):
    shape, classes, rate = (8, 8, 8), 10, 0.2

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.interpolate(x.unsqueeze(1), scale_factor=4, mode="bilinear")
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2).flatten(1)
        return self.fc3(self.fc2(self.fc1(x).relu()).relu())


class NormalizedConv(nn.Module):
    def __init__(self, inputs, outputs, size, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = NormalizedConv(inputs, outputs, 3, stride)
        self.second = NormalizedConv(outputs, outputs, 3, 1)
        self.shortcut = NormalizedConv(inputs, outputs, 1, stride) if stride != 1 else nn.Identity()

    def forward(self, x):
        return (self.second(self.first(x).relu()) + self.shortcut(x)).relu()


class ResNet(nn.Module):
    shape, classes, rate = (8, 3, 32, 32), 8, 0.002

    def __init__(self):
        super().__init__()
        self.stem = NormalizedConv(3, 8, 3, 1)
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2))
        self.head = nn.Linear(32, 8)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x).relu()).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).flatten(2))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(F.gelu(self.widen(self.norm2(x))))


class CharGpt(nn.Module):
    shape, classes, rate, has_tokens = (4, 16), 24, 0.05, True

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(24, 32)
        self.positions = nn.Parameter(torch.zeros(16, 32))
        self.blocks = nn.Sequential(GptBlock(32, 2), GptBlock(32, 2))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 24)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.letters(ids) + self.positions)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    goldens = {}
    for name, model in [("mlp", Mlp()), ("lenet", LeNet()), ("resnet", ResNet()), ("char_gpt", CharGpt())]:
        tensor_goldens.train(goldens, name, model)
    path = os.path.join(FOLDER, "models.safetensors")
    save_file({name: value.contiguous() for name, value in goldens.items()}, path)
    print(f"{path}: {os.path.getsize(path)} bytes")
