/* Launchers of kernels from Python, with as little as possible in between.
 *
 * Launcher: calls a C++ kernel with the addresses of tensors.
 *
 * launcher(address, pointers, sizes, name, owner) -> callable. Called with `pointers` tensors (anything with data_ptr(), or an address as an
 * int) and then `sizes` ints, it calls  const char* kernel(void* const* p, const int64_t* n)  without the GIL. The kernel's result is null,
 * or a message: IndexError if it begins with "index" or "Target", else RuntimeError; the error's attribute `kernel` is the name. `owner` is kept alive: the library that the address lies in.
 *
 * Fire: launches a compiled GPU kernel, which has one dimension of blocks, through cuLaunchKernel.
 * fire(cuLaunchKernel, function, kinds, threads, shared, name, owner) -> callable(blocks, stream, *arguments) -> CUresult as an int.
 * A letter of `kinds` an argument: p pointer, i int32, l int64, - left out. Two null pointers follow: Triton's scratch memory. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

typedef const char *(*kernel_t)(void *const *, const int64_t *);

enum { MOST = 256 }; /* arguments kept on the C stack */

typedef struct {
    PyObject_HEAD
    kernel_t kernel;
    Py_ssize_t pointers, sizes;
    PyObject *name, *owner;
    vectorcallfunc vectorcall;
} Launcher;

static PyObject *data_ptr; /* interned "data_ptr" */

