#!/usr/bin/env python3
"""What a synchronization over MPI costs: beside PyTorch, and beside the formula of docs/scaling.md.

    peers/sync.py --python <a Python with PyTorch> --hwa <a release build with the feature mpi> \\
        --data-dir <a folder with CIFAR-100>

1. Steps that are averaged every time, by `hwa bench sync` over MPI and by `PeriodicModelAverager`
   over gloo in turn: on this machine, and on two hosts (`hosts.py`) with a network between them.
   With data, `hwa train` with H = 1 as well, which says and writes more in a step than the bench.
2. With data, a training of ResNet-110 with an epoch between two synchronizations.
3. Trainings by `hwa train` with H = 1 on two and four hosts. What their network can do is measured by
   sockets alone; what hwa adds is fitted to trainings without a network; both together are the
   prediction.

Linux, as root, with Open MPI and iproute2. Writes sync.md and sync.json into results/.
"""

import argparse
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from compare import PEER_ENVIRONMENT, PEERS, ROOT, check_quiet, output, surroundings, told
from hosts import Network, address, within

MODELS = ("resnet20", "resnet110")
SIZES = ("resnet8", "resnet20", "resnet110")
# Bandwidth and delay, one way.
NETWORKS = (("1gbit", 0.0), ("1gbit", 1e-3), ("1gbit", 5e-3), ("100mbit", 0.0))
RANKS = (2, 4)
# Settings that had no part in finding the formula, for two ranks.
CHECKS = (("300mbit", 2.5e-3), ("500mbit", 8e-3))
CHECKED_SIZES = ("resnet20", "resnet56", "resnet110")
# Bytes that the buffers of a rank have, and those of a parameter.
BUFFER, PARAMETER = 32 << 20, 4
# Messages below this are sent at once, without being accepted first (Open MPI 4.1 over TCP).
EAGER = 64 << 10
# Seconds to post and to complete the messages of one more rank. Assumed: two cores cannot show it.
POST = 5e-6
# What is predicted for more machines: a ResNet-50 with 25,557,032 parameters, one model on each.
RESNET50 = 25_557_032 * PARAMETER
MACHINES = (8, 64, 512)
# Seconds one way, bytes per second.
LINKS = {
    "10 Gbit/s, 0.05 ms": (5e-5, 1.2e9),
    "1 Gbit/s, 0.1 ms": (1e-4, 1.2e8),
    "100 Mbit/s, 20 ms": (2e-2, 1.2e7),
}
# Steps between two synchronizations, the last an epoch of ImageNet in batches of 256.
PERIODS = (1, 64, 5005)
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def main():
    arguments = parse()
    check_quiet()
    os.environ |= MPI_ENVIRONMENT
    report = {**surroundings(arguments), "rounds": arguments.rounds}
    report["steps"] = [side_by_side(arguments, model) for model in MODELS]
    with Network(2, "1gbit", 0.0) as network:
        report["steps"].append(side_by_side(arguments, "resnet20", network))
    report["epoch"] = with_an_epoch_between(arguments) if arguments.data_dir else None
    report |= model(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "sync.json").write_text(json.dumps(report, indent=2) + "\n")
    (arguments.out / "sync.md").write_text(table(report))
    print(table(report))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of the steps beside PyTorch")
    parser.add_argument("--data-dir", type=pathlib.Path, help="where CIFAR-100 is, for trainings")
    parser.add_argument("--cycles", type=int, default=40, help="of each training")
    parser.add_argument("--hwa", default=ROOT / "target/release/hwa", help="a release build")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results")
    return parser.parse_args()


def side_by_side(arguments, model, network=None):
    """A step with its average, on both sides: medians over the rounds, and all of them."""
    bench = [arguments.hwa, "bench", "sync", "--model", model, "--batch", 128, "--json"]
    start = (lambda c: over(network, 2, c)) if network else on_cores
    rounds = []
    for _ in range(arguments.rounds):
        found = {"hwa": json.loads(output(start(pinned(bench))))}
        if arguments.data_dir:
            found["train"] = trained_steps(arguments, model, lambda c: start(pinned(c)))
        theirs = gloo(arguments, model) if network else alone(arguments, model)
        rounds.append(found | {"torch": json.loads(theirs)})
        steps = ", ".join(f"{side} {run['step_ms']:.1f} ms" for side, run in rounds[-1].items())
        told(f"{model}: {steps}")
    of = lambda side, key: [run[side][key] for run in rounds]
    keys = {"step_ms", "sync_ms"}
    sides = {side: {key: statistics.median(of(side, key)) for key in keys} for side in rounds[0]}
    for side in sides:
        sides[side]["sync_range"] = [min(of(side, "sync_ms")), max(of(side, "sync_ms"))]
    where = "two hosts, 1 Gbit/s" if network else "one machine"
    ratio = sides["torch"]["step_ms"] / sides["hwa"]["step_ms"]
    return {"model": model, "where": where, "ratio": ratio, **sides, "every": rounds}


