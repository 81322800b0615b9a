/* A program without an adapter (linked statically): copies the file it is given to its output. */
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char bytes[4096];
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
    return n < 0 || write(1, bytes, (size_t)n) != n;
}
