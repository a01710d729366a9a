// Writes a snapshot and makes it the dataset's current one.
#pragma once

#include "io/file_system.h"
#include "store/format/chunk_index.h"
#include "store/format/snapshot.h"

namespace forebay::store {

// Makes the snapshot with this root the dataset's current one, by replacing HEAD atomically. The
// root and everything that it names must be stored already. `before`: the identity of HEAD when the
// work began; without it, there must be no HEAD. kChanged if another process replaced HEAD
// meanwhile, except with this same snapshot.
Status put_head(io::FileSystem& fs, const std::string& dataset, const base::Sha256& root,
                const std::optional<io::Identity>& before);

// Makes a snapshot of the added chunks, in their order: the same chunks give the same bytes. One
// part (at most base::kPartSamplesMax samples) is held in memory; a full part is written
// immediately. Readers see nothing of the snapshot before commit(), and the files of an abandoned
// builder do no harm. One thread calls everything. The caller holds the dataset's lock, if its file
// system has locks.
class SnapshotBuilder {
 public:
  // `fs` outlives the builder. `dataset` is the folder of the dataset, which need not exist yet.
  // `head`: the identity of HEAD when the work began; without it, there must be no HEAD.
  SnapshotBuilder(io::FileSystem& fs, std::string dataset, Schema schema,
                  std::optional<io::Identity> head = {});

  // Adds the next chunk. info.first_sample is ignored; info.samples and `index` must agree, the
  // index's schema must be the snapshot's, and every sample needs an image. Keys must be unique in
  // the dataset; this is not checked here, but pack's sources ensure it, and verify checks it. An
  // error (kInvalid, kTooBig) leaves the builder as it was.
  Status add_chunk(const ChunkInfo& info, const ChunkIndex& index);
  // Makes this the current snapshot and returns the root's hash: puts the last part, then the root,
  // then HEAD with put_head(), whose errors it also returns. The chunks themselves must be stored
  // already. After an error the builder cannot be used any more; HEAD is the old one or the new
  // one.
  Result<base::Sha256> commit();

 private:
  Status check(const ChunkInfo& info, const ChunkIndex& index) const;
  Status write_part();

  io::FileSystem& fs_;
  std::string dataset_;
  SnapshotRoot root_;
  const std::optional<io::Identity> head_;
  PartBuilder part_;
};

}  // namespace forebay::store
