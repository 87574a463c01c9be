/* Part of _frame.c: what is known of a code object, and who runs its frames. */

static Extra *first_sight(PyCodeObject *code, PyObject *globals) { /* NULL with an exception */
    Extra *extra = PyMem_Calloc(1, sizeof *extra);
    if (extra == NULL) return (Extra *)PyErr_NoMemory();
    extra->code = code;
    PyThreadState *thread = PyThreadState_Get();
    make_room(thread, ROOM);
    Cache *active = switch_to(NULL);
    PyObject *answer = verdict ? PyObject_CallFunctionObjArgs(verdict, code, globals, NULL) : NULL;
    long kind = answer ? PyLong_AsLong(answer) : 0;
    Py_XDECREF(answer);
    switch_to(active);
    make_room(thread, -ROOM);
    if (PyErr_Occurred()) PyErr_Clear();
    extra->flags = kind == 2 ? NEVER | OFF : kind ? NEVER : 0;
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) extra->flags |= NEVER | IMPOSSIBLE;
    if (!(code->co_flags & CO_OPTIMIZED)) extra->flags |= NEVER;
    if (set_extra((PyObject *)code, extra_index, extra) == 0) return extra;
    PyMem_Free(extra);
    return NULL;
}

static Extra *extra_of(PyCodeObject *code, PyObject *globals) {
    void *extra = NULL;
    if (get_extra((PyObject *)code, extra_index, &extra) < 0) PyErr_Clear();
    return extra ? extra : first_sight(code, globals);
}

static int is_wanted(const Extra *extra, Frame *frame) {
    if (extra->flags & IMPOSSIBLE) return 0;
    if (extra->code->co_flags & CO_OPTIMIZED) return 1;
    return frame->f_locals == frame->f_globals; /* a cell's top level; not a class body */
}

static PyObject *run_switched_off(PyThreadState *thread, Frame *frame) {
    Cache *active = switch_to(NULL);
    PyObject *result = run_as_is(thread, frame, 0);
    switch_to(active);
    return result;
}

#include "_watched.h"

static PyObject *look_at(PyThreadState *thread, Frame *frame, Cache *cache, PyCodeObject *code) {
    Extra *extra = extra_of(code, frame->f_globals);
    if (extra == NULL) { PyErr_Clear(); return run_as_is(thread, frame, 0); }
    int skipped = (extra->flags & NEVER) && ((PyObject *)code != cache->root || !is_wanted(extra, frame));
    if (skipped) return extra->flags & OFF ? run_switched_off(thread, frame) : run_as_is(thread, frame, 0);
    return __builtin_expect(is_watched(thread), 0) ? run_watched(thread, frame, extra, cache) : run_captured(thread, frame, extra, cache);
}

static PyObject *evaluate(PyThreadState *thread, Frame *frame, int throwing) {
    Cache *cache = here.active;
    if (cache == NULL || throwing) return run_as_is(thread, frame, throwing);
    PyCodeObject *code = FRAME_CODE(frame);
    if (here.moving.to == code) let_go();
    if (here.depth >= DEEPEST) return run_switched_off(thread, frame);
    here.depth++;
    PyObject *result = look_at(thread, frame, cache, code);
    here.depth--;
    return result;
}
