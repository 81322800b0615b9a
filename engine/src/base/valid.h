/*
 * What must hold, checked at two levels.
 *
 *   cheap  tb_ROOM_is_valid, by assert, in every build: a few loads and compares of one record, so that it may be on
 *          the way of every call.
 *   whole  tb_ROOM_is_whole, by TB_ASSERT_WHOLE, in builds that look for defects (TB_CHECKED: sanitizers and
 *          fuzzing; TB_STEPS: stress and steps): it walks lists. Elsewhere nothing of it is compiled, but its names are checked.
 *
 * An assert is about what only this code can break. What input, a file system, a full device or another process can
 * cause is an error of the call. A region is shared with processes that may be killed at any instruction: so an assert
 * about shared state needs the lock that makes it true, and must be true after the repair of a killed holder too. It
 * must never end a program because another one was killed.
 */
#ifndef TB_BASE_VALID_H
#define TB_BASE_VALID_H

#include <assert.h>

#if defined(TB_CHECKED) || defined(TB_STEPS)
#define TB_ASSERT_WHOLE(condition) assert(condition)
#else
#define TB_ASSERT_WHOLE(condition) ((void)sizeof(!(condition)))
#endif

#endif
