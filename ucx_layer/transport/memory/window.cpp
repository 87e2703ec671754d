#include "ucx_layer/transport/memory/window.hpp"

#include <cassert>
#include <cstring>

#include "ucx_layer/transport/transport.hpp"

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

RmaWindow::RmaWindow(Transport& transport, int peer, std::size_t head_bytes, std::size_t row_bytes)
    : transport_(transport),
      peer_(peer),
      layout_{head_bytes, row_bytes, !transport.is_mapped(peer) || UCFT_TEST_SWITCH(stamps_all_lines)} {
  assert(head_bytes <= WindowLayout::longest_head);
  const std::size_t bytes = (1 + layout_.lines()) * line_bytes;
  WindowMemory* taken = transport_.take_window(peer_, bytes);
  if (taken == nullptr) return;
  if (!transport_.is_mapped(peer_)) {
    copy_ = transport_.buffers().allocate(bytes);
    if (copy_ == no_buffer || transport_.remote_key_of(*transport_.window_segment(taken->data)).empty()) {
      taken->taken = false;
      return;
    }
  }
  mine_ = taken;
  reader_ = WindowReader(layout_, reinterpret_cast<const MailboxLine*>(mine_->data + line_bytes), mine_->generation);
}

RmaWindow::~RmaWindow() {
  if (mine_ != nullptr) mine_->taken = false;
  transport_.buffers().release(copy_);
}

std::vector<std::byte> RmaWindow::name() const {
  const Segment* segment = transport_.window_segment(mine_->data);
  const auto key = copy_ == no_buffer ? std::span<const std::byte>{} : transport_.remote_key_of(*segment);
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
  if (copy_ == no_buffer) {
    there_ = transport_.window_of(peer_, name.address, length);
    if (there_ == nullptr) return Connected::impossible;
  } else {
    const std::span<const std::byte> key = bytes.subspan(sizeof name, name.key_bytes);
    if (key.empty()) return Connected::impossible;
    if (!transport_.is_connected(peer_)) return Connected::connection_lost;
    if (!transport_.has_key(peer_, name.segment, key)) return Connected::impossible;
    there_ = transport_.buffers().data(copy_);
    std::memset(static_cast<void*>(there_), 0, length);
    target_ = name.address;
    segment_ = name.segment;
    key_.assign(key.begin(), key.end());
  }
  writer_ = WindowWriter(layout_, reinterpret_cast<MailboxLine*>(there_ + line_bytes), name.generation);
  return Connected::yes;
}

// What it has written into our line 0. Of another generation: in an earlier use of this memory.
std::uint32_t RmaWindow::seen_there() const {
  const std::uint64_t word = word_at(mine_->data).load(std::memory_order_acquire);
  const auto number = static_cast<std::uint32_t>(word);
  return word >> 32 == mine_->generation ? std::max(seen_, number) : seen_;
}

bool RmaWindow::can_write() const { return there_ != nullptr && seen_there() == writer_.written() && is_at_rest(); }
bool RmaWindow::is_at_rest() const { return copy_ == no_buffer || transport_.buffers().references(copy_) == 1; }

void RmaWindow::write(std::span<const std::byte> head, std::span<const std::byte> row) {
  assert(can_write());
  told_ = reader_.read();
  const std::uint32_t filled = writer_.write(head, row, told_);
  if (copy_ == no_buffer)
    transport_.touch_window(peer_);
  else
    transport_.put_window(peer_, copy_, line_bytes, filled * line_bytes, target_ + line_bytes, segment_, key_);
}

void RmaWindow::consume() {
  seen_ = std::max(seen_, reader_.header().seen);
  reader_.consume();
}

void RmaWindow::publish() {
  if (there_ == nullptr || told_ == reader_.read()) return;
  told_ = reader_.read();
  word_at(there_).store(window_stamp(generation_there_, told_), std::memory_order_release);
  if (copy_ == no_buffer)
    transport_.touch_window(peer_);
  else
    transport_.put_window(peer_, copy_, 0, sizeof(std::uint64_t), target_, segment_, key_);
}

}  // namespace ucft::detail
