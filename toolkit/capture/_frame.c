/* The frame hook: PEP 523 evaluator, caches in code objects, compiled versions. Mechanism only; hook.py decides.

   Per thread, `active` is the Cache whose compiler captures frames now (NULL: the hook is off). Our evaluator is installed in the
   interpreter only while some thread is active, and hands frames that are not for us to the evaluator found before.

   Who owns what: a Cache (a Python object that the garbage collector sees) owns buckets, one per code object it met; a bucket
   owns its versions. A code object's extra slot only points at the buckets. Either side may die first; it unlinks the bucket. */

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <math.h>
#include <structmember.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* ma_version_tag: deprecated, kept up to date until 3.13 */

static PyObject *interned_name, *interned_miss, *interned_watched;

static int refuse(const char *what) {
    PyErr_SetString(PyExc_TypeError, what);
    return -1;
}

#include "_constant.h"
#include "_watch.h"
#include "_held.h"
#include "_shape.h"
#include "_program.h"
#include "_rest.h"

typedef struct _PyInterpreterFrame Frame;

#if PY_VERSION_HEX >= 0x030D0000
#define FRAME_CODE(f) ((PyCodeObject *)(f)->f_executable)
#else
#define FRAME_CODE(f) ((f)->f_code)
#endif
#if PY_VERSION_HEX >= 0x030C0000
#define FRAME_FUNCTION(f) ((PyFunctionObject *)(f)->f_funcobj)
#define request_index PyUnstable_Eval_RequestCodeExtraIndex
#define get_extra PyUnstable_Code_GetExtra
#define set_extra PyUnstable_Code_SetExtra
#else
#define FRAME_FUNCTION(f) ((f)->f_func)
#define request_index _PyEval_RequestCodeExtraIndex
#define get_extra _PyCode_GetExtra
#define set_extra _PyCode_SetExtra
#endif

/* -- records ------------------------------------------------------------------------------------------------------------------ */

struct Bucket;

typedef struct Version {
    PyObject_HEAD
    struct Version *next; /* in its bucket, which owns a reference to each */
    struct Bucket *bucket;
    Program *program;
    PyObject *code; /* None: while its guards hold, the frame runs as it is */
    PyObject *globals, *entry, *watch;
    PyObject *function; /* of `code`, with the closure seen last; NULL at first */
    PyObject *weakrefs;
    unsigned long long hits;
    char alive, idle, once; /* idle: it has no graph to run; once: it is for this call alone */
} Version;

typedef struct {
    PyObject_HEAD
    struct Bucket *buckets;
    PyObject *root; /* a code object that is always captured, or NULL */
    PyObject *dict, *weakrefs;
} Cache;

typedef struct Extra Extra;

typedef struct Bucket {
    struct Bucket *next_of_code, *next_of_cache;
    Cache *cache;
    Extra *extra;
    Version *first;
    int busy;     /* walks under way: nothing is unlinked then */
    char dead;    /* a version died during a walk */
    char as_is;   /* compile no more versions; what none of them fits runs as it is */
    char orphan;  /* its cache or code is gone */
    char told;    /* people know that it runs as it is while somebody watches */
    long made;    /* versions so far */
    int plain;    /* versions so far that run the frame as it is */
    int quiet;    /* calls in a row that one of those was for */
    long resting; /* calls that nobody looks at: they run as they are */
} Bucket;

/* never captured, unless it is a root; not even then; nor anything that it calls; a resume function */
enum { NEVER = 1, IMPOSSIBLE = 2, OFF = 4, RESUMES = 8 };
/* Code that does no tensor work must not be slowed down by looking whether it does now: after so many calls in a row only each so many is
   looked at, and after each look beyond some that found nothing again, twice as many calls as before are not. */
enum { QUIET_CALLS = 64, LOOK_EACH = 16, QUICK_LOOKS = 4, MOST_DOUBLINGS = 16 };
enum { ROOM = 20000 }; /* calls */
enum { DEEPEST = 250 }; /* calls in one another; what is called there runs as it is, for each call under a hook takes some of C's stack */
enum { IDLE_TURNS = 1000 }; /* resumptions in a row without a graph, after which the rest of a frame runs as it is */

