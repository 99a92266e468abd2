#!/usr/bin/env python3
"""Averages of checkpoints with PyTorch: the peer of `hwa bench average`.

    peers/torch_average.py make DIR --model resnet50 --count 20
    peers/torch_average.py mean DIR OUT.safetensors     sums in f64, file after file
    peers/torch_average.py swa DIR OUT.safetensors      torch.optim.swa_utils.AveragedModel
    peers/torch_average.py windows DIR --length 20      every window, loaded anew, not written

A folder of .pt files, as made with --pt, is loaded by torch.load, its tensors alone.

Prints one JSON object: seconds, peak_rss_mb. Importing PyTorch does not count.
"""

import argparse
import json
import pathlib
import resource
import time

import torch
import torchvision
from safetensors.torch import load_file, save_file


def main():
    arguments = parse()
    if arguments.what == "make":
        make(arguments)
        return
    paths = sorted(arguments.dir.glob("outer-*"))
    work = {"mean": write_mean, "swa": write_swa, "windows": windows}[arguments.what]
    began = time.perf_counter()
    work(paths, arguments)
    result = {
        "what": arguments.what,
        "files": len(paths),
        "seconds": time.perf_counter() - began,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(result))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["make", "mean", "swa", "windows"])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--model", default="resnet50", help="one of torchvision's")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--pt", action="store_true", help="make files of torch.save")
    return parser.parse_args()


def make(arguments):
    """Checkpoints of a network, a little different each."""
    torch.manual_seed(0)
    state = getattr(torchvision.models, arguments.model)().state_dict()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    for number in range(1, arguments.count + 1):
        near = {name: moved(value, number) for name, value in state.items()}
        if arguments.pt:
            torch.save(near, arguments.dir / f"outer-{number:06}.pt")
        else:
            save_file(near, arguments.dir / f"outer-{number:06}.safetensors")


def load(path):
    """Not mapped: the files are read, as load_file does."""
    return load_file(path) if path.suffix == ".safetensors" else torch.load(path, weights_only=True)


def moved(value, number):
    if value.is_floating_point():
        return (value + 0.01 * torch.randn_like(value)).contiguous()
    return value + number


def mean(paths):
    """The f64 mean, in the type of the files. Integers are averaged too: nobody tells them apart."""
    total, kinds = {}, {}
    for path in paths:
        for name, value in load(path).items():
            kinds[name] = value.dtype
            if name in total:
                total[name] += value.to(torch.float64)
            else:
                total[name] = value.to(torch.float64)
    return {name: (value / len(paths)).to(kinds[name]) for name, value in total.items()}


def write_mean(paths, arguments):
    save_file(mean(paths), arguments.out)


def write_swa(paths, arguments):
    """In single precision, as PyTorch's own class does it."""
    network = getattr(torchvision.models, arguments.model)()
    average = torch.optim.swa_utils.AveragedModel(network)
    for path in paths:
        network.load_state_dict(load_file(path))
        average.update_parameters(network)
    state = average.module.state_dict()
    save_file({name: value.contiguous() for name, value in state.items()}, arguments.out)


def windows(paths, arguments):
    for last in range(1, len(paths) + 1):
        mean(paths[max(0, last - arguments.length) : last])


if __name__ == "__main__":
    main()
