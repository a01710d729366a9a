// Contents come complete and in order, whatever lies between them, and with few reads.
#include "store/source/source_reader.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "base/random.h"
#include "io/testing/far_origin.h"
#include "io/testing/faulty.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::SizeIs;

// Samples with a text, an image of one of the sizes, and a class.
ByteVector shard_of(uint64_t first, std::span<const size_t> sizes) {
  ByteVector tar;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string key = fmt::format("{:05}", first + i);
    const std::string text = "text of " + key;
    add_member(key + ".txt", base::as_bytes(text), &tar);
    add_member(key + ".jpg", ByteVector(sizes[i], static_cast<uint8_t>(first + i)), &tar);
    add_member(key + ".cls", base::as_bytes(std::string_view("7")), &tar);
  }
  append_tar_end(&tar);
  return tar;
}

TEST(SourceReader, GivesTheContentsOfSamplesInAnyOrder) {
  base::Random random(17, base::Purpose::kPackOrder);
  io::MemoryFileSystem fs;
  for (uint64_t shard = 0; shard < 5; ++shard) {
    std::vector<size_t> sizes(300);
    for (size_t& size : sizes) size = random.below(random.below(20) == 0 ? 400'000 : 9'000);
    put(fs, fmt::format("set/{}.tar", shard), shard_of(shard * 300, sizes));
  }
  const Listing listing = list_source(fs, "set").value();
  ASSERT_THAT(listing.samples, SizeIs(1500));
  for (const bool shuffled : {false, true}) {
    std::vector<const SourceSample*> order;
    for (const SourceSample& sample : listing.samples) order.push_back(&sample);
    if (shuffled) base::shuffle(std::span(order), random);
    size_t next = 0;
    base::Crew crew;
    SourceReader reader(crew, fs, listing,
                        [&] { return next < order.size() ? order[next++] : nullptr; });
    for (const SourceSample* sample : order) {
      const auto contents = reader.take();
      ASSERT_THAT(contents, SizeIs(3));
      const auto number = static_cast<uint8_t>(std::stoul(sample->key));
      EXPECT_EQ(contents[0].value(), ByteVector(sample->files[0].length, number));
      EXPECT_EQ(base::as_text(contents[1].value()), "text of " + sample->key);
      EXPECT_EQ(base::as_text(contents[2].value()), "7");
    }
  }
}

TEST(SourceReader, NeighboursOfAShardComeInOneRead) {
  io::MemoryFileSystem fs;
  put(fs, "a.tar", shard_of(0, std::vector<size_t>(100, 500)));
  const Listing listing = list_source(fs, "a.tar").value();
  using Fault = io::FaultyFileSystem::Fault;
  const io::FaultyFileSystem counting(fs, {.on = Fault::On::kRead});
  size_t next = 0;
  base::Crew crew;
  SourceReader reader(crew, counting, listing, [&] {
    return next < listing.samples.size() ? &listing.samples[next++] : nullptr;
  });
  for (size_t i = 0; i < listing.samples.size(); ++i) EXPECT_TRUE(reader.take()[0]);
  EXPECT_LT(counting.operations(), 10);  // of 300 files
}

TEST(SourceReader, AFileThatIsTooLargeIsNotRead) {
  io::MemoryFileSystem fs;
  make_source(fs, 3);
  Listing listing = list_source(fs, "src").value();
  listing.samples[1].files[0].length = base::kImageBytesMax + 1;
  size_t next = 0;
  base::Crew crew;
  SourceReader reader(crew, fs, listing,
                      [&] { return next < 3 ? &listing.samples[next++] : nullptr; });
  EXPECT_TRUE(reader.take()[0]);
  EXPECT_EQ(reader.take()[0].error().code(), Code::kTooBig);
  EXPECT_TRUE(reader.take()[0]);
}

// A bug once: the error came from the server, and said to open the dataset again.
TEST(SourceReader, AFileOfAServerThatChangedIsSaidToHaveChanged) {
  for (const char* how : {"it is gone", "bytes when listed", "it was written to since"}) {
    io::MemoryFileSystem fs;
    make_source(fs, 1);
    fs.set_modified("src/cat/000.jpg", 5);
    const io::FarOrigin far(fs);
    const Listing listing = list_source(far, "src").value();
    const std::string path = "src/cat/000.jpg";
    if (how == std::string("it is gone")) {
      ASSERT_TRUE(fs.remove(path).ok());
    } else if (how == std::string("bytes when listed")) {
      put(fs, path, base::as_bytes("other"));
    } else {
      fs.set_modified(path, 77);
    }
    bool given = false;
    base::Crew crew;
    SourceReader reader(crew, far, listing,
                        [&] { return std::exchange(given, true) ? nullptr : &listing.samples[0]; });
    const auto contents = reader.take();
    ASSERT_FALSE(contents[0]) << how;
    EXPECT_EQ(contents[0].error().code(), Code::kInvalid) << how;
    EXPECT_THAT(contents[0].error().message(),
                testing::HasSubstr(path + ": the source changed while it was packed: "));
    EXPECT_THAT(contents[0].error().message(), testing::HasSubstr(how));
  }
}

TEST(SourceReader, ADiskThatFailsIsAnErrorOfTheFilesAfterwards) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  const Listing listing = list_source(fs, "src").value();
  using Fault = io::FaultyFileSystem::Fault;
  const io::FaultyFileSystem failing(fs, {.on = Fault::On::kRead, .at = 4, .code = Code::kIo});
  size_t next = 0;
  base::Crew crew;
  SourceReader reader(crew, failing, listing,
                      [&] { return next < 6 ? &listing.samples[next++] : nullptr; });
  EXPECT_TRUE(reader.take()[0]);
  for (int i = 1; i < 5; ++i) reader.take();
  EXPECT_EQ(reader.take()[0].error().code(), Code::kIo);
}

}  // namespace
}  // namespace forebay::store
