// gossip_qr: a distributed QR factorisation (modified Gram-Schmidt) in which every sum over ranks is a gossip
// all-reduce. After Straková, Gansterer, Zemen 2011 (dmGS), as in Niederbrucker, Straková, Gansterer 2012, section IV.
//
//   ucft_run -n 8 gossip_qr [--algorithm push_flow|pcf|hps] [--rows 100] [--repeat 1]
//   ucft_run -n 8 --kill 3@100ms --kill 0@200ms gossip_qr --repeat 200
//
// V has 16 columns, and at least as many rows; each rank has some of them. All ranks get the same R, bit for bit, and
// their rows of Q. If a rank dies its rows are gone, and what was computed with them is of no use: the survivors begin
// again with theirs.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ucft/ucft.hpp"

namespace {

constexpr std::size_t columns = 16;

struct Options {
  ucft_gossip_algorithm_t algorithm = UCFT_GOSSIP_PUSH_FLOW;
  std::size_t rows = 100, repeat = 1;  // rows: of each rank
};

// Column by column, as Gram-Schmidt goes through it.
struct Matrix {
  explicit Matrix(std::size_t row_count) : rows(row_count), entries(row_count * columns) {}
  double* column(std::size_t number) { return entries.data() + number * rows; }
  const double* column(std::size_t number) const { return entries.data() + number * rows; }
  std::size_t rows;
  std::vector<double> entries;
};

double dot(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Uniform in [-1/2, 1/2), a function of its place.
double entry(std::int32_t rank, std::size_t place) {
  std::uint64_t x = (static_cast<std::uint64_t>(rank) << 32 | place) + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53 - 0.5;
}

class Factorisation {
 public:
  Factorisation(ucft::Communicator& all, const Options& options)
      : all_(all), original_(options.rows), q_(options.rows) {
    gossip_.algorithm = options.algorithm;
    gossip_.aggregate = UCFT_GOSSIP_SUM;
    gossip_.eps = 1e-15;
    for (std::size_t i = 0; i < original_.entries.size(); ++i) original_.entries[i] = entry(all.rank(), i);
  }

  // False: somebody died; what there is is of no use.
  bool run() {
    q_ = original_;
    r_.assign(columns * columns, 0);
    reductions_ = 0;
    for (std::size_t k = 0; k < columns; ++k) {
      std::vector<double> square{dot(q_.column(k), q_.column(k), q_.rows)};
      if (!sum(square)) return false;
      const double norm = std::sqrt(square[0]);
      r(k, k) = norm;
      for (std::size_t i = 0; i < q_.rows; ++i) q_.column(k)[i] /= norm;
      std::vector<double> products;
      for (std::size_t j = k + 1; j < columns; ++j) products.push_back(dot(q_.column(k), q_.column(j), q_.rows));
      if (!products.empty() && !sum(products)) return false;
      for (std::size_t j = k + 1; j < columns; ++j) {
        r(k, j) = products[j - k - 1];
        for (std::size_t i = 0; i < q_.rows; ++i) q_.column(j)[i] -= r(k, j) * q_.column(k)[i];
      }
    }
    return true;
  }

  // The largest of the survivors' |V - QR| / |V|, and of |Q'Q - I|: with exact reductions. False: somebody died.
  bool check(double& factorisation, double& orthogonality) {
    std::vector<double> norms{0, 0};
    for (std::size_t i = 0; i < q_.rows; ++i) {
      double error = 0, size = 0;
      for (std::size_t j = 0; j < columns; ++j) {
        double product = 0;
        for (std::size_t k = 0; k <= j; ++k) product += q_.column(k)[i] * r(k, j);
        error += std::abs(original_.column(j)[i] - product);
        size += std::abs(original_.column(j)[i]);
      }
      norms = {std::max(norms[0], error), std::max(norms[1], size)};
    }
    std::vector<double> gram;
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t k = 0; k < columns; ++k) gram.push_back(dot(q_.column(j), q_.column(k), q_.rows));
    if (!took_part(all_.allreduce(norms, UCFT_MAX)) || !took_part(all_.allreduce(gram, UCFT_SUM))) return false;
    factorisation = norms[0] / norms[1];
    orthogonality = 0;
    for (std::size_t i = 0; i < gram.size(); ++i)
      orthogonality = std::max(orthogonality, std::abs(gram[i] - (i % (columns + 1) == 0 ? 1 : 0)));
    return true;
  }

  std::uint32_t ranks() const { return ranks_; }
  int reductions() const { return reductions_; }

 private:
  double& r(std::size_t row, std::size_t column) { return r_[row * columns + column]; }

  // False: of other ranks than the ones before.
  bool took_part(const ucft::Result& result) {
    if (result.status == UCFT_ERR_TOO_MANY_FAILURES) return false;  // more than f since the last allreduce; named now
    if (!result.ok()) throw ucft::Error(result.status, ucft_last_error());
    const bool same = result.contributors == ranks_;
    ranks_ = result.contributors;
    return same;
  }
  bool sum(std::vector<double>& values) {
    ucft::Request request = all_.gossip_allreduce_init(values, values, gossip_);
    request.post();
    ++reductions_;
    return took_part(request.wait());
  }

  ucft::Communicator& all_;
  ucft::GossipOptions gossip_;
  Matrix original_, q_;
  std::vector<double> r_;
  std::uint32_t ranks_ = static_cast<std::uint32_t>(all_.size());
  int reductions_ = 0;
};

int run(const Options& options) {
  ucft::Context context;
  ucft::Communicator all(context);
  Factorisation factorisation(all, options);
  double worst_error = 0, worst_angle = 0;
  int begun_again = 0;
  for (std::size_t i = 0; i < options.repeat;) {
    if (factorisation.ranks() * options.rows < columns) {
      std::fprintf(stderr,
                   "gossip_qr: --rows %zu: V needs at least as many rows as its %zu columns, and %u ranks have %zu\n",
                   options.rows, columns, factorisation.ranks(), factorisation.ranks() * options.rows);
      return 2;
    }
    double error = 0, angle = 0;
    if (!factorisation.run() || !factorisation.check(error, angle)) {
      ++begun_again;
      continue;
    }
    worst_error = std::max(worst_error, error);
    worst_angle = std::max(worst_angle, angle);
    ++i;
  }
  const bool right = worst_error < 1e-13 && worst_angle < 1e-11;  // a random V is well-conditioned
  std::printf(
      "rank %d: %zu factorisations, of the rows of %u ranks in the end, %d begun again; |V - QR| / |V| %.1e, |Q'Q - I| "
      "%.1e at most, %d reductions each\n",
      all.rank(), options.repeat, factorisation.ranks(), begun_again, worst_error, worst_angle,
      factorisation.reductions());
  return right ? 0 : 1;
}

bool parse(int argument_count, char** arguments, Options& options) {
  for (int i = 1; i < argument_count; i += 2) {
    const std::string_view name = arguments[i];
    if (i + 1 == argument_count) return false;
    const std::string_view value = arguments[i + 1];
    if (name == "--algorithm") {
      if (value == "push_flow")
        options.algorithm = UCFT_GOSSIP_PUSH_FLOW;
      else if (value == "pcf")
        options.algorithm = UCFT_GOSSIP_PCF;
      else if (value == "hps")
        options.algorithm = UCFT_GOSSIP_HPS;
      else
        return false;
      continue;
    }
    if (name != "--rows" && name != "--repeat") return false;
    std::size_t& number = name == "--rows" ? options.rows : options.repeat;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (problem != std::errc() || end != value.data() + value.size() || number == 0) return false;
  }
  return true;
}

}  // namespace

int main(int argument_count, char** arguments) {
  Options options;
  if (!parse(argument_count, arguments, options)) {
    std::fprintf(stderr,
                 "usage: gossip_qr [--algorithm push_flow|pcf|hps] [--rows ROWS_OF_EACH_RANK] [--repeat TIMES]\n");
    return 2;
  }
  try {
    return run(options);
  } catch (const ucft::Error& error) {
    std::fprintf(stderr, "gossip_qr: %s\n", error.what());
    return 1;
  }
}
