#pragma once

#include <cstdint>

#include "cuda/include/mlacheck_kernel.h"

// The faults of lawless_kernels.cpp in sparse_attention.
namespace mlacheck::lawless {

using Attention = mlacheck_sparse_attention_problem;

void expects_ascending(const Attention& p, const mlacheck_tensors& t);
void wraps_the_largest(const Attention& p, const mlacheck_tensors& t);
void drops_a_tile(const Attention& p, const mlacheck_tensors& t);
void ignores_length(const Attention& p, const mlacheck_tensors& t);
void clamps_pages(const Attention& p, const mlacheck_tensors& t);
void empty_lse_is_zero(const Attention& p, const mlacheck_tensors& t);
void saturates_at_448(const Attention& p, const mlacheck_tensors& t);
void masks_by_a_sentinel(const Attention& p, const mlacheck_tensors& t);
void drops_odd_elements(const Attention& p, const mlacheck_tensors& t);
void multiplies_by_zero(const Attention& p, const mlacheck_tensors& t);
void misreads_entry_1234(const Attention& p, const mlacheck_tensors& t);
void varies_by_launch(const Attention& p, const mlacheck_tensors& t);
void keeps_its_scratch(const Attention& p, const mlacheck_tensors& t);
// Adds to the last bit of a row that stands first in a batch, or second.
void favours_row_0(const Attention& p, const mlacheck_tensors& t);
void favours_row_1(const Attention& p, const mlacheck_tensors& t);

}  // namespace mlacheck::lawless
