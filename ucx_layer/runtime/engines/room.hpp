// Memory of the context's buffers, for as long as this lives: pages that have been touched, and that other ranks can
// map.
#pragma once

#include <span>
#include <utility>

#include "collectives/core/buffers.hpp"

namespace ucft::detail {

class Room {
 public:
  explicit Room(Buffers& buffers) : buffers_(buffers) {}
  ~Room() { buffers_.release(id_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // For other data than before. False: there is no memory, and now none here.
  bool make(std::size_t bytes) {
    buffers_.release(std::exchange(id_, no_buffer));
    if (bytes > 0) id_ = buffers_.allocate(bytes);
    bytes_ = id_ == no_buffer ? 0 : bytes;
    return bytes_ == bytes;
  }
  void shrink(std::size_t bytes) { bytes_ = bytes; }
  std::byte* data() const { return id_ == no_buffer ? nullptr : buffers_.data(buffers_.whole(id_)); }
  std::size_t size() const { return bytes_; }
  std::span<const std::byte> bytes() const { return {data(), bytes_}; }
  Slice slice() const { return {id_, 0, bytes_}; }

 private:
  Buffers& buffers_;
  BufferId id_ = no_buffer;
  std::size_t bytes_ = 0;
};

}  // namespace ucft::detail
