// All limits on input from outside. Tests check each limit from both sides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::base {

// Images
inline constexpr uint32_t kImageSideMax = 16384;          // pixels
inline constexpr uint64_t kImagePixelsMax = 64ull << 20;  // pixels
inline constexpr uint64_t kImageBytesMax = 64ull << 20;   // an encoded image
inline constexpr int kJpegScansMax = 100;                 // more scans are a scan bomb
inline constexpr int kJpegComponentsMax = 4;
inline constexpr uint32_t kMcuBlocksMax = 10;      // in an interleaved scan (T.81 B.2.3)
inline constexpr double kAspectRatioMax = 64;      // of a random crop or erased rectangle
inline constexpr uint32_t kPolicyStepsMax = 1000;  // an augmentation's operations or magnitudes
inline constexpr uint32_t kBlurLengthMax = 1023;   // pixels

// Samples
inline constexpr size_t kKeyBytesMax = 1024;
inline constexpr size_t kFieldNameBytesMax = 128;
inline constexpr size_t kClassNameBytesMax = 255;  // file systems allow a folder's name as much
inline constexpr size_t kFieldsMax = 64;           // fields in a dataset
inline constexpr uint64_t kFieldBytesMax = 64ull << 20;  // one stored file
inline constexpr size_t kScalarBytesMax = 1u << 20;      // one text or json value
inline constexpr size_t kClassesMax = 1u << 20;

// Datasets
inline constexpr uint64_t kChunkBytesMax = 1ull << 30;
inline constexpr uint64_t kChunkBytesMin = 64ull << 10;  // the smallest target size of a chunk
inline constexpr uint32_t kChunkSamplesMax = 1u << 20;
inline constexpr uint64_t kChunkIndexBytesMax = 256ull << 20;
inline constexpr uint64_t kSnapshotRootBytesMax = 64ull << 20;
inline constexpr uint32_t kPartSamplesMax = 1u << 20;  // samples in one part
inline constexpr uint64_t kSamplesMax = 1ull << 40;
// Enough for the block checksums of the largest part: a million keys of 1024 bytes.
inline constexpr uint32_t kPartHeaderBytesMax = 1u << 20;
inline constexpr uint64_t kHeadBytesMax = 4096;                   // the file HEAD
inline constexpr uint64_t kSnapshotFileBytesMax = 4ull << 30;     // for a file that verify hashes
inline constexpr uint64_t kTarMemberBytesMax = (1ull << 33) - 1;  // 11 octal digits

// Sources
inline constexpr uint64_t kSourceEntriesMax = 100'000'000;  // files or tar members listed
inline constexpr size_t kSourcePathBytesMax = 4096;
inline constexpr int kFolderDepthMax = 32;  // a link to a parent folder would nest forever
inline constexpr size_t kShardsMax = 1u << 20;
inline constexpr size_t kTarNameBytesMax = 4096;
inline constexpr size_t kTarExtendedBytesMax = 1u << 20;  // one pax or GNU extended header
inline constexpr uint64_t kListingBytesMax = 64ull << 30;
inline constexpr uint64_t kJournalFileBytesMax = 4ull << 30;
inline constexpr uint64_t kInPlaceIndexBytesMax = 16ull << 30;
inline constexpr uint64_t kAnnotationsBytesMax = 16ull << 30;  // a file of annotations
inline constexpr int kAnnotationDepthMax = 64;                 // nested lists in such a file
inline constexpr size_t kInPlaceNotesMax = 16;
inline constexpr size_t kInPlaceNoteBytesMax = 1u << 16;

// Requests to a server of ranges (io/serve)
inline constexpr size_t kServedConnectionsMax = 1024;
inline constexpr uint32_t kServedHeadBytesMax = 8u << 10;
inline constexpr uint64_t kServedBodyBytesMax = 1u << 20;       // the body of a request
inline constexpr size_t kAgainTextBytesMax = 4u << 10;          // a request's header Forebay-Again
inline constexpr uint64_t kServedAnswerBytesMax = 64ull << 20;  // all ranges of one request
inline constexpr uint64_t kServedBytesMax = 256ull << 20;       // memory for all answers together
inline constexpr size_t kPageConnectionsMax = 64;               // to the server of figures

// Files that processes of a job's cache leave for each other
inline constexpr uint64_t kExtentListBytesMax = 4ull << 30;
inline constexpr uint64_t kMembersNoticeBytesMax = 4ull << 20;

// Members of a job's cache
inline constexpr size_t kMembersMax = 4096;  // including members that left but are remembered
inline constexpr size_t kMemberIdBytesMax = 64;
inline constexpr size_t kHostBytesMax = 253;            // a name in DNS
inline constexpr size_t kMemberMessageBytesMax = 1200;  // fits one datagram in every network
inline constexpr uint64_t kIncarnationMax = 1ull << 63;
inline constexpr size_t kFiguresBytesMax = 32u << 10;  // a member's figures about itself
inline constexpr size_t kFiguresDatasetsMax = 8;
inline constexpr size_t kShownMachinesMax = 64;
inline constexpr size_t kFiguresTextBytesMax = 300;

