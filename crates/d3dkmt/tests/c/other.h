/* A second process of the test program, of a named role. */
#ifndef OTHER_H
#define OTHER_H

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

/* The second process, and what it says, a byte or a handle at a time. */
struct other {
    pid_t process;
    int says, hears;
};

static inline struct other start(const char *role, D3DKMT_HANDLE global) {
    int says[2], hears[2];
    CHECK(pipe(says) == 0 && pipe(hears) == 0);
    char number[16], out[16], in[16];
    snprintf(number, sizeof number, "%u", global);
    snprintf(out, sizeof out, "%d", says[1]);
    snprintf(in, sizeof in, "%d", hears[0]);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        close(says[0]);
        close(hears[1]);
        execl("/proc/self/exe", "other", role, number, out, in, (char *)NULL);
        _exit(127);
    }
    close(says[1]);
    close(hears[0]);
    struct other other = {process, says[0], hears[1]};
    return other;
}

static inline D3DKMT_HANDLE hear(int from) {
    D3DKMT_HANDLE word = 0;
    CHECK(read(from, &word, sizeof word) == sizeof word);
    return word;
}

static inline void say(int to, D3DKMT_HANDLE word) { CHECK(write(to, &word, sizeof word) == sizeof word); }

static inline void finish(struct other *other, int killed) {
    int status = 0;
    if (killed) kill(other->process, SIGKILL);
    CHECK(waitpid(other->process, &status, 0) == other->process);
    CHECK(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(other->says);
    close(other->hears);
}

#endif
