/* Watch(dicts, classes, exact, owners=()): dicts and classes that must not have changed, and objects that must keep their class and
   their `__dict__`. Normally one flag says that nothing did; what did
   change is asked about by its position, `exact(i) -> bool`, dicts first, and if the answer is yes it counts as unchanged again.

   From 3.12 on CPython tells a watcher about every store into a dict, and the flag is set there. On 3.11 the version numbers of the
   dicts are compared. (From 3.12 on those are not kept for attributes stored inline in their object.) Classes have version numbers
   everywhere. The dict itself is watched: that an object has another one since (`obj.__dict__ = {...}`), or another class, is seen of the
   owners alone. They are looked at after the dicts: what is not held by those that did not change is held here. */

typedef struct {
    PyObject_HEAD
    PyObject *dicts, *classes, *owners; /* tuples */
    PyObject *exact;
    struct Watched *watched; /* one a dict */
    uint64_t *class_versions;
    struct Owned *owned; /* one an owner */
    char changed; /* some dict was */
} Watch;

typedef struct Watched {
    struct Watched *next; /* in its chain of the table */
    Watch *watch;
    PyObject *dict; /* borrowed from watch->dicts */
    uint64_t version;
    char changed;
} Watched;

typedef struct Owned {
    PyTypeObject *type;
    PyObject **place, *dict; /* where the object has its dict, NULL if it has none; borrowed */
} Owned;

static PyTypeObject WatchType;

#if PY_VERSION_HEX >= 0x030C0000

#define CHAINS 4096
static Watched *chains[CHAINS];
static int watcher = -1;

static Watched **chain_of(PyObject *dict) { return &chains[((uintptr_t)dict >> 4) % CHAINS]; }

static int dict_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value) {
    for (Watched *w = *chain_of(dict); w; w = w->next)
        if (w->dict == dict) w->changed = w->watch->changed = 1;
    return 0;
}

/* 3.13.0 tells nobody about a store into an attribute that lives inline in its object while the dict only mirrors it. A key that
   attributes cannot have, put in and taken out, gives the dict a table of its own; then every store is a store into the dict. */
static int own_table(PyObject *dict) {
#if PY_VERSION_HEX >= 0x030D0000
    if (((PyDictObject *)dict)->ma_values == NULL) return 0;
    PyObject *key = PyTuple_Pack(1, interned_name);
    int done = key && PyDict_SetItem(dict, key, Py_None) == 0 && PyDict_DelItem(dict, key) == 0;
    Py_XDECREF(key);
    return done ? 0 : -1;
#else
    return 0;
#endif
}

static int start_watching(Watched *w) {
    if (own_table(w->dict) < 0) return -1;
    if (watcher < 0 && (watcher = PyDict_AddWatcher(dict_event)) < 0) return -1;
    if (PyDict_Watch(watcher, w->dict) < 0) return -1;
    Watched **chain = chain_of(w->dict);
    w->next = *chain;
    *chain = w;
    return 0;
}

static void stop_watching(Watched *w) {
    int others = 0;
    for (Watched **place = chain_of(w->dict); *place;) {
        if (*place == w) { *place = w->next; continue; }
        others += (*place)->dict == w->dict;
        place = &(*place)->next;
    }
    if (!others && PyDict_Unwatch(watcher, w->dict) < 0) PyErr_Clear();
}

static int any_dict_changed(Watch *w) { return w->changed; }
static int dict_changed(const Watched *w) { return w->changed; }
static void dict_accepted(Watched *w) { w->changed = 0; }
static void dict_suspected(Watched *w) { w->changed = 1; }

#else

static int start_watching(Watched *w) { w->version = ((PyDictObject *)w->dict)->ma_version_tag; return 0; }
static void stop_watching(Watched *w) {}
static int dict_changed(const Watched *w) { return ((PyDictObject *)w->dict)->ma_version_tag != w->version; }
static void dict_accepted(Watched *w) { w->version = ((PyDictObject *)w->dict)->ma_version_tag; }
static void dict_suspected(Watched *w) { w->version = 0; } /* no dict has it */

static int any_dict_changed(Watch *w) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->dicts); i++)
        if (dict_changed(&w->watched[i])) return 1;
    return 0;
}

#endif

static void accept_dicts(Watch *w) {
    w->changed = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->dicts); i++) dict_accepted(&w->watched[i]);
}

static void suspect_dicts(Watch *w) {
    w->changed = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->dicts); i++) dict_suspected(&w->watched[i]);
}

static uint64_t class_version(PyObject *cls) { /* 0: it has none */
    PyTypeObject *type = (PyTypeObject *)cls;
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) _PyType_Lookup(type, interned_name); /* gives it one, if it can have one */
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

static int ask_exact(Watch *w, Py_ssize_t i) {
    PyObject *position = PyLong_FromSsize_t(i), *answer = position ? PyObject_CallOneArg(w->exact, position) : NULL;
    int holds = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(position);
    Py_XDECREF(answer);
    return holds;
}

static int dicts_hold(Watch *w) {
    w->changed = 0; /* a change while we ask is seen next time */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->dicts); i++) {
        if (!dict_changed(&w->watched[i])) continue;
        int holds = ask_exact(w, i);
        if (holds != 1) { w->changed = 1; return holds; }
        dict_accepted(&w->watched[i]);
    }
    return 1;
}

