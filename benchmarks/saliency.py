"""What a policy that sees depth looks at: docs/saliency.png, of Pick, one success and one failure.

Perturbation saliency (Greydanus et al. 2018, "Visualizing and Understanding Atari Agents", section 3.2): the image is
blurred about one point after the other, and how far that moves the means of the action's distribution (half the
squared distance, in units of their deviations) is how much the policy looks there. Above the depth image, below it the
saliency over it, at four moments of the episode. Episodes of training apartments, the first ones of either outcome.

    python benchmarks/saliency.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from safetensors.torch import load_file
from torch.nn import functional

from planner.zoo import WEIGHTS, ZOO, Entry, run_entry
from skills import make_env
from skills.trained import without_critic
from skills.training import fit_policy
from ver_core.policy import RecurrentPolicy

KEY, SIDE, EVERY, RADIUS = "head_depth", 256, 4, 5.0
"""The image; its side in the picture; every so many pixels it is perturbed, about so far."""
MOMENTS = (0.1, 0.4, 0.7, 0.95)
"""Of an episode."""


class Decision(NamedTuple):
    floats: torch.Tensor
    previous: torch.Tensor
    state: torch.Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", type=Path, default=ZOO / "pick_nav_depth")
    parser.add_argument("--start", type=int, default=0, help="index of the first training episode")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "saliency.png")
    options = parser.parse_args()
    torch.set_num_threads(1)
    entry = run_entry(options.policy)
    network = load(entry)
    rows: dict[bool, Image.Image] = {}
    index = options.start
    while len(rows) < 2:
        success, reason, decisions = play(entry, network, index)
        if success not in rows:
            said = f"{entry.config.skill}, train {index}: {'success' if success else reason}"
            rows[success] = strip(network, decisions, said)
            print(f"{said}, {len(decisions)} decisions", flush=True)
        index += 1
    picture = Image.new("RGB", (rows[True].width, 2 * rows[True].height + 8), "white")
    picture.paste(rows[True], (0, 0))
    picture.paste(rows[False], (0, rows[True].height + 8))
    picture.save(options.out)
    print(options.out)


def load(entry: Entry) -> RecurrentPolicy:
    config = entry.config
    env = make_env(config.skill, obs=config.obs, base_movement=config.nav)
    fitted = fit_policy(config.policy, config.skill, config.obs, config.nav)
    network = RecurrentPolicy(env.observation_space, env.action_space, fitted, critic=False)
    network.load_state_dict(without_critic(load_file(entry.folder / WEIGHTS)))
    return network.eval()


@torch.inference_mode()
def play(entry: Entry, network: RecurrentPolicy, index: int) -> tuple[bool, str, list[Decision]]:
    """Return how an episode ended, and what the policy had before it at each decision."""
    config = entry.config
    env = make_env(config.skill, "train", config.obs, config.nav, index, action_repeat=config.action_repeat)
    observation, _ = env.reset(seed=0)
    layout, rng = network.obs_layout, np.random.default_rng(index)
    state, previous = torch.zeros(1, network.state_size), torch.from_numpy(network.action_layout.none)[None]
    decisions: list[Decision] = []
    while True:
        floats = np.zeros((1, layout.floats), np.float32)
        layout.pack(observation, floats[0], np.zeros(0, np.uint8))
        decisions.append(Decision(torch.from_numpy(floats), previous, state))
        out = look(network, *decisions[-1])
        noise = torch.from_numpy(rng.random((1, network.noise_size)))
        previous, state = out.distribution.sample(noise), out.state
        observation, _, over, late, info = env.step(network.action_layout.decode(previous[0].numpy()))
        if over or late:
            env.close()
            return bool(info["success"]), str(info["reason"]), decisions


def look(network: RecurrentPolicy, floats: torch.Tensor, previous: torch.Tensor, state: torch.Tensor) -> Any:
    nothing = torch.zeros(len(floats), 0, dtype=torch.uint8)
    return network(floats, nothing, previous, state, torch.tensor([len(floats)]))


@torch.inference_mode()
def saliency(network: RecurrentPolicy, decision: Decision) -> NDArray[np.float32]:
    """Return how much the action hangs on each part of the image, (128 / EVERY, 128 / EVERY)."""
    (place,) = (slice(key.start, key.stop) for key in network.obs_layout.keys if key.name == KEY)
    image = decision.floats[0, place].reshape(128, 128)
    smooth = functional.avg_pool2d(image[None, None], int(2 * RADIUS) + 1, 1, int(RADIUS), count_include_pad=False)[
        0, 0
    ]
    at = torch.arange(0, 128, EVERY) + EVERY / 2.0
    y, x = torch.meshgrid(torch.arange(128.0), torch.arange(128.0), indexing="ij")
    squares = (y - at.view(-1, 1, 1, 1)).square() + (x - at.view(1, -1, 1, 1)).square()
    masks = (-squares / (2.0 * RADIUS**2)).exp().reshape(-1, 128, 128)
    floats = decision.floats.repeat(len(masks), 1)
    floats[:, place] = (image * (1.0 - masks) + smooth * masks).reshape(len(masks), -1)
    many = (part.expand(len(masks), -1) for part in (decision.previous, decision.state))
    changed, as_it_is = look(network, floats, *many).distribution.opinion(), look(network, *decision).distribution
    means, deviations = as_it_is.opinion().chunk(2, dim=1)
    moved = ((changed.chunk(2, dim=1)[0] - means) / deviations)[:, deviations[0] > 0.0]
    said: NDArray[np.float32] = (0.5 * moved.square().sum(dim=1)).reshape(len(at), -1).numpy()
    return said


def strip(network: RecurrentPolicy, decisions: list[Decision], said: str) -> Image.Image:
    (place,) = (slice(key.start, key.stop) for key in network.obs_layout.keys if key.name == KEY)
    chosen = [decisions[int(share * (len(decisions) - 1))] for share in MOMENTS]
    maps = [saliency(network, decision) for decision in chosen]
    most = max(float(each.max()) for each in maps)
    picture = Image.new("RGB", (SIDE * len(chosen), 2 * SIDE + 18), "white")
    ImageDraw.Draw(picture).text((4, 3), said, fill="black")
    for column, (decision, seen) in enumerate(zip(chosen, maps, strict=True)):
        depth = np.sqrt(np.clip(decision.floats[0, place].reshape(128, 128).numpy() / 0.5, 0.0, 1.0))
        grey = Image.fromarray((255 * depth).astype(np.uint8)).resize((SIDE, SIDE)).convert("RGB")
        heat = Image.fromarray((255 * np.sqrt(seen / most)).astype(np.uint8)).resize(
            (SIDE, SIDE), Image.Resampling.BICUBIC
        )
        picture.paste(grey, (column * SIDE, 18))
        picture.paste(
            Image.composite(Image.new("RGB", grey.size, (230, 60, 30)), grey, heat), (column * SIDE, 18 + SIDE)
        )
    return picture


if __name__ == "__main__":
    main()
