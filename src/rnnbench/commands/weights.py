"""The command that converts checkpoints, which `rnnweights` does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rnnbench.builds.pins import build_named
from rnnbench.commands.arguments import CONF, Arguments, command_parser, project_conf
from rnnbench.errors import RecordError
from rnnbench.plain_text import plain
from rnnbench.running import in_build
from rnnweights import command
from rnnweights.cells import Refusal


def weights(arguments: Sequence[str]) -> int:
    parser = command_parser(weights, {**command.ARGUMENTS, **OF_BUILDS})
    options = parser.parse_args(arguments)
    build = in_build.HERE
    if options.build is not None:
        conf = project_conf(Path.cwd(), options.conf)
        build = build_named(options.build, conf, "--build")
    worker = partial(in_build.ask, root=Path.cwd(), build=build)
    try:
        lines = command.run(options, worker)
    except Refusal as error:
        raise RecordError(error.what, where=error.where, remedy=error.remedy) from error
    for line in lines:
        print(plain(line))
    return 0


weights.__doc__ = command.main.__doc__


OF_BUILDS: Arguments = {
    "--build": {
        "metavar": "NAME",
        "help": "the build whose framework reads and checks (default: rnnbench's own interpreter)",
    },
    "--conf": CONF,
}
