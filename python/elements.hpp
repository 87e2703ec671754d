// What Python hands over: anything with a buffer (PEP 3118), C-contiguous and in this machine's byte order.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>

#include "ucft/ucft.h"

namespace ucft::python {

namespace py = pybind11;

// Bytes of one element.
std::uint64_t bytes_of(ucft_dtype_t dtype);

// A buffer that stays exported, and so keeps its place and length, as long as this lives. Needs the GIL.
class View {
 public:
  View() = default;
  // name: of the argument, for the sentence of an error. dtype: instead of what the buffer says of itself.
  View(py::handle object, const char* name, bool writable, std::optional<ucft_dtype_t> dtype);
  View(View&& other) noexcept;
  View& operator=(View&& other) noexcept;
  ~View() { release(); }

  void* data() const { return buffer_.buf; }
  std::uint64_t count() const { return count_; }  // elements
  ucft_dtype_t dtype() const { return dtype_; }
  bool is_there() const { return exported_; }

 private:
  void release();

  Py_buffer buffer_{};
  bool exported_ = false;
  std::uint64_t count_ = 0;
  ucft_dtype_t dtype_ = UCFT_UINT8;
};

// object, if it has a buffer; else what numpy.asarray makes of it: a number, a list.
py::object with_buffer(py::handle object, const char* name);

// A new array of the same type as `like`, of its shape or, if ranks is not 0, of (ranks, *shape): numpy's where that is
// installed, else a memoryview.
py::object new_array(py::handle like, std::int32_t ranks);

// An array over memory that somebody else owns, for the time of one call of an operator.
py::object borrowed_array(void* data, std::uint64_t count, ucft_dtype_t dtype, bool writable);

}  // namespace ucft::python
