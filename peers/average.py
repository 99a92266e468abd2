#!/usr/bin/env python3
"""Averages of checkpoints by hwa and by PyTorch in turn, as a table of ratios.

    peers/average.py --python <a Python with PyTorch>     20 checkpoints of a ResNet-50, five rounds

Files are made by PyTorch, in the folder for temporary files, and read once before anything is
measured: all of them are in the page cache. Writes average.md and average.json into results/.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from compare import PEER_ENVIRONMENT, PEERS, ROOT, check_quiet, output, surroundings, told

# How much faster than PyTorch, what share of plain reading, and MB of memory.
GOALS = {"mean": 4.0, "windows": 8.0, "read": 0.6, "memory": 400}


def main():
    arguments = parse()
    check_quiet()
    peer = [arguments.python, PEERS / "torch_average.py"]
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "checkpoints"
        make = ["--model", arguments.model, "--count", arguments.count]
        output([*peer, "make", made, *make])
        output([*peer, "make", pickled(made), *make, "--pt"])
        runs = [round_of(arguments, peer, made) for _ in range(arguments.rounds)]
    report = {**surroundings(arguments), "model": arguments.model, "count": arguments.count}
    report |= {"rounds": runs, **medians(runs)}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "average.json").write_text(json.dumps(report, indent=2) + "\n")
    (arguments.out / "average.md").write_text(table(report))
    print(table(report))


def pickled(made):
    """The same checkpoints, by torch.save."""
    return made.with_name("pickled")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--hwa", default=ROOT / "target/release/hwa", help="a release build")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results")
    return parser.parse_args()


def round_of(arguments, peer, made):
    """Both sides once. hwa measures reading, mean and windows in one process."""
    bench = lambda folder, *more: run(arguments.hwa, "bench", "average", folder, *more, "--json")
    scratch = made.parent / "out.safetensors"
    model = ["--model", arguments.model]
    half = max(arguments.count // 2, 1)
    run = lambda *command: json.loads(output(command))

    def theirs(*what):
        scratch.unlink(missing_ok=True)  # neither side's time is spent on an old file
        return json.loads(output([*peer, *what], environment=PEER_ENVIRONMENT))

    found = {
        # Reading and averaging are compared with each other: three times, in turn.
        "hwa": bench(made, "--rounds", 3),
        "hwa-half": bench(made, "--rounds", 1, "--window", half),
        "hwa-pt": bench(pickled(made), "--rounds", 1),
        "mean": theirs("mean", made, scratch),
        "swa": theirs("swa", made, scratch, *model),
        "windows": theirs("windows", made, "--length", arguments.count),
        "windows-half": theirs("windows", made, "--length", half),
        "pt": theirs("mean", pickled(made), scratch),
    }
    told(", ".join(f"{side} {run['seconds']:.3f} s" for side, run in found.items()))
    return found


def medians(runs):
    median = lambda side, key: statistics.median(run[side][key] for run in runs)
    hwa = {key: median("hwa", key) for key in HWA_KEYS}
    # Of the medians that stand beside it: a round's own ratio is noisier than either.
    read = hwa["bytes"] / 1e9 / hwa["read_gb_per_second"]
    hwa |= {"ratio": read / hwa["seconds"], "computed_ratio": read / hwa["computed_seconds"]}
    # Both are told, because they need not agree: which of them is looked at must not decide.
    by_round = [run["hwa"]["ratio"] for run in runs]
    hwa["ratio_by_round"] = [min(by_round), statistics.median(by_round), max(by_round)]
    half = median("hwa-half", "windows_seconds")
    sides = {side: {key: median(side, key) for key in ("seconds", "peak_rss_mb")} for side in PEER}
    return {
        "hwa": hwa,
        "half_windows_seconds": half,
        **sides,
        "mean_ratio": sides["mean"]["seconds"] / hwa["seconds"],
        "swa_ratio": sides["swa"]["seconds"] / hwa["seconds"],
        "windows_ratio": sides["windows"]["seconds"] / hwa["windows_seconds"],
        "half_windows_ratio": sides["windows-half"]["seconds"] / half,
        "pt_seconds": median("hwa-pt", "seconds"),
        "pt_ratio": sides["pt"]["seconds"] / median("hwa-pt", "seconds"),
    }


PEER = ("mean", "swa", "windows", "windows-half", "pt")
HWA_KEYS = (
    "bytes",
    "seconds",
    "gb_per_second",
    "read_gb_per_second",
    "computed_seconds",
    "windows_seconds",
    "peak_rss_mb",
)


def table(report):
    hwa, mean, swa, windows, half, pt = (report[side] for side in ("hwa", *PEER))
    count = report["count"]
    rows = [
        ("mean, written (not flushed)", hwa["seconds"], mean, report["mean_ratio"], GOALS["mean"]),
        ("the same, by `AveragedModel`", hwa["seconds"], swa, report["swa_ratio"], None),
        (
            f"all {count} windows of {count}, not written",
            hwa["windows_seconds"],
            windows,
            report["windows_ratio"],
            GOALS["windows"],
        ),
        (
            f"all {count} windows of {max(count // 2, 1)}, not written",
            report["half_windows_seconds"],
            half,
            report["half_windows_ratio"],
            None,
        ),
        (
            "mean of `.pt` files, checksums compared by hwa, written",
            report["pt_seconds"],
            pt,
            report["pt_ratio"],
            None,
        ),
    ]
    lines = [
        "# Averages of checkpoints: hwa beside PyTorch",
        "",
        f"{report['date']}, {report['cpu']}, {report['cores']} cores, {report['system']}; "
        f"hwa {report['commit']}, PyTorch {report['torch']}.",
        "",
        f"{count} checkpoints of {report['model']}, {hwa['bytes'] / 1e9:.2f} GB in the page cache. Both sides "
        f"in turn, medians of {len(report['rounds'])} rounds.",
        "",
        "| | hwa | PyTorch | ratio | goal | hwa memory | PyTorch's |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, ours, theirs, ratio, goal in rows:
        goal = f"≥ {goal:.0f}" if goal else "–"
        memory = f"{hwa['peak_rss_mb']:,.0f} MB | {theirs['peak_rss_mb']:,.0f} MB"
        lines.append(f"| {name} | {ours:.3f} s | {theirs['seconds']:.2f} s | {ratio:.1f} | {goal} | {memory} |")
    least, middle, most = hwa["ratio_by_round"]
    lines += [
        "",
        f"Reading the files and nothing else: {hwa['read_gb_per_second']:.1f} GB/s. The mean runs at "
        f"{hwa['gb_per_second']:.1f} GB/s, {100 * hwa['ratio']:.0f} % of that (goal: {100 * GOALS['read']:.0f} %), "
        f"and at {100 * hwa['computed_ratio']:.0f} % where nothing is written. Round by round, each with its own "
        f"reading, it is {100 * least:.0f} to {100 * most:.0f} %, {100 * middle:.0f} % in the middle. "
        f"Memory of hwa: goal at most {GOALS['memory']} MB. Made by `just bench-average`.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
