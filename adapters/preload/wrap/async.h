#ifndef TB_PRELOAD_ASYNC_H
#define TB_PRELOAD_ASYNC_H

/* A ring is set up, or requests are submitted (libc's -1 and errno). */
int tb_ring_begins(void);
struct iocb;
long tb_io_submit(long context, long n, struct iocb **list);

#endif
