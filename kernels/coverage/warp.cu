// Warp shuffles and votes: a sum by butterfly, a scan, ballot, all, any.
// Exact.

#include "coverage.h"

__global__ void Warp(int* sums, int* scan, unsigned* ballots, int* votes) {
  const unsigned everyone = 0xffffffffu;
  const int lane = threadIdx.x;
  int sum = lane + 1;
  for (int mask = 16; mask > 0; mask /= 2) {
    sum += __shfl_xor_sync(everyone, sum, mask);
  }
  sums[lane] = sum;
  int prefix = lane + 1;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(everyone, prefix, step);
    if (lane >= step) prefix += other;
  }
  scan[lane] = prefix;
  ballots[lane] = __ballot_sync(everyone, lane % 3 == 0);
  votes[lane] =
      __all_sync(everyone, lane < 32) * 2 + __any_sync(everyone, lane == 40);
}

int main() {
  std::vector<int> sums(32, 528), scan(32), votes(32, 2);
  unsigned ballot = 0;
  for (int i = 0; i < 32; ++i) {
    scan[i] = (i + 1) * (i + 2) / 2;
    if (i % 3 == 0) ballot |= 1u << i;
  }
  coverage::DeviceArray<int> device_sums(32), device_scan(32), device_votes(32);
  coverage::DeviceArray<unsigned> device_ballots(32);
  Warp<<<1, 32>>>(device_sums.get(), device_scan.get(), device_ballots.get(),
                  device_votes.get());
  coverage::CheckLaunch("Warp");
  coverage::Compare("shuffle xor", device_sums.Read(), sums, 0);
  coverage::Compare("shuffle up", device_scan.Read(), scan, 0);
  coverage::Compare("ballot", device_ballots.Read(),
                    std::vector<unsigned>(32, ballot), 0);
  coverage::Compare("all, any", device_votes.Read(), votes, 0);
  return coverage::Pass("warp: shuffles and votes of 32 lanes exact");
}
