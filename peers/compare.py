#!/usr/bin/env python3
"""hwa and PyTorch in turn on this machine, as a table of ratios.

    peers/compare.py                          every row, three rounds, into results/
    peers/compare.py --only resnet20 --rounds 1 --out <folder>

A round runs hwa and then PyTorch in both of its modes: channels_last (`cl`) and `eager`. Each
side counts with its median over the rounds, PyTorch with the faster mode. Writes peers.md and
peers.json after every row. `peers/run` builds hwa and sets up PyTorch first. Needs Python 3.9
and nothing else; PyTorch belongs to the Python of `--python`.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent
ROOT = PEERS.parent

MODES = ("cl", "eager")
BATCH, REPLICAS, THREADS, IMAGES = 128, 2, 1, 12800

# Images as large as those of ImageNet: fewer of them, in fewer steps.
LARGE = ["--size", 224, "--batch", 16, "--warmup", 2, "--steps", 4]

# Of the peer's memory.
MEMORY_GOAL = 0.5

# Settings of the caller's that would change what is measured.
FOREIGN = ("HWA_SIMD", "RAYON_", "OMP_", "MKL_", "ONEDNN_", "ATEN_", "MALLOC_")

# glibc would hand memory back after every step and pay for it in page faults at the next one.
PEER_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "67108864",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """Something to measure on both sides, and how much faster hwa is to be."""

    name: str
    model: str
    goal: float
    what: str = "step"
    shape: list = dataclasses.field(default_factory=lambda: ["--batch", BATCH])
    hwa_environment: dict = dataclasses.field(default_factory=dict)
    peer_environment: dict = dataclasses.field(default_factory=dict)

    def arguments(self):
        """What both sides are told alike."""
        if self.what == "recalibrate":
            return ["--model", self.model, *self.shape, "--images", IMAGES]
        replicas = ["--replicas", REPLICAS, "--threads", THREADS]
        return ["--model", self.model, *self.shape, *replicas]


ROWS = (
    Row("resnet20", "resnet20", 2.0),
    Row("resnet110", "resnet110", 2.0),
    Row("vgg16_cifar", "vgg16_cifar", 1.5),
    Row("mobilenet_v2_cifar", "mobilenet_v2_cifar", 1.8),
    Row("resnet18", "resnet18", 1.3),
    Row("mobilenet_v2", "mobilenet_v2", 1.3),
    Row("shufflenet_v2_x1_0", "shufflenet_v2_x1_0", 1.3),
    Row("resnet50-224", "resnet50", 1.2, shape=LARGE),
    Row("vgg16_bn-224", "vgg16_bn", 1.2, shape=LARGE),
    Row(
        "resnet20-avx2",
        "resnet20",
        2.0,
        hwa_environment={"HWA_SIMD": "avx2"},
        peer_environment={"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    ),
    Row("resnet20-recalibrate", "resnet20", 2.0, what="recalibrate"),
)


def main():
    arguments = parse()
    rows = chosen(arguments.only)
    check_tools(arguments)
    check_quiet()
    report = {**surroundings(arguments), "rounds": arguments.rounds, "rows": []}
    for row in rows:
        report["rows"].append(compare(row, arguments))
        write(report, arguments.out)
    print(table(report))
    told(f"written: {arguments.out / 'peers.md'} and {arguments.out / 'peers.json'}")


def parse():
    names = ", ".join(row.name for row in ROWS)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="ROW", help=f"again for more: {names}")
    parser.add_argument("--rounds", type=int, default=3, help="of each row; 3 by default")
    parser.add_argument("--hwa", default=ROOT / "target/release/hwa", help="a release build")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--out", type=pathlib.Path, help="a folder; results/ by default")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds must be at least 1, found {arguments.rounds}")
    if arguments.only and not arguments.out:
        parser.error("--only needs --out: the table in results/ has every row")
    arguments.out = arguments.out or ROOT / "results"
    return arguments


def chosen(names):
    """The rows with these names, or all."""
    known = {row.name: row for row in ROWS}
    for name in names or ():
        if name not in known:
            fail(f"there is no row `{name}`, expected one of {', '.join(known)}")
    return [row for row in ROWS if not names or row.name in names]


def check_tools(arguments):
    """Fails now rather than after half of the rows."""
    output([arguments.hwa, "bench", "recalibrate", "--help"], "is there a release build of hwa?")
    needed = "import torch, torchvision, numpy"
    output([arguments.python, "-c", needed], "pip install torch torchvision numpy")
    cores = len(os.sched_getaffinity(0))
    if cores < REPLICAS * THREADS:
        fail(f"{REPLICAS} replicas with a core each need {REPLICAS * THREADS} cores, found {cores}")


def check_quiet():
    """Other work slows the sides down unequally: threads that wait for each other suffer most."""
    load = os.getloadavg()[0]
    if load > 0.5:
        told(f"warning: the load is {load:.1f}, expected below 0.5: something else is running")


def surroundings(arguments):
    """When, on what and of what."""
    torch = output([arguments.python, "-c", "import torch; print(torch.__version__)"])
    commit = output(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"])
    source = ["crates", "Cargo.toml", "Cargo.lock"]
    changed = output(["git", "-C", ROOT, "status", "--porcelain", "--", *source])
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "cpu": cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "torch": torch,
        "commit": commit + (" with changes" if changed else ""),
    }


def cpu():
    """The CPU's name."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def compare(row, arguments):
    """Measures a row, side after side in every round."""
    runs = {side: [] for side in ("hwa", *MODES)}
    for number in range(1, arguments.rounds + 1):
        for side, found in runs.items():
            found.append(measure(row, side, arguments))
            speed, memory = found[-1]["images_per_second"], found[-1]["peak_rss_mb"]
            place = f"{row.name}, round {number} of {arguments.rounds}"
            told(f"{place}, {side}: {speed:.1f} images/s, {memory:.0f} MB")
    sides = {side: summary(found) for side, found in runs.items()}
    best = max(MODES, key=lambda mode: sides[mode]["images_per_second"])
    ours, theirs = sides["hwa"], sides[best]
    return {
        "name": row.name,
        "model": row.model,
        "what": row.what,
        "ratio": round(ours["images_per_second"] / theirs["images_per_second"], 3),
        "goal": row.goal,
        "memory_ratio": round(ours["peak_rss_mb"] / theirs["peak_rss_mb"], 3),
        "memory_goal": MEMORY_GOAL,
        "best_mode": best,
        **sides,
    }


