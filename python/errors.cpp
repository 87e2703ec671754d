#include "python/errors.hpp"

#include <pybind11/pybind11.h>

namespace ucft::python {

namespace py = pybind11;

namespace {

py::object error_of(ucft_status_t status, const std::string& explanation) {
  const py::object type = py::module_::import("ucft._errors").attr("of_status")(static_cast<int>(status));
  return type(std::string(ucft_status_name(status)) + ": " + explanation);
}

[[noreturn]] void raise(const py::object& error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

}  // namespace

void raise(ucft_status_t status, const std::string& explanation) { raise(error_of(status, explanation)); }

void raise(ucft_status_t status, const std::string& explanation, std::int32_t rank) {
  const py::object error = error_of(status, explanation);
  error.attr("rank") = rank;
  raise(error);
}

void raise(ucft_status_t status) { raise(status, ucft_last_error()); }

}  // namespace ucft::python
