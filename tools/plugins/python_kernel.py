"""sparse_attention in plain Python, for tiny problems: rows of bf16, sums in double. What a kernel in Python needs."""

import math
import struct

import serve_kernels

SUM = {"block": 1, "order": 1, "rounds_terms": 1}
CONVENTIONS = {"lse_base": 1, "lse_empty": 1}
CONTRACT = {"qk": SUM, "pv": SUM, "weight_sum": SUM, "weight_dtype": 1, "max_splits": 1, "partial_dtype": 1,
            "run_deterministic": 1, "weight_scale": 1.0, "exp_error": 2.0**-22, "exp_underflow": 2.0**-126,
            "log_error": 2.0**-22}


def supports(p):
    if (p.kv.format, p.kv.dtype, p.q_dtype, p.out_dtype) != (1, 3, 3, 3):
        return "q, cache and out: plain rows of bf16 only"
    if p.batch_invariant:
        return "batch_invariant 1: 0 only"
    return None


def from_bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def to_bf16(x):  # to nearest, ties to even; what a float has beyond fp32 counts as its last bit
    if math.isnan(x):
        return 0x7FFF
    try:
        word = struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return 0x7F80 if x > 0 else 0xFF80
    return (word + 0x7FFF + (word >> 16 & 1)) >> 16


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if not x < -700 else 0.0


@serve_kernels.kernel("sparse_attention", conventions=CONVENTIONS, contract=CONTRACT, supports=supports,
                      description="bf16 rows, sums in double, one after the other")
def plain(p, x):
    q, cache, indices, out = x.q.elements(), x.cache.elements(), x.indices.elements(), x.out.elements()
    lse = x.lse.elements()
    for t in range(p.tokens):
        length = x.topk_length.elements()[t] if x.topk_length else p.topk
        slots = [s for s in indices[t * p.index_stride:t * p.index_stride + length] if 0 <= s < p.kv.slots]
        rows = []
        for s in slots:
            at = (s // p.kv.page_size * p.kv.page_stride + s % p.kv.page_size * p.kv.row_stride) // 2
            rows.append([from_bf16(b) for b in cache[at:at + p.qk_dim]])
        for h in range(p.heads):
            begin = t * p.q_token_stride + h * p.q_head_stride
            query = [from_bf16(b) for b in q[begin:begin + p.qk_dim]]
            scores = [p.sm_scale * sum(a * b for a, b in zip(query, row)) for row in rows]
            highest = math.nan if any(map(math.isnan, scores)) else max(scores, default=-math.inf)
            present = highest != -math.inf
            weights = [math.exp(s - highest) for s in scores] if present else []
            total = sum(weights)
            row = t * p.heads + h
            lse[row] = highest + math.log(total) if present else -math.inf
            if x.max_logit:
                x.max_logit.elements()[row] = highest
            factor = sigmoid(lse[row] - x.attn_sink.elements()[h]) if x.attn_sink and present else 1
            for d in range(p.v_dim):
                value = sum(w * r[d] for w, r in zip(weights, rows)) / total * factor if present else 0.0
                out[row * p.v_dim + d] = to_bf16(value)
