#include "python/errors.hpp"

#include <pybind11/pybind11.h>

namespace ucft::python {

namespace py = pybind11;

void raise(ucft_status_t status, const std::string& explanation) {
  const py::object type = py::module_::import("ucft._errors").attr("of_status")(static_cast<int>(status));
  const py::object error = type(std::string(ucft_status_name(status)) + ": " + explanation);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

void raise(ucft_status_t status) { raise(status, ucft_last_error()); }

}  // namespace ucft::python
