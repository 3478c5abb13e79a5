"""A DVC configuration from outside: only pinned bytes are written below ``data/``, nothing is
executed, and the next source is tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from rnnbench.datasets.provide import PinnedDataset, provide
from rnnbench.errors import ConfigError, DatasetError
from tests.datasets.conftest import REMOTE, WORDS, md5

STAGE = "stages:\n  words:\n    cmd: touch made\n    outs: [data/made.txt]\n"
CONFIGURATIONS = {
    "a command for a token": REMOTE
    % "webdavs://127.0.0.1:9/x\n    bearer_token_command = touch made",
    "a command in the address": REMOTE % "ssh://-oProxyCommand=touch made/x",
    "a remote of the local network": REMOTE % "http://127.0.0.1:9/x",
    "a remote in the system's folder": REMOTE % "/etc",
    "no remote of that name": "[core]\n    remote = there\n",
    "an unknown key": "[core]\n    command = touch made\n",
    "no configuration": "\x00[[[",
    "another type of cache": "[core]\n    no_scm = True\n[cache]\n    type = symlink\n",
}


def without_locks(root: Path) -> dict[str, bytes]:
    """The files of the project except for those of DVC, by name."""
    files = (path for path in root.rglob("*") if path.is_file())
    names = {path.relative_to(root).as_posix(): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.startswith(".dvc/") and not name.endswith(".lock")
    }


@pytest.mark.parametrize(
    ("name", "file"),
    [*((name, "config") for name in CONFIGURATIONS), ("a command for a token", "config.local")],
)
def test_a_configuration_executes_nothing(
    name: str, file: str, repository: Path, words: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    before = without_locks(repository)
    (repository / ".dvc" / file).write_text(CONFIGURATIONS[name])
    (repository / "dvc.yaml").write_text(STAGE)
    provide(words, repository)
    after = without_locks(repository)
    assert after == {**before, "data/words.txt": WORDS, "dvc.yaml": STAGE.encode()}

    (repository / "data/words.txt").unlink()
    shutil.rmtree(repository / ".dvc/cache", ignore_errors=True)
    with pytest.raises(DatasetError, match="DVC cache: "):
        provide(replace(words, url=None), repository)
    assert without_locks(repository) == {**before, "dvc.yaml": STAGE.encode()}


def test_wrong_bytes_of_a_remote_are_not_used(
    repository: Path, tmp_path: Path, words: dict
) -> None:
    there = tmp_path / "there/files/md5" / md5(WORDS)[:2]
    there.mkdir(parents=True)
    (there / md5(WORDS)[2:]).write_bytes(b"other bytes")
    (repository / ".dvc/config").write_text(REMOTE % (tmp_path / "there"))
    with pytest.raises(DatasetError, match="DVC cache: "):
        provide(replace(words, url=None), repository)
    assert not (repository / "data/words.txt").exists()
    assert provide(words, repository).read_bytes() == WORDS


def test_a_remote_and_a_command_in_data_dvc(
    repository: Path, tmp_path: Path, words: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    (repository / ".dvc/config").write_text(
        "[core]\n    no_scm = True\n['remote \"evil\"']\n    url = /etc\n"
    )
    (repository / "data.dvc").write_text(
        "cmd: touch made\ndeps: [{path: /etc/passwd}]\nouts:\n"
        f"- {{md5: {md5(WORDS)}, hash: md5, path: data/words.txt, remote: evil, push: true}}\n"
    )
    assert provide(words, repository).read_bytes() == WORDS
    assert not (repository / "made").exists()


PATHS = ("../x", "/etc/x", "data/../../x", "x", "data", "data/", "data/.x", "~/x", "data//x", ".")


@pytest.mark.parametrize("path", PATHS)
def test_a_path_outside_of_data_is_refused(path: str, root: Path) -> None:
    before = without_locks(root)
    (root / "data.dvc").write_text(f"outs: [{{md5: {md5(WORDS)}, path: {path}}}]\n")
    with pytest.raises(ConfigError, match=r"outs\[0\]\.path.*Fix: .*in data/"):
        provide(PinnedDataset(name="words", path=path), root)
    assert without_locks(root) == {**before, "data.dvc": (root / "data.dvc").read_bytes()}
