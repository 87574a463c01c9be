/* Watch(dicts, classes, exact): dicts and classes that must not have changed. The fast test compares version numbers, which
   CPython moves at every store; when one moved, `exact()` decides, and a yes takes the new numbers. */

typedef struct {
    PyObject_HEAD
    PyObject *dicts, *classes; /* tuples */
    PyObject *exact;           /* () -> bool */
    uint64_t *versions;        /* of the dicts, then of the classes */
    int armed;
} Watch;

static PyTypeObject WatchType;

static uint64_t class_version(PyObject *cls) {
    PyTypeObject *type = (PyTypeObject *)cls;
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

static void watch_arm(Watch *w) {
    Py_ssize_t n = PyTuple_GET_SIZE(w->dicts), m = PyTuple_GET_SIZE(w->classes);
    for (Py_ssize_t i = 0; i < n; i++) w->versions[i] = ((PyDictObject *)PyTuple_GET_ITEM(w->dicts, i))->ma_version_tag;
    for (Py_ssize_t i = 0; i < m; i++) {
        PyObject *cls = PyTuple_GET_ITEM(w->classes, i);
        _PyType_Lookup((PyTypeObject *)cls, interned_name); /* gives the class a version if it can have one */
        w->versions[n + i] = class_version(cls);
    }
    w->armed = 1;
}

static int watch_fast(Watch *w) {
    if (!w->armed) return 0;
    Py_ssize_t n = PyTuple_GET_SIZE(w->dicts), m = PyTuple_GET_SIZE(w->classes);
    PyObject **dicts = &PyTuple_GET_ITEM(w->dicts, 0);
    for (Py_ssize_t i = 0; i < n; i++)
        if (((PyDictObject *)dicts[i])->ma_version_tag != w->versions[i]) return 0;
    for (Py_ssize_t i = 0; i < m; i++) {
        uint64_t version = class_version(PyTuple_GET_ITEM(w->classes, i));
        if (version == 0 || version != w->versions[n + i]) return 0;
    }
    return 1;
}

/* 1: unchanged, 0: changed, -1: error */
static int watch_holds(Watch *w) {
    if (watch_fast(w)) return 1;
    w->armed = 0;
    watch_arm(w); /* before `exact`: a change during it is seen next time */
    PyObject *answer = PyObject_CallNoArgs(w->exact);
    if (answer == NULL) { w->armed = 0; return -1; }
    int holds = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    if (holds != 1) w->armed = 0;
    return holds;
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PyObject *dicts, *classes, *exact;
    if (!PyArg_ParseTuple(args, "O!O!O", &PyTuple_Type, &dicts, &PyTuple_Type, &classes, &exact)) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dicts); i++)
        if (!PyDict_Check(PyTuple_GET_ITEM(dicts, i))) return PyErr_Format(PyExc_TypeError, "item %zd is not a dict", i);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++)
        if (!PyType_Check(PyTuple_GET_ITEM(classes, i))) return PyErr_Format(PyExc_TypeError, "item %zd is not a class", i);
    Watch *w = (Watch *)type->tp_alloc(type, 0);
    if (w == NULL) return NULL;
    w->dicts = Py_NewRef(dicts);
    w->classes = Py_NewRef(classes);
    w->exact = Py_NewRef(exact);
    w->versions = PyMem_Calloc(PyTuple_GET_SIZE(dicts) + PyTuple_GET_SIZE(classes) + 1, sizeof *w->versions);
    if (w->versions == NULL) { Py_DECREF(w); return PyErr_NoMemory(); }
    return (PyObject *)w;
}

static int watch_traverse(Watch *w, visitproc visit, void *arg) {
    Py_VISIT(w->dicts);
    Py_VISIT(w->classes);
    Py_VISIT(w->exact);
    return 0;
}

static int watch_clear(Watch *w) {
    Py_CLEAR(w->exact);
    return 0;
}

static void watch_dealloc(Watch *w) {
    PyObject_GC_UnTrack(w);
    watch_clear(w);
    Py_CLEAR(w->dicts);
    Py_CLEAR(w->classes);
    PyMem_Free(w->versions);
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
    .tp_doc = "Watch(dicts, classes, exact): unchanged dicts and classes, by version numbers, then by exact().",
    .tp_basicsize = sizeof(Watch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = watch_new,
    .tp_traverse = (traverseproc)watch_traverse,
    .tp_clear = (inquiry)watch_clear,
    .tp_dealloc = (destructor)watch_dealloc,
    .tp_methods = watch_methods,
};
