#!/usr/bin/env python3
"""Small files of arrays written by the packages `numpy`, `h5py` and `safetensors`, for the tests that read them.

    pip install numpy h5py safetensors
    tools/scripts/foreign_arrays.py fixtures/activations/foreign
"""

import pathlib
import sys

import h5py
import numpy as np
from safetensors.numpy import save_file


def arrays():
    values = (np.arange(12, dtype=np.float32) / 4).reshape(3, 4)
    return {
        "layer0.f32": values, "f64": values.astype(np.float64), "f16": values.astype(np.float16),
        "bits_bf16": (values.view(np.uint32) >> 16).astype(np.uint16),  # exact
        "i32": np.arange(-1, 5, dtype=np.int32), "i64": np.array([[2**40, -3]]),
        "u8": np.arange(256, dtype=np.uint8), "cube": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    np.savez(folder / "numpy.npz", **arrays())
    np.savez_compressed(folder / "numpy_compressed.npz", f32=arrays()["f64"])
    np.save(folder / "numpy_f32.npy", arrays()["layer0.f32"])
    np.save(folder / "numpy_fortran.npy", np.asfortranarray(arrays()["layer0.f32"]))
    with h5py.File(folder / "h5py.h5", "w", libver="latest") as file:
        file.attrs["engine"] = "made by h5py"
        for name, array in arrays().items():
            file[name.replace(".", "/")] = array
    save_file(arrays(), folder / "package.safetensors", metadata={"engine": "made by safetensors"})


if __name__ == "__main__":
    sys.exit(main())