def measure(row, side, arguments):
    """One run of one side: the JSON object that it prints."""
    if side == "hwa":
        command, environment = [arguments.hwa, "bench", row.what, "--json"], row.hwa_environment
    else:
        command = [arguments.python, PEERS / f"torch_{row.what}.py", "--mode", side]
        environment = {**PEER_ENVIRONMENT, **row.peer_environment}
    return json.loads(output([*command, *row.arguments()], environment=environment))


def summary(runs):
    """Medians over the rounds, and what they are medians of."""
    keys = ("images_per_second", "peak_rss_mb")
    every = {key: [round(run[key], 1) for run in runs] for key in keys}
    return {**{key: statistics.median(every[key]) for key in keys}, "rounds": every}


def write(report, folder):
    """Writes the report for programs and for readers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(report, indent=2) + "\n")
    (folder / "peers.md").write_text(table(report))


def table(report):
    """The report for readers."""
    rounds = "one round" if report["rounds"] == 1 else f"medians of {report['rounds']} rounds"
    lines = [
        "# hwa beside PyTorch",
        "",
        f"{report['date']}, {report['cpu']}, {report['cores']} cores, {report['system']}; "
        f"hwa {report['commit']}, PyTorch {report['torch']}.",
        "",
        f"Images per second and peak memory, both sides in turn, {rounds}. Training steps: batch "
        f"{BATCH}, {REPLICAS} replicas with {THREADS} thread each. `-224`: images of 224 x 224 in "
        "batches of 16. `resnet20-avx2`: both sides without AVX-512. `resnet20-recalibrate`: "
        f"batch-norm statistics from {IMAGES:,} images on all cores. PyTorch in the faster of its modes, channels_last (`cl`) and `eager`. How: "
        "[docs/performance.md](../docs/performance.md).",
        "",
        "| | hwa | PyTorch | mode | ratio | goal | hwa memory | PyTorch's | ratio | goal |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|--:|",
        *(line(row) for row in report["rows"]),
        "",
        "Bold: the goal is met. Made by `just bench-peers`.",
    ]
    return "\n".join(lines) + "\n"


def line(row):
    """A row for readers."""
    ours, theirs = row["hwa"], row[row["best_mode"]]
    met = {True: "**{:.3f}**", False: "{:.3f}"}
    cells = [
        row["name"],
        f"{ours['images_per_second']:,.0f}",
        f"{theirs['images_per_second']:,.0f}",
        row["best_mode"],
        met[row["ratio"] >= row["goal"]].format(row["ratio"]),
        f"≥ {row['goal']}",
        f"{ours['peak_rss_mb']:,.0f} MB",
        f"{theirs['peak_rss_mb']:,.0f} MB",
        met[row["memory_ratio"] <= row["memory_goal"]].format(row["memory_ratio"]),
        f"≤ {row['memory_goal']}",
    ]
    return f"| {' | '.join(cells)} |"


def output(command, hint="", environment=None):
    """What a program prints; its failure ends everything, with what it said."""
    command = [str(part) for part in command]
    try:
        every = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        every |= environment or {}
        done = subprocess.run(command, env=every, capture_output=True, text=True)
    except OSError as error:
        fail(f"{command[0]} cannot be run: {error.strerror}", hint)
    if done.returncode != 0:
        said = done.stderr.strip() or "it said nothing"
        fail(f"{' '.join(command)} failed with {done.returncode}: {said}", hint)
    return done.stdout.strip()


def told(text):
    print(text, file=sys.stderr, flush=True)


def fail(text, hint=""):
    raise SystemExit(f"error: {text}" + (f"\nhint: {hint}" if hint else ""))


if __name__ == "__main__":
    main()
