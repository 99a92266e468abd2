#!/usr/bin/env python3
"""JPEG files decoded and resized by hwa, torchvision and Pillow in turn, as a table of ratios.

    pip install torch torchvision pillow numpy
    peers/torch_decode.py --rounds 3

Makes its own files, 500 x 375 at quality 90: made-up scenes of leaves that hide each other,
with the spectrum of photographs and the noise of a sensor. Their size, 60 to 80 KB, is that of
photographs at this quality. Kinds are 4:2:0, 4:4:4, and progressive at 4:2:0.

A round runs `cargo bench -p hwa-picture --bench decode`, then torchvision (`decode_jpeg`, and
`v2.functional.resize` with antialiasing on the bytes, its fastest way), then Pillow
(`Image.open`, `convert`, `resize`), all on the same single core. Every figure is the fastest
of several passes over all files; a side counts with its median over the rounds.
"""

import argparse
import io
import json
import os
import pathlib
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEIGHT, WIDTH, FILES, SIDE = 375, 500, 24, 256
KINDS = {
    "420": {"subsampling": "4:2:0"},
    "444": {"subsampling": "4:4:4"},
    "progressive": {"subsampling": "4:2:0", "progressive": True},
}
AT_LEAST = 0.4  # seconds for a figure


def main():
    arguments = parse()
    # Inherited by the bench.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    make(arguments.folder)
    bench = ["cargo", "bench", "-q", "-p", "hwa-picture", "--bench", "decode", "--"]
    bench += [str(arguments.folder.resolve())]
    subprocess.run([*bench[:-2], "--no-run"], cwd=ROOT, check=True)
    rounds = []
    for _ in range(arguments.rounds):
        ours = subprocess.run(bench, cwd=ROOT, check=True, capture_output=True, text=True)
        lines = [json.loads(line) for line in ours.stdout.splitlines() if line.startswith("{")]
        figures = {("hwa", line["kind"], what): line[what] for line in lines for what in WHAT}
        rounds.append({**figures, **peers(arguments.folder)})
    print(table(rounds))


WHAT = ("decoded", "resized")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "target/bench-pictures")
    return parser.parse_args()


def make(folder):
    """Files of every kind, the same on every machine up to rounding."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for number in range(FILES):
        image = scene(random)
        for kind, options in KINDS.items():
            image.save(folder / f"{kind}-{number:02}.jpg", quality=90, **options)


def scene(random):
    """Leaves of many sizes that hide each other, over a ground with the spectrum 1/f."""
    import numpy as np
    from PIL import Image

    frequency = np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None])
    frequency[0, 0] = 1

    def cloud(power):
        phases = random.normal(size=(2, *frequency.shape))
        values = np.fft.irfft2((phases[0] + 1j * phases[1]) / frequency**power, (HEIGHT, WIDTH))
        return (values - values.mean()) / values.std()

    pixels = np.stack([cloud(1.5) * 10 for _ in range(3)], -1) + (cloud(1.5) * 40 + 110)[..., None]
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    for _ in range(120):
        radius = min(4 * (1 - random.random() * 0.998) ** -0.5, 120)
        centre = random.uniform(0, HEIGHT), random.uniform(0, WIDTH)
        leaf = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < radius**2
        colour = random.uniform(20, 235) + random.normal(0, 20, 3)
        pixels[leaf] = colour + (pixels[leaf] - 110) * 0.3
    pixels += (cloud(1.0) * 9)[..., None]
    pixels += random.normal(0, 2.5, (HEIGHT, WIDTH, 1)) + random.normal(0, 1, (HEIGHT, WIDTH, 3))
    return Image.fromarray(pixels.clip(0, 255).round().astype(np.uint8))


def peers(folder):
    import torch
    from PIL import Image
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import functional as on_pillow
    from torchvision.transforms.v2 import functional as on_tensors

    torch.set_num_threads(1)

    def tensor(content):
        return decode_jpeg(content, mode=ImageReadMode.RGB)

    def pillow(content):
        return Image.open(io.BytesIO(content)).convert("RGB")

    figures = {}
    for kind in KINDS:
        files = [path.read_bytes() for path in sorted(folder.glob(f"{kind}-*"))]
        tensors = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
        for name, inputs, work in [
            (("torchvision", kind, "decoded"), tensors, tensor),
            (
                ("torchvision", kind, "resized"),
                tensors,
                lambda content: on_tensors.resize(tensor(content), [SIDE], antialias=True),
            ),
            (("Pillow", kind, "decoded"), files, pillow),
            (
                ("Pillow", kind, "resized"),
                files,
                lambda content: on_pillow.resize(pillow(content), SIDE),
            ),
        ]:
            figures[name] = fastest(inputs, work)
    return figures


def fastest(inputs, work):
    """Images a second of the fastest of several passes."""
    best, start, passes = float("inf"), time.perf_counter(), 0
    while passes < 5 or time.perf_counter() - start < AT_LEAST:
        begin = time.perf_counter()
        for content in inputs:
            work(content)
        best = min(best, time.perf_counter() - begin)
        passes += 1
    return len(inputs) / best


def table(rounds):
    lines = [
        "| kind | | hwa | torchvision | Pillow | ratio to the faster | in each round |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for kind in KINDS:
        for what in WHAT:
            sides = {}
            for side in ("hwa", "torchvision", "Pillow"):
                sides[side] = [figures[side, kind, what] for figures in rounds]
            ratios = [
                ours / max(theirs)
                for ours, *theirs in zip(sides["hwa"], sides["torchvision"], sides["Pillow"])
            ]
            hwa, torchvision, pillow = (statistics.median(sides[side]) for side in sides)
            cells = [kind, what, f"{hwa:.0f}", f"{torchvision:.0f}", f"{pillow:.0f}"]
            cells += [f"{hwa / max(torchvision, pillow):.2f}"]
            cells += [" ".join(f"{ratio:.2f}" for ratio in ratios)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
