#!/usr/bin/env python3
"""Tests of the hooks: recorded again with `transformers`, a committed recording comes back, and `mlacheck golden import`
takes it. MLACHECK_PROGRAM is the program. Skipped, by name, without torch, transformers and safetensors.

    capture_hooks_test.py --write FILE      makes the committed recording
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HOOKS = pathlib.Path(__file__).resolve().parent
COMMITTED = HOOKS.parent.parent / "fixtures/activations/foreign/transformers_glm5_tiny.safetensors"
sys.path[:0] = [str(HOOKS), str(HOOKS.parent)]


def missing():
    return [name for name in ("numpy", "torch", "transformers", "safetensors") if importlib.util.find_spec(name) is None]


def record(path, layers):
    """10 tokens through glm5:tiny in bf16."""
    import torch
    from capture_hooks_transformers import Recorder
    from synthetic_model import build

    body, _ = build("glm5:tiny", 1, torch.bfloat16)
    ids = torch.tensor([[(37 * i + 11) % 512 for i in range(10)]])
    with torch.no_grad(), Recorder(body, layers) as recorder:
        body(ids, use_cache=True)
    recorder.save(path)
    return recorder


class Hooks(unittest.TestCase):
    def test_what_is_recorded_is_taken_and_is_the_committed_recording(self):
        from safetensors.torch import load_file

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "engine.safetensors")
            recorder = record(path, [0, 2])
            self.assertEqual(recorder.model._forward_hooks, {})
            ours, committed = load_file(path), load_file(COMMITTED)
            for name, value in committed.items():
                self.assertEqual(ours[name].shape, value.shape, name)
                if value.dtype.is_floating_point and not name.endswith("index_scores"):
                    error = (ours[name].double() - value.double()).norm() / value.double().norm()
                    self.assertLess(error, 2**-8, name)
            for layer in "0", "2":
                program = [os.environ["MLACHECK_PROGRAM"], "golden", "import", path, "--synthetic", "glm5:tiny", "--layer",
                           layer, "--out", os.path.join(folder, "golden.h5")]
                result = subprocess.run(program, capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        record(sys.argv[2], [2])
    elif missing():
        print(f"skipped: not here: {', '.join(missing())}")
        sys.exit(77)
    else:
        unittest.main()
