#!/usr/bin/env python3
"""Makes the files in `pictures/` and what Pillow makes of them, in `pictures.json`.

    pip install pillow numpy
    python crates/hwa-picture/tests/golden/make_pictures.py

Every file holds the same small scene in another way. What Pillow does not write is written
here: PNG of any depth, palette and interlacing, JPEG with patched markers. Resized pictures
start from `noise` below, which `noise` in the tests repeats; the longer side of a picture
resized by its shorter is computed as torchvision computes it.
"""
import io
import json
import pathlib
import shutil
import struct
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).parent
FILES = HERE / "pictures"
HEIGHT, WIDTH = 12, 17  # of no block and of no chroma block a multiple


def main():
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    files = {**jpegs(), **pngs(), **others()}
    pictures = []
    for name, content in sorted(files.items()):
        assert len(content) < 2048, (name, len(content))
        (FILES / name).write_bytes(content)
        pictures.append({"file": name, **described(opened(content))})
    report = {"pillow": PIL.__version__, "pictures": pictures, "resized": resized()}
    (HERE / "pictures.json").write_text(json.dumps(report, indent=1) + "\n")


def opened(content):
    """A picture as it is to be seen."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    if image.mode == "I;16":
        # Pillow would make everything above 255 white.
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def described(image):
    return {"height": image.height, "width": image.width, "pixels": image.tobytes().hex()}


def scene():
    """A slope of colours, an edge, a little noise."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    pixels = np.stack([20 + 13 * columns, 30 + 17 * rows, 230 - 9 * columns - 5 * rows], -1)
    pixels[(rows - 4) ** 2 + (columns - 11) ** 2 < 10] = (240, 60, 20)
    pixels += np.random.default_rng(0).normal(0, 3, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).round().astype(np.uint8))


