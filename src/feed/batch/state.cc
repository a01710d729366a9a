#include "feed/batch/state.h"

#include <array>
#include <optional>

#include "base/json_fields.h"

namespace forebay::feed {

using base::Code;
using base::fail;
using nlohmann::json;

constexpr auto fields_of(const BadSample*) {
  return base::fields("BadSample", "sample", "chunk", "key", "reason");
}

namespace {

// A state in the form of its text.
struct StateText {
  uint64_t epoch = 0;
  uint64_t position = 0;
  std::vector<BadSample> bad = {};
  std::optional<std::vector<std::array<uint64_t, 2>>> over = {};
};
constexpr auto fields_of(const StateText*) {
  return base::fields("State", "epoch", "position", "bad", "over");
}

}  // namespace

std::string encode_state(const FeedState& state) {
  StateText text{state.epoch, state.position, state.bad};
  for (const Positions& over : state.over) {
    if (!text.over) text.over.emplace();
    text.over->push_back({over.begin, over.end});
  }
  json out = base::FieldWriter("feed").write(text);
  if (!text.over) out.erase("over");
  // Chunks and keys are UTF-8 already. Other bytes of a reason may be replaced, because a reason is
  // only shown.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<FeedState> decode_state(std::string_view text) {
  json in = json::parse(text, nullptr, false);
  if (in.is_object() && !in.contains("over")) in["over"] = nullptr;
  StateText read;
  base::FieldReader reader("feed: the stored state");
  reader.read(in, &read);
  if (!reader.status().ok()) return fail(Code::kCorrupt, "{}", reader.status().message());
  FeedState state{read.epoch, read.position, std::move(read.bad)};
  for (const auto& [begin, end] : read.over.value_or(std::vector<std::array<uint64_t, 2>>())) {
    state.over.push_back({begin, end});
  }
  return state;
}

}  // namespace forebay::feed
