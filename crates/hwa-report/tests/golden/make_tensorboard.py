#!/usr/bin/env python3
"""An event file as TensorBoard itself writes it, for the tests of `src/tensorboard.rs`.

    pip install tensorboard
    crates/hwa-report/tests/golden/make_tensorboard.py crates/hwa-report/tests/golden/scalars.tfevents
"""
import sys

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def scalars(step, wall_time, values):
    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in values]
    return Event(wall_time=wall_time, step=step, summary=Summary(value=values))


def main():
    with open(sys.argv[1], "wb") as file:
        writer = RecordWriter(file)
        for event in (
            Event(wall_time=1.5, file_version="brain.Event:2"),
            scalars(79, 2.25, [("loss/train", 4.4498), ("rate", 0.0999)]),
            scalars(158, 3.0, [("accuracy/HWA, window 20", 12.5), ("loss/outer", float("inf"))]),
            scalars(300, 4.0, [("x" * 200, -1.0)]),
        ):
            writer.write(event.SerializeToString())
        writer.flush()


if __name__ == "__main__":
    main()
