// Random permutations of 0 .. n-1 that are a function of a seed, and the N-cycles made of them.
//
// Casas, Gansterer, Wimmer 2018, section 6: round t of HPS sends along a random permutation that all processes know.
// Ours are N-cycles (section 6.1: no two processes send to each other), named by a seed:
//
//   next(i) = P(P^-1(i) + 1 mod n)       P: a keyed bijection; n = 4, P = 2 0 3 1:   2 -> 0 -> 3 -> 1 -> 2
//
// Up to 256 ranks P is shuffled (Fisher, Yates) and stored: all permutations, and so all cycles, are equally likely.
// Beyond, P is computed. It mixes the bits of a number below the next power of two by odd multiplications and shifts,
// each a bijection there. It does so again and again until the result is below n: fewer than two times on average. Of
// few bits that makes few permutations, and not equally often. Of more than 256 ranks, distances along the cycles are
// as they should be.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/core/random.hpp"

namespace ucft::detail {

class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed) : n_(n), bits_(static_cast<int>(std::bit_width(n - 1))) {
    mask_ = bits_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits_) - 1;
    shift_ = (bits_ + 1) / 2;
    Random random(seed);
    if (n <= most_stored) {
      shuffle(random);
      return;
    }
    for (int i = 0; i < layers; ++i) {
      factor_[i] = (random.next() | 1) & mask_;
      key_[i] = random.next() & mask_;
      undo_[i] = inverse(factor_[i]) & mask_;
    }
  }

  std::uint64_t size() const { return n_; }
  std::uint64_t at(std::uint64_t place) const {
    if (!stored_.empty()) return stored_[place];
    do place = mix(place);
    while (place >= n_);
    return place;
  }
  std::uint64_t place_of(std::uint64_t value) const {
    if (!stored_.empty()) return stored_[n_ + value];
    do value = unmix(value);
    while (value >= n_);
    return value;
  }

  std::uint64_t next(std::uint64_t value) const {
    const std::uint64_t place = place_of(value) + 1;
    return at(place == n_ ? 0 : place);
  }
  std::uint64_t previous(std::uint64_t value) const {
    const std::uint64_t place = place_of(value);
    return at(place == 0 ? n_ - 1 : place - 1);
  }

 private:
  static constexpr int layers = 4;
  static constexpr std::uint64_t most_stored = 256;

  void shuffle(Random& random) {
    stored_.resize(2 * n_);
    std::iota(stored_.begin(), stored_.begin() + static_cast<std::ptrdiff_t>(n_), std::uint8_t{0});
    for (std::uint64_t left = n_; left > 1; --left) std::swap(stored_[left - 1], stored_[random.below(left)]);
    for (std::uint64_t place = 0; place < n_; ++place) stored_[n_ + stored_[place]] = static_cast<std::uint8_t>(place);
  }

  std::uint64_t mix(std::uint64_t x) const {
    for (int i = 0; i < layers; ++i) {
      x = ((x ^ key_[i]) * factor_[i]) & mask_;
      x ^= x >> shift_;
    }
    return x;
  }
  std::uint64_t unmix(std::uint64_t x) const {
    for (int i = layers - 1; i >= 0; --i) {
      x ^= x >> shift_;  // undoes itself: shift_ is at least half of the bits
      x = ((x * undo_[i]) & mask_) ^ key_[i];
    }
    return x;
  }
  // Modulo 2^64, by Newton: each step doubles the bits that are right, from 3 on.
  static std::uint64_t inverse(std::uint64_t odd) {
    std::uint64_t x = odd;
    for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
    return x;
  }

  std::uint64_t n_, mask_ = 0;
  int bits_, shift_ = 0;
  std::uint64_t factor_[layers] = {}, undo_[layers] = {}, key_[layers] = {};
  std::vector<std::uint8_t> stored_;  // P, then P^-1; empty where they are computed
};

}  // namespace ucft::detail
