#include "io/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/machine.h"

namespace forebay::io {
namespace {

// Files as Linux has them below /sys/class/powercap.
class EnergyTest : public ::testing::Test {
 protected:
  ~EnergyTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& zone, const std::string& name, uint64_t uj,
             uint64_t range_uj = 1'000'000'000) const {
    const std::string path = folder_ + "/" + zone;
    std::filesystem::create_directories(path);
    std::ofstream(path + "/name") << name << '\n';
    std::ofstream(path + "/energy_uj") << uj << '\n';
    std::ofstream(path + "/max_energy_range_uj") << range_uj << '\n';
  }

  const std::string folder_ = ::testing::TempDir() + "energy_test_" + std::to_string(::getpid());
};

TEST_F(EnergyTest, ProcessorsAreAddedUp) {
  write("intel-rapl:0", "package-0", 5'000'000);
  write("intel-rapl:1", "package-1", 900'000'000, 1'000'000'000);
  write("intel-rapl:0:0", "core", 0);
  write("intel-rapl:2", "psys", 0);
  write("intel-rapl-mmio:0", "package-0", 5'000'000);  // the same counter by another way
  EnergyMeter meter(folder_);
  EXPECT_FALSE(meter.used().is_model);
  EXPECT_EQ(meter.used().joules, 0);
  write("intel-rapl:0", "package-0", 7'500'000);
  write("intel-rapl:1", "package-1", 10'000'000);  // it began again
  write("intel-rapl:0:0", "core", 2'000'000);
  write("intel-rapl:2", "psys", 9'000'000);
  write("intel-rapl-mmio:0", "package-0", 7'500'000);
  EXPECT_DOUBLE_EQ(meter.used().joules, 112.5);
  EXPECT_DOUBLE_EQ(meter.used().joules, 112.5);
}

TEST_F(EnergyTest, WithoutCountersThereIsAModel) {
  write("intel-rapl:0", "package-0", 5);
  std::filesystem::remove(folder_ + "/intel-rapl:0/energy_uj");
  EnergyMeter meter(folder_);
  const int64_t begin = process_cpu_ns();
  while (process_cpu_ns() - begin < 20'000'000) {
  }
  const EnergyMeter::Used used = meter.used();
  EXPECT_TRUE(used.is_model);
  EXPECT_GT(used.cpu_s, 0.01);
  EXPECT_DOUBLE_EQ(used.joules, used.cpu_s * EnergyMeter::kModelWatts);
}

}  // namespace
}  // namespace forebay::io
