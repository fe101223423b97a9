"""The command line, a file a command. Exit codes: 0 done, 2 bad usage or input, 1 failure.

Bad input of any kind ends in one line on stderr. What a command needs is imported inside it, so `--help` is immediate.
"""

from __future__ import annotations

import click

from hab.mujoco.gl import RenderingUnavailable, wanted_backends
from skills import SkillError
from tpsrl import __version__
from tpsrl.commands.ablate import ablate_command
from tpsrl.commands.collect import collect_command
from tpsrl.commands.data import data_group
from tpsrl.commands.doctor import doctor_command
from tpsrl.commands.export import export_group
from tpsrl.commands.gallery import gallery_command
from tpsrl.commands.houses import houses_command
from tpsrl.commands.navigation import eval_command, film_command, train_nav_command
from tpsrl.commands.plan import plan_command
from tpsrl.commands.publish_skill import publish_skill_command
from tpsrl.commands.record_starts import record_starts_command
from tpsrl.commands.skills import skills_command
from tpsrl.commands.train_skill import train_skill_command
from tpsrl.commands.watch import watch_command
from tpsrl.inputs import Failure


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tpsrl")
def cli() -> None:
    """Home rearrangement with a Fetch robot in MuJoCo: a task planner chains skills (TP-SRL)."""


for _command in (
    ablate_command,
    collect_command,
    data_group,
    doctor_command,
    eval_command,
    export_group,
    gallery_command,
    houses_command,
    plan_command,
    publish_skill_command,
    record_starts_command,
    film_command,
    skills_command,
    train_nav_command,
    train_skill_command,
    watch_command,
):
    cli.add_command(_command)


def run() -> int:
    """Run the command line; return its exit code."""
    try:
        wanted_backends()  # before anything imports MuJoCo, which would fail on an unknown MUJOCO_GL
    except ValueError as error:
        return _complain(error, 2)
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except (RenderingUnavailable, SkillError) as error:
        return _complain(error, 2)
    except click.Abort:
        return _complain("interrupted", 1)
    except Failure as error:
        return _complain(error, 1)
    except OSError as error:  # a full disk, a closed pipe
        return _complain(error, 1)
    return code if isinstance(code, int) else 0


def _complain(message: object, code: int) -> int:
    click.echo(f"tpsrl: {' '.join(str(message).split())}", err=True)
    return code
