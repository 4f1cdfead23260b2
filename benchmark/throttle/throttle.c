/* A slow disk for one process: preloaded, it lets read() and pread() of files below a directory pass at a given rate.
 *
 * THROTTLE_DIRECTORY   files below it are slow
 * THROTTLE_RATE        bytes per second, over all threads together
 *
 * Every call does the real read, reserves its share of time on one clock that all threads push forward, starting when it
 * was called, and sleeps until its share is over. The clock may lag by READ_AHEAD, as a device with a queue would: a reader
 * that the scheduler wakes late does not lose the time. Mapped files are not slowed down: the benchmark reads with plain calls. throttled_bytes() tells how
 * much went through. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define READ_AHEAD 20000000u /* nanoseconds: 10 MB at 500 MB/s */

static _Atomic uint64_t clock_head;
static _Atomic uint64_t passed;

uint64_t throttled_bytes(void) { return atomic_load(&passed); }

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int is_slow(int descriptor) {
    const char *directory = getenv("THROTTLE_DIRECTORY");
    if (!directory) return 0;
    char link[64], target[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    return strncmp(target, directory, strlen(directory)) == 0;
}

static void wait_for(ssize_t bytes, uint64_t called) {
    const char *rate = getenv("THROTTLE_RATE");
    if (!rate || bytes <= 0) return;
    atomic_fetch_add(&passed, (uint64_t)bytes);
    uint64_t share = (uint64_t)((double)bytes * 1e9 / strtod(rate, NULL));
    uint64_t head = atomic_load(&clock_head), end;
    do {
        uint64_t earliest = called - READ_AHEAD;
        end = (head > earliest ? head : earliest) + share;
    } while (!atomic_compare_exchange_weak(&clock_head, &head, end));
    struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {}
}

ssize_t read(int descriptor, void *buffer, size_t size) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    uint64_t called = now();
    ssize_t done = real(descriptor, buffer, size);
    if (is_slow(descriptor)) wait_for(done, called);
    return done;
}

ssize_t pread64(int descriptor, void *buffer, size_t size, off64_t offset) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    uint64_t called = now();
    ssize_t done = real(descriptor, buffer, size, offset);
    if (is_slow(descriptor)) wait_for(done, called);
    return done;
}

ssize_t pread(int descriptor, void *buffer, size_t size, off_t offset) { return pread64(descriptor, buffer, size, offset); }
