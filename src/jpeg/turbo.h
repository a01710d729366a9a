// libjpeg-turbo's reader, with errors as values. A warning that concerns pixels is an error too,
// because libjpeg then invents data; other warnings are ignored. turbo_decode.h decodes with it,
// and rewrite/coefficient_reader.h reads coefficients with it.
#pragma once

#include <csetjmp>
#include <cstdio>
#include <optional>
#include <type_traits>
// clang-format off: jpeglib.h needs cstdio before it
#include <jpeglib.h>
// clang-format on

#include "jpeg/format/header.h"
#include "jpeg/format/huffman_table.h"

namespace forebay::jpeg {

// Returns the table of T.81 K.3 for a slot. Most encoders write these tables.
const HuffmanTable& standard_table(size_t slot);

// Used by one thread at a time. It is reused between images, which matters for thumbnails.
class TurboReader {
 public:
  TurboReader();
  ~TurboReader();
  TurboReader(const TurboReader&) = delete;
  TurboReader& operator=(const TurboReader&) = delete;

  const jpeg_decompress_struct& info() const { return info_; }

  // Begins `file` and reads its header with libjpeg. `header` is the result of parse_header() for
  // the file. The file must stay in memory until close(). With Damaged::kDecode no warning is an
  // error.
  Status open(Bytes file, const Header& header, Damaged damaged = Damaged::kRefuse);
  // Whether the last error was a warning of libjpeg.
  bool failed_by_warning() const { return errors_.by_warning; }
  // Whether bytes that do not belong to the one scan were skipped after its blocks.
  bool found_foreign_bytes() const { return foreign_.value_or(false); }
  // Runs step(info) and returns what libjpeg reported. libjpeg leaves by longjmp, so no variable of
  // `step` may need a destructor. After an error the image is closed.
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
  std::optional<bool> foreign_;  // the result of has_foreign_rests() once it was needed
};

}  // namespace forebay::jpeg
