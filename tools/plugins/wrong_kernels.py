"""Kernels in Python with one thing wrong each: what the program's tests run, beside the right one of python_kernel.py."""

import os
import sys
import time

import serve_kernels
from python_kernel import CONTRACT, CONVENTIONS, plain, supports


def wrong(run):
    return serve_kernels.kernel("sparse_attention", conventions=CONVENTIONS, contract=CONTRACT, supports=supports)(run)


@wrong
def shifts_lse(p, x):
    plain(p, x)
    x.lse.elements()[0] = x.lse.elements()[0] - 0.05


@wrong
def overruns(p, x):
    plain(p, x)
    serve_kernels.ctypes.memset(x.lse.pointer + len(x.lse.data), 0, 4)


@wrong
def raises(p, x):
    raise ValueError("out of patience")


@wrong
def leaves(p, x):
    os._exit(0)


@wrong
def exits(p, x):
    sys.exit(3)


@wrong
def babbles(p, x):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"garbage")
        except OSError:
            pass


@wrong
def hangs(p, x):  # the last: there is no call after it
    time.sleep(1000)
