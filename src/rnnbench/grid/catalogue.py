"""Lists the available choices: ``conf/GROUP/CHOICE.yaml`` in every config folder."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from rnnbench.errors import ConfigError


def nearest_conf(start: Path) -> Path:
    """The nearest ``conf/`` that contains a ``config.yaml``, searched from `start` upwards."""
    for folder in (start, *start.parents):
        if (folder / "conf" / "config.yaml").is_file():
            return folder / "conf"
    raise ConfigError(
        "no conf/config.yaml here or in any parent folder.",
        where=str(start),
        remedy="change into the project's folder, or name its config folder with --conf.",
    )


def files_of(conf: Sequence[Path], group: str) -> dict[str, Path]:
    """Maps each choice of `group` to its file, sorted by choice, over all config folders."""
    files: dict[str, Path] = {}
    for folder in conf:
        for path in sorted((Path(folder) / group).glob("*.yaml")):
            if path.stem in files:
                raise ConfigError(
                    f"{group}={path.stem} is also defined in {display_path(files[path.stem])}.",
                    where=display_path(path),
                    remedy="rename one of the two files.",
                )
            files[path.stem] = path.resolve()
    return dict(sorted(files.items()))


def file_of(conf: Sequence[Path], group: str, choice: str, where: str, folder: Path) -> Path:
    """The file of a choice: one of `files_of`, or the YAML file at the path `choice`, which may be
    relative to `folder`. `where` locates the choice in errors."""
    known = files_of(conf, group)
    if choice in known:
        return known[choice]
    if choice.endswith((".yaml", ".yml")):
        return _named_file(known, group, folder / Path(choice).expanduser(), where)
    raise ConfigError(
        f"{group}={choice} is not a choice.",
        where=where,
        remedy=f"{suggestion(choice, known)}the choices of {group} are "
        f"{', '.join(known) or 'none'}; to add one, create conf/{group}/{choice}.yaml.",
    )


def _named_file(known: dict[str, Path], group: str, path: Path, where: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"{group}={path}: no such file.", where=where, remedy="correct the path.")
    if known.get(path.stem, path.resolve()) != path.resolve():
        raise ConfigError(
            f"{group}={path} has the same name as {display_path(known[path.stem])}.",
            where=where,
            remedy="rename your file: its stem is the name of the choice.",
        )
    return path.resolve()


def suggestion(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """``did you mean X? `` if a known word is similar to `word`, else an empty string."""
    similar = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"did you mean {similar[0]}? " if similar else ""


def display_path(path: Path) -> str:
    """`path` relative to the working directory if it is inside it, else as given."""
    cwd = Path.cwd()
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)
