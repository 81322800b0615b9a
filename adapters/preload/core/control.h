/*
 * What other adapters in the same process ask of the preload library about one file. Found
 * by name, so that no adapter is linked with it:
 *
 *   tb_adapter_advise_function *f = (tb_adapter_advise_function *)dlsym(RTLD_DEFAULT, "tb_adapter_advise");
 *
 * Each takes the file by its path, through a descriptor that this process has open. They
 * return what the functions of engine.h return, and: -ENODEV this process has no instance;
 * -ENOENT no such file, or under no managed prefix; -EBADF this process has it not open.
 */
#ifndef TB_PRELOAD_CONTROL_H
#define TB_PRELOAD_CONTROL_H

#include <tierbench/engine.h>

typedef int tb_adapter_promise_function(const char *path, enum tb_mode *mode, enum tb_fsync *fsync);
typedef int tb_adapter_set_mode_function(const char *path, enum tb_mode mode);
typedef int tb_adapter_set_fsync_function(const char *path, enum tb_fsync fsync);
/* For every descriptor of the file that this process has. */
typedef int tb_adapter_advise_function(const char *path, enum tb_hint hint);

tb_adapter_promise_function tb_adapter_promise;
tb_adapter_set_mode_function tb_adapter_set_mode;
tb_adapter_set_fsync_function tb_adapter_set_fsync;
tb_adapter_advise_function tb_adapter_advise;

#endif
