/* The Python types of the hook: Version, Cache, Hooked, disabled. */

static PyObject *bound_to(PyObject *self, PyObject *object, PyObject *type) { /* __get__: a method of what it is looked up on */
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

/* -- Version ------------------------------------------------------------------------------------------------------------------ */

static PyObject *version_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PyObject *program, *code, *globals, *entry;
    int idle = 0, once = 0;
    if (!PyArg_ParseTuple(args, "O!OO!O|pp", &ProgramType, &program, &code, &PyDict_Type, &globals, &entry, &idle, &once)) return NULL;
    if (code != Py_None && !PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "a code object or None is needed");
    Extra *extra = code == Py_None ? NULL : extra_of((PyCodeObject *)code, globals);
    if (code != Py_None && extra == NULL) return NULL;
    if (extra) extra->flags |= NEVER; /* compiled code itself is not captured */
    Version *v = (Version *)type->tp_alloc(type, 0);
    if (v == NULL) return NULL;
    v->program = (Program *)Py_NewRef(program);
    v->code = Py_NewRef(code);
    v->globals = Py_NewRef(globals);
    v->entry = Py_NewRef(entry);
    v->alive = 1;
    v->idle = idle;
    v->once = once;
    return (PyObject *)v;
}

/* Code objects hide their constants from the garbage collector, and compiled code holds much of what it needs as constants: tensors,
   graphs, perhaps its own wrapper. So a version shows the constants itself, as long as nobody else can reach the code: its owners are
   the version and its function, if nobody else has that. A running frame would be one more. */
static int code_is_ours(const Version *v) {
    if (v->code == NULL || v->code == Py_None || (v->function != NULL && Py_REFCNT(v->function) > 1)) return 0;
    return Py_REFCNT(v->code) == 1 + (v->function != NULL);
}

static int version_traverse(Version *v, visitproc visit, void *arg) {
    if (code_is_ours(v)) Py_VISIT(((PyCodeObject *)v->code)->co_consts);
    Py_VISIT(v->program);
    Py_VISIT(v->globals);
    Py_VISIT(v->entry);
    Py_VISIT(v->watch);
    Py_VISIT(v->function);
    return 0;
}

static int version_clear(Version *v) {
    v->alive = 0;
    Py_CLEAR(v->entry);
    Py_CLEAR(v->watch);
    Py_CLEAR(v->function);
    Py_CLEAR(v->code);
    return 0;
}

static void version_dealloc(Version *v) {
    PyObject_GC_UnTrack(v);
    if (v->weakrefs) PyObject_ClearWeakRefs((PyObject *)v);
    version_clear(v);
    Py_CLEAR(v->program);
    Py_CLEAR(v->globals);
    Py_TYPE(v)->tp_free((PyObject *)v);
}

static PyObject *version_invalidate(PyObject *self, PyObject *ignored) {
    Version *v = (Version *)self;
    Bucket *b = v->bucket;
    v->alive = 0;
    if (b != NULL && b->busy) b->dead = 1;
    else if (b != NULL) unlink_version(b, v);
    Py_RETURN_NONE;
}

static PyMethodDef version_methods[] = {
    {"invalidate", version_invalidate, METH_NOARGS, "Never run this version again."},
    {NULL},
};

static PyMemberDef version_members[] = {
    {"entry", T_OBJECT, offsetof(Version, entry), READONLY, "The Entry it was made from."},
    {"code", T_OBJECT, offsetof(Version, code), READONLY, "The compiled code object."},
    {"program", T_OBJECT, offsetof(Version, program), READONLY, "The guard program."},
    {"watch", T_OBJECT, offsetof(Version, watch), 0, "Whatever must live as long as the version: weak references, mostly."},
    {"hits", T_ULONGLONG, offsetof(Version, hits), READONLY, "How often it ran."},
    {"alive", T_BOOL, offsetof(Version, alive), READONLY, "False once invalidated."},
    {NULL},
};

