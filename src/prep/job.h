// What a host asks a near side to prepare (docs/decisions/0020-two-ends.md): a dataset, and the
// options that decide what its batches contain. Both machines make the same batches from the same
// job, bit for bit. Pure codec; the fields of the options are described in image_fields.h.
#pragma once

#include <string>
#include <string_view>

#include "feed/options.h"

namespace forebay::prep {

using base::Result;
using base::Status;

struct Job {
  std::string dataset;  // its fingerprint (store::Dataset::fingerprint) in hexadecimal digits
  // A random name (io::random_file_name()) of the feed that needs the batches, so that feeds with
  // equal options have a job each.
  std::string host;
  // Options that only decide how batches are made are no part of the job: they differ from machine
  // to machine, and have their defaults after decode_job().
  feed::FeedOptions options = {};
  // The targets_fingerprint() of what moves with the images; empty: nothing does. Where
  // options.targets is set, encode_job() takes theirs. decode_job() cannot know the tables: whoever
  // opens the dataset sets options.targets, and compares.
  std::string targets = {};
};

// The job as JSON text. Equal jobs of one version of Forebay have equal texts. Errors: kInvalid,
// when an option has a value that check_options() or a near side refuses; kUnsupported, when the
// order is made from weights or from a list.
Result<std::string> encode_job(const Job& job);
// Reads a text of which nothing is known. Errors: kInvalid, naming the place, when encode_job()
// cannot have written it; kUnsupported, when another version of Forebay did.
Result<Job> decode_job(std::string_view text);
// What a job is called: the SHA-256 of its text, in hexadecimal digits.
std::string job_name(std::string_view text);

// The SHA-256 of all tables, in hexadecimal digits. Of maps it covers the fingerprint of their
// dataset, which it does not read.
std::string targets_fingerprint(const feed::Targets& targets);

}  // namespace forebay::prep
