"""Records attention layers of GLM-5 or DeepSeek-V3.2 while SGLang runs them, for `mlacheck golden import`.

Written against SGLang's documented forward hooks (--forward-hooks, python/sglang/srt/model_executor/hook_manager.py,
2026) and the sources of its DeepseekV2AttentionMLA; it has not been run.

    PYTHONPATH=tools/hooks python -m sglang.launch_server --model-path DIR --disable-cuda-graph --disable-radix-cache \
        --chunked-prefill-size -1 --forward-hooks '[{"name": "mlacheck", "target_modules": ["model.layers.3.self_attn"],
        "hook_factory": "capture_hooks_sglang:record", "hook_type": "forward_pre", "with_kwargs": true,
        "config": {"out": "engine.safetensors", "tokens": 64}}]'

Send one request of exactly `tokens` tokens (so that warm-up is not mistaken for it), then

    mlacheck golden import engine.safetensors --checkpoint DIR --layer 3 --profile vllm --out layer3.h5

On one GPU: with tensor parallelism a worker has some of the heads alone. One layer a file: hidden_states (after
input_layernorm), positions, and, where the prefill runs absorbed (not as multi-head attention), q_latent, q_pe, kv, k_pe
(in place: interleaved), topk_indices, attn_latent; attn_output, output.
"""

ATTENTION = ("q", "k", "v", "forward_batch")  # of attn_mqa, by place


def record(config):
    """The hook on self_attn; the others are attached for the one forward that is recorded."""
    state = {"stages": None, "handles": []}

    def keep(stage, value):
        value = value[0] if isinstance(value, tuple) else value
        if value is not None:
            state["stages"].setdefault(stage, value.detach().clone())

    def attend(_, args, kwargs):
        named = dict(zip(ATTENTION, args), **kwargs)
        if named.get("q_rope") is None or named.get("k_rope") is None:
            return  # not absorbed
        tokens = config["tokens"]
        keep("q_latent", named["q"].reshape(tokens, -1))
        keep("q_pe", named["q_rope"].reshape(tokens, -1))
        keep("kv", named["k"].reshape(tokens, -1))
        keep("k_pe", named["k_rope"].reshape(tokens, -1))
        keep("topk_indices", named.get("topk_indices"))

    def finish(module, args, output):
        import sglang
        import torch
        from safetensors.torch import save_file

        keep("output", output)
        for handle in state["handles"]:
            handle.remove()
        integers = ("topk_indices", "positions")
        tensors = {name: (value.to(torch.int32) if name in integers else value).cpu().contiguous()
                   for name, value in state["stages"].items()}
        save_file(tensors, config["out"], metadata={"engine": f"SGLang {sglang.__version__}",
                                                    "rope_order": "interleaved"})

    def before(module, args, kwargs):
        named = dict(zip(("positions", "hidden_states"), args), **kwargs)
        if state["stages"] is not None or named["hidden_states"].shape[0] != config["tokens"]:
            return None
        state["stages"] = {}
        keep("positions", named["positions"])
        keep("hidden_states", named["hidden_states"])
        state["handles"] = [
            module.register_forward_hook(finish),
            module.attn_mqa.register_forward_pre_hook(attend, with_kwargs=True),
            module.attn_mqa.register_forward_hook(
                lambda _, __, output: keep("attn_latent", output.reshape(config["tokens"], -1))),
            module.o_proj.register_forward_pre_hook(lambda _, inputs: keep("attn_output", inputs[0])),
        ]
        return None

    return before
