/*
 * Linked into a copy of the preload library (-Wl,--wrap): counts each time that the adapter
 * or the engine asks for the route of a name.
 */
#include "namespace/route.h"

static unsigned n;

__attribute__((visibility("default"))) unsigned tb_routes_counted(void);
struct tb_io *__real_tb_engine_route(tb_engine *e, const char *path, enum tb_mode *mode);
struct tb_io *__wrap_tb_engine_route(tb_engine *e, const char *path, enum tb_mode *mode);
struct tb_route __real_tb_route_of(const tb_engine *e, const char *path);
struct tb_route __wrap_tb_route_of(const tb_engine *e, const char *path);

unsigned tb_routes_counted(void)
{
    return n;
}

struct tb_io *__wrap_tb_engine_route(tb_engine *e, const char *path, enum tb_mode *mode)
{
    n++;
    return __real_tb_engine_route(e, path, mode);
}

struct tb_route __wrap_tb_route_of(const tb_engine *e, const char *path)
{
    n++;
    return __real_tb_route_of(e, path);
}
