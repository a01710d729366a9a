#include "io/secret.h"

#include <cstring>

namespace forebay::io {

Secret Secret::take(std::string& text) {
  Secret secret(text);
  wipe(text.data(), text.size());
  text.clear();
  return secret;
}

void Secret::append(std::string_view more) {
  std::vector<char> longer;
  longer.reserve(bytes_.size() + more.size());
  longer.insert(longer.end(), bytes_.begin(), bytes_.end());
  longer.insert(longer.end(), more.begin(), more.end());
  bytes_.swap(longer);
  wipe(longer.data(), longer.size());
}

void Secret::wipe(void* memory, size_t bytes) {
  if (bytes > 0) ::explicit_bzero(memory, bytes);
}

}  // namespace forebay::io
