// What the operating system says of this machine and of time.
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
// How long the calling thread could have worked, but others had the processors, in nanoseconds; 0
// where the system does not say.
int64_t thread_delay_ns();

// How many threads can run at once: the affinity mask or the cgroup's CPU quota (v1 or v2,
// rounded up), whichever is less; at least 1.
int usable_cores();

// Makes the calling thread work in the background: when it wakes, it takes an idle core or waits
// for its turn, and interrupts nobody. Its share of the processor does not change.
void work_in_background();

// Makes writing to a connection that the other side closed an error for the calling thread, where
// it would end the process (SIGPIPE).
void block_signal_of_closed_pipe();
// Lets a TCP connection fail when the other side has not acknowledged bytes for this time. The
// system's own limit is some 15 minutes.
void fail_when_unacknowledged(int socket, int64_t after_ns);
// Lets a TCP connection that has nothing to send fail a minute after the other machine was there
// last.
void fail_when_gone(int socket);

// Bytes that can be allocated now without swapping: what the system says, and at most what the
// cgroup's memory limit allows.
uint64_t available_memory_bytes();

// Bytes of this process that are in memory now.
uint64_t resident_bytes();

// How many files and connections this process may have open at the same time.
uint64_t open_files_max();

// The addresses at which this machine is reached now.
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
