#ifndef TB_PRELOAD_OPEN_H
#define TB_PRELOAD_OPEN_H

/* A managed descriptor of what a descriptor of O_PATH names, which is closed; or TB_NOT_MANAGED: the kernel's to open. */
int tb_open_place(int place, int flags);
#define TB_NOT_MANAGED (-2)

#endif
