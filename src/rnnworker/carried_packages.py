"""Unpacks the packages that a bundle carries into a folder for ``PYTHONPATH``.

Standard library only, Python 3.6 syntax. An archive (tar, xz) may be split into several parts with
checksums, since uploads may be limited in size. The parts are in the bundle's ``packages/NAME/`` or
in a folder given by ``--parts``.
"""

import contextlib
import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile

WHOLE = ".whole"


class Missing(Exception):
    """Packages are unavailable, for example because parts are missing or damaged."""


def provide(entry, folders):
    """Returns the folder with the packages of `entry`, unpacked on first use. Raises `Missing`.

    **Arguments:**

    - `entry`: ``{"name", "digest", "parts": {file name: sha256}}`` from ``bundle.json``.
    - `folders`: the folders in which to search for parts.
    """
    site = os.path.join(_home(), "{}-{}".format(entry["name"], entry["digest"][:12]))
    if os.path.exists(os.path.join(site, WHOLE)):
        return site
    paths = _find_parts(entry, folders)
    partial = tempfile.mkdtemp(dir=os.path.dirname(site))
    try:
        with contextlib.ExitStack() as stack:
            joined = _Joined([stack.enter_context(open(path, "rb")) for path in paths])
            archive = stack.enter_context(tarfile.open(fileobj=joined, mode="r|xz"))
            for member in archive:
                _extract(archive, member, partial)
        open(os.path.join(partial, WHOLE), "w").close()
        shutil.rmtree(site, ignore_errors=True)
        os.rename(partial, site)
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise Missing("{} cannot be unpacked: {}".format(entry["name"], error)) from error
    return site


def variables(build, site):
    """Returns the build's environment with ``{packages}`` replaced by `site`, and `site` as
    ``PYTHONPATH``. A variable whose name ends in PATH is prepended to the machine's value."""
    environment = {}
    for name, value in (build.get("environment") or {}).items():
        value = str(value).replace("{packages}", site or "")
        if name.endswith("PATH") and os.environ.get(name):
            value += os.pathsep + os.environ[name]
        environment[name] = value
    if site:
        environment["PYTHONPATH"] = site
    return environment


def _home():
    """Returns this user's folder for unpacked packages; never uses another user's."""
    home = os.path.join(tempfile.gettempdir(), "rnnbench-packages-{}".format(os.getuid()))
    os.makedirs(home, mode=0o700, exist_ok=True)
    if os.stat(home).st_uid != os.getuid():
        raise Missing("{} belongs to another user: set TMPDIR to another folder".format(home))
    return home


def _find_parts(entry, folders):
    paths, missing = [], []
    for name in sorted(entry["parts"]):
        candidates = [os.path.join(folder, entry["name"], name) for folder in folders]
        valid = [path for path in candidates if _digest(path) == entry["parts"][name]]
        if valid:
            paths.append(valid[0])
        else:
            missing.append(name)
    if missing:
        raise Missing("{}: missing or damaged: {}".format(entry["name"], ", ".join(missing)))
    return paths


def _digest(path):
    if not os.path.isfile(path):
        return None
    state = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            state.update(block)
    return state.hexdigest()


def _extract(archive, member, folder):
    parts = member.name.split("/")
    if not member.isreg() or member.name.startswith("/") or ".." in parts:
        raise tarfile.TarError("{} is not a regular file".format(member.name))
    path = os.path.join(folder, *parts)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        shutil.copyfileobj(archive.extractfile(member), file)
    os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)


class _Joined:
    """Reads several open files in order, as a single file."""

    def __init__(self, files):
        self._files = list(files)

    def read(self, size):
        while self._files:
            data = self._files[0].read(size)
            if data:
                return data
            self._files.pop(0)
        return b""
