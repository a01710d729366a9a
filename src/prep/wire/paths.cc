#include "prep/wire/paths.h"

#include <array>
#include <charconv>

namespace forebay::prep {

namespace {

// The parts of a path after "/prep/", if slashes divide it into kParts parts.
template <size_t kParts>
std::optional<std::array<std::string_view, kParts>> parts_of(std::string_view path) {
  constexpr std::string_view kBegin = "/prep/";
  if (!path.starts_with(kBegin)) return std::nullopt;
  path.remove_prefix(kBegin.size());
  std::array<std::string_view, kParts> out;
  for (size_t i = 0; i + 1 < kParts; ++i) {
    const size_t end = path.find('/');
    if (end == path.npos) return std::nullopt;
    out[i] = path.substr(0, end);
    path.remove_prefix(end + 1);
  }
  out.back() = path;
  return path.find('/') == path.npos ? std::optional(out) : std::nullopt;
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && rest == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<StepPath> parse_step(std::string_view path) {
  for (const auto& [asked, end] : kStepEnds) {
    if (!path.ends_with(end)) continue;
    const auto parts = parts_of<3>(path.substr(0, path.size() - end.size()));
    if (!parts) continue;
    const auto epoch = number_of((*parts)[1]);
    const auto step = number_of((*parts)[2]);
    if (!epoch || !step || *epoch > UINT32_MAX) continue;
    return StepPath{
        .job = std::string((*parts)[0]), .epoch = *epoch, .step = *step, .asked = asked};
  }
  return std::nullopt;
}

std::optional<std::string> parse_stay(std::string_view path) {
  const auto parts = parts_of<2>(path);
  if (!parts || (*parts)[1] != "stay") return std::nullopt;
  return std::string((*parts)[0]);
}

std::optional<TablePiece> parse_piece(std::string_view path) {
  const auto parts = parts_of<4>(path);
  if (!parts || (*parts)[0] != "tables") return std::nullopt;
  const auto bytes = number_of((*parts)[2]);
  const auto offset = number_of((*parts)[3]);
  if (!bytes || !offset) return std::nullopt;
  return TablePiece{.table = std::string((*parts)[1]), .bytes = *bytes, .offset = *offset};
}

std::optional<ListPath> parse_list(std::string_view path) {
  const auto parts = parts_of<4>(path);
  if (!parts || (*parts)[2] != "list") return std::nullopt;
  const auto epoch = number_of((*parts)[1]);
  if (!epoch) return std::nullopt;
  return ListPath{
      .job = std::string((*parts)[0]), .epoch = *epoch, .table = std::string((*parts)[3])};
}

}  // namespace forebay::prep