def on_cores(command):
    """Two ranks on this machine."""
    return ["mpirun", "-n", 2, "--bind-to", "none", *command]


def pinned(command):
    """A rank on the core of its number, wherever it was started: as on the other side."""
    return ["bash", "-c", 'exec taskset -c "$OMPI_COMM_WORLD_RANK" "$@"', "pinned", *command]


def alone(arguments, model):
    return output(peer(arguments, model), environment=PEER_ENVIRONMENT)


def trained_steps(arguments, model, started, **settings):
    """Milliseconds of a step and of its synchronization in a training on CIFAR-100, H = 1."""
    settings = {"hwa.sync_period": 1, "schedule.steps": 1000, "evaluate.every": 1000} | settings
    times = cifar100(arguments, model, started, settings, 24)
    # The first cycles meet cold caches and connections.
    ends = [ended["elapsed"] for ended in times][3:]
    steps = [1e3 * (end - begin) for begin, end in zip(ends, ends[1:])]
    average = statistics.median(1e3 * ended["synchronization"] for ended in times[4:])
    return {"step_ms": statistics.median(steps), "sync_ms": average}


def with_an_epoch_between(arguments):
    """The share of two synchronizations of ResNet-110 in their cycles, H = an epoch."""
    settings = {"hwa.sync_period": "epoch", "schedule.epochs": 4, "evaluate.every": 2}
    times = cifar100(arguments, "resnet110", lambda c: on_cores(pinned(c)), settings, 2)
    spans = zip([0.0] + [ended["elapsed"] for ended in times], times)
    cycles = [
        {"seconds": ended["elapsed"] - began, "synchronization": ended["synchronization"]} for began, ended in spans
    ]
    told(f"with an epoch between: {cycles}")
    return cycles


def cifar100(arguments, model, started, settings, cycles):
    """The times of the first cycles of a training of two models on 10,000 images in batches of 128."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "model.name": model,
            "data.dataset": "cifar100",
            "data.train_examples": 10_000,
            "data.validation": 1000,
            "hwa.num_models": 2,
            "hwa.window_length": 1,
            "optimizer.batch": 128,
            "checkpoints.state_every": 1000,
            "threads": 1,
        } | settings
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        run = ["train", "--json", "--data-dir", arguments.data_dir.resolve(), "--out", f"{folder}/run"]
        interrupted(started([arguments.hwa, *run, *sets]), lambda: len(cycle_times(folder)) > cycles)
        return cycle_times(folder)[:cycles]


def interrupted(command, is_over):
    """Runs a training until there is enough of it: `mpirun` hands the signal on, and all ranks end."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([str(word) for word in command], stdout=said, stderr=said)
        while process.poll() is None and not is_over():
            time.sleep(1)
        process.send_signal(signal.SIGUSR1)
        if process.wait() != 130:
            said.seek(0)
            raise SystemExit(f"{command}: {said.read()}")


def cycle_times(folder):
    log = pathlib.Path(folder, "run/events.jsonl")
    # The last line may be half written.
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    events = [json.loads(line) for line in lines]
    return [event["time"] for event in events if event["event"] == "cycle_ended"]


def peer(arguments, model):
    shape = ["--model", model, "--batch", 128, "--replicas", 2, "--period", 1]
    return [arguments.python, PEERS / "torch_periodic.py", *shape]


def gloo(arguments, model):
    """PyTorch on two hosts; the slower one counts."""
    environment = os.environ | PEER_ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "tun0"}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    started = []
    for rank in range(2):
        command = [*peer(arguments, model), "--rank", rank, "--master", f"{address(1)}:7701"]
        command = ["taskset", "-c", rank, *command]
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(within(rank + 1, command), env=environment, **pipe))
    said = [process.communicate() for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"a replica failed: {said[0][1]}{said[1][1]}")
    return max((out for out, _ in said), key=lambda out: json.loads(out)["step_ms"])


def over(network, ranks, command):
    """`mpirun` on the first hosts of a network, one rank on each."""
    hosts = ",".join(f"{address(host)}:1" for host in range(1, ranks + 1))
    settings = {
        "plm_rsh_agent": PEERS / "enter-host",
        "pml": "ob1",
        "btl": "tcp,self",
        "btl_tcp_if_include": "tun0",
        "oob_tcp_if_include": "tun0",
    }
    settings = [word for name, value in settings.items() for word in ("--mca", name, value)]
    mpirun = ["mpirun", "--host", hosts, "-n", ranks, "--bind-to", "none", *settings]
    return within(1, [*mpirun, *command])


