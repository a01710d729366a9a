#include "base/queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace forebay::base {
namespace {

TEST(Queue, GivesItemsInTheirOrder) {
  Queue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), i);
}

TEST(Queue, WhatIsLeftCanBeTakenAfterClose) {
  Queue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.push(std::make_unique<int>(7)));
  queue.close();
  EXPECT_FALSE(queue.push(std::make_unique<int>(8)));
  const auto item = queue.pop();
  ASSERT_TRUE(item);
  EXPECT_EQ(**item, 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(Queue, CloseEndsEveryWait) {
  Queue<int> full(1);
  Queue<int> empty(1);
  EXPECT_TRUE(full.push(1));
  std::thread producer([&] { EXPECT_FALSE(full.push(2)); });
  std::thread consumer([&] { EXPECT_EQ(empty.pop(), std::nullopt); });
  full.close();
  empty.close();
  producer.join();
  consumer.join();
}

TEST(Queue, EveryItemComesOutOnceOfSeveralThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  Queue<int> queue(8);
  Mutex mutex;
  std::vector<int> seen(kThreads * kEach, 0);
  std::vector<std::thread> producers;
  std::vector<std::thread> consumers;
  for (int thread = 0; thread < kThreads; ++thread) {
    producers.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(queue.push(thread * kEach + i));
    });
    consumers.emplace_back([&] {
      while (const auto item = queue.pop()) {
        MutexLock lock(mutex);
        ++seen[static_cast<size_t>(*item)];
      }
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.close();
  for (std::thread& thread : consumers) thread.join();
  EXPECT_EQ(seen, std::vector<int>(kThreads * kEach, 1));
}

}  // namespace
}  // namespace forebay::base
