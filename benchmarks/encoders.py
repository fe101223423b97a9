"""What the encoders of images (`policy.visual`) cost on a processor, and what they learn from the same images.

Of head depth images as a policy gets them, 128 x 128, and at half that size (every second pixel): multiplications and
additions for an image, parameters, milliseconds of inference (one thread, batches of 8), and of learning, both ways
(batches of 1,024 and 128, the better one) with one thread and with all cores. And how well each, with a linear layer
behind it, learns to tell the 48 ranges of the head scan: mean squared error (ranges scaled to deviation 1) on other
images, which may be of the same training apartments, after --epochs epochs of Adam, mean over --seeds seeds and their
range. The images are of Pick played by random actions, two apart by nine control steps.

`python benchmarks/encoders.py` prints a table; `--json FILE` writes the figures, `--quick` makes a short pass.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from skills import make_env
from ver_core.encoders import VISUALS, visual_encoder

FEATURES = 512
EPISODE_IMAGES = 10
STEPS_BETWEEN = 3


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return depth images (count, 128, 128, 1), and the head scans (count, 48) from the same poses."""
    env = make_env("pick", split="train", obs="depth", base_movement=True, action_repeat=3)
    env.action_space.seed(seed)
    sim = env.unwrapped.sim
    seen, told = [], []
    while len(seen) < count:
        observation, _ = env.reset(seed=seed) if not seen else env.reset()
        for _ in range(EPISODE_IMAGES):
            seen.append(observation["head_depth"])
            told.append(sim.head_scan())
            for _ in range(STEPS_BETWEEN):
                observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
                if terminated or truncated:
                    observation, _ = env.reset()
    env.close()
    return torch.from_numpy(np.array(seen[:count])), torch.from_numpy(np.array(told[:count]))


def operations(network: nn.Module, image: Tensor) -> int:
    """Return how often a forward pass of one image multiplies and adds."""
    found = 0

    def count(layer: nn.Module, _: tuple[Tensor, ...], out: Tensor) -> None:
        nonlocal found
        weight: Tensor = layer.weight
        found += weight.numel() * (out[0, 0].numel() if out.ndim == 4 else 1)

    hooks = [m.register_forward_hook(count) for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    network(image)
    for hook in hooks:
        hook.remove()
    return found


def infer_ms(network: nn.Module, seen: Tensor, repeats: int) -> float:
    torch.set_num_threads(1)
    best = float("inf")
    with torch.inference_mode():
        for _ in range(3 * repeats):
            start = time.perf_counter()
            network(seen[:8])
            best = min(best, time.perf_counter() - start)
    return 1e3 * best / 8


def learn_ms(network: nn.Module, seen: Tensor, threads: int, repeats: int) -> float:
    torch.set_num_threads(threads)
    best = float("inf")
    for batch in (1024, 128):
        for _ in range(1 + repeats):
            start = time.perf_counter()
            network(seen[:batch]).square().mean().backward()
            best = min(best, (time.perf_counter() - start) / batch)
    return 1e3 * best


def error(
    kind: str, size: int, train: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], epochs: int, seed: int
) -> float:
    """Return the mean squared error on the other images after learning from the first ones."""
    torch.manual_seed(seed)
    torch.set_num_threads(os.cpu_count() or 1)
    mean, std = train[1].mean(0), train[1].std(0) + 1e-3
    told, expected = ((ranges - mean) / std for ranges in (train[1], other[1]))
    network = nn.Sequential(visual_encoder(kind, "head_depth", (size, size, 1), FEATURES), nn.Linear(FEATURES, 48))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-4, eps=1e-5, fused=True)
    for _ in range(epochs):
        for rows in torch.randperm(len(train[0])).split(128):
            optimizer.zero_grad()
            (network(train[0][rows]) - told[rows]).square().mean().backward()
            optimizer.step()
    with torch.inference_mode():
        said = torch.cat([network(part) for part in other[0].split(256)])
    return float((said - expected).square().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="a short pass, without learning")
    parser.add_argument("--images", type=int, default=4000, help="to learn from, and as many to be asked about")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    train = images(1024 if options.quick else options.images, 1)
    other = train if options.quick else images(options.images, 2)
    report: dict[str, dict[str, float]] = {}
    for half in (False, True):
        every = slice(None, None, 2 if half else 1)
        seen, elsewhere = (part[0][:, every, every].contiguous() for part in (train, other))
        size = seen.shape[1]
        for kind in VISUALS:
            network = visual_encoder(kind, "head_depth", (size, size, 1), FEATURES)
            repeats = 1 if options.quick or kind == "paper" else 3
            row = {
                "million multiply-adds": operations(network, seen[:1]) / 1e6,
                "million parameters": sum(p.numel() for p in network.parameters()) / 1e6,
                "inference, ms": infer_ms(network, seen, repeats),
                "learning, ms, 1 thread": learn_ms(network, seen, 1, repeats),
                f"learning, ms, {cores} threads": learn_ms(network, seen, cores, repeats),
            }
            if not options.quick and kind != "paper":
                errors = [
                    error(kind, size, (seen, train[1]), (elsewhere, other[1]), options.epochs, seed)
                    for seed in range(options.seeds)
                ]
                row |= {"error": sum(errors) / len(errors), "error, least": min(errors), "error, most": max(errors)}
            report[f"{kind}, {size} x {size}"] = row
            print(f"{kind}, {size} x {size}: " + ", ".join(f"{k} {v:.3f}" for k, v in row.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
