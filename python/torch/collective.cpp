#include "python/torch/collective.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "python/torch/engine.hpp"
#include "python/torch/failure.hpp"

namespace ucft::pytorch {

namespace {

constexpr std::chrono::milliseconds longest_wait = std::chrono::hours(24 * 365);

}  // namespace

Collective::Collective(std::shared_ptr<Engine> engine, std::int32_t rank, Plan plan)
    : c10d::Work(rank, plan.kind), engine_(std::move(engine)), plan_(std::move(plan)), root_(plan_.root) {}

bool Collective::isCompleted() {
  if (!Work::isCompleted()) engine_->look();
  return Work::isCompleted();
}

bool Collective::wait(std::chrono::milliseconds timeout) {
  if (!Work::isCompleted()) {
    if (timeout.count() <= 0) timeout = plan_.timeout.count() > 0 ? plan_.timeout : engine_->timeout();
    const auto limit = Clock::now() + std::min(timeout, longest_wait);
    std::string late;
    if (!engine_->wait(*this, limit, &late))
      throw Failure(UCFT_ERR_TIMED_OUT, c10::str(c10d::opTypeToString(opType_), ": not complete within ",
                                                 static_cast<double>(timeout.count()) / 1e3, " s; it goes on",
                                                 late.empty() ? "" : ": " + late));
  }
  const std::lock_guard lock(mutex_);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

std::vector<at::Tensor> Collective::result() {
  outcome();
  return plan_.outputs;
}

Outcome Collective::outcome() {
  const std::lock_guard lock(mutex_);
  if (!completed_)
    throw Failure(UCFT_ERR_STATE, c10d::opTypeToString(opType_) + ": not complete; wait for the work first");
  if (exception_) std::rethrow_exception(exception_);
  return outcome_;
}

void Collective::abort() {
  throw Failure(UCFT_ERR_UNSUPPORTED, "abort: an operation that was posted can't be taken back");
}

c10::intrusive_ptr<c10::ivalue::Future> Collective::getFuture() {
  std::unique_lock lock(mutex_);
  if (!future_) future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  const auto future = future_;
  const bool must_mark = completed_ && !std::exchange(marked_, true);
  const bool must_hurry = !completed_ && !std::exchange(eager_, true);
  lock.unlock();
  if (must_mark) mark(*future);
  if (must_hurry) {
    std::optional<pybind11::gil_scoped_release> released;  // PyTorch calls this with it
    if (PyGILState_Check() != 0) released.emplace();
    engine_->hurry(*this);
  }
  return future;
}

void Collective::mark(c10::ivalue::Future& future) {
  if (exception_) {
    future.setError(exception_);
  } else {
    future.markCompleted(c10::IValue(plan_.outputs));
  }
}

void Collective::complete() {
  if (!failed_ && plan_.deliver) plan_.deliver(outcome_);
  finish(failed_);
}

void Collective::tell_future() {
  std::unique_lock lock(mutex_);
  const auto future = future_;
  if (!future || std::exchange(marked_, true)) return;
  lock.unlock();
  mark(*future);
}

}  // namespace ucft::pytorch