static int address_of(PyObject *arg, void **out) {
    if (PyLong_CheckExact(arg)) {
        *out = PyLong_AsVoidPtr(arg);
        return *out == NULL && PyErr_Occurred() ? -1 : 0;
    }
    PyObject *address = PyObject_VectorcallMethod(data_ptr, &arg, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (address == NULL) return -1;
    *out = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return *out == NULL && PyErr_Occurred() ? -1 : 0;
}

static PyObject *run(Launcher *self, PyObject *const *args, void **p, int64_t *n) {
    for (Py_ssize_t i = 0; i < self->pointers; i++)
        if (address_of(args[i], &p[i]) < 0) return NULL;
    for (Py_ssize_t i = 0; i < self->sizes; i++) {
        n[i] = PyLong_AsLongLong(args[self->pointers + i]);
        if (n[i] == -1 && PyErr_Occurred()) return NULL;
    }
    const char *message;
    Py_BEGIN_ALLOW_THREADS
    message = self->kernel(p, n);
    Py_END_ALLOW_THREADS
    if (message == NULL) Py_RETURN_NONE;
    const int index = strncmp(message, "index", 5) == 0 || strncmp(message, "Target", 6) == 0;
    PyObject *error = PyObject_CallFunction(index ? PyExc_IndexError : PyExc_RuntimeError, "s", message);
    if (error == NULL) return NULL;
    if (PyObject_SetAttrString(error, "kernel", self->name) == 0) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

static PyObject *launch(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Launcher *self = (Launcher *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf), wanted = self->pointers + self->sizes;
    if (given != wanted || (kwnames && PyTuple_GET_SIZE(kwnames))) {
        PyErr_Format(PyExc_TypeError, "%U takes %zd tensors and %zd sizes", self->name, self->pointers, self->sizes);
        return NULL;
    }
    if (wanted <= MOST) {
        void *p[MOST];
        int64_t n[MOST];
        return run(self, args, p, n);
    }
    void **p = PyMem_Malloc((size_t)wanted * sizeof(void *));
    int64_t *n = PyMem_Malloc((size_t)wanted * sizeof(int64_t));
    PyObject *result = p && n ? run(self, args, p, n) : PyErr_NoMemory();
    PyMem_Free(p);
    PyMem_Free(n);
    return result;
}

static void launcher_dealloc(Launcher *self) {
    Py_XDECREF(self->name);
    Py_XDECREF(self->owner);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *launcher_repr(Launcher *self) { return PyUnicode_FromFormat("<kernel %U>", self->name); }

static PyMemberDef launcher_members[] = {
    {"name", T_OBJECT_EX, offsetof(Launcher, name), READONLY, "the kernel's name"},
    {"pointers", T_PYSSIZET, offsetof(Launcher, pointers), READONLY, "how many tensors it takes"},
    {"sizes", T_PYSSIZET, offsetof(Launcher, sizes), READONLY, "how many sizes it takes"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, vectorcall), READONLY, NULL},
    {NULL},
};

static PyType_Slot launcher_slots[] = {
    {Py_tp_dealloc, launcher_dealloc},
    {Py_tp_repr, launcher_repr},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, launcher_members},
    {Py_tp_doc, "A C++ kernel, called with tensors and then sizes."},
    {0, NULL},
};

static PyType_Spec launcher_spec = {
    "fuselab.toolkit.runtime._launch.Launcher", sizeof(Launcher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, launcher_slots,
};

static PyObject *make_launcher(PyObject *module, PyObject *args) {
    PyObject *address, *name, *owner = Py_None;
    Py_ssize_t pointers, sizes;
    if (!PyArg_ParseTuple(args, "OnnU|O", &address, &pointers, &sizes, &name, &owner)) return NULL;
    void *kernel = PyLong_AsVoidPtr(address);
    if (kernel == NULL) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a kernel's address cannot be 0");
        return NULL;
    }
    PyTypeObject *type = *(PyTypeObject **)PyModule_GetState(module);
    Launcher *self = (Launcher *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->kernel = (kernel_t)kernel;
    self->pointers = pointers;
    self->sizes = sizes;
    self->name = Py_NewRef(name);
    self->owner = Py_NewRef(owner);
    self->vectorcall = launch;
    return (PyObject *)self;
}

/* -- GPU kernels */

typedef int (*cu_launch_t)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

typedef union {
    void *p;
    int32_t i;
    int64_t l;
} Value;

typedef struct {
    PyObject_HEAD
    cu_launch_t cu_launch;
    void *function;
    unsigned threads, shared;
    PyObject *kinds, *name, *owner;
    vectorcallfunc vectorcall;
} Fire;

/* The arguments as the driver wants them: a list of addresses of values. */
static int gather(const char *kinds, Py_ssize_t count, PyObject *const *args, Value *values, void **params) {
    int passed = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        Value *v = &values[passed];
        if (kinds[k] == '-') continue;
        if (kinds[k] == 'p') {
            if (address_of(args[k], &v->p) < 0) return -1;
        } else {
            int64_t n = PyLong_AsLongLong(args[k]);
            if (n == -1 && PyErr_Occurred()) return -1;
            if (kinds[k] == 'i') v->i = (int32_t)n;
            else v->l = n;
        }
        params[passed++] = v;
    }
    for (int scratch = 0; scratch < 2; scratch++) {
        values[passed].p = NULL;
        params[passed] = &values[passed];
        passed++;
    }
    return 0;
}

static PyObject *fire(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Fire *self = (Fire *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf), count = PyBytes_GET_SIZE(self->kinds);
    if (given != count + 2 || (kwnames && PyTuple_GET_SIZE(kwnames))) {
        PyErr_Format(PyExc_TypeError, "%U takes blocks, a stream and %zd arguments", self->name, count);
        return NULL;
    }
    unsigned long blocks = PyLong_AsUnsignedLong(args[0]);
    if (blocks == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    void *stream = PyLong_AsVoidPtr(args[1]);
    if (stream == NULL && PyErr_Occurred()) return NULL;
    Value values[MOST + 2];
    void *params[MOST + 2];
    if (gather(PyBytes_AS_STRING(self->kinds), count, args + 2, values, params) < 0) return NULL;
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = self->cu_launch(self->function, (unsigned)blocks, 1, 1, self->threads, 1, 1, self->shared, stream, params, NULL);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result);
}

static void fire_dealloc(Fire *self) {
    Py_XDECREF(self->kinds);
    Py_XDECREF(self->name);
    Py_XDECREF(self->owner);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMemberDef fire_members[] = {
    {"name", T_OBJECT_EX, offsetof(Fire, name), READONLY, "the kernel's name"},
    {"kinds", T_OBJECT_EX, offsetof(Fire, kinds), READONLY, "a letter an argument"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Fire, vectorcall), READONLY, NULL},
    {NULL},
};

static PyType_Slot fire_slots[] = {
    {Py_tp_dealloc, fire_dealloc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, fire_members},
    {Py_tp_doc, "A GPU kernel, called with blocks, a stream, tensors and sizes."},
    {0, NULL},
};

static PyType_Spec fire_spec = {
    "fuselab.toolkit.runtime._launch.Fire", sizeof(Fire), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, fire_slots,
};

static PyObject *make_fire(PyObject *module, PyObject *args) {
    PyObject *cu_launch, *function, *kinds, *name, *owner = Py_None;
    unsigned threads, shared;
    if (!PyArg_ParseTuple(args, "OOSIIU|O", &cu_launch, &function, &kinds, &threads, &shared, &name, &owner)) return NULL;
    void *address = PyLong_AsVoidPtr(cu_launch), *handle = PyLong_AsVoidPtr(function);
    if (address == NULL || handle == NULL || PyBytes_GET_SIZE(kinds) > MOST) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no launch function, no kernel, or too many arguments");
        return NULL;
    }
    PyTypeObject *type = ((PyTypeObject **)PyModule_GetState(module))[1];
    Fire *self = (Fire *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->cu_launch = (cu_launch_t)address;
    self->function = handle;
    self->threads = threads;
    self->shared = shared;
    self->kinds = Py_NewRef(kinds);
    self->name = Py_NewRef(name);
    self->owner = Py_NewRef(owner);
    self->vectorcall = fire;
    return (PyObject *)self;
}

static PyMethodDef methods[] = {
    {"fire", make_fire, METH_VARARGS, "fire(cuLaunchKernel, function, kinds, threads, shared, name, owner=None) -> callable"},
    {"launcher", make_launcher, METH_VARARGS, "launcher(address, pointers, sizes, name, owner=None) -> callable"},
    {NULL},
};

static int exec_module(PyObject *module) {
    if (data_ptr == NULL && (data_ptr = PyUnicode_InternFromString("data_ptr")) == NULL) return -1;
    PyObject **types = PyModule_GetState(module);
    if ((types[0] = PyType_FromModuleAndSpec(module, &launcher_spec, NULL)) == NULL) return -1;
    if ((types[1] = PyType_FromModuleAndSpec(module, &fire_spec, NULL)) == NULL) return -1;
    return PyModule_AddObjectRef(module, "Launcher", types[0]) < 0 ? -1 : PyModule_AddObjectRef(module, "Fire", types[1]);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, exec_module}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_launch", "Calls kernels with the addresses of tensors.", 2 * sizeof(PyObject *), methods, module_slots,
};

PyMODINIT_FUNC PyInit__launch(void) { return PyModuleDef_Init(&module); }
