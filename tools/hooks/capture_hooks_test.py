#!/usr/bin/env python3
"""Tests of the hooks: recorded again with `transformers`, a committed recording comes back, and `mlacheck golden import`
takes it; it takes, too, what the hooks for vLLM and SGLang record of doubles that return the same. MLACHECK_PROGRAM is the program. Skipped, by name, without torch, transformers and safetensors.

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


def imported(path, layer, folder):
    program = [os.environ["MLACHECK_PROGRAM"], "golden", "import", path, "--synthetic", "glm5:tiny", "--layer", str(layer),
               "--out", os.path.join(folder, f"golden{layer}.h5")]
    return subprocess.run(program, capture_output=True, text=True)


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
                result = imported(path, layer, folder)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "there is no accelerate")
    def test_a_synthesized_checkpoint_is_run_and_taken(self):
        program = [os.environ["MLACHECK_PROGRAM"], "golden"]
        with tempfile.TemporaryDirectory() as folder:
            model, path = os.path.join(folder, "model"), os.path.join(folder, "engine.safetensors")
            for command in (program + ["synthesize", "dsv32:tiny", "--out", model],
                            [sys.executable, str(HOOKS / "capture_hooks_transformers.py"), "--model", model,
                             "--tokens", ",".join(map(str, range(10))), "--layers", "2", "--out", path],
                            program + ["import", path, "--checkpoint", model, "--layer", "2",
                                       "--out", os.path.join(folder, "golden.h5")]):
                result = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class Engines(unittest.TestCase):
    """The hooks for vLLM and SGLang on doubles of their layers (engine_doubles.py)."""

    @classmethod
    def setUpClass(cls):
        import engine_doubles
        import torch
        from safetensors.torch import load_file
        from synthetic_model import build

        cls.doubles = engine_doubles
        body, _ = build("glm5:tiny", 1, torch.bfloat16)
        cls.recorded = engine_doubles.Recorded(load_file(COMMITTED), body.layers[2].self_attn.kv_b_proj.weight.detach())

    def expect_taken(self, path, folder, stages):
        from safetensors.torch import load_file

        self.assertEqual(sorted(load_file(path)), sorted(stages))
        result = imported(path, 2, folder)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    PROJECTIONS = ["hidden_states", "positions", "q_a", "q_resid", "q", "kv_a", "kv", "k_pe", "q_pe", "topk_indices",
                   "attn_output", "output"]

    def test_vllm(self):
        import capture_hooks_vllm as hooks

        indexer = ["index_q", "index_k_proj", "index_weights_raw"]
        for double, name, more in ((self.doubles.DeepseekV32Attention, None, ["q_latent"]),
                                   (self.doubles.MultiHeadLatentAttentionWrapper, "mla_attn", [])):
            attention = double(self.recorded)
            model = self.doubles.model_of(attention, 2, name)
            self.assertEqual(hooks.attach(model, [2, 3]), [2])
            for _ in range(2):  # what is decoded after the prefill is not kept
                attention(positions=self.recorded.stages["positions"], hidden_states=self.recorded.stages["hidden_states"])
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "engine.safetensors")
                hooks.save(model, path, "a double")
                self.expect_taken(path, folder, [f"layer2.{stage}" for stage in self.PROJECTIONS + indexer + more])

    def run_sglang(self, folder, **options):
        import types

        import capture_hooks_sglang as hooks

        sys.modules["sglang"] = types.SimpleNamespace(__version__="a double")
        path = os.path.join(folder, "engine.safetensors")
        attention = self.doubles.DeepseekV2AttentionMLA(self.recorded, **options)
        attention.register_forward_hook(hooks.record({"out": path, "tokens": 10}))
        stages = self.recorded.stages
        for tokens in (3, 7, 10, 10):  # the server's warm-up, another request, the one, a decoded one
            attention(positions=stages["positions"][:tokens], hidden_states=stages["hidden_states"][:tokens],
                      forward_batch=None)
            self.assertEqual(os.path.exists(path), tokens == 10)
        return path

    def test_sglang(self):
        for apart in True, False:
            with tempfile.TemporaryDirectory() as folder:
                os.environ["SGLANG_DSA_FUSE_TOPK"] = "0"
                path = self.run_sglang(folder, apart=apart)
                self.expect_taken(path, folder, self.PROJECTIONS + ["q_latent", "attn_latent"])

    def test_sglang_keeps_no_slots_for_positions(self):
        from safetensors.torch import load_file

        with tempfile.TemporaryDirectory() as folder:
            os.environ.pop("SGLANG_DSA_FUSE_TOPK", None)
            path = self.run_sglang(folder)
            self.assertNotIn("topk_indices", load_file(path))
            result = imported(path, 2, folder)
            self.assertEqual(result.returncode, 3)
            self.assertIn("topk_indices are needed", result.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        record(sys.argv[2], [2])
    elif missing():
        print(f"skipped: not here: {', '.join(missing())}")
        sys.exit(77)
    else:
        unittest.main()
