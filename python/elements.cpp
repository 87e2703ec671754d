#include "python/elements.hpp"

#include <fmt/format.h>
#include <pybind11/numpy.h>

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "python/accumulator.hpp"
#include "python/errors.hpp"

namespace ucft::python {

namespace {

struct Element {
  ucft_dtype_t dtype;
  std::uint64_t bytes;
  const char* format;  // of one element, as PEP 3118 has it; nullptr: none
};

constexpr Element elements[] = {
    {UCFT_FLOAT, 4, "f"},
    {UCFT_DOUBLE, 8, "d"},
    {UCFT_INT32, 4, "i"},
    {UCFT_INT64, 8, "q"},
    {UCFT_UINT64, 8, "Q"},
    {UCFT_INT8, 1, "b"},
    {UCFT_UINT8, 1, "B"},
    {UCFT_INT16, 2, "h"},
    {UCFT_UINT16, 2, "H"},
    {UCFT_UINT32, 4, "I"},
    {UCFT_FLOAT16, 2, "e"},
    {UCFT_BFLOAT16, 2, nullptr},
    {UCFT_COMPLEX_FLOAT, 8, "Zf"},
    {UCFT_COMPLEX_DOUBLE, 16, "Zd"},
    {UCFT_BOOL, 1, "?"},
    {UCFT_FLOAT_INT32, 8, nullptr},
    {UCFT_DOUBLE_INT32, 16, nullptr},
    {UCFT_INT32_INT32, 8, nullptr},
    {UCFT_INT64_INT64, 16, nullptr},
    {UCFT_DOUBLE_INT64, 16, nullptr},
    {UCFT_ACCUMULATOR, sizeof(ucft_accumulator_t), nullptr},
};

const Element& element_of(ucft_dtype_t dtype) {
  for (const Element& each : elements)
    if (each.dtype == dtype) return each;
  raise(UCFT_ERR_UNSUPPORTED, fmt::format("dtype {} has no name", static_cast<int>(dtype)));
}

// "<l" with 8 bytes -> INT64. nullopt: no type of ours.
std::optional<ucft_dtype_t> dtype_of(const char* format, Py_ssize_t bytes) {
  std::string text = format == nullptr ? "B" : format;
  constexpr bool little = std::endian::native == std::endian::little;
  if (!text.empty() && std::strchr("@=<>!", text[0]) != nullptr) {
    if (bytes > 1 && (text[0] == '<' ? !little : (text[0] == '>' || text[0] == '!') && little)) return std::nullopt;
    text.erase(0, 1);
  }
  if (text.size() == 1 && std::strchr("bhilqn", text[0]) != nullptr)
    return bytes == 1 ? UCFT_INT8 : bytes == 2 ? UCFT_INT16 : bytes == 4 ? UCFT_INT32 : UCFT_INT64;
  if (text.size() == 1 && std::strchr("BHILQNc", text[0]) != nullptr)
    return bytes == 1 ? UCFT_UINT8 : bytes == 2 ? UCFT_UINT16 : bytes == 4 ? UCFT_UINT32 : UCFT_UINT64;
  for (const Element& each : elements)
    if (each.format != nullptr && text == each.format) return each.dtype;
  return std::nullopt;
}

// numpy, if it is installed; else None. Looked for once.
const py::object& numpy() {
  static const py::object& found =
      *new py::object([]() -> py::object {  // never destroyed: the interpreter may be gone by then
        try {
          return py::module_::import("numpy");
        } catch (py::error_already_set& missing) {
          if (!missing.matches(PyExc_ImportError)) throw;
          return py::none();
        }
      }());
  return found;
}

// A new memoryview of the same elements, of so many bytes.
py::object zeros(const py::object& view, std::size_t bytes) {
  const py::object memory = py::bytearray(std::string(bytes, '\0'));
  return py::module_::import("builtins").attr("memoryview")(memory).attr("cast")(view.attr("format"));
}

}  // namespace

std::uint64_t bytes_of(ucft_dtype_t dtype) { return element_of(dtype).bytes; }

View::View(py::handle object, const char* name, bool writable, std::optional<ucft_dtype_t> dtype) {
  if (!dtype && is_plain_array(object, writable)) return;
  if (!dtype && py::isinstance<Accumulator>(object)) dtype = UCFT_ACCUMULATOR;
  if (std::strcmp(Py_TYPE(object.ptr())->tp_name, "MaskedArray") == 0)
    raise(UCFT_ERR_INVALID_PARAM, fmt::format("{}: a masked array; its mask would be ignored", name));
  Py_buffer exported{};
  if (PyObject_GetBuffer(object.ptr(), &exported,
                         PyBUF_ANY_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) != 0) {
    py::error_already_set why;
    require(!py::isinstance<ucft_op_t>(object), fmt::format("{}: an operator; write op=", name));
    require(!writable || PyObject_CheckBuffer(object.ptr()) != 0,
            fmt::format("{}: an object of type {} can't be written to; it must be an array", name,
                        Py_TYPE(object.ptr())->tp_name));
    raise(UCFT_ERR_INVALID_PARAM, fmt::format("{}: {}", name, std::string(py::str(why.value()))));
  }
  buffer_.reset(new Py_buffer(exported));
  if (PyBuffer_IsContiguous(&exported, 'C') == 0)
    raise(UCFT_ERR_INVALID_PARAM,
          fmt::format("{}: the array is not C-contiguous (numpy.ascontiguousarray makes it so)", name));
  const std::optional<ucft_dtype_t> found = dtype ? dtype : dtype_of(exported.format, exported.itemsize);
  if (!found)
    raise(UCFT_ERR_INVALID_PARAM,
          fmt::format(
              "{}: elements of format '{}' are no type of ucft in this machine's byte order (dtype= may say which)",
              name, exported.format));
  const std::uint64_t bytes = static_cast<std::uint64_t>(exported.len), each = bytes_of(*found);
  if (bytes % each != 0)
    raise(UCFT_ERR_INVALID_PARAM,
          fmt::format("{}: {} bytes are no whole number of elements of {} bytes", name, bytes, each));
  data_ = exported.buf;
  count_ = bytes / each;
  dtype_ = *found;
}

// Asking an array's buffer takes longer than a small operation.
bool View::is_plain_array(py::handle object, bool writable) {
  static const PyTypeObject* ndarray = nullptr;
  if (Py_TYPE(object.ptr()) != ndarray) {
    if (std::strcmp(Py_TYPE(object.ptr())->tp_name, "numpy.ndarray") != 0) return false;
    ndarray = Py_TYPE(object.ptr());
  }
  using Numpy = py::detail::npy_api;
  const py::detail::PyArray_Proxy& array = *py::detail::array_proxy(object.ptr());
  const int needed =
      Numpy::NPY_ARRAY_C_CONTIGUOUS_ | Numpy::NPY_ARRAY_ALIGNED_ | (writable ? Numpy::NPY_ARRAY_WRITEABLE_ : 0);
  const auto& type = *py::detail::array_descriptor_proxy(array.descr);
  const bool is_native = type.byteorder == '=' || type.byteorder == '|';
  if ((array.flags & needed) != needed || !is_native) return false;
  switch (type.type_num) {
    case Numpy::NPY_FLOAT_: dtype_ = UCFT_FLOAT; break;
    case Numpy::NPY_DOUBLE_: dtype_ = UCFT_DOUBLE; break;
    case Numpy::NPY_INT_: dtype_ = UCFT_INT32; break;
    case Numpy::NPY_LONG_: dtype_ = UCFT_INT64; break;
    default: return false;
  }
  data_ = array.data;
  count_ = 1;
  for (int i = 0; i < array.nd; ++i) count_ *= static_cast<std::uint64_t>(array.dimensions[i]);
  array_ = py::reinterpret_borrow<py::object>(object);
  return true;
}

void View::Release::operator()(Py_buffer* buffer) const {
  PyBuffer_Release(buffer);
  delete buffer;
}

py::object with_buffer(py::handle object, const char* name) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) return py::reinterpret_borrow<py::object>(object);
  if (numpy().is_none())
    raise(UCFT_ERR_INVALID_PARAM,
          fmt::format("{}: an object of type {} has no buffer (and numpy, which could make one, is not installed)",
                      name, Py_TYPE(object.ptr())->tp_name));
  return numpy().attr("asarray")(object, py::arg("order") = "C");
}

