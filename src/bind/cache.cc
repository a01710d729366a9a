#include "bind/cache.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.h"
#include "cache/machine_locations.h"
#include "cache/member_list.h"

namespace forebay::bind {
namespace {

using cache::Member;

Cache open(const nb::str& folder, uint64_t disk_bytes_max, const nb::str& memory_folder,
           const std::string& memory_prefix, uint64_t memory_bytes_max, bool stays,
           const std::string& job, const std::string& address, std::string secret,
           const std::vector<std::string>& listed) {
  cache::CacheOptions options{.folder = name_of(folder),
                              .disk_bytes_max = disk_bytes_max,
                              .memory_folder = name_of(memory_folder),
                              .memory_prefix = memory_prefix,
                              .memory_bytes_max = memory_bytes_max,
                              .stays = stays,
                              .job = job,
                              .address = address,
                              .secret = io::Secret::take(secret)};
  const WithoutInterpreter released;
  if (!listed.empty()) check(cache::use_member_list(listed, address, &options));
  return {unwrap(cache::Cache::open(options))};
}

nb::dict stats(const Cache& self) {
  cache::CacheStats stats;
  {
    const WithoutInterpreter released;
    stats = self.opened->stats();
  }
  nb::dict out;
  out["serves"] = stats.serves;
  out["members"] = stats.members;
  out["memory_held_bytes"] = stats.store.held.memory;
  out["disk_held_bytes"] = stats.store.held.disk;
  out["memory_hit_bytes"] = stats.hits.memory;
  out["disk_hit_bytes"] = stats.hits.disk;
  out["found_bytes"] = stats.store.found_bytes;
  out["dropped_bytes"] = stats.store.dropped_bytes;
  out["ahead_bytes"] = stats.ahead_bytes;
  out["handed_over_bytes"] = stats.handed_over_bytes;
  out["refused_bytes"] = stats.store.refused_bytes;
  out["damaged"] = stats.store.damaged;
  out["peer_hit_bytes"] = stats.peers.hit_bytes;
  out["peer_requests"] = stats.peers.requests;
  out["peer_failures"] = stats.peers.failures;
  out["origin_bytes"] = stats.origin_bytes;
  out["served_requests"] = stats.served.requests;
  out["served_bytes"] = stats.served.bytes;
  out["trouble"] = text(stats.trouble);
  return out;
}

}  // namespace

void bind_cache(nb::module_& m) {
  nb::class_<Member>(m, "Member", "A machine's part of a job's cache.")
      .def(
          "__init__",
          [](Member* self, std::string id, std::string host, uint16_t port, uint64_t room_bytes,
             uint64_t incarnation) {
            new (self) Member{std::move(id), std::move(host), port, room_bytes, incarnation};
          },
          nb::arg("id"), nb::arg("host"), nb::arg("port"), nb::arg("room_bytes"),
          nb::arg("incarnation"))
      .def_ro("id", &Member::id)
      .def_ro("host", &Member::host)
      .def_ro("port", &Member::port)
      .def_ro("room_bytes", &Member::room_bytes)
      .def_ro("incarnation", &Member::incarnation);
  m.def(
      "memory_location",
      [](const nb::str& common, const nb::str& beside) {
        const auto place = cache::memory_location(name_of(common), name_of(beside));
        return std::pair(place.folder, place.prefix);
      },
      nb::arg("common"), nb::arg("beside"),
      "The folder for a cache's files in memory, and the prefix of their names. Nobody else has a "
      "folder of that name in memory or in the folder `beside`.");
  m.def(
      "cache_places",
      [](const nb::str& folder) {
        const auto places = cache::locations_in(name_of(folder));
        return std::tuple(name(places.folder), places.memory.folder, places.memory.prefix);
      },
      nb::arg("folder"),
      "The locations of a cache, for the folder that a user names: the cache's own folder, the "
      "folder for its files in memory, and the prefix of their names.");
  nb::class_<Cache>(m, "Cache", "This process's part in a job's cache.")
      .def_static(
          "open", &open, nb::arg("folder"), nb::arg("disk_bytes_max"), nb::arg("memory_folder"),
          nb::arg("memory_prefix"), nb::arg("memory_bytes_max"), nb::arg("stays"), nb::arg("job"),
          nb::arg("address"), nb::arg("secret"), nb::arg("listed"),
          "Opens a cache. Serves the machine's share unless another process of this machine "
          "does.")
      .def_prop_ro(
          "machine", [](const Cache& self) { return self.opened->machine(); },
          "This machine's Member.")
      .def(
          "join",
          [](Cache& self, std::vector<Member> members) { self.opened->join(std::move(members)); },
          nb::arg("members"), "Takes the list of the job's machines from the launcher.")
      .def(
          "stay", [](Cache& self) { self.opened->stay(); },
          "Leaves the data on the disk when the cache ends.")
      .def("stats", &stats, "Figures since the cache was opened, by name.");
}

}  // namespace forebay::bind
