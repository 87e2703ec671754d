// The driver of Departures, which is a value. The driver feeds it with news from the detector and from other ranks, and
// carries out its conclusions.
//
// Threads: the one that is inside the context. A function that the detector's thread may call says so.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "timeout_detector/departures.hpp"
#include "timeout_detector/detector_thread.hpp"
#include "ucft/ucft.h"
#include "ucx_layer/runtime/communicators.hpp"
#include "ucx_layer/runtime/helper_thread.hpp"
#include "ucx_layer/runtime/job.hpp"
#include "ucx_layer/transport/rdma_ports.hpp"
#include "ucx_layer/transport/transport.hpp"

namespace ucft::detail {

class DeparturesDriver : private DetectorThread::Listener {
 public:
  using Clock = std::chrono::steady_clock;

  DeparturesDriver(const Job& job, Communicators& communicators) : job_(job), communicators_(communicators) {}

  void begin();                                                   // once the identities of all ranks are known
  void attach(Transport& transport) { transport_ = &transport; }  // before it receives; it must outlive the detector
  void watch_along(std::vector<LifelineEnds> lifelines) { departures_.watch_along(std::move(lifelines)); }
  const Departures& state() const { return departures_; }
  // lifelines: by rank. helper: woken when a rank has departed and nobody calls. Throws std::system_error.
  void start_detector(HelperThread& helper, std::vector<std::pair<std::int32_t, Lifeline>> lifelines);
  void count_silence() { detector_->count_silence(); }  // all ranks' detectors run now
  void stop_detector();                                 // it says goodbye to its lifelines
  // This rank is about to leave: tells all. Whether all that live, and that it counts on, have answered.
  void say_leaving();
  bool all_know_leaving() const;
  void end_detector() { detector_.reset(); }
  // No rank is killed for its silence, in a context that may be dropped. Before start_detector(), and later.
  void spare_all(bool spares) {
    spares_all_ = spares;
    if (detector_) detector_->spare_all(spares);
  }
  bool was_told_out() const { return told_out_.load(std::memory_order_relaxed); }  // this rank is out. Any thread
  // The detector's present sight of a rank. Any thread, between start_detector() and end_detector().
  std::optional<DetectorThread::Sight> sight_of(std::int32_t rank) const {
    return detector_ == nullptr ? std::nullopt : detector_->sight_of(rank);
  }
  // Whether a rank has failed, or left, as has been told to communicators. Any thread.
  bool was_told_failed(std::int32_t rank) const {
    return of(rank).told.load(std::memory_order_relaxed) == Told::failed;
  }
  bool was_told_left(std::int32_t rank) const { return of(rank).told.load(std::memory_order_relaxed) == Told::left; }
  // Others in shared memory see it; a rank that is out stays out. Nothing without a transport. is_needed: some rank may
  // not have finished all that this rank has posted.
  void mark_left(bool is_needed);
  bool all_know() const { return all_know_; }  // since then: all_know_leaving() was so, and no rank needed this one

  bool is_out() const { return departures_.is_out(); }
  ucft_status_t why_out() const {
    return departures_.exclusion() == Departures::Exclusion::minority ? UCFT_ERR_PARTITION : UCFT_ERR_EXCLUDED;
  }
  std::string exclusion_text() const;
  // Communicators have found out that the others have decided to go on without us; or why this rank can't go on.
  void exclude_self(const std::string& why = {});
  // A rank of this host stores nothing any more, as communicators have been told. Either this rank's own detector has
  // proved it dead, or it has said itself that it is out, or leaves. The word of other ranks is no proof here.
  bool is_final(std::int32_t rank) const { return of(rank).is_final; }

  // A word of another rank: leave, excluded, failed. A connection that UCX calls lost.
  void on_control(const WireHeader& header);
  void on_connection_lost(std::int32_t rank);

