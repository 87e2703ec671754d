// The result of an operation: ucft.Result, a named tuple (value, contributors, missing, attempts, late, is_late).
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>

#include "ucft/ucft.h"

namespace ucft::python {

namespace py = pybind11;

py::tuple tuple_of(const std::int32_t* ranks, std::size_t count);

// Makes the type, once.
py::object make_result_type();

// got: of an operation on `ranks` ranks that succeeded. Asks request again if ranks are missing: then all is as it was
// still.
py::object result_of(const ucft_result_t& got, ucft_request_h request, py::object value, std::int32_t ranks);

}  // namespace ucft::python
