#!/usr/bin/env python3
"""Small files written by the packages `gguf` and `safetensors`, for the tests that read them.

    pip install gguf safetensors numpy
    tools/scripts/foreign_checkpoints.py fixtures/checkpoint/foreign
"""

import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

Kind = gguf.GGMLQuantizationType


def write_gguf(path, **splits):
    writer = gguf.GGUFWriter(path, "glm-dsa", **splits)
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_uint32("test.u32", 4000000000)
    writer.add_int32("test.i32", -2000000000)
    writer.add_float32("test.f32", 1e-5)
    writer.add_bool("test.bool", True)
    writer.add_string("test.text", "grüß")
    writer.add_uint64("test.u64", 1 << 63)
    writer.add_int64("test.i64", -(1 << 62))
    writer.add_float64("test.f64", 0.1)
    writer.add_array("test.texts", ["full", "", "shared"])
    writer.add_array("test.wholes", [1, -2, 3])
    writer.add_array("test.bools", [True, False])
    # Element i is (37 i mod 101 - 50) / 16, in rows of 64.
    values = (((37 * np.arange(128)) % 101 - 50) / 16).astype(np.float32).reshape(2, 64)
    writer.add_tensor("blk.0.f32.weight", values)
    writer.add_tensor("blk.0.f16.weight", values.astype(np.float16))
    for kind in (Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q5_1):
        writer.add_tensor(f"blk.0.{kind.name.lower()}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.add_tensor("blk.0.cube.weight", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def matrix(rows, columns):
    row, column = np.indices((rows, columns))
    return (((7 * row + 3 * column) % 17 - 8) / 8).astype(np.float32)


def write_gguf_model(path):
    """One layer of a model of heads=2, rank=32, nope=32, rope=16, v=32, split as llama.cpp's converter does."""
    heads, rank, nope, rope, value, hidden, index = 2, 32, 32, 16, 32, 32, 32
    writer = gguf.GGUFWriter(path, "glm-dsa")
    writer.add_block_count(2)
    writer.add_nextn_predict_layers(1)
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_q_lora_rank(rank)
    writer.add_kv_lora_rank(rank)
    writer.add_key_length(rank + rope)
    writer.add_value_length(rank)
    writer.add_key_length_mla(nope + rope)
    writer.add_value_length_mla(value)
    writer.add_rope_dimension_count(rope)
    writer.add_rope_freq_base(1e6)
    writer.add_indexer_head_count(1)
    writer.add_indexer_key_length(index)
    writer.add_indexer_top_k(4)

    def add(name, values, kind):
        writer.add_tensor(f"blk.0.{name}", gguf.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)

    add("attn_q_a.weight", matrix(rank, hidden), Kind.Q8_0)
    add("attn_q_a_norm.weight", matrix(1, rank)[0], Kind.F32)
    add("attn_q_b.weight", matrix(heads * (nope + rope), rank), Kind.Q8_0)
    add("attn_kv_a_mqa.weight", matrix(rank + rope, hidden), Kind.Q5_1)
    add("attn_kv_a_norm.weight", matrix(1, rank)[0], Kind.F32)
    k, v = np.split(matrix(heads * (nope + value), rank).reshape(heads, nope + value, rank), [nope], axis=1)
    add("attn_k_b.weight", k.transpose(0, 2, 1), Kind.BF16)
    add("attn_v_b.weight", v, Kind.F16)
    add("attn_output.weight", matrix(hidden, heads * value), Kind.Q4_0)
    add("indexer.attn_q_b.weight", matrix(index, rank), Kind.Q8_0)
    add("indexer.attn_k.weight", matrix(index, hidden), Kind.Q8_0)
    add("indexer.k_norm.weight", matrix(1, index)[0], Kind.F32)
    add("indexer.k_norm.bias", matrix(1, index)[0], Kind.F32)
    add("indexer.proj.weight", matrix(1, hidden), Kind.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = pathlib.Path(sys.argv[1])
    write_gguf(folder / "package.gguf")
    write_gguf(folder / "split.gguf", split_max_tensors=3)
    write_gguf_model(folder / "model.gguf")
    save_file({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([0.5, -2], np.float16)},
              folder / "package.safetensors", metadata={"format": "np"})


if __name__ == "__main__":
    sys.exit(main())
