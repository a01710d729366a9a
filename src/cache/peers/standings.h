// Which members of a job are worth asking. Plain logic without a clock: whoever calls says what
// time it is, on any clock that does not go back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace forebay::cache {

// A member that fails is left alone: for half a second, twice as long each time, and for ten times
// as long as it was waited for. A right answer that came late, and which the origin would have
// given in less than half of the time, counts as time that was lost, and its member is left alone
// for half a second, twice as long each time: a machine that was busy for a moment is still the
// best one to ask. A member whose bytes were wrong is left alone longer each time, whatever it
// answers in between.
//
// All members together cannot make a process wait in vain for longer than 25 s, and a tenth of the
// time that passes: once 10 s are spent, only members that have answered well are asked, and once
// 20 s are, nobody is, which the last wait may exceed by its 5 s. So members that somebody invents
// cost no more than one that hangs.
//
// One thread at a time uses it.
class Standings {
 public:
  bool may_ask(const std::string& member, int64_t now_ns) const;
  // The others are forgotten.
  void keep_only(const std::set<std::string>& members);

  // A request to a member, which has ended.
  struct Request {
    std::string member;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    uint64_t bytes = 0;
  };
  void succeed(const Request& request);
  void fail(const Request& request);
  // Bytes that the member gave turned out to be wrong, although they had its checksums.
  void distrust(const std::string& member, int64_t now_ns);
  // The member is gone, or something else ended the request: what it took was in vain, and says
  // nothing of the member.
  void spend(const Request& request) { spend(request.begin_ns, request.end_ns); }
  // A read that this process has sent to the origin itself.
  void note_origin(uint64_t bytes, int64_t begin_ns, int64_t end_ns);

 private:
  struct Out {
    int64_t until_ns = 0;
    int64_t for_ns = 0;
  };
  void spend(int64_t begin_ns, int64_t end_ns);
  void leave_alone(const std::string& member, int64_t in_vain_ns, int64_t now_ns);
  int64_t spare_ns(int64_t now_ns) const;
  std::optional<int64_t> origin_ns(uint64_t bytes, int64_t now_ns) const;

  std::map<std::string, Out> out_;
  std::map<std::string, int64_t> distrusted_;  // for how long the last time
  std::set<std::string> good_;                 // have answered, and not failed since
  // How long this process may still wait in vain, at that time; less than 0: too much was spent.
  int64_t spare_ns_ = kSpareNs;
  int64_t spare_at_ns_ = 0;
  int64_t spent_until_ns_ = 0;  // waits up to then are accounted for
  // What a read of a mebibyte takes at the origin, smoothed; 0: none was measured.
  int64_t origin_ns_ = 0;
  int64_t origin_at_ns_ = 0;

  static constexpr int64_t kSpareNs = 10'000'000'000;
};

}  // namespace forebay::cache
