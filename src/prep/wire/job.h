// A job: what a host asks a prep server to prepare (docs/decisions/0020-prep-servers.md). It names
// a dataset and has the options that decide what the batches contain. Both machines make the same
// batches from the same job, bit for bit. Pure codec; option_fields.h and image_fields.h list the
// fields of the options.
#pragma once

#include <string>
#include <string_view>

#include "feed/batch/options.h"
#include "prep/wire/tables.h"

namespace forebay::prep {

using base::Result;
using base::Status;

struct PrepJob {
  // The fingerprint (store::Dataset::fingerprint) in hexadecimal digits: of the dataset or, if it
  // is a selection, of the dataset that it selects from.
  std::string dataset;
  // A random name (io::random_file_name()) of the feed that needs the batches, so that feeds with
  // equal options have a job each.
  std::string host;
  // Options that only decide how batches are made are no part of the job: they differ from machine
  // to machine, and have their defaults after decode_job().
  feed::FeedOptions options = {};
  // The names of the tables (tables.h) of the targets, which are boxes, keypoints and outlines, and
  // of the weights that samples are drawn by; empty: there is no such table. encode_job() computes
  // the names if the options have the contents. decode_job() only gets the names: the caller sets
  // options.targets and the weights of options.order.
  std::string targets = {};
  std::string weights = {};
  // The names of the tables of selected samples: the first selects from the dataset, each other one
  // from the selection before it.
  std::vector<std::string> selections = {};
};
// A job's text and the tables that it names.
struct EncodedJob {
  std::string text;
  std::vector<Table> tables;
};

// Sets the job's dataset and selections, and adds the selections' tables to `tables`.
void set_dataset(const store::Dataset& dataset, PrepJob* job, std::vector<Table>* tables);
// The job as JSON text. Equal jobs of one version of Forebay have equal texts. Errors: kInvalid if
// an option has a value that check_options() or a prep server refuses; kUnsupported for further
// images, maps of labels, and an order that is a list.
Result<EncodedJob> encode_job(const PrepJob& job);
// Decodes an untrusted text. Errors: kInvalid, naming the place, if encode_job() cannot have
// written the text; kUnsupported if another version of Forebay has written it.
Result<PrepJob> decode_job(std::string_view text);
// A job's name: the SHA-256 of its text, in hexadecimal digits.
std::string job_name(std::string_view text);

}  // namespace forebay::prep
