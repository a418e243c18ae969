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


def main():
    folder = pathlib.Path(sys.argv[1])
    write_gguf(folder / "package.gguf")
    write_gguf(folder / "split.gguf", split_max_tensors=3)
    save_file({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([0.5, -2], np.float16)},
              folder / "package.safetensors", metadata={"format": "np"})


if __name__ == "__main__":
    sys.exit(main())
