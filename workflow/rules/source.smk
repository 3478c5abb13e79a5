# Requires: nothing.
# Defines: source_folder, the folder with all files of this workflow, such as its conf/ and src/.

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def source_folder(here):
    """The folder above `here`, the folder of the Snakefile. If that is in a git repository,
    from which Snakemake reads single files (a module from `github(...)`, `git+file:...`), all
    files of the revision are unpacked into .snakemake/rnnbench/COMMIT once."""
    if not hasattr(here, "ref"):
        folder = Path(here.get_path_or_uri(secret_free=True)).resolve().parent
        if not (folder / "src/rnnbench").is_dir():
            sys.exit(
                f"rnnbench: {here}: a module needs all files of rnnbench. Fix: name its Snakefile "
                'with github("OWNER/rnnbench", path="workflow/Snakefile", tag="TAG"), gitlab(...), '
                '"git+file:///REPOSITORY/workflow/Snakefile@TAG" or the path in a checkout.'
            )
        return folder
    import git

    hosted = getattr(here, "hosted_repo", None)
    repository = hosted.repo if hosted else git.Repo(here.repo_path)
    commit = repository.commit(here.ref).hexsha
    folder = Path(".snakemake/rnnbench", commit).absolute()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
        with tempfile.TemporaryFile() as archive:
            repository.archive(archive, commit)
            archive.seek(0)
            subprocess.run(["tar", "-x", "-C", unpacked], stdin=archive, check=True)
        try:
            unpacked.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(unpacked)
    return folder
