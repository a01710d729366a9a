#include "store/tar.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "base/random.h"
#include "io/memory.h"

namespace forebay::store {
namespace {

using base::ByteVector;
using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Entry {
  std::string name;
  std::string content;
  bool operator==(const Entry&) const = default;
};

ByteVector make_tar(const std::vector<Entry>& entries) {
  ByteVector out;
  for (const Entry& entry : entries) {
    const uint64_t before = out.size();
    append_tar_header(entry.name, entry.content.size(), &out);
    base::ByteWriter(&out).bytes(base::as_bytes(entry.content));
    append_tar_padding(entry.content.size(), &out);
    EXPECT_EQ(out.size() - before, tar_member_bytes(entry.name, entry.content.size()));
  }
  append_tar_end(&out);
  return out;
}

struct Listing {
  std::vector<TarMember> members;
  Status status;
  bool has_end_mark = false;
};

Listing list_tar(const ByteVector& data) {
  io::MemoryFileSystem fs;
  EXPECT_TRUE(fs.make_dirs("/d").ok());
  EXPECT_TRUE(io::write_file_atomically(fs, "/d/a.tar", data).ok());
  const auto file = fs.open("/d/a.tar");
  TarReader reader(**file);
  Listing listing;
  for (;;) {
    auto member = reader.next();
    if (!member) {
      listing.status = member.error();
      // An error stays.
      EXPECT_FALSE(reader.next());
      return listing;
    }
    if (!*member) break;
    listing.members.push_back(**member);
  }
  listing.has_end_mark = reader.has_end_mark();
  return listing;
}

std::vector<Entry> contents(const ByteVector& data, const Listing& listing) {
  std::vector<Entry> entries;
  for (const TarMember& member : listing.members) {
    const auto content = Bytes(data).subspan(member.offset, member.size);
    entries.push_back({member.name, std::string(base::as_text(content))});
  }
  return entries;
}

// What others make of it.
class TarTools : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "forebay-tar-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, Bytes data) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << base::as_text(data);
  }
  ByteVector read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The command's output with its errors; it must succeed.
  std::string run(const std::string& command) const {
    const std::string line =
        "cd " + folder_.string() + " && LC_ALL=C.UTF-8 TZ=UTC sh -c '" + command + "' 2>&1";
    FILE* pipe = popen(line.c_str(), "r");
    std::string output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      output += static_cast<char>(c);
    }
    EXPECT_EQ(pclose(pipe), 0) << output;
    return output;
  }

  std::filesystem::path folder_;
};

std::vector<Entry> difficult_entries() {
  const std::string folder(90, 'f');
  return {{"__forebay__", std::string(1000, 'i')},
          {"a.jpg", ""},
          {"train/dog/0001.jpg", std::string(512, 'x')},
          {"ümlaut/日本.jpg", "utf-8"},
          {std::string(100, 'n'), "as long as the name field"},
          {folder + "/" + folder.substr(0, 60) + "/" + std::string(100, 'n'), "prefix and name"},
          {std::string(101, 'p'), "too long for the name"},
          {folder + "/" + folder + "/" + std::string(90, 'q'), "too long for the prefix"},
          {folder + "/" + std::string(200, 'r') + ".seg.png", std::string(513, 'y')}};
}

TEST_F(TarTools, GnuTarListsAndExtractsWhatWeWrite) {
  const auto entries = difficult_entries();
  write("a.tar", make_tar(entries));
  std::string expected;
  for (const Entry& entry : entries) expected += entry.name + "\n";
  EXPECT_EQ(run("tar tf a.tar --quoting-style=literal"), expected);
  EXPECT_THAT(run("tar tvf a.tar a.jpg"), HasSubstr("-rw-r--r-- 0/0 "));
  EXPECT_THAT(run("tar tvf a.tar a.jpg"), HasSubstr("1970-01-01 00:00 a.jpg"));
  run("mkdir x && tar xf a.tar -C x");
  for (const Entry& entry : entries) {
    EXPECT_EQ(base::as_text(read("x/" + entry.name)), entry.content) << entry.name;
  }
}

TEST_F(TarTools, PythonReadsWhatWeWrite) {
  const auto entries = difficult_entries();
  write("a.tar", make_tar(entries));
  std::string expected;
  for (const Entry& entry : entries) {
    expected += fmt::format("{} {} 420 0 0 0\n", entry.name, entry.content.size());
  }
  EXPECT_EQ(run("python3 -c \"import tarfile\nfor m in tarfile.open(\\\"a.tar\\\"): "
                "print(m.name, m.size, m.mode, m.uid, m.gid, m.mtime)\""),
            expected);
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
    const Listing listing = list_tar(data);
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
  Listing listing = list_tar(read("a.tar.gz"));
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
  // The header of a file of 9 GiB, without its content.
  for (const std::string format : {"gnu", "pax"}) {
    run("tar cf - --format=" + format + " big 2>/dev/null | head -c 2048 > cut.tar");
    const Listing listing = list_tar(read("cut.tar"));
    EXPECT_EQ(listing.status.code(), Code::kCorrupt);
    EXPECT_THAT(listing.status.message(), HasSubstr("has 9663676416 bytes")) << format;
  }
}

TEST(Tar, HeaderFieldsAreCanonical) {
  const ByteVector data = make_tar({{"d/a.jpg", "abc"}});
  EXPECT_EQ(data.size(), 512U + 512U + 1024U);
  EXPECT_EQ(base::as_text(Bytes(data).subspan(100, 48)),
            std::string_view("0000644\0000000000\0000000000\00000000000003\00000000000000\0", 48));
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
    const Listing listing = list_tar(data);
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
    const Listing listing =
        list_tar(ByteVector(data.begin(), data.begin() + static_cast<ptrdiff_t>(length)));
    EXPECT_FALSE(listing.has_end_mark) << length;
    const bool boundary =
        std::find(boundaries.begin(), boundaries.end(), length) != boundaries.end() ||
        length >= end + kTarBlockBytes;
    EXPECT_EQ(listing.status.code(), boundary ? Code::kOk : Code::kCorrupt) << length;
  }
}

TEST(Tar, EveryFlippedHeaderByteIsNoticed) {
  const ByteVector data = make_tar({{"a.jpg", "abc"}, {"b.jpg", "def"}});
  const auto whole = contents(data, list_tar(data));
  for (size_t at = 0; at < data.size(); ++at) {
    ByteVector bad = data;
    bad[at] ^= 0x55;
    const Listing listing = list_tar(bad);
    const bool in_content = at % 1024 >= 512 && at < 2048;
    if (in_content) {
      EXPECT_EQ(listing.members.size(), 2U);
      continue;
    }
    // A checksum's unused last byte may take any value that ends the number.
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
  const Listing listing = list_tar(data);
  EXPECT_EQ(listing.status.code(), Code::kCorrupt);
  EXPECT_THAT(listing.status.message(), HasSubstr("byte 1024"));
}

TEST(Tar, AnArchiveBehindAnArchiveIsNotSilentlyLost) {
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
