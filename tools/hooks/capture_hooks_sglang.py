"""Records attention layers of GLM-5 or DeepSeek-V3.2 while SGLang runs them, for `mlacheck golden import`.

Read against SGLang 0.5.23: --forward-hooks (python/sglang/srt/model_executor/hook_manager.py) and DeepseekV2AttentionMLA
(models/deepseek_v2.py, models/deepseek_common). It has not been run in SGLang; capture_hooks_test.py runs it on modules that
make the same calls.

    SGLANG_DSA_FUSE_TOPK=0 SGLANG_DSA_PREFILL_DENSE_ATTN_KV_LEN_THRESHOLD=0 PYTHONPATH=tools/hooks \
    python -m sglang.launch_server --model-path DIR --disable-cuda-graph --disable-radix-cache --chunked-prefill-size -1 \
        --kv-cache-dtype bfloat16 --forward-hooks '[{"name": "mlacheck", "target_modules": ["model.layers.3.self_attn"],
        "hook_factory": "capture_hooks_sglang:record", "config": {"out": "engine.safetensors", "tokens": 64}}]'

Send one request of exactly `tokens` tokens. SGLang hands a hook what a forward has returned, so the first forward, which is
the server's own warm-up unless it is skipped, attaches the hooks that record a later one. Then

    mlacheck golden import engine.safetensors --checkpoint DIR --layer 3 --profile vllm --out layer3.h5

On one GPU: with tensor parallelism a worker has some of the heads alone. One layer a file: hidden_states (after
input_layernorm), positions, q_a, q_resid, q, kv_a, attn_output, output; and, as the prefill runs absorbed by the second
variable above, q_latent, kv, attn_latent, and q_pe and k_pe (in place: interleaved) unless attention itself rotates them.
topk_indices of prompts longer than index_topk (of others every key is selected), by the first variable: without it they
are slots of the cache.
"""

import os
import sys

ATTENTION = ("q", "k", "v", "forward_batch")  # of attn_mqa, by place


def selects_positions():
    """Whether topk_indices are positions."""
    return os.environ.get("SGLANG_DSA_FUSE_TOPK", "1").lower() in ("0", "false", "no", "n", "off")


class Recording:
    """Of one layer; stages is None but in the forward that is recorded."""

    def __init__(self, config):
        self.out, self.tokens = config["out"], config["tokens"]
        self.stages, self.handles = None, []

    def keep(self, stage, value):
        if self.stages is not None:
            value = value[0] if isinstance(value, tuple) else value
            self.stages.setdefault(stage, value.detach().clone().reshape(self.tokens, -1))

    def output_of(self, stage):
        return lambda _, __, output: self.keep(stage, output)

    def before(self, module, args, kwargs):
        named = dict(zip(("positions", "hidden_states"), args), **kwargs)
        if named["hidden_states"].shape[0] != self.tokens:
            return
        self.stages = {"positions": named["positions"].detach().clone()}
        self.keep("hidden_states", named["hidden_states"])

    def attend(self, module, args, kwargs):
        if self.stages is None:
            return
        named = dict(zip(ATTENTION, args), **kwargs)
        rank = module.v_head_dim  # of the latent
        self.keep("q_latent", named["q"][..., :rank])
        self.keep("kv", named["k"][..., :rank])
        # In some backends one tensor with the latent.
        q_pe, k_pe = named.get("q_rope"), named.get("k_rope")
        if q_pe is None and named["q"].shape[-1] > rank:
            q_pe, k_pe = named["q"][..., rank:], named["k"][..., rank:]
        if q_pe is not None and named.get("cos_sin_cache") is None:  # else rotated in there
            self.keep("q_pe", q_pe)
            self.keep("k_pe", k_pe)
        indices = named.get("topk_indices")
        if indices is not None and self.tokens > indices.shape[-1]:
            if selects_positions():
                self.keep("topk_indices", indices)
            else:
                print("capture_hooks_sglang: topk_indices are slots, not positions: start with SGLANG_DSA_FUSE_TOPK=0",
                      file=sys.stderr)

    def attach(self, attention):
        def halves(first, second, at):
            def hook(_, __, output):
                value = output[0] if isinstance(output, tuple) else output
                self.keep(first, value[..., :at])
                self.keep(second, value[..., at:])
            return hook

        self.handles = [
            attention.register_forward_pre_hook(self.before, with_kwargs=True),
            attention.register_forward_hook(self.finish),
            attention.fused_qkv_a_proj_with_mqa.register_forward_hook(halves("q_a", "kv_a", attention.q_lora_rank)),
            attention.q_b_proj.register_forward_pre_hook(lambda _, args: self.keep("q_resid", args[0])),
            attention.q_b_proj.register_forward_hook(self.output_of("q")),
            attention.attn_mqa.register_forward_pre_hook(self.attend, with_kwargs=True),
            attention.attn_mqa.register_forward_hook(self.output_of("attn_latent")),
            attention.o_proj.register_forward_pre_hook(lambda _, args: self.keep("attn_output", args[0])),
        ]

    def finish(self, module, args, output):
        if self.stages is None:
            return
        import sglang
        import torch
        from safetensors.torch import save_file

        self.keep("output", output)
        for handle in self.handles:
            handle.remove()
        integers = ("topk_indices", "positions")
        tensors = {name: (value.to(torch.int32) if name in integers else value).cpu().contiguous()
                   for name, value in self.stages.items()}
        save_file(tensors, self.out, metadata={"engine": f"SGLang {sglang.__version__}", "rope_order": "interleaved"})
        self.stages = None
        print(f"capture_hooks_sglang: {self.out}: {len(tensors)} arrays of {self.tokens} tokens", file=sys.stderr)


def record(config):
    """The hook on self_attn; its first call attaches the others, for the one forward that is recorded."""
    recording = Recording(config)

    def hook(module, args, output):
        if not recording.handles:
            recording.attach(module)

    return hook