// Answers of servers
inline constexpr size_t kHttpHeadersMax = 200;
inline constexpr size_t kHttpPartHeadBytesMax = 16u << 10;    // between two parts of an answer
inline constexpr size_t kHttpErrorBytesMax = 64u << 10;       // the body of an error
inline constexpr uint64_t kHttpDocumentBytesMax = 16u << 20;  // a page of a listing
inline constexpr int kHttpRedirectsMax = 5;
inline constexpr size_t kHttpRangesMax = 64;  // in one request; many servers allow no more
// A connection that moves fewer bytes a second is too slow to be useful.
inline constexpr int kHttpSlowBytes = 1000;
// From a server that only sends whole files, ranges are read if they begin at most this far from
// the file's beginning.
inline constexpr uint64_t kHttpSkippedBytesMax = 8u << 20;
inline constexpr int64_t kRetryAfterSecondsMax = 60;  // the longest that a server may ask for
inline constexpr int kTimeoutSecondsMax = 3600;       // the longest that a user may ask for
inline constexpr int kAttemptsMax = 1000;             // of one request, as a user may set
inline constexpr int64_t kUnixSecondsMax = int64_t{1} << 33;  // the year 2242
inline constexpr size_t kS3NamesMax = 1000;                   // on one page of a listing
inline constexpr int kS3EmptyPagesMax = 1000;                 // consecutive ones in a listing
inline constexpr size_t kS3TokenBytesMax = 4096;     // a region, an upload's name, a page's token
inline constexpr size_t kMessageTextBytesMax = 300;  // a server's text in a message
// Remote stores
inline constexpr int kKeyWaitsMax = 20;  // times that a request waits a second for new keys
inline constexpr uint64_t kSecretFileBytesMax = 1u << 20;       // a profile file or a token
inline constexpr size_t kCredentialAnswerBytesMax = 64u << 10;  // an answer that holds credentials

// Metadata of remote data that is kept on this machine
inline constexpr uint64_t kKeptFileBytesMax = 264ull
                                              << 20;      // an index, or the headers of its images
inline constexpr uint64_t kKeptBytesMax = 8'000'000'000;  // the default for all files together

// Weights
inline constexpr uint64_t kSafetensorsHeaderMax = 100'000'000;   // bytes; set by the format
inline constexpr uint64_t kSafetensorsFileMax = 16'000'000'000;  // bytes that we read into memory
inline constexpr size_t kSafetensorsRankMax = 16;
inline constexpr int kSafetensorsJsonDepthMax = 4;

// Running
inline constexpr int kThreadsMax = 1024;
inline constexpr int kLockTriesMax = 100;  // attempts while other processes keep replacing the file
inline constexpr int kCreateTriesMax = 100;  // a file that others make anew each time
inline constexpr int kWorldSizeMax = 1 << 16;
inline constexpr size_t kTraceEventsMax = 1'000'000;  // in one trace, about 200 MB of text
inline constexpr uint32_t kBatchMax = 1u << 20;       // samples in a global batch
inline constexpr int kPrefetchMax = 1024;             // batches prepared ahead
inline constexpr uint32_t kEpochMax = 0xffff'ffff;
// The largest drawn_for number of a sample, which selects its stream of random numbers.
inline constexpr uint64_t kDrawnForMax = (1ull << 48) - 1;
inline constexpr uint32_t kLanesMax = 1u << 16;
inline constexpr uint64_t kGroupBytesMax = 1ull << 42;  // chunks shuffled together in a lane

// Jobs of prep servers, and the batches that they prepare
inline constexpr size_t kJobBytesMax = 1u << 20;
inline constexpr int kJobStepDepthMax = 16;             // lists of steps in lists of steps
inline constexpr size_t kJobStepsMax = 10'000;          // in all lists together
inline constexpr uint64_t kJobDrawsMax = 1'000'000;     // runs of steps for one sample
inline constexpr size_t kJobSelectionsMax = 16;         // nested selections
inline constexpr uint32_t kKeptStepsMax = 1u << 16;     // finished steps that a prep server keeps
inline constexpr size_t kBadReasonBytesMax = 4u << 10;  // why a sample was bad

// Training
inline constexpr uint64_t kTrainingEpochsMax = 1'000'000;
inline constexpr int64_t kModelWidthMax = 1024;           // resnet9: half the channels of a layer
inline constexpr uint32_t kLearnersMax = 64;              // on one device
inline constexpr uint64_t kAveragingStepsMax = 1u << 20;  // from one averaging to the next
inline constexpr uint32_t kPartitionsMax = 1u << 16;      // parts in which a model is exchanged
inline constexpr uint32_t kSliceFloatsMax = 1u << 20;  // in one message between training processes
inline constexpr size_t kUnansweredSlicesMax = 1024;   // of one peer of a training process
inline constexpr size_t kStrangersMax = 64;            // connections whose first bytes are to come
inline constexpr uint64_t kGatheredBytesMax = 1ull << 40;  // that one process gives all others
inline constexpr double kWaitSecondsMax = 1e9;             // stands for any longer time

}  // namespace forebay::base