static int classes_hold(Watch *w) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->classes); i++) {
        uint64_t version = class_version(PyTuple_GET_ITEM(w->classes, i));
        if (version != 0 && version == w->class_versions[i]) continue;
        int holds = ask_exact(w, PyTuple_GET_SIZE(w->dicts) + i);
        if (holds != 1) return holds;
        w->class_versions[i] = version;
    }
    return 1;
}

static int owners_hold(const Watch *w) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->owners); i++) {
        const Owned *o = &w->owned[i];
        if (Py_TYPE(PyTuple_GET_ITEM(w->owners, i)) != o->type || (o->place && *o->place != o->dict)) return 0;
    }
    return 1;
}

static void note_owner(Owned *o, PyObject *owner) {
    o->type = Py_TYPE(owner);
    o->place = _PyObject_GetDictPtr(owner);
    o->dict = o->place ? *o->place : NULL;
}

/* 1: unchanged, 0: changed, -1: error */
static int watch_holds(Watch *w) {
    int holds = any_dict_changed(w) ? dicts_hold(w) : 1;
    if (holds == 1) holds = owners_hold(w);
    return holds == 1 ? classes_hold(w) : holds;
}

static int check_kinds(PyObject *dicts, PyObject *classes) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dicts); i++)
        if (!PyDict_Check(PyTuple_GET_ITEM(dicts, i))) return PyErr_Format(PyExc_TypeError, "item %zd is not a dict", i), -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++)
        if (!PyType_Check(PyTuple_GET_ITEM(classes, i))) return PyErr_Format(PyExc_TypeError, "item %zd is not a class", i), -1;
    return 0;
}

static int watch_start(Watch *w) {
    Py_ssize_t n = PyTuple_GET_SIZE(w->dicts), m = PyTuple_GET_SIZE(w->classes);
    w->watched = PyMem_Calloc(n + 1, sizeof(Watched));
    w->class_versions = PyMem_Calloc(m + 1, sizeof(uint64_t));
    w->owned = PyMem_Calloc(PyTuple_GET_SIZE(w->owners) + 1, sizeof(Owned));
    if (w->watched == NULL || w->class_versions == NULL || w->owned == NULL) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->owners); i++) note_owner(&w->owned[i], PyTuple_GET_ITEM(w->owners, i));
    for (Py_ssize_t i = 0; i < n; i++) {
        Watched *one = &w->watched[i];
        *one = (Watched){.watch = w, .dict = PyTuple_GET_ITEM(w->dicts, i)};
        if (start_watching(one) < 0) { one->dict = NULL; return -1; }
    }
    for (Py_ssize_t i = 0; i < m; i++) w->class_versions[i] = class_version(PyTuple_GET_ITEM(w->classes, i));
    return 0;
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PyObject *dicts, *classes, *exact, *owners = NULL;
    if (!PyArg_ParseTuple(args, "O!O!O|O!", &PyTuple_Type, &dicts, &PyTuple_Type, &classes, &exact, &PyTuple_Type, &owners)) return NULL;
    if (check_kinds(dicts, classes) < 0) return NULL;
    Watch *w = (Watch *)type->tp_alloc(type, 0);
    if (w == NULL) return NULL;
    w->dicts = Py_NewRef(dicts);
    w->classes = Py_NewRef(classes);
    w->exact = Py_NewRef(exact);
    w->owners = owners ? Py_NewRef(owners) : PyTuple_New(0);
    if (w->owners == NULL || watch_start(w) < 0) Py_CLEAR(w);
    return (PyObject *)w;
}

static int watch_traverse(Watch *w, visitproc visit, void *arg) {
    Py_VISIT(w->dicts);
    Py_VISIT(w->classes);
    Py_VISIT(w->owners);
    Py_VISIT(w->exact);
    return 0;
}

static int watch_clear(Watch *w) {
    for (Py_ssize_t i = 0; w->watched && i < PyTuple_GET_SIZE(w->dicts) && w->watched[i].dict; i++) stop_watching(&w->watched[i]);
    PyMem_Free(w->watched);
    w->watched = NULL;
    Py_XSETREF(w->dicts, PyTuple_New(0));
    Py_XSETREF(w->owners, PyTuple_New(0));
    Py_CLEAR(w->exact);
    return 0;
}

static void watch_dealloc(Watch *w) {
    PyObject_GC_UnTrack(w);
    watch_clear(w);
    Py_CLEAR(w->dicts);
    Py_CLEAR(w->classes);
    Py_CLEAR(w->owners);
    PyMem_Free(w->class_versions);
    PyMem_Free(w->owned);
    Py_TYPE(w)->tp_free((PyObject *)w);
}

static PyObject *watch_holds_py(PyObject *self, PyObject *ignored) {
    int holds = watch_holds((Watch *)self);
    return holds < 0 ? NULL : PyBool_FromLong(holds);
}

static PyMethodDef watch_methods[] = {
    {"holds", watch_holds_py, METH_NOARGS, "Whether nothing changed."},
    {NULL},
};

static PyTypeObject WatchType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.Watch",
    .tp_doc = "Watch(dicts, classes, exact, owners=()): unchanged dicts and classes; `exact(i)` decides about the i-th when it was stored "
              "into. `owners` keep their class and their `__dict__`.",
    .tp_basicsize = sizeof(Watch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = watch_new,
    .tp_traverse = (traverseproc)watch_traverse,
    .tp_clear = (inquiry)watch_clear,
    .tp_dealloc = (destructor)watch_dealloc,
    .tp_methods = watch_methods,
};
