#include "jpeg/turbo_encode.h"

#include <jerror.h>

#include <cstdlib>
#include <memory>

#include "jpeg/turbo.h"

namespace forebay::jpeg {
namespace {

using base::Code;
using base::fail;
using base::Pixels;

// Room for the segments of a JPEG that are not metadata.
constexpr size_t kHeaderBytes = 4096;

// libjpeg's state while it encodes. Nothing here has a destructor, because longjmp may leave its
// scope.
struct Work {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump{};
  unsigned char* file = nullptr;
  unsigned long bytes = 0;
};

[[noreturn]] void on_error(j_common_ptr info) {
  std::longjmp(static_cast<Work*>(info->client_data)->jump, 1);
}

void set_options(const EncodeOptions& options, jpeg_compress_struct& info) {
  info.in_color_space = JCS_RGB;
  info.input_components = 3;
  jpeg_set_defaults(&info);
  const Subsampling wanted = options.subsampling;
  if (wanted == Subsampling::kGray) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  info.comp_info[0].h_samp_factor =
      wanted == Subsampling::k422 || wanted == Subsampling::k420 ? 2 : 1;
  info.comp_info[0].v_samp_factor = wanted == Subsampling::k420 ? 2 : 1;
  jpeg_set_quality(&info, options.quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  info.write_JFIF_header = FALSE;
}

// Everything that may call longjmp. Returns false on an error.
bool write(const Pixels& pixels, const EncodeOptions& options, Work& work) {
  if (setjmp(work.jump) != 0) return false;
  jpeg_compress_struct& info = work.info;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &work.file, &work.bytes);
  info.image_width = pixels.width;
  info.image_height = pixels.height;
  set_options(options, info);
  jpeg_start_compress(&info, TRUE);
  for (const MetadataSegment& segment : options.metadata) {
    jpeg_write_marker(&info, segment.code, segment.payload.data(),
                      static_cast<unsigned>(segment.payload.size()));
  }
  while (info.next_scanline < info.image_height) {
    // libjpeg does not write to these rows.
    auto* row =
        const_cast<uint8_t*>(pixels.rgb.data()) + size_t{info.next_scanline} * info.image_width * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

tl::unexpected<Status> fail_by(Work& work) {
  char message[JMSG_LENGTH_MAX];
  work.errors.format_message(reinterpret_cast<j_common_ptr>(&work.info), message);
  jpeg_destroy_compress(&work.info);
  const bool no_memory = work.errors.msg_code == JERR_OUT_OF_MEMORY;
  return fail(no_memory ? Code::kNoMemory : Code::kInvalid, "JPEG: cannot encode: {}", message);
}

}  // namespace

Result<base::ByteVector> turbo_encode(const Pixels& pixels, const EncodeOptions& options) {
  size_t metadata_bytes = 0;
  for (const MetadataSegment& segment : options.metadata) metadata_bytes += segment.payload.size();
  base::ByteVector out(kHeaderBytes + metadata_bytes + pixels.rgb.size() / 2);
  Work work;
  work.info.err = jpeg_std_error(&work.errors);
  work.errors.error_exit = on_error;
  work.errors.output_message = [](j_common_ptr) {};
  work.info.client_data = &work;
  work.file = out.data();
  work.bytes = out.size();
  const bool is_written = write(pixels, options, work);
  // libjpeg allocates memory of its own for a file that outgrows `out`.
  const bool has_grown = is_written && work.file != out.data();
  const std::unique_ptr<unsigned char, decltype(&std::free)> grown(has_grown ? work.file : nullptr,
                                                                   &std::free);
  if (!is_written) return fail_by(work);
  jpeg_destroy_compress(&work.info);
  if (has_grown) {
    out.assign(work.file, work.file + work.bytes);
  } else {
    out.resize(work.bytes);
  }
  return out;
}

}  // namespace forebay::jpeg
