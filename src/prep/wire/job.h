// What a host asks a prep server to prepare (docs/decisions/0020-prep-servers.md): a dataset, and the
// options that decide what its batches contain. Both machines make the same batches from the same
// job, bit for bit. Pure codec; the fields of the options are described in image_fields.h.
#pragma once

#include <string>
#include <string_view>

#include "feed/batch/options.h"
#include "prep/wire/tables.h"

namespace forebay::prep {

using base::Result;
using base::Status;

struct PrepJob {
  // The fingerprint (store::Dataset::fingerprint) of the dataset, or of the one that it selects
  // samples of, in hexadecimal digits.
  std::string dataset;
  // A random name (io::random_file_name()) of the feed that needs the batches, so that feeds with
  // equal options have a job each.
  std::string host;
  // Options that only decide how batches are made are no part of the job: they differ from machine
  // to machine, and have their defaults after decode_job().
  feed::FeedOptions options = {};
  // The names of the tables (tables.h) of what moves with the images, and of the weights that
  // samples are drawn by; empty: there are none. encode_job() takes them from the options where
  // these have the tables. decode_job() cannot know them: whoever has them sets options.targets and
  // the weights of options.order.
  std::string targets = {};
  std::string weights = {};
  // And of the samples that are selected of the dataset, and of what is selected then.
  std::vector<std::string> selections = {};
};
// A job's text and the tables that it names.
struct EncodedJob {
  std::string text;
  std::vector<Table> tables;
};

// Notes a dataset, and what it selects of which one; adds the tables to `tables`.
void set_dataset(const store::Dataset& dataset, PrepJob* job, std::vector<Table>* tables);
// The job as JSON text. Equal jobs of one version of Forebay have equal texts. Errors: kInvalid,
// when an option has a value that check_options() or a prep server refuses; kUnsupported for
// further images, maps of labels, and an order that is a list.
Result<EncodedJob> encode_job(const PrepJob& job);
// Reads a text of which nothing is known. Errors: kInvalid, naming the place, when encode_job()
// cannot have written it; kUnsupported, when another version of Forebay did.
Result<PrepJob> decode_job(std::string_view text);
// What a job is called: the SHA-256 of its text, in hexadecimal digits.
std::string job_name(std::string_view text);

}  // namespace forebay::prep
