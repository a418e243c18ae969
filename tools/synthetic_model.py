"""Whole synthetic models (fixtures/model/synthetic_model.h) in `transformers`: two layers of a dense MLP and one of 8
experts, with the attention of the hash checkpoint. Needs numpy, torch and transformers."""

import importlib
import math

from hash_checkpoint import (MODELS, TINY_DIVISORS, fail, from_bf16_bits, hash_normal, hash_weight, to_bf16_bits)

NORM_STD = 0.2  # beside attention; also of the router's bias


def sizes_of(name):
    """(model, sizes, the decoder's part of config.json) of glm5, glm52 or dsv32, each also with :tiny."""
    base, _, tiny = name.partition(":")
    if base not in MODELS or tiny not in ("", "tiny"):
        fail(f"model {name}: expected one of {', '.join(MODELS)}, each also with :tiny")
    model = MODELS[base]
    sizes = dict(model["sizes"], num_hidden_layers=3)
    if tiny:
        for key, divisor in TINY_DIVISORS.items():
            sizes[key] //= divisor
        sizes["index_topk"] = 8
    decoder = dict(vocab_size=512 if tiny else 4096, intermediate_size=512 if tiny else 4096,
                   moe_intermediate_size=256 if tiny else 512, first_k_dense_replace=2, n_routed_experts=8,
                   n_shared_experts=1, num_experts_per_tok=2, n_group=4 if base == "dsv32" else 1,
                   topk_group=2 if base == "dsv32" else 1, norm_topk_prob=True, routed_scaling_factor=2.5)
    if base != "dsv32":
        decoder["indexer_types"] = ["full", "full", "shared" if base == "glm52" else "full"]
    return model, sizes, decoder


def decoder_weight(name, shape, seed):
    """bf16 bits of a tensor beside attention."""
    norm = name.endswith("norm.weight")
    if norm or len(shape) == 1:
        std = NORM_STD
    elif name == "model.embed_tokens.weight":
        std = 1.0
    else:
        std = 1 / math.sqrt(shape[-1])
    values = hash_normal(name, shape, std, seed)
    return to_bf16_bits(values + values.dtype.type(1) if norm else values)


def weight(name, shape, seed):
    if ".self_attn." in name:
        layer, own = name.removeprefix("model.layers.").split(".self_attn.")
        return hash_weight(int(layer), own, shape, seed)
    return decoder_weight(name, shape, seed)


def build(name, seed, dtype, topk=None, config_keys=None):
    """The decoder of `transformers` in eval mode, on the CPU; dtype bfloat16 keeps in fp32 what from_pretrained does."""
    import torch

    model, sizes, decoder = sizes_of(name)
    if topk is not None:
        sizes["index_topk"] = topk
    package = f"transformers.models.{model['package']}"
    configuration = importlib.import_module(f"{package}.configuration_{model['package']}")
    modeling = importlib.import_module(f"{package}.modeling_{model['package']}")
    config = getattr(configuration, model["prefix"] + "Config")(
        **sizes, **decoder, num_key_value_heads=sizes["num_attention_heads"], rope_parameters=dict(model["rope"]),
        pad_token_id=None, **(config_keys or {}))
    config._attn_implementation = config._experts_implementation = "eager"
    with torch.device("meta"):
        body = getattr(modeling, model["prefix"] + "Model")(config).eval()
    kept = tuple(getattr(body, "_keep_in_fp32_modules", None) or ()) + tuple(
        getattr(body, "_keep_in_fp32_modules_strict", None) or ())

    def tensor(key, shape):
        as_dtype = torch.float32 if dtype == torch.bfloat16 and any(part in key for part in kept) else dtype
        full = "model." + key
        if not full.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            return from_bf16_bits(weight(full, shape, seed), as_dtype)
        # Experts are stacked; gate and up are one tensor.
        stem, stacked = full.rsplit(".", 1)
        halves = ("gate_proj", "up_proj") if stacked == "gate_up_proj" else ("down_proj",)
        part = (shape[1] // len(halves), shape[2])
        return torch.stack([
            torch.cat([from_bf16_bits(weight(f"{stem}.{expert}.{half}.weight", part, seed), as_dtype)
                       for half in halves]) for expert in range(shape[0])])

    state = {key: tensor(key, tuple(value.shape)) for key, value in body.state_dict().items()}
    body.load_state_dict(state, assign=True, strict=True)
    body.rotary_emb = getattr(modeling, model["prefix"] + "RotaryEmbedding")(config)  # its buffers are no state
    return body.requires_grad_(False), config
