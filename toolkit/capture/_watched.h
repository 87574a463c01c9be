/* Part of _frame.c: frames that somebody looks at line by line. */

/* Does somebody look at every line: a debugger, a measure of coverage? Profilers are told what is compiled. */
static int is_watched(PyThreadState *thread) {
    if (thread->c_tracefunc != NULL) return 1;
#if PY_VERSION_HEX >= 0x030C0000
    enum { PROFILERS = 1 << 2 | 1 << 6, SETTRACE = 1 << 7 }; /* the last is there for all threads if one has a trace function */
    const uint8_t *tools = thread->interp->monitors.tools;
    return (tools[PY_MONITORING_EVENT_PY_START] | tools[PY_MONITORING_EVENT_LINE]) & ~(PROFILERS | SETTRACE);
#else
    return 0;
#endif
}

/* A frame somebody watches runs as it is. People are told once. */
__attribute__((noinline, cold)) static PyObject *run_watched(PyThreadState *thread, Frame *frame, Extra *extra, Cache *cache) {
    Bucket *b = bucket_for(extra, cache);
    if (b == NULL) return end_frame(thread, frame, NULL);
    if (!b->told && !thread->tracing) {
        b->told = 1;
        Cache *active = switch_to(NULL);
        PyThreadState_EnterTracing(thread);
        PyObject *answer = PyObject_CallMethodOneArg((PyObject *)cache, interned_watched, (PyObject *)FRAME_CODE(frame));
        PyThreadState_LeaveTracing(thread);
        switch_to(active);
        if (answer == NULL) return end_frame(thread, frame, NULL);
        Py_DECREF(answer);
    }
    return run_as_is(thread, frame, 0);
}
