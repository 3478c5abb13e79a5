"""The choices there are: ``conf/GROUP/CHOICE.yaml`` in every config folder."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from rnnbench.errors import ConfigError


def nearest_conf(start: Path) -> Path:
    """The nearest ``conf/`` with a ``config.yaml``, from `start` upwards."""
    for folder in (start, *start.parents):
        if (folder / "conf" / "config.yaml").is_file():
            return folder / "conf"
    raise ConfigError(
        "no conf/config.yaml here or in a folder above.",
        where=str(start),
        remedy="change into the project, or name its config folder with --conf.",
    )


def files_of(conf: Sequence[Path], group: str) -> dict[str, Path]:
    """Choice → its file, sorted by choice, over all config folders."""
    found: dict[str, Path] = {}
    for folder in conf:
        for path in sorted((Path(folder) / group).glob("*.yaml")):
            if path.stem in found:
                raise ConfigError(
                    f"{group}={path.stem} is also in {shown(found[path.stem])}.",
                    where=shown(path),
                    remedy="rename one of the two files.",
                )
            found[path.stem] = path.resolve()
    return dict(sorted(found.items()))


def file_of(conf: Sequence[Path], group: str, choice: str, where: str, folder: Path) -> Path:
    """The file of a choice: one of `files_of`, or the YAML file that `choice` names,
    relative to `folder`."""
    known = files_of(conf, group)
    if choice in known:
        return known[choice]
    if choice.endswith((".yaml", ".yml")):
        return _named_file(known, group, folder / Path(choice).expanduser(), where)
    raise ConfigError(
        f"{group}={choice} is not a choice.",
        where=where,
        remedy=f"{suggestion(choice, known)}the choices of {group} are "
        f"{', '.join(known) or 'none'}; another is declared in conf/{group}/{choice}.yaml.",
    )


def _named_file(known: dict[str, Path], group: str, path: Path, where: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"{group}={path}: no such file.", where=where, remedy="correct the path.")
    if known.get(path.stem, path.resolve()) != path.resolve():
        raise ConfigError(
            f"{group}={path} has the name of {shown(known[path.stem])}.",
            where=where,
            remedy="rename your file: its stem is the choice's name.",
        )
    return path.resolve()


def suggestion(word: str, known: Iterable[str]) -> str:
    """``did you mean X? `` where one is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.75)
    return f"did you mean {near[0]}? " if near else ""


def shown(path: Path) -> str:
    """`path` as a person would write it here."""
    cwd = Path.cwd()
    return str(path.relative_to(cwd) if path.is_relative_to(cwd) else path)
