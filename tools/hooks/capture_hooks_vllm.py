#!/usr/bin/env python3
"""Records attention layers of GLM-5 or DeepSeek-V3.2 while vLLM runs them, for `mlacheck golden import`.

Read against vLLM 0.33.0: LLM.apply_model, DeepseekV32Attention (vllm/models/deepseek_v32/attention.py, what CUDA and ROCm
run) and MultiHeadLatentAttentionWrapper (vllm/model_executor/layers/mla.py, what releases before it and other platforms
run). It has not been run in vLLM; capture_hooks_test.py runs it on modules that make the same calls.

    VLLM_ENABLE_V1_MULTIPROCESSING=0 capture_hooks_vllm.py --model DIR --tokens 1,2,3 --layers 0,3 --out engine.safetensors
    mlacheck golden import engine.safetensors --checkpoint DIR --layer 3 --profile vllm --out layer3.h5

One prefill of one prompt, on one GPU: with tensor parallelism a worker has some of the heads alone. Of every layer:
hidden_states (after input_layernorm), positions, q_a, q_resid, q, kv_a, kv, k_pe and q_pe (in place: interleaved), q_latent
(where it is absorbed), index_q, index_k_proj, index_weights_raw, attn_output, output. topk_indices of prompts longer than
index_topk: of others every key is selected, and vLLM may leave its buffer as it was. An FP8 checkpoint is multiplied in
fp8, for which `golden import` has no bounds: serve bf16 weights.
"""

import argparse
import inspect
import os
import sys


class Stages:
    """Of one layer; names are `golden import`'s."""

    def __init__(self, tensors, layer):
        self.tensors, self.prefix = tensors, f"layer{layer}."

    def keep(self, stage, value):
        value = value[0] if isinstance(value, tuple) else value  # a linear layer's output and bias
        if self.prefix + stage not in self.tensors:  # the prefill, not what is decoded after it
            self.tensors[self.prefix + stage] = value.detach().clone()

    def keep_halves(self, first, second, at):
        """A hook for a module that multiplies two matrices at once."""
        def hook(_, args, output):
            value = output[0] if isinstance(output, tuple) else output
            self.keep(first, value[:, :at])
            self.keep(second, value[:, at:])
        return hook


def keep_indices(stages, buffer, tokens):
    if buffer is not None and tokens > buffer.shape[-1]:
        stages.keep("topk_indices", buffer[:tokens])


def attach_common(attention, stages, topk_buffer):
    """What both classes have: inputs, output, and the modules of the projections."""
    def before(_, args, kwargs):
        named = dict(zip(("positions", "hidden_states"), args), **kwargs)
        stages.keep("positions", named["positions"])
        stages.keep("hidden_states", named["hidden_states"])

    def after(_, args, kwargs, output):
        stages.keep("output", output)
        keep_indices(stages, topk_buffer, output.shape[0])

    attention.register_forward_pre_hook(before, with_kwargs=True)
    attention.register_forward_hook(after, with_kwargs=True)
    attention.fused_qkv_a_proj.register_forward_hook(stages.keep_halves("q_a", "kv_a", attention.q_lora_rank))
    # Its input is q_a behind its norm, which may be fused with what follows it.
    attention.q_b_proj.register_forward_pre_hook(lambda _, args: stages.keep("q_resid", args[0]))
    attention.q_b_proj.register_forward_hook(lambda _, __, output: stages.keep("q", output))
    attention.o_proj.register_forward_pre_hook(lambda _, args: stages.keep("attn_output", args[0]))
    if attention.indexer is not None:
        attention.indexer.wq_b.register_forward_hook(lambda _, __, output: stages.keep("index_q", output))
        attention.indexer.wk_weights_proj.register_forward_hook(
            stages.keep_halves("index_k_proj", "index_weights_raw", attention.indexer.head_dim))


def attach_fused(attention, stages):
    """DeepseekV32Attention: norms and rotations are one kernel, whose results go to _sparse_indexer_and_attn."""
    attach_common(attention, stages, attention.topk_indices_buffer)
    core = attention._sparse_indexer_and_attn
    signature = inspect.signature(core)

    def attend(*args, **kwargs):
        named = signature.bind(*args, **kwargs).arguments
        stages.keep("kv", named["kv_c"])
        stages.keep("k_pe", named["k_pe"])
        if named["mqa_q"].shape == named["q_pe"].shape:  # not packed into fp8: q_pe rotated
            stages.keep("q_pe", named["mqa_q"])
        if named["ql_nope"].shape[-1] == attention.kv_lora_rank:
            stages.keep("q_latent", named["ql_nope"])
        return core(*args, **kwargs)

    attention._sparse_indexer_and_attn = attend


def attach_wrapper(attention, stages):
    """MultiHeadLatentAttentionWrapper: what is rotated goes to mla_attn."""
    impl = getattr(attention.mla_attn, "impl", None)  # of a layer that shares indices, too
    attach_common(attention, stages, getattr(impl, "topk_indices_buffer", None))

    def attend(_, args, kwargs):
        named = dict(zip(("q", "kv_c_normed", "k_pe"), args), **kwargs)
        stages.keep("q_pe", named["q"][..., attention.qk_nope_head_dim:])
        stages.keep("kv", named["kv_c_normed"])
        stages.keep("k_pe", named["k_pe"].reshape(named["k_pe"].shape[0], -1))

    attention.mla_attn.register_forward_pre_hook(attend, with_kwargs=True)


ATTACH = {"DeepseekV32Attention": attach_fused, "MultiHeadLatentAttentionWrapper": attach_wrapper}


def attach(model, layers):
    """In the worker: hooks that keep, on the model, what the next forward computes."""
    model.mlacheck_stages = {}
    found = []
    for name, module in model.named_modules():
        if type(module).__name__ not in ATTACH:
            continue
        layer = int(name.split("layers.")[1].split(".")[0])
        if layer in layers:
            found.append(layer)
            ATTACH[type(module).__name__](module, Stages(model.mlacheck_stages, layer))
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
                   kv_cache_dtype="bfloat16",  # on Blackwell it would be fp8
                   max_num_batched_tokens=max(len(tokens), 2048), max_num_seqs=1)
    found = llm.apply_model(functools.partial(attach, layers=layers))[0]
    if found != sorted(layers):
        sys.exit(f"capture_hooks_vllm.py: --layers {options.layers}: found {found or 'none'} among modules of the classes "
                 f"{', '.join(ATTACH)}; this was read against vLLM 0.33.0, here is {vllm.__version__}")
    llm.generate({"prompt_token_ids": tokens}, vllm.SamplingParams(max_tokens=1, temperature=0))
    count = llm.apply_model(functools.partial(save, path=options.out, engine=f"vLLM {vllm.__version__}"))[0]
    print(f"{options.out}: {count} arrays of {len(tokens)} tokens")


if __name__ == "__main__":
    main()
