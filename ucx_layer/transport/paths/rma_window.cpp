#include "ucx_layer/transport/paths/rma_window.hpp"

#include <bit>
#include <cassert>
#include <cstring>

#include "ucx_layer/transport/paths/remote.hpp"
#include "ucx_layer/transport/paths/shared.hpp"

namespace ucft::detail {

namespace {

constexpr std::size_t line_bytes = sizeof(MailboxLine);

struct WindowName {
  SegmentName segment;
  std::uint64_t address;
  std::uint32_t lines, generation;
  std::uint64_t key_bytes;
};
static_assert(sizeof(WindowName) % 8 == 0 && sizeof(WindowName) + remote_key_limit <= RmaWindow::name_limit);

std::atomic<std::uint64_t>& word_at(std::byte* memory) {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory);
}

}  // namespace

void Windows::reach_by(RemotePath* remote, Connections* connections, Registrations* registrations) {
  paths_.remote = remote;
  paths_.connections = connections;
  paths_.registrations = registrations;
}

bool Windows::can_reach(int peer) const {
  return paths_.shared.has(peer) || (paths_.remote != nullptr && paths_.remote->has(peer));
}

WindowMemory* Windows::take(int peer, std::size_t bytes) {
  if (!can_reach(peer)) return nullptr;
  if (paths_.shared.has(peer) ? paths_.shared.is_forgotten(peer) : paths_.remote->is_forgotten(peer)) return nullptr;
  auto& windows = memory_[static_cast<std::size_t>(peer)];
  WindowMemory* best = nullptr;
  for (const auto& each : windows)
    if (!each->taken && each->bytes >= bytes && (best == nullptr || each->bytes < best->bytes)) best = each.get();
  if (best == nullptr) {
    WindowMemory fresh;
    fresh.bytes = std::bit_ceil(bytes);  // so that what is too small, later, is no more than what is used
    fresh.data = paths_.segments.carve(fresh.bytes);
    if (fresh.data == nullptr) return nullptr;
    windows.push_back(std::make_unique<WindowMemory>(fresh));
    best = windows.back().get();
  }
  best->taken = true;
  ++best->generation;
  return best;
}

RmaWindow::RmaWindow(Windows& windows, int peer, std::size_t head_bytes, std::size_t row_bytes)
    : paths_(windows.paths()),
      peer_(peer),
      mapped_(paths_.shared.has(peer)),
      layout_{head_bytes, row_bytes, !mapped_ || UCFT_TEST_SWITCH(stamps_all_lines)} {
  assert(head_bytes <= WindowLayout::longest_head);
  const std::size_t bytes = (1 + layout_.lines()) * line_bytes;
  WindowMemory* taken = windows.take(peer_, bytes);
  if (taken == nullptr) return;
  if (!mapped_) {
    copy_ = paths_.buffers.allocate(bytes);
    told_copy_ = paths_.buffers.allocate(line_bytes);
    if (copy_ == no_buffer || told_copy_ == no_buffer ||
        paths_.registrations->key_of(*paths_.segments.carved_segment(taken->data)).empty()) {
      taken->taken = false;
      return;
    }
  }
  mine_ = taken;
  reader_ = WindowReader(layout_, reinterpret_cast<const MailboxLine*>(mine_->data + line_bytes), mine_->generation);
}

RmaWindow::~RmaWindow() {
  if (mine_ != nullptr) mine_->taken = false;
  paths_.buffers.release(copy_);
  paths_.buffers.release(told_copy_);
}

std::vector<std::byte> RmaWindow::name() const {
  const Segment* segment = paths_.segments.carved_segment(mine_->data);
  const auto key = mapped_ ? std::span<const std::byte>{} : paths_.registrations->key_of(*segment);
  const WindowName name{segment->name(), reinterpret_cast<std::uint64_t>(mine_->data), layout_.lines(),
                        mine_->generation, key.size()};
  std::vector<std::byte> bytes(sizeof name + (key.size() + 7) / 8 * 8);
  std::memcpy(bytes.data(), &name, sizeof name);
  if (!key.empty()) std::memcpy(bytes.data() + sizeof name, key.data(), key.size());
  return bytes;
}

RmaWindow::Connected RmaWindow::connect(std::span<const std::byte> bytes) {
  if (there_ != nullptr) return Connected::yes;
  WindowName name;
  if (mine_ == nullptr || bytes.size() < sizeof name || UCFT_TEST_SWITCH(refuses_window)) return Connected::impossible;
  std::memcpy(&name, bytes.data(), sizeof name);
  const std::uint64_t length = (1 + std::uint64_t{name.lines}) * line_bytes;
  if (name.lines != layout_.lines() || name.key_bytes > bytes.size() - sizeof name ||
      name.key_bytes > remote_key_limit || name.address % line_bytes != 0 || name.address < name.segment.address ||
      name.address - name.segment.address > name.segment.bytes ||
      length > name.segment.bytes - (name.address - name.segment.address))
    return Connected::impossible;
  generation_there_ = name.generation;
  if (mapped_) {
    there_ = paths_.shared.memory_of(peer_, name.address, length);
    if (there_ == nullptr) return Connected::impossible;
  } else {
    const std::span<const std::byte> key = bytes.subspan(sizeof name, name.key_bytes);
    if (key.empty()) return Connected::impossible;
    if (paths_.connections->to(peer_) == nullptr) return Connected::connection_lost;
    if (!paths_.remote->has_key(peer_, name.segment, key)) return Connected::impossible;
    there_ = paths_.buffers.data(copy_);
    std::memset(static_cast<void*>(there_), 0, length);
    target_ = name.address;
    segment_ = name.segment;
    key_.assign(key.begin(), key.end());
  }
  writer_ = WindowWriter(layout_, reinterpret_cast<MailboxLine*>(there_ + line_bytes), name.generation);
  return Connected::yes;
}

// How far the other end has read: it writes that into our line 0. A stamp of another generation is from an earlier use
// of this memory.
std::uint32_t RmaWindow::seen_there() const {
  const std::uint64_t word = word_at(mine_->data).load(std::memory_order_acquire);
  const auto number = static_cast<std::uint32_t>(word);
  return word >> 32 == mine_->generation ? std::max(seen_, number) : seen_;
}

bool RmaWindow::can_write() const {
  return there_ != nullptr && seen_there() == writer_.written() && (mapped_ || paths_.buffers.references(copy_) == 1);
}
bool RmaWindow::is_at_rest() const {
  return mapped_ || (paths_.buffers.references(copy_) == 1 && paths_.buffers.references(told_copy_) == 1);
}

void RmaWindow::write(std::span<const std::byte> head, std::span<const std::byte> row) {
  assert(can_write());
  told_ = reader_.read();
  const std::uint32_t filled = writer_.write(head, row, told_);
  put({copy_, line_bytes, filled * line_bytes}, line_bytes);
}

void RmaWindow::consume() {
  seen_ = std::max(seen_, reader_.header().seen);
  reader_.consume();
}

void RmaWindow::publish() {
  if (there_ == nullptr || told_ == reader_.read()) return;
  told_ = reader_.read();
  word_at(mapped_ ? there_ : paths_.buffers.data(told_copy_))
      .store(window_stamp(generation_there_, told_), std::memory_order_release);
  put({told_copy_, 0, sizeof(std::uint64_t)}, 0);
}

// To that place in the peer's window.
void RmaWindow::put(Slice content, std::size_t offset) {
  if (mapped_) return paths_.shared.touch(peer_);
  paths_.remote->put(peer_, content, target_ + offset, segment_, key_);
}

}  // namespace ucft::detail