py::object new_array(py::handle like, std::int32_t ranks, bool has_zeros) {
  if (ranks == 0 && py::isinstance<Accumulator>(like)) return py::cast(std::make_shared<Accumulator>());
  if (!numpy().is_none()) {
    const bool is_array = py::isinstance(like, numpy().attr("ndarray"));
    const py::object buffer = py::module_::import("builtins").attr("memoryview")(like);  // bytes would become a text
    const py::object array = numpy().attr("asarray")(is_array ? py::reinterpret_borrow<py::object>(like) : buffer);
    py::tuple shape = array.attr("shape");
    if (ranks > 0) shape = py::make_tuple(ranks) + shape;
    const char* const make = ranks > 0 || has_zeros ? "zeros" : "empty";  // the places of the dead stay as they are
    return numpy().attr(make)(shape, array.attr("dtype"));
  }
  const py::object view = py::module_::import("builtins").attr("memoryview")(like);
  return zeros(view, view.attr("nbytes").cast<std::size_t>() * static_cast<std::size_t>(ranks > 0 ? ranks : 1));
}

py::object new_share(py::handle like, std::int32_t ranks) {
  if (py::isinstance<Accumulator>(like)) return new_array(like, 0);
  if (numpy().is_none()) {
    const py::object view = py::module_::import("builtins").attr("memoryview")(like);
    return zeros(view, view.attr("nbytes").cast<std::size_t>() / static_cast<std::size_t>(ranks));
  }
  const py::object array = numpy().attr("asarray")(like);
  const py::tuple shape = array.attr("shape");
  if (py::len(shape) > 1 && shape[0].cast<std::int64_t>() != ranks)
    raise(UCFT_ERR_INVALID_PARAM,
          fmt::format("send: its first dimension is {}, and there are {} ranks", shape[0].cast<std::int64_t>(), ranks));
  const py::object of_one =
      py::len(shape) > 1 ? py::object(shape[py::slice(1, PY_SSIZE_T_MAX, 1)])
                         : py::make_tuple(array.attr("size").cast<std::size_t>() / static_cast<std::size_t>(ranks));
  return numpy().attr("empty")(of_one, array.attr("dtype"));
}

py::object borrowed_array(void* data, std::uint64_t count, ucft_dtype_t dtype, bool writable) {
  const Element& element = element_of(dtype);
  const py::object view = py::memoryview::from_memory(data, static_cast<py::ssize_t>(count * element.bytes), !writable);
  if (numpy().is_none()) return element.format == nullptr ? view : view.attr("cast")(element.format);
  if (element.format == nullptr) return numpy().attr("frombuffer")(view, "u1").attr("reshape")(count, element.bytes);
  return numpy().attr("frombuffer")(view, dtype == UCFT_COMPLEX_FLOAT    ? "c8"
                                          : dtype == UCFT_COMPLEX_DOUBLE ? "c16"
                                                                         : element.format);
}

}  // namespace ucft::python
