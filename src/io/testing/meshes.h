// For tests: the meshes of a job whose processes are threads of one process.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "io/machine.h"
#include "io/mesh.h"

namespace forebay::io::testing {

using Meshes = std::vector<std::unique_ptr<Mesh>>;

inline int64_t seconds_from_now(double seconds) {
  return monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
}

// Calls `body` with each rank, each in a thread of its own, and waits for all.
inline void in_each(uint32_t processes, const std::function<void(uint32_t)>& body) {
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < processes; ++rank) {
    threads.emplace_back([&body, rank] { body(rank); });
  }
}

inline Meshes listening_meshes(uint32_t processes) {
  Meshes out;
  for (uint32_t rank = 0; rank < processes; ++rank) {
    auto made = Mesh::listen(
        {.rank = rank, .processes = processes, .token = std::string(Mesh::kTokenBytes, 't')});
    EXPECT_TRUE(made) << base::status_of(made).message();
    out.push_back(std::move(*made));
  }
  return out;
}

inline std::vector<MeshPlace> places_of(const Meshes& meshes) {
  std::vector<MeshPlace> out;
  for (const auto& mesh : meshes) out.push_back(mesh->place("127.0.0.1", "").value());
  return out;
}

inline Meshes connected_meshes(uint32_t processes) {
  Meshes out = listening_meshes(processes);
  const std::vector<MeshPlace> places = places_of(out);
  in_each(processes, [&](uint32_t rank) {
    const base::Status status = out[rank]->connect(places, seconds_from_now(60));
    EXPECT_TRUE(status.ok()) << status.message();
  });
  return out;
}

}  // namespace forebay::io::testing
