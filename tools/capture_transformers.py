#!/usr/bin/env python3
"""Records what the attention layers of the `transformers` package compute, for `mlacheck oracle`.

    pip install torch transformers h5py numpy
    capture_transformers.py --model glm5 --tokens 40 --topk 12 --seed 1 --dtype fp64,bf16 --out glm5_prefill.h5
    capture_transformers.py --model glm52 --tiny --layers 0,3 --out glm52_tiny.h5

Weights and inputs come from a seed (the hash checkpoint: fixtures/checkpoint/hash_checkpoint.h), so that a capture
holds results alone. Eager attention; every layer reads the same hidden states, which stand for the output of
input_layernorm. Layout:

    /                       attributes: the model's sizes, seed, S, position_offset, rope, scaling, indexer_types
    /positions              i64 [S]
    /hidden_states_bf16     u16 bits [S, hidden] of bf16(hash_normal * channel_scale); with --compact instead
                            /channel_scale f32 [hidden] and @hidden_states_sha256 of those bits
    /layer<l>/<fp64|bf16>/  f32: q_a_layernorm, kv_a_proj_with_mqa, indexer.wq_b, indexer.k_norm,
                            indexer.weights_proj, index_scores, attn_output, output; i32: topk_indices

A layer that shares its indices has no indexer datasets. With --rows N the per-query datasets hold the last N rows.
"""

import argparse
import contextlib
import hashlib
import importlib
import os
import sys
import time

from hash_checkpoint import (MODELS, TINY_DIVISORS, fail, from_bf16_bits, hash_weight, hidden_bits_of,
                             make_channel_scale)


def require(*modules):
    missing = []
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            missing.append(f"{name} ({error})")
    if missing:
        fail("cannot import " + ", ".join(missing) + "; install torch, transformers, h5py and numpy")


