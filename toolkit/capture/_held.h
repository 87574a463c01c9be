/* Held(tensors, functions, offset, descriptor, (window, meta, flag)): tensors that compiled code holds itself, and what it knows of each: type, dtype,
   device, sizes, strides, requires_grad. In-place changes (`p.data = ...`, `requires_grad_`) leave no other trace.

   TensorGuards answers this too, in some 90 ns a tensor. The C functions of torch's stable ABI that read one property each need 2 ns;
   their handle is the address of an at::Tensor, which a Python tensor contains at `offset` (_torch.py finds it, and verifies it). That ABI
   has no requires_grad: TensorImpl's own method answers, or, where it is not exported, the getter of the Python attribute (40 ns). */

typedef int32_t (*read_long)(void *tensor, int64_t *out);
typedef int32_t (*read_int)(void *tensor, int32_t *out);
typedef int32_t (*read_array)(void *tensor, int64_t **out);
typedef _Bool (*read_impl)(const void *impl); /* c10::TensorImpl::requires_grad() const */

enum { R_DIM, R_SIZES, R_STRIDES, R_DTYPE, R_DEVICE_TYPE, R_DEVICE_INDEX, R_REQUIRES_GRAD, R_COUNT }; /* the order of `functions` */

enum { WINDOW = 15 }; /* sizes and strides (11), offset, element count, dtype with device and flags, dispatch keys */

typedef struct {
    PyTypeObject *type;
    PyObject *requires_grad; /* True or False, borrowed */
    int64_t dim, *sizes; /* then the strides, in the same block */
    int32_t dtype, device_type, device_index;
    void *impl; /* NULL: the words do not tell, ask */
    uint64_t words[WINDOW];
} Known;

typedef struct {
    PyObject_HEAD
    PyObject *tensors, *descriptor;
    void *functions[R_COUNT];
    Py_ssize_t offset, window, meta, flag, known_count;
    Known *known;
} Held;

static PyTypeObject HeldType;

static void *handle_of(const Held *h, PyObject *tensor) { return (char *)tensor + h->offset; }

static PyObject *requires_grad(const Held *h, PyObject *tensor) { /* True or False, borrowed */
    read_impl method = (read_impl)h->functions[R_REQUIRES_GRAD];
    if (method != NULL) return method(*(void **)handle_of(h, tensor)) ? Py_True : Py_False;
    PyGetSetDef *getset = ((PyGetSetDescrObject *)h->descriptor)->d_getset;
    PyObject *answer = getset->get(tensor, getset->closure);
    if (answer == NULL) { PyErr_Clear(); return NULL; }
    Py_DECREF(answer); /* True and False stay alive */
    return answer;
}

static int read_small(const Held *h, void *handle, Known *k) { /* 0: done */
    return ((read_long)h->functions[R_DIM])(handle, &k->dim) || ((read_int)h->functions[R_DTYPE])(handle, &k->dtype) ||
           ((read_int)h->functions[R_DEVICE_TYPE])(handle, &k->device_type) ||
           ((read_int)h->functions[R_DEVICE_INDEX])(handle, &k->device_index);
}

static int read_dims(const Held *h, void *handle, int64_t **sizes, int64_t **strides) {
    return ((read_array)h->functions[R_SIZES])(handle, sizes) || ((read_array)h->functions[R_STRIDES])(handle, strides);
}

static const uint64_t *words_of(const Held *h, const void *impl) { return (const uint64_t *)((const char *)impl + h->window); }

static int words_are(const uint64_t *now, const Known *k) {
    uint64_t different = 0;
    for (int i = 0; i < WINDOW; i++) different |= now[i] ^ k->words[i];
    return different == 0;
}

static int gradient_is(const Held *h, const char *impl, PyObject *expected) { /* 0: ask; a result of autograd has no flag set */
    if (h->meta <= 0) return 0;
    const char *known = *(char *const *)(impl + h->meta);
    return expected == Py_True ? known != NULL && known[h->flag] == 1 : known == NULL;
}

static int tensor_is(const Held *h, PyObject *tensor, const Known *k) {
    void *impl = *(void **)handle_of(h, tensor);
    if (impl == k->impl && words_are(words_of(h, impl), k))
        return Py_TYPE(tensor) == k->type && (gradient_is(h, impl, k->requires_grad) || requires_grad(h, tensor) == k->requires_grad);
    Known now;
    int64_t *sizes, *strides;
    void *handle = handle_of(h, tensor);
    if (Py_TYPE(tensor) != k->type || read_small(h, handle, &now) || now.dim != k->dim || now.dtype != k->dtype) return 0;
    if (now.device_type != k->device_type || now.device_index != k->device_index || read_dims(h, handle, &sizes, &strides)) return 0;
    size_t bytes = k->dim * sizeof(int64_t);
    if (memcmp(sizes, k->sizes, bytes) != 0 || memcmp(strides, k->sizes + k->dim, bytes) != 0) return 0;
    return requires_grad(h, tensor) == k->requires_grad;
}

enum { AHEAD = 4 }; /* a model's tensors are spread over more memory than the first cache holds: ask for the next ones in time */

static void fetch(const Held *h, PyObject *tensor, const Known *k) {
    const char *impl = k->impl;
    __builtin_prefetch(tensor);
    if (impl == NULL) return;
    __builtin_prefetch(impl);
    __builtin_prefetch(impl + h->window);
    __builtin_prefetch(impl + h->window + sizeof(k->words));
}

