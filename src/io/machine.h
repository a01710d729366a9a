// What the operating system tells about this machine, this process and the time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forebay::io {

// Nanoseconds on a clock that only goes forward.
int64_t monotonic_ns();
// Nanoseconds since 1970 by the wall clock, which may be wrong and may jump.
int64_t wall_ns();
// CPU time of all threads of this process, in nanoseconds.
int64_t process_cpu_ns();
// CPU time of the calling thread, in nanoseconds.
int64_t thread_cpu_ns();
// How long the calling thread was ready to run but waited for a processor, in nanoseconds; 0 if the
// system does not tell.
int64_t thread_delay_ns();

// How many threads can run at once: the affinity mask or the cgroup's CPU quota (v1 or v2,
// rounded up), whichever is less; at least 1.
int usable_cores();

// Makes the calling thread work in the background: when it wakes, it takes an idle core or waits
// for its turn, and preempts no other thread. Its share of the processor does not change.
void work_in_background();

// Blocks SIGPIPE in the calling thread, so that writing to a connection that the other side has
// closed returns an error instead of ending the process.
void block_signal_of_closed_pipe();
// Makes a TCP connection fail if the other side does not acknowledge sent bytes for this long. The
// system's own limit is about 15 minutes.
void fail_when_unacknowledged(int socket, int64_t after_ns);
// Makes an idle TCP connection fail a minute after the other machine answered last.
void fail_when_gone(int socket);

// Bytes that can be allocated now without swapping, by the system's estimate; at most the cgroup's
// memory limit.
uint64_t available_memory_bytes();

// This process's resident memory in bytes.
uint64_t resident_bytes();

// How many files and connections this process may have open at the same time.
uint64_t open_files_max();

// The IP addresses of this machine's network interfaces.
std::vector<std::string> own_addresses();

// The effective user of this process.
uint32_t user_id();

// The name of this machine in its network.
std::string machine_name();

// This process's id. A forked child has another one, and none of its parent's threads.
int64_t process_id();

// Whether standard error is a terminal.
bool stderr_is_terminal();

}  // namespace forebay::io