struct Extra {
    int flags;
    PyCodeObject *code; /* borrowed: the code owns the extra */
    Bucket *buckets;
};

static Py_ssize_t extra_index = -1;
static PyTypeObject VersionType, CacheType, HookedType, DisabledType;
static PyObject *verdict; /* (code, globals) -> 0: captured, 1: not, 2: nor anything that it calls */
static PyObject *others;  /* (what captures in this thread, or None) -> what did: the switch of torch.compile's hook */

static _Thread_local struct {
    Cache *active;
    int aside, depth; /* calls of compiled functions run the original; calls in one another */
    Frame *chained; /* the frame that we handed to the evaluator before us */
    long idle;      /* resumptions in a row without a graph, in the frame that is being gone on with */
    PyObject *again; /* arguments of a frame whose graph raised and left nothing behind: it runs as it is written */
    struct {
        PyCodeObject *to; /* NULL: nothing */
        PyObject **args;
        Py_ssize_t count;
    } moving; /* arguments that a function now called shall own alone */
} here;

/* -- installing --------------------------------------------------------------------------------------------------------------- */

static _PyFrameEvalFunction previous = NULL;
static Py_ssize_t installed = 0; /* threads that are active */

static PyObject *evaluate(PyThreadState *thread, Frame *frame, int throwing);

static void install(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    installed++;
    if (now == evaluate) return;
    previous = now;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

static void uninstall(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (--installed == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate)
        _PyInterpreterState_SetEvalFrameFunc(interpreter, previous);
}

static Cache *switch_to(Cache *cache) { /* returns what was active; a reference moves in and out */
    Cache *before = here.active;
    here.active = cache;
    if (before == NULL && cache != NULL) install();
    if (before != NULL && cache == NULL) uninstall();
    return before;
}

/* What captures in this thread before us, switched off: our Python is no program of its user's. */
static PyObject *silence_others(void) {
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    if (others == NULL || now == evaluate || now == NULL || now == _PyEval_EvalFrameDefault) return NULL;
    PyObject *hook = PyObject_CallOneArg(others, Py_None);
    if (hook == NULL) PyErr_Clear();
    return hook;
}

static void let_others(PyObject *hook) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_XDECREF(PyObject_CallOneArg(others, hook));
    PyErr_Restore(type, value, trace);
    Py_DECREF(hook);
}

static PyObject *run_as_is(PyThreadState *thread, Frame *frame, int throwing) {
    int alone = previous == NULL || previous == _PyEval_EvalFrameDefault;
    if (alone || here.chained == frame) return _PyEval_EvalFrameDefault(thread, frame, throwing);
    Frame *outer = here.chained; /* two hooks that chain to each other would never end: a frame is handed over once */
    here.chained = frame;
    PyObject *result = previous(thread, frame, throwing);
    here.chained = outer;
    return result;
}

/* -- versions and buckets ------------------------------------------------------------------------------------------------------ */

static void unlink_version(Bucket *b, Version *v) {
    Version **place = &b->first;
    while (*place && *place != v) place = &(*place)->next;
    if (*place == NULL) return;
    *place = v->next;
    v->next = NULL;
    v->bucket = NULL;
    Py_DECREF(v);
}

static void sweep(Bucket *b) {
    b->dead = 0;
    for (Version *v = b->first, *next; v; v = next) {
        next = v->next;
        if (v->alive) continue;
        unlink_version(b, v);
        next = b->first; /* the deallocation may have changed the list */
    }
}

static void free_if_orphan(Bucket *b) {
    if (b->orphan && !b->busy && b->first == NULL) PyMem_Free(b);
}

static void drop_versions(Bucket *b) {
    for (Version *v = b->first; v; v = v->next) v->alive = 0;
    b->as_is = 0;
    if (b->busy) b->dead = 1; else sweep(b);
}

static void leave_bucket(Bucket *b) {
    if (--b->busy == 0 && b->dead) sweep(b);
    free_if_orphan(b);
}

static void unlink_from_code(Bucket *b) {
    if (b->extra == NULL) return;
    Bucket **place = &b->extra->buckets;
    while (*place != b) place = &(*place)->next_of_code;
    *place = b->next_of_code;
    b->extra = NULL;
}