/* Whether all are as they were, and none of `others` is one of them. */
static int held_hold(const Held *h, PyObject *const *others, Py_ssize_t count) {
    PyObject *const *tensors = &PyTuple_GET_ITEM(h->tensors, 0);
    for (Py_ssize_t i = 0; i < h->known_count; i++) {
        if (i + AHEAD < h->known_count) fetch(h, tensors[i + AHEAD], &h->known[i + AHEAD]);
        if (!tensor_is(h, tensors[i], &h->known[i])) return 0;
        for (Py_ssize_t j = 0; j < count; j++)
            if (others[j] == tensors[i]) return 0;
    }
    return 1;
}

static int learn(Held *h, PyObject *tensor, Known *k) {
    int64_t *sizes, *strides;
    void *handle = handle_of(h, tensor);
    if (read_small(h, handle, k) || read_dims(h, handle, &sizes, &strides)) return refuse("a tensor cannot be read");
    size_t bytes = k->dim * sizeof(int64_t);
    k->type = Py_TYPE(tensor);
    k->requires_grad = requires_grad(h, tensor);
    k->sizes = PyMem_Malloc(2 * bytes + 1);
    if (k->sizes == NULL) return PyErr_NoMemory(), -1;
    memcpy(k->sizes, sizes, bytes);
    memcpy(k->sizes + k->dim, strides, bytes);
    void *impl = *(void **)handle;
    if (h->window > 0 && (char *)sizes == (char *)impl + h->window + sizeof(uint64_t)) { /* kept inside, as in the experiment */
        k->impl = impl;
        memcpy(k->words, words_of(h, impl), sizeof(k->words));
    }
    return 0;
}

static int held_start(Held *h, PyObject *addresses) {
    for (int i = 0; i < R_COUNT; i++) h->functions[i] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, i));
    if (PyErr_Occurred()) return -1;
    Py_ssize_t n = PyTuple_GET_SIZE(h->tensors);
    h->known = PyMem_Calloc(n + 1, sizeof(Known));
    if (h->known == NULL) return PyErr_NoMemory(), -1;
    for (; h->known_count < n; h->known_count++)
        if (learn(h, PyTuple_GET_ITEM(h->tensors, h->known_count), &h->known[h->known_count]) < 0) return -1;
    return 0;
}

static int held_arguments_are_sound(PyObject *tensors, PyObject *addresses, PyObject *descriptor, Py_ssize_t offset, const Py_ssize_t *places) {
    if (PyTuple_GET_SIZE(addresses) != R_COUNT) return 0;
    for (int i = 0; i < 3; i++)
        if (places[i] < 0 || places[i] >= 512) return 0;
    PyTypeObject *base = ((PyDescrObject *)descriptor)->d_type;
    if (offset < 0 || offset + (Py_ssize_t)sizeof(void *) > base->tp_basicsize) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++)
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(tensors, i), base)) return 0;
    return 1;
}

static PyObject *held_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PyObject *tensors, *addresses, *descriptor;
    Py_ssize_t offset, places[3];
    if (!PyArg_ParseTuple(args, "O!O!nO!(nnn)", &PyTuple_Type, &tensors, &PyTuple_Type, &addresses, &offset, &PyGetSetDescr_Type, &descriptor,
                          &places[0], &places[1], &places[2]))
        return NULL;
    if (!held_arguments_are_sound(tensors, addresses, descriptor, offset, places)) return refuse("tensors and their readers are needed"), NULL;
    Held *h = (Held *)type->tp_alloc(type, 0);
    if (h == NULL) return NULL;
    h->tensors = Py_NewRef(tensors);
    h->descriptor = Py_NewRef(descriptor);
    h->offset = offset;
    h->window = places[0], h->meta = places[1], h->flag = places[2];
    if (held_start(h, addresses) < 0) Py_CLEAR(h);
    return (PyObject *)h;
}

static int held_traverse(Held *h, visitproc visit, void *arg) {
    Py_VISIT(h->tensors);
    Py_VISIT(h->descriptor);
    return 0;
}

static void held_dealloc(Held *h) {
    PyObject_GC_UnTrack(h);
    for (Py_ssize_t i = 0; i < h->known_count; i++) PyMem_Free(h->known[i].sizes);
    PyMem_Free(h->known);
    Py_CLEAR(h->tensors);
    Py_CLEAR(h->descriptor);
    Py_TYPE(h)->tp_free((PyObject *)h);
}

static PyObject *held_holds_py(PyObject *self, PyObject *ignored) { return PyBool_FromLong(held_hold((Held *)self, NULL, 0)); }

static PyMethodDef held_methods[] = {
    {"holds", held_holds_py, METH_NOARGS, "Whether every tensor is as it was."},
    {NULL},
};

static PyTypeObject HeldType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.Held",
    .tp_doc = "Held(tensors, functions, offset, descriptor, (window, meta, flag)): tensors whose properties must not change.",
    .tp_basicsize = sizeof(Held),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = held_new,
    .tp_traverse = (traverseproc)held_traverse,
    .tp_dealloc = (destructor)held_dealloc,
    .tp_methods = held_methods,
};
