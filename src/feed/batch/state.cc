#include "feed/batch/state.h"

#include <nlohmann/json.hpp>

namespace forebay::feed {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool read(const json& object, const char* name, uint64_t* out) {
  const json* value = member(object, name);
  if (value == nullptr || !value->is_number_unsigned()) return false;
  *out = value->get<uint64_t>();
  return true;
}

bool read(const json& object, const char* name, std::string* out) {
  const json* value = member(object, name);
  if (value == nullptr || !value->is_string()) return false;
  *out = value->get<std::string>();
  return true;
}

bool read(const json& object, BadSample* out) {
  return read(object, "sample", &out->sample) && read(object, "chunk", &out->chunk) &&
         read(object, "key", &out->key) && read(object, "reason", &out->reason);
}

bool read(const json& range, Positions* out) {
  const bool is_pair = range.is_array() && range.size() == 2 && range[0].is_number_unsigned() &&
                       range[1].is_number_unsigned();
  if (is_pair) *out = {range[0].get<uint64_t>(), range[1].get<uint64_t>()};
  return is_pair;
}

}  // namespace

std::string encode_state(const FeedState& state) {
  json bad = json::array();
  for (const BadSample& sample : state.bad) {
    bad.push_back({{"sample", sample.sample},
                   {"chunk", sample.chunk},
                   {"key", sample.key},
                   {"reason", sample.reason}});
  }
  json out = {{"epoch", state.epoch}, {"position", state.position}, {"bad", bad}};
  for (const Positions& over : state.over) out["over"].push_back({over.begin, over.end});
  // Chunks and keys are UTF-8 already; bytes of a reason that are not may be replaced, because a
  // reason is only shown.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<FeedState> decode_state(std::string_view text) {
  const json in = json::parse(text, nullptr, false);
  FeedState state;
  const json* bad = member(in, "bad");
  bool good = read(in, "epoch", &state.epoch) && read(in, "position", &state.position) &&
              bad != nullptr && bad->is_array();
  if (good) {
    for (const json& entry : *bad) good = read(entry, &state.bad.emplace_back()) && good;
  }
  const json* over = member(in, "over");
  if (over != nullptr) {
    good = good && over->is_array();
    for (const json& range : *over) good = read(range, &state.over.emplace_back()) && good;
  }
  if (!good) return fail(Code::kCorrupt, "feed: the stored state is not one of a feed");
  return state;
}

}  // namespace forebay::feed
