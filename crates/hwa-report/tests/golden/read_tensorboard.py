#!/usr/bin/env python3
"""Reads the scalars of a folder of event files with TensorBoard itself, as JSON: by tag, a list of
[step, value].

    pip install tensorboard
    crates/hwa-report/tests/golden/read_tensorboard.py RUN/tensorboard
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    events = EventAccumulator(sys.argv[1])
    events.Reload()
    tags = events.Tags()["scalars"]
    print(json.dumps({tag: [[s.step, s.value] for s in events.Scalars(tag)] for tag in tags}))


if __name__ == "__main__":
    main()
