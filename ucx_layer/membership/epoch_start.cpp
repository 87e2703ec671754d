#include "ucx_layer/membership/epoch_start.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/core/sometimes.hpp"
#include "timeout_detector/own_descriptors.hpp"
#include "timeout_detector/signals_blocked.hpp"
#include "ucx_layer/bootstrap/out_of_band.hpp"

namespace ucft::detail {

namespace {

// Those that are invited live, and do nothing else on that thread: what lasts longer has lost somebody.
constexpr std::uint64_t start_limit_us = 5'000'000;

}  // namespace

EpochStart::EpochStart(Invitation invitation, const ucft_context_params_t& params, const ListenerName& own,
                       std::function<void()> at_end)
    : invitation_(std::move(invitation)), params_(params), own_(own), at_end_(std::move(at_end)) {
  params_.startup_timeout_us =
      params_.startup_timeout_us == 0 ? start_limit_us : std::min(params_.startup_timeout_us, start_limit_us);
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

EpochStart::~EpochStart() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (rendezvous_ >= 0) shutdown(rendezvous_, SHUT_RDWR);
  }
  thread_.join();
  if (rendezvous_ >= 0) close_own(rendezvous_);
}

void EpochStart::run() {
  pthread_setname_np(pthread_self(), "ucft-epoch");
  auto context = std::make_unique<Context>();
  try {
    if (start(*context)) context_ = std::move(context);
  } catch (const std::exception& failure) {  // descriptors, threads or memory have run out
    error_ = failure.what();
  }
  context.reset();
  over_.store(true, std::memory_order_release);
  at_end_();
}

bool EpochStart::start(Context& context) {
  invite_others();
  const InviteHead& head = invitation_.head;
  ListenerName name = head.sponsor;
  name.port = head.port;
  std::string address;
  const int tried = connect_to_listener(name, connect_limit_ms, &address);
  if (tried < 0) {
    error_ = "the sponsor of the newcomers can't be reached";
    return false;
  }
  ::close(tried);
  const std::chrono::microseconds limit(start_limit_us);
  std::unique_ptr<bootstrap::Rendezvous> rendezvous =
      bootstrap::Rendezvous::connect({head.seat, head.size, address, head.rendezvous_secret}, limit, error_);
  if (rendezvous == nullptr) return false;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return false;
    rendezvous_ = fcntl(rendezvous->descriptor(), F_DUPFD_CLOEXEC, 0);
    if (rendezvous_ >= 0) note_own(rendezvous_);
  }
  OutOfBand oob;
  UCFT_SOMETIMES("the start of an epoch begins");
  oob.use(std::move(rendezvous), invitation_.absent(), limit);
  context.set_listener(own_);
  context.spare_all(true);  // until all have agreed on it
  context.enter();
  const bool started = context.start(&params_, std::move(oob), error_) == UCFT_OK;
  context.leave();
  if (started) UCFT_SOMETIMES("an epoch has started");
  const std::lock_guard lock(mutex_);
  // The rendezvous takes the end of the last descriptor for that of the rank.
  if (const int mine = std::exchange(rendezvous_, -1); mine >= 0) close_own(mine);
  return started;
}

void EpochStart::invite_others() const {
  for (const Invitation::Guest& guest : invitation_.guests) {
    const int descriptor = connect_to_listener(guest.name, connect_limit_ms);
    if (descriptor < 0) continue;  // then it doesn't arrive, and the rendezvous names it
    send_whole(descriptor, invitation_.frame_for(guest.seat), word_limit_ms);
    ::close(descriptor);
  }
}

}  // namespace ucft::detail
