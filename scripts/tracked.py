"""The files of the tree, in a checkout and in an unpacked archive."""

import os
import pathlib
import subprocess

# Folders that an unpacked archive contains in addition once something was built.
BUILT = {".git", "target", "node_modules", "lab-results", "dist", "__pycache__"}


def tracked(root):
    """Paths, relative to a folder, of the repository's files in it; of all files if it is in no repository or git is missing."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True).stdout
        return [pathlib.PurePosixPath(name) for name in listed.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in BUILT]
            found += [pathlib.PurePosixPath(pathlib.Path(folder, name).relative_to(root).as_posix()) for name in files]
        return found
