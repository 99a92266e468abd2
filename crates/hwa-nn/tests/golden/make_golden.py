#!/usr/bin/env python3
"""Makes the golden files beside it: what PyTorch computes, for the tests to compare with.

    pip install torch torchvision numpy
    python crates/hwa-nn/tests/golden/make_golden.py

The files were made with the version of PyTorch that each of them states, on the CPU.
References are computed in double precision; where a test bounds an error, the error of
PyTorch's own single precision against them is stored as well.

Weights and images are not stored. `noise` below and `noise` in the tests draw the same.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

HERE = pathlib.Path(__file__).parent
CLASSES = 10
IMAGES = 1000  # the stream of the images; those of the weights count from 0
PROJECTIONS = 4  # signed sums stored per gradient
LARGE = 10**7  # elements; one signed sum over more is enough


def noise(stream, count):
    """Numbers in [-1, 1): SplitMix64 of (stream, index), exact in single precision."""
    with np.errstate(over="ignore"):
        z = np.arange(count, dtype=np.uint64) + np.uint64(stream) * np.uint64(1 << 32)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0


class Block(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, s, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.relu = nn.ReLU()
        self.grow, self.stride = o - i, s

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.stride != 1 or self.grow:  # option A: subsample, zero-pad the channels
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.grow // 2, self.grow // 2))
        return self.relu(y + x)


class ResNet(nn.Module):
    def __init__(self, depth, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        n, i = (depth - 2) // 6, 16
        for k, o in enumerate((16, 32, 64)):
            blocks = []
            for b in range(n):
                blocks.append(Block(i, o, 2 if k and not b else 1))
                i = o
            setattr(self, f"layer{k + 1}", nn.Sequential(*blocks))
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean((2, 3)))


class Vgg16(nn.Module):
    """For CIFAR, with batch norm and one linear layer."""

    def __init__(self, classes):
        super().__init__()
        layers, i = [], 3
        for group in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
            for o in group:
                layers += [nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU()]
                i = o
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def mobilenet_v2_cifar(classes):
    """torchvision's, with two strides less for images of 32 x 32; dropout has masks of its own."""
    net = torchvision.models.mobilenet_v2(num_classes=classes, dropout=0.0)
    net.features[0][0].stride = (1, 1)
    net.features[2].conv[1][0].stride = (1, 1)
    return net


def fill(net, shifts=(0.0, 0.0)):
    """Parameters from noise, in the order of their names; rounded to single precision.

    Batch norms shift by one of two `shifts`, and their deviation is about a half. Shifted by
    1.5 up or down, most values are far from the kink of the activation that follows, and one
    in a thousand lies beyond it. Where depthwise convolutions follow, all are shifted up: a
    channel that is nearly constant would be magnified by the next batch norm, errors and all.
    """
    for stream, (name, p) in enumerate(sorted(net.named_parameters())):
        u = noise(stream, p.numel())
        if p.dim() == 4:  # a convolution, [O, I / groups, kh, kw]
            u = u * (6.0 / (p.shape[1] * p.shape[2] * p.shape[3])) ** 0.5
        elif p.dim() == 2:  # a linear layer
            u = u * (1.0 / p.shape[1]) ** 0.5
        elif name.endswith("weight"):  # of a batch norm
            u = 0.5 + 0.125 * u
        else:
            u = np.where(u < 0, *shifts) + 0.25 * u
        p.data = torch.from_numpy(u.astype(np.float32).reshape(tuple(p.shape))).to(p.dtype)
    return net


def images(stream, n, size):
    u = (2.0 * noise(stream, n * size * size * 3)).astype(np.float32)
    return torch.from_numpy(u.reshape(n, size, size, 3)).permute(0, 3, 1, 2).contiguous()


def distance(layer, x):
    """The smallest distance of anything in x from a kink of the layer."""
    if isinstance(layer, nn.MaxPool2d):
        k, s, p = layer.kernel_size, layer.stride, layer.padding
        windows = F.pad(x, (p, p, p, p), value=-torch.inf).unfold(2, k, s).unfold(3, k, s).flatten(4)
        first, second = windows.topk(2).values.unbind(-1)
        # Of a window of zeros any may be the largest: the ReLU before lets no gradient pass.
        return (first - second)[first > 0].min().item()
    kinks = [0.0, 6.0] if isinstance(layer, nn.ReLU6) else [0.0]
    return min((x - kink).abs().min().item() for kink in kinks)


def kinked(net, x):
    """The layers with kinks, and what enters them in training mode."""
    found, hooks = [], []
    for layer in net.modules():
        if isinstance(layer, (nn.ReLU, nn.ReLU6, nn.MaxPool2d)):
            hooks.append(layer.register_forward_pre_hook(lambda m, i: found.append((m, i[0].double().clone()))))
    with torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return found


