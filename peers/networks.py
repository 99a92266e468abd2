"""The networks of `hwa models` in PyTorch: the same layers, so the same work."""

import torch.nn as nn
import torch.nn.functional as F
import torchvision.models as tv

TORCHVISION = ("resnet18", "resnet50", "vgg16_bn", "mobilenet_v2", "shufflenet_v2_x1_0")


def build(name, classes):
    """A network by its name, and the size of images that it is usually measured with here."""
    if name in TORCHVISION:
        return getattr(tv, name)(num_classes=classes), 64
    if name == "vgg16_cifar":
        return Vgg16(classes), 32
    if name == "mobilenet_v2_cifar":
        return mobilenet_v2_cifar(classes), 32
    depth = name.removeprefix("resnet")
    if depth.isdecimal() and int(depth) % 6 == 2:
        return ResNet(int(depth), classes), 32
    raise SystemExit(f"there is no network `{name}` to compare with")


class Block(nn.Module):
    """Two convolutions and a shortcut without parameters ("option A")."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.new, self.stride = outputs - inputs, stride

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride != 1 or self.new:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.new // 2, self.new // 2))
        return F.relu(y + x)


class ResNet(nn.Module):
    """He and others' ResNet for CIFAR, of depth 6n + 2."""

    def __init__(self, depth, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        blocks = (depth - 2) // 6
        self.layer1 = self.stage(blocks, 16, 16, 1)
        self.layer2 = self.stage(blocks, 16, 32, 2)
        self.layer3 = self.stage(blocks, 32, 64, 2)
        self.linear = nn.Linear(64, classes)

    @staticmethod
    def stage(blocks, inputs, outputs, stride):
        rest = [Block(outputs, outputs, 1) for _ in range(blocks - 1)]
        return nn.Sequential(Block(inputs, outputs, stride), *rest)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


class Vgg16(nn.Module):
    """VGG-16 with batch norm for images of 32 x 32, and one linear layer."""

    PLAN = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M")

    def __init__(self, classes):
        super().__init__()
        layers, inputs = [], 3
        for outputs in self.PLAN:
            if outputs == "M":
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(inputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)]
            layers.append(nn.ReLU(inplace=True))
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def mobilenet_v2_cifar(classes):
    """torchvision's MobileNetV2, without the first two halvings of small images."""
    network = tv.mobilenet_v2(num_classes=classes)
    network.features[0][0].stride = (1, 1)
    network.features[2].conv[1][0].stride = (1, 1)
    return network
