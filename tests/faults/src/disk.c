/* Preloaded into a coordinator: as long as the file that FAULTY_DISK names says "full", positioned
 * writes and growth fail with ENOSPC; as long as it says "sync", flushes fail with EIO. The store
 * makes such calls, and logs do not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *how) {
    const char *path = getenv("FAULTY_DISK");
    char said[16] = {0};
    int kept = errno, file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        ssize_t length = read(file, said, sizeof said - 1);
        (void)length;
        close(file);
    }
    errno = kept;
    return strncmp(said, how, strlen(how)) == 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) {
    if (fails("full")) { errno = ENOSPC; return -1; }
    return NEXT(pwrite64)(file, bytes, length, at);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) {
    if (fails("full")) { errno = ENOSPC; return -1; }
    return NEXT(pwrite)(file, bytes, length, at);
}

int ftruncate64(int file, off64_t length) {
    if (fails("full")) { errno = ENOSPC; return -1; }
    return NEXT(ftruncate64)(file, length);
}

int fdatasync(int file) {
    if (fails("sync")) { errno = EIO; return -1; }
    return NEXT(fdatasync)(file);
}

int fsync(int file) {
    if (fails("sync")) { errno = EIO; return -1; }
    return NEXT(fsync)(file);
}
