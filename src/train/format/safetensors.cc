#include "train/format/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/limits.h"

namespace forebay::train {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr size_t kLengthBytes = 8;

// A parser callback that stops at two things which the format does not allow: deep nesting, which
// could exhaust the stack, and a repeated key in one object, whose meaning would depend on the
// reader.
class StrictParser {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (depth > base::kSafetensorsJsonDepthMax) problem_ = "nested too deeply";
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end && !keys_.empty()) keys_.pop_back();
    if (event == json::parse_event_t::key && !keys_.empty()) {
      if (!keys_.back().insert(parsed.get<std::string>()).second) problem_ = "a repeated name";
    }
    return problem_.empty();
  }
  const std::string& problem() const { return problem_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::string problem_;
};

Result<uint64_t> tensor_bytes(const TensorView& tensor) {
  const uint64_t element = element_bytes(tensor.type);
  if (element == 0) {
    return fail(Code::kCorrupt, "tensor {}: unknown type \"{}\"", tensor.name, tensor.type);
  }
  if (tensor.shape.size() > base::kSafetensorsRankMax) {
    return fail(Code::kTooBig, "tensor {}: {} dimensions, more than {}", tensor.name,
                tensor.shape.size(), base::kSafetensorsRankMax);
  }
  uint64_t bytes = element;
  for (const int64_t side : tensor.shape) {
    const auto product =
        side < 0 ? std::nullopt : base::checked_mul(bytes, static_cast<uint64_t>(side));
    if (!product) return fail(Code::kCorrupt, "tensor {}: shape out of range", tensor.name);
    bytes = *product;
  }
  return bytes;
}

struct Placed {
  TensorView tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::optional<uint64_t> as_number(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

Status read_shape(const json& value, TensorView* tensor) {
  for (const json& side : value) {
    const auto number = as_number(side);
    if (!number || *number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return fail(Code::kCorrupt, "tensor {}: bad shape", tensor->name);
    }
    tensor->shape.push_back(static_cast<int64_t>(*number));
  }
  return {};
}

Result<Placed> read_entry(const std::string& name, const json& value, Bytes data) {
  Placed placed;
  placed.tensor.name = name;
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2 || value.size() != 3) {
    return fail(Code::kCorrupt, "tensor {}: expected dtype, shape and data_offsets", name);
  }
  placed.tensor.type = value["dtype"].get<std::string>();
  RETURN_IF_ERROR(read_shape(value["shape"], &placed.tensor));
  const auto begin = as_number(value["data_offsets"][0]);
  const auto end = as_number(value["data_offsets"][1]);
  if (!begin || !end || *begin > *end || *end > data.size()) {
    return fail(Code::kCorrupt, "tensor {}: offsets outside the {} bytes of data", name,
                data.size());
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, tensor_bytes(placed.tensor));
  if (bytes != *end - *begin) {
    return fail(Code::kCorrupt, "tensor {}: {} bytes, but its type and shape need {}", name,
                *end - *begin, bytes);
  }
  placed.begin = *begin;
  placed.end = *end;
  placed.tensor.data = data.subspan(*begin, bytes);
  return placed;
}

Status read_metadata(const json& value, std::map<std::string, std::string>* metadata) {
  if (!value.is_object()) return fail(Code::kCorrupt, "{} is not an object", kMetadataKey);
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return fail(Code::kCorrupt, "{}: {} is not text", kMetadataKey, key);
    (*metadata)[key] = text.get<std::string>();
  }
  return {};
}

// Sorts the tensors by offset and checks that each begins where the previous one ended.
Status check_tiling(std::vector<Placed>* placed, uint64_t data_bytes) {
  std::sort(placed->begin(), placed->end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  uint64_t at = 0;
  for (const Placed& entry : *placed) {
    if (entry.begin != at) {
      return fail(Code::kCorrupt, "tensor {}: begins at {}, expected {}: overlap or gap",
                  entry.tensor.name, entry.begin, at);
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    return fail(Code::kCorrupt, "{} bytes of data, but the tensors cover {}", data_bytes, at);
  }
  return {};
}

std::vector<const TensorView*> in_file_order(const Safetensors& content) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : content.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const uint64_t a_bytes = element_bytes(a->type);
    const uint64_t b_bytes = element_bytes(b->type);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a->name < b->name;
  });
  return order;
}