def model(arguments):
    """Trainings without a network, what follows from them, and trainings with one."""
    local = []
    for ranks in RANKS:
        mpirun = ["mpirun", "-n", ranks, "--oversubscribe", "--bind-to", "none"]
        local += [train(arguments, ranks, size, lambda c: [*mpirun, *c]) for size in SIZES]
    # Ranks that share a core wait for it, which is not the formula's business.
    fitted = fit([run for run in local if run["ranks"] <= len(os.sched_getaffinity(0))])
    told(f"fitted: {fitted}")
    places = [(*network, ranks, SIZES) for network in NETWORKS for ranks in RANKS]
    rows = over_networks(arguments, fitted, places)
    checked = over_networks(arguments, fitted, [(*network, 2, CHECKED_SIZES) for network in CHECKS])
    return {"local": local, "fitted": fitted, "networks": rows, "checked": checked}


def over_networks(arguments, fitted, places):
    """Trainings on hosts, each with what the formula says of it."""
    rows = []
    for rate, delay, ranks, sizes in places:
        with Network(ranks, rate, delay) as network:
            trip, bandwidth = network.measured()
            told(f"{rate}, {delay} s: {trip * 1e3:.2f} ms there and back, {bandwidth / 1e6:.0f} MB/s")
            for size in sizes:
                run = train(arguments, ranks, size, lambda c: over(network, ranks, c))
                run |= {"rate": rate, "delay": delay, "trip": trip, "bandwidth": bandwidth}
                run["predicted"] = predicted(run, fitted, trip / 2, bandwidth)
                told(f"{size}, {ranks} ranks: {run['predicted']:.4f} predicted, {run['seconds']:.4f} s")
                rows.append(run)
    return rows


