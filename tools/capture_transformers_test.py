#!/usr/bin/env python3
"""Tests of capture_transformers.py; what needs torch and transformers is skipped, by name, without them."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).with_name("capture_transformers.py")
CAPTURES = TOOL.parent.parent / "golden" / "captures"


def missing():
    return [name for name in ("numpy", "h5py", "torch", "transformers") if importlib.util.find_spec(name) is None]


def run(*arguments):
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True)


class CommandLine(unittest.TestCase):
    def refused(self, message, *arguments):
        result = run("--out", "never.h5", *arguments)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(message, result.stderr)

    def test_help(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--position-offset", result.stdout)

    def test_bad_options(self):
        self.refused("--dtype", "--model", "glm5", "--dtype", "fp16")
        self.refused("--rows", "--model", "glm5", "--tokens", "4", "--rows", "5")
        self.refused("--tokens", "--model", "glm5", "--tokens", "0")
        self.refused("--position-offset", "--model", "glm5", "--position-offset", str(2**31 - 1))
        self.refused("--layers", "--model", "glm5", "--layers", "78")
        self.refused("layer 3 shares the indices of layer 2", "--model", "glm52", "--layers", "3")
        self.refused("does not share", "--model", "dsv32", "--indexer-types", "full,shared")

    def test_missing_packages_are_named(self):
        # -S: without the installed packages.
        result = subprocess.run([sys.executable, "-S", str(TOOL), "--model", "glm5", "--out", "never.h5"],
                                capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
        self.assertEqual(result.returncode, 1)
        for name in ("numpy", "h5py", "torch", "transformers"):
            self.assertIn(name, result.stderr)


@unittest.skipIf(missing(), f"not here: {', '.join(missing())}")
class Recording(unittest.TestCase):
    def recorded(self, name, *arguments):
        """Records again what a committed capture holds; yields (dataset, ours, committed)."""
        import h5py

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            result = run("--tiny", *arguments, "--out", str(path))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(folder), [name])  # no temporary file is left
            with h5py.File(path) as ours, h5py.File(CAPTURES / name) as committed:
                for attribute, value in committed.attrs.items():
                    if attribute != "source":
                        self.assertEqual(ours.attrs[attribute], value, attribute)
                datasets = []
                committed.visititems(lambda dataset, item: datasets.append(dataset)
                                     if isinstance(item, h5py.Dataset) else None)
                for dataset in datasets:
                    yield dataset, ours[dataset][:], committed[dataset][:]

    def agrees(self, name, *arguments):
        import numpy as np

        for dataset, ours, committed in self.recorded(name, *arguments):
            self.assertEqual(ours.shape, committed.shape, dataset)
            self.assertEqual(ours.dtype, committed.dtype, dataset)
            if committed.dtype.kind in "iu":
                if not dataset.endswith("topk_indices"):  # ties fall as they like
                    self.assertTrue((ours == committed).all(), dataset)
                continue
            visible = np.isfinite(committed) & (np.abs(committed) < 1e30)  # not masked
            error = np.linalg.norm(ours[visible] - committed[visible]) / np.linalg.norm(committed[visible])
            self.assertLess(error, 5e-6 if "fp64" in dataset else 1.5e-2, dataset)

    def test_full_layer_in_both_precisions(self):
        self.agrees("glm5_tiny.h5", "--model", "glm5", "--tokens", "24", "--seed", "1", "--dtype", "fp64,bf16")

    def test_shared_layer(self):
        self.agrees("glm52_tiny_shared.h5", "--model", "glm52", "--tokens", "20", "--layers", "2,3", "--seed", "4")

    def test_yarn(self):
        self.agrees("dsv32_tiny.h5", "--model", "dsv32", "--tokens", "20", "--seed", "2", "--position-offset", "500")

    def test_last_rows_and_regenerated_states(self):
        self.agrees("glm5_tiny_small.h5", "--model", "glm5", "--tokens", "24", "--rows", "8", "--seed", "3",
                    "--channel-scale", "0.004", "0.5", "--compact")

    def test_takes_the_inputs_of_another_capture(self):
        self.agrees("glm5_tiny.h5", "--model", "glm5", "--tokens", "24", "--seed", "1", "--dtype", "fp64,bf16",
                    "--inputs", str(CAPTURES / "glm5_tiny.h5"))

    def test_an_interrupted_run_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("--model", "glm5", "--tiny", "--inputs", "absent.h5", "--out", folder + "/x.h5")
            self.assertEqual(result.returncode, 1)
            self.assertIn("absent.h5", result.stderr)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    # A skip is no pass: 77 says so to ctest.
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
