#!/usr/bin/env python3
"""Records what the layers of a whole synthetic model make of tokens in `transformers`, for `mlacheck oracle`.

    pip install torch transformers h5py numpy
    capture_transformers_model.py --model glm5:tiny --tokens 12 --out model_glm5_tiny.h5

The model is that of fixtures/model/synthetic_model.h: weights come from the seed, so that a recording holds results
alone. Eager attention. Layout, as capture_transformers.py's:

    /                       attributes: synthetic (the model's name), seed, S, index_topk, source
    /tokens                 i64 [S]
    /layer<l>/<fp64|bf16>/  f32: hidden_states [S, hidden], behind the layer; i32: topk_indices [S, min(k, S)]
"""

import argparse
import os
import sys

from capture_transformers import replacing, require
from synthetic_model import build


def record(group, model, seed, topk, ids, dtype):
    import numpy as np
    import torch

    body, _ = build(model, seed, dtype, topk)
    found = {}
    hooks = []
    for number, layer in enumerate(body.layers):
        hooks.append(layer.register_forward_hook(
            lambda _, __, output, number=number: found.__setitem__(f"layer{number}/{group}/hidden_states", output)))
        attention = layer.self_attn
        if getattr(attention, "indexer", None) is not None:
            hooks.append(attention.indexer.register_forward_hook(
                lambda _, __, output, number=number: found.__setitem__(f"layer{number}/{group}/topk_indices", output)))
    with torch.no_grad():
        body(torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    arrays = {}
    for name, value in found.items():
        value = (value[0] if isinstance(value, tuple) else value)[0]
        integers = name.endswith("topk_indices")
        arrays[name] = value.double().numpy().astype(np.int32 if integers else np.float32)
    return arrays


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", required=True, help="glm5, glm52 or dsv32, each also with :tiny")
    parser.add_argument("--tokens", type=int, default=12, metavar="S")
    parser.add_argument("--topk", type=int, metavar="K", help="index_topk, instead of the model's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", default="fp64,bf16", help="fp64, bf16, or both with a comma")
    parser.add_argument("--out", required=True, metavar="FILE.h5")
    options = parser.parse_args()
    if not set(options.dtype.split(",")) <= {"fp64", "bf16"}:
        parser.error(f"--dtype: expected fp64, bf16 or both, got {options.dtype}")
    if options.tokens < 1:
        parser.error(f"--tokens: expected at least 1, got {options.tokens}")
    require("numpy", "h5py", "torch", "transformers")
    import h5py
    import numpy as np
    import torch
    import transformers
    from synthetic_model import sizes_of

    _, sizes, decoder = sizes_of(options.model)
    ids = [(37 * i + 11) % decoder["vocab_size"] for i in range(options.tokens)]
    with replacing(options.out) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["synthetic"] = options.model
        file.attrs["seed"] = options.seed
        file.attrs["S"] = options.tokens
        file.attrs["index_topk"] = options.topk or sizes["index_topk"]
        file.attrs["source"] = f"transformers {transformers.__version__}, torch {torch.__version__}, eager attention"
        file.create_dataset("tokens", data=np.array(ids, dtype=np.int64))
        for name in options.dtype.split(","):
            dtype = torch.float64 if name == "fp64" else torch.bfloat16
            for path, array in record(name, options.model, options.seed, options.topk, ids, dtype).items():
                file.create_dataset(path, data=array, compression="gzip", compression_opts=9, shuffle=True)
    print(f"{options.out}: {os.path.getsize(options.out)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
