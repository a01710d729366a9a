// Every limit on what comes from outside, in one place. Each is tested from both sides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::base {

// Images
inline constexpr uint32_t kImageSideMax = 16384;          // pixels
inline constexpr uint64_t kImagePixelsMax = 64ull << 20;  // pixels
inline constexpr uint64_t kImageBytesMax = 64ull << 20;   // an encoded image
inline constexpr int kJpegScansMax = 100;                 // more is a scan bomb
inline constexpr int kJpegComponentsMax = 4;

// Samples
inline constexpr size_t kKeyBytesMax = 1024;
inline constexpr size_t kFieldNameBytesMax = 128;
inline constexpr size_t kClassNameBytesMax = 255;        // what file systems give a folder's name
inline constexpr size_t kFieldsMax = 64;                 // fields in a dataset
inline constexpr uint64_t kFieldBytesMax = 64ull << 20;  // one stored file
inline constexpr size_t kScalarBytesMax = 1u << 20;      // one text or json value
inline constexpr size_t kClassesMax = 1u << 20;

// Datasets
inline constexpr uint64_t kChunkBytesMax = 1ull << 30;
inline constexpr uint64_t kChunkBytesMin = 64ull << 10;  // the smallest target size of a chunk
inline constexpr uint32_t kChunkSamplesMax = 1u << 20;
inline constexpr uint64_t kChunkIndexBytesMax = 256ull << 20;
inline constexpr uint64_t kSnapshotRootBytesMax = 64ull << 20;
inline constexpr uint32_t kPartSamplesMax = 1u << 20;  // a part holds at most this many
inline constexpr uint64_t kSamplesMax = 1ull << 40;
// Enough for the block checksums of the largest part: a million keys of 1024 bytes.
inline constexpr uint32_t kPartHeaderBytesMax = 1u << 20;
inline constexpr uint64_t kHeadBytesMax = 4096;  // the file HEAD

// Sources
inline constexpr uint64_t kSourceEntriesMax = 100'000'000;  // files or tar members listed
inline constexpr size_t kSourcePathBytesMax = 4096;
inline constexpr int kFolderDepthMax = 32;  // a link that leads to a folder above nests for ever
inline constexpr size_t kShardsMax = 1u << 20;
inline constexpr size_t kTarNameBytesMax = 4096;
inline constexpr size_t kTarExtendedBytesMax = 1u << 20;  // one pax or GNU extended header
inline constexpr uint64_t kListingBytesMax = 64ull << 30;
inline constexpr uint64_t kJournalBytesMax = 4ull << 30;
inline constexpr uint64_t kInPlaceIndexBytesMax = 16ull << 30;
inline constexpr size_t kInPlaceNotesMax = 16;
inline constexpr size_t kInPlaceNoteBytesMax = 1u << 16;

// Weights
inline constexpr uint64_t kSafetensorsHeaderMax = 100'000'000;   // bytes; the format's own limit
inline constexpr uint64_t kSafetensorsFileMax = 16'000'000'000;  // bytes that we read into memory
inline constexpr size_t kSafetensorsRankMax = 16;
inline constexpr int kSafetensorsJsonDepthMax = 4;

// Running
inline constexpr int kThreadsMax = 1024;
inline constexpr int kLockTriesMax = 100;  // of a lock whose file was replaced meanwhile
inline constexpr int kWorldSizeMax = 1 << 16;
inline constexpr size_t kTraceEventsMax = 1'000'000;  // of a trace: some 200 MB of text
inline constexpr uint32_t kBatchMax = 1u << 20;       // samples in a global batch

}  // namespace forebay::base
