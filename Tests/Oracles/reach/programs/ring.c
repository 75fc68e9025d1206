/* ring HOW ADDRESS FILE: downloads http://ADDRESS/close with io_uring. HOW is plain, or direct: the ring's own
 * descriptor, which /proc does not show. */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int received(struct io_uring *ring, int fd, char *buffer, size_t size, int is_direct) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    struct io_uring_cqe *cqe;
    io_uring_prep_recv(sqe, fd, buffer, size, 0);
    if (is_direct)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_submit(ring);
    int error = io_uring_wait_cqe(ring, &cqe);
    int result = error ? error : cqe->res;
    if (!error)
        io_uring_cqe_seen(ring, cqe);
    return result;
}

int main(int argc, char **argv) {
    static char buffer[1 << 20];
    const char request[] = "GET /close HTTP/1.0\r\n\r\n";
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(80)};
    struct io_uring ring;
    int fd = socket(AF_INET, SOCK_STREAM, 0), result;
    size_t size = 0;
    if (argc != 4 || inet_pton(AF_INET, argv[2], &peer.sin_addr) != 1)
        return 64;
    if ((errno = -io_uring_queue_init(4, &ring, 0)))
        return perror("io_uring"), 77;
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) || write(fd, request, sizeof request - 1) < 0)
        return perror("connect"), 1;
    int is_direct = !strcmp(argv[1], "direct");
    if (is_direct) {
        if ((errno = -io_uring_register_files(&ring, &fd, 1)))
            return perror("register"), 1;
        close(fd);
        fd = 0;
    }
    while ((result = received(&ring, fd, buffer + size, sizeof buffer - size, is_direct)) > 0)
        size += result;
    if ((errno = -result))
        return perror("recv"), 1;
    char *body = strstr(buffer, "\r\n\r\n");
    FILE *out = fopen(argv[3], "w");
    return !body || !out || fwrite(body + 4, buffer + size - body - 4, 1, out) != 1 || fclose(out);
}
