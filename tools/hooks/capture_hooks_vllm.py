#!/usr/bin/env python3
"""Records attention layers of GLM-5 or DeepSeek-V3.2 while vLLM runs them, for `mlacheck golden import`.

Written against vLLM's documentation (LLM.apply_model) and the sources of its MultiHeadLatentAttentionWrapper
(vllm/model_executor/layers/mla.py, 2026); it has not been run.

    VLLM_ENABLE_V1_MULTIPROCESSING=0 capture_hooks_vllm.py --model DIR --tokens 1,2,3 --layers 0,3 --out engine.safetensors
    mlacheck golden import engine.safetensors --checkpoint DIR --layer 3 --profile vllm --out layer3.h5

One prefill of one prompt, on one GPU: with tensor parallelism a worker has some of the heads alone. Of every layer:
hidden_states (after input_layernorm), positions, q_resid, q, kv, k_pe, q_pe (in place: interleaved), topk_indices,
attn_output, output. An FP8 checkpoint is multiplied in fp8, for which `golden import` has no bounds: serve bf16 weights.
"""

import argparse
import os
import sys


def attach(model, layers):
    """In the worker: hooks that keep, on the model, what the next forward computes."""
    stages = model.mlacheck_stages = {}

    def keep(layer, stage, value):
        value = value[0] if isinstance(value, tuple) else value
        if f"layer{layer}.{stage}" not in stages:  # the prefill, not what is decoded after it
            stages[f"layer{layer}.{stage}"] = value.detach().clone()

    found = []
    for name, module in model.named_modules():
        if type(module).__name__ != "MultiHeadLatentAttentionWrapper":
            continue
        layer = int(name.split("layers.")[1].split(".")[0])
        if layer not in layers:
            continue
        found.append(layer)

        def before(wrapper, args, kwargs, layer=layer):
            named = dict(zip(("positions", "hidden_states"), args), **kwargs)
            keep(layer, "positions", named["positions"])
            keep(layer, "hidden_states", named["hidden_states"])

        def attend(wrapper, args, kwargs, layer=layer, nope=module.qk_nope_head_dim):
            q, kv, k_pe = args[:3]
            keep(layer, "q_pe", q[..., nope:])
            keep(layer, "kv", kv)
            keep(layer, "k_pe", k_pe.reshape(k_pe.shape[0], -1))

        def after(wrapper, args, kwargs, output, layer=layer):
            keep(layer, "output", output)
            buffer = getattr(wrapper, "topk_indices_buffer", None)
            if buffer is not None:
                keep(layer, "topk_indices", buffer[:output.shape[0]])

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after, with_kwargs=True)
        module.mla_attn.register_forward_pre_hook(attend, with_kwargs=True)
        module.o_proj.register_forward_pre_hook(lambda _, args, layer=layer: keep(layer, "attn_output", args[0]))
        module.q_a_layernorm.register_forward_hook(
            lambda _, __, output, layer=layer: keep(layer, "q_resid", output))
        module.q_b_proj.register_forward_hook(lambda _, __, output, layer=layer: keep(layer, "q", output))
    return sorted(found)


def save(model, path, engine):
    import torch
    from safetensors.torch import save_file

    integers = (".topk_indices", ".positions")
    tensors = {name: (value.to(torch.int32) if name.endswith(integers) else value).cpu().contiguous()
               for name, value in model.mlacheck_stages.items()}
    save_file(tensors, path, metadata={"engine": engine, "rope_order": "interleaved"})
    return len(tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", required=True, metavar="ID,ID")
    parser.add_argument("--layers", required=True, metavar="L,L")
    parser.add_argument("--out", required=True, metavar="FILE.safetensors")
    options = parser.parse_args()
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # functions are handed to the worker as they are
    import functools

    import vllm

    layers = [int(layer) for layer in options.layers.split(",")]
    tokens = [int(token) for token in options.tokens.split(",")]
    llm = vllm.LLM(model=options.model, enforce_eager=True, enable_prefix_caching=False, tensor_parallel_size=1,
                   max_num_batched_tokens=max(len(tokens), 2048), max_num_seqs=1)
    found = llm.apply_model(functools.partial(attach, layers=layers))[0]
    if found != sorted(layers):
        sys.exit(f"capture_hooks_vllm.py: --layers {options.layers}: found {found} alone")
    llm.generate({"prompt_token_ids": tokens}, vllm.SamplingParams(max_tokens=1, temperature=0))
    count = llm.apply_model(functools.partial(save, path=options.out, engine=f"vLLM {vllm.__version__}"))[0]
    print(f"{options.out}: {count} arrays of {len(tokens)} tokens")


if __name__ == "__main__":
    main()