static void unlink_from_cache(Bucket *b) {
    if (b->cache == NULL) return;
    Bucket **place = &b->cache->buckets;
    while (*place != b) place = &(*place)->next_of_cache;
    *place = b->next_of_cache;
    b->cache = NULL;
}

static void discard_bucket(Bucket *b) {
    unlink_from_code(b);
    unlink_from_cache(b);
    b->busy++;
    drop_versions(b);
    b->orphan = 1;
    leave_bucket(b);
}

static void extra_free(void *pointer) { /* the code object dies */
    Extra *extra = pointer;
    if (extra == NULL) return;
    while (extra->buckets) discard_bucket(extra->buckets);
    PyMem_Free(extra);
}

static Bucket *bucket_for(Extra *extra, Cache *cache) {
    for (Bucket *b = extra->buckets; b; b = b->next_of_code)
        if (b->cache == cache) return b;
    Bucket *b = PyMem_Calloc(1, sizeof *b);
    if (b == NULL) return (Bucket *)PyErr_NoMemory();
    b->cache = cache;
    b->extra = extra;
    b->next_of_code = extra->buckets;
    b->next_of_cache = cache->buckets;
    extra->buckets = cache->buckets = b;
    return b;
}

static void push_version(Bucket *b, Version *v) {
    b->made++;
    if (v->code == Py_None && ++b->plain > QUICK_LOOKS)
        b->resting = 1L << (b->plain - QUICK_LOOKS < MOST_DOUBLINGS ? b->plain - QUICK_LOOKS : MOST_DOUBLINGS);
    v->next = b->first;
    v->bucket = b;
    b->first = (Version *)Py_NewRef(v);
}

static void move_to_front(Bucket *b, Version *v) {
    if (b->first == v || b->busy > 1) return;
    Version **place = &b->first;
    while (*place && *place != v) place = &(*place)->next;
    if (*place == NULL) return;
    *place = v->next;
    v->next = b->first;
    b->first = v;
}

/* -- running a frame ---------------------------------------------------------------------------------------------------------- */

static int argument_count(const PyCodeObject *code) {
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
}

static Values values_of(Frame *frame) {
    PyCodeObject *code = FRAME_CODE(frame);
    PyObject *closure = FRAME_FUNCTION(frame)->func_closure;
    Py_ssize_t count = code->co_flags & CO_OPTIMIZED ? argument_count(code) : 0;
    return (Values){frame->localsplus, count, frame->f_globals, frame->f_builtins, closure};
}

#if PY_VERSION_HEX >= 0x030C0000
static PyCodeObject *return_code; /* its last instruction is RETURN_VALUE */

static _Py_CODEUNIT *return_instruction(void) { return _PyCode_CODE(return_code) + Py_SIZE(return_code) - 1; }
#endif

/* End `frame` with `result` (stolen; NULL: the exception that is set), as its evaluator would. On 3.11 the caller does that;
   from 3.12 on the evaluator must, so we let it run one RETURN_VALUE, or unwind from before the first instruction. */
static PyObject *end_frame(PyThreadState *thread, Frame *frame, PyObject *result) {
#if PY_VERSION_HEX < 0x030C0000
    return result;
#else
    PyCodeObject *code = FRAME_CODE(frame);
    if (result == NULL) {
#if PY_VERSION_HEX >= 0x030D0000
        frame->instr_ptr = _PyCode_CODE(code) - 1; /* not started, as on 3.12: the frame adds no line to the traceback */
#endif
        return _PyEval_EvalFrameDefault(thread, frame, 1);
    }
    for (int i = 0; i < code->co_nlocalsplus; i++) Py_CLEAR(frame->localsplus[i]);
    frame->localsplus[0] = result;
    frame->stacktop = 1;
#if PY_VERSION_HEX >= 0x030D0000
    frame->f_executable = Py_NewRef((PyObject *)return_code);
    frame->instr_ptr = return_instruction();
#else
    frame->f_code = (PyCodeObject *)Py_NewRef((PyObject *)return_code);
    frame->prev_instr = return_instruction() - 1;
#endif
    Py_DECREF(code);
    return _PyEval_EvalFrameDefault(thread, frame, 0);
#endif
}

