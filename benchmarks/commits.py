"""One command at another commit and here, in turns: what a change did to speed, on one machine in one run.

Everything after `--` is run in a checkout of the other commit and in this one, with this Python. The number that
--figure finds in its output is compared: medians over the turns, and the ratio of each turn, here to there.

    python benchmarks/commits.py 70b9ee3 -- -m tpsrl train-skill pick --nav --out {scratch}/run --steps 60000 \\
        chain_starts=0
    python benchmarks/commits.py 70b9ee3 -- benchmarks/sim_speed.py --quick
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIGURE = r"(?:laser control_steps_per_s +| at )([\d,]+)(?: SPS|\s)"
"""What sim_speed.py and train-skill print."""
DEFAULT = ["benchmarks/sim_speed.py", "--quick"]


def measure(checkout: Path, command: list[str], figure: re.Pattern[str]) -> float:
    """Run the command in a checkout, and return the number that it prints."""
    with tempfile.TemporaryDirectory() as scratch:
        words = [word.replace("{scratch}", scratch) for word in command]
        done = subprocess.run(
            [sys.executable, *words],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            text=True,
            capture_output=True,
            check=False,
        )
    found = figure.search(done.stdout)
    if done.returncode or not found:
        sys.exit(f"{' '.join(command)} in {checkout}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return float(found[1].replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="HEAD^", help="what to compare with")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--figure", default=FIGURE, help="a regular expression with one group")
    parser.add_argument("--there", default="", help="words that the command gets at the other commit only")
    parser.add_argument("--here", default="", help="… and here only")
    parser.add_argument_group("after --", "what follows `python`; {scratch} is a folder that is deleted afterwards")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    options, command = parser.parse_args(words[:cut]), words[cut + 1 :] or DEFAULT
    figure = re.compile(options.figure)
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "there"
        subprocess.run(["git", "worktree", "add", "--detach", str(there), options.commit], cwd=ROOT, check=True)
        try:
            sides = (
                (there, [*command, *shlex.split(options.there)]),
                (ROOT, [*command, *shlex.split(options.here)]),
            )
            turns = [[measure(*side, figure) for side in sides] for _ in range(options.turns)]
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(there)], cwd=ROOT, check=True)
    before, now = zip(*turns, strict=True)
    for name, values in ((options.commit, before), ("here", now)):
        print(f"{name:>12} {statistics.median(values):>10,.0f}   " + " ".join(f"{value:,.0f}" for value in values))
    ratios = [after / old for old, after in turns]
    print(f"{'ratio':>12} {statistics.median(ratios):>10.2f}   " + " ".join(f"{ratio:.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