Result<std::string> encode_header(const Safetensors& content,
                                  const std::vector<const TensorView*>& order) {
  json header = json::object();
  if (!content.metadata.empty()) header[kMetadataKey] = content.metadata;
  uint64_t at = 0;
  for (const TensorView* tensor : order) {
    ASSIGN_OR_RETURN(const uint64_t bytes, tensor_bytes(*tensor));
    if (bytes != tensor->data.size() || tensor->name == kMetadataKey ||
        header.contains(tensor->name)) {
      return fail(Code::kInvalid,
                  "tensor {}: {} bytes of data instead of {}, or a repeated or reserved name",
                  tensor->name, tensor->data.size(), bytes);
    }
    header[tensor->name] = {
        {"dtype", tensor->type}, {"shape", tensor->shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  // With `replace`, dump() does not throw on text that is not UTF-8.
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > base::kSafetensorsHeaderMax || at > base::kSafetensorsFileMax) {
    return fail(Code::kTooBig, "safetensors: header of {} bytes, data of {}", text.size(), at);
  }
  return text;
}

}  // namespace

uint64_t element_bytes(std::string_view type) {
  struct Known {
    std::string_view name;
    uint64_t bytes;
  };
  static constexpr std::array<Known, 15> kKnown = {{{"BOOL", 1},
                                                    {"U8", 1},
                                                    {"I8", 1},
                                                    {"F8_E4M3", 1},
                                                    {"F8_E5M2", 1},
                                                    {"I16", 2},
                                                    {"U16", 2},
                                                    {"F16", 2},
                                                    {"BF16", 2},
                                                    {"I32", 4},
                                                    {"U32", 4},
                                                    {"F32", 4},
                                                    {"I64", 8},
                                                    {"U64", 8},
                                                    {"F64", 8}}};
  for (const Known& known : kKnown) {
    if (known.name == type) return known.bytes;
  }
  return 0;
}

Result<ByteVector> encode_safetensors(const Safetensors& content) {
  const auto order = in_file_order(content);
  ASSIGN_OR_RETURN(const std::string header, encode_header(content, order));
  ByteVector file;
  base::ByteWriter writer(&file);
  writer.number(static_cast<uint64_t>(header.size()));
  writer.bytes(base::as_bytes(header));
  for (const TensorView* tensor : order) writer.bytes(tensor->data);
  return file;
}

Result<Safetensors> decode_safetensors(Bytes file) {
  if (file.size() < kLengthBytes) {
    return fail(Code::kCorrupt, "{} bytes: too short for safetensors", file.size());
  }
  const auto header_bytes = base::load_le<uint64_t>(file.data());
  if (header_bytes > base::kSafetensorsHeaderMax) {
    return fail(Code::kTooBig, "header of {} bytes, the limit is {}", header_bytes,
                base::kSafetensorsHeaderMax);
  }
  if (header_bytes > file.size() - kLengthBytes) {
    return fail(Code::kCorrupt, "header of {} bytes in a file of {}: cut off", header_bytes,
                file.size());
  }
  const Bytes text = file.subspan(kLengthBytes, header_bytes);
  const Bytes data = file.subspan(kLengthBytes + header_bytes);
  StrictParser parser;
  const json header = json::parse(text.begin(), text.end(), std::ref(parser), false);
  if (!parser.problem().empty() || !header.is_object()) {
    return fail(Code::kCorrupt, "header is not a valid JSON object{}{}",
                parser.problem().empty() ? "" : ": ", parser.problem());
  }
  Safetensors content;
  std::vector<Placed> placed;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      RETURN_IF_ERROR(read_metadata(value, &content.metadata));
      continue;
    }
    ASSIGN_OR_RETURN(placed.emplace_back(), read_entry(name, value, data));
  }
  RETURN_IF_ERROR(check_tiling(&placed, data.size()));
  for (Placed& entry : placed) content.tensors.push_back(std::move(entry.tensor));
  return content;
}

}  // namespace forebay::train
