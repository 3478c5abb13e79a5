"""Every source of a dataset, with a real DVC repository and a real web server."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rnnbench.datasets import provide as module
from rnnbench.datasets.generate import GENERATORS
from rnnbench.datasets.pins import pin_of
from rnnbench.datasets.provide import (
    MIRROR,
    PinnedDataset,
    Unavailable,
    download,
    provide,
    to_cache,
)
from rnnbench.errors import ConfigError, DatasetError
from tests.conftest import ROOT
from tests.datasets.conftest import REMOTE, WORDS


@pytest.fixture(autouse=True)
def _pins_unchanged(root: Path) -> Iterator[None]:
    """No test may change a byte of ``data.dvc``."""
    before = (root / "data.dvc").read_bytes()
    yield
    assert (root / "data.dvc").read_bytes() == before


@pytest.fixture
def without_dvc(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that do not need the cache: importing DVC takes longer than all of them."""

    def unavailable(*_: object) -> None:
        raise Unavailable("not found")

    monkeypatch.setattr(module, "from_cache", unavailable)
    monkeypatch.setattr(module, "to_cache", lambda *_: None)


def files_in_data(root: Path) -> list[str]:
    """The files in ``data/`` except for locks."""
    return sorted(f.name for f in (root / "data").iterdir() if f.suffix != ".lock")


def test_the_url_is_used_once_and_then_the_cache(repository: Path, server, words) -> None:
    target = repository / "data" / "words.txt"
    other = repository / "data" / "other.txt"
    other.parent.mkdir()
    other.write_bytes(b"flipped")
    assert provide(words, repository) == target
    assert target.read_bytes() == WORDS
    assert files_in_data(repository) == ["other.txt", "words.txt"]
    assert other.read_bytes() == b"flipped", (
        "wrong bytes of another file are neither used nor pinned"
    )
    assert server.requested == ["/words.txt"]  # other pinned files are not fetched

    shutil.rmtree(repository / "data")
    assert provide(words, repository).read_bytes() == WORDS
    assert server.requested == ["/words.txt"]


def test_a_file_copied_by_hand_is_kept_and_cached(repository: Path, server, words) -> None:
    target = repository / "data" / "words.txt"
    target.parent.mkdir()
    target.write_bytes(WORDS)
    inode = target.stat().st_ino
    provide(words, repository)
    assert target.stat().st_ino == inode
    assert server.requested == []
    target.unlink()
    assert provide(replace(words, url=None), repository).read_bytes() == WORDS


def test_from_a_dvc_remote(repository: Path, tmp_path: Path, words) -> None:
    provide(words, repository)
    store = repository / ".dvc" / "cache"
    (repository / ".dvc" / "config").write_text(REMOTE % (tmp_path / "remote"))
    shutil.copytree(store, tmp_path / "remote")
    shutil.rmtree(store)
    shutil.rmtree(repository / "data")
    assert provide(replace(words, url=None), repository).read_bytes() == WORDS


def test_a_corrupt_cache_is_skipped_and_repaired(repository: Path, words, caplog) -> None:
    provide(words, repository)
    (cached,) = (f for f in (repository / ".dvc" / "cache").rglob("*") if f.is_file())
    cached.chmod(0o644)
    cached.write_bytes(b"corrupt")
    cached.chmod(0o444)
    shutil.rmtree(repository / "data")
    provide(words, repository)
    assert "DVC cache has md5" in caplog.text
    assert cached.read_bytes() == WORDS


@pytest.mark.fault(
    "the DVC cache cannot be written",
    "a warning; the dataset is available all the same",
    "make the cache writable",
)
def test_a_cache_that_cannot_be_written_is_a_warning(repository: Path, words, caplog) -> None:
    (repository / ".dvc" / "cache").write_text("")
    assert provide(words, repository).read_bytes() == WORDS
    (warning,) = (r for r in caplog.records if r.name == module.__name__)
    assert "data/words.txt was not added to the DVC cache" in warning.getMessage()


