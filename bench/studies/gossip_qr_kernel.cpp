// Distributed modified Gram-Schmidt (dmGS) over simulated reductions: Niederbrucker, Straková, Gansterer 2012, section
// IV.
//
//   gossip_qr_kernel ALGORITHM LOG2_RANKS RUNS
//
// A rank of a hypercube has one row of V and of Q, or several, and works with what the gossip told it. Each norm and
// each row of dot products is its own. The factorisation error is computed with one R, of which row k is rank k's. The
// figure "own" uses each rank's own R. Its errors cancel by construction: QR puts back what is taken off V. Each
// reduction ends when the worst rank's error is 1e-15, or after so many iterations. "exact" in place of an algorithm:
// correctly rounded sums. A line of JSON for each run.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "simulator/gossip_run.hpp"

using namespace ucft::detail;
using namespace ucft::detail::simulator;

namespace {

struct Matrix {
  Matrix(int height, int width)
      : rows(height), columns(width), numbers(static_cast<std::size_t>(height) * static_cast<std::size_t>(width)) {}
  double& at(int row, int column) {
    return numbers[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                   static_cast<std::size_t>(column)];
  }
  double at(int row, int column) const {
    return numbers[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                   static_cast<std::size_t>(column)];
  }
  int rows, columns;
  std::vector<double> numbers;
};

double infinity_norm(const Matrix& matrix) {
  double most = 0;
  for (int row = 0; row < matrix.rows; ++row) {
    double sum = 0;
    for (int column = 0; column < matrix.columns; ++column) sum += std::abs(matrix.at(row, column));
    most = std::isnan(sum) ? sum : std::max(most, sum);
  }
  return most;
}

struct Reductions {
  bool exact = false;
  GossipAlgorithm algorithm = GossipAlgorithm::pcf;
  int rounds = 0;
  double delay = 0.3;
  std::uint64_t seed = 1;
  int made = 0, reached = 0;
  std::int64_t iterations = 0;

