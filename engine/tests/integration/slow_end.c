/*
 * Loaded into a daemon: its process ends a second after it has given up its lease, as on a machine
 * with all processors busy.
 */
#include <time.h>

__attribute__((destructor)) static void end_slowly(void)
{
    nanosleep(&(struct timespec){1, 0}, NULL);
}
