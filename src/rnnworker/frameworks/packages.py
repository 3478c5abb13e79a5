"""The list of packages that are installed in the build."""

import sys


def installed():
    """``name==version`` of every installed distribution, sorted."""
    if sys.version_info >= (3, 8):
        from importlib.metadata import distributions

        # Of two distributions with the same name, Python imports the first.
        versions = {}
        for distribution in distributions():
            name = (distribution.metadata["Name"] or "").lower()
            versions.setdefault(name, distribution.version)
    else:
        import pkg_resources

        versions = {d.project_name.lower(): d.version for d in pkg_resources.working_set}
    return sorted("{}=={}".format(name, version) for name, version in versions.items() if name)