@pytest.mark.slow_tier("commands of DVC")
def test_commands_of_dvc_that_need_no_remote_work(tmp_path: Path) -> None:
    """With the project's configuration, in a git repository as a clone is."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / ".dvc", clone / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache"))
    generator = GENERATORS["digits.npz"]
    (clone / "data").mkdir()
    generator(clone / "data/digits.npz")
    entry = "outs:\n- {md5: 39cd4ff3875851873f0029f2888f0627, hash: md5, path: data/digits.npz}\n"
    (clone / "data.dvc").write_text(entry)
    pin = pin_of("data/digits.npz", clone)
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init"], ["add", ".dvc", "data.dvc"], [*author, "commit", "-m", "All"]):
        subprocess.run(["git", *arguments], cwd=clone, check=True, capture_output=True)
    to_cache(pin, clone)
    for words in (
        "checkout", "diff", "data status", "list .", "get . data/digits.npz -o copy", "status",
    ):  # fmt: skip
        command = [sys.executable, "-m", "dvc", *words.split()]
        done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
    command = [sys.executable, "-m", "dvc", "pull"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert "Hit us up" not in done.stdout + done.stderr


def test_a_project_that_is_no_dvc_repository_has_no_cache(root: Path, words, caplog) -> None:
    assert provide(words, root).read_bytes() == WORDS
    assert not caplog.records and not (root / ".dvc").exists()


def test_two_processes_at_once(repository: Path, server, words) -> None:
    (repository / "conf" / "dataset" / "words.yaml").write_text(
        f"name: words\nfile: words.txt\npath: data/words.txt\nurl: {words.url}\n"
    )
    code = "import sys; from rnnbench.commands.machine import dataset; sys.exit(dataset(['words']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=repository,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert {out for out, _ in outputs} == {"words: data/words.txt holds the pinned bytes.\n"}
    assert not any("not added to the DVC cache" in err for _, err in outputs)
    assert server.requested == ["/words.txt"]
    assert files_in_data(repository) == ["words.txt"]


def test_the_generated_dataset_needs_no_source(without_dvc: None, root: Path) -> None:
    dataset = PinnedDataset(name="digits", file="digits.npz", path="data/digits.npz")
    assert provide(dataset, root).stat().st_size == 475326


@pytest.mark.parametrize("mirrored", [WORDS, b"older"])
def test_the_mirror_precedes_the_url_unless_its_bytes_are_wrong(
    mirrored: bytes,
    without_dvc: None,
    root: Path,
    tmp_path: Path,
    server,
    words,
    monkeypatch,
    caplog,
) -> None:
    (tmp_path / "words.txt").write_bytes(mirrored)
    monkeypatch.setenv(MIRROR, str(tmp_path))
    assert provide(words, root).read_bytes() == WORDS
    wrong = mirrored != WORDS
    assert server.requested == ["/words.txt"] * wrong
    assert (f"mirror {tmp_path / 'words.txt'} has md5" in caplog.text) is wrong


def test_a_wrong_file_is_set_aside_and_a_killed_download_overwritten(
    without_dvc: None, root: Path, words, caplog
) -> None:
    (root / "data").mkdir()
    (root / "data" / "words.txt").write_bytes(b"flipped")
    (root / "data" / ".words.txt.part").write_bytes(WORDS * 2)
    assert provide(words, root).read_bytes() == WORDS
    assert files_in_data(root) == ["words.txt", "words.txt.wrong-5bef9da3"]
    assert "words.txt.wrong-5bef9da3" in caplog.text
    assert (root / "data" / "words.txt.wrong-5bef9da3").read_bytes() == b"flipped"


def wrong_bytes(server) -> str:
    server.files["/words.txt"] = b"<html>Sign in to this network</html>"
    return "has md5 "


def truncated(server) -> str:
    server.truncated.add("/words.txt")
    return f"IncompleteRead({len(WORDS) // 2} bytes read"


def not_found(server) -> str:
    server.files.clear()
    return "404 Client Error"


def no_network(server) -> str:
    server.server_close()
    server.shutdown()
    return "Connection refused"


@pytest.mark.parametrize("fault", [wrong_bytes, truncated, not_found, no_network])
def test_a_failing_url_is_reported_and_leaves_no_file(
    fault: Callable, without_dvc: None, root: Path, server, words
) -> None:
    reason = fault(server)
    with pytest.raises(DatasetError) as caught:
        provide(words, root)
    message = str(caught.value)
    assert message.startswith("data/words.txt: ")
    assert "DVC cache: not found; " in message
    assert re.search(f"{re.escape(words.url)}: .*{re.escape(reason)}", message)
    assert f"Fix: set {MIRROR} to a folder that contains words.txt, or copy the file" in message
    assert files_in_data(root) == []


def test_every_source_is_reported_and_the_old_file_is_kept(
    without_dvc: None, root: Path, tmp_path: Path, server, words, monkeypatch
) -> None:
    (root / "data").mkdir()
    (root / "data" / "words.txt").write_bytes(b"flipped")
    (tmp_path / "words.txt").write_bytes(b"older")
    monkeypatch.setenv(MIRROR, str(tmp_path))
    not_found(server)
    with pytest.raises(DatasetError) as caught:
        provide(words, root)
    reasons = ("the present file has md5 5bef9da3", "DVC cache: ", "mirror /", "404 Client Error")
    assert [reason for reason in reasons if reason not in str(caught.value)] == []
    assert files_in_data(root) == ["words.txt"]


def test_a_server_that_does_not_respond(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/words.txt"
        with pytest.raises(Unavailable, match="timed out"):
            download(url, tmp_path / "words.txt")


def test_a_server_without_tls_and_an_unsupported_url(words, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="SSL"):
        download(words.url.replace("http:", "https:"), tmp_path / "words.txt")
    with pytest.raises(Unavailable, match="No connection adapters"):
        download("file:///etc/passwd", tmp_path / "x")


def test_an_unwritable_folder(without_dvc: None, root: Path, words) -> None:
    (root / "data").write_text("a file where the folder should be")
    with pytest.raises(DatasetError, match=r"cannot be written.*Fix"):
        provide(words, root)


def test_a_dataset_without_a_pin(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.dvc: has no entry for data/mine\.npz"):
        provide(PinnedDataset(name="mine", path="data/mine.npz"), root)
