// Measures the energy that the machine's processors use.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace forebay::io {

// Counts the energy used since the meter was made. One thread at a time may use it.
class EnergyMeter {
 public:
  // The power of a busy core in the model that is used if Linux gives this process no counters.
  static constexpr double kModelWatts = 10;

  struct Used {
    double cpu_s = 0;   // CPU time of this process
    double joules = 0;  // of all processors of the machine, or by the model
    bool is_model = false;
  };

  // `folder` has the counters of Linux's powercap framework (RAPL), one folder for each processor.
  explicit EnergyMeter(const std::string& folder = "/sys/class/powercap");
  // Counters wrap around to 0 after some minutes. Calls that are closer together notice this.
  Used used();

 private:
  struct Counter {
    uint64_t last_uj = 0;
    uint64_t range_uj = 0;  // the value at which it wraps around
  };

  std::map<std::string, Counter> counters_;  // by the path of the file; only readable ones
  double counted_uj_ = 0;
  const int64_t cpu_ns_before_;
};

}  // namespace forebay::io
