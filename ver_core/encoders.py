"""Networks that turn images and 1-D scans into features.

Images arrive channels-last, (n, H, W, C), as floats in [0, 1] or as uint8, which are divided by 255.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ver_core.config import ConfigError

VISUALS = {"slim": 36, "small": 36, "paper": 32}
"""The encoders of images and the least height and width, in pixels, whose convolutions leave something of an image."""
SCAN_MIN = 9
"""Fewest rays of a scan: its convolutions leave one."""


def as_float(values: Tensor) -> Tensor:
    """Return values as float32: uint8 in [0, 1], floats as they are."""
    return values / 255.0 if values.dtype == torch.uint8 else values


def visual_encoder(kind: str, name: str, shape: tuple[int, ...], features: int) -> nn.Module:
    """Build the encoder that policy.visual=`kind` means, for observation `name` of `shape` (H, W, C).

    Raise `ConfigError` if the image is too small for it.
    """
    least = VISUALS[kind]
    height, width, channels = shape
    if min(height, width) < least:
        raise ConfigError(f"policy.visual={kind}: needs {least}x{least} pixels; {name} has {height}x{width}")
    if kind == "paper":
        return PaperResNet(channels, height, width, features)
    return small_cnn(channels, height, width, features, SLIM if kind == "slim" else SMALL)


class Images(nn.Module):
    """Hands images (n, H, W, C) to convolutions as floats (n, C, H, W), without moving them in memory."""

    def forward(self, images: Tensor) -> Tensor:
        """Return a permuted view of the images, scaled to [0, 1]."""
        return as_float(images).permute(0, 3, 1, 2)


SMALL, SLIM = (32, 64, 32), (16, 32, 32)
"""Channels of the small encoder's convolutions, and of the slim one's."""


def small_cnn(
    channels: int, height: int, width: int, features: int, planes: tuple[int, int, int] = SMALL
) -> nn.Sequential:
    """Three convolutions and a linear layer, for images of at least 36 x 36 pixels: (n, H, W, C) -> (n, features).

    Kernels and strides are those of the Atari network of Mnih et al. 2015, `planes` the layers' channels. Weights are
    channels-last, as the images are: oneDNN, which rearranges either otherwise, takes a tenth of the time so for the
    gradient of the first layer.
    """

    def after(pixels: int) -> int:
        for kernel, stride in ((8, 4), (4, 2), (3, 1)):
            pixels = (pixels - kernel) // stride + 1
        return pixels

    network = nn.Sequential(
        Images(),
        nn.Conv2d(channels, planes[0], 8, stride=4),
        nn.ReLU(inplace=True),
        nn.Conv2d(planes[0], planes[1], 4, stride=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(planes[1], planes[2], 3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(planes[2] * after(height) * after(width), features),
        nn.ReLU(inplace=True),
    )
    initialise(network)
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.detach().contiguous(memory_format=torch.channels_last)
    return network


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, the second one dilated, so that the two see 7 x 7 pixels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            _norm(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=2, dilation=2, bias=False),
            _norm(channels),
        )
        # Layer scale. ConvNeXt's 1e-6 is meant for tens of blocks and for long training: Adam moves a parameter by at
        # most the learning rate (2.5e-4) a step, and its eps (1e-5) swallows the gradients that come through so small a
        # factor. Touvron et al. 2021, who introduced layer scale, take 0.1 for shallow networks (up to 18 layers).
        self.scale = nn.Parameter(torch.full((channels, 1, 1), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, H, W) to the same shape."""
        return torch.relu(x + self.scale * self.branch(x))


class PaperResNet(nn.Sequential):
    """The VER paper's encoder of images (section 4): (n, H, W, C) -> (n, features).

    ResNet18 (He et al. 2016; four stages of two blocks) at half width with GroupNorm (Wu & He 2018), and of ConvNeXt
    (Liu et al. 2022) the stem that cuts the image into patches, down-sampling of its own between stages and layer
    scale; dilated convolutions (Yu & Koltun 2015) as the paper has them.
    """

    def __init__(self, channels: int, height: int, width: int, features: int) -> None:
        planes = 32
        layers: list[nn.Module] = [Images(), nn.Conv2d(channels, planes, 4, stride=4), _norm(planes)]
        for stage in range(4):
            if stage > 0:
                layers += [_norm(planes), nn.Conv2d(planes, 2 * planes, 2, stride=2)]
                planes *= 2
            layers += [ResidualBlock(planes), ResidualBlock(planes)]
        # Some 2048 numbers go into the linear layer, whatever the image's size (as in Wijmans et al. 2020, DD-PPO).
        pixels = (height // 32) * (width // 32)
        compressed = min(planes, max(1, round(2048 / pixels)))
        layers += [
            nn.Conv2d(planes, compressed, 3, padding=1, bias=False),
            nn.GroupNorm(1, compressed),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(compressed * pixels, features),
            nn.ReLU(inplace=True),
        ]
        super().__init__(*layers)
        initialise(self)


class ScanEncoder(nn.Sequential):
    """Two 1-D convolutions and a linear layer for a ring or fan of rays: (n, rays) -> (n, features)."""

    def __init__(self, rays: int, features: int) -> None:
        """Build it for at least `SCAN_MIN` rays."""
        left = ((rays - 5) // 2 + 1 - 3) // 2 + 1
        super().__init__(
            nn.Unflatten(1, (1, rays)),
            nn.Conv1d(1, 32, 5, stride=2),
            nn.ReLU(inplace=True),
            nn.Conv1d(32, 32, 3, stride=2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(32 * left, features),
            nn.ReLU(inplace=True),
        )
        initialise(self)


def initialise(network: nn.Module) -> None:
    """Set up convolutions and linear layers for the ReLUs behind them: orthogonal weights (gain sqrt 2), no bias."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, gain=math.sqrt(2.0))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(16, channels)
