/* A library to preload that makes one process's machine a bad one: a slow disk below a folder, a wall clock that somebody moves.
 *
 *   FAULTY_SLOW_BELOW   folder; writes to files below it take FAULTY_WRITE_MS longer, syncs FAULTY_SYNC_MS
 *   FAULTY_CLOCK        file of 8 bytes, a signed little-endian number of nanoseconds that is added to the wall clock, read at every look
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void delay(int fd, const char *milliseconds)
{
    const char *below = getenv("FAULTY_SLOW_BELOW"), *text = getenv(milliseconds);
    char link[64], path[PATH_MAX];
    if (!below || !text)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = 0;
    if (strncmp(path, below, strlen(below)) == 0) {
        long wanted = atol(text);
        struct timespec pause = {wanted / 1000, wanted % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
}

ssize_t write(int fd, const void *data, size_t size)
{
    delay(fd, "FAULTY_WRITE_MS");
    return syscall(SYS_write, fd, data, size);
}

int fsync(int fd)
{
    delay(fd, "FAULTY_SYNC_MS");
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    delay(fd, "FAULTY_SYNC_MS");
    return (int)syscall(SYS_fdatasync, fd);
}

static int64_t offset_ns(void)
{
    static volatile const int64_t *shared;
    const char *path = getenv("FAULTY_CLOCK");
    if (!shared && path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, fd, 0);
        if (fd >= 0)
            close(fd);
        if (mapped == MAP_FAILED)
            return 0;
        shared = mapped;
    }
    return shared ? *shared : 0;
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    int result = (int)syscall(SYS_clock_gettime, id, at);
    if (result == 0 && id == CLOCK_REALTIME) {
        int64_t ns = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + offset_ns();
        at->tv_sec = ns / 1000000000;
        at->tv_nsec = ns % 1000000000;
    }
    return result;
}
