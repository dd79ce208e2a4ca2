"""Writes the files of torch that the tests read: `python torch_files.py`, with torch 2.15."""

import torch

TYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "fp8_e5m2": torch.float8_e5m2,
    "fp8_e4m3fn": torch.float8_e4m3fn,
}

model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
for at, parameter in enumerate(model.parameters()):
    parameter.data = torch.arange(parameter.numel(), dtype=torch.float32).reshape(parameter.shape) + at
torch.save(model.state_dict(), "model.pt")

table = torch.arange(12.0).reshape(3, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
model(torch.ones(2, 3)).sum().backward()
optimizer.step()
torch.save(
    {
        "types": {name: torch.arange(3).to(dtype) for name, dtype in TYPES.items()},
        "bool": torch.tensor([True, False]),
        "table": table,
        "transposed": table.t(),
        "rows": table[1:],
        "column": table[:, 2],
        "every_other": table[::2, 1::2],
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 4),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "list": [torch.zeros(1), {"x": torch.ones(1)}],
        "epoch": 3,
        "large": 1 << 40,
        "name": "arrayjit",
        "optimizer": optimizer.state_dict(),
    },
    "training.pt",
)
torch.save({"x": torch.ones(2)}, "legacy.pt", _use_new_zipfile_serialization=False)
torch.save({"x": torch.ones(2, dtype=torch.complex64)}, "complex.pt")
torch.save({"x": torch.zeros(1).expand(1000)}, "expanded.pt")
