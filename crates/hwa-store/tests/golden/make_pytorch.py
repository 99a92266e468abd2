#!/usr/bin/env python3
"""Makes the golden files beside it: checkpoints by torch.save, and what is in them.

    pip install torch numpy
    python crates/hwa-store/tests/golden/make_pytorch.py

`pytorch.json` has, for each file that can be read, the weights by the names that are to be
expected: type, shape, and the bytes in row-major order, little-endian, in hexadecimal. The
hostile files would run `true` or compute a number, should anybody load them.
"""
import argparse
import collections
import datetime
import io
import json
import os
import pathlib
import subprocess
import zipfile

import numpy as np
import torch
import torch.nn as nn

HERE = pathlib.Path(__file__).parent
TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
}
expected = {"torch": torch.__version__.split("+")[0], "files": {}}


def network():
    """A convolution, a batch norm with statistics, a linear layer."""
    torch.manual_seed(1)
    net = nn.Sequential(
        collections.OrderedDict(
            conv=nn.Conv2d(2, 3, 3, bias=False),
            bn=nn.BatchNorm2d(3),
            flat=nn.Flatten(),
            head=nn.Linear(3 * 2 * 2, 2),
        )
    )
    net(torch.randn(5, 2, 4, 4))
    return net


def described(tensor):
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return {
        "type": TYPES[tensor.dtype],
        "shape": list(tensor.shape),
        "bytes": raw.numpy().tobytes().hex(),
    }


def save(name, content, weights, entry=None, protocol=2):
    torch.save(content, HERE / name, pickle_protocol=protocol)
    tensors = {key: described(tensor) for key, tensor in weights.items()}
    expected["files"][name] = {"entry": entry, "tensors": tensors}


def readable():
    net = network()
    weights = net.state_dict()
    save("plain.pt", weights, weights)
    save("protocol_4.pt", weights, weights, protocol=4)

    net = network().to(memory_format=torch.channels_last)
    assert not net.conv.weight.is_contiguous()
    save("channels_last.pt", net.state_dict(), net.state_dict())

    for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)]:
        cast = network().to(dtype).state_dict()
        save(f"{name}.pt", cast, cast)

    save("data_parallel.pt", nn.DataParallel(network()).state_dict(), weights)
    compiled = {f"_orig_mod.module.{key}": value for key, value in weights.items()}
    save("compiled.pt", {"state_dict": compiled}, weights, "state_dict")

    averaged = torch.optim.swa_utils.AveragedModel(network())
    averaged.update_parameters(network())
    averaged.update_parameters(network())
    save("averaged.pt", averaged.state_dict(), averaged.module.state_dict())

    training(weights)
    views()

    torch.serialization.set_crc32_options(False)
    save("unchecked.pt", weights, weights)
    torch.serialization.set_crc32_options(True)

    with_values = network().state_dict(keep_vars=True)
    with_values["conv.weight"].note = "an attribute"
    with_values["bn.running_mean"].note = "another"
    save("parameters.pt", dict(with_values), weights)


def training(weights):
    """What training scripts save: the optimizer, a schedule, arguments, numbers of all kinds."""
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    net(torch.ones(2, 2, 4, 4)).sum().backward()
    optimizer.step()
    content = {
        "epoch": 12,
        "model": weights,
        "model_ema": {"n_averaged": torch.tensor(3)},
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": schedule.state_dict(),
        "rng": torch.get_rng_state()[:16].clone(),
        "args": argparse.Namespace(
            lr=0.1,
            data=pathlib.PurePosixPath("data"),
            device=torch.device("cpu"),
            dtype=torch.float16,
            size=torch.Size([2, 3]),
            started=datetime.datetime(2024, 5, 17),
        ),
        "best": np.float64(0.75),
        "curve": np.arange(3.0),
        "losses": [2.5, 1.25, 1e-3],
        "steps": 2**40,
        "seen": {1, 2},
        "blob": b"bytes",
        "none": None,
        "by_class": collections.defaultdict(list, a=[True]),
    }
    save("training.pth", content, weights, "model")
    save("training_protocol_5.pth", content, weights, "model", protocol=5)
    moving = {key: value + 1 for key, value in weights.items()}
    two = {"model": weights, "ema": {"decay": 0.99, "shadow": moving}, "a.b": moving}
    save("two_states.pt", two, weights, "model")


def views():
    """Tensors that are not their storage from beginning to end."""
    base = torch.arange(24, dtype=torch.float32)
    matrix = base.reshape(4, 6)
    flat = torch.arange(100, dtype=torch.float32)
    content = {
        "whole": base,
        "rows": matrix[1:3],
        "transposed": matrix.t(),
        "column": matrix[:, 2],
        "every_other": base[::2],
        "expanded": torch.tensor([1.5]).expand(3, 4),
        "repeated_rows": base[:6].expand(2, 6),
        "scalar": base[7],
        "empty": torch.zeros(0, 3),
        "one": base[5:6].reshape(1, 1),
        "permuted": flat[4:64].reshape(3, 4, 5).permute(2, 0, 1),
        "window": flat[64:].unfold(0, 3, 2),
    }
    save("views.pt", content, content)


class Call:
    """Asks whoever unpickles it to call something."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def program(path):
    """A TorchScript program, without the notes on where its source was on this machine."""
    whole = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(1, 1)), whole)
    with zipfile.ZipFile(whole) as whole, zipfile.ZipFile(path, "w") as kept:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                kept.writestr(entry, whole.read(entry))


def unreadable():
    weights = network().state_dict()
    torch.save(weights, HERE / "legacy.pt", _use_new_zipfile_serialization=False)
    program(HERE / "torchscript.pt")
    torch.save({"mask": torch.zeros(2, dtype=torch.bool)}, HERE / "bool.pt")
    torch.save({"raw": torch.zeros(2, dtype=torch.uint16)}, HERE / "uint16.pt")
    negated = torch.complex(torch.ones(2), torch.ones(2)).conj().imag
    torch.save({"negated": negated}, HERE / "negated.pt")
    torch.save({"epoch": 3, "model": "resnet18"}, HERE / "no_weights.pt")
    torch.save({"model": {"w": torch.zeros(1), "step": 3}}, HERE / "mixed.pt")
    torch.save(nn.Linear(1, 1), HERE / "module.pt")

    torch.save({"w": Call(os.system, "true")}, HERE / "system.pt")
    torch.save({"w": Call(eval, "1 + 1")}, HERE / "eval.pt")
    torch.save({"w": Call(subprocess.Popen, ["true"])}, HERE / "popen.pt")
    nested = {"state": {0: {"momentum_buffer": Call(getattr, "text", "upper")}}}
    torch.save({"model": weights, "optimizer": nested}, HERE / "nested.pt")


readable()
unreadable()
(HERE / "pytorch.json").write_text(json.dumps(expected, indent=1) + "\n")
