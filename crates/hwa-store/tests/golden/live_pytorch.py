#!/usr/bin/env python3
"""The other side of the tests in `tests/pytorch/live.rs`, which run it.

    live_pytorch.py save FOLDER            resnet18.pth, and resnet18.json with checksums
    live_pytorch.py compare FILE PTH       a safetensors file holds what PyTorch saved
"""
import json
import pathlib
import sys
import zlib

import torch


def save(folder):
    import torchvision

    torch.manual_seed(3)
    net = torchvision.models.resnet18(weights=None)
    net.to(memory_format=torch.channels_last)  # so that strides matter
    net(torch.randn(2, 3, 64, 64))
    weights = net.state_dict()
    torch.save({"model": weights, "epoch": 1}, folder / "resnet18.pth")
    sums = {}
    for name, tensor in weights.items():
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        sums[name] = {"shape": list(tensor.shape), "crc32": zlib.crc32(raw)}
    (folder / "resnet18.json").write_text(json.dumps(sums))


def loaded(path):
    try:
        from safetensors.torch import load_file
    except ImportError:
        return parsed(path.read_bytes())
    return load_file(path)


def parsed(content):
    """The same by hand, where the package is not installed."""
    types = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16}
    types |= {"BF16": torch.bfloat16, "I64": torch.int64}
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        raw = torch.frombuffer(bytearray(data[start:end]), dtype=torch.uint8)
        tensors[name] = raw.view(types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def compare(path, saved):
    found, expected = loaded(path), torch.load(saved, weights_only=True)["model"]
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


if sys.argv[1] == "save":
    save(pathlib.Path(sys.argv[2]))
else:
    compare(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
