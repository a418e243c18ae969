"""Attention layers that make the calls of vLLM's and SGLang's, and return what `transformers` recorded of one: doubles to try
the hooks on without these engines. Classes and their attributes have the engines' names."""

import torch


class Returns(torch.nn.Module):
    """A linear layer, of whatever it is called with: its output and no bias."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, _):
        return self.value.clone(), None


class Recorded:
    """A committed recording, with rotated elements in place and what attention computes between them."""

    def __init__(self, tensors, kv_b, index_topk=8):
        self.stages = {name.split(".", 1)[1]: value for name, value in tensors.items()}
        stages = self.stages
        for name in ("q_pe", "k_pe"):
            stages[name] = torch.stack(stages[name].chunk(2, dim=-1), dim=-1).flatten(-2)
        self.tokens, self.heads, self.rope = stages["q_pe"].shape
        self.rank = stages["kv"].shape[-1]
        self.q_heads = stages["q"].view(self.tokens, self.heads, -1)
        self.nope = self.q_heads.shape[-1] - self.rope
        w = kv_b.view(self.heads, -1, self.rank)
        self.q_latent = torch.einsum("thn,hnc->thc", self.q_heads[..., :self.nope].float(), w[:, :self.nope].float())
        scores = self.q_latent @ stages["kv"].float().T + stages["q_pe"].float() @ stages["k_pe"].float().T
        future = torch.full((self.tokens, 1, self.tokens), -torch.inf)
        for t, row in enumerate(stages["topk_indices"]):
            future[t, 0, row[(row >= 0) & (row <= t)].long()] = 0
        weights = torch.softmax(scores * (self.nope + self.rope) ** -0.5 + future, dim=-1)
        self.attn_latent = (weights @ stages["kv"].float()).to(torch.bfloat16)
        self.q_latent = self.q_latent.to(torch.bfloat16)
        self.indices = torch.full((self.tokens + 6, index_topk), -1)  # the engines' buffers are larger
        self.indices[:self.tokens] = stages["topk_indices"]

    def projections(self, module, fused_qkv_a):
        stages = self.stages
        setattr(module, fused_qkv_a, Returns(torch.cat((stages["q_a"], stages["kv_a"]), dim=-1)))
        module.q_b_proj, module.o_proj = Returns(stages["q"]), Returns(stages["output"])
        module.q_lora_rank, module.kv_lora_rank = stages["q_a"].shape[-1], self.rank
        module.qk_nope_head_dim = self.nope

    def indexer(self):
        indexer = torch.nn.Module()
        indexer.head_dim = self.stages["index_k_proj"].shape[-1]
        indexer.wq_b = Returns(self.stages["index_q"])
        indexer.wk_weights_proj = Returns(
            torch.cat((self.stages["index_k_proj"].float(), self.stages["index_weights_raw"]), dim=-1))
        return indexer


class DeepseekV32Attention(torch.nn.Module):
    """vLLM's of CUDA and ROCm."""

    def __init__(self, recorded):
        super().__init__()
        self.recorded = recorded
        recorded.projections(self, "fused_qkv_a_proj")
        self.indexer, self.topk_indices_buffer = recorded.indexer(), recorded.indices

    def forward(self, positions, hidden_states):
        stages = self.recorded.stages
        self.fused_qkv_a_proj(hidden_states)
        self.indexer.wk_weights_proj(hidden_states)
        q = self.q_b_proj(stages["q_resid"])[0].view(self.recorded.q_heads.shape)
        self.indexer.wq_b(stages["q_resid"])
        output = torch.zeros_like(stages["attn_output"])
        self._sparse_indexer_and_attn(positions, stages["q_resid"], q[..., :self.qk_nope_head_dim],
                                      q[..., self.qk_nope_head_dim:], None, None, None, stages["kv"], stages["k_pe"],
                                      self.recorded.q_latent, stages["q_pe"], output)
        return self.o_proj(output)[0]

    def _sparse_indexer_and_attn(self, positions, q_c, q_nope, q_pe, index_q_fp8, index_k, index_weights_out, kv_c, k_pe,
                                 ql_nope, mqa_q, output):
        output.copy_(self.recorded.stages["attn_output"])


class MLAAttention(torch.nn.Module):
    def __init__(self, recorded):
        super().__init__()
        self.recorded, self.impl = recorded, torch.nn.Module()
        self.impl.topk_indices_buffer = recorded.indices

    def forward(self, q, kv_c_normed, k_pe, output_shape=None):
        return self.recorded.stages["attn_output"]


class MultiHeadLatentAttentionWrapper(torch.nn.Module):
    """vLLM's of other platforms and of earlier releases."""

    def __init__(self, recorded):
        super().__init__()
        self.recorded = recorded
        recorded.projections(self, "fused_qkv_a_proj")
        self.indexer, self.mla_attn = recorded.indexer(), MLAAttention(recorded)

    def forward(self, positions, hidden_states, llama_4_scaling=None):
        stages = self.recorded.stages
        self.fused_qkv_a_proj(hidden_states)
        q = self.q_b_proj(stages["q_resid"])[0].view(self.recorded.q_heads.shape)
        q[..., self.qk_nope_head_dim:] = stages["q_pe"]
        self.indexer.wq_b(stages["q_resid"])
        self.indexer.wk_weights_proj(hidden_states)
        attn_out = self.mla_attn(q, stages["kv"], stages["k_pe"].unsqueeze(1), output_shape=None)
        return self.o_proj(attn_out)[0]


class RadixAttention(torch.nn.Module):
    def __init__(self, recorded):
        super().__init__()
        self.recorded, self.v_head_dim = recorded, recorded.rank

    def forward(self, q, k, v, forward_batch, save_kv_cache=True, **kwargs):
        return self.recorded.attn_latent.flatten(1)


class DeepseekV2AttentionMLA(torch.nn.Module):
    """SGLang's, absorbed. `apart`: rotated elements are arguments of their own, as most backends have them."""

    def __init__(self, recorded, apart=True):
        super().__init__()
        self.recorded, self.apart = recorded, apart
        recorded.projections(self, "fused_qkv_a_proj_with_mqa")
        self.attn_mqa = RadixAttention(recorded)

    def forward(self, positions, hidden_states, forward_batch):
        stages = self.recorded.stages
        self.fused_qkv_a_proj_with_mqa(hidden_states)
        self.q_b_proj(stages["q_resid"])
        q, q_pe = self.recorded.q_latent, stages["q_pe"]
        k, k_pe = stages["kv"].unsqueeze(1), stages["k_pe"].unsqueeze(1)
        indices = self.recorded.indices[:self.recorded.tokens]
        if self.apart:
            self.attn_mqa(q, k, k, forward_batch, q_rope=q_pe, k_rope=k_pe, topk_indices=indices)
        else:
            self.attn_mqa(torch.cat((q, q_pe), dim=-1), torch.cat((k, k_pe), dim=-1), k, forward_batch,
                          save_kv_cache=True, topk_indices=indices)
        return self.o_proj(stages["attn_output"])[0], indices  # for the next layer


def model_of(attention, layer, name):
    """model.layers.<layer>.self_attn(.<name>)"""
    model = torch.nn.Module()
    model.model = torch.nn.Module()
    model.model.layers = torch.nn.ModuleDict({str(layer): torch.nn.Module()})
    block = model.model.layers[str(layer)]
    block.self_attn = attention
    if name:
        block.self_attn = torch.nn.Module()
        setattr(block.self_attn, name, attention)
    return model