static PyTypeObject VersionType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.Version",
    .tp_doc = "Version(program, code, globals, entry, idle=False, once=False): one compiled version of a code object; code None: it runs as it "
              "is.",
    .tp_basicsize = sizeof(Version),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = version_new,
    .tp_traverse = (traverseproc)version_traverse,
    .tp_clear = (inquiry)version_clear,
    .tp_dealloc = (destructor)version_dealloc,
    .tp_methods = version_methods,
    .tp_members = version_members,
    .tp_weaklistoffset = offsetof(Version, weakrefs),
};

/* -- Cache -------------------------------------------------------------------------------------------------------------------- */

static int cache_traverse(Cache *c, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(c));
    Py_VISIT(c->dict);
    for (Bucket *b = c->buckets; b; b = b->next_of_cache)
        for (Version *v = b->first; v; v = v->next) Py_VISIT(v);
    return 0;
}

static int cache_clear(Cache *c) {
    while (c->buckets) discard_bucket(c->buckets);
    Py_CLEAR(c->root);
    Py_CLEAR(c->dict);
    return 0;
}

static void cache_dealloc(Cache *c) {
    PyTypeObject *type = Py_TYPE(c);
    PyObject_GC_UnTrack(c);
    if (c->weakrefs) PyObject_ClearWeakRefs((PyObject *)c);
    cache_clear(c);
    type->tp_free((PyObject *)c);
}

static PyObject *cache_forget(PyObject *self, PyObject *ignored) {
    Cache *c = (Cache *)self;
    for (Bucket *b = c->buckets; b; b = b->next_of_cache) b->as_is = 0;
    while (c->buckets) discard_bucket(c->buckets);
    Py_RETURN_NONE;
}

static PyObject *cache_versions(PyObject *self, PyObject *ignored) {
    PyObject *list = PyList_New(0);
    for (Bucket *b = ((Cache *)self)->buckets; list && b; b = b->next_of_cache)
        for (Version *v = b->first; list && v; v = v->next)
            if (v->alive && PyList_Append(list, (PyObject *)v) < 0) Py_CLEAR(list);
    return list;
}

static PyMethodDef cache_methods[] = {
    {"forget", cache_forget, METH_NOARGS, "Drop every version and every decision to run code as it is."},
    {"versions", cache_versions, METH_NOARGS, "The versions alive, of all code objects."},
    {NULL},
};

static PyMemberDef cache_members[] = {
    {"root", T_OBJECT, offsetof(Cache, root), 0, "The code object that is always captured, or None."},
    {"__dictoffset__", T_PYSSIZET, offsetof(Cache, dict), READONLY},
    {NULL},
};

static PyTypeObject CacheType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.Cache",
    .tp_doc = "Everything one compiler compiled. A subclass has the method `miss` that hook.py documents.",
    .tp_basicsize = sizeof(Cache),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_traverse = (traverseproc)cache_traverse,
    .tp_clear = (inquiry)cache_clear,
    .tp_dealloc = (destructor)cache_dealloc,
    .tp_methods = cache_methods,
    .tp_members = cache_members,
    .tp_dictoffset = offsetof(Cache, dict),
    .tp_weaklistoffset = offsetof(Cache, weakrefs),
};

/* -- Hooked and disabled: callables that run a function with a cache active, or with none ------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *wrapped;
    Cache *cache; /* NULL: disabled */
    vectorcallfunc call;
    PyObject *dict, *weakrefs;
} Wrapper;

static PyObject *wrapper_call(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
    Wrapper *w = (Wrapper *)self;
    if (w->wrapped == NULL) return PyErr_Format(PyExc_TypeError, "%s was not initialised", Py_TYPE(self)->tp_name);
    Cache *mine = here.aside ? NULL : (Cache *)Py_XNewRef((PyObject *)w->cache);
    PyObject *function = Py_NewRef(w->wrapped), *silenced = here.active == NULL && mine ? silence_others() : NULL;
    Cache *before = switch_to(mine);
    PyObject *result = PyObject_Vectorcall(function, args, count, names);
    switch_to(before);
    if (silenced) let_others(silenced);
    Py_DECREF(function);
    Py_XDECREF(mine);
    return result;
}

