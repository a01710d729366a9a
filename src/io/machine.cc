#include "io/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace forebay::io {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// The cores that one cgroup folder's quota allows (v2's cpu.max or v1's two files); 0 without one.
double quota_cores(const std::string& folder) {
  double quota = 0;
  double period = 0;
  if (std::ifstream v2(folder + "/cpu.max"); v2 >> quota >> period && period > 0) {
    return quota / period;
  }
  std::ifstream v1_quota(folder + "/cpu.cfs_quota_us");
  std::ifstream v1_period(folder + "/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period && quota > 0 && period > 0) return quota / period;
  return 0;
}

// The bytes that one cgroup folder's limit allows (v2's or v1's file); 0 without one ("max").
double limit_bytes(const std::string& folder) {
  double limit = 0;
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    if (std::ifstream file(folder + name); file >> limit) return limit;
  }
  return 0;
}

// The smallest limit that `limit_of` finds for this process's cgroup and its parents; 0 if there is
// none.
double least_cgroup_limit(const std::string& controller, double (*limit_of)(const std::string&)) {
  double least = 0;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t colon = line.find(':');
    const size_t path_at = line.find(':', colon + 1);
    if (path_at == std::string::npos) continue;
    const std::string controllers = line.substr(colon + 1, path_at - colon - 1);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find("," + controller + ",") == std::string::npos)
      continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    for (std::string path = line.substr(path_at + 1);; path = path.substr(0, path.rfind('/'))) {
      const double limit = limit_of(path == "/" ? root : root + path);
      if (limit > 0 && (least == 0 || limit < least)) least = limit;
      if (path.empty() || path == "/") break;
    }
  }
  return least;
}

}  // namespace

int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
int64_t wall_ns() { return clock_ns(CLOCK_REALTIME); }
int64_t process_cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
int64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// The file has three numbers: CPU time, the time of waiting, and how often the thread ran.
int64_t thread_delay_ns() {
  std::ifstream file("/proc/thread-self/schedstat");
  int64_t cpu_ns = 0;
  int64_t delay_ns = 0;
  return file >> cpu_ns >> delay_ns ? delay_ns : 0;
}

// A refusal by the system does no harm.
void work_in_background() {
  const sched_param none{};
  (void)::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);
}

void block_signal_of_closed_pipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void fail_when_unacknowledged(int socket, int64_t after_ns) {
  const auto ms = static_cast<unsigned>(after_ns / 1'000'000);
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

void fail_when_gone(int socket) {
  const auto set = [socket](int level, int option, int value) {
    (void)::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cores = 1;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) cores = CPU_COUNT(&mask);
  const double quota = least_cgroup_limit("cpu", quota_cores);
  if (quota > 0) cores = std::min(cores, static_cast<int>(std::ceil(quota)));
  return std::max(cores, 1);
}

uint64_t available_memory_bytes() {
  double available = 0;
  std::ifstream info("/proc/meminfo");
  for (std::string name, rest; info >> name >> available; std::getline(info, rest)) {
    if (name == "MemAvailable:") break;
    available = 0;
  }
  available *= 1024;
  const double limit = least_cgroup_limit("memory", limit_bytes);
  if (limit > 0) available = std::min(available, limit);
  return static_cast<uint64_t>(available);
}

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t open_files_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    std::array<char, INET6_ADDRSTRLEN> number{};
    const void* bytes = nullptr;
    if (family == AF_INET) bytes = &reinterpret_cast<sockaddr_in*>(one->ifa_addr)->sin_addr;
    if (family == AF_INET6) bytes = &reinterpret_cast<sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    if (bytes == nullptr) continue;
    addresses.emplace_back(::inet_ntop(family, bytes, number.data(), number.size()));
  }
  ::freeifaddrs(first);
  return addresses;
}

uint32_t user_id() { return ::geteuid(); }

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : std::string();
}

int64_t process_id() { return ::getpid(); }

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace forebay::io
