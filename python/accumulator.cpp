#include "python/accumulator.hpp"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>

#include "python/elements.hpp"
#include "python/errors.hpp"

namespace ucft::python {
namespace {

// Numbers that are contiguous: a strided array is copied, and a number or a list becomes an array of doubles.
struct Numbers {
  Numbers(const py::object& values, const char* name)
      : object(contiguous(values, name)), view(object, name, false, {}) {}

  py::object object;
  View view;

 private:
  static py::object contiguous(const py::object& values, const char* name) {
    const bool has_buffer = PyObject_CheckBuffer(values.ptr()) != 0;
    const bool is_array = has_buffer && py::hasattr(values, "flags") && py::hasattr(values, "dtype");
    if (has_buffer && (!is_array || values.attr("flags").attr("c_contiguous").cast<bool>())) return values;
    if (is_array) return values.attr("copy")("C");
    const py::object array = with_buffer(values, name);
    return array.attr("astype")("d");
  }
};

void add(Accumulator& self, const py::object& values) {
  const Numbers numbers(values, "values");
  raise_unless_ok([&] {
    const py::gil_scoped_release released;
    return ucft_accumulate(numbers.view.data(), numbers.view.count(), numbers.view.dtype(), &self.sum);
  }());
}

void add_products(Accumulator& self, const py::object& a, const py::object& b) {
  const Numbers one(a, "a"), other(b, "b");
  if (one.view.count() != other.view.count() || one.view.dtype() != other.view.dtype())
    raise(UCFT_ERR_INVALID_PARAM,
          fmt::format("a and b differ in length or type: {} and {} elements", one.view.count(), other.view.count()));
  raise_unless_ok([&] {
    const py::gil_scoped_release released;
    return ucft_accumulate_products(one.view.data(), other.view.data(), one.view.count(), one.view.dtype(), &self.sum);
  }());
}

void add_squares(Accumulator& self, const py::object& values) {
  const Numbers numbers(values, "values");
  raise_unless_ok([&] {
    const py::gil_scoped_release released;
    return ucft_accumulate_squares(numbers.view.data(), numbers.view.count(), numbers.view.dtype(), &self.sum);
  }());
}

// The words of another one, a row of an array of such, or what a file had.
std::shared_ptr<Accumulator> made_of(const py::object& words) {
  auto made = std::make_shared<Accumulator>();
  if (words.is_none()) return made;
  const View view(words, "words", false, UCFT_ACCUMULATOR);
  if (view.count() != 1) raise(UCFT_ERR_INVALID_PARAM, fmt::format("words: {} accumulators; must be 1", view.count()));
  std::memcpy(&made->sum, view.data(), sizeof made->sum);
  const Accumulator empty;
  raise_unless_ok(ucft_accumulator_merge(&made->sum, &empty.sum));
  return made;
}

using Round = ucft_status_t (*)(const ucft_accumulator_t*, ucft_dtype_t, void*);
double rounded(Round round, const Accumulator& self, ucft_dtype_t dtype) {
  float narrow = 0;
  double wide = 0;
  raise_unless_ok(round(&self.sum, dtype, dtype == UCFT_FLOAT ? static_cast<void*>(&narrow) : &wide));
  return dtype == UCFT_FLOAT ? static_cast<double>(narrow) : wide;
}

}  // namespace

void bind_accumulator(py::module_& m) {
  const auto dtype = py::arg("dtype") = UCFT_DOUBLE;
  py::class_<Accumulator, std::shared_ptr<Accumulator>> its(
      m, "Accumulator", py::buffer_protocol(),
      "An exact sum, with the same bits however the numbers are cut among calls, threads and ranks (ucft.h: "
      "ucft_accumulator_t).\n\n"
      "    own = ucft.Accumulator().add(x)\n"
      "    total = world.allreduce(own).value.value()\n\n"
      "Also a buffer of 112 int64. words: such a buffer, to begin with; None: nothing.");
  its.def(py::init(&made_of), py::arg("words") = py::none())
      .def_buffer([](Accumulator& self) {
        return py::buffer_info(self.sum.words, sizeof self.sum.words[0], "q", 1, {sizeof self.sum / 8}, {8});
      })
      .def(
          "add",
          [](py::object self, const py::object& values) {
            add(self.cast<Accumulator&>(), values);
            return self;
          },
          py::arg("values"),
          "Adds numbers: an array of float32 or float64 of any shape and strides, or a number or a list. Returns "
          "itself.\nOther threads run meanwhile; only one may be adding to this accumulator.")
      .def(
          "add_products",
          [](py::object self, const py::object& a, const py::object& b) {
            add_products(self.cast<Accumulator&>(), a, b);
            return self;
          },
          py::arg("a"), py::arg("b"), "Adds the products of a's and b's elements, exactly: a dot product.")
      .def(
          "add_squares",
          [](py::object self, const py::object& values) {
            add_squares(self.cast<Accumulator&>(), values);
            return self;
          },
          py::arg("values"), "Adds the squares, exactly: root() is a norm.")
      .def(
          "__iadd__",
          [](py::object self, const Accumulator& other) {
            raise_unless_ok(ucft_accumulator_merge(&self.cast<Accumulator&>().sum, &other.sum));
            return self;
          },
          "Adds what the other one has.")
      .def(
          "value",
          [](const Accumulator& self, ucft_dtype_t type) { return rounded(&ucft_accumulator_value, self, type); },
          dtype, "The sum, rounded once, to a DOUBLE or a FLOAT.")
      .def(
          "root",
          [](const Accumulator& self, ucft_dtype_t type) { return rounded(&ucft_accumulator_root, self, type); }, dtype,
          "The square root of the sum, rounded once.")
      .def("__eq__",
           [](const Accumulator& self, const py::object& other) {
             return py::isinstance<Accumulator>(other) &&
                    std::memcmp(&self.sum, &other.cast<const Accumulator&>().sum, sizeof self.sum) == 0;
           })
      .def("__repr__",
           [](const Accumulator& self) {
             return fmt::format("<ucft.Accumulator: {}>", rounded(&ucft_accumulator_value, self, UCFT_DOUBLE));
           })
      .def(py::pickle(
          [](const Accumulator& self) { return py::bytes(reinterpret_cast<const char*>(&self.sum), sizeof self.sum); },
          [](const py::bytes& words) { return made_of(words); }));
  its.attr("__hash__") = py::none();
}

}  // namespace ucft::python