def margin(exact, single, x):
    """The smallest distance of anything from a kink, in units of the largest error that single
    precision makes in that layer."""
    pairs = zip(kinked(exact, x.double()), kinked(single, x))
    return min(distance(layer, a) / (a - b).abs().max().item() for (layer, a), (_, b) in pairs)


def listed(t):
    return t.detach().double().flatten().tolist()


def short(t):
    """Ten digits: three more than single precision has."""
    return [float(f"{v:.10g}") for v in listed(t)]


def relative(found, reference):
    found, reference = found.detach().double(), reference.detach()
    return ((found - reference).abs().max() / reference.abs().max()).item()


def checked(exact, single):
    """Values in double precision, with the error of single precision."""
    return {k: {"values": listed(v), "torch_error": relative(single[k], v)} for k, v in exact.items()}


def write(name, content):
    content = {"made_with": f"torch {torch.__version__}", **content}
    (HERE / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")


def sgd():
    shapes, steps = {"a": (3, 2), "b": (5,)}, 6
    p = {k: torch.from_numpy(noise(i, int(np.prod(s))).reshape(s)) for i, (k, s) in enumerate(shapes.items())}
    p = {k: v.requires_grad_() for k, v in p.items()}
    opt = torch.optim.SGD(p.values(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    trace = []
    for step in range(steps):
        for group in opt.param_groups:
            group["lr"] = 0.1 / (step + 1)
        for i, (k, v) in enumerate(p.items()):
            v.grad = torch.from_numpy(noise(100 + 10 * step + i, v.numel()).reshape(v.shape))
        opt.step()
        trace.append({"weights": {k: listed(v) for k, v in p.items()},
                      "momentum": {k: listed(opt.state[v]["momentum_buffer"]) for k, v in p.items()}})
    write("sgd", {"trace": trace})


def cosine():
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=60, eta_min=0.001)
    rates = []
    for _ in range(60):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    write("cosine", {"peak": 0.1, "floor": 0.001, "rates": rates})


def cross_entropy():
    """Scores of usual size, scores so large that a naive exponential overflows, scores that say
    nothing, and scores that are no numbers: in the second row, which has label 7."""
    n, classes = 7, 11
    u = noise(0, n * classes).reshape(n, classes)

    def with_second(columns, value):
        scores = 8 * u
        scores[1, columns] = value
        return scores

    cases = {"usual": 8 * u, "large": 1e4 * u, "plus or minus 1e4": np.where(u < 0, -1e4, 1e4),
             "equal": np.full_like(u, 3.25), "equal and large": np.full_like(u, -1e4),
             "impossible class": with_second([0, 5], -np.inf), "impossible label": with_second(7, -np.inf),
             "only the label possible": with_second([c for c in range(classes) if c != 7], -np.inf),
             "nothing possible": with_second(slice(None), -np.inf), "certain class": with_second(3, np.inf),
             "certain label": with_second(7, np.inf), "NaN": with_second(3, np.nan), "NaN label": with_second(7, np.nan)}
    labels = [(5 * i + 2) % classes for i in range(n)]
    content = {}
    for name, values in cases.items():
        scores = torch.from_numpy(values).float().double().requires_grad_()
        loss = F.cross_entropy(scores, torch.tensor(labels))
        loss.backward()
        content[name] = {"scores": named(listed(scores)), "loss": named([loss.item()])[0],
                         "gradient": named(listed(scores.grad))}
    write("cross_entropy", {"labels": labels, "cases": content})


def named(values):
    """What is not a number by its name: JSON has none for it."""
    return [v if np.isfinite(v) else str(v) for v in values]


def convolve(case, number, dtype):
    """Output and gradients of a convolution of noise; the images are [N, H, W, C]."""
    n, (h, w), (i, o), k = 2, case["size"], case["channels"], case["kernel"]

    def draw(stream, *shape):
        u = noise(10 * number + stream, int(np.prod(shape)))
        return torch.from_numpy(u.reshape(shape)).to(dtype).requires_grad_()

    x, weight, bias = draw(0, n, h, w, i), draw(1, o, i // case["groups"], k, k), draw(2, o)
    y = F.conv2d(x.permute(0, 3, 1, 2), weight, bias, case["stride"], case["padding"], groups=case["groups"])
    y = y.permute(0, 2, 3, 1)
    (y * draw(3, *y.shape).detach()).sum().backward()
    return {"output": y, "x_gradient": x.grad, "weight_gradient": weight.grad, "bias_gradient": bias.grad}


def convolutions():
    def case(name, size, channels, kernel, stride=1, padding=0, groups=1):
        return {"name": name, "size": size, "channels": channels, "kernel": kernel,
                "stride": stride, "padding": padding, "groups": groups}

    cases = [
        case("3 x 3", (5, 6), (3, 4), 3, padding=1),
        case("two groups", (5, 4), (4, 6), 3, padding=1, groups=2),
        case("depthwise", (6, 5), (5, 5), 3, padding=1, groups=5),
        case("depthwise to twice the channels", (5, 5), (3, 6), 3, stride=2, padding=1, groups=3),
        case("1 x 1", (3, 4), (4, 7), 1),
        case("1 x 1, stride 2", (5, 4), (4, 3), 1, stride=2),
        case("3 x 3, stride 2, odd sizes", (7, 5), (3, 4), 3, stride=2, padding=1),
        case("7 x 7, stride 2", (9, 11), (3, 4), 7, stride=2, padding=3),
        case("5 x 5 without padding", (8, 7), (2, 3), 5),
    ]
    for number, case in enumerate(cases):
        case["tensors"] = checked(convolve(case, number, torch.float64), convolve(case, number, torch.float32))
    write("convolutions", {"cases": cases})


def initial():
    """What PyTorch's initialisers draw from: bounds of uniform, deviations of normal draws."""
    linear, conv = nn.Linear(64, 100), nn.Conv2d(32, 48, 3, groups=4)
    fan_in, _ = nn.init._calculate_fan_in_and_fan_out(linear.weight)
    _, fan_out = nn.init._calculate_fan_in_and_fan_out(conv.weight)
    bound = nn.init.calculate_gain("leaky_relu", 5**0.5) * (3 / fan_in) ** 0.5
    assert linear.weight.abs().max() <= bound and linear.bias.abs().max() <= bound
    # Convolutions as in torchvision's ResNets: kaiming_normal_(mode="fan_out", nonlinearity="relu").
    # Those of VGG and ShuffleNet: PyTorch's default.
    default = nn.Conv2d(32, 64, 5, groups=4)
    fan_in, _ = nn.init._calculate_fan_in_and_fan_out(default.weight)
    default_bound = nn.init.calculate_gain("leaky_relu", 5**0.5) * (3 / fan_in) ** 0.5
    assert default.weight.abs().max() <= default_bound and default.bias.abs().max() <= default_bound
    write("initial", {"linear": {"input": 64, "output": 100, "bound": bound},
                      "default_conv": {"input": 32, "output": 64, "kernel": 5, "groups": 4, "bound": default_bound},
                      "conv": {"input": 32, "output": 48, "kernel": 3, "groups": 4,
                               "deviation": nn.init.calculate_gain("relu") / fan_out**0.5}})


ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "relu6": F.relu6}


def batch_norm_run(case, dtype):
    channels, size = 3, 4
    activate = ACTIVATIONS[case["activation"]]
    bn = nn.BatchNorm2d(channels).to(dtype)
    bn.weight.data = torch.from_numpy(1 + 0.5 * noise(0, channels)).float().to(dtype)
    bn.bias.data = torch.from_numpy(0.5 * noise(1, channels)).float().to(dtype)

    def nhwc(stream, n, mean=0.0, scale=1.0):
        u = scale * noise(stream, n * size * size * channels) + mean
        return torch.from_numpy(u).reshape(n, size, size, channels).float().to(dtype)

    def normalise(x):
        return bn(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    def before_activation(x, residual):
        y = normalise(x) + residual if case["residual"] else normalise(x)
        # A rounding error across a kink would drown all others.
        kinks = {"none": [], "relu": [0.0], "relu6": [0.0, 6.0]}[case["activation"]]
        assert all((y - kink).abs().min() > 1e-4 for kink in kinks), case
        return y

    batches = []
    for i, n in enumerate(case["sizes"]):
        x = nhwc(10 + i, n, 100.0 * (1 + i)).requires_grad_()
        r, g = nhwc(20 + i, n, scale=case["residual"]).requires_grad_(), nhwc(30 + i, n)
        bn.zero_grad()
        y = activate(before_activation(x, r))
        (y * g).sum().backward()
        found = {"output": y, "x_gradient": x.grad, "weight_gradient": bn.weight.grad.clone(),
                 "bias_gradient": bn.bias.grad.clone(),
                 "running_mean": bn.running_mean.clone(), "running_var": bn.running_var.clone()}
        if case["residual"]:
            found["residual_gradient"] = r.grad
        batches.append(found)
    bn.eval()
    evaluated = activate(before_activation(nhwc(10, 6, 100.0), nhwc(20, 6, scale=case["residual"])))
    return batches + [{"evaluated": evaluated}]


def batch_norm():
    """activation(bn(x) + residual) over three batches, the last smaller, then in evaluation.

    The means are 100, 200 and 300, the deviation about 0.6. `residual` is the residual's
    scale, 0 if there is none; that of relu6 is large enough to pass 6.
    """
    cases = [{"activation": "relu", "residual": 1.0}, {"activation": "none", "residual": 0.0},
             {"activation": "relu6", "residual": 8.0}]
    for case in cases:
        case["sizes"] = [6, 6, 2]
        exact, single = batch_norm_run(case, torch.float64), batch_norm_run(case, torch.float32)
        case["runs"] = [checked(run, found) for run, found in zip(exact, single)]
    write("batch_norm", {"cases": cases})


def step(net, x, labels):
    net.train()
    net.zero_grad()
    scores = net(x)
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    net.eval()
    with torch.no_grad():
        evaluated = net(x)
    buffers = {k: b for k, b in net.named_buffers() if b.is_floating_point()}
    return loss, scores, evaluated, {k: p.grad for k, p in net.named_parameters()}, buffers


# How each network is built and its batch norms shift, for how many images of which size, how
# many draws of them are tried, and how many elements of each gradient and statistic are stored.
# The larger the network, the more values come near a kink.
NETWORKS = {
    "resnet20": (lambda: ResNet(20, CLASSES), (0.0, 0.0), 4, 8, 2000, 24),
    "resnet110": (lambda: ResNet(110, CLASSES), (-1.5, 1.5), 8, 8, 200, 8),
    "vgg16_cifar": (lambda: Vgg16(CLASSES), (-1.5, 1.5), 4, 32, 200, 24),
    "mobilenet_v2_cifar": (lambda: mobilenet_v2_cifar(CLASSES), (1.5, 1.5), 4, 16, 200, 24),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=CLASSES), (1.5, 1.5), 4, 64, 200, 24),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=CLASSES), (1.5, 1.5), 3, 64, 100, 24),
    "vgg16_bn": (lambda: torchvision.models.vgg16_bn(num_classes=CLASSES, dropout=0.0, init_weights=False),
                 (-1.5, 1.5), 2, 64, 400, 24),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(num_classes=CLASSES, dropout=0.0), (1.5, 1.5), 4, 64, 200, 24),
    "shufflenet_v2_x1_0": (lambda: torchvision.models.shufflenet_v2_x1_0(num_classes=CLASSES), (1.5, 1.5), 4, 64, 200, 24),
}


