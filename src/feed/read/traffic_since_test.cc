#include "feed/read/traffic_since.h"

#include <gtest/gtest.h>

#include <atomic>

#include "feed/read/plan.h"
#include "feed/testing/fake_dataset.h"
#include "io/testing/memory.h"
#include "store/view.h"

namespace forebay::feed {
namespace {

// Counts how often it is asked whether it is remote, which it is not.
class AskedOrigin final : public io::Origin {
 public:
  explicit AskedOrigin(const io::Origin& below) : below_(below) {}
  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    return below_.open(path, options);
  }
  bool is_remote(const std::string&) const override {
    ++asked;
    return false;
  }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return below_.list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return below_.stat(path); }
  std::string canonical(const std::string& path) const override { return path; }

  mutable std::atomic<int> asked = 0;

 private:
  const io::Origin& below_;
};

TEST(TrafficSince, AnOriginIsAskedOnceAndNotForEachChunk) {
  io::MemoryFileSystem fs;
  const FakeDataset images(fs, std::vector<uint32_t>(50, 2));
  const AskedOrigin origin(fs);
  const auto one = images.through(origin);
  const auto twice = store::concat({one, one}).value();
  EXPECT_EQ(origins_of(*twice).size(), 1u);
  origin.asked = 0;
  const Planner planner(twice, FeedOptions(), Shuffled{});
  for (const uint64_t epoch : {0u, 1u}) ASSERT_TRUE(planner.plan(planner.epoch_from(epoch), {}));
  EXPECT_EQ(origin.asked, 1);
}

}  // namespace
}  // namespace forebay::feed
