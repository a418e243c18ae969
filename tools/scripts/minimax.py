#!/usr/bin/env python3
"""Coefficients of reference/arithmetic/{exp2,log2}.h (needs mpmath).

Each is the polynomial p that minimises the maximum of |weight(t) * (p(t) - f(t))| over an
interval (Remez' exchange). The lowest coefficients are given as fp32 numbers, since their rounding would weigh most;
the others take up what these lack, and are then rounded to fp32.
"""
import struct

from mpmath import mp, mpf, cos, log, matrix, lu_solve, pi

mp.prec = 160
GRID = 600


def to_f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def remez(function, low, high, count, fixed):
    """The best `count` coefficients to follow `fixed`."""
    first = len(fixed)

    def sample(t):  # the remainder / t^first, and the weight that goes with it
        weight, target = function(t)
        rest = target - sum(c * t**j for j, c in enumerate(fixed))
        return weight * abs(t) ** first, rest / t**first

    n = count + 1
    middle, radius = (low + high) / 2, (high - low) / 2
    grid = [middle + radius * cos(pi * (i + mpf("0.3")) / GRID) for i in range(GRID)]
    samples = {t: sample(t) for t in grid}
    nodes = [grid[min(GRID - 1, GRID * (2 * i + 1) // (2 * n))] for i in range(n)]
    for _ in range(12):
        system, right = matrix(n, n), matrix(n, 1)
        for i, t in enumerate(nodes):
            weight, target = samples[t]
            for j in range(count):
                system[i, j] = weight * t**j
            system[i, count] = (-1) ** i
            right[i] = weight * target
        c = list(lu_solve(system, right))[:count]
        runs = []  # the largest error of each run of one sign
        for t in grid:
            weight, target = samples[t]
            v = weight * (sum(a * t**j for j, a in enumerate(c)) - target)
            if runs and (runs[-1][1] > 0) == (v > 0):
                runs[-1] = max(runs[-1], (t, v), key=lambda r: abs(r[1]))
            else:
                runs.append((t, v))
        while len(runs) > n:  # drop the smallest; inside, its two neighbours then become one
            i = min(range(len(runs)), key=lambda k: abs(runs[k][1]))
            if 0 < i < len(runs) - 1 and len(runs) > n + 1:
                runs[i - 1 : i + 2] = [max(runs[i - 1], runs[i + 1], key=lambda r: abs(r[1]))]
            else:
                runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        assert len(runs) == n
        if nodes == [t for t, _ in runs]:
            break
        nodes = [t for t, _ in runs]
    return c


def fit(name, function, low, high, degree, exact):
    """Prints the coefficients; exact: those given, lowest first."""
    low, high = mpf(low), mpf(high)
    c = exact + [to_f32(v) for v in remez(function, low, high, degree + 1 - len(exact), exact)]
    worst = mpf(0)
    for i in range(4001):
        t = low + (high - low) * i / 4000
        weight, target = function(t)
        worst = max(worst, abs(weight * (sum(a * t**j for j, a in enumerate(c)) - target)))
    print(f"{name}: maximum error 2^{float(log(worst, 2)):.2f}")
    for j, v in enumerate(c):
        print(f"  c{j} = {float(v).hex()}")


LN2 = log(mpf(2))

# 2^t on [-1/2, 1/2]; relative error. c0 = 1 makes integers exact.
fit("exp2", lambda t: (2**-t, 2**t), -0.5, 0.5, 6, [mpf(1), to_f32(LN2)])


# q in log2(1 + r) = r log2(e) + r^2 q(r), 1 + r in [sqrt(1/2), sqrt(2)]; error relative to
# log2(1 + r).
def log2_tail(r):
    if r == 0:
        return mpf(0), mpf(0)
    return r * r / log(1 + r, 2), (log(1 + r, 2) - r / LN2) / r**2


fit("log2", log2_tail, mpf(2) ** -0.5 - 1, mpf(2) ** 0.5 - 1, 9, [to_f32(-1 / (2 * LN2))])
for name, value in ("log2(e)", 1 / LN2), ("ln(2)", LN2):
    high = to_f32(value)
    print(f"{name} = {float(high).hex()} + {float(to_f32(value - high)).hex()}")
