"""Tests of scripts/tracked.py: python3 -m unittest discover -s scripts."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from tracked import tracked


class WithoutRepository(unittest.TestCase):
    def test_all_files_but_built_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.rs", "crates/b.rs", "target/debug/c.rs", "crates/ui/node_modules/d.c"):
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            # Git is not installed on a bare machine, and an archive is no repository.
            for environment in ({}, {"PATH": folder}):
                with mock.patch.dict(os.environ, environment):
                    self.assertEqual(sorted(map(str, tracked(folder))), ["a.rs", "crates/b.rs"])


if __name__ == "__main__":
    unittest.main()
