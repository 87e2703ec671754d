#include "mpi/datatypes.hpp"

#include "mpi/handle_number.hpp"

namespace ucft::mpi {

namespace {

// A table that is only read once it is made. Open addressing, at most half full.
template <class Handle, class Value, std::size_t places>
class Table {
 public:
  void add(Handle handle, const Value& value) {
    std::size_t at = place(handle);
    while (used_[at] && handles_[at] != handle) at = (at + 1) % places;
    used_[at] = true;
    handles_[at] = handle;
    values_[at] = value;
  }
  const Value* find(Handle handle) const {
    for (std::size_t at = place(handle); used_[at]; at = (at + 1) % places)
      if (handles_[at] == handle) return &values_[at];
    return nullptr;
  }

 private:
  static std::size_t place(Handle handle) { return (number_of(handle) * 0x9e3779b97f4a7c15u) >> 32 & (places - 1); }

  std::array<bool, places> used_{};
  std::array<Handle, places> handles_{};
  std::array<Value, places> values_{};
};

Table<MPI_Datatype, Element, 256> elements;
Table<MPI_Op, Operation, 32> operations;

// Adds those that this MPI has: Fortran's may be missing, or have another size than their name says.
void add(MPI_Datatype type, Family family, ucft_dtype_t dtype, bool has_dtype, std::uint32_t dtype_bytes) {
  if (type == MPI_DATATYPE_NULL) return;
  int bytes = 0;
  if (PMPI_Type_size(type, &bytes) != MPI_SUCCESS || bytes <= 0) return;
  const MPI_Aint extent = extent_of(type);
  const bool same = has_dtype && static_cast<std::uint32_t>(extent) == dtype_bytes;
  elements.add(type, {static_cast<std::uint32_t>(extent), family, bytes == extent, same, dtype});
}

template <std::size_t n>
void add_all(const MPI_Datatype (&types)[n], Family family, ucft_dtype_t dtype, std::uint32_t dtype_bytes) {
  for (MPI_Datatype type : types) add(type, family, dtype, true, dtype_bytes);
}

template <std::size_t n>
void add_without_dtype(const MPI_Datatype (&types)[n], Family family) {
  for (MPI_Datatype type : types) add(type, family, UCFT_UINT8, false, 0);
}

template <std::size_t n>
void add_integers(const MPI_Datatype (&types)[n], Family family, bool is_signed) {
  for (MPI_Datatype type : types) {
    int bytes = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &bytes) != MPI_SUCCESS) continue;
    switch (bytes) {
      case 1: add(type, family, is_signed ? UCFT_INT8 : UCFT_UINT8, true, 1); break;
      case 2: add(type, family, is_signed ? UCFT_INT16 : UCFT_UINT16, true, 2); break;
      case 4: add(type, family, is_signed ? UCFT_INT32 : UCFT_UINT32, true, 4); break;
      case 8: add(type, family, is_signed ? UCFT_INT64 : UCFT_UINT64, true, 8); break;
      default: break;
    }
  }
}

void make_elements() {
  add_integers(
      {MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T,
       MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8},
      Family::integer, true);
  add_integers({MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
                MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T},
               Family::integer, false);
  add_integers({MPI_LOGICAL}, Family::logical, true);
  add_all({MPI_C_BOOL, MPI_CXX_BOOL}, Family::logical, UCFT_BOOL, 1);
  add_all({MPI_BYTE}, Family::byte, UCFT_UINT8, 1);
  add_all({MPI_FLOAT, MPI_REAL, MPI_REAL4}, Family::real, UCFT_FLOAT, 4);
  add_all({MPI_DOUBLE, MPI_DOUBLE_PRECISION, MPI_REAL8}, Family::real, UCFT_DOUBLE, 8);
  add_all({MPI_C_FLOAT_COMPLEX, MPI_CXX_FLOAT_COMPLEX, MPI_COMPLEX, MPI_COMPLEX8}, Family::complex, UCFT_COMPLEX_FLOAT,
          8);
  add_all({MPI_C_DOUBLE_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX16}, Family::complex,
          UCFT_COMPLEX_DOUBLE, 16);
  add_all({MPI_FLOAT_INT}, Family::located, UCFT_FLOAT_INT32, 8);
  add_all({MPI_DOUBLE_INT}, Family::located, UCFT_DOUBLE_INT32, 16);
  add_all({MPI_2INT, MPI_2INTEGER}, Family::located, UCFT_INT32_INT32, 8);
  add_without_dtype({MPI_LONG_DOUBLE}, Family::real);
  add_without_dtype({MPI_C_LONG_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX}, Family::complex);
  add_without_dtype({MPI_LONG_INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT, MPI_2REAL, MPI_2DOUBLE_PRECISION},
                    Family::located);
  add_without_dtype({MPI_CHAR, MPI_CHARACTER, MPI_WCHAR, MPI_PACKED}, Family::none);
}

void make_operations() {
  const auto taking = [](std::initializer_list<Family> families) {
    std::array<bool, 7> takes{};
    for (Family family : families) takes[static_cast<std::size_t>(family)] = true;
    return takes;
  };
  const auto arithmetic = taking({Family::integer, Family::real, Family::complex});
  const auto ordered = taking({Family::integer, Family::real});
  const auto logical = taking({Family::integer, Family::logical});
  const auto bitwise = taking({Family::integer, Family::byte});
  const auto located = taking({Family::located});
  operations.add(MPI_SUM, {UCFT_SUM, arithmetic});
  operations.add(MPI_PROD, {UCFT_PROD, arithmetic});
  operations.add(MPI_MIN, {UCFT_MIN, ordered});
  operations.add(MPI_MAX, {UCFT_MAX, ordered});
  operations.add(MPI_LAND, {UCFT_LAND, logical});
  operations.add(MPI_LOR, {UCFT_LOR, logical});
  operations.add(MPI_LXOR, {UCFT_LXOR, logical});
  operations.add(MPI_BAND, {UCFT_BAND, bitwise});
  operations.add(MPI_BOR, {UCFT_BOR, bitwise});
  operations.add(MPI_BXOR, {UCFT_BXOR, bitwise});
  operations.add(MPI_MINLOC, {UCFT_MINLOC, located});
  operations.add(MPI_MAXLOC, {UCFT_MAXLOC, located});
}

}  // namespace

MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Aint begin = 0, extent = 0;
  PMPI_Type_get_extent(type, &begin, &extent);
  return extent;
}

void make_tables() {
  make_elements();
  make_operations();
}

const Element* find_element(MPI_Datatype type) { return elements.find(type); }
const Operation* find_operation(MPI_Op op) { return operations.find(op); }

}  // namespace ucft::mpi
