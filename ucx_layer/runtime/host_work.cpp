#include "ucx_layer/runtime/host_work.hpp"

#include <algorithm>
#include <bit>

#include "ucx_layer/runtime/engines/host_engine.hpp"
#include "ucx_layer/runtime/job.hpp"

namespace ucft::detail {

namespace {

// Of operations in shared memory: the stamp, the note and these fill two cache lines, of which short data touch one.
constexpr std::uint64_t host_inline_bytes = 112;
// A rank that needs no other, such as the root of a broadcast, gets ahead of them by so many operations. Where ranks
// share cores, there is a change between them for each so many.
constexpr std::int32_t host_banks = 64, host_banks_on_shared_cores = 256;

}  // namespace

bool HostWork::progress() {
  bool active = false;
  for (std::size_t i = 0; i < engines_.size();) {
    active |= engines_[i]->progress();
    if (engines_[i]->wants_progress())
      ++i;
    else
      engines_.erase(engines_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return active;
}

bool HostWork::reads_memory_of_all(const std::vector<std::int32_t>& ranks) const {
  if (job_.settings.algorithm != Algorithm::automatic) return false;
  if (ranks.size() == 1) return true;  // no other rank can die
  return std::ranges::all_of(ranks, [this](std::int32_t rank) { return job_.reads_memory_of(rank); });
}

// The fields that a slab's length depends on; the rest is the communicator's.
HostLayout HostWork::slab_layout() const {
  HostLayout layout;
  layout.banks = std::max(job_.local_ranks > job_.hardware_threads ? host_banks_on_shared_cores : host_banks,
                          static_cast<std::int32_t>(std::bit_ceil(static_cast<unsigned>(4 * job_.settings.window))));
  layout.inline_bytes = host_inline_bytes;
  layout.cells = 1;
  return layout;
}

HostShape HostWork::shape(const std::vector<std::int32_t>& ranks) {
  std::vector<HostSite> sites;
  for (std::int32_t rank : ranks) sites.push_back(job_.peer(rank).site);
  const HostTuning::Choice& choice =
      job_.settings.tuning.choose(HostTuning::where(sites, job_.local_ranks, job_.hardware_threads));
  HostShape shape{slab_layout(), nullptr};
  shape.layout.large_bytes = choice.large_bytes;
  shape.layout.inline_bytes = std::min(shape.layout.inline_bytes, choice.large_bytes);
  shape.layout.chunk_bytes = choice.chunk_bytes;
  if (choice.degree > 0) {  // the same length
    shape.layout.cells = 2;
    shape.layout.banks /= 2;
  }
  const auto size = static_cast<std::int32_t>(ranks.size());
  if (choice.degree > 0 &&
      std::any_of(sites.begin(), sites.end(), [&](const HostSite& each) { return each != sites[0]; })) {
    shape.tree = std::make_shared<const HostTree>(HostTree::of_sites(sites, choice.degree));
    return shape;
  }
  std::shared_ptr<const HostTree>& tree = trees_[{size, choice.degree}];
  if (tree == nullptr) tree = std::make_shared<const HostTree>(HostTree::of_degree(size, choice.degree));
  shape.tree = tree;
  return shape;
}

void HostWork::enlarge_scratch(std::size_t level, std::uint64_t bytes) {
  if (scratch_.size() <= level) scratch_.resize(level + 1);
  if (scratch_[level].size() < bytes) scratch_[level].resize(bytes);
}

}  // namespace ucft::detail
