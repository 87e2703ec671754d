// ucft._torch: the backend as Python sees it. Python's own part (the registration, the rendezvous, the end of a
// program) is in ucft/torch.py.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <exception>
#include <optional>

#include "python/errors.hpp"
#include "python/torch/failure.hpp"
#include "python/torch/process_group.hpp"

namespace ucft::pytorch {
namespace {

// Also for exceptions of PyTorch's own functions: it is asked for every function that pybind11 has bound.
void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Failure& failure) {
    try {
      python::raise(failure.status, failure.what());
    } catch (py::error_already_set& error) {
      error.restore();
    }
  }
}

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

Outcome outcome_of(const WorkPointer& work) {
  auto* const collective = dynamic_cast<Collective*>(work.get());
  if (collective == nullptr) throw Failure(UCFT_ERR_INVALID_PARAM, "work: it is of another backend than ucft");
  return collective->outcome();
}

py::object tuple_of(const std::optional<std::vector<std::int32_t>>& ranks) {
  return ranks ? py::object(py::tuple(py::cast(*ranks))) : py::none();
}

void bind(py::module_& m) {
  py::register_exception_translator(&translate);
  using Group = ProcessGroupUcft;
  py::class_<Group, c10d::ProcessGroup, c10::intrusive_ptr<Group>>(m, "ProcessGroupUcft")
      .def(py::init<const c10::intrusive_ptr<c10d::Store>&, int, int, std::chrono::milliseconds>(), py::arg("store"),
           py::arg("rank"), py::arg("size"), py::arg("timeout"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("failed", [](Group& self) {
        return tuple_of([&] {
          const py::gil_scoped_release released;
          return self.failed();
        }());
      });
  const auto work = py::arg("work");
  m.def(
      "missing", [](const WorkPointer& done) { return tuple_of(outcome_of(done).missing); }, work,
      "Of a complete operation: the ranks of the group that did not contribute, ascending; None: not known here "
      "(broadcast, reduce\n"
      "away from the root). Raises what the operation failed of.");
  m.def(
      "contributors", [](const WorkPointer& done) { return outcome_of(done).contributors; }, work,
      "Of a complete operation: how many ranks' values are in the result; 0: not known here.");
  m.def(
      "root",
      [](const WorkPointer& done) {
        const std::int32_t root = outcome_of(done).root;
        return root < 0 ? std::nullopt : std::optional(root);
      },
      work,
      "Of a complete operation: the rank of the group whose values a broadcast has given, which is another one than "
      "asked "
      "for if that\n"
      "is dead; a reduce's root; else None.");
  m.def("close_all", &Group::close_all, py::arg("abandon"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace
}  // namespace ucft::pytorch

PYBIND11_MODULE(_torch, m) {
  py::module_::import("torch.distributed");
  ucft::pytorch::bind(m);
}
