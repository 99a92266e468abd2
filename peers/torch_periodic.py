#!/usr/bin/env python3
"""Steps of PyTorch that are averaged over processes: the peer of `hwa bench sync`.

    peers/torch_periodic.py --model resnet20 --batch 128 --replicas 2 --period 1

A replica is a process on a core of its own (on `--threads` of them). It takes forward, loss,
backward and SGD steps on one made-up batch, and after every `--period` of them its parameters
are averaged with those of the others: `PeriodicModelAverager` over gloo. The replicas wait for
each other before the clock starts, and the median step counts. Prints one JSON object: step_ms
(with the averaging, of the slowest replica), sync_ms (of the averaging alone, waiting for
slower replicas included), images_per_second (sum over the replicas), peak_rss_mb (sum).

On several machines, or in several network namespaces, each replica is started by hand, with its
`--rank` and with `--master <host>:<port>` of the first; GLOO_SOCKET_IFNAME names the network.
Then each prints its own object.
"""

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time


def main():
    arguments = parse()
    if arguments.rank is not None:
        print(json.dumps(replica(arguments)))
        return
    arguments.master = f"127.0.0.1:{free_port()}"
    started = [start(arguments, rank) for rank in range(arguments.replicas)]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a replica failed")
    replicas = [json.loads(output) for output in outputs]
    result = {
        "model": arguments.model,
        "mode": arguments.mode,
        "batch": arguments.batch,
        "replicas": arguments.replicas,
        "period": arguments.period,
        "threads": arguments.threads,
        "torch": replicas[0]["torch"],
        "images_per_second": sum(one["images_per_second"] for one in replicas),
        "step_ms": max(one["step_ms"] for one in replicas),
        "sync_ms": max(one["sync_ms"] for one in replicas),
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
    parser.add_argument("--period", type=int, default=1, help="steps between two averages")
    parser.add_argument("--threads", type=int, default=1, help="of each replica")
    parser.add_argument("--mode", choices=["eager", "cl"], default="cl", help="cl: channels_last")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the clock starts")
    parser.add_argument("--steps", type=int, default=8, help="steps measured")
    parser.add_argument("--rank", type=int, help="of a replica that is started by hand")
    parser.add_argument("--master", help="host:port of the first replica, with --rank")
    arguments = parser.parse_args()
    if arguments.rank is not None and arguments.master is None:
        parser.error("--rank needs --master")
    return arguments


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(arguments, rank):
    """Starts a replica on cores of its own."""
    cores, threads = sorted(os.sched_getaffinity(0)), arguments.threads
    mine = {cores[(rank * threads + thread) % len(cores)] for thread in range(threads)}
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    where = ["--rank", str(rank), "--master", arguments.master]
    return subprocess.Popen(
        [sys.executable, __file__, *sys.argv[1:], *where],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, mine),
    )


def replica(arguments):
    """Trains one replica, averages it with the others, and measures it."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    from networks import build

    torch.set_num_threads(arguments.threads)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{arguments.master}",
        rank=arguments.rank,
        world_size=arguments.replicas,
    )
    # All begin alike, on batches of their own.
    torch.manual_seed(0)
    network, usual = build(arguments.model, arguments.classes)
    torch.manual_seed(1 + arguments.rank)
    size = arguments.size or usual
    images = torch.randn(arguments.batch, 3, size, size)
    labels = torch.randint(0, arguments.classes, (arguments.batch,))
    if arguments.mode == "cl":
        network = network.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    averager = PeriodicModelAverager(period=arguments.period, warmup_steps=0)
    seconds, averaging = [], []
    for number in range(arguments.warmup + arguments.steps):
        if number == arguments.warmup:
            dist.barrier()
        began = time.perf_counter()
        sgd.zero_grad(set_to_none=True)
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        sgd.step()
        loss.item()
        stepped = time.perf_counter()
        averager.average_parameters(network.parameters())
        ended = time.perf_counter()
        seconds.append(ended - began)
        averaging.append(ended - stepped)
    dist.destroy_process_group()
    step = statistics.median(seconds[arguments.warmup :])
    return {
        "torch": torch.__version__,
        "step_ms": step * 1e3,
        "sync_ms": statistics.median(averaging[arguments.warmup :]) * 1e3,
        "images_per_second": arguments.batch / step,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    main()