static PyObject *function_with(Version *v, PyObject *closure) { /* a new reference */
    PyFunctionObject *cached = (PyFunctionObject *)v->function;
    if (cached != NULL && cached->func_closure == closure) return Py_NewRef(v->function);
    PyObject *function = PyFunction_New(v->code, v->globals);
    if (function == NULL) return NULL;
    if (closure != NULL && PyFunction_SetClosure(function, closure) < 0) { Py_DECREF(function); return NULL; }
    Py_XSETREF(v->function, Py_NewRef(function));
    return function;
}

/* Call `function`, of the code `to`; the caller lets go of the arguments as soon as the callee has them (`let_go`). */
static PyObject *call_moving(PyObject *function, PyObject *to, PyObject **args, Py_ssize_t count) {
    here.moving.to = (PyCodeObject *)to;
    here.moving.args = args;
    here.moving.count = count;
    PyObject *result = PyObject_Vectorcall(function, args, count, NULL);
    here.moving.to = NULL;
    return result;
}

static void let_go(void) {
    here.moving.to = NULL;
    for (Py_ssize_t i = 0; i < here.moving.count; i++) Py_CLEAR(here.moving.args[i]);
}

static PyObject *go_on(PyObject *result) { /* steals a result; while it is the rest of the frame, runs that */
    if (result == NULL || !Py_IS_TYPE(result, &RestType)) return result;
    long idle = here.idle;
    here.idle = 0;
    while (result != NULL && Py_IS_TYPE(result, &RestType)) {
        Rest *r = (Rest *)result;
        result = call_moving(r->function, ((PyFunctionObject *)r->function)->func_code, r->args, Py_SIZE(r));
        Py_DECREF(r);
    }
    here.idle = idle;
    return result;
}

static PyObject *run_instead(PyThreadState *thread, Frame *frame) { /* the exception that is set is the written code's business */
    PyObject *arguments = here.again;
    here.again = NULL;
    PyErr_Clear();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++) /* those that moved to the compiled code come back */
        if (frame->localsplus[i] == NULL) frame->localsplus[i] = Py_NewRef(PyTuple_GET_ITEM(arguments, i));
    Py_DECREF(arguments);
    Cache *active = switch_to(NULL);
    PyObject *result = run_as_is(thread, frame, 0);
    switch_to(active);
    return result;
}

static PyObject *run_version(PyThreadState *thread, Frame *frame, Version *v, int resumes) { /* steals v */
    PyObject *result = NULL, *function = function_with(v, FRAME_FUNCTION(frame)->func_closure);
    Py_ssize_t count = values_of(frame).count;
    v->hits++;
    here.idle = v->idle ? here.idle + 1 : 0;
    if (v->once) Py_CLEAR(v); /* what it relies on may die while it runs */
    if (function != NULL && resumes) result = call_moving(function, PyFunction_GET_CODE(function), frame->localsplus, count);
    else if (function != NULL) result = go_on(PyObject_Vectorcall(function, frame->localsplus, count, NULL));
    Py_XDECREF(function);
    Py_XDECREF(v);
    return result == NULL && here.again != NULL ? run_instead(thread, frame) : end_frame(thread, frame, result);
}

/* A new reference; with NULL maybe an exception. `*failed`: the guard that the version used last fails. */
static Version *find_version(Bucket *b, const Values *values, int *failed) {
    *failed = -1;
    for (Version *v = b->first; v; v = v->next) {
        if (!v->alive || v->globals != values->globals) continue;
        Py_INCREF(v);
        int guard, holds = program_run(v->program, values, &guard);
        if (*failed < 0) *failed = guard;
        if (holds == 1 && v->alive) {
            move_to_front(b, v);
            return v;
        }
        Py_DECREF(v);
        if (holds < 0) break;
    }
    return NULL;
}

