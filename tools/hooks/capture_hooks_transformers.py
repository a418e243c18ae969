#!/usr/bin/env python3
"""Records attention layers of a model while `transformers` runs it, for `mlacheck golden import`.

    pip install torch transformers safetensors accelerate
    capture_hooks_transformers.py --model DIR --tokens 1,2,3 --layers 0,3 --out engine.safetensors
    mlacheck golden import engine.safetensors --checkpoint DIR --layer 3 --out layer3.h5

or, in a program of yours, around one prefill of one sequence without a cache before it:

    with Recorder(model, layers=[0, 3]) as recorder:
        model(input_ids, use_cache=True)
    recorder.save("engine.safetensors")

GLM-5 (GlmMoeDsaForCausalLM) and DeepSeek-V3.2 (DeepseekV32ForCausalLM), eager or sdpa attention. Of every layer:
hidden_states (after input_layernorm), the projections, kv and k_pe as the cache holds them, q_pe, index_scores,
topk_indices, attn_output, output. transformers leaves rotated elements de-interleaved: the file says so.
"""

import argparse
import sys


def fail(message):
    sys.exit(f"capture_hooks_transformers.py: {message}")


# Modules of self_attn whose output is a stage.
OUTPUTS = {
    "q_a_proj": "q_a", "q_a_layernorm": "q_resid", "q_b_proj": "q", "kv_a_proj_with_mqa": "kv_a",
    "kv_a_layernorm": "kv", "indexer.wq_b": "index_q", "indexer.wk": "index_k_proj", "indexer.k_norm": "index_k",
    "indexer.weights_proj": "index_weights_raw",
}
ROTATION = "apply_rotary_pos_emb_interleave"  # of the main attention


class Recorder:
    """Hooks on the layers of a model, removed when its context is left. One forward is recorded."""

    def __init__(self, model, layers):
        self.model, self.layers = model, list(layers)
        self.stages = {}  # "layer3.kv" -> tensor
        self.handles = []
        self.inside = None  # the recorded layer whose attention runs

    def __enter__(self):
        from torch.overrides import TorchFunctionMode

        body = getattr(self.model, "model", self.model)
        for layer in self.layers:
            self.attach(layer, body.layers[layer].self_attn)
        self.modeling = sys.modules[type(body).__module__]
        self.rotate = getattr(self.modeling, ROTATION, None)
        if self.rotate is None:
            fail(f"{self.modeling.__name__} has no {ROTATION}: this version pairs the rotated elements otherwise")
        setattr(self.modeling, ROTATION, self.rotation)
        recorder = self

        class TopK(TorchFunctionMode):  # the indexer returns indices alone
            def __torch_function__(self, function, types, args=(), kwargs=None):
                result = function(*args, **(kwargs or {}))
                if getattr(function, "__name__", "") == "topk" and recorder.inside is not None:
                    recorder.keep(recorder.inside, "index_scores", args[0])
                    recorder.keep(recorder.inside, "topk_indices", result.indices)
                return result

        self.mode = TopK()
        self.mode.__enter__()
        return self

    def __exit__(self, *exception):
        self.mode.__exit__(*exception)
        setattr(self.modeling, ROTATION, self.rotate)
        for handle in self.handles:
            handle.remove()

    def keep(self, layer, stage, value):
        name = f"layer{layer}.{stage}"
        if name in self.stages:
            fail(f"{name}: seen twice; record one forward")
        if value.shape[0] != 1:
            fail(f"{name}: a batch of {value.shape[0]}; record one sequence")
        self.stages[name] = value[0].detach().clone()

    def attach(self, layer, attention):
        def before(_, args, kwargs):
            self.inside = layer
            hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
            self.keep(layer, "hidden_states", hidden)
            if kwargs.get("position_ids") is not None:
                self.keep(layer, "positions", kwargs["position_ids"])

        def after(_, args, kwargs, output):
            self.inside = None
            self.keep(layer, "output", output[0])
            cache = kwargs.get("cache", kwargs.get("past_key_values"))
            if cache is not None:  # [1, 1, S, d]: latents and rotated keys; replaces what the hook has seen
                held = cache.layers[layer]
                self.stages[f"layer{layer}.kv"] = held.keys[0, 0].detach().clone()
                self.stages[f"layer{layer}.k_pe"] = held.values[0, 0].detach().clone()
            if f"layer{layer}.topk_indices" not in self.stages and len(output) > 2 and output[2] is not None:
                self.keep(layer, "topk_indices", output[2])  # of a layer that shares them

        self.handles.append(attention.register_forward_pre_hook(before, with_kwargs=True))
        self.handles.append(attention.register_forward_hook(after, with_kwargs=True))
        self.handles.append(attention.o_proj.register_forward_pre_hook(
            lambda _, args: self.keep(layer, "attn_output", args[0])))
        for name, module in attention.named_modules():
            if name in OUTPUTS:
                self.handles.append(module.register_forward_hook(
                    lambda _, __, output, stage=OUTPUTS[name]: self.keep(layer, stage, output)))

    def rotation(self, q, k, *args, **kwargs):
        """q [1, H, S, r]; the indexer's call has heads in another place."""
        rotated = self.rotate(q, k, *args, **kwargs)
        if self.inside is not None and f"layer{self.inside}.q_pe" not in self.stages:
            self.keep(self.inside, "q_pe", rotated[0].transpose(1, 2))
        return rotated

    def save(self, path):
        import torch
        import transformers
        from safetensors.torch import save_file

        tensors = {}
        for name, value in self.stages.items():
            if name.endswith((".topk_indices", ".positions")):
                value = value.to(torch.int32)
            elif value.dtype == torch.float64:
                value = value.to(torch.float32)
            tensors[name] = value.cpu().contiguous()
        save_file(tensors, path, metadata={
            "engine": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "rope_order": "deinterleaved"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="a directory, or a name that transformers knows")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--tokens", metavar="ID,ID", help="token ids")
    what.add_argument("--prompt", help="text, for the model's tokenizer")
    parser.add_argument("--layers", required=True, metavar="L,L")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--device", default="cpu", help="cpu, cuda, or auto")
    parser.add_argument("--out", required=True, metavar="FILE.safetensors")
    options = parser.parse_args()
    try:
        import accelerate  # noqa: F401, which transformers needs for a device
        import torch
        import transformers
    except ImportError as error:
        fail(f"{error}; install torch, transformers, safetensors and accelerate")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.model, dtype=getattr(torch, options.dtype), device_map=options.device, attn_implementation="eager")
    if options.prompt is None:
        ids = torch.tensor([[int(token) for token in options.tokens.split(",")]])
    else:
        ids = transformers.AutoTokenizer.from_pretrained(options.model)(options.prompt, return_tensors="pt").input_ids
    with torch.no_grad(), Recorder(model.eval(), [int(layer) for layer in options.layers.split(",")]) as recorder:
        model(ids.to(model.device), use_cache=True)
    recorder.save(options.out)
    print(f"{options.out}: {len(recorder.stages)} arrays of {ids.shape[1]} tokens")


if __name__ == "__main__":
    main()
