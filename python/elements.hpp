// The data that Python hands over: anything with a buffer (PEP 3118), C-contiguous and in this machine's byte order.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "ucft/ucft.h"

namespace ucft::python {

namespace py = pybind11;

// Bytes of one element.
std::uint64_t bytes_of(ucft_dtype_t dtype);

// The elements of an object. They keep their place and length as long as this lives: it holds a NumPy array, and keeps
// any other buffer exported. Needs the GIL.
class View {
 public:
  View() = default;
  // name: of the argument, for the sentence of an error. dtype: instead of the buffer's own.
  View(py::handle object, const char* name, bool writable, std::optional<ucft_dtype_t> dtype);
  // Memory that lives as long as its owner.
  View(py::object owner, void* data, std::uint64_t count, ucft_dtype_t dtype)
      : data_(data), count_(count), dtype_(dtype), array_(std::move(owner)) {}

  void* data() const { return data_; }
  std::uint64_t count() const { return count_; }  // elements
  ucft_dtype_t dtype() const { return dtype_; }
  bool is_there() const { return array_ || buffer_ != nullptr; }

 private:
  struct Release {
    void operator()(Py_buffer* buffer) const;
  };

  // False: something that the buffer has to be asked about.
  bool is_plain_array(py::handle object, bool writable);

  void* data_ = nullptr;
  std::uint64_t count_ = 0;
  ucft_dtype_t dtype_ = UCFT_UINT8;
  py::object array_;
  std::unique_ptr<Py_buffer, Release> buffer_;
};

// object, if it has a buffer; else the array that numpy.asarray makes of it: a number, a list.
py::object with_buffer(py::handle object, const char* name);

// A new array of the same type as `like`. It has the shape of `like` or, if ranks is not 0, (ranks, *shape). It is
// numpy's where that is installed, else a memoryview. Like an accumulator: another one or, by rank, its words.
py::object new_array(py::handle like, std::int32_t ranks, bool has_zeros = false);

// A new array for one of so many shares of `like`: of the shape that follows the first dimension, or of a part of a
// single one. Like an accumulator: another one.
py::object new_share(py::handle like, std::int32_t ranks);

// An array over memory that somebody else owns, for the time of one call of an operator.
py::object borrowed_array(void* data, std::uint64_t count, ucft_dtype_t dtype, bool writable);

}  // namespace ucft::python
