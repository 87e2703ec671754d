// Arguments of Fortran that a function of MPI's writes: a variable of C each, which goes to Fortran's when the call is
// over.
#pragma once

#include "mpi/world.hpp"

#ifdef OPEN_MPI

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ucft::mpi {

inline bool wants_status(MPI_Fint* status) { return status != nullptr && status != MPI_F_STATUS_IGNORE; }

class RequestInOut {
 public:
  explicit RequestInOut(MPI_Fint* to) : to_(to), request_(PMPI_Request_f2c(*to)) {}
  ~RequestInOut() { *to_ = PMPI_Request_c2f(request_); }
  RequestInOut(const RequestInOut&) = delete;
  RequestInOut& operator=(const RequestInOut&) = delete;
  operator MPI_Request*() { return &request_; }

 private:
  MPI_Fint* to_;
  MPI_Request request_;
};

class RequestOut {
 public:
  explicit RequestOut(MPI_Fint* to) : to_(to) {}
  ~RequestOut() { *to_ = PMPI_Request_c2f(request_); }
  RequestOut(const RequestOut&) = delete;
  RequestOut& operator=(const RequestOut&) = delete;
  operator MPI_Request*() { return &request_; }

 private:
  MPI_Fint* to_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class RequestsInOut {
 public:
  RequestsInOut(MPI_Fint* to, int count) : to_(to) {
    for (int i = 0; i < count; ++i) requests_.push_back(PMPI_Request_f2c(to[i]));
  }
  ~RequestsInOut() {
    for (std::size_t i = 0; i < requests_.size(); ++i) to_[i] = PMPI_Request_c2f(requests_[i]);
  }
  RequestsInOut(const RequestsInOut&) = delete;
  RequestsInOut& operator=(const RequestsInOut&) = delete;
  operator MPI_Request*() { return requests_.empty() ? &none_ : requests_.data(); }

 private:
  MPI_Fint* to_;
  MPI_Request none_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> requests_;
};

class CommOut {
 public:
  explicit CommOut(MPI_Fint* to) : to_(to) {}
  ~CommOut() { *to_ = PMPI_Comm_c2f(comm_); }
  CommOut(const CommOut&) = delete;
  CommOut& operator=(const CommOut&) = delete;
  operator MPI_Comm*() { return &comm_; }

 private:
  MPI_Fint* to_;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

class CommInOut : public CommOut {
 public:
  explicit CommInOut(MPI_Fint* to) : CommOut(to) { *static_cast<MPI_Comm*>(*this) = PMPI_Comm_f2c(*to); }
};

class OpInOut {
 public:
  explicit OpInOut(MPI_Fint* to) : to_(to), op_(PMPI_Op_f2c(*to)) {}
  ~OpInOut() { *to_ = PMPI_Op_c2f(op_); }
  OpInOut(const OpInOut&) = delete;
  OpInOut& operator=(const OpInOut&) = delete;
  operator MPI_Op*() { return &op_; }

 private:
  MPI_Fint* to_;
  MPI_Op op_;
};

class StatusOut {
 public:
  explicit StatusOut(MPI_Fint* to) : to_(wants_status(to) ? to : nullptr) {
    if (to_ != nullptr) PMPI_Status_f2c(to_, &status_);
  }
  ~StatusOut() {
    if (to_ != nullptr) PMPI_Status_c2f(&status_, to_);
  }
  StatusOut(const StatusOut&) = delete;
  StatusOut& operator=(const StatusOut&) = delete;
  operator MPI_Status*() { return to_ == nullptr ? MPI_STATUS_IGNORE : &status_; }

 private:
  MPI_Fint* to_;
  MPI_Status status_;
};

class StatusesOut {
 public:
  StatusesOut(MPI_Fint* to, int count) : to_(to == nullptr || to == MPI_F_STATUSES_IGNORE ? nullptr : to) {
    if (to_ != nullptr) statuses_.resize(static_cast<std::size_t>(std::max(count, 0)));
    for (std::size_t i = 0; i < statuses_.size(); ++i) PMPI_Status_f2c(to_ + i * ints, &statuses_[i]);
  }
  ~StatusesOut() {
    for (std::size_t i = 0; i < statuses_.size(); ++i) PMPI_Status_c2f(&statuses_[i], to_ + i * ints);
  }
  StatusesOut(const StatusesOut&) = delete;
  StatusesOut& operator=(const StatusesOut&) = delete;
  operator MPI_Status*() { return to_ == nullptr ? MPI_STATUSES_IGNORE : statuses_.data(); }

 private:
  static constexpr std::size_t ints = sizeof(MPI_Status) / sizeof(MPI_Fint);  // MPI_STATUS_SIZE
  MPI_Fint* to_;
  std::vector<MPI_Status> statuses_;
};

class LogicalOut {
 public:
  explicit LogicalOut(MPI_Fint* to) : to_(to) {}
  ~LogicalOut() { *to_ = value_ != 0 ? 1 : 0; }
  LogicalOut(const LogicalOut&) = delete;
  LogicalOut& operator=(const LogicalOut&) = delete;
  operator int*() { return &value_; }

 private:
  MPI_Fint* to_;
  int value_ = 0;
};

class Logicals {
 public:
  Logicals(const MPI_Fint* from, int count) {
    for (int i = 0; i < count; ++i) values_.push_back(from[i] != 0 ? 1 : 0);
  }
  operator const int*() const { return values_.data(); }

 private:
  std::vector<int> values_;
};

// Fortran counts from one.
inline void count_from_one(int count, MPI_Fint* indices) {
  for (int i = 0; i < count; ++i) indices[i] += 1;  // MPI_UNDEFINED is negative
}

class IndexOut {
 public:
  explicit IndexOut(MPI_Fint* to) : to_(to) {}
  ~IndexOut() { *to_ = index_ < 0 ? index_ : index_ + 1; }
  IndexOut(const IndexOut&) = delete;
  IndexOut& operator=(const IndexOut&) = delete;
  operator int*() { return &index_; }

 private:
  MPI_Fint* to_;
  int index_ = MPI_UNDEFINED;
};

}  // namespace ucft::mpi

#endif