static PyObject *wrapper_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    Wrapper *w = (Wrapper *)type->tp_alloc(type, 0);
    if (w != NULL) w->call = wrapper_call;
    return (PyObject *)w;
}

static int wrapper_set(PyObject *self, PyObject *function, PyObject *cache) {
    Wrapper *w = (Wrapper *)self;
    if (!PyCallable_Check(function)) return PyErr_Format(PyExc_TypeError, "%R cannot be called", function), -1;
    Py_XSETREF(w->wrapped, Py_NewRef(function));
    Py_XSETREF(w->cache, (Cache *)Py_XNewRef(cache));
    return 0;
}

static int hooked_init(PyObject *self, PyObject *args, PyObject *kw) {
    PyObject *function, *cache;
    static char *names[] = {"fn", "cache", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kw, "OO!", names, &function, &CacheType, &cache)) return -1;
    return wrapper_set(self, function, cache);
}

static int disabled_init(PyObject *self, PyObject *args, PyObject *kw) {
    PyObject *function;
    if (!PyArg_ParseTuple(args, "O", &function)) return -1;
    return wrapper_set(self, function, NULL);
}

static int wrapper_traverse(Wrapper *w, visitproc visit, void *arg) {
    Py_VISIT(w->wrapped);
    Py_VISIT(w->cache);
    Py_VISIT(w->dict);
    return 0;
}

static int wrapper_clear(Wrapper *w) {
    Py_CLEAR(w->wrapped);
    Py_CLEAR(w->cache);
    Py_CLEAR(w->dict);
    return 0;
}

static void wrapper_dealloc(Wrapper *w) {
    PyObject_GC_UnTrack(w);
    if (w->weakrefs) PyObject_ClearWeakRefs((PyObject *)w);
    wrapper_clear(w);
    Py_TYPE(w)->tp_free((PyObject *)w);
}

/* Until 3.12 a Python subclass does not inherit the fast call. */
static PyObject *hooked_init_subclass(PyObject *cls, PyObject *ignored) {
    if (PyObject_HasAttrString(cls, "__call__")) ((PyTypeObject *)cls)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    Py_RETURN_NONE;
}

static PyMethodDef hooked_methods[] = {
    {"__init_subclass__", hooked_init_subclass, METH_CLASS | METH_NOARGS, "Subclasses are called as fast as this class."},
    {NULL},
};

static PyMemberDef wrapper_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Wrapper, wrapped), READONLY, "The function that runs."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapper, call), READONLY},
    {"cache", T_OBJECT, offsetof(Wrapper, cache), READONLY, "The Cache active meanwhile; None: the hook is off."},
    {NULL},
};

static PyGetSetDef wrapper_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL},
};

#define WRAPPER_TYPE                                                                                                                   \
    .tp_basicsize = sizeof(Wrapper), .tp_new = wrapper_new, .tp_traverse = (traverseproc)wrapper_traverse,                              \
    .tp_clear = (inquiry)wrapper_clear, .tp_dealloc = (destructor)wrapper_dealloc, .tp_call = PyVectorcall_Call,                         \
    .tp_vectorcall_offset = offsetof(Wrapper, call), .tp_descr_get = bound_to, .tp_members = wrapper_members,                           \
    .tp_getset = wrapper_getset, .tp_dictoffset = offsetof(Wrapper, dict), .tp_weaklistoffset = offsetof(Wrapper, weakrefs),             \
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR

static PyTypeObject HookedType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.Hooked",
    .tp_doc = "Hooked(fn, cache): calls fn with `cache` active in this thread. Binds as a method; subclasses stay fast.",
    .tp_init = hooked_init,
    .tp_methods = hooked_methods,
    WRAPPER_TYPE,
};

static PyTypeObject DisabledType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.disabled",
    .tp_doc = "disabled(fn): calls fn with the hook off in this thread.",
    .tp_init = disabled_init,
    WRAPPER_TYPE,
};