  bool has_news() const { return news_count_.load(std::memory_order_acquire) != news_handled_; }
  void on_turn(Clock::time_point now);      // tells departures_ the news and the time, and does what follows
  void take_news();                         // tells it the news
  void look_around(Clock::time_point now);  // at what does not come as a message: deaths, leavers, our own exclusion
  bool look_at_marks();  // the words of ranks of this host that they leave, or are out; true: there is a new one
  // A rank that has become one of the first two of its host connects with the ranks that it will speak to. So does a
  // rank that has new ones beside it. Connections are made one at a time. The first one waits until the operations that
  // met the death have had time to end.
  void connect_in_calm(Clock::time_point now);

  void set_callback(ucft_failure_callback_t callback, void* arg) {
    callback_ = callback;
    callback_arg_ = arg;
  }
  bool has_reports() const { return to_report_; }
  void report();  // failures to the caller's callback

 private:
  using News = std::function<void(DeparturesDriver&)>;  // of the detector: what is to be done on the caller's thread

  // On the detector's thread; on_verdict of a proof also on the caller's, in look_now().
  void on_verdict(const Verdict& verdict) override;
  void on_tick() override;
  void on_excluded(std::int32_t by) override;
  void on_left(std::int32_t rank, bool all_know) override;
  void on_line_lost(std::int32_t rank) override;
  void on_fenced(std::int32_t rank, std::chrono::nanoseconds silent_for, int tracer) override;
  bool is_to_tell_of(std::int32_t rank, bool is_traced) const;
  void tell(const std::vector<News>& news);
  void take_in(const Verdict& verdict, Clock::time_point at);
  void look_at_ports();

  enum class Told : std::uint8_t { nothing, left, failed };
  struct Known {  // of a rank
    std::atomic<Told> told{Told::nothing};
    bool is_final = false;
    bool knows_leaving = false;        // that this rank is about to leave
    Clock::time_point failed_since{};  // by its first verdict, or when it departed
  };
  Known& of(std::int32_t rank) { return known_[static_cast<std::size_t>(rank)]; }
  const Known& of(std::int32_t rank) const { return known_[static_cast<std::size_t>(rank)]; }
  void note() { news_count_.fetch_add(1, std::memory_order_release); }
  void follow_up();
  void carry_out(const Departures::Action& action);
  void depart(const Departures::Action& action);
  bool note_death(std::int32_t rank);  // false: it is known
  void note_failure(std::int32_t rank, Clock::time_point at);
  void stand_aside();
  void fence(std::int32_t rank);

  const Job& job_;
  Communicators& communicators_;
  Departures departures_;
  std::vector<Known> known_;  // by rank
  std::string why_aside_;     // of this rank's own accord
  Transport* transport_ = nullptr;
  HelperThread* helper_ = nullptr;
  ucft_failure_callback_t callback_ = nullptr;
  void* callback_arg_ = nullptr;
  bool to_report_ = false, following_ = false;
  bool is_leaving_ = false, all_know_ = false;
  std::atomic<bool> spares_all_{false}, told_out_{false};
  bool has_messages_ = false;                                   // ranks may send each other messages
  std::uint32_t ticks_ = 0;                                     // the detector's thread alone
  Clock::time_point connect_after_ = Clock::time_point::max();  // max(): nothing to do

  std::unique_ptr<RdmaWatch> ports_;  // the detector's thread looks; guarded by ports_mutex_
  mutable std::mutex ports_mutex_;
  std::atomic<std::uint32_t> news_count_{0};  // all that departures_ has to be told, or has to conclude
  std::uint32_t news_handled_ = 0;
  std::mutex news_mutex_;
  std::vector<News> news_;              // from the detector; guarded
  std::vector<News> silent_;            // found together, until the last of them: the detector's thread alone
  std::atomic<bool> answering_{false};  // a rank has departed: the helper takes turns
  std::unique_ptr<DetectorThread> detector_;
};

}  // namespace ucft::detail