static PyObject *versions_tuple(Bucket *b, PyObject *globals) {
    PyObject *list = PyList_New(0);
    for (Version *v = b->first; list && v; v = v->next)
        if (v->alive && v->globals == globals && PyList_Append(list, (PyObject *)v) < 0) Py_CLEAR(list);
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* cache.miss(code, globals, builtins, function, arguments, versions, failed, made) gives a Version, None (from now on such frames run as
   they are), or NotImplemented (this one does) */
static PyObject *ask_python(Bucket *b, Frame *frame, const Values *values, int failed) {
    PyObject *arguments = PyTuple_New(values->count), *versions = arguments ? versions_tuple(b, values->globals) : NULL, *answer = NULL;
    PyObject *made = PyLong_FromLong(b->made), *guard = PyLong_FromLong(failed);
    if (versions != NULL && made != NULL && guard != NULL) {
        for (Py_ssize_t i = 0; i < values->count; i++) PyTuple_SET_ITEM(arguments, i, Py_NewRef(values->args[i]));
        answer = PyObject_CallMethodObjArgs((PyObject *)b->cache, interned_miss, FRAME_CODE(frame), values->globals, values->builtins,
                                            FRAME_FUNCTION(frame), arguments, versions, guard, made, NULL);
    }
    Py_XDECREF(arguments);
    Py_XDECREF(versions);
    Py_XDECREF(made);
    Py_XDECREF(guard);
    if (answer != NULL && answer != Py_None && answer != Py_NotImplemented && !Py_IS_TYPE(answer, &VersionType)) {
        PyErr_Format(PyExc_TypeError, "miss() gave a %s, not a Version, None or NotImplemented", Py_TYPE(answer)->tp_name);
        Py_CLEAR(answer);
    }
    return answer;
}

/* No version fits. A new reference to a version; None: as it is; NULL: an exception. */
static PyObject *new_version(Bucket *b, Frame *frame, const Values *values, int failed) {
    Cache *active = switch_to(NULL);
    PyObject *answer = ask_python(b, frame, values, failed);
    switch_to(active);
    if (answer == Py_NotImplemented) Py_SETREF(answer, Py_NewRef(Py_None));
    else if (answer == Py_None) b->as_is = 1;
    else if (answer != NULL && ((Version *)answer)->once) b->made++;
    else if (answer != NULL && !b->orphan) push_version(b, (Version *)answer);
    return answer;
}

/* What looks at a frame needs Python calls of its own, however deep the program is. */
static void make_room(PyThreadState *thread, int calls) {
#if PY_VERSION_HEX >= 0x030C0000
    thread->py_recursion_remaining += calls;
#else
    thread->recursion_remaining += calls;
#endif
}

static PyObject *run_captured(PyThreadState *thread, Frame *frame, Extra *extra, Cache *cache) {
    Bucket *b = bucket_for(extra, cache);
    if (b == NULL) return end_frame(thread, frame, NULL);
    int resumes = extra->flags & RESUMES;
    if (b->resting > 0) {
        b->resting--;
        return run_as_is(thread, frame, 0);
    }
    if ((b->as_is && b->first == NULL) || (resumes && here.idle > IDLE_TURNS)) return run_as_is(thread, frame, 0);
    Values values = values_of(frame);
    int failed;
    b->busy++;
    make_room(thread, ROOM);
    here.active = NULL; /* what guards call is not captured */
    PyObject *found = (PyObject *)find_version(b, &values, &failed);
    here.active = cache;
    if (found == NULL && !PyErr_Occurred()) found = b->orphan || b->as_is ? Py_NewRef(Py_None) : new_version(b, frame, &values, failed);
    make_room(thread, -ROOM);
    int runs = found != NULL && found != Py_None && ((Version *)found)->code != Py_None;
    if (runs) b->quiet = 0;
    else if (found != Py_None && ++b->quiet > QUIET_CALLS) b->resting = LOOK_EACH - 1;
    leave_bucket(b);
    if (found == NULL) return end_frame(thread, frame, NULL);
    if (runs) return run_version(thread, frame, (Version *)found, resumes);
    Py_DECREF(found);
    return run_as_is(thread, frame, 0);
}

#include "_evaluate.h"
#include "_objects.h"

/* -- the module --------------------------------------------------------------------------------------------------------------- */

static PyObject *set_verdict(PyObject *self, PyObject *function) {
    Py_XSETREF(verdict, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyObject *set_others(PyObject *self, PyObject *function) {
    Py_XSETREF(others, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyObject *skip(PyObject *self, PyObject *code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "a code object is needed");
    Extra *extra = extra_of((PyCodeObject *)code, Py_None);
    if (extra == NULL) return NULL;
    extra->flags |= NEVER;
    Py_RETURN_NONE;
}

static PyObject *resumes(PyObject *self, PyObject *code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "a code object is needed");
    Extra *extra = extra_of((PyCodeObject *)code, Py_None);
    if (extra == NULL) return NULL;
    extra->flags = RESUMES; /* captured as the code was that it goes on for, a library's root perhaps */
    Py_RETURN_NONE;
}

static PyObject *again(PyObject *self, PyObject *arguments) {
    if (!PyTuple_Check(arguments)) return PyErr_Format(PyExc_TypeError, "a tuple is needed");
    Py_XSETREF(here.again, Py_NewRef(arguments));
    Py_RETURN_NONE;
}

static PyObject *active(PyObject *self, PyObject *ignored) { return Py_NewRef(here.active ? (PyObject *)here.active : Py_None); }

static PyObject *step_aside(PyObject *self, PyObject *yes) {
    int wanted = PyObject_IsTrue(yes), before = here.aside;
    if (wanted < 0) return NULL;
    here.aside = wanted;
    return PyBool_FromLong(before);
}

static PyObject *is_installed(PyObject *self, PyObject *ignored) {
    return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate);
}

static PyMethodDef functions[] = {
    {"set_verdict", set_verdict, METH_O, "The function (code, globals) -> int asked at the first sight of a code object."},
    {"set_others", set_others, METH_O, "The function that sets who else captures in this thread, and answers who did."},
    {"skip", skip, METH_O, "Frames of this code run as they are, unless it is a cache's root."},
    {"resumes", resumes, METH_O, "This code goes on for other code: only what `rest` gives calls it."},
    {"rest", (PyCFunction)(void (*)(void))rest, METH_FASTCALL, "rest(function, *arguments): for a compiled frame to return."},
    {"again", again, METH_O, "A compiled frame with these arguments is about to raise: its original code runs instead."},
    {"active", active, METH_NOARGS, "The Cache active in this thread, or None."},
    {"step_aside", step_aside, METH_O, "Whether calls of compiled functions in this thread run the original, from now on; what held before."},
    {"is_installed", is_installed, METH_NOARGS, "Whether our evaluator is the interpreter's now."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_frame", "The frame hook's mechanism; see hook.py.", -1, functions};

static int add_names(PyObject *module, const char *name, const char *const *names, int count) {
    PyObject *table = PyDict_New();
    for (int i = 0; table && i < count; i++) {
        PyObject *number = PyLong_FromLong(i);
        if (number == NULL || PyDict_SetItemString(table, names[i], number) < 0) Py_CLEAR(table);
        Py_XDECREF(number);
    }
    int done = table ? PyModule_AddObjectRef(module, name, table) : -1;
    Py_XDECREF(table);
    return done;
}

static int prepare(PyObject *module) {
    interned_name = PyUnicode_InternFromString("__name__");
    interned_miss = PyUnicode_InternFromString("miss");
    interned_watched = PyUnicode_InternFromString("watched");
    extra_index = request_index(extra_free);
    if (!interned_name || !interned_miss || !interned_watched || extra_index < 0) return -1;
#if PY_VERSION_HEX >= 0x030C0000
    return_code = (PyCodeObject *)Py_CompileString("x", "<fuselab>", Py_eval_input);
    if (return_code == NULL) return -1;
#endif
    PyTypeObject *types[] = {&WatchType, &HeldType, &RestType, &ProgramType, &VersionType, &CacheType, &HookedType, &DisabledType};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyModule_AddType(module, types[i]) < 0) return -1;
    if (add_names(module, "ACCESS", access_names, A_COUNT) < 0 || add_names(module, "CHECK", check_names, C_COUNT) < 0) return -1;
    return add_names(module, "LAST", last_names, L_COUNT) < 0 || add_names(module, "SHAPE", shape_names, S_COUNT) < 0 ? -1 : 0;
}

PyMODINIT_FUNC PyInit__frame(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && prepare(module) < 0) Py_CLEAR(module);
    return module;
}
