"""`tpsrl doctor`: what is installed, what works here, and what to do about what does not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hab.backend import unavailable
from hab.habitat.data import absent
from hab.mujoco.gl import GL_BACKENDS, SYSTEM_PACKAGES, wanted_backends
from planner.zoo import ZOO, entries
from tpsrl import __version__

PACKAGES = (
    "mujoco",
    "numpy",
    "torch",
    "gymnasium",
    "gymnasium-robotics",
    "pddlpy",
    "hydra-core",
    "omegaconf",
    "imageio-ffmpeg",
)
DATA_FOLDER = "data"
"""Where habitat-lab's own configurations look."""
GL_ADVICE = f"apt-get install {SYSTEM_PACKAGES} (Debian's names)"
_DRAW = """
import mujoco, numpy
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><light pos='0 0 3'/><geom size='.3'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 64, 64)
renderer.update_scene(data)
assert numpy.ptp(renderer.render()) > 0
"""


def report() -> tuple[str, bool]:
    """Return the report and whether everything that needs no extra works (OpenGL counts as an extra)."""
    lines = [
        f"tpsrl {__version__}, python {platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores"
    ]
    missing = []
    for package in PACKAGES:
        try:
            lines.append(f"  {package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    lines += [f"  {package} is missing: pip install tpsrl" for package in missing]

    error = _mujoco_error()
    lines += ["", "simulators", f"  mujoco: {'works' if not error else f'does not work: {error}'}"]
    lines.append(f"  habitat: {unavailable('habitat') or 'installed, with Bullet'} (optional)")
    lines += [
        f"    official data: {dataset.what} not in {DATA_FOLDER}: tpsrl data habitat {DATA_FOLDER} --run"
        for dataset in absent(Path(DATA_FOLDER))
    ]

    errors = gl_errors()
    lines += ["", "OpenGL back ends (rendering: depth observations and videos)"]
    lines += [f"  {kind}: {'works' if not error else f'does not work: {error}'}" for kind, error in errors.items()]
    lines.append(f"  {_gl_verdict(errors)}")

    lines += ["", f"trained skills: {len(entries(ZOO))} are packaged; tpsrl skills lists them, --skills zoo plays them"]
    return "\n".join(lines), not (missing or error)


def _gl_verdict(errors: dict[str, str]) -> str:
    """Say which back end is used under the present MUJOCO_GL, or why none is and what to do."""
    wanted, variable = wanted_backends(), f"MUJOCO_GL={os.environ.get('MUJOCO_GL', '')}"
    if not wanted:
        return f"{variable} switches rendering off; everything else runs. To mend it: unset the variable"
    if works := [kind for kind in wanted if not errors[kind]]:
        return f"used: {works[0]}"
    if not all(errors.values()):
        return f"{variable} does not work, so nothing can be rendered. To mend it: unset the variable"
    return f"none works, so nothing can be rendered; everything else runs. To mend it: {GL_ADVICE}"


def gl_errors() -> dict[str, str]:
    """Draw a picture with each back end in a process of its own; return the error of each ("" = works)."""
    running = {
        kind: subprocess.Popen(
            [sys.executable, "-c", _DRAW],
            env={**os.environ, "MUJOCO_GL": kind, "PYOPENGL_PLATFORM": "" if kind == "glfw" else kind},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for kind in GL_BACKENDS
    }
    errors = {}
    for kind, process in running.items():
        try:
            _, stderr = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            errors[kind] = "no answer within 60 s"
            continue
        last = [line for line in stderr.splitlines() if line.strip() and not line.startswith(" ")]
        errors[kind] = "" if process.returncode == 0 else (last[-1] if last else f"exit code {process.returncode}")
    return errors


def _mujoco_error() -> str:
    """Step a tiny model; return what went wrong ("" = nothing)."""
    try:
        import mujoco

        model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>")
        mujoco.mj_step(model, mujoco.MjData(model))
    except Exception as error:  # any failure to load or run the engine is the answer
        return f"{type(error).__name__}: {error}"
    return ""
