"""benchmarks/saliency.py: what a policy that sees depth looks at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.zoo import ZOO, run_entry

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_an_episode_is_played_and_the_image_moves_the_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import saliency

    entry = run_entry(ZOO / "open_cabinet_nav_depth")
    network = saliency.load(entry)
    success, reason, decisions = saliency.play(entry, network, 0)
    assert decisions and success != bool(reason)
    seen = saliency.saliency(network, decisions[0])
    assert seen.shape == (128 // saliency.EVERY,) * 2
    assert np.isfinite(seen).all() and seen.min() >= 0.0 and seen.max() > 0.0
    blind = decisions[0]._replace(floats=decisions[0].floats.clone())
    (image,) = (slice(key.start, key.stop) for key in network.obs_layout.keys if key.name == saliency.KEY)
    blind.floats[:, image] = 0.5  # blurred, it is the same
    np.testing.assert_allclose(saliency.saliency(network, blind), 0.0, atol=1e-6)
