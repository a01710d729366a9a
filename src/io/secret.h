// A value that must never be shown: no stream and no formatter takes it, reveal() is the only way
// to its bytes, and its memory is overwritten before it is freed.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::io {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view value) : bytes_(value.begin(), value.end()) {}
  // Copies the text, and overwrites the original.
  static Secret take(std::string& text);
  ~Secret() { wipe(bytes_.data(), bytes_.size()); }
  Secret(const Secret&) = default;
  Secret(Secret&&) noexcept = default;  // moves the memory itself, so nothing stays behind
  Secret& operator=(Secret other) noexcept {
    bytes_.swap(other.bytes_);
    return *this;
  }

  // For signing and sending only. The view lives as long as the secret is not changed.
  std::string_view reveal() const { return {bytes_.data(), bytes_.size()}; }
  bool empty() const { return bytes_.empty(); }
  size_t size() const { return bytes_.size(); }
  // Leaves no copy of the old value behind.
  void append(std::string_view more);
  bool operator==(const Secret&) const = default;

  // Overwrites memory in a way that the compiler does not leave out.
  static void wipe(void* memory, size_t bytes);

 private:
  friend std::ostream& operator<<(std::ostream&, const Secret&) = delete;

  std::vector<char> bytes_;
};

}  // namespace forebay::io
