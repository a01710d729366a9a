// Loaded before all others, it makes pthread_create() fail, as where pids.max or `ulimit -u` is
// reached: while there is a file FEW_THREADS, only as many more threads begin as it says.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef int create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* with) {
  static atomic_int begun;
  FILE* const file = fopen(getenv("FEW_THREADS"), "r");
  if (file == NULL) {
    begun = 0;
  } else {
    int most = 0;
    const int read = fscanf(file, "%d", &most);
    fclose(file);
    if (read == 1 && begun++ >= most) return EAGAIN;
  }
  create* const real = (create*)dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, run, with);
}
