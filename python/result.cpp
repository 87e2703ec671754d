#include "python/result.hpp"

#include <algorithm>
#include <vector>

#include "python/errors.hpp"

namespace ucft::python {

namespace {

PyTypeObject* result_type = nullptr;

struct Ranks {
  py::tuple missing, late;
};

Ranks ranks_of(ucft_result_t got, ucft_request_h request, std::int32_t ranks) {
  std::vector<std::int32_t> missing(static_cast<std::size_t>(ranks)), late(missing);
  got.missing = missing.data();
  got.late = late.data();
  got.missing_capacity = got.late_capacity = ranks;
  {
    const py::gil_scoped_release released;
    if (const ucft_status_t status = ucft_request_result(request, &got); status != UCFT_OK) got.status = status;
  }
  raise_unless_ok(got.status);
  return {tuple_of(missing.data(), static_cast<std::size_t>(std::max(got.missing_count, 0))),
          tuple_of(late.data(), static_cast<std::size_t>(got.late_count))};
}

}  // namespace

py::tuple tuple_of(const std::int32_t* ranks, std::size_t count) {
  py::tuple all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = ranks[i];
  return all;
}

py::object make_result_type() {
  static PyStructSequence_Field fields[] = {
      {"value", "the array with the result; None where there is none: barrier, reduce away from the root"},
      {"contributors", "ranks whose values are in it; 0: not known here"},
      {"missing", "a tuple of the ranks that did not contribute, ascending; None: not known here"},
      {"attempts", "ballots that this rank took part in: 1, and one more at the first death that it hears of"},
      {"late", "with Options(quorum=...): a tuple of the ranks that live, and whose values came too late, ascending"},
      {"is_late", "this rank is one of them: its value is not in the result"},
      {nullptr, nullptr}};
  static PyStructSequence_Desc description = {"ucft.Result", "What an operation was about: a named tuple.", fields, 6};
  if (result_type == nullptr) result_type = PyStructSequence_NewType(&description);
  if (result_type == nullptr) throw py::error_already_set();
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(result_type));
}

py::object result_of(const ucft_result_t& got, ucft_request_h request, py::object value, std::int32_t ranks) {
  Ranks named;
  if (got.missing_count > 0 || got.late_count > 0) named = ranks_of(got, request, ranks);
  py::object missing = got.missing_count < 0 ? py::object(py::none()) : py::object(named.missing);
  const auto result = py::reinterpret_steal<py::object>(PyStructSequence_New(result_type));
  if (!result) throw py::error_already_set();
  PyStructSequence_SetItem(result.ptr(), 0, value.release().ptr());
  PyStructSequence_SetItem(result.ptr(), 1, PyLong_FromLong(static_cast<long>(got.contributors)));
  PyStructSequence_SetItem(result.ptr(), 2, missing.release().ptr());
  PyStructSequence_SetItem(result.ptr(), 3, PyLong_FromLong(static_cast<long>(got.attempts)));
  PyStructSequence_SetItem(result.ptr(), 4, named.late.release().ptr());
  PyStructSequence_SetItem(result.ptr(), 5, py::bool_(got.is_late != 0).release().ptr());
  return result;
}

}  // namespace ucft::python
