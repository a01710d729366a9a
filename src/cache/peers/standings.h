// Which members of a job are worth asking. Plain logic without a clock: the caller passes the time
// of any clock that does not go back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace forebay::cache {

// A member that fails is not asked for a while: for half a second, twice as long each time, and for
// at least ten times as long as the failed request took. If a correct answer came late, and the
// origin would have taken less than half of the time, the excess counts as wasted, and the member
// is not asked for half a second, twice as long each time; no longer, because a machine that was
// busy for a moment is still the best one to ask. A member whose bytes were wrong is not asked for
// longer each time, whatever it answers in between.
//
// All members together can make a process wait in vain for at most 25 s plus a tenth of the time
// that passes. Once 10 s are spent, only members that have answered well are asked; once 20 s are
// spent, none is asked, and the last wait may add its 5 s. So invented members cost no more than
// one that hangs.
//
// One thread at a time uses it.
class Standings {
 public:
  bool may_ask(const std::string& member, int64_t now_ns) const;
  // Forgets all other members.
  void keep_only(const std::set<std::string>& members);

  // A request to a member that has ended.
  struct Request {
    std::string member;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    uint64_t bytes = 0;
  };
  void succeed(const Request& request);
  void fail(const Request& request);
  // The member's bytes turned out to be wrong although they matched its checksums.
  void distrust(const std::string& member, int64_t now_ns);
  // The member is gone, or something else ended the request: its time was wasted, but that says
  // nothing about the member.
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
  std::map<std::string, int64_t> distrusted_;  // for how long each was not asked the last time
  std::set<std::string> good_;                 // have answered well, and not failed since
  // How long this process may still wait in vain, as of spare_at_ns_; less than 0: too much was
  // spent.
  int64_t spare_ns_ = kSpareNs;
  int64_t spare_at_ns_ = 0;
  int64_t spent_until_ns_ = 0;  // waits up to then are accounted for
  // How long the origin takes for a read of a mebibyte, smoothed; 0: not measured.
  int64_t origin_ns_ = 0;
  int64_t origin_at_ns_ = 0;

  static constexpr int64_t kSpareNs = 10'000'000'000;
};

}  // namespace forebay::cache
