"""The hash checkpoint (fixtures/checkpoint/hash_checkpoint.h) in Python: tensors that anyone can regenerate from a seed,
and the sizes of the models. Needs numpy where values are asked for, torch in from_bf16_bits."""

import math
import pathlib
import sys


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")


# The attention-relevant part of each config.json, and the class that computes it.
GLM5 = dict(hidden_size=6144, num_hidden_layers=78, num_attention_heads=64, q_lora_rank=2048, kv_lora_rank=512,
            qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256, index_n_heads=32, index_head_dim=128,
            index_topk=2048, rms_norm_eps=1e-5, max_position_embeddings=202752)
MODELS = {
    "glm5": dict(
        sizes=GLM5, rope=dict(rope_type="default", rope_theta=1e6), sharing=None,
        package="glm_moe_dsa", prefix="GlmMoeDsa"),
    "glm52": dict(
        sizes={**GLM5, "max_position_embeddings": 1048576}, rope=dict(rope_type="default", rope_theta=8e6),
        sharing=dict(freq=4, offset=3), package="glm_moe_dsa", prefix="GlmMoeDsa"),
    "dsv32": dict(
        sizes=dict(hidden_size=7168, num_hidden_layers=61, num_attention_heads=128, q_lora_rank=1536,
                   kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, index_n_heads=64,
                   index_head_dim=128, index_topk=2048, rms_norm_eps=1e-6, max_position_embeddings=163840),
        rope=dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                  mscale_all_dim=1.0, original_max_position_embeddings=4096),
        sharing=None, package="deepseek_v32", prefix="DeepseekV32"),
}
# mlacheck's tiny models (reference/layer/model_sizes.cpp): these divided, 8 layers, top-k 8.
TINY_DIVISORS = dict(hidden_size=32, num_attention_heads=16, q_lora_rank=32, qk_nope_head_dim=4, v_head_dim=4,
                     index_n_heads=8)
STD = {"q_a_proj.weight": 0.02, "q_b_proj.weight": 0.05, "kv_a_proj_with_mqa.weight": 0.02,
       "kv_b_proj.weight": 0.04, "o_proj.weight": 0.01, "indexer.wq_b.weight": 0.03, "indexer.wk.weight": 0.02,
       "indexer.weights_proj.weight": 0.02, "indexer.k_norm.bias": 0.05}
NORM_STD = 0.1  # of a norm's weight, around 1


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def hash_normal(name, shape, std, seed):
    """fp32 array, nearly normal with deviation std: a function of name, seed and flat index alone."""
    import numpy as np

    key = (fnv1a64(name) + seed * 0xD1342543DE82EF95) & 0xFFFFFFFFFFFFFFFF
    scale = np.float32(std * math.sqrt(3.0) / 65536)
    values = np.empty(math.prod(shape), np.float32)
    chunk = 1 << 20  # stays in cache
    with np.errstate(over="ignore"):
        for begin in range(0, values.size, chunk):
            out = values[begin:begin + chunk]
            z = np.arange(begin + 1, begin + 1 + out.size, dtype=np.uint64)
            z *= np.uint64(0x9E3779B97F4A7C15)
            z += np.uint64(key)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
            lanes = z.view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int32)
            out[:] = (lanes - 131070).astype(np.float32) * scale
    return values.reshape(shape)


def to_bf16_bits(x):
    """u16 bits of finite fp32 values rounded to nearest even."""
    import numpy as np

    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)).astype(np.uint16)


def from_bf16_bits(bits, dtype):
    """A torch tensor of dtype."""
    import torch

    return torch.from_numpy(bits.view("int16")).view(torch.bfloat16).to(dtype)


def hash_weight(layer, name, shape, seed):
    """bf16 bits of the tensor model.layers.<layer>.self_attn.<name>."""
    is_norm = name.endswith("norm.weight")
    std = NORM_STD if is_norm else STD.get(name)
    if std is None:
        fail(f"tensor {name}: the hash checkpoint has no deviation for it; this version of transformers is unknown")
    values = hash_normal(f"model.layers.{layer}.self_attn.{name}", shape, std, seed)
    return to_bf16_bits(values + values.dtype.type(1) if is_norm else values)


def make_channel_scale(hidden_size, median, sigma, seed):
    import numpy as np

    spread = hash_normal("channel_scale", (hidden_size,), 1.0, seed).astype(np.float64)
    return (median * np.exp(sigma * spread)).astype(np.float32)


def hidden_bits_of(shape, channel_scale, seed):
    return to_bf16_bits(hash_normal("hidden_states", shape, 1.0, seed) * channel_scale)
