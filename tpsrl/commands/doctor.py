"""`tpsrl doctor`."""

from __future__ import annotations

import sys

import click


@click.command("doctor")
def doctor_command() -> None:
    """Say what is installed, which simulators and OpenGL back ends work, and what to do about the rest."""
    from tpsrl.doctor import report

    text, healthy = report()
    click.echo(text)
    sys.exit(0 if healthy else 1)
