#!/usr/bin/env python3
"""What PyTorch makes of methods and schedules, for `tests/methods.rs`.

    pip install torch==2.15.0 pytorch_optimizer==4.0.0
    crates/hwa-train/tests/golden/make_methods.py > crates/hwa-train/tests/golden/methods.json

The model is two points, w and u, whose loss on a step is |x - target|^2 / 2 + 0.02 * sum((x -
target)^4), a fifth of that for u, so that gradients are not linear, and differ in size between
tensors. SAM and Lookahead are those of pytorch_optimizer 4.0.0, around torch.optim.SGD. That and
all else is of torch 2.15.0: EMA is PyTorch's own, begun with zeros, whose part is divided out at
the end; SWA and the schedules are PyTorch's own. In pytorch_optimizer 4.1.0 SAM takes the
gradient's norm in single precision, and its weights are up to 7e-9 away from these.
"""
import json

import torch
from pytorch_optimizer import SAM, Lookahead
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

STEPS, SIZE, FIRST, RATE, MOMENTUM, DECAY = 24, 6, 4, 0.05, 0.9, 5e-4
RHO, PERIOD, ALPHA, KEPT = 0.05, 5, 0.8, 0.9
SGD = {"lr": RATE, "momentum": MOMENTUM, "weight_decay": DECAY}


class Point(torch.nn.Module):
    def __init__(self):
        super().__init__()
        start = torch.arange(1.0, SIZE + 1, dtype=torch.float64)
        self.w = torch.nn.Parameter(start[:FIRST].clone())
        self.u = torch.nn.Parameter(start[FIRST:].clone())

    def forward(self, target):
        def loss(away):
            return (away**2).sum() / 2 + 0.02 * (away**4).sum()

        return loss(self.w - target[:FIRST]) + 0.2 * loss(self.u - target[FIRST:])

    def point(self):
        return torch.cat([self.w.detach(), self.u.detach()])

    def go_to(self, point):
        with torch.no_grad():
            self.w.copy_(point[:FIRST])
            self.u.copy_(point[FIRST:])


def targets():
    torch.manual_seed(0)
    return torch.randn(STEPS, SIZE, dtype=torch.float64).float().double()


def trained(step):
    """The weights after every step, by what a method does in one."""
    model = Point()
    sgd = torch.optim.SGD(model.parameters(), **SGD)
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
    return model.point()


def sam(model, sgd, target, number, state):
    """Around an SGD that it makes itself."""
    if "sam" not in state:
        state["sam"] = SAM(model.parameters(), torch.optim.SGD, rho=RHO, **SGD)

    def gradient():
        state["sam"].zero_grad()
        model(target).backward()

    gradient()
    state["sam"].step(gradient)
    return model.point()


def lookahead(model, sgd, target, number, state):
    """The slow weights; momentum goes on as it is."""
    if "lookahead" not in state:
        state["lookahead"] = Lookahead(sgd, k=PERIOD, alpha=ALPHA, pullback_momentum="none")
    descend(model, state["lookahead"], target)
    state["lookahead"].backup_and_load_cache()
    slow = model.point()
    state["lookahead"].clear_and_load_backup()
    return slow


def ema(model, sgd, target, number, state):
    if "ema" not in state:
        zero = Point()
        zero.go_to(torch.zeros(SIZE, dtype=torch.float64))
        state["ema"] = AveragedModel(zero, avg_fn=get_ema_avg_fn(KEPT))
        state["ema"].update_parameters(zero)  # it takes the first as it is
    descend(model, sgd, target)
    state["ema"].update_parameters(model)
    return state["ema"].module.point() / (1 - KEPT ** (number + 1))


def swa(model, sgd, target, number, state):
    """The mean of the samples after every PERIOD steps."""
    average = state.setdefault("swa", AveragedModel(model))
    descend(model, sgd, target)
    if (number + 1) % PERIOD == 0:
        average.update_parameters(model)
    return average.module.point()


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
            "linear": rates(lambda o: lr_scheduler.PolynomialLR(o, STEPS, 1.0)),
            "restarts": rates(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2)),
            "equal_restarts": rates(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7)),
            "step": rates(lambda o: lr_scheduler.MultiStepLR(o, [6, 13], 0.1)),
        },
    }))


if __name__ == "__main__":
    main()
