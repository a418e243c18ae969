"""sparse_attention in PyTorch on the CPU, in fp32: rows of bf16 or f16. Tensors are viewed in place, without a copy."""

import torch

import serve_kernels

torch.set_num_threads(1)
# Blocks of unknown size and order: the loosest that a balanced order of fp32 terms can be.
SUM = {"block": 1, "order": 1, "rounds_terms": 1}
CONTRACT = {"qk": SUM, "pv": SUM, "weight_sum": SUM, "weight_dtype": 1, "max_splits": 1, "partial_dtype": 1,
            "run_deterministic": 1, "weight_scale": 1.0, "exp_error": 2.0**-20, "exp_underflow": 2.0**-126,
            "log_error": 2.0**-20}


def supports(p):
    if p.kv.format != 1 or p.kv.dtype not in (2, 3) or p.q_dtype not in (2, 3) or p.out_dtype not in (1, 2, 3):
        return "q and cache: plain rows of f16 or bf16 only"
    return "batch_invariant 1: 0 only" if p.batch_invariant else None


@serve_kernels.kernel("sparse_attention", conventions={"lse_base": 1, "lse_empty": 1}, contract=CONTRACT, supports=supports,
                      description="fp32 by torch on the CPU")
def torch_attention(p, x):
    view = torch.from_dlpack
    q, cache, indices, out = view(x.q), view(x.cache), view(x.indices), view(x.out).view(p.tokens, p.heads, p.v_dim)
    lse = view(x.lse).view(p.tokens, p.heads)
    for t in range(p.tokens):
        length = int(view(x.topk_length)[t]) if x.topk_length else p.topk
        slots = indices[t * p.index_stride:t * p.index_stride + length].long()
        slots = slots[(slots >= 0) & (slots < p.kv.slots)]
        starts = (slots // p.kv.page_size * p.kv.page_stride + slots % p.kv.page_size * p.kv.row_stride) // 2
        rows = cache[starts[:, None] + torch.arange(p.qk_dim)].float()
        query = q[t * p.q_token_stride:].as_strided((p.heads, p.qk_dim), (p.q_head_stride, 1)).float()
        scores = query @ rows.T * p.sm_scale
        lse[t] = torch.logsumexp(scores, 1)
        if x.max_logit:
            view(x.max_logit).view(p.tokens, p.heads)[t] = scores.amax(1) if len(slots) else float("-inf")
        if len(slots) == 0:
            out[t] = 0
            continue
        result = torch.softmax(scores, 1) @ rows[:, :p.v_dim]
        if x.attn_sink:
            result *= torch.sigmoid(lse[t] - view(x.attn_sink))[:, None]
        out[t] = result.to(out.dtype)
