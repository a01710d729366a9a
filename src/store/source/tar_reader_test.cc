#include "store/source/tar_reader.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "base/random.h"
#include "io/testing/memory.h"
#include "store/testing/tar_samples.h"

namespace forebay::store {
namespace {

using base::Bytes;
using base::ByteVector;
using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ReadTar {
  std::vector<TarMember> members;
  Status status;
  bool has_end_mark = false;
};

ReadTar list_with(const ByteVector& data, uint64_t read_bytes) {
  io::MemoryFileSystem fs;
  EXPECT_TRUE(fs.make_dirs("/d").ok());
  EXPECT_TRUE(fs.put("/d/a.tar", data).ok());
  const auto file = fs.open("/d/a.tar");
  TarReader reader(**file, read_bytes);
  ReadTar read;
  for (;;) {
    auto member = reader.next();
    if (!member) {
      read.status = member.error();
      // After an error, every call returns the same error.
      EXPECT_FALSE(reader.next());
      return read;
    }
    if (!*member) break;
    read.members.push_back(**member);
  }
  read.has_end_mark = reader.has_end_mark();
  return read;
}

// How much is read at once makes no difference.
ReadTar list_tar(const ByteVector& data) {
  ReadTar read = list_with(data, kTarBlockBytes);
  for (const uint64_t read_bytes : {uint64_t{700}, uint64_t{1} << 20}) {
    const ReadTar other = list_with(data, read_bytes);
    EXPECT_EQ(other.status.message(), read.status.message());
    EXPECT_EQ(other.has_end_mark, read.has_end_mark);
    EXPECT_EQ(other.members.size(), read.members.size());
    for (size_t i = 0; i < std::min(read.members.size(), other.members.size()); ++i) {
      EXPECT_EQ(other.members[i].name, read.members[i].name);
      EXPECT_EQ(other.members[i].offset, read.members[i].offset);
    }
  }
  return read;
}

std::vector<Entry> contents(const ByteVector& data, const ReadTar& read) {
  std::vector<Entry> entries;
  for (const TarMember& member : read.members) {
    const auto content = Bytes(data).subspan(member.offset, member.size);
    entries.push_back({member.name, std::string(base::as_text(content))});
  }
  return entries;
}

TEST_F(TarTools, WeReadWhatGnuTarWrites) {
  const std::string deep = std::string(120, 'd') + "/" + std::string(140, 'e') + ".jpg";
  write("in/a.jpg", base::as_bytes("first"));
  write("in/sub/b.cls", base::as_bytes("7"));
  write("in/long/" + deep, base::as_bytes("deep"));
  run("ln -s a.jpg in/link && ln in/a.jpg in/twin && mkfifo in/fifo");
  for (const std::string format : {"gnu", "pax", "posix", "oldgnu"}) {
    run("tar cf a.tar --format=" + format + " -C in a.jpg sub long link twin fifo");
    const ByteVector data = read("a.tar");
    const ReadTar listing = list_tar(data);
    ASSERT_TRUE(listing.status.ok()) << listing.status.message();
    EXPECT_TRUE(listing.has_end_mark);
    EXPECT_THAT(contents(data, listing),
                ElementsAre(Entry{"a.jpg", "first"}, Entry{"sub/", ""}, Entry{"sub/b.cls", "7"},
                            Entry{"long/", ""}, Entry{"long/" + std::string(120, 'd') + "/", ""},
                            Entry{"long/" + deep, "deep"}, Entry{"link", ""}, Entry{"twin", ""},
                            Entry{"fifo", ""}))
        << format;
    std::vector<TarType> types;
    for (const TarMember& member : listing.members) types.push_back(member.type);
    EXPECT_THAT(types, ElementsAre(TarType::kFile, TarType::kDirectory, TarType::kFile,
                                   TarType::kDirectory, TarType::kDirectory, TarType::kFile,
                                   TarType::kSymbolicLink, TarType::kHardLink, TarType::kFifo));
  }
  for (const std::string format : {"ustar", "v7"}) {
    run("tar cf a.tar --format=" + format + " -C in a.jpg sub");
    const ByteVector data = read("a.tar");
    EXPECT_THAT(contents(data, list_tar(data)),
                ElementsAre(Entry{"a.jpg", "first"}, Entry{"sub/", ""}, Entry{"sub/b.cls", "7"}));
  }
}

TEST_F(TarTools, CompressedAndSparseArchivesAreRefusedWithAdvice) {
  write("a.jpg", base::as_bytes("first"));
  run("tar czf a.tar.gz a.jpg && truncate -s 1M hole && tar cSf gnu.tar --format=gnu hole && "
      "tar cSf pax.tar --format=pax hole");
  ReadTar listing = list_tar(read("a.tar.gz"));
  EXPECT_EQ(listing.status.code(), Code::kUnsupported);
  EXPECT_THAT(listing.status.message(), HasSubstr("gzip -d"));
  for (const std::string name : {"gnu.tar", "pax.tar"}) {
    listing = list_tar(read(name));
    EXPECT_EQ(listing.status.code(), Code::kUnsupported) << name;
    EXPECT_THAT(listing.status.message(), HasSubstr("--sparse"));
  }
}

TEST_F(TarTools, SizesInBinaryAndInPaxAreRead) {
  run("truncate -s 9G big && tar cf gnu.tar --format=gnu --sparse big || true");
  // These archives have the header of a file of 9 GiB without its content.
  for (const std::string format : {"gnu", "pax"}) {
    run("tar cf - --format=" + format + " big 2>/dev/null | head -c 2048 > cut.tar");
    const ReadTar listing = list_tar(read("cut.tar"));
    EXPECT_EQ(listing.status.code(), Code::kCorrupt);
    EXPECT_THAT(listing.status.message(), HasSubstr("has 9663676416 bytes")) << format;
  }
}

TEST(Tar, RoundTripProperty) {
  const uint64_t seed = 7;
  SCOPED_TRACE(seed);
  base::Random random(seed, base::Purpose::kTest);
  for (int round = 0; round < 300; ++round) {
    std::vector<Entry> entries(random.below(6));
    for (Entry& entry : entries) {
      const uint64_t length = 1 + random.below(random.below(2) == 0 ? 400 : 120);
      for (uint64_t i = 0; i < length; ++i) {
        entry.name += i > 0 && i + 1 < length && random.below(20) == 0 ? '/' : 'a';
      }
      entry.content.assign(random.below(1500), 'c');
    }
    const ByteVector data = make_tar(entries);
    const ReadTar listing = list_tar(data);
    ASSERT_TRUE(listing.status.ok()) << listing.status.message();
    EXPECT_TRUE(listing.has_end_mark);
    EXPECT_EQ(contents(data, listing), entries);
  }
}

TEST(Tar, EveryTruncationIsNoticed) {
  const std::vector<Entry> entries = {
      {"a.jpg", "abc"}, {std::string(150, 'n'), "def"}, {"b.jpg", ""}};
  const ByteVector data = make_tar(entries);
  const uint64_t end = data.size() - kTarEndBytes;
  std::vector<uint64_t> boundaries;
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    boundaries.push_back(at += tar_member_bytes(entry.name, entry.content.size()));
  }
  for (uint64_t length = 0; length < data.size(); ++length) {
    const ReadTar listing =
        list_tar(ByteVector(data.begin(), data.begin() + static_cast<ptrdiff_t>(length)));
    EXPECT_FALSE(listing.has_end_mark) << length;
    const bool boundary =
        std::find(boundaries.begin(), boundaries.end(), length) != boundaries.end() ||
        length >= end + kTarBlockBytes;
    EXPECT_EQ(listing.status.code(), boundary ? Code::kOk : Code::kCorrupt) << length;
  }
}

// A bug once: only the first 16 KiB after the end were looked at.
TEST(Tar, ASecondArchiveIsNoticedHoweverFarItIs) {
  const ByteVector first = make_tar({{"a.jpg", "abc"}});
  const ByteVector second = make_tar({{"b.jpg", "def"}});
  for (const size_t zeros : {0u, 512u, 20'000u, 3u << 20}) {
    ByteVector both = first;
    both.insert(both.end(), zeros, 0);
    EXPECT_TRUE(list_tar(both).status.ok());
    both.insert(both.end(), second.begin(), second.end());
    const ReadTar listing = list_tar(both);
    EXPECT_EQ(listing.status.code(), Code::kCorrupt) << zeros;
    EXPECT_NE(listing.status.message().find("two archives were concatenated"), std::string::npos);
  }
}

TEST(Tar, EveryFlippedHeaderByteIsNoticed) {
  const ByteVector data = make_tar({{"a.jpg", "abc"}, {"b.jpg", "def"}});
  const auto whole = contents(data, list_tar(data));
  for (size_t at = 0; at < data.size(); ++at) {
    ByteVector bad = data;
    bad[at] ^= 0x55;
    const ReadTar listing = list_tar(bad);
    const bool in_content = at % 1024 >= 512 && at < 2048;
    if (in_content) {
      EXPECT_EQ(listing.members.size(), 2U);
      continue;
    }
    // The unused last byte of a checksum may have any value that ends the number.
    if (listing.status.ok()) {
      EXPECT_EQ(contents(bad, listing), whole) << at;
    } else {
      EXPECT_EQ(listing.status.code(), Code::kCorrupt) << at;
    }
  }
}

TEST(Tar, ALostHeaderIsNotTheEnd) {
  ByteVector data = make_tar({{"a.jpg", "abc"}, {"b.jpg", "def"}});
  std::fill_n(data.begin() + 1024, 512, uint8_t{0});
  const ReadTar listing = list_tar(data);
  EXPECT_EQ(listing.status.code(), Code::kCorrupt);
  EXPECT_THAT(listing.status.message(), HasSubstr("byte 1024"));
}

TEST(Tar, AnArchiveAfterAnArchiveIsNotSilentlyLost) {
  ByteVector data = make_tar({{"a.jpg", "abc"}});
  data.resize(10240);
  const ByteVector second = make_tar({{"b.jpg", "abc"}});
  data.insert(data.end(), second.begin(), second.end());
  EXPECT_EQ(list_tar(data).status.code(), Code::kCorrupt);
}

TEST(Tar, LimitsOfExtendedHeaders) {
  const auto refused = [](std::string_view record, char type) {
    ByteVector data;
    append_tar_header("x", record.size(), &data);
    data[156] = static_cast<uint8_t>(type);
    uint32_t sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? 0 : data[i];
    const std::string digits = fmt::format("{:06o}", sum);
    std::copy(digits.begin(), digits.end(), data.begin() + 148);
    base::ByteWriter(&data).bytes(base::as_bytes(record));
    append_tar_padding(record.size(), &data);
    append_tar_header("a", 0, &data);
    append_tar_end(&data);
    return list_tar(data).status.code();
  };
  EXPECT_EQ(refused("9 path=a\n", 'x'), Code::kOk);
  EXPECT_EQ(refused("8 path=a\n", 'x'), Code::kCorrupt);
  EXPECT_EQ(refused("99 path=a\n", 'x'), Code::kCorrupt);
  EXPECT_EQ(refused("8 path=\n", 'x'), Code::kCorrupt);
  EXPECT_EQ(refused("10 size=-1\n", 'x'), Code::kCorrupt);
  EXPECT_EQ(refused("junk", 'x'), Code::kCorrupt);
  EXPECT_EQ(refused(std::string(base::kTarNameBytesMax, 'n'), 'L'), Code::kOk);
  EXPECT_EQ(refused(std::string(base::kTarNameBytesMax + 1, 'n'), 'L'), Code::kTooBig);
  EXPECT_EQ(refused(std::string(base::kTarExtendedBytesMax + 1, 'n'), 'L'), Code::kTooBig);
  EXPECT_EQ(refused("", 'L'), Code::kCorrupt);
}

}  // namespace
}  // namespace forebay::store
