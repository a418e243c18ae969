#include "tools/gate_recipes.h"

namespace mlacheck {

namespace {

constexpr const char* kRecipes[] = {
    // Which keys are read, and how often: no tolerance.
    "mlacheck1 op=sparse_attention t=4 h=16 k=2048 n=4096 fill=census poison=on",
    "mlacheck1 op=sparse_attention t=4 h=16 k=1024 n=4096 kv=f16 q=f16 page=64 fill=census "
    "poison=on index=duplicates",
    // Every dimension of q . k, the rope part too.
    "mlacheck1 op=sparse_attention t=576 h=1 k=64 n=1024 fill=needle",
    // The statistical regimes.
    "mlacheck1 op=sparse_attention t=2 h=64 k=2048 n=8192 fill=gaussian page=64",
    "mlacheck1 op=sparse_attention t=2 h=16 k=2048 n=4096 fill=peaky",
    "mlacheck1 op=sparse_attention t=2 h=16 k=2048 n=4096 fill=biased",
    "mlacheck1 op=sparse_attention t=2 h=16 k=2048 n=4096 fill=sink_key",
    // Absent entries, lengths, sinks, odd heads.
    "mlacheck1 op=sparse_attention t=8 h=11 k=130 n=512 page=53 gap=1 absent=scattered "
    "absent_as=extremes poison=on",
    "mlacheck1 op=sparse_attention t=6 h=17 k=100 n=512 absent=rows length=edges sink=extremes",
    "mlacheck1 op=sparse_attention t=4 h=8 k=512 n=1024 absent=prefix sink=random out=f32",
    // The 656-byte record.
    "mlacheck1 op=sparse_attention t=4 h=16 k=256 n=1024 kv=record656 page=64 gap=1 writer=arb "
    "poison=on",
    // The indexer.
    "mlacheck1 op=index_scores t=4 h=32 n=4096 page=64 table=shuffled range=causal",
    "mlacheck1 op=index_scores t=4 h=64 n=1024 keys=e4m3 page=64 table=shuffled range=random "
    "poison=on",
    "mlacheck1 op=index_scores t=4 h=32 n=2048 fill=plateau",
    "mlacheck1 op=top_k t=8 n=16384 k=2048 fill=gaussian range=random poison=on",
    "mlacheck1 op=top_k t=8 n=16384 k=2048 fill=plateau range=edges",
    "mlacheck1 op=top_k t=8 n=4096 k=2048 fill=specials",
};

}  // namespace

std::vector<Recipe> gate_recipes() {
  std::vector<Recipe> recipes;
  for (const char* line : kRecipes) recipes.push_back(parse_recipe(line));
  return recipes;
}

}  // namespace mlacheck