# Root attributes of a capture.
RECORDED_SIZES = ("hidden_size", "num_attention_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                  "qk_rope_head_dim", "v_head_dim", "index_n_heads", "index_head_dim", "index_topk", "rms_norm_eps")



def read_inputs(path, shape):
    """(bf16 bits of the hidden states, channel_scale or None) of a capture."""
    import h5py

    try:
        with h5py.File(path) as file:
            if "channel_scale" in file:
                scale = file["channel_scale"][:]
                found = (int(file.attrs["S"]), scale.size)
                bits = hidden_bits_of(found, scale, int(file.attrs["seed"]))
                if hashlib.sha256(bits.astype("<u2").tobytes()).hexdigest() != file.attrs["hidden_states_sha256"]:
                    fail(f"--inputs {path}: hidden_states_sha256 does not match")
            else:
                scale, bits = None, file["hidden_states_bf16"][:]
                found = bits.shape
    except (OSError, KeyError) as error:
        fail(f"--inputs {path}: {error}")
    if tuple(found) != shape:
        fail(f"--inputs {path}: expected hidden states of shape {list(shape)}, got {list(found)}")
    return bits, scale


# --- one layer of transformers ---------------------------------------------------------------------------------------


def model_config(model, sizes, indexer_types):
    package = importlib.import_module(f"transformers.models.{model['package']}.configuration_{model['package']}")
    keys = dict(sizes, num_key_value_heads=sizes["num_attention_heads"], rope_parameters=dict(model["rope"]))
    if indexer_types:
        keys.update(indexer_types=list(indexer_types), num_hidden_layers=len(indexer_types))
    config = getattr(package, model["prefix"] + "Config")(**keys)
    config._attn_implementation = "eager"
    return config


def build_attention(modeling, model, config, layer, seed, dtype):
    """The attention module of one layer, with its weights."""
    import torch

    with torch.device("meta"):
        module = getattr(modeling, model["prefix"] + "Attention")(config, layer).eval()
    weights = {}
    for name, parameter in module.named_parameters():
        weights[name] = from_bf16_bits(hash_weight(layer, name, tuple(parameter.shape), seed), dtype)
    module.load_state_dict(weights, assign=True, strict=True)
    return module.requires_grad_(False)


def topk_recorder(records):
    """Within it, the scores of every topk call are kept: the indexer returns indices alone."""
    from torch.overrides import TorchFunctionMode

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if getattr(function, "__name__", "") == "topk":
                records.append((args[0], result.indices))
            return result

    return Recorder()


def run_layer(modeling, model, config, layer, seed, dtype, hidden_bits, positions, shared_indices):
    """All stages by dataset name, and the top-k indices [1, S, k] for the layers that share them."""
    import torch

    module = build_attention(modeling, model, config, layer, seed, dtype)
    hidden = from_bf16_bits(hidden_bits, dtype)[None]
    position_ids = torch.from_numpy(positions)[None]
    # The rotary tables come from fp32 angles whatever dtype asks for.
    cos_sin = getattr(modeling, model["prefix"] + "RotaryEmbedding")(config)(hidden, position_ids)
    length = hidden.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    mask = torch.zeros(1, 1, length, length, dtype=dtype).masked_fill(future, torch.finfo(dtype).min)

    stages, calls = {}, []
    hooks = [
        part.register_forward_hook(lambda _, __, output, name=name: stages.__setitem__(name, output))
        for name, part in module.named_modules()
        if name in ("q_a_layernorm", "kv_a_proj_with_mqa", "indexer.wq_b", "indexer.k_norm", "indexer.weights_proj")
    ]
    hooks.append(module.o_proj.register_forward_pre_hook(lambda _, args: stages.__setitem__("attn_output", args[0])))
    arguments = dict(hidden_states=hidden, position_embeddings=cos_sin, attention_mask=mask, position_ids=position_ids)
    if shared_indices is not None:
        arguments["prev_topk_indices"] = shared_indices
    with torch.no_grad(), topk_recorder(calls):
        stages["output"] = module(**arguments)[0]
    for hook in hooks:
        hook.remove()

    if shared_indices is None:
        if len(calls) != 1:
            fail(f"layer {layer}: expected one topk call in the indexer, saw {len(calls)}; this version of "
                 "transformers is unknown")
        stages["index_scores"], indices = calls[0]
    else:
        indices = shared_indices
    stages["topk_indices"] = indices
    return {name: value[0] for name, value in stages.items()}, indices.to(torch.int32)


# --- the file --------------------------------------------------------------------------------------------------------

EVERY_KEY = ("kv_a_proj_with_mqa", "indexer.k_norm")  # [S, ...]; the others have a row a query


def write_stages(group, stages, rows):
    import numpy as np

    for name, value in stages.items():
        if name not in EVERY_KEY:
            value = value[-rows:]
        if name == "topk_indices":
            array = value.cpu().numpy().astype(np.int32)
        else:
            with np.errstate(over="ignore"):  # float64's lowest, the mask, becomes -inf
                array = value.double().cpu().numpy().astype(np.float32)
        group.create_dataset(name, data=array, compression="gzip", compression_opts=9, shuffle=True)


@contextlib.contextmanager
def replacing(path):
    """A temporary name beside path, renamed to it at the end, removed on failure."""
    temporary = f"{path}.partial"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


# --- the command line ------------------------------------------------------------------------------------------------


def integer_list(text):
    return [int(item) for item in text.split(",")]


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--tiny", action="store_true", help="mlacheck's tiny sizes of the model")
    parser.add_argument("--tokens", type=int, default=40, metavar="S")
    parser.add_argument("--topk", type=int, metavar="K", help="index_topk, instead of the model's")
    parser.add_argument("--layers", type=integer_list, default=[0], metavar="L,L",
                        help="layers to record; a shared one needs the full one before it")
    parser.add_argument("--indexer-types", metavar="T,T",
                        help="full or shared, from layer 0 on, instead of the model's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--position-offset", type=int, default=0, metavar="P", help="position of the first token")
    parser.add_argument("--dtype", default="fp64", help="fp64, bf16, or both with a comma")
    parser.add_argument("--rows", type=int, metavar="N", help="record the last N queries only")
    parser.add_argument("--channel-scale", type=float, nargs=2, metavar=("MEDIAN", "SIGMA"), default=[1.0, 0.5],
                        help="log-normal factors on the channels of the hidden states, whose sizes differ in real ones")
    parser.add_argument("--inputs", metavar="CAPTURE.h5", help="take the hidden states of that capture")
    parser.add_argument("--compact", action="store_true", help="store channel_scale instead of the hidden states")
    for name in RECORDED_SIZES:
        if name not in ("index_topk",):
            parser.add_argument("--" + name.replace("_", "-"), type=float if name == "rms_norm_eps" else int,
                                metavar="N", help="instead of the model's")
    parser.add_argument("--out", required=True, metavar="FILE.h5")
    options = parser.parse_args(arguments)

    dtypes = options.dtype.split(",")
    if not set(dtypes) <= {"fp64", "bf16"} or len(set(dtypes)) != len(dtypes):
        parser.error(f"--dtype: expected fp64, bf16 or both, got {options.dtype}")
    options.dtypes = dtypes
    if options.tokens < 1:
        parser.error(f"--tokens: expected at least 1, got {options.tokens}")
    if options.topk is not None and options.topk < 1:
        parser.error(f"--topk: expected at least 1, got {options.topk}")
    options.rows = options.tokens if options.rows is None else options.rows
    if not 1 <= options.rows <= options.tokens:
        parser.error(f"--rows: expected 1 .. {options.tokens}, got {options.rows}")
    if not 0 <= options.position_offset <= 2**31 - 1 - options.tokens:
        parser.error(f"--position-offset: expected 0 .. 2^31 - 1 - tokens, got {options.position_offset}")
    if not options.channel_scale[0] > 0 or not options.channel_scale[1] >= 0:
        parser.error("--channel-scale: expected a median above 0 and a sigma of at least 0")
    if not 0 <= options.seed < 2**63:
        parser.error(f"--seed: expected 0 .. 2^63 - 1, got {options.seed}")
    if sorted(set(options.layers)) != options.layers or options.layers[0] < 0:
        parser.error("--layers: expected ascending layer numbers")

    model = MODELS[options.model]
    sizes = dict(model["sizes"])
    if options.tiny:
        for name, divisor in TINY_DIVISORS.items():
            sizes[name] //= divisor
        sizes.update(num_hidden_layers=8, index_topk=8)
    for name in RECORDED_SIZES:
        value = options.topk if name == "index_topk" else getattr(options, name)
        if value is not None:
            sizes[name] = value
    if options.layers[-1] >= sizes["num_hidden_layers"]:
        parser.error(f"--layers: the model has layers 0 .. {sizes['num_hidden_layers'] - 1}")
    options.sizes = sizes

    options.types = None  # all full
    if options.indexer_types:
        options.types = options.indexer_types.split(",")
        if not set(options.types) <= {"full", "shared"} or len(options.types) <= options.layers[-1]:
            parser.error(f"--indexer-types: expected full or shared for each layer up to {options.layers[-1]}")
        if model["prefix"] != "GlmMoeDsa":
            parser.error(f"--indexer-types: {options.model} does not share indices")
    elif model["sharing"]:
        freq, offset = model["sharing"]["freq"], model["sharing"]["offset"]
        options.types = ["full" if max(i - offset + 1, 0) % freq == 0 else "shared"
                         for i in range(options.layers[-1] + 1)]
    elif model["prefix"] == "GlmMoeDsa":
        options.types = ["full"] * (options.layers[-1] + 1)
    for layer in options.layers:
        source = full_layer_of(layer, options.types)
        if source is None or source not in options.layers:
            parser.error(f"--layers: layer {layer} shares the indices of layer {source}, which is not recorded")
    return options


def full_layer_of(layer, types):
    """The layer whose indices `layer` uses."""
    while types and layer >= 0 and types[layer] == "shared":
        layer -= 1
    return layer if layer >= 0 else None


def main():
    options = parse(sys.argv[1:])
    require("numpy", "h5py", "torch", "transformers")
    import h5py
    import numpy as np
    import torch
    import transformers

    model, sizes, seed = MODELS[options.model], options.sizes, options.seed
    try:
        modeling = importlib.import_module(f"transformers.models.{model['package']}.modeling_{model['package']}")
    except ImportError as error:
        fail(f"transformers {transformers.__version__} has no {model['package']}: {error}")
    config = model_config(model, sizes, options.types)

    start = time.monotonic()

    def progress(what):
        print(f"[{time.monotonic() - start:6.1f} s] {what}", file=sys.stderr, flush=True)

    shape = (options.tokens, sizes["hidden_size"])
    if options.inputs:
        hidden_bits, channel_scale = read_inputs(options.inputs, shape)
    else:
        channel_scale = make_channel_scale(shape[1], *options.channel_scale, seed)
        hidden_bits = hidden_bits_of(shape, channel_scale, seed)
    if options.compact and channel_scale is None:
        fail(f"--compact: {options.inputs} has no channel_scale")
    positions = np.arange(options.tokens, dtype=np.int64) + options.position_offset

    with replacing(options.out) as temporary, h5py.File(temporary, "w") as file:
        for name in RECORDED_SIZES:
            file.attrs[name] = sizes[name]
        file.attrs["S"] = options.tokens
        file.attrs["seed"] = seed
        file.attrs["position_offset"] = options.position_offset
        file.attrs["model"] = options.model + (":tiny" if options.tiny else "")
        file.attrs["rope"] = str(model["rope"])
        file.attrs["indexer_types"] = str(options.types) if options.types else "all full"
        file.attrs["source"] = (f"transformers {transformers.__version__}, torch {torch.__version__}, "
                                "eager attention")
        file.create_dataset("positions", data=positions)
        if not options.compact:
            file.create_dataset("hidden_states_bf16", data=hidden_bits, compression="gzip", shuffle=True)
        else:
            file.create_dataset("channel_scale", data=channel_scale, compression="gzip", shuffle=True)
            file.attrs["hidden_states_sha256"] = hashlib.sha256(hidden_bits.astype("<u2").tobytes()).hexdigest()

        indices = {}  # (layer, dtype) -> of the full layers
        for layer in options.layers:
            source = full_layer_of(layer, options.types)
            for name in options.dtypes:
                progress(f"layer {layer}, {name}")
                dtype = torch.float64 if name == "fp64" else torch.bfloat16
                stages, own = run_layer(modeling, model, config, layer, seed, dtype, hidden_bits, positions,
                                        None if source == layer else indices[source, name])
                indices[layer, name] = own
                write_stages(file.create_group(f"layer{layer}/{name}"), stages, options.rows)
        file.attrs["scaling"] = float(build_scaling(modeling, model, config, options.layers[0]))
    progress(f"{options.out}: {os.path.getsize(options.out)} bytes")


def build_scaling(modeling, model, config, layer):
    import torch

    with torch.device("meta"):
        return getattr(modeling, model["prefix"] + "Attention")(config, layer).scaling


if __name__ == "__main__":
    main()
