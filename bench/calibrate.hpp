// ucft_perftest --calibrate: the LogGP parameters of the real transport between the first and the last rank of the job.
#pragma once

#include <string>

#include "ucft/ucft.hpp"

namespace ucft::detail::bench {

// us; G: us per byte.
struct Calibration {
  double latency = 0, send_overhead = 0, receive_overhead = 0, gap = 0, gap_per_byte = 0;
  double disturbance =
      0;  // how much longer an allreduce took in the middle of the times than in the quiet ones: 0.1 is 10 %
};
inline constexpr double disturbed = 0.5;  // more than that: something else ran, and the values may be far too high

// Collective over a communicator of at least two ranks; the values are those of rank 0. Of five series the one with the
// lowest values is taken, and in each the quietest tenth: other work on the machine only adds to it.
//
//   L + o_send + o_receive   half of an allreduce of 8 bytes between the two, f = 0: a message there and one back
//   o_send                   a broadcast of 8 bytes at its root, which returns when the message is on its way
//   o_receive                the same at the receiver, 100 us after it was sent
//   g                        what a second and a third broadcast right behind the first add at the root
//   G                        half of what an allreduce takes longer with 1 MiB than with 64 KiB, per byte
//
// The overheads contain all that the library does for an operation, not only for its message.
Calibration calibrate(Communicator& world);

// The whole file or none: it is written beside it and renamed. False: error says why.
bool write_model(const std::string& path, const Calibration& found, int ranks, std::string& error);

}  // namespace ucft::detail::bench