  // The sums of the columns, as each rank (row) knows them.
  Matrix sums(const Matrix& addends) {
    Matrix result(addends.rows, addends.columns);
    if (exact) {
      for (int column = 0; column < addends.columns; ++column) {
        long double sum = 0;
        for (int row = 0; row < addends.rows; ++row) sum += static_cast<long double>(addends.at(row, column));
        for (int row = 0; row < addends.rows; ++row) result.at(row, column) = static_cast<double>(sum);
      }
      return result;
    }
    GossipRun run;
    run.plan.algorithm = algorithm;
    run.plan.neighbourhood = {GossipTopology::hypercube, addends.rows};
    run.plan.seed = run.seed = mixed(seed, static_cast<std::uint64_t>(made++));
    run.values = addends.columns;
    run.data_function = [&](Rank rank, int index) { return addends.at(rank, index); };
    run.eps = 1e-15;
    run.rounds = rounds;
    run.delay = delay;
    run.keeps_estimates = true;
    const GossipResult end = simulate(run);
    reached += end.reached ? 1 : 0;
    iterations += end.rounds;
    std::transform(end.estimates.begin(), end.estimates.end(), result.numbers.begin(),
                   [&](double mean) { return mean * addends.rows; });
    return result;
  }
};

struct Shape {
  int ranks = 0, rows_per_rank = 1, columns = 16;
  int rows() const { return ranks * rows_per_rank; }
  int rank_of(int row) const { return row / rows_per_rank; }
};

void factorise(std::uint64_t seed, const Shape& shape, Reductions& reductions) {
  const int rows = shape.rows(), columns = shape.columns;
  Matrix original(rows, columns), remainder(rows, columns), q(rows, columns), product(rows, columns),
      own(rows, columns);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      original.at(row, column) =
          uniform_value(mixed(seed, static_cast<std::uint64_t>(column)), static_cast<std::uint64_t>(row));
  remainder = original;
  for (int k = 0; k < columns; ++k) {
    const int knows_row = k % shape.ranks;  // whose R row k is
    Matrix squares(shape.ranks, 1);
    for (int row = 0; row < rows; ++row)
      squares.at(shape.rank_of(row), 0) += remainder.at(row, k) * remainder.at(row, k);
    const Matrix norms = reductions.sums(squares);
    for (int row = 0; row < rows; ++row) {
      const double norm = std::sqrt(norms.at(shape.rank_of(row), 0));
      q.at(row, k) = remainder.at(row, k) / norm;
      product.at(row, k) += q.at(row, k) * std::sqrt(norms.at(knows_row, 0));
      own.at(row, k) += q.at(row, k) * norm;
    }
    if (k + 1 == columns) break;
    Matrix addends(shape.ranks, columns - k - 1);
    for (int row = 0; row < rows; ++row)
      for (int j = k + 1; j < columns; ++j)
        addends.at(shape.rank_of(row), j - k - 1) += q.at(row, k) * remainder.at(row, j);
    const Matrix dots = reductions.sums(addends);
    for (int row = 0; row < rows; ++row)
      for (int j = k + 1; j < columns; ++j) {
        const double r = dots.at(shape.rank_of(row), j - k - 1);
        remainder.at(row, j) -= q.at(row, k) * r;
        product.at(row, j) += q.at(row, k) * dots.at(knows_row, j - k - 1);
        own.at(row, j) += q.at(row, k) * r;
      }
  }
  Matrix difference(rows, columns), own_difference(rows, columns), gram(columns, columns);
  for (std::size_t i = 0; i < difference.numbers.size(); ++i) {
    difference.numbers[i] = original.numbers[i] - product.numbers[i];
    own_difference.numbers[i] = original.numbers[i] - own.numbers[i];
  }
  for (int a = 0; a < columns; ++a)
    for (int b = 0; b < columns; ++b) {
      long double sum = a == b ? -1 : 0;
      for (int row = 0; row < rows; ++row)
        sum += static_cast<long double>(q.at(row, a)) * static_cast<long double>(q.at(row, b));
      gram.at(a, b) = static_cast<double>(sum);
    }
  fmt::print(
      "{{\"factorisation\": {:.6e}, \"own\": {:.6e}, \"orthogonality\": {:.6e}, \"reductions\": {}, \"reached\": {}, "
      "\"iterations\": {}}}\n",
      infinity_norm(difference) / infinity_norm(original), infinity_norm(own_difference) / infinity_norm(original),
      infinity_norm(gram), reductions.made, reductions.reached, reductions.iterations);
}

}  // namespace

int main(int count, char** words) {
  Reductions reductions;
  Shape shape;
  std::string algorithm;
  int log2_ranks = 0, runs = 1, rounds = 0;
  CLI::App app{"QR factorisation by distributed modified Gram-Schmidt over simulated reductions on a hypercube."};
  app.add_option("ALGORITHM", algorithm, "of the sums: exact, push_sum, push_flow, pcf, ..")->required();
  app.add_option("LOG2_RANKS", log2_ranks)->required()->check(CLI::Range(1, 20));
  app.add_option("RUNS", runs)->required()->check(CLI::PositiveNumber);
  app.add_option("--columns", shape.columns)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rows-per-rank", shape.rows_per_rank)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rounds", rounds, "of a reduction at most, iterations (default: 60 log2 N)")
      ->check(CLI::PositiveNumber);
  app.add_option("--delay", reductions.delay, "of a message, in iterations")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  CLI11_PARSE(app, count, words);
  shape.ranks = 1 << log2_ranks;
  reductions.exact = algorithm == "exact";
  if (!reductions.exact && !parse_gossip_algorithm(algorithm, reductions.algorithm)) {
    fmt::print(stderr, "gossip_qr_kernel: no algorithm '{}'\n", algorithm);
    return 2;
  }
  if (shape.columns > shape.rows()) {
    fmt::print(stderr, "gossip_qr_kernel: {} columns of {} rows: V needs at least as many rows as columns\n",
               shape.columns, shape.rows());
    return 2;
  }
  for (int run = 0; run < runs; ++run) {
    reductions.made = reductions.reached = 0;
    reductions.iterations = 0;
    reductions.rounds = rounds > 0 ? rounds : 60 * log2_ranks;
    reductions.seed = mixed(0x6d4753, static_cast<std::uint64_t>(run));
    factorise(mixed(reductions.seed, 0x56), shape, reductions);
  }
}
