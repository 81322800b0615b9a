#ifndef TB_BASE_ERROR_H
#define TB_BASE_ERROR_H

#define TB_ERROR_MAX 1024

/* A message for the user; the text is empty if nothing is wrong. */
struct tb_error {
    char text[TB_ERROR_MAX];
};

#endif
