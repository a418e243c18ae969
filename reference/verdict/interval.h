#pragma once

#include <cstdint>

#include "reference/formats/dtype.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// What else than the interval an element may be, or must be: a set of these.
struct Admissible {
  bool finite = true;  // a value inside the interval
  bool nan = false;
  bool plus_inf = false;
  bool minus_inf = false;
  bool negative_zero = true;
  bool anything = false;  // fp32 sums may overflow on the way: no value is wrong
};

// The answer of one element and how far a kernel's value may lie from it before it is rounded to
// its format.
struct ElementBound {
  double expected = 0;
  double core = 0;    // worst case, proven
  double likely = 0;  // statistical, <= core
  Admissible admissible;
};

// Interval whose ends are rounded to the output format: rounding is monotone, so this is the image
// of [expected - radius, expected + radius], tighter than adding u |expected|, and subnormals need
// no floor.
struct Interval {
  double low;
  double high;
};
Interval rounded_interval(double expected, double radius, DType dtype);

// The judgement of one element: MISTRUSTED where any finite value would do. ratio: |got - expected|
// / (core + ulp / 2), the share of the budget that is used; infinite where no interval applies.
struct Judgement {
  Status status;
  double ratio;
};
Judgement judge(const ElementBound& bound, DType dtype, float got);

// Distance between neighbours of the format around x.
double spacing(DType dtype, double x);

// How many representable values apart a and b are: +0 equals -0, NaN equals NaN and is past
// infinity.
std::int64_t ulp_distance(DType dtype, float a, float b);

}  // namespace mlacheck
