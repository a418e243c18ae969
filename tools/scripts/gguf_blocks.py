#!/usr/bin/env python3
"""What the package `gguf` makes of random blocks: writes fixtures/checkpoint/gguf_blocks/expected_blocks.h.

    pip install gguf
    tools/scripts/gguf_blocks.py > fixtures/checkpoint/gguf_blocks/expected_blocks.h

The blocks are those of random_blocks() in ggml_type_test.cpp, made here a second time.
"""

import hashlib
import sys

import gguf
import numpy as np

VALUES = 1 << 20  # of each type
# Every 8th block has one of these in each of its fp16 fields: zeros, subnormals, the ends of the range, infinities, NaN.
EXTREMES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01,
            0x7E00, 0xFFFF, 0x3C00]
# Offsets of the fp16 fields in a block.
F16_FIELDS = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
              "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "F16": [0], "BF16": [],
              "F32": []}


def mix64(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_blocks(name, block_bytes, blocks):
    """Bytes 8 i .. 8 i + 7 are mix64(number + (i + 1) * golden) in little endian."""
    words = -(-block_bytes * blocks // 8)
    key = int(gguf.GGMLQuantizationType[name])
    index = np.arange(1, words + 1, dtype=np.uint64)
    stream = mix64(np.uint64(key) + index * np.uint64(0x9E3779B97F4A7C15)).astype("<u8").tobytes()
    data = np.frombuffer(stream, np.uint8)[: block_bytes * blocks].reshape(blocks, block_bytes).copy()
    for block in range(7, blocks, 8):
        for field, offset in enumerate(F16_FIELDS[name]):
            value = EXTREMES[(block // 8 * (1 + 4 * field) + field) % len(EXTREMES)]
            data[block, offset: offset + 2] = [value & 255, value >> 8]
    return data


def canonical(values):
    bits = values.astype(np.float32).reshape(-1).view(np.uint32).copy()
    bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7FFFFFFF
    return bits


def main():
    np.seterr(all="ignore")
    print("#pragma once\n\n#include <cstdint>\n#include <string_view>\n")
    print("// Written by tools/scripts/gguf_blocks.py: what the Python package gguf", gguf_version())
    print("// makes of the random blocks of ggml_type_test.cpp. Every NaN counts as 0x7fffffff.\n")
    print("namespace mlacheck::testing {\n")
    print("struct ExpectedBlocks {\n  std::string_view type;\n  std::int64_t values;")
    print("  std::string_view sha256;          // of all values, little endian")
    print("  std::uint32_t first[8], last[8];  // values of the whole, as bits\n};\n")
    print("constexpr ExpectedBlocks kExpectedBlocks[] = {")
    for name in F16_FIELDS:
        kind = gguf.GGMLQuantizationType[name]
        values, size = gguf.GGML_QUANT_SIZES[kind]
        bits = canonical(gguf.quants.dequantize(random_blocks(name, size, VALUES // values), kind))
        first, last = (", ".join(f"0x{b:08x}" for b in part) for part in (bits[:8], bits[-8:]))
        digest = hashlib.sha256(bits.astype("<u4").tobytes()).hexdigest()
        print(f'    {{"{name}",\n     {VALUES},\n     "{digest}",\n     {{{first}}},\n     {{{last}}}}},')
    print("};\n\n}  // namespace mlacheck::testing")


def gguf_version():
    from importlib.metadata import version
    return version("gguf")


if __name__ == "__main__":
    sys.exit(main())
