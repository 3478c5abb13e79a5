"""The build's frozen package list."""

import sys


def installed():
    """``name==version`` of every installed distribution, sorted."""
    if sys.version_info >= (3, 8):
        from importlib.metadata import distributions

        # Of two with one name the first is the one that is imported.
        found = {}
        for one in distributions():
            found.setdefault((one.metadata["Name"] or "").lower(), one.version)
    else:
        import pkg_resources

        found = {d.project_name.lower(): d.version for d in pkg_resources.working_set}
    return sorted("{}=={}".format(name, version) for name, version in found.items() if name)
