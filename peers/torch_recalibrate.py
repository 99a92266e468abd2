#!/usr/bin/env python3
"""Re-estimated batch-norm statistics with PyTorch's `update_bn`: the peer of `hwa bench recalibrate`.

    peers/torch_recalibrate.py --model resnet20 --images 12800 --mode cl

One process with a thread per core. The images are one made-up batch again and again, ready
as a tensor: loading costs nothing here. Prints one JSON object: images_per_second, peak_rss_mb.
"""

import argparse
import json
import os
import resource
import time


def main():
    arguments = parse()
    import torch
    from torch.optim.swa_utils import update_bn

    from networks import build

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    network, size = build(arguments.model, arguments.classes)
    batch = torch.randn(arguments.batch, 3, size, size)
    if arguments.mode == "cl":
        network = network.to(memory_format=torch.channels_last)
        batch = batch.contiguous(memory_format=torch.channels_last)
    batches = [batch] * (arguments.images // arguments.batch)
    update_bn(batches[:3], network)
    began = time.perf_counter()
    update_bn(batches, network)
    seconds = time.perf_counter() - began
    images = len(batches) * arguments.batch
    result = {
        "model": arguments.model,
        "mode": arguments.mode,
        "images": images,
        "batch": arguments.batch,
        "threads": arguments.threads,
        "torch": torch.__version__,
        "images_per_second": images / seconds,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(result))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--images", type=int, default=12800)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--mode", choices=["eager", "cl"], default="cl", help="cl: channels_last")
    return parser.parse_args()


if __name__ == "__main__":
    main()
