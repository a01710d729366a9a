// libjpeg-turbo's reader with errors as values. A warning that concerns the pixels is an error too,
// as libjpeg then made something up; other warnings are passed over.
#pragma once

#include <csetjmp>
#include <cstdio>
#include <optional>
#include <type_traits>
// clang-format off: jpeglib.h needs cstdio before it
#include <jpeglib.h>
// clang-format on

#include "jpeg/header.h"
#include "jpeg/huffman_table.h"

namespace forebay::jpeg {

// The tables of T.81 K.3, by slot: most encoders write these.
const HuffmanTable& standard_table(size_t slot);

// One thread at a time. Reused between images, which matters for thumbnails.
class TurboReader {
 public:
  TurboReader();
  ~TurboReader();
  TurboReader(const TurboReader&) = delete;
  TurboReader& operator=(const TurboReader&) = delete;

  const jpeg_decompress_struct& info() const { return info_; }

  // Begins `file` and reads its header with libjpeg; `header` is what parse_header gave for it. The
  // file stays in memory until close(). With Damaged::kDecode no warning is an error.
  Status open(Bytes file, const Header& header, Damaged damaged = Damaged::kRefuse);
  // Whether the last error was a warning of libjpeg's.
  bool failed_by_warning() const { return errors_.by_warning; }
  // Whether bytes after blocks were passed over that do not belong to the one scan.
  bool found_foreign_bytes() const { return foreign_.value_or(false); }
  // Runs step(info) and gives what libjpeg reported. libjpeg leaves by longjmp: nothing on the
  // stack of `step` may need a destructor. After an error the image is closed.
  template <class Step>
  Status run(Step step) {
    static_assert(std::is_trivially_destructible_v<Step>);
    return run_erased(
        [](void* context, jpeg_decompress_struct& info) { (*static_cast<Step*>(context))(info); },
        &step);
  }
  void close() { jpeg_abort_decompress(&info_); }

 private:
  struct Errors {
    jpeg_error_mgr manager;
    std::jmp_buf jump;
    base::Code code;
    bool by_warning;
    char message[JMSG_LENGTH_MAX];
  };
  static TurboReader& self(j_common_ptr info) {
    return *static_cast<TurboReader*>(info->client_data);
  }
  [[noreturn]] static void leave(j_common_ptr info, bool by_warning);
  static void on_error(j_common_ptr info);
  static void on_message(j_common_ptr info, int level);
  static void on_progress(j_common_ptr info);
  Status run_erased(void (*step)(void*, jpeg_decompress_struct&), void* context);
  void create();
  void reset_tables(bool standard);
  bool is_harmless(int warning, const int* parameters);
  bool is_foreign(int rest_bytes, int marker);

  jpeg_decompress_struct info_{};
  Errors errors_{};
  jpeg_progress_mgr progress_{};
  Bytes file_;
  Header header_;
  Damaged damaged_ = Damaged::kRefuse;
  std::optional<bool> foreign_;  // has_foreign_rests(), once it was needed
};

}  // namespace forebay::jpeg
