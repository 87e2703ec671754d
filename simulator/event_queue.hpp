// A priority queue for events whose times lie close together: buckets of equal width, each sorted when its time has
// come. Events have a total order (time, then order), so the order of pops does not depend on the buckets.
//
//   side_ (heap) and current_ (sorted): the bucket that is being emptied, and the events that still fall into it
//   ring_: the bucket_count buckets behind it, unsorted;  far_: all later ones
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <vector>

namespace ucft::detail::simulator {

// Event: `double time` >= 0 and `bool before(const Event&) const`.
template <class Event>
class EventQueue {
 public:
  explicit EventQueue(double width) : width_(width > 0 ? width : 1), ring_(bucket_count) {}

  bool empty() const { return size_ == 0; }
  void push(const Event& event) {
    ++size_;
    const std::int64_t bucket = bucket_of(event.time);
    if (bucket <= now_) {
      side_.push_back(event);
      std::push_heap(side_.begin(), side_.end(), later);
    } else if (bucket - now_ < bucket_count) {
      ring_[index_of(bucket)].push_back(event);
      ++in_ring_;
    } else {
      far_.push_back(event);
      first_far_ = std::min(first_far_, bucket);
    }
  }
  Event pop() {
    assert(size_ > 0);
    if (next_ == current_.size() && side_.empty()) advance();
    --size_;
    if (side_.empty() || (next_ < current_.size() && current_[next_].before(side_.front()))) return current_[next_++];
    std::pop_heap(side_.begin(), side_.end(), later);
    const Event event = side_.back();
    side_.pop_back();
    return event;
  }

 private:
  static constexpr std::int64_t bucket_count = 4096;

  static bool later(const Event& a, const Event& b) { return b.before(a); }
  static std::size_t index_of(std::int64_t bucket) { return static_cast<std::size_t>(bucket & (bucket_count - 1)); }
  std::int64_t bucket_of(double time) const {
    const double bucket = time / width_;
    return bucket < 0x1p62 ? static_cast<std::int64_t>(bucket) : std::int64_t{1} << 62;
  }
  // To the next bucket that has an event. There is one.
  void advance() {
    std::int64_t bucket = first_far_;
    if (in_ring_ > 0)
      for (bucket = now_ + 1; ring_[index_of(bucket)].empty() && bucket < first_far_;) ++bucket;
    now_ = bucket;
    if (bucket >= first_far_) take_far();
    std::vector<Event>& events = ring_[index_of(bucket)];
    in_ring_ -= static_cast<std::int64_t>(events.size());
    current_.clear();
    next_ = 0;
    current_.swap(events);
    std::sort(current_.begin(), current_.end(), [](const Event& a, const Event& b) { return a.before(b); });
  }
  void take_far() {
    std::vector<Event> all;
    all.swap(far_);
    first_far_ = std::numeric_limits<std::int64_t>::max();
    for (const Event& event : all) {
      const std::int64_t bucket = bucket_of(event.time);
      if (bucket - now_ < bucket_count) {
        ring_[index_of(bucket)].push_back(event);
        ++in_ring_;
      } else {
        far_.push_back(event);
        first_far_ = std::min(first_far_, bucket);
      }
    }
  }

  double width_;
  std::int64_t now_ = -1, first_far_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t size_ = 0, in_ring_ = 0;
  std::vector<Event> current_, side_, far_;
  std::size_t next_ = 0;
  std::vector<std::vector<Event>> ring_;
};

}  // namespace ucft::detail::simulator
