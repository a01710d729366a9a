// The members that one machine suspects, and how long each of them has to answer. Lifeguard: the
// time shrinks with each independent confirmation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace forebay::cache {

// One thread uses it. Members are named by their ids, accusers by their short names.
class Suspicions {
 public:
  // Begins a suspicion, or restarts the one that exists.
  void begin(const std::string& id, uint32_t accuser, int64_t now_ns);
  // Another member suspects it too. False: this accuser is known, or there are enough accusers.
  bool confirm(const std::string& id, uint32_t accuser);
  void end(const std::string& id) { suspects_.erase(id); }

  // One of the accusers of a suspect; another `turn` may give another one.
  uint32_t accuser(const std::string& id, uint64_t turn) const;
  // When the first suspect's time is over; `members` is the number of members that are not gone,
  // including this machine. INT64_MAX: there are no suspects.
  int64_t next_end_ns(size_t members) const;
  // The suspects whose time is over.
  std::vector<std::string> ended(size_t members, int64_t now_ns) const;

 private:
  struct Suspect {
    int64_t since_ns = 0;
    std::vector<uint32_t> accusers;
  };
  int64_t end_ns(const Suspect& suspect, size_t members) const;

  std::map<std::string, Suspect> suspects_;
};

}  // namespace forebay::cache