def train(arguments, ranks, size, started):
    """Seconds of a synchronization in a training whose steps are short, and bytes of the model."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "hwa.num_models": ranks,
            "hwa.sync_period": 1,
            "hwa.window_length": 1,
            "model.name": size,
            "optimizer.batch": 2,
            "optimizer.rate": 0.001,
            "schedule.steps": arguments.cycles,
            "evaluate.every": arguments.cycles,
            "data.train_examples": 200,
            "checkpoints.state_every": 100 * arguments.cycles,
            "threads": 1,
        }
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        output(started([arguments.hwa, "train", "--json", "--out", f"{folder}/run", *sets]))
        # The first cycles meet cold connections, the last one sends complete models.
        times = cycle_times(folder)[3:-1]
    moved = statistics.median(ended["traffic"]["bytes"] for ended in times)
    return {
        "model": size,
        "ranks": ranks,
        "bytes": moved * ranks / (4 * (ranks - 1)),
        "seconds": statistics.median(ended["synchronization"] for ended in times),
        "moving": statistics.median(ended["traffic"]["seconds"] for ended in times),
    }


def blocks(run):
    """The parameters of a model, as they fill the buffers of a rank."""
    return math.ceil(run["bytes"] / PARAMETER / (BUFFER / (24 * 2)))


def exchanges(run):
    """One for each block, and one more: the means of a block travel with the next one."""
    return blocks(run) + 1


def waits(run):
    """Waits for the network. An exchange has three if its slices are long: they are announced and
    accepted first. Notices and reports are five waits."""
    slice = run["bytes"] / blocks(run) / run["ranks"]
    return (1 if slice < EAGER else 3) * exchanges(run) + 5


def fit(local):
    """Seconds of a wait and of a byte without a network, by least squares of relative errors."""
    rows = [(waits(run), copied(run), run["seconds"]) for run in local]
    scaled = [(w / s, c / s) for w, c, s in rows]
    ww, cc = sum(w * w for w, _ in scaled), sum(c * c for _, c in scaled)
    wc, w1, c1 = sum(w * c for w, c in scaled), sum(w for w, _ in scaled), sum(c for _, c in scaled)
    determinant = ww * cc - wc * wc
    return {"wait": (w1 * cc - c1 * wc) / determinant, "byte": (c1 * ww - w1 * wc) / determinant}


def copied(run):
    """Bytes that a rank copies and adds: (K + 2 L) N / P, with as many models as ranks."""
    return (run["ranks"] + 2) * run["bytes"] / run["ranks"]


def predicted(run, fitted, latency, bandwidth):
    """The formula, with as many models as ranks."""
    ranks = run["ranks"]
    sent = 2 * run["bytes"] * (ranks - 1) / ranks
    waited = (fitted["wait"] + latency) * waits(run) + POST * exchanges(run) * (ranks - 2)
    return waited + sent / bandwidth + fitted["byte"] * copied(run)


def table(report):
    lines = [
        "# Synchronization over MPI",
        "",
        f"{report['date']}, {report['cpu']}, {report['cores']} cores, {report['system']}; "
        f"hwa {report['commit']}, PyTorch {report['torch']}. Made by `peers/sync.py`.",
        "",
        "## Steps that are averaged every time (H = 1), beside PyTorch",
        "",
        "Two ranks, each pinned to a core, batch 128: a step of SGD and its average, `hwa bench sync` beside "
        f"`PeriodicModelAverager` over gloo, in turn, medians of {report['rounds']} rounds. The average "
        "includes waiting for the slower rank, so it varies; in brackets its least and its most. The bench leaves "
        "out what a training does beside: asking whether all have come, reports, the verdict, files, the log. "
        "`hwa train`: the same in a training on CIFAR-100 with H = 1, all of that included.",
        "",
        "| network | where | hwa | its average | `hwa train` | its average | PyTorch | its average | ratio |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in report["steps"]:
        cells = " | ".join(side_cells(row.get(side)) for side in ("hwa", "train", "torch"))
        lines.append(f"| {row['model']} | {row['where']} | {cells} | {row['ratio']:.2f} |")
    if report["epoch"]:
        told = " and ".join(
            f"{1e3 * c['synchronization']:.0f} ms of {c['seconds']:.0f} s, {100 * c['synchronization'] / c['seconds']:.3f} %"
            for c in report["epoch"]
        )
        lines += [
            "",
            "## With an epoch between",
            "",
            "ResNet-110, two ranks, each pinned to a core, H = an epoch of 10,000 images (79 steps): in the two "
            f"synchronizations, waiting included, {told} of the cycle. All of CIFAR-100 is 4.5 times as long.",
        ]
    fitted = report["fitted"]
    lines += [
        "",
        "## A synchronization, beside the formula",
        "",
        "As many models as ranks, H = 1, steps of two images: the median synchronization of a training as rank "
        "0 sees it, waiting for the others included. Two ranks without a network, fitted: "
        f"{fitted['wait'] * 1e3:.2f} ms for a wait and {fitted['byte'] * 1e9:.2f} ns for a byte that is copied "
        "or added. The network by sockets alone: there and back, and bytes per second both ways at once. "
        f"{report['cores']} cores, so four ranks wait for them, too. The rows of "
        + " and ".join(rate.replace("mbit", " Mbit/s") for rate, _ in CHECKS)
        + " had no part in finding the formula.",
        "",
        "| model | MB | ranks | network | there and back | MB/s | predicted | measured |",
        "|---|--:|--:|---|--:|--:|--:|--:|",
    ]
    for row in report["local"]:
        own = predicted(row, fitted, 0.0, float("inf"))
        lines.append(
            f"| {row['model']} | {row['bytes'] / 1e6:.2f} | {row['ranks']} | none | – | – "
            f"| ({own * 1e3:.1f} ms) | {row['seconds'] * 1e3:.1f} ms |"
        )
    for row in [*report["networks"], *report["checked"]]:
        name = row["rate"].replace("mbit", " Mbit/s").replace("gbit", " Gbit/s")
        name += f", {row['delay'] * 1e3:g} ms" if row["delay"] else ""
        lines.append(
            f"| {row['model']} | {row['bytes'] / 1e6:.2f} | {row['ranks']} | {name} "
            f"| {row['trip'] * 1e3:.2f} ms | {row['bandwidth'] / 1e6:.0f} "
            f"| {row['predicted'] * 1e3:.1f} ms | {row['seconds'] * 1e3:.1f} ms |"
        )
    lines += [
        "",
        "## ResNet-50 on more machines, by the formula",
        "",
        "Predicted, not measured: one model on each machine, with the figures fitted above; another "
        f"{POST * 1e6:.0f} µs for every further rank in an exchange are assumed. The share of the time that is "
        "synchronization, for steps of one second. A state: what `checkpoints.state_every` sends to rank 0, weights "
        "and momentum of all others, one after the other.",
        "",
        "| network | machines | a synchronization | " + " | ".join(f"H = {h:,}" for h in PERIODS) + " | a state |",
        "|---|--:|--:|" + "--:|" * len(PERIODS) + "--:|",
    ]
    for name, (latency, bandwidth) in LINKS.items():
        for machines in MACHINES:
            run = {"ranks": machines, "bytes": RESNET50}
            seconds = predicted(run, fitted, latency, bandwidth)
            shares = (100 * seconds / (seconds + period) for period in PERIODS)
            cells = " | ".join(f"{share:.2g} %" for share in shares)
            state = (machines - 1) * 2 * RESNET50 / bandwidth
            lines.append(f"| {name} | {machines} | {seconds:.2f} s | {cells} | {state:,.0f} s |")
    return "\n".join(lines) + "\n"


def side_cells(side):
    if not side:
        return "– | –"
    least, most = side["sync_range"]
    return f"{side['step_ms']:.1f} ms | {side['sync_ms']:.1f} ms ({least:.1f} to {most:.1f})"


if __name__ == "__main__":
    main()
