#include "store/format/tar.h"

#include <gmock/gmock.h>

#include "store/testing/tar_samples.h"

namespace forebay::store {
namespace {

using base::Bytes;
using base::ByteVector;
using ::testing::HasSubstr;

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

TEST(Tar, HeaderFieldsAreCanonical) {
  const ByteVector data = make_tar({{"d/a.jpg", "abc"}});
  EXPECT_EQ(data.size(), 512U + 512U + 1024U);
  EXPECT_EQ(base::as_text(Bytes(data).subspan(100, 48)),
            std::string_view("0000644\0000000000\0000000000\00000000000003\00000000000000\0", 48));
}

}  // namespace
}  // namespace forebay::store
