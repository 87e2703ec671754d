// The part of one call that is done by the ranks of one process: they combine what they have, or gather it, in the
// memory that they share. The result is their process' contribution among processes (collectives/among/).
//
// A rank alone has nothing to combine. It gives its data as they are, in the caller's own memory where others can have
// them from there.
#pragma once

#include "collectives/among/journal.hpp"
#include "ucx_layer/runtime/engines/host_engine.hpp"
#include "ucx_layer/runtime/engines/places.hpp"
#include "ucx_layer/runtime/engines/room.hpp"
#include "ucx_layer/runtime/request.hpp"

namespace ucft::detail {

class LocalPart final : private BlockTaker {
 public:
  // on_host: the engine of the ranks here; null: no other rank is here. usual_f: of a call that does not say it.
  LocalPart(Request& caller, OperationNumber call, Rank me, const Places& places, const Optimism& optimism,
            HostEngine* on_host, std::int32_t usual_f, Transport& transport);
  ~LocalPart();
  LocalPart(const LocalPart&) = delete;
  LocalPart& operator=(const LocalPart&) = delete;

  // False: not now. Throws std::bad_alloc.
  bool begin();
  // All ranks here have given what they have, or are dead: from then on there is a contribution.
  bool ends();
  const ProcessContribution* contribution() const { return is_done_ && !has_lost_ ? &contribution_ : nullptr; }
  // This rank has no memory for what all here have given, and can't tell them any more.
  bool has_lost() const { return has_lost_; }
  // Of an operation that has not ended here: whom it waits for.
  std::vector<Rank> awaited() const;

  Request* caller() const { return caller_; }
  Request* take_caller() { return std::exchange(caller_, nullptr); }
  // The ranks here have posted different things. culprit: a rank of the communicator, or no_rank.
  bool has_mismatch() const { return outcome_.status == UCFT_ERR_MISMATCH; }
  Rank culprit() const { return outcome_.culprit < 0 ? no_rank : places_.local_rank_at(outcome_.culprit); }

 private:
  struct Outcome {  // of the ranks here, by their local ranks
    ucft_status_t status = UCFT_OK;
    std::uint32_t contributors = 1;
    std::vector<Rank> missing{};
    Rank culprit = no_rank;
  };

  bool begin_sum(HostCall& call);
  bool begin_blocks(HostCall& call);
  bool goes_straight() const { return contribution_.arguments.row().goes_straight; }
  struct StreamsHeader;
  bool begin_shares();
  bool begin_streams(HostCall& call);
  std::uint64_t room_for_streams(std::uint64_t wanted) const;
  bool expects(std::span<const std::byte> block) override;
  void take(std::span<const std::byte> block) override;
  bool is_too_long() const;
  bool begin_block_of_root(HostCall& call);
  void add_shares_of_root();
  bool may_lend() const;
  bool lend_input(std::uint64_t bytes);
  void lend_output();
  bool has_memory_among() const;
  void finish();
  void gather_blocks();

  Request* caller_;
  const CatalogueRow& row_;
  const Rank me_;
  const Places& places_;
  const Optimism& optimism_;
  const std::int32_t usual_f_;
  HostEngine* const on_host_;
  Transport& transport_;
  Buffers& buffers_;
  std::unique_ptr<Request> request_;  // to on_host_
  const void* send_ = nullptr;
  Room give_, value_;
  ResultInPlace in_place_;  // of request_
  // Of an exchange among hosts, in bytes: what all ranks here give, as far as it has been taken, and what they get.
  std::uint64_t given_ = 0, taken_ = 0, wanted_ = 0;
  Outcome outcome_;
  bool is_done_ = false, has_lost_ = false;
  ProcessContribution contribution_;
};

}  // namespace ucft::detail
