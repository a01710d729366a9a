#include "io/energy.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include "io/machine.h"

namespace forebay::io {

namespace {

std::optional<uint64_t> number_in(const std::string& path) {
  uint64_t number = 0;
  std::ifstream file(path);
  return file >> number ? std::optional(number) : std::nullopt;
}

}  // namespace

// Only "package" zones are counted: they include the zones inside the processor, and "psys" would
// count the processors twice.
EnergyMeter::EnergyMeter(const std::string& folder) : cpu_ns_before_(process_cpu_ns()) {
  std::error_code error;
  for (const auto& zone : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = zone.path().string();
    if (!zone.path().filename().string().starts_with("intel-rapl:")) continue;
    std::string name;
    std::ifstream(path + "/name") >> name;
    if (!name.starts_with("package-")) continue;
    const std::string counter = path + "/energy_uj";
    const auto now = number_in(counter);
    const auto range = number_in(path + "/max_energy_range_uj");
    if (now && range) counters_[counter] = {*now, *range};
  }
}

EnergyMeter::Used EnergyMeter::used() {
  for (auto& [path, counter] : counters_) {
    const auto now = number_in(path);
    if (!now) continue;
    const uint64_t begun_again = *now < counter.last_uj ? counter.range_uj : 0;
    counted_uj_ += static_cast<double>(*now + begun_again - counter.last_uj);
    counter.last_uj = *now;
  }
  const double cpu_s = static_cast<double>(process_cpu_ns() - cpu_ns_before_) / 1e9;
  if (counters_.empty()) return {cpu_s, cpu_s * kModelWatts, true};
  return {cpu_s, counted_uj_ / 1e6, false};
}

}  // namespace forebay::io
