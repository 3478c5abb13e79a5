"""The command that converts checkpoints, which `rnnweights` does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rnnbench.builds.pins import build_of
from rnnbench.commands.arguments import CONF, Arguments, command_parser, project_conf
from rnnbench.errors import RecordError
from rnnbench.grid.choices import Build
from rnnbench.plain_text import plain
from rnnbench.running import in_build
from rnnweights import command
from rnnweights.cells import Refusal


def weights(arguments: Sequence[str]) -> int:
    parser = command_parser(weights, {**command.ARGUMENTS, **OF_BUILDS})
    options = parser.parse_args(arguments)
    build = _build(options.build, options.conf)
    worker = partial(in_build.ask, root=Path.cwd(), build=build)
    try:
        lines = command.run(options, worker)
    except Refusal as error:
        raise RecordError(error.what, where=error.where, remedy=error.remedy) from error
    for line in lines:
        print(plain(line))
    return 0


weights.__doc__ = command.main.__doc__


def _build(name: str | None, further: Sequence[Path]) -> Build:
    """The build called `name` in the project's configuration; rnnbench's own interpreter if that is
    None. `further`: the folders of ``--conf``. Raises `ConfigError`."""
    if name is None:
        return in_build.HERE
    from rnnbench.grid.compose import compose_choices
    from rnnbench.grid.files import file_of, files_of

    root = Path.cwd()
    conf = project_conf(root, further)
    files = files_of(conf, "build")
    file = file_of(files, "build", name, "--build", root)
    library = compose_choices(conf, {"build": {file.stem: file}}, default_model=True)
    return build_of(library.sections["build", file.stem])


OF_BUILDS: Arguments = {
    "--build": {
        "metavar": "NAME",
        "help": "the build whose framework reads and checks (default: rnnbench's own interpreter)",
    },
    "--conf": CONF,
}
