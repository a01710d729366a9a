#include "jpeg/turbo.h"

#include <jerror.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/limits.h"
#include "jpeg/format/markers.h"
#include "jpeg/scan_end.h"

namespace forebay::jpeg {
namespace {

using base::Code;
using base::fail;

Code code_of(int libjpeg_error) {
  switch (libjpeg_error) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_MISMATCHED_QUANT_TABLE:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
      return Code::kUnsupported;
    case JERR_OUT_OF_MEMORY:
      return Code::kNoMemory;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
      return Code::kTooBig;
    default:
      return Code::kCorrupt;
  }
}

// The tables of Annex K.3. libjpeg assumes them for files without DHT (frames of Motion JPEG).
struct StandardTables {
  std::array<JHUFF_TBL, 2> dc;
  std::array<JHUFF_TBL, 2> ac;
};

StandardTables read_standard_tables() {
  jpeg_error_mgr errors{};
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  StandardTables tables{};
  for (size_t i = 0; i < 2; ++i) {
    tables.dc[i] = *info.dc_huff_tbl_ptrs[i];
    tables.ac[i] = *info.ac_huff_tbl_ptrs[i];
  }
  jpeg_destroy_compress(&info);
  return tables;
}

// The tables are made at the start of the program, because a forked process must not wait for a
// thread of its parent that is making them.
const StandardTables standard_tables = read_standard_tables();

HuffmanTable convert(const JHUFF_TBL& from) {
  HuffmanTable to;
  std::copy_n(from.bits + 1, to.bits.size(), to.bits.begin());
  std::ranges::copy(from.huffval, to.values.begin());
  to.count = std::accumulate(to.bits.begin(), to.bits.end(), 0u);
  return to;
}

std::array<HuffmanTable, kSlots> tables_by_slot() {
  std::array<HuffmanTable, kSlots> out;
  for (size_t i = 0; i < kSlots; ++i) {
    out[i] = convert((is_ac(i) ? standard_tables.ac : standard_tables.dc)[i / 2]);
  }
  return out;
}

const std::array<HuffmanTable, kSlots> by_slot = tables_by_slot();

}  // namespace

const HuffmanTable& standard_table(size_t slot) { return by_slot[slot]; }

TurboReader::TurboReader() {
  info_.err = jpeg_std_error(&errors_.manager);
  errors_.manager.error_exit = on_error;
  errors_.manager.emit_message = on_message;
  errors_.manager.output_message = [](j_common_ptr) {};
  info_.client_data = this;
  progress_.progress_monitor = on_progress;
  create();
}

void TurboReader::create() {
  jpeg_create_decompress(&info_);
  info_.progress = &progress_;
}

TurboReader::~TurboReader() { jpeg_destroy_decompress(&info_); }

void TurboReader::leave(j_common_ptr info, bool by_warning) {
  Errors& errors = self(info).errors_;
  errors.code = code_of(info->err->msg_code);
  errors.by_warning = by_warning;
  info->err->format_message(info, errors.message);
  std::longjmp(errors.jump, 1);
}

void TurboReader::on_error(j_common_ptr info) { leave(info, false); }

void TurboReader::on_message(j_common_ptr info, int level) {
  if (level >= 0 || self(info).damaged_ == Damaged::kDecode) return;
  if (!self(info).is_harmless(info->err->msg_code, info->err->msg_parm.i)) leave(info, true);
}

// Whether the pixels are complete in spite of a warning.
bool TurboReader::is_harmless(int warning, const int* parameters) {
  switch (warning) {
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:  // its one scan is still read completely
      return true;
    case JWRN_JPEG_EOF:
      // Missing blocks cause another warning when they are decoded. But whole scans may be missing
      // without any warning, and arithmetic coding omits zeros at its end.
      return info_.input_scan_number > 0 && !info_.progressive_mode && !info_.arith_code &&
             !jpeg_has_multiple_scans(&info_);
    case JWRN_EXTRANEOUS_DATA:
      return info_.input_scan_number == 0 || is_foreign(parameters[0], parameters[1]);
    default:
      return false;
  }
}

bool TurboReader::is_foreign(int rest_bytes, int marker) {
  if (!foreign_) foreign_ = has_foreign_rests(file_, header_);
  if (*foreign_) return true;
  const bool restart = marker >= kRst0 && marker <= kRst7;
  return !restart && ends_in_zeros(file_, info_.input_scan_number, static_cast<size_t>(rest_bytes));
}

// Called for every row of MCUs, so a scan bomb is stopped soon after its 101st scan begins.
void TurboReader::on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= base::kJpegScansMax) return;
  Errors& errors = self(info).errors_;
  errors.code = Code::kTooBig;
  errors.by_warning = false;
  std::snprintf(errors.message, sizeof(errors.message), "more than %d scans", base::kJpegScansMax);
  std::longjmp(errors.jump, 1);
}

// The only function with setjmp. Its parameters are never written, so longjmp cannot corrupt them.
Status TurboReader::run_erased(void (*step)(void*, jpeg_decompress_struct&), void* context) {
  if (setjmp(errors_.jump) == 0) {
    step(context, info_);
    return {};
  }
  close();
  return {errors_.code, fmt::format("JPEG: {}", errors_.message)};
}

// libjpeg keeps the tables of one image for the next (abbreviated streams). Here an image must
// not depend on the one before, so tables are reset. They live in libjpeg's permanent pool:
// dropping the pointers instead would leak. Emptied tables give an error when they are used.
void TurboReader::reset_tables(bool standard) {
  for (JQUANT_TBL* table : info_.quant_tbl_ptrs) {
    if (table != nullptr) *table = JQUANT_TBL{};
  }
  for (size_t i = 0; i < NUM_HUFF_TBLS; ++i) {
    const bool fill = standard && i < 2;
    JHUFF_TBL* dc = info_.dc_huff_tbl_ptrs[i];
    JHUFF_TBL* ac = info_.ac_huff_tbl_ptrs[i];
    if (dc != nullptr) *dc = fill ? standard_tables.dc[i] : JHUFF_TBL{};
    if (ac != nullptr) *ac = fill ? standard_tables.ac[i] : JHUFF_TBL{};
  }
}

Status TurboReader::open(Bytes file, const Header& header, Damaged damaged) {
  close();  // after running out of memory, an image may still be open
  file_ = file;
  header_ = header;
  damaged_ = damaged;
  foreign_.reset();
  if (damaged == Damaged::kDecode) {
    // A missing table must be an error; an emptied table would only cause a warning.
    jpeg_destroy_decompress(&info_);
    create();
  }
  // libjpeg gives the standard tables to sequential files only.
  reset_tables(header.coding != Coding::kProgressive);
  RETURN_IF_ERROR(run([&file](jpeg_decompress_struct& info) {
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
  }));
  if (info_.image_width != header.width || info_.image_height != header.height ||
      info_.num_components != header.component_count) {
    close();
    return fail(Code::kCorrupt, "JPEG: its headers contradict each other");
  }
  return {};
}

}  // namespace forebay::jpeg
