// ucft.Accumulator: an exact sum, which is also a buffer of 112 int64 (ucft.h: ucft_accumulator_t).
#pragma once

#include <pybind11/pybind11.h>

#include "ucft/ucft.h"

namespace ucft::python {

namespace py = pybind11;

struct Accumulator {
  ucft_accumulator_t sum = UCFT_ACCUMULATOR_INIT;
};

void bind_accumulator(py::module_& m);

}  // namespace ucft::python
