// How often a gossip operation has begun, and the tag of its messages by which they are sorted.
//
//   first beginning   each rank for itself, when it posts. Its tag says what it has begun with: the call, the ranks
//                     that it takes for alive, the path. Ranks that have begun alike understand each other. Within a
//                     host the path does not matter, and a rank that does not gossip itself has none
//   later ones        all together, after an agreement. The tag counts them
//
// Messages from before a beginning are of no use. A message of a rank that has seen the end of an agreement before us
// must wait until we have seen it, too. Two ranks are never further apart than that. Before the ranks have met no rank
// knows which tag is ahead, so all others wait.
#pragma once

#include <cstdint>

namespace ucft::detail {

class GossipEpoch {
 public:
  // within_host: a hash of all that a rank begins with, but for the path; what: with it.
  void begin_with(std::uint64_t what, std::uint64_t within_host) {
    ++begun_;
    tag_ = static_cast<std::uint16_t>(what & ~std::uint64_t{counts});
    host_tag_ = static_cast<std::uint16_t>(within_host & ~std::uint64_t{counts});
  }
  void begin_again() {
    ++begun_;
    tag_ = host_tag_ = next();
  }
  void meet() { has_met_ = true; }
  bool has_met() const { return has_met_; }
  std::uint32_t begun() const { return begun_; }  // 0: not yet
  std::uint16_t tag() const { return tag_; }
  std::uint16_t host_tag() const { return host_tag_; }

  // tag: of a message, or of what a window shows.
  bool is_now(std::uint16_t tag) const { return begun_ > 0 && tag == tag_; }
  bool is_ahead(std::uint16_t tag) const { return has_met_ ? tag == next() : !is_now(tag); }
  // host_tag: of a message within the host.
  bool is_now_here(std::uint16_t host_tag) const { return begun_ > 0 && host_tag == host_tag_; }
  bool is_ahead_here(std::uint16_t host_tag) const { return has_met_ ? host_tag == next() : !is_now_here(host_tag); }

 private:
  static constexpr std::uint16_t counts = 0x8000;  // in a tag: the rest is a number
  std::uint16_t next() const {
    const int number = (tag_ & counts) == 0 ? 0 : tag_ + 1;
    return static_cast<std::uint16_t>(counts | number);
  }

  std::uint32_t begun_ = 0;
  std::uint16_t tag_ = 0, host_tag_ = 0;
  bool has_met_ = false;
};

}  // namespace ucft::detail