def sampled(t, count):
    flat = t.detach().double().flatten()
    count = min(count, flat.numel())
    return flat[[i * flat.numel() // count for i in range(count)]]


def gradient(name, grads, grads_32, count):
    """Samples of a gradient and signed sums over it, with the errors of single precision."""
    g, found = grads[name].flatten(), grads_32[name].double().flatten()
    largest, norm = g.abs().max().item(), g.norm().item()
    weight = grads[name.rpartition(".")[0] + ".weight"].abs().max().item()
    if largest < 1e-9 * weight:
        # The bias of a convolution before a batch norm, which takes it away again: its gradient
        # is zero but for rounding, and that is measured by the gradient of the weights.
        largest, norm = weight, weight * g.numel() ** 0.5
    projections, errors = [], []
    for i in range(PROJECTIONS if g.numel() < LARGE else 1):
        signs = torch.from_numpy(np.sign(noise(2000 + i, g.numel()) + 1e-9))
        projections.append((signs * g).sum())
        errors.append((signs * (found - g)).sum().abs() / norm)
    return {"largest": largest, "norm": norm, "samples": short(sampled(g, count)),
            "projections": short(torch.stack(projections)),
            "torch_error": (sampled(found - g, count).abs().max() / largest).item(),
            "torch_projection_errors": short(torch.stack(errors))}


def network(name):
    """Scores, gradients, running statistics of one training step.

    A rounding error that moves a value across the kink of an activation, or makes another one
    the largest of its window, changes gradients by per cents and drowns all others. So the
    images are those, of many draws, that keep the largest distance from every kink. Few and
    small images have few values that could come near one; but of too few values in a channel
    batch norm makes too much of an error.
    """
    build, shifts, n, size, draws, count = NETWORKS[name]
    exact, single = fill(build().double(), shifts).train(), fill(build(), shifts).train()
    margins = {s: margin(exact, single, images(s, n, size)) for s in range(IMAGES, IMAGES + draws)}
    stream = max(margins, key=margins.get)
    print(f"{name}: margin {margins[stream]:.1f}")
    # Afresh: the draws have moved the running statistics.
    exact, single = fill(build().double(), shifts), fill(build(), shifts)
    x, labels = images(stream, n, size), torch.arange(n) % CLASSES
    loss, scores, evaluated, grads, buffers = step(exact, x.double(), labels)
    loss_32, scores_32, evaluated_32, grads_32, buffers_32 = step(single, x, labels)
    write(name, {
        "shifts": shifts, "images": n, "size": size, "stream": stream, "margin": margins[stream],
        "loss": loss.item(), "scores": short(scores), "evaluated": short(evaluated),
        "torch_loss_error": abs(loss_32.item() / loss.item() - 1), "torch_scores_error": relative(scores_32, scores),
        "torch_evaluated_error": relative(evaluated_32, evaluated),
        "gradients": {k: gradient(k, grads, grads_32, count) for k in grads},
        "statistics": {k: {"samples": short(sampled(b, count)),
                           "torch_error": relative(sampled(buffers_32[k], count), sampled(b, count))}
                       for k, b in buffers.items()}})


ALL = (*(f"resnet{depth}" for depth in (8, 20, 32, 44, 56, 110)), "vgg16_cifar", "mobilenet_v2_cifar",
       "resnet18", "resnet50", "vgg16_bn", "mobilenet_v2", "shufflenet_v2_x1_0")


def by_name(name, classes):
    """A network of `hwa models`, as PyTorch initialises it."""
    if name == "vgg16_cifar":
        return Vgg16(classes)
    if name == "mobilenet_v2_cifar":
        return mobilenet_v2_cifar(classes)
    if name in torchvision.models.list_models():
        return getattr(torchvision.models, name)(num_classes=classes)
    return ResNet(int(name.removeprefix("resnet")), classes)


def state_dicts():
    """Names, shapes and types of every network's tensors."""
    networks = {}
    for name in ALL:
        with torch.device("meta"):
            state = by_name(name, CLASSES).state_dict()
        networks[name] = [[k, list(v.shape), str(v.dtype).removeprefix("torch.")] for k, v in state.items()]
    write("state_dicts", {"networks": networks})


SAFETENSORS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
               torch.int64: "I64"}


def write_safetensors(path, state):
    """The format is a header in JSON, its length before it, and the tensors after it."""
    header, offset = {}, 0
    for name, tensor in state.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": SAFETENSORS[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for tensor in state.values():
            file.write(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())


def trained_looking(net):
    """Running statistics that are not those that every layer begins with."""
    for number, (name, buffer) in enumerate(sorted(net.named_buffers())):
        if buffer.is_floating_point():
            u = torch.from_numpy(noise(3000 + number, buffer.numel())).to(buffer.dtype)
            buffer.copy_(1 + 0.5 * u if name.endswith("running_var") else 0.2 * u)
        else:
            buffer.fill_(7)
    return net.eval()


def evaluated(net, size):
    """Scores of two images."""
    with torch.no_grad():
        return net(images(IMAGES, 2, size).to(next(net.parameters()).dtype))


def saved():
    """A ResNet-8 that PyTorch saved in half precision, and what it makes of two images, computed
    in double precision."""
    torch.manual_seed(0)
    net = trained_looking(ResNet(8, CLASSES)).half()
    write_safetensors(HERE / "resnet8_f16.safetensors", net.state_dict())
    exact, single = evaluated(net.double(), 16), evaluated(net.float(), 16)
    write("resnet8_f16", {"size": 16, "scores": short(exact), "torch_error": relative(single, exact)})


def pooled():
    """The inputs of every batch norm of a ResNet-8 in training mode, over three batches of
    different sizes: mean and unbiased variance over all values at once."""
    net = fill(ResNet(8, CLASSES).double()).train()
    inputs = {}
    for name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_hook(
                lambda m, i, o, name=name: inputs.setdefault(name, []).append(i[0].transpose(0, 1).flatten(1)))
    sizes = [8, 5, 3]
    with torch.no_grad():
        for i, n in enumerate(sizes):
            net(images(IMAGES + i, n, 16).double())
    together = {name: torch.cat(parts, 1) for name, parts in inputs.items()}
    write("pooled", {"sizes": sizes, "layers": {
        name: {"mean": listed(x.mean(1)), "variance": listed(x.var(1, unbiased=True))}
        for name, x in together.items()}})


if __name__ == "__main__":
    torch.set_num_threads(1)
    for make in (sgd, cosine, cross_entropy, convolutions, initial, batch_norm, pooled, state_dicts, saved):
        make()
    for name in NETWORKS:
        network(name)