def saved(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def jpegs():
    image = scene()

    def jpeg(image=image, **options):
        return saved(image, "JPEG", **{"quality": 90, **options})

    # Four slopes that are not those of the colours.
    inks = Image.merge("CMYK", [*image.split(), image.convert("L").transpose(Image.ROTATE_180)])
    files = {
        "444.jpg": jpeg(subsampling="4:4:4"),
        "422.jpg": jpeg(subsampling="4:2:2"),
        "420.jpg": jpeg(subsampling="4:2:0"),
        "grey.jpg": jpeg(image.convert("L")),
        "rgb.jpg": jpeg(keep_rgb=True),
        "cmyk.jpg": jpeg(inks),
        "ycck.jpg": patched_transform(jpeg(inks), 2),
        "cmyk-420.jpg": jpeg(inks, subsampling="4:2:0"),
        "ycck-422.jpg": patched_transform(jpeg(inks, subsampling="4:2:2"), 2),
        "restarts.jpg": jpeg(restart_marker_blocks=1),
        "scans-444.jpg": assembled(1, 1),
        "scans-420.jpg": assembled(2, 2),
        "scans-440.jpg": assembled(1, 2),
        "scans-411.jpg": assembled(4, 1),
        "scans-410.jpg": assembled(4, 2),
        "narrow-420.jpg": jpeg(image.crop((0, 0, 3, 9)), subsampling="4:2:0"),
        "narrow-422.jpg": jpeg(image.crop((0, 0, 4, 9)), subsampling="4:2:2"),
        "one.jpg": jpeg(image.crop((0, 0, 1, 1)), subsampling="4:2:0"),
        "progressive-444.jpg": jpeg(subsampling="4:4:4", progressive=True),
        "progressive-420.jpg": jpeg(subsampling="4:2:0", progressive=True),
        "progressive-grey.jpg": jpeg(image.convert("L"), progressive=True),
        "progressive-cmyk.jpg": jpeg(inks, progressive=True),
    }
    whole = files["444.jpg"]
    files["bytes-between-headers.jpg"] = whole[:20] + b"\x12" * 40 + whole[20:]
    files["bytes-before-end.jpg"] = whole[:-2] + b"\x12" * 40 + whole[-2:]
    files["bytes-behind-end.jpg"] = whole + b"\x12" * 40 + whole[:60]
    files["png-by-name.png"] = whole
    for orientation in range(1, 9):
        files[f"orientation-{orientation}.jpg"] = jpeg(subsampling=0, exif=exif(orientation))
    files["orientation-big-endian.jpg"] = jpeg(subsampling=0, exif=exif(6, ">"))
    files["orientation-9.jpg"] = jpeg(subsampling=0, exif=exif(9))
    return files


def assembled(across, down):
    """A scan for each component, with chroma at a part of the width and height."""
    luma, *chroma = scene().convert("YCbCr").split()
    small = (-(-WIDTH // across), -(-HEIGHT // down))
    parts = [luma, *(plane.resize(small, Image.BOX) for plane in chroma)]
    content, scans = b"", b""
    for number, plane in enumerate(parts, 1):
        # The scan of a grey picture is that of a component, if its tables are the same.
        grey = saved(plane, "JPEG", quality=90)
        frame, tables, scan = (grey.index(bytes([255, marker])) for marker in (0xC0, 0xC4, 0xDA))
        sampling = across << 4 | down if number == 1 else 0x11
        content += bytes([number, sampling, 0])
        scans += grey[scan : scan + 5] + bytes([number]) + grey[scan + 6 : -2]
    size = struct.pack(">BHHB", 8, HEIGHT, WIDTH, 3)
    frame_header = b"\xff\xc0" + struct.pack(">H", 2 + len(size + content)) + size + content
    return grey[:frame] + frame_header + grey[tables:scan] + scans + b"\xff\xd9"


def exif(orientation, order="<"):
    """Nothing but an orientation."""
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return b"Exif\0\0" + head + struct.pack(order + "H", 1) + entry + bytes(4)


def patched_transform(content, transform):
    """Other words on the same components: Adobe's marker says which colours they are."""
    at = content.index(b"Adobe") + 11
    return content[:at] + bytes([transform]) + content[at + 1 :]


def pngs():
    image = scene()
    rgb = np.asarray(image)
    grey = np.asarray(image.convert("L"))
    fade = np.tile(np.linspace(0, 255, WIDTH).astype(np.uint8), (HEIGHT, 1))
    palette = image.quantize(16)
    indices, colours = np.asarray(palette), bytes(palette.getpalette()[:48])
    # The lower byte says something else than the upper.
    deep = lambda samples: samples.astype(np.uint16) * 256 + 255 - samples
    shades = (("PLTE", colours), ("tRNS", bytes(range(0, 256, 16))))
    return {
        "rgb.png": png(rgb, 2),
        "rgb-interlaced.png": png(rgb, 2, interlaced=True),
        "rgb-16.png": png(deep(rgb), 2, 16),
        "rgb-key.png": png(rgb, 2, chunks=(("tRNS", struct.pack(">3H", *rgb[0, 0])),)),
        "rgba.png": png(np.dstack([rgb, fade]), 6),
        "rgba-16.png": png(deep(np.dstack([rgb, fade])), 6, 16),
        "grey.png": png(grey, 0),
        "grey-16.png": png(deep(grey), 0, 16),
        "grey-1.png": png(grey > 120, 0, 1),
        "grey-2.png": png(grey // 64, 0, 2),
        "grey-4.png": png(grey // 16, 0, 4),
        "grey-alpha.png": png(np.dstack([grey, fade]), 4),
        "grey-interlaced.png": png(grey // 16, 0, 4, interlaced=True),
        "palette.png": png(indices, 3, 8, chunks=(("PLTE", colours),)),
        "palette-4.png": png(indices, 3, 4, chunks=(("PLTE", colours),)),
        "palette-transparent.png": png(indices, 3, 8, chunks=shades),
        "jpeg-by-name.JPEG": png(rgb, 2),
        "orientation.png": png(rgb, 2, chunks=(("eXIf", exif(8)[6:]),)),
    }


def png(samples, kind, depth=8, interlaced=False, chunks=()):
    """Unfiltered, of any kind and depth."""
    samples = np.atleast_3d(np.asarray(samples))
    height, width = samples.shape[:2]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4)]
        passes += [(2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    data = b""
    for top, left, down, across in passes:
        for row in samples[top::down, left::across]:
            data += b"\0" + packed(row.reshape(-1), depth) if row.size else b""
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    chunks = [("IHDR", head), *chunks, ("IDAT", zlib.compress(data, 9)), ("IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)


def packed(values, depth):
    if depth == 16:
        return values.astype(">u2").tobytes()
    bits = (values[:, None] >> np.arange(depth - 1, -1, -1)) & 1 if depth < 8 else None
    return values.astype(np.uint8).tobytes() if bits is None else np.packbits(bits).tobytes()


def chunk(name, content):
    body = name.encode() + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def others():
    image = scene()
    grey, palette = image.convert("L"), image.quantize(16)
    faded = image.copy()
    faded.putalpha(Image.linear_gradient("L").resize(image.size))
    turned = image.transpose(Image.ROTATE_180).quantize(16)
    gif = {"transparency": 3, "disposal": 1}
    webp = {"lossless": True, "exact": True}
    return {
        "palette.gif": saved(palette, "GIF"),
        "transparent.gif": saved(palette, "GIF", **gif),
        "interlaced.gif": saved(palette, "GIF", interlace=1),
        "animated.gif": saved(palette, "GIF", save_all=True, append_images=[turned]),
        "rgb.bmp": saved(image, "BMP"),
        "rgba.bmp": saved(faded, "BMP"),
        "grey.bmp": saved(grey, "BMP"),
        "palette.bmp": saved(palette, "BMP"),
        "bilevel.bmp": saved(grey.convert("1"), "BMP"),
        "lossless.webp": saved(image, "WEBP", **webp),
        "lossless-alpha.webp": saved(faded, "WEBP", **webp),
        "lossy.webp": saved(image, "WEBP", quality=80),
        "lossy-alpha.webp": saved(faded, "WEBP", quality=80, exact=True),
        "orientation.webp": saved(image, "WEBP", exif=exif(5), **webp),
        "rgb.tiff": saved(image, "TIFF"),
        "lzw.tiff": saved(image, "TIFF", compression="tiff_lzw"),
        "deflate.tiff": saved(image, "TIFF", compression="tiff_adobe_deflate"),
        "grey.tiff": saved(grey, "TIFF"),
        "rgba.tiff": saved(faded, "TIFF"),
    }


def noise(stream, count):
    """Bytes: the highest of SplitMix64 of (stream, index)."""
    with np.errstate(over="ignore"):
        z = np.arange(count, dtype=np.uint64) + np.uint64(stream) * np.uint64(1 << 32)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(56)).astype(np.uint8)


def resized():
    cases = []

    def case(stream, source, rectangle, height, width, shorter=None):
        rows, columns = source
        pixels = noise(stream, rows * columns * 3).reshape(rows, columns, 3)
        top, left, down, across = rectangle
        part = Image.fromarray(pixels).crop((left, top, left + across, top + down))
        part = part.resize((width, height), Image.BILINEAR)
        names = {"stream": stream, "source": source, "rectangle": rectangle, "shorter": shorter}
        cases.append({**names, **described(part)})

    for stream, (source, shorter) in enumerate(
        [((37, 53), 16), ((53, 37), 16), ((9, 14), 20), ((11, 90), 10), ((30, 30), 7), ((5, 9), 5)]
    ):
        short, long = min(source), max(source)
        long = int(shorter * long / short)
        height, width = (shorter, long) if source[0] < source[1] else (long, shorter)
        case(stream, source, (0, 0, *source), height, width, shorter)
    for stream, (rectangle, height, width) in enumerate(
        [
            ((3, 5, 20, 30), 12, 12),
            ((0, 0, 4, 4), 19, 23),
            ((10, 20, 27, 33), 27, 10),
            ((10, 20, 27, 33), 10, 33),
            ((10, 20, 8, 9), 8, 9),
            ((36, 52, 1, 1), 3, 2),
            ((0, 0, 37, 53), 1, 1),
            ((0, 0, 37, 53), 36, 52),
        ],
        start=100,
    ):
        case(stream, (37, 53), rectangle, height, width)
    return cases


if __name__ == "__main__":
    main()
