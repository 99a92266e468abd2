#!/usr/bin/env python3
"""Makes the golden files beside it: the `meta.mat` of ImageNet's development kit, in small.

    pip install numpy scipy
    python crates/hwa-data/tests/golden/make_matlab.py

Three leaves and an inner synset that has two of them, with the fields of the original and in
its shape, a column of structs; once as it is and once compressed. Another variable comes
before it. What is to be read of it is written out in the tests.
"""
import pathlib

import numpy as np
from scipy.io import savemat

HERE = pathlib.Path(__file__).parent
NONE = np.zeros((1, 0))
# Numbers are of several types, and in another order than names: neither is to matter.
SYNSETS = [
    ("ILSVRC2012_ID", [1.0, np.uint8(3), np.int16(2), 4.0]),
    ("WNID", ["n02119789", "n02100735", "n07753592", "n02075296"]),
    ("words", ["kit fox, Vulpes macrotis", "English setter", "banana", "carnivore"]),
    ("gloss", ["small grey fox", "an English breed", "elongated, yellow", "a café's cat"]),
    ("num_children", [0.0, np.uint8(0), np.int16(0), 2.0]),
    ("children", [NONE, NONE, NONE, np.array([[1, 3]], dtype=np.uint16)]),
    ("wordnet_height", [0.0, 0.0, 0.0, 6.0]),
    ("num_train_images", [1300.0, 1300.0, 1300.0, 0.0]),
]


def main():
    rows = list(zip(*(values for _, values in SYNSETS)))
    synsets = np.empty((len(rows), 1), dtype=[(name, object) for name, _ in SYNSETS])
    for number, row in enumerate(rows):
        synsets[number, 0] = row
    variables = {"note": "before the synsets", "synsets": synsets}
    for name, compressed in [("meta.mat", False), ("meta_compressed.mat", True)]:
        savemat(HERE / name, variables, do_compression=compressed)
        # The time is in the first line: files are equal whenever they are made.
        with open(HERE / name, "r+b") as file:
            file.write(b"MATLAB 5.0 MAT-file, made by scipy".ljust(116))


if __name__ == "__main__":
    main()
