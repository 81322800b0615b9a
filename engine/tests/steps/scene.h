/*
 * A file of an instance, and two actors that meet at a named point of the engine
 * (base/kill_point.h): when one comes there, the other does its part, in the same
 * thread if no lock is held, else in another.
 */
#ifndef TB_TEST_SCENE_H
#define TB_TEST_SCENE_H

#include "fixture.h"

#include <pthread.h>
#include <semaphore.h>

struct scene {
    struct fixture x;
    int fd, other; /* the file "f", and one that a part made */
    uint32_t file;
    pthread_t beside;
    sem_t waits, goes_on;
    ssize_t read;
    char byte;
};

typedef void scene_part(struct scene *s);
typedef ssize_t scene_reader(struct scene *s, int fd, void *to, size_t n, off_t at);

/* For cmocka: each test has a scene, which is checked and removed at its end. */
#define scene_test(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)
int scene_setup(void **state);
int scene_teardown(void **state);

/* With a configuration of its own: change s->x.config between the two. */
int scene_prepare(void **state);
void scene_start(struct scene *s);

/* Once, when this thread comes to `at`; every meeting must have been by the scene's end. */
void meet(struct scene *s, const char *at, scene_part *part);
/* In another thread, which has time enough to come first, should nothing hold it up; what it does may wait for this one. */
void meet_beside(struct scene *s, const char *at, scene_part *part);
void begin_beside(struct scene *s, scene_part *part);
void end_beside(struct scene *s);
void all_met(void);
void forget_meetings(void);

/* Another client with a descriptor of its own. It does its part, and is killed in it (meet with `die`) or after it. */
void by_killed_client(struct scene *s, scene_part *part);
scene_part die;

/* Operations that must go well. */
void put(struct scene *s, char what, size_t n, off_t at);
void cut(struct scene *s, off_t size);
void sync_file(struct scene *s);
void flush(struct scene *s);
void become_coherent(struct scene *s);
int make(struct scene *s, const char *name);
void close_file(struct scene *s, int fd);
void unlink_name(struct scene *s, const char *name);
void rename_name(struct scene *s, const char *from, const char *to);
/* The one dirty buffer, as the organizer would move it. What tb_move returned. */
int move_first(struct scene *s);
/* As if no buffer of the slab were free, until its free ones are shown again. */
void hide_free(struct tb_slab *slab, struct tb_slab *hidden);
void show_free(struct tb_slab *slab, const struct tb_slab *hidden);

/* The region is lost: what recovery puts on the PFS. */
int recover(struct scene *s);

scene_reader by_engine, by_kernel;
void expect(struct scene *s, int fd, scene_reader *from, char what, size_t n, off_t at);
void expect_size(struct scene *s, off_t size);
void expect_dirty(struct scene *s, uint32_t n);
bool is_unlinked(struct scene *s, int fd);

#endif
