"""OpenGL without a window: which back end MUJOCO_GL asks for, and a context of the first one that works.

Does not load MuJoCo, whose import fails on a MUJOCO_GL it does not know.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

GL_BACKENDS = ("egl", "osmesa", "glfw")
SYSTEM_PACKAGES = "libegl1 libgl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"
_OFF = ("disable", "disabled", "off", "false", "0")
_ANY = ("", "enable", "enabled", "on", "true", "1", "glx", "wgl", "cgl")
"""MuJoCo's words for the operating system's own kind; what works here is found by trying."""


class RenderingUnavailable(RuntimeError):
    """No OpenGL back end works; the message says what to install."""


def wanted_backends() -> tuple[str, ...]:
    """Return the back ends that MUJOCO_GL allows, best first; none if it switches rendering off.

    Raises `ValueError` for a value that MuJoCo does not know either.
    """
    wanted = os.environ.get("MUJOCO_GL", "").strip().lower()
    if wanted in _OFF:
        return ()
    if wanted in _ANY:
        return GL_BACKENDS
    if wanted in GL_BACKENDS:
        return (wanted,)
    raise ValueError(f"MUJOCO_GL={wanted}: unset it, or choose from {', '.join(GL_BACKENDS)}, disable")


def make_gl_context(width: int, height: int) -> Any:
    """Return a current off-screen GL context, of MUJOCO_GL's kind or the first kind that works."""
    # Small pictures gain nothing from Mesa's own threads, which take a core from the environment next door.
    os.environ.setdefault("LP_NUM_THREADS", "0")
    kinds = wanted_backends()
    if not kinds:
        raise RenderingUnavailable(
            f"MUJOCO_GL={os.environ['MUJOCO_GL']} switches rendering off: unset it, or leave rendering out"
        )
    for kind in kinds:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # GLFW warns of everything it cannot find
                context = importlib.import_module(f"mujoco.{kind}").GLContext(width, height)
                context.make_current()
                # Without a display GLFW makes no window, says nothing, and MuJoCo would abort on first use.
                if kind == "glfw" and not importlib.import_module("glfw").get_current_context():
                    continue
            return context
        except Exception:  # noqa: BLE001 - loaders fail with ImportError, AttributeError, OSError, RuntimeError …
            continue
    raise RenderingUnavailable(
        f"no OpenGL back end works here (tried {', '.join(kinds)}): install Debian's {SYSTEM_PACKAGES} "
        "(apt-get install …), or use the laser observations and leave rendering out"
    )
