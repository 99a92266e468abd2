#!/usr/bin/env python3
"""What PyTorch makes of methods and schedules, for `tests/methods.rs`.

    pip install torch
    crates/hwa-train/tests/golden/make_methods.py > crates/hwa-train/tests/golden/methods.json

The model is a point w whose loss on a step is |w - target|^2 / 2 + 0.02 * sum((w - target)^4), so
that its gradient is not linear. SAM and Lookahead are written out here from their papers'
algorithms, around torch.optim.SGD; EMA, SWA and the schedules are PyTorch's own.
"""
import json

import torch
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS, SIZE, RATE, MOMENTUM, DECAY = 24, 4, 0.05, 0.9, 5e-4
RHO, PERIOD, ALPHA, KEPT = 0.05, 5, 0.8, 0.9


class Point(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(1.0, SIZE + 1, dtype=torch.float64))

    def forward(self, target):
        away = self.w - target
        return (away**2).sum() / 2 + 0.02 * (away**4).sum()


def targets():
    torch.manual_seed(0)
    return torch.randn(STEPS, SIZE, dtype=torch.float64).float().double()


def trained(step):
    """The weights after every step, by what a method does in one."""
    model = Point()
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
    state, trace = {}, []
    for number, target in enumerate(targets()):
        trace.append(step(model, sgd, target, number, state).tolist())
    return trace


def descend(model, sgd, target):
    sgd.zero_grad()
    model(target).backward()
    sgd.step()


def plain(model, sgd, target, number, state):
    descend(model, sgd, target)
    return model.w.detach()


def sam(model, sgd, target, number, state):
    before = model.w.detach().clone()
    sgd.zero_grad()
    model(target).backward()
    with torch.no_grad():
        model.w += RHO * model.w.grad / (model.w.grad.norm() + 1e-12)
    sgd.zero_grad()
    model(target).backward()
    with torch.no_grad():
        model.w.copy_(before)
    sgd.step()
    return model.w.detach()


def lookahead(model, sgd, target, number, state):
    slow = state.setdefault("slow", model.w.detach().clone())
    descend(model, sgd, target)
    if (number + 1) % PERIOD == 0:
        slow += ALPHA * (model.w.detach() - slow)
        with torch.no_grad():
            model.w.copy_(slow)
    return slow


def ema(model, sgd, target, number, state):
    if not state:
        state["ema"] = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(KEPT))
        # Its first update copies: the initial weights.
        state["ema"].update_parameters(model)
    descend(model, sgd, target)
    state["ema"].update_parameters(model)
    return state["ema"].module.w.detach()


def swa(model, sgd, target, number, state):
    """The mean of the samples after every PERIOD steps."""
    average = state.setdefault("swa", AveragedModel(model))
    descend(model, sgd, target)
    if (number + 1) % PERIOD == 0:
        average.update_parameters(model)
    return average.module.w.detach()


def rates(make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    schedule, found = make(optimizer), []
    for _ in range(STEPS):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def main():
    print(json.dumps({
        "targets": targets().tolist(),
        "methods": {f.__name__: trained(f) for f in (plain, sam, lookahead, ema, swa)},
        "rates": {
            "cosine": rates(lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS)),
            "restarts": rates(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2)),
            "equal_restarts": rates(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7)),
            "step": rates(lambda o: lr_scheduler.MultiStepLR(o, [6, 13], 0.1)),
        },
    }))


if __name__ == "__main__":
    main()
