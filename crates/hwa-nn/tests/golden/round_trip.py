#!/usr/bin/env python3
"""PyTorch's side of `tests/round_trip.rs`: saves and loads networks at their full size.

    round_trip.py save <network> <classes> <size> <file>     with weights of its own
    round_trip.py load <network> <classes> <size> <file>     with those of the file

Prints the scores of two images as JSON. Files are safetensors; what ends in `.pt` is PyTorch's own.
"""
import json
import pathlib
import sys

import torch

import make_golden as golden

DTYPES = {name: dtype for dtype, name in golden.SAFETENSORS.items()}


def write(path, state):
    if path.suffix == ".pt":
        torch.save(state, path)
    else:
        golden.write_safetensors(path, state)


def read(path):
    if path.suffix == ".pt":
        return torch.load(path, weights_only=True)
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), memoryview(content)[8 + length :]
    header.pop("__metadata__", None)
    state = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=DTYPES[entry["dtype"]])
        state[name] = flat.reshape(entry["shape"])
    return state


def main():
    what, name, classes, size, path = sys.argv[1:]
    path = pathlib.Path(path)
    torch.manual_seed(0)
    net = golden.trained_looking(golden.by_name(name, int(classes)))
    if what == "save":
        write(path, net.state_dict())
    else:
        net.load_state_dict(read(path), strict=True)
    print(json.dumps(golden.listed(golden.evaluated(net, int(size)))))


if __name__ == "__main__":
    main()
