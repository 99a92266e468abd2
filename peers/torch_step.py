#!/usr/bin/env python3
"""Training steps of PyTorch on the CPU: the peer of `hwa bench step`.

    peers/torch_step.py --model resnet20 --batch 128 --replicas 2 --mode cl

A replica is a process on a core of its own (on `--threads` of them), and takes forward,
loss, backward and SGD steps on one made-up batch. The replicas wait for each other before the
clock starts, and the median step counts. Prints one JSON object: images_per_second (sum over
the replicas), step_ms (of the slowest), peak_rss_mb (sum).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time


def main():
    arguments = parse()
    if arguments.rank is not None:
        print(json.dumps(replica(arguments)))
        return
    started = [start(arguments, rank) for rank in range(arguments.replicas)]
    begin_together(started)
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a replica failed")
    replicas = [json.loads(output) for output in outputs]
    result = {
        "model": arguments.model,
        "mode": arguments.mode,
        "batch": arguments.batch,
        "replicas": arguments.replicas,
        "threads": arguments.threads,
        "torch": replicas[0]["torch"],
        "images_per_second": sum(one["images_per_second"] for one in replicas),
        "step_ms": max(one["step_ms"] for one in replicas),
        "peak_rss_mb": sum(one["peak_rss_mb"] for one in replicas),
    }
    print(json.dumps(result))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--size", type=int, help="of the images; by default the network's usual")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each replica")
    parser.add_argument("--mode", choices=["eager", "cl"], default="cl", help="cl: channels_last")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=8, help="steps measured")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def start(arguments, rank):
    """Starts a replica on cores of its own."""
    cores, threads = sorted(os.sched_getaffinity(0)), arguments.threads
    mine = {cores[(rank * threads + thread) % len(cores)] for thread in range(threads)}
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    return subprocess.Popen(
        [sys.executable, __file__, *sys.argv[1:], "--rank", str(rank)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, mine),
    )


def begin_together(started):
    """Lets the replicas measure once all of them are warm."""
    if not all([process.stdout.readline() for process in started]):
        for process in started:
            process.kill()
        raise SystemExit("a replica failed")
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()


def wait_for_others():
    """The replica's side of `begin_together`."""
    print("warm", flush=True)
    sys.stdin.readline()


def replica(arguments):
    """Trains one replica, and measures it."""
    import torch
    import torch.nn.functional as F

    from networks import build

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.rank)
    network, usual = build(arguments.model, arguments.classes)
    size = arguments.size or usual
    images = torch.randn(arguments.batch, 3, size, size)
    labels = torch.randint(0, arguments.classes, (arguments.batch,))
    if arguments.mode == "cl":
        network = network.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    seconds = []
    for number in range(arguments.warmup + arguments.steps):
        if number == arguments.warmup:
            wait_for_others()
        began = time.perf_counter()
        sgd.zero_grad(set_to_none=True)
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        sgd.step()
        loss.item()
        seconds.append(time.perf_counter() - began)
    step = statistics.median(seconds[arguments.warmup :])
    return {
        "torch": torch.__version__,
        "step_ms": step * 1e3,
        "images_per_second": arguments.batch / step,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    main()
