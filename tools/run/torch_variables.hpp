// The variables that PyTorch's env:// reads, as torchrun sets them: RANK, WORLD_SIZE, MASTER_PORT and so on.
//
// MASTER_PORT is a free port on loopback. A socket without a listener holds it until the job ends, so that no other
// program gets it from the system meanwhile. SO_REUSEADDR lets rank 0's store listen there all the same.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ucft::detail::run {

class TorchVariables {
 public:
  TorchVariables();
  ~TorchVariables();
  TorchVariables(const TorchVariables&) = delete;
  TorchVariables& operator=(const TorchVariables&) = delete;

  // A MASTER_ADDR or MASTER_PORT of the environment is kept: it is not among these.
  std::vector<std::pair<std::string, std::string>> of_rank(int rank, int rank_count) const;

 private:
  int holder_ = -1;  // of the port; -1: none
  std::string address_;
  std::string port_;
};

}  // namespace ucft::detail::run
